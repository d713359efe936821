r"""Outer passes: a level is rounded to integers several times, ever finer, and each pass splits the
integers of the pass before.

With a million cells no family can be estimated at once, and none needs to be. Let :math:`F_0` be a
query whose answers are exact in every unit (published counts, say). Let :math:`F_1, F_2, \dots` be
the queries that the passes of a strategy freeze (:mod:`das.model.strategy`). Pass i knows each
child's integers :math:`f_{i-1,c}` on the answers of :math:`F_{i-1}`, and the parent's integers p on
the answers of :math:`F_i`. It solves

.. math:: \min_{x \ge 0} \sum_{q} \sum_c \frac{1}{\mathrm{Var}_{qc}} \|Q_q x_c - m_{qc}\|^2
          \quad\text{with}\quad \sum_c x_c = p, \quad F_{i-1} x_c = f_{i-1,c},

over the answers x of :math:`F_i` where the parent has somebody, and rounds. Every pass has this
form, even the first.

*Always feasible.* The variables are pairs (child, answer of :math:`F_i`). Sums of children and sums
of parents are two partitions of them. Within one answer of :math:`F_{i-1}`, every child with
somebody there can hold every variable. So this is a transportation problem. Its supplies and
demands are integers with equal sums, because :math:`F_{i-1} p = \sum_c f_{i-1,c}`. So it has
solutions, its vertices are integers, and its rounding is a flow (:mod:`das.solve.network`). Where
some cells are possible only in some places, *kinds* keep it feasible
(:mod:`das.estimate.fixed_counts`).

*Requests.* A variable exists only where both the parent and the child have somebody. Only such
answers are requested, and only these are drawn
(:class:`das.model.sparse_measurement.SparseSource`). A pass's requests depend only on what was
published above and rounded before. So all used answers have the distribution of a full measurement
(:mod:`das.noise.coordinates`). A variable that is alone in its sum is determined, and needs no
request.

An only child is its parent. The root has no parent: its variables are all cells that can occur.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.engine import InProcess, Progress, Silent, in_order
from das.estimate.fixed_counts import FixedCounts
from das.estimate.separable import SeparableFamily, solutions
from das.estimate.upward import Upward
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.query import Query
from das.model.schema import Schema
from das.model.solution import Certificate, Certificates, Solution
from das.model.sparse_measurement import SparseSource
from das.model.spine import Spine
from das.model.strategy import OuterPass
from das.solve import LayeredGram, children_qp, round_children
from das.solve.chain import Link

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Variables of one task, about.
TOGETHER = 1 << 18
_TOLERANCE = 1e-6  # relative duality gap
_WEAK = (
    1e-2  # weight of what is taken for granted where nothing was measured, as a share of what was
)


@dataclass(frozen=True, eq=False)
class OuterEstimates(Frozen):
    """Integer histograms and the worst certificates, by level."""

    counts: Mapping[str, Histogram]
    certificates: Mapping[str, Certificates]


@dataclass(frozen=True, eq=False)
class RefinedEstimates(OuterEstimates):
    """With the histogram of the lowest level by kind, from which the level below goes on."""

    by_kind: Histogram


def refined(
    source: SparseSource | Upward,
    spine: Spine,
    schema: Schema,
    outer: Sequence[OuterPass],
    fixed: FixedCounts,
    pool: Executor | None = None,
    progress: Progress | None = None,
    above: tuple[str, Histogram] | None = None,
) -> RefinedEstimates:
    """Integer histograms of every level, root first, each the sum of the level below and with the
    sums that are ``fixed``. Of a subtree the levels below the upper tree alone: ``above`` are the
    upper tree's lowest level and its histogram by kind.

    Raises :class:`das.errors.DasError` for what the ``source`` does not have, and
    :class:`InfeasibleError` where what is held fixed does not add up."""
    pool, progress = pool or InProcess(), progress or Silent()
    done: dict[str, Histogram] = {}
    certificates: dict[str, Certificates] = {}
    first, parents = (0, None) if above is None else (spine.index(above[0]) + 1, above[1])
    for level in spine.levels[first:]:
        known, last, worst = fixed.counts[level], schema.query(fixed.query), Certificates()
        for number, outer_pass in enumerate(outer):
            progress.stage(
                f"estimate {schema.name}: {level}, pass {number + 1}", spine.units(level)
            )
            step = OuterStep(source, spine, schema, level, outer_pass, last, fixed, parents, known)
            parts = []
            for rows, c in in_order(pool, _solve, step.tasks()):
                parts.append(rows)
                worst = worst.merge(c)
                progress.advance(rows.units)
            known, last = Histogram.concatenate(parts), step.frozen
        parents, certificates[level] = known, worst
        done[level] = fixed.without_kinds(known, schema.cells)
    return RefinedEstimates(done, certificates, known)


@dataclass(frozen=True, eq=False)
class RefinedFamily(Frozen):
    """The problem of one pass. Its variables are ``key`` (kind and answer of the frozen query,
    increasing), with the parent's counts ``parent``. Each variable is in the sum ``group``, and the
    children have the sums ``known`` ``(children, groups)``. ``known`` determines all variables that
    are not ``free``. On the ``free`` ones, ``index`` is that of each measured query, and ``chain``
    that of each link of the chain. ``weight`` and ``rhs`` are those of the least squares, and
    ``answers`` what was measured, where it begins."""

    cells: int
    key: Ints
    parent: Ints | None
    group: Ints
    known: Ints
    free: Ints
    index: tuple[Ints, ...]
    weight: Floats
    rhs: Floats
    chain: tuple[Ints, ...]
    answers: tuple[Floats, ...] = ()

    def solved(self, estimate: Solution | None = None) -> tuple[Histogram, Certificates]:
        """The rows of the children, and the certificates; ``estimate``: of the free variables, if
        it is known."""
        x = self.known[:, self.group]
        worst = Certificates()
        if len(self.free):
            x[:, self.free], worst = self._integers(estimate)
        unit, variable = np.nonzero(x)
        ends = np.searchsorted(unit, np.arange(len(x) + 1)).astype(np.int64)
        return Histogram(self.cells, ends, self.key[variable], x[unit, variable]), worst

    @cached_property
    def _sums(self) -> tuple[Ints, Ints, Ints | None]:
        """Of the free variables the children's sums, the sum that each is in, and the parent's
        counts."""
        groups, group = np.unique(self.group[self.free], return_inverse=True)
        parent = None if self.parent is None else self.parent[self.free]
        return self.known[:, groups], group, parent

    @property
    def separable(self) -> SeparableFamily | None:
        """The same problem, where its variables share nothing but sums."""
        known, group, parent = self._sums
        return SeparableFamily.of(known, group, parent, self.index, self.weight, self.rhs)

    def _estimate(self) -> Solution:
        known, group, parent = self._sums
        bounds = known.astype(float)
        return children_qp(
            LayeredGram(list(self.index), self.weight, list(self.answers)),
            self.rhs,
            None if parent is None else parent.astype(float),
            groups=group,
            lower=bounds,
            upper=bounds,
            support=known[:, group] > 0,
            tol=_TOLERANCE,
        )

    def _integers(self, estimate: Solution | None) -> tuple[Ints, Certificates]:
        known, group, parent = self._sums
        estimate = estimate or self._estimate()
        links = [*(Link(i) for i in self.chain), Link(group, known, known)]
        total = None if parent is not None else int(known.sum())
        rounded = round_children(estimate.x.astype(float), parent, chain=links, total=total)
        found = Certificates(
            Certificate().add(estimate),
            Certificate(solves=1, widened=Certificate().add(rounded).widened),
        )
        return rounded.x.astype(np.int64), found


def _solve(families: Sequence[RefinedFamily]) -> tuple[Histogram, Certificates]:
    parts, worst = [], Certificates()
    separable = {i: s for i, f in enumerate(families) if (s := f.separable) is not None}
    known = solutions(separable, _TOLERANCE)
    for number, family in enumerate(families):
        rows, c = family.solved(known.get(number))
        parts.append(rows)
        worst = worst.merge(c)
    return Histogram.concatenate(parts), worst


@dataclass(frozen=True, eq=False)
class OuterStep(Frozen):
    """One pass at one level: ``last`` is the query that was frozen before, of whose answers (by
    kind) the units have ``known``; of the parents the cells (by kind) are ``above``."""

    source: SparseSource | Upward
    spine: Spine
    schema: Schema
    level: str
    outer_pass: OuterPass
    last: Query
    fixed: FixedCounts
    above: Histogram | None
    known: Histogram

    @property
    def frozen(self) -> Query:
        return self.schema.query(self.outer_pass.frozen)

    @property
    def cells(self) -> int:
        return self.fixed.kinds * self.frozen.answers

    def tasks(self) -> Iterator[list[RefinedFamily]]:
        families, size = list[RefinedFamily](), 0
        starts = self.spine.children(self.level)
        measured = self._measured()
        for number, (start, stop) in enumerate(
            zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        ):
            family = self._family(number, start, stop, measured)
            if families and size + family.known.shape[0] * len(family.key) > TOGETHER:
                yield families
                families, size = [], 0
            families.append(family)
            size += family.known.shape[0] * len(family.key)
        if families:
            yield families

    def _measured(self) -> Mapping[str, Floats]:
        """The variances of the units by each query of the pass."""
        there = self.source.queries(self.level)
        return {
            q: self.source.variance(self.level, q) for q in self.outer_pass.queries if q in there
        }

    def _family(
        self, number: int, start: int, stop: int, measured: Mapping[str, Floats]
    ) -> RefinedFamily:
        key, cell, parent = self._variables(number)
        kind = key // self.frozen.answers
        group_key, group = np.unique(
            kind * self.last.answers + self.last.at(cell), return_inverse=True
        )
        known = self._known(group_key, start, stop)
        alone = np.bincount(group) == 1
        free = np.flatnonzero(~alone[group] & (known[:, group] > 0).any(axis=0))
        if stop - start == 1 and parent is not None:  # an only child
            known, group, free = parent[None, :], np.arange(len(key)), free[:0]
        index, weight, rhs, answers = self._asked(cell, known, group, parent, free, start, measured)
        chain = [self.schema.query(q).at(cell[free]) for q in self.outer_pass.chain[1:]]
        links = tuple(
            np.unique(kind[free] * (c.max(initial=0) + 1) + c, return_inverse=True)[1]
            for c in chain
        )
        return RefinedFamily(
            self.cells, key, parent, group, known, free, index, weight, rhs, links, answers
        )

    def _variables(self, number: int) -> tuple[Ints, Ints, Ints | None]:
        """The answers of the frozen query, by kind, a cell of each, and how many the parent has."""
        if self.above is None:
            place = self.fixed.possible(self.schema, self.known, self.last)
            key = place // self.schema.cells * self.frozen.answers + self.frozen.at(
                place % self.schema.cells
            )
            key, first = np.unique(key, return_index=True)
            return key, place[first] % self.schema.cells, None
        row = self.above.rows(number, number + 1)
        cell = row.cell % self.schema.cells
        key = row.cell // self.schema.cells * self.frozen.answers + self.frozen.at(cell)
        key, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        parent = np.zeros(len(key), dtype=np.int64)
        np.add.at(parent, inverse, row.count)
        return key, cell[first], parent

    def _known(self, group_key: Ints, start: int, stop: int) -> Ints:
        rows = self.known.rows(start, stop)
        out = np.zeros((stop - start, len(group_key)), dtype=np.int64)
        out[rows.unit, np.searchsorted(group_key, rows.cell)] = rows.count
        return out

    def _asked(
        self,
        cell: Ints,
        known: Ints,
        group: Ints,
        parent: Ints | None,
        free: Ints,
        start: int,
        measured: Mapping[str, Floats],
    ) -> tuple[tuple[Ints, ...], Floats, Floats, tuple[Floats, ...]]:
        """The index of each query on the free variables, its weights ``(queries, children)``, the
        right-hand side of the least squares, and the measurements, all minus the determined variables.
        Some children are not measured for each variable by itself, or have one in several kinds.
        These are also pulled, weakly, towards the shares of the parent."""
        children = len(known)
        rhs = np.zeros((children, len(free)))
        if not len(free):
            return (), np.zeros((0, children)), rhs, ()
        able = known[:, group[free]] > 0
        told = np.zeros_like(able)  # whether an answer is of a variable alone
        fixed = known[:, group].copy()
        fixed[:, free] = 0
        others = np.flatnonzero(fixed.any(axis=0))
        index, weights, answers = [], [], []
        for name, variance in measured.items():
            query = self.schema.query(name)
            answer, of = np.unique(query.at(cell[free]), return_inverse=True)
            weight = 1 / variance[start : start + children]
            value = self._answers(name, start, able & (weight > 0)[:, None], answer, of)
            there = query.at(cell[others])
            place = np.searchsorted(answer, there)
            here = (place < len(answer)) & (answer[np.minimum(place, len(answer) - 1)] == there)
            np.subtract.at(value.T, place[here], fixed[:, others[here]].T)
            rhs += weight[:, None] * value[:, of]
            told |= (weight > 0)[:, None] & (np.bincount(of) == 1)[of]
            index.append(of)
            weights.append(weight)
            answers.append(value)
        if (untold := (able & ~told).any(axis=1)).any():
            most = max((float(w.max()) for w in weights), default=0.0) or 1.0
            weak = np.where(untold, _WEAK * most, 0.0)
            rhs += weak[:, None] * self._shares(known, group, parent)[:, free]
            index.append(np.arange(len(free)))
            weights.append(weak)
            answers.append(self._shares(known, group, parent)[:, free])
        return tuple(index), np.array(weights), rhs, tuple(answers)

    def _answers(self, query: str, start: int, able: Mask, answer: Ints, of: Ints) -> Floats:
        """The noisy answers of the children from ``start`` on, ``(children, answers)``. Variable i
        is in the answer ``of[i]`` of ``answer``. Only answers with a variable that a child is
        ``able`` to have are requested; the others are 0."""
        asked = np.zeros((len(able), len(answer)), dtype=bool)
        child, at = np.nonzero(able)
        asked[child, of[at]] = True
        child, at = np.nonzero(asked)
        value = np.zeros(asked.shape)
        value[child, at] = self.source.answers(self.level, query, start + child, answer[at])
        return value

    def _shares(self, known: Ints, group: Ints, parent: Ints | None) -> Floats:
        """Each child's sums, shared out as the parent's are, or evenly where there is no parent."""
        of = np.ones(len(group)) if parent is None else parent.astype(float)
        total = np.bincount(group, of)
        return known[:, group] * (of / total[group])
