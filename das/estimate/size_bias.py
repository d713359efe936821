r"""Counts of the lowest units without the bias that non-negativity gives them.

*The bias.* A family of the lowest level is estimated by least squares under :math:`x \ge 0` and the
sums of its parent. Where nobody is in a cell, negative noise is cut off. The parent's sum takes the
surplus from all children alike. So large units lose people, and small ones gain them. None of it
depends on the truth beyond the sizes of the units. Let :math:`p_c = h_c / H_d` be the parent's
published share of cell c among the :math:`H_d` people of its dwelling group d. Let people of child b
settle as :math:`m_{bc} = t_{bd}\,p_c`. The noise of the child's own estimate of a cell is taken to be
normal with variance :math:`\sigma_{bc}^2`. With

.. math:: g(u; \sigma) = u\,\Phi(u/\sigma) + \sigma\,\varphi(u/\sigma) = E \max(0, u + \sigma Z),
          \qquad e(u; \sigma) = (u^2 + \sigma^2)\,\Phi(u/\sigma) + u\,\sigma\,\varphi(u/\sigma)

(e is the second moment), the multiplier :math:`\lambda_c` of the sum of a cell solves

.. math:: \sum_b g(m_{bc} - \lambda_c w_{bc}; \sigma_{bc}) = \sum_b m_{bc}.

Here :math:`w_{bc}` is :math:`\sigma_{bc}^2` over its mean: 1 where children are measured alike. Then

.. math:: \beta_{bc} = g(m_{bc} - \lambda_c w_{bc}; \sigma_{bc}) - m_{bc}, \qquad
          B_{bd} = \sum_{c \in d} \beta_{bc}, \qquad s_{bd}^2 = \sum_{c \in d} (e - g^2)

are the bias of a cell, and the bias and the variance of a total. The multiplier is taken as fixed,
which costs some hundredths of a person. The variance is that of a child among many. No number is to
be chosen.

*The correction.* Let T be the totals of the estimate x, and M the child's share of the housing
units times :math:`H_d`. Start with :math:`t = M` for households, and :math:`t = T` for all others.
Twice, or three times where no housing is known, with :math:`u = T - B(t)` and :math:`s^2 \ge 1`,

.. math:: V = aM + bM^2, \qquad
          w = \min\Bigl(\frac{s^2}{V + s^2},\ \frac{D s}{|M - u|}\Bigr), \qquad t = (1 - w)\,u + w M,

with :math:`w = 0` where no housing is known. Then :math:`t := \max(l,\ t + (1 - w) s^2 k)` with the
k that meets :math:`H_d`; l is the least that the child holds. The spread of households about their
housing, a and b, is estimated (below).

*The limit.* Housing moves a total by at most D = 3/4 of its standard deviation (the limited
translation of Efron and Morris, JASA 1971). The move falls as u grows, so it is not positively
correlated with the noise of u. So whatever the truth is, the mean squared error of t before the
sums is at most :math:`(1 + D^2) s^2`: its root is at most 1.25 times that of u. Without the limit no
bound holds where a unit is unlike its housing.

Last, with
:math:`\tau = x - \beta(t)` and the family's normal matrix J, the counts minimize

.. math:: \sum_b (x_b - \tau_b)' J_b (x_b - \tau_b) + \sum_{b,d} (1'x_{bd} - t_{bd})^2

under the same constraints. Composition enters by an expected bias alone, so nobody is averaged into
the parent. In this step, :math:`m_{bc}` is first brought to within two standard deviations of the
child's own :math:`x_{bc} + \lambda_c w_{bc}`, from above alone where x is 0. That is for units unlike
their parent.

*Left as they are:* families without a choice, those with a child that is not measured cell by cell,
and those too large for a matrix.

The families of a batch are corrected together: their cells are one array, with the sums as indices.
Each sum adds its own numbers in the same order as alone, so no result depends on the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from math import ceil, erf, exp, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from das.engine import in_order
from das.estimate.batch import Steps, families, solve_jointly
from das.estimate.family import Array, Family, Message
from das.estimate.least_squares import LeastSquares, normal_equations
from das.model.constraint import NO_LIMIT, Bounds, LevelBounds
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.post_processing import MANY, BiasCorrection, Dispersion
from das.model.query import DETAILED
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import Universe
from das.solve import Kinds, Partitions

Index = NDArray[np.intp]

#: The level of a dwelling attribute that is no facility.
HOUSEHOLDS = 0
#: Newton steps: for the multipliers, after six of which a bias is right to a hundredth of a person;
#: for a sum, whose least values bind one after the other.
_STEPS, _SUM_STEPS = 8, 12
#: Rounds with housing and without.
_HOUSED, _ALONE = 2, 3
#: The least corrected total that a normal error speaks for; and the least one where the standard
#: deviation is a quarter too small, since no unit has quite the shares of its parent.
SPOKEN, LARGE = 10, 200
#: Standard deviations: by which housing can move a total, and by which a cell can differ from its mean.
FARTHEST, NOISE = 0.75, 2.0
#: The least expected count of a cell, and the least variance of a total.
_LEAST_MEAN, _LEAST_VARIANCE = 1e-6, 1.0
_DENSITY = 1 / np.sqrt(2 * np.pi)


@dataclass(frozen=True, eq=False)
class PossibleCells(Frozen):
    """The cells that children can have anybody in, family after family, child after child; ``(n,)``
    each: the ``total`` that a cell is part of, of one child and dwelling group; the ``column`` that
    it is in, a cell of one family; the ``part`` of the family's total that the column has; and the
    ``deviation`` of its noise.

    ``home`` ``(totals,)``: the sum that the total is part of, of a family and dwelling group."""

    total: Index
    column: Index
    part: Array
    deviation: Array
    home: Index

    def bias(self, expected: Array, seen: Array | None = None) -> tuple[Array, Array, Array]:
        """For the ``expected`` totals, the expected bias of each cell ``(n,)``, and of each total its
        bias and variance. What is ``seen`` in the cells, ``(n,)``, moves their means that are further
        from it than noise is."""
        mean = np.maximum(expected[self.total] * self.part, _LEAST_MEAN)
        sums, many = np.bincount(self.column, mean), np.bincount(self.column)
        variance = self.deviation**2
        weight = variance / (np.bincount(self.column, variance) / np.maximum(many, 1))[self.column]
        multiplier = np.zeros(len(sums))
        for _ in range(_STEPS):
            held, _, below = self._clipped(mean - multiplier[self.column] * weight)
            slope = np.maximum(np.bincount(self.column, weight * below), 1e-300)
            multiplier += (np.bincount(self.column, held) - sums) / slope
        given = multiplier[self.column] * weight
        if seen is not None:
            own, reach = seen + given, NOISE * self.deviation
            least = np.where(seen > 0, own - reach, 0.0)
            mean = np.maximum(np.clip(mean, least, own + reach), _LEAST_MEAN)
        held, second, _ = self._clipped(mean - given)
        bias = held - mean
        return bias, self.totals(bias), self.totals(second - held**2)

    def totals(self, x: Array) -> Array:
        """``(n,)`` added up to ``(totals,)``."""
        return np.bincount(self.total, x, len(self.home)).astype(float)

    def _clipped(self, mean: Array) -> tuple[Array, Array, Array]:
        """g and e of these means, and the probability that mean and noise are positive."""
        from scipy.special import ndtr  # slow to load

        z = mean / self.deviation
        positive, density = ndtr(z), self.deviation * _DENSITY * np.exp(-0.5 * z**2)
        held = mean * positive + density
        return held, mean * held + self.deviation**2 * positive, positive


@dataclass(frozen=True, eq=False)
class HousedTotals(Frozen):
    """What is known of totals besides their cells, ``(totals,)``: the ``least`` that a child holds,
    and its ``housed`` people, its share of the housing units times the people of all; 0 where no
    housing is known. ``sums`` are those of the totals by :attr:`PossibleCells.home`."""

    least: Array
    housed: Array
    sums: Array


def corrected_totals(
    cells: PossibleCells, estimated: Array, known: HousedTotals, spread: Dispersion | None
) -> Array:
    """The totals t from the ``estimated`` ones, ``(totals,)``. Without a ``spread`` no housing is
    known."""
    housed = known.housed if spread is not None else np.zeros(len(known.housed))
    here = housed > 0
    total = np.where(here, housed, estimated)
    for _ in range(_ALONE if spread is None else _HOUSED):
        _, bias, variance = cells.bias(total)
        unbiased, variance = estimated - bias, np.maximum(variance, _LEAST_VARIANCE)
        weight = np.zeros(len(total))
        if spread is not None:
            weight[here] = housing_weight(unbiased[here], variance[here], housed[here], spread)
        drawn = unbiased + weight * (housed - unbiased)
        total = _to_sums(drawn, (1.0 - weight) * variance, cells.home, known)
    return total


def housing_weight(unbiased: Array, variance: Array, housed: Array, spread: Dispersion) -> Array:
    """w of totals with this ``variance``, ``(n,)``."""
    most = FARTHEST * variance**0.5 / np.maximum(np.abs(housed - unbiased), 1e-300)
    return np.minimum(variance / (spread.variance(housed) + variance), most)


def _to_sums(total: Array, weight: Array, home: Index, known: HousedTotals) -> Array:
    """``max(least, total + weight k)`` with the k of each sum that meets it. The sum is convex and
    grows with k, and from the k that no least value would allow Newton's method comes down."""
    k = (known.sums - np.bincount(home, total)) / np.bincount(home, weight)
    for _ in range(_SUM_STEPS):
        moved = total + weight * k[home]
        free = moved > known.least
        over = np.bincount(home, np.maximum(moved, known.least)) - known.sums
        slope = np.bincount(home, weight * free)
        k -= np.where(slope > 0, over / np.where(slope > 0, slope, 1.0), 0.0)
    return np.maximum(total + weight * k[home], known.least)


def housing_shares(family: Family) -> Array | None:
    """Each child's share of the housing units of its parent, ``(children,)``; ``None`` where they are
    not known, or not shared out among several. A child can hold as many
    persons in households for each of its units. So shares of that bound are shares of the units
    (:mod:`das.geography.bounds`)."""
    if family.schema.dwelling is None or family.parent is None:
        return None
    most = family.bounds.upper[:, HOUSEHOLDS]
    if (most >= NO_LIMIT).any() or (most > 0).sum() < 2:
        return None
    return np.asarray(most / most.sum())


def kinds_of(gram: Array | Kinds, children: int) -> Kinds:
    """A matrix of all, one of each child, or such of some kinds, as the last."""
    if isinstance(gram, Kinds):
        return gram
    if gram.ndim == 2:
        return Kinds(gram[None], np.zeros(children, dtype=np.intp))
    return Kinds(gram, np.arange(children))


def in_detail(family: Family) -> NDArray[np.bool_]:
    """Which children have a measurement of every cell, ``(children,)``."""
    return np.isfinite(family.answers(DETAILED).variance)


def correct(
    problems: Sequence[LeastSquares],
    estimates: Sequence[Array],
    spread: Dispersion | None,
    accuracy: float,
) -> list[Array]:
    """The counts of some families, ``(children, cells)`` each, from their ``estimates`` by the
    ``problems``, which are solved again; each of one pass over all cells. ``spread``: of households
    about their housing, if that is known."""
    out = list(estimates)
    able = [i for i, problem in enumerate(problems) if can_be_corrected(problem)]
    if not able:
        return out
    one = [CorrectedFamily(problems[i], estimates[i]) for i in able]
    cells, known = possible_cells(one)
    total = corrected_totals(cells, estimated_totals(one, cells), known, spread)
    seen = np.concatenate([f.estimate[f.child, f.at] for f in one])
    bias = cells.bias(total, seen)[0]
    last = np.cumsum([len(f.child) for f in one])[:-1]
    targets = zip(one, np.split(bias, last), np.split(total, last_totals(one)), strict=True)
    solved = solve_jointly([f.solved(b, t) for f, b, t in targets], accuracy)
    for i, (x, _) in zip(able, solved, strict=True):
        out[i] = x
    return out


def can_be_corrected(problem: LeastSquares) -> bool:
    """Whether a family that was estimated has a choice, a matrix, and a measurement of every cell."""
    family = problem.family
    return (
        family.parent is not None
        and len(family) > 1
        and problem.equations is not None
        and not isinstance(problem.equations[0], Partitions)
        and bool(in_detail(family).all())
    )


class CorrectedFamily:
    """A family with its normal equations, and its possible cells: ``child`` and ``at``, the number
    among the family's cells, ``(n,)``."""

    def __init__(self, problem: LeastSquares, estimate: Array) -> None:
        assert problem.equations is not None
        gram, _ = problem.equations
        assert not isinstance(gram, Partitions)
        self.problem, self.family, self.estimate = problem, problem.family, estimate
        self.gram = kinds_of(gram, len(self.family))
        bounds = self.family.bounds
        self.groups, self.group = np.unique(bounds.group[self.family.cell], return_inverse=True)
        self.child, self.at = np.nonzero(bounds.upper[:, self.groups[self.group]] > 0)
        self.totals = len(self.family) * len(self.groups)

    def known(self) -> tuple[Array, Array, Array]:
        """Of each child and dwelling group the least and the housed people, and their sums."""
        assert self.family.parent is not None
        sums = np.bincount(self.group, weights=self.family.parent).astype(float)
        housed = np.zeros((len(self.family), len(self.groups)))
        shares = housing_shares(self.family)
        if shares is not None and self.groups[0] == HOUSEHOLDS:
            housed[:, 0] = shares * sums[0]
        least = self.family.bounds.lower[:, self.groups].astype(float)
        return least.ravel(), housed.ravel(), sums

    def deviations(self) -> Array:
        """Of the noise of each possible cell in the child's own estimate, ``(n,)``."""
        used = np.unique(self.gram.kind)
        variance = np.zeros(self.gram.matrices.shape[:2])
        variance[used] = np.diagonal(np.linalg.inv(self.gram.matrices[used]), axis1=1, axis2=2)
        return np.asarray(variance[self.gram.kind[self.child], self.at] ** 0.5)

    def solved(self, bias: Array, total: Array) -> Steps:
        """The least squares about the estimate without its ``bias`` ``(n,)``, with the totals ``total``
        ``(children x groups,)`` besides."""
        target = self.estimate.copy()
        target[self.child, self.at] -= bias
        gram, kind = self.gram.matrices, self.gram.kind
        together = (self.group[:, None] == self.group).astype(float)
        rhs = np.empty_like(target)
        for k in np.unique(kind):
            rhs[kind == k] = target[kind == k] @ gram[k]
        rhs += total.reshape(len(target), -1)[:, self.group]
        p = self.problem
        same = Kinds(gram + together, kind) if len(gram) > 1 else gram[0] + together
        x = yield from p.solve(same, rhs, p.parent, p.bounds.group[p.cell], p.rows(p.cell, ()))
        return x, p.certificate


def estimated_totals(some: Sequence[CorrectedFamily], cells: PossibleCells) -> Array:
    """T, ``(totals,)``, of the families whose ``cells`` these are."""
    return cells.totals(np.concatenate([f.estimate[f.child, f.at] for f in some]))


def last_totals(some: Sequence[CorrectedFamily]) -> Index:
    """Where the totals of each family but the last end."""
    return np.cumsum([f.totals for f in some])[:-1]


def possible_cells(some: Sequence[CorrectedFamily]) -> tuple[PossibleCells, HousedTotals]:
    """The possible cells of some families, and what is known of their totals."""
    total, column, part, home = [], [], [], []
    totals = columns = sums = 0
    known = [f.known() for f in some]
    for f, (_, _, held) in zip(some, known, strict=True):
        assert f.family.parent is not None
        total.append(totals + f.child * len(f.groups) + f.group[f.at])
        column.append(columns + f.at)
        part.append((f.family.parent / held[f.group])[f.at])
        home.append(sums + np.tile(np.arange(len(f.groups)), len(f.family)))
        totals, columns, sums = totals + f.totals, columns + len(f.group), sums + len(f.groups)
    cells = PossibleCells(
        np.concatenate(total),
        np.concatenate(column),
        np.concatenate(part),
        np.concatenate([f.deviations() for f in some]),
        np.concatenate(home),
    )
    least, housed, held = (np.concatenate(each) for each in zip(*known, strict=True))
    return cells, HousedTotals(least, housed, held)


def expected_bias(
    source: MeasurementSource,
    spine: Spine,
    bounds: LevelBounds,
    schema: Schema,
    published: tuple[Histogram, Histogram],
    *,
    corrected: bool,
) -> Array:
    """The size bias that least squares is expected to have in each lowest unit, and the standard
    error of the unit's total, ``(2, units)``: from the ``published`` counts of these units and of
    their parents. Neither is a number where families are left as they are. If the counts are not
    ``corrected``, their totals lose the bias first, and have no standard error."""
    level, starts = spine.levels[-1], spine.children(spine.levels[-1])
    counts, parents = published
    out = np.full((2, counts.units), np.nan)
    answers = sum(schema.query(q).answers for q in source.queries(level))
    for start, stop in spine.batches(level, answers):
        first, last = (int(i) for i in np.searchsorted(starts, [start, stop]))
        measured = source.part(level, start, stop)
        here = parents.rows(first, last), starts[first : last + 1], bounds.rows(start, stop)
        some = []
        for family in families(measured, schema, level, *here):
            problem = LeastSquares(family)
            if len(family) > 1 and 0 < len(family.cell) <= MANY:
                each = map(family.answers, family.queries)
                seen = [(a.query.index[family.cell], a.values, a.variance) for a in each]
                problem.equations = normal_equations(seen)
            if can_be_corrected(problem):
                rows = counts.rows(int(family.unit[0]), int(family.unit[-1]) + 1)
                some.append(CorrectedFamily(problem, rows.dense()[:, family.cell].astype(float)))
        if some:
            cells, known = possible_cells(some)
            total = estimated_totals(some, cells)
            total = total if corrected else corrected_totals(cells, total, known, None)
            parts = np.split(np.stack(cells.bias(total)[1:]), last_totals(some), axis=1)
            for f, part in zip(some, parts, strict=True):
                out[:, f.family.unit] = part.reshape(2, len(f.family), -1).sum(axis=2)
    out[1] = corrected_error(counts.totals(), out[1]) if corrected else np.nan
    return out


def corrected_error(total: NDArray[np.int64], variance: Array) -> Array:
    """The standard errors of corrected totals."""
    error = np.sqrt(np.maximum(variance, _LEAST_VARIANCE)) * np.where(total >= LARGE, 1.25, 1.0)
    return np.where(total >= SPOKEN, error, np.nan)


# How widely people in households spread about their share of the housing units, estimated from the
# noisy measurements themselves.
#
# Let :math:`\hat x_c` be the number of people in households by the least-squares estimate from a
# child's own measurements, and :math:`\sigma_c^2` the variance of its noise. Let M be the expected
# count, the child's share w of its parent's housing units times the parent's people in households. Let a
# child vary by :math:`V = a\,M + b\,M^2`. Given that the children sum to their parent, it varies by
# :math:`(1 - w_c)\,V` about M (exactly, if variances are proportional to shares). With
# :math:`r = \hat x_c - M`
#
# .. math:: E\,r^2 - \sigma_c^2 = (1 - w_c)(a\,M + b\,M^2).
#
# This is a linear regression over all children. a and b are its weighted
# least-squares estimates, not below zero, iterated until they settle. Each square has the inverse of
# its variance as weight, :math:`T^{-2}` with :math:`T = (1 - w_c) V + \sigma_c^2`. One child can
# be a thousand standard deviations off (a barracks counted as housing). So a square counts as at most
# c T, with c = 9. All squares are multiplied by :math:`1 / E \min(z^2, c)`, which makes this correct
# for normal errors.
#
# The only inputs are noisy measurements, published counts and bounds. So this is post-processing and
# costs nothing, and the same release gives the same numbers. In a large level a sample of the
# families is enough, one at every so-many-th place.

#: Times its variance, the most that a square counts.
_MOST = 9.0
#: About so many children are looked at, in so many parts of the level or more.
_ENOUGH, _PARTS = 1 << 15, 64
#: A child with a larger share of the housing units says nothing about the spread.
_ALL = 0.95
_ROUNDS, _SETTLED = 100, 1e-6
#: The default where nothing is known: families of three, with some spread between places.
_DEFAULT = Dispersion(3.0, 0.1)


@dataclass(frozen=True, eq=False)
class DispersionSample(Message):
    """Noisy counts of people in households, ``(n,)`` each: the expected ``mean``, how far the count
    is ``off``, and the variance of its ``noise``. ``free`` is the part of its variance that remains
    when the sum of all children is given."""

    mean: Array
    off: Array
    noise: Array
    free: Array

    @staticmethod
    def concatenate(parts: Sequence[DispersionSample]) -> DispersionSample:
        return DispersionSample(
            *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(DispersionSample))
        )

    @staticmethod
    def nothing() -> DispersionSample:
        return DispersionSample(*(np.zeros(0) for _ in range(4)))

    def __len__(self) -> int:
        return len(self.mean)


def find_correction(
    source: MeasurementSource,
    spine: Spine,
    bounds: LevelBounds,
    universe: Universe,
    parents: Histogram,
    pool: Executor,
) -> BiasCorrection:
    """The correction of the lowest level, of whose units ``parents`` are the published parents."""
    return correction_from([sample_households(source, spine, bounds, universe, parents, pool)])


def sample_households(
    source: MeasurementSource,
    spine: Spine,
    bounds: LevelBounds,
    universe: Universe,
    parents: Histogram,
    pool: Executor,
    *,
    lowest: int | None = None,
) -> DispersionSample:
    """A sample of noisy counts from the lowest level of a tree, or of a subtree of it; none where
    housing units are not known. The whole tree has ``lowest`` such units, which decides how many
    families are skipped. Only the subtree decides which families are sampled."""
    if universe.schema.dwelling is None or (bounds.limits.upper[:, HOUSEHOLDS] >= NO_LIMIT).any():
        return DispersionSample.nothing()
    units = lowest or spine.units(spine.levels[-1])
    pieces = _pieces(source, spine, bounds, universe.schema, parents, units)
    return DispersionSample.concatenate(list(in_order(pool, _sample, pieces)))


def correction_from(samples: Sequence[DispersionSample]) -> BiasCorrection:
    """From all samples of a tree, in the order of its subtrees. Without any, no housing is known."""
    seen = DispersionSample.concatenate(samples)
    return BiasCorrection(fitted(seen) if len(seen) else None, len(seen))


def fitted(seen: DispersionSample) -> Dispersion:
    """a and b; the default if nothing is seen to spread."""
    x = np.stack([seen.mean, seen.mean**2], axis=1) * seen.free[:, None]
    scale = np.maximum(x.max(axis=0, initial=0.0), 1e-300)
    ab = np.array([_DEFAULT.linear, _DEFAULT.quadratic])
    for _ in range(_ROUNDS):
        total = x @ ab + seen.noise
        y = (np.minimum(seen.off**2, _MOST * total) / _WINSORISED - seen.noise) / total
        scaled, before = x / scale / total[:, None], ab
        ab = _least_squares(scaled.T @ scaled, scaled.T @ y) / scale
        if np.abs(ab - before).max() <= _SETTLED * ab.max():
            break
    return Dispersion(*ab.tolist()) if ab.any() else _DEFAULT


def _least_squares(normal: Array, rhs: Array) -> Array:
    """Least squares for two unknowns, neither below zero."""
    both = np.linalg.pinv(normal) @ rhs
    if (both >= 0).all():
        return np.asarray(both)
    alone = np.maximum(rhs / np.diag(normal), 0.0)
    gain = alone * rhs
    return np.where(np.arange(2) == gain.argmax(), alone, 0.0)


def _winsorised(c: float) -> float:
    """E min(z^2, c) of a standard normal z."""
    tail, density = 1.0 - erf(sqrt(c / 2)), exp(-c / 2) / sqrt(2 * pi)
    return 1.0 - tail - 2 * sqrt(c) * density + c * tail


_WINSORISED = _winsorised(_MOST)


@dataclass(frozen=True, eq=False)
class _Piece:
    """Families of a slice of units, for one worker, which samples every ``step``-th. It has only
    published values."""

    source: MeasurementSource
    schema: Schema
    level: str
    parents: Histogram
    starts: NDArray[np.int64]
    bounds: Bounds
    step: int


def _pieces(
    source: MeasurementSource,
    spine: Spine,
    bounds: LevelBounds,
    schema: Schema,
    parents: Histogram,
    lowest: int,
) -> Iterator[_Piece]:
    level, starts = spine.levels[-1], spine.children(spine.levels[-1])
    slices = list(spine.batches(level, sum(schema.query(q).answers for q in source.queries(level))))
    every, parts = ceil(lowest / _ENOUGH), ceil(_PARTS * spine.units(level) / lowest)
    skip = max(1, min(every, len(slices) // parts))
    for start, stop in slices[::skip]:
        first, last = (int(i) for i in np.searchsorted(starts, [start, stop]))
        yield _Piece(
            source.part(level, start, stop),
            schema,
            level,
            parents.rows(first, last),
            starts[first : last + 1],
            bounds.rows(start, stop),
            ceil(every / skip),
        )


def _sample(piece: _Piece) -> DispersionSample:
    out = [DispersionSample.nothing()]
    each = families(
        piece.source, piece.schema, piece.level, piece.parents, piece.starts, piece.bounds
    )
    for i, family in enumerate(each):
        if i % piece.step == 0 and len(family.cell):
            out.append(_seen(family.some(family.able)))
    return DispersionSample.concatenate(out)


def _seen(family: Family) -> DispersionSample:
    """The sample of a family; nothing if it shows nothing."""
    shares = housing_shares(family)
    here = family.bounds.group[family.cell] == HOUSEHOLDS
    if shares is None or family.parent is None or not here.any() or len(family.cell) > MANY:
        return DispersionSample.nothing()
    measured = [
        (a.query.index[family.cell], a.values, a.variance)
        for a in map(family.answers, family.queries)
    ]
    gram, rhs = normal_equations(measured)
    assert not isinstance(gram, Partitions), "families with that many cells are skipped"
    use = in_detail(family) & (shares > 0) & (shares < _ALL)
    if not use.any():
        return DispersionSample.nothing()
    kinds = kinds_of(gram, len(rhs))
    kind, shares = kinds.kind[use], shares[use]
    of_households = np.zeros((len(kinds.matrices), len(here)))  # J^-1 1 over the household cells
    used = np.unique(kind)
    of_households[used] = np.linalg.solve(
        kinds.matrices[used],
        np.broadcast_to(here.astype(float)[:, None], (len(used), len(here), 1)),
    )[:, :, 0]
    mean = shares * float(family.parent[here].sum())
    own = (of_households[kind] * rhs[use]).sum(axis=1)
    return DispersionSample(mean, own - mean, (of_households @ here)[kind], 1.0 - shares)
