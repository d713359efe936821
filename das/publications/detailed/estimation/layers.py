"""What is measured of the regions of one type, as estimation takes it: totals from both stages, and
tables.

Several regions of the same blocks are one region that was measured several times: the first of
them, in the tree, is the *host*, and others are its *guests*. Their totals meet by the inverse of
variances, and their tables in the coarsest cells that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from das.model.budget import PlannedMeasurement
from das.model.frozen import Frozen
from das.publications.detailed.estimation.combine import CombinedEstimate, combined
from das.publications.detailed.model.iterations import Iterations
from das.publications.detailed.model.records import GroupMeasurement
from das.publications.detailed.model.tables import FIRST, ONLY, AdaptiveTable, LevelPlan

# Counts that add up, region by region: least squares over a tree, up and down.
#
# A parent is the sum of its children, for each iteration by itself. Independent unbiased estimates go
# up and down the tree once (Kalman, Rauch, Tung and Striebel), with one number for each region and
# iteration:
#
# *up*, :math:`u = \alpha\,\sum_c u_c + (1-\alpha)\,y` for a parent that was itself measured as y,
# weighted by inverse variances; *down*, :math:`\hat x_c = u_c + \kappa_c(\hat x - \sum_c u_c)`,
# :math:`\kappa_c = p_c / \sum_c p_c`. So children add up to their parent.
#
# Weights come from *working* variances. These are functions of the sizes of tables, which are public
# before any noise is used; with weights that depend on the noise, estimates would be biased. The
# *true* variance of the same weighted sum is computed, too (:mod:`das.publications.detailed.estimation.combine`). The two
# differ only near thresholds. The true variance is exact, because the combined estimates are
# independent.
#
# All arrays are ``(regions, iterations)``. :mod:`das.publications.detailed.estimation.layers` does the same where the regions
# of a family share more than a total.

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KnownTotals(Frozen):
    """Estimates, the variances that they are weighted by (infinite where nothing is known), and
    those that they have."""

    value: Floats
    work: Floats
    true: Floats

    def rows(self, some: slice | NDArray[np.int64] | tuple[NDArray[np.int64], ...]) -> KnownTotals:
        return KnownTotals(self.value[some], self.work[some], self.true[some])

    @staticmethod
    def nothing(shape: tuple[int, ...]) -> KnownTotals:
        return KnownTotals(np.zeros(shape), np.full(shape, np.inf), np.zeros(shape))


def met(one: KnownTotals, other: KnownTotals) -> KnownTotals:
    """Two estimates of the same, which are independent, as one."""
    with np.errstate(invalid="ignore", divide="ignore"):
        a = 1 / (1 + one.work / other.work)  # the weight of the one
    a = np.where(np.isinf(one.work), 0.0, np.where(np.isinf(other.work), 1.0, a))
    work = np.where(a > 0, a * np.where(a > 0, one.work, 0.0), other.work)
    return KnownTotals(
        other.value + a * (one.value - other.value),
        work,
        a**2 * one.true + (1 - a) ** 2 * other.true,
    )


def added(children: KnownTotals, parent: NDArray[np.int64], parents: int) -> KnownTotals:
    """The sums of children, ``parent`` of each in order, ``(parents, iterations)``; 0 of a parent
    without children."""
    first = np.flatnonzero(np.diff(parent, prepend=-1))
    out = []
    for x in (children.value, children.work, children.true):
        sums = np.zeros((parents, x.shape[1]))
        if len(first):
            sums[parent[first]] = np.add.reduceat(x, first, axis=0)
        out.append(sums)
    return KnownTotals(*out)


def shared(
    children: KnownTotals, sums: KnownTotals, final: KnownTotals, parent: NDArray[np.int64]
) -> KnownTotals:
    """The final estimates of children, given the estimates ``children`` from their own subtrees and
    the ``final`` estimates of their parents."""
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(sums.work > 0, 1 / sums.work, 0.0)
        alpha = final.work * part  # how far the sum of the children is in the parent
        kappa = children.work * part[parent]
        value = children.value + kappa * (final.value - sums.value)[parent]
        work = children.work - kappa**2 * (sums.work - final.work)[parent]
        both = (1 - 2 * alpha) * sums.true + final.true
        true = (
            children.true
            - 2 * kappa * (1 - alpha)[parent] * children.true
            + kappa**2 * both[parent]
        )
    return KnownTotals(value, np.maximum(work, 0.0), np.maximum(true, 0.0))


# Tables that add up: least squares where the members of a family share the cells of a table, or
# several groups of a region.
#
# The *state* of a region, x, is all cells of its tables, for one iteration or for several that belong
# together. It has a mean :math:`\mu` and two covariance matrices, the working C and the true
# :math:`C_t` (:mod:`das.publications.detailed.estimation.layers`). Let :math:`Ax = o` be observed with an independent error of
# covariance O. Kalman's rules, in Joseph's form for the true covariance, give
#
# .. math:: K = C A^\top (A C A^\top + O)^{-1}, \quad \mu + K(o - A\mu), \quad C - KAC, \quad (I - KA)\,C_t\,(I - KA)^\top + K O_t K^\top.
#
# A family observes :math:`A_p x_p = \sum_c A_c x_c` in its coarsest common cells. A regional group
# that is the sum of detailed ones observes :math:`x_R = \sum_d x_d` without error. The downward pass
# is that of Rauch, Tung and Striebel. Inverses are those of Moore and Penrose, because some of these
# equations follow from others.

#: Below this share of the largest, an eigenvalue is rounding error.
NONE = 1e-11


@dataclass(frozen=True, eq=False)
class Belief:
    """The ``mean`` ``(cells,)``, and the ``work`` and ``true`` covariances ``(cells, cells)``."""

    mean: Floats
    work: Floats
    true: Floats

    def __len__(self) -> int:
        return len(self.mean)

    def seen(self, rows: Floats) -> Belief:
        """Linear forms of it."""
        return Belief(rows @ self.mean, rows @ self.work @ rows.T, rows @ self.true @ rows.T)


def of_group(cells: Floats, v2: float, total: float, work: float, true: float) -> Belief:
    r"""A table whose cells have errors of variance v2, and whose total is known better than by
    their sum: :math:`y_j + (t - S)/k`. The contrasts of the cells are independent of both stages'
    totals."""
    k = len(cells)
    contrast = v2 * (np.eye(k) - 1 / k)
    return Belief(cells + (total - cells.sum()) / k, contrast + work / k**2, contrast + true / k**2)


def beside(states: Sequence[Belief]) -> Belief:
    """Independent ones, one after the other."""
    mean = np.concatenate([np.zeros(0), *(s.mean for s in states)])
    work, true = np.zeros((len(mean),) * 2), np.zeros((len(mean),) * 2)
    start = 0
    for s in states:
        here = slice(start, start + len(s))
        work[here, here], true[here, here] = s.work, s.true
        start += len(s)
    return Belief(mean, work, true)


def added_cells(states: Sequence[Belief]) -> Belief:
    return Belief(
        *(np.sum([getattr(s, of) for s in states], axis=0) for of in ("mean", "work", "true"))
    )


def condition(state: Belief, rows: Floats, seen: Belief) -> Belief:
    """With an observation of linear forms of it."""
    if not len(rows):
        return state
    gain = state.work @ rows.T @ _inverse(rows @ state.work @ rows.T + seen.work)
    left = np.eye(len(state)) - gain @ rows
    return Belief(
        state.mean + gain @ (seen.mean - rows @ state.mean),
        _even(left @ state.work),
        _even(left @ state.true @ left.T + gain @ seen.true @ gain.T),
    )


def exactly(rows: int) -> Belief:
    """That some linear forms are 0."""
    return Belief(np.zeros(rows), np.zeros((rows, rows)), np.zeros((rows, rows)))


def shared_cells(child: Belief, rows: Floats, sums: Belief, final: Belief) -> Belief:
    """A child, given that the sum of the family's children is ``final``. ``rows`` map the child's
    cells into that sum. ``sums`` is the sum by the children's own measurements
    (:func:`das.publications.detailed.estimation.layers.shared`)."""
    back = _inverse(sums.work)
    kappa, alpha = child.work @ rows.T @ back, final.work @ back
    rest = np.eye(len(alpha)) - alpha
    cross = kappa @ rest @ rows @ child.true
    both = rest @ sums.true @ rest.T + final.true - alpha @ sums.true @ alpha.T
    return Belief(
        child.mean + kappa @ (final.mean - sums.mean),
        _even(child.work - kappa @ (sums.work - final.work) @ kappa.T),
        _even(child.true - cross - cross.T + kappa @ both @ kappa.T),
    )


def _inverse(matrix: Floats) -> Floats:
    if len(matrix) == 1:
        return np.array([[1 / matrix[0, 0] if matrix[0, 0] > 0 else 0.0]])
    return np.asarray(np.linalg.pinv(matrix, rcond=NONE, hermitian=True), dtype=np.float64)


def _even(matrix: Floats) -> Floats:
    return (matrix + matrix.T) / 2


Ints = NDArray[np.int64]
#: The size of a group's table where the group is not measured.
NOT_THERE = -1


@dataclass(frozen=True, eq=False)
class LevelSource:
    """One level's measurements of some regions, and their plan."""

    plan: LevelPlan
    measured: GroupMeasurement

    @cached_property
    def sums(self) -> Ints:
        """The sum of each group's answers."""
        return np.add.reduceat(self.measured.values, self.measured.indptr[:-1])

    @cached_property
    def v2(self) -> float:
        return max(self.plan.measurement(self.plan.table.name).variance, 1e-12)

    @cached_property
    def v1(self) -> float:
        """The variance of the first stage; infinite if it is not used
        (:mod:`das.publications.detailed.estimation.combine`)."""
        draw = self.plan.measurement(FIRST)
        return max(draw.variance, 1e-12) if draw.mechanism.power == 2 else np.inf

    @cached_property
    def windows(self) -> tuple[Floats, Floats]:
        """Between which numbers the first stage of each size is."""
        ends = np.array([-np.inf, *self.plan.thresholds, np.inf])
        return ends[:-1], ends[1:]


@dataclass(eq=False)
class Layer:
    """Regions ``(regions,)`` of a type and the iterations ``columns``. ``of`` says which source
    each column is of, or -1, and ``place`` where it is there."""

    kind: str
    table: AdaptiveTable
    regions: NDArray[np.bytes_]
    columns: NDArray[np.int32]
    sources: tuple[LevelSource, ...]
    of: NDArray[np.int8]
    place: Ints
    rows: Ints
    guests: list[tuple[Layer, Ints, Ints]] = field(default_factory=list)

    @staticmethod
    def made(
        kind: str,
        table: AdaptiveTable,
        regions: NDArray[np.bytes_],
        sources: Sequence[LevelSource],
        iterations: Iterations,
        columns: NDArray[np.int32],
        rows: Ints | None = None,
    ) -> Layer:
        """The layer of all ``regions`` of the ``sources``, or of some ``rows`` of them."""
        of, place = np.full(len(columns), -1, dtype=np.int8), np.zeros(len(columns), dtype=np.int64)
        for i, source in enumerate(sources):
            members = iterations.measured_at(source.plan.at)
            here = np.isin(columns, members)
            of[here], place[here] = i, np.searchsorted(members, columns[here])
        rows = np.arange(len(regions)) if rows is None else rows
        return Layer(kind, table, regions[rows], columns, tuple(sources), of, place, rows)

    def __len__(self) -> int:
        return len(self.regions)

    @cached_property
    def measured(self) -> NDArray[np.bool_]:
        """Which columns are."""
        return self.of >= 0

    def parts(self) -> Iterator[tuple[LevelSource, Ints, Ints]]:
        """Each source, its columns here, and its groups ``(regions, columns)``."""
        for i, source in enumerate(self.sources):
            here = np.flatnonzero(self.of == i)
            if len(here):
                yield (
                    source,
                    here,
                    self.rows[:, None] * source.measured.iterations + self.place[here],
                )

    @cached_property
    def size(self) -> NDArray[np.int8]:
        """The size of each group's own table."""
        out = np.full((len(self), len(self.columns)), NOT_THERE, dtype=np.int8)
        for source, here, group in self.parts():
            out[:, here] = source.measured.size[group]
        return out

    @cached_property
    def own(self) -> tuple[KnownTotals, NDArray[np.bool_]]:
        """The estimate of each total from both stages, and where a threshold matters."""
        shape = len(self), len(self.columns)
        out, matters = KnownTotals.nothing(shape), np.zeros(shape, dtype=bool)
        value, work, true = (x.copy() for x in (out.value, out.work, out.true))
        for source, here, group in self.parts():
            found = _totals(source, group, self.place[here])
            value[:, here], work[:, here], true[:, here], matters[:, here] = (
                found.value,
                found.work,
                found.true,
                found.matters,
            )
        return KnownTotals(value, work, true), matters

    @cached_property
    def total(self) -> KnownTotals:
        """The estimates of totals, combined with those of the regions' guests."""
        out, _ = self.own
        value, work, true = (np.array(x) for x in (out.value, out.work, out.true))
        for guest, host, theirs in self.guests:
            at = np.ix_(host, np.flatnonzero(self.measured))
            both = met(
                KnownTotals(value[at], work[at], true[at]),
                guest.own[0].rows(np.ix_(theirs, at[1][0])),
            )
            value[at], work[at], true[at] = both.value, both.work, both.true
        return KnownTotals(value, work, true)

    @cached_property
    def node_size(self) -> NDArray[np.int8]:
        """The size of the largest table of each region, including its guests' tables."""
        out = self.size.copy()
        for guest, host, theirs in self.guests:
            out[host] = np.where(
                self.measured, np.maximum(out[host], guest.size[theirs]), out[host]
            )
        return out

    @cached_property
    def several(self) -> NDArray[np.bool_]:
        """Where a region has two tables of an iteration, under two names."""
        out = (self.size > 0).astype(np.int8)
        for guest, host, theirs in self.guests:
            out[host] += (guest.size[theirs] > 0) & self.measured
        return out > 1

    def group(self, row: int, column: int) -> tuple[LevelSource, int]:
        source = self.sources[self.of[column]]
        return source, int(self.rows[row]) * source.measured.iterations + int(self.place[column])

    def members(self, row: int, column: int) -> Iterator[tuple[Layer, int]]:
        """The region under each name that it is measured under, with this iteration."""
        if self.measured[column]:
            yield self, row
        for guest, host, theirs in self.guests:
            if guest.measured[column] and len(found := np.flatnonzero(host == row)):
                yield guest, int(theirs[found[0]])

    def state(self, row: int, column: int) -> Belief:
        """All tables and totals of one region and iteration, in the cells of its largest table."""
        found = sorted(self.members(row, column), key=lambda m: -m[0].size[m[1], column])
        first, *others = (_alone(layer, at, column) for layer, at in found)
        sizes = [int(layer.size[at, column]) for layer, at in found]
        for size, other in zip(sizes[1:], others, strict=True):
            first = condition(first, coarser(self.table, sizes[0], size), other)
        return first


def _totals(source: LevelSource, group: Ints, place: Ints) -> CombinedEstimate:
    m, (low, high) = source.measured, source.windows
    size = m.size[group]
    only = np.broadcast_to(m.only[place], group.shape)
    answers = np.array(source.plan.table.answers, dtype=np.float64)
    vs = answers[size] * source.v2
    v1 = np.full(group.shape, source.v1)
    if only.any():
        vs = np.where(only, max(source.plan.measurement(ONLY).variance, 1e-12), vs)
        v1 = np.where(only, np.inf, v1)
    return combined(m.first[group], source.sums[group], low[size], high[size], v1, vs)


def _alone(layer: Layer, row: int, column: int) -> Belief:
    known, source, group = layer.own[0], *layer.group(row, column)
    m = source.measured
    cells = m.values[m.indptr[group] : m.indptr[group + 1]].astype(np.float64)
    total, work, true = (float(x[row, column]) for x in (known.value, known.work, known.true))
    return of_group(cells, source.v2, total, work, true)


@lru_cache(maxsize=64)
def _coarser(fine: bytes, coarse: bytes) -> Floats:
    of, to = (np.frombuffer(x, dtype=np.int16) for x in (fine, coarse))
    out = np.zeros((int(to.max()) + 1, int(of.max()) + 1))
    out[to, of] = 1.0
    return out


def coarser(table: AdaptiveTable, fine: int, coarse: int) -> Floats:
    """Which answers of one size each answer of a coarser one is the sum of, ``(coarse, fine)``.

    >>> from das.publications.detailed.model.tables import TENURE
    >>> coarser(TENURE, 1, 0)
    array([[1., 1., 1.]])"""
    return _coarser(table.sizes[fine].tobytes(), table.sizes[coarse].tobytes())


def draw_of(source: LevelSource, only: bool) -> PlannedMeasurement:
    """The noise of a group's second stage."""
    return source.plan.measurement(ONLY if only else source.plan.table.name)
