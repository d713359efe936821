"""The noise that each column of a published table carries as it was measured, from the plan alone.

There is a number for each kind of measured unit, so published noise can be added up over any number
of parts: for ``das tables --noise`` and areas. The best linear estimate of a unit has at most this
variance (:mod:`das.estimate.margins_of_error`; a test compares the two). For a unit's own count and
interval, that estimate is right; it reads the measurements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from das.design import trees
from das.design.model import Choices, Estimand, LevelQuery
from das.design.target_set import redundant
from das.errors import UserError
from das.estimate.information import Contrasts
from das.model import tabulation
from das.model.areas import Areas
from das.model.budget import ALL, QueryNoise
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.measured_spine import Cover, MeasuredSpine
from das.model.measurement import MeasurementSource
from das.model.query import Grouping, Query
from das.model.spine import Spine
from das.model.universe import Planned, Universe
from das.release.opened import OpenedRelease
from das.tables import Table

Floats = NDArray[np.float64]
#: By level the queries that are published exactly.
KnownQueries = Mapping[str, Sequence[str]]


@dataclass(frozen=True, eq=False)
class TableNoise(Frozen):
    """The noise of the columns of a table, as the units of ``tree`` were measured.

    By level, root first, ``kind`` ``(units,)`` numbers the rows of ``variance``
    ``(kinds, columns)``. ``exact`` ``(columns,)``: by level of the ``published`` spine, the columns
    that are known for its units."""

    tree: MeasuredSpine
    published: Spine
    kind: tuple[NDArray[np.int64], ...]
    variance: tuple[Floats, ...]
    exact: tuple[NDArray[np.bool_], ...]

    @staticmethod
    def for_table(
        universe: Universe, table: Table, tree: MeasuredSpine, published: Spine, exact: KnownQueries
    ) -> TableNoise:
        r"""A query tells a column if the column is the sum of some of its answers, :math:`n_q` of
        them, with variance :math:`n_q \sigma_q^2`. Noise of different queries is independent, so
        the mean of these sums, weighted by precision, has

        .. math:: 1 / \sum_q (n_q \sigma_q^2)^{-1} .

        Where the total is exact, the total less the other answers tells the column a second time. 0
        where the column follows from ``exact`` queries; infinite where no query tells it."""
        names = {n.query for n in universe.measurements} | {
            q for queries in exact.values() for q in queries
        }
        told = {name: _answers(table, universe.schema.query(name)) for name in names}
        kind, variance = [], []
        for level in tree.spine.levels:
            found = list(_kinds(universe, tree, published, exact, level))
            kind.append(np.argmax([units for units, _, _ in found], axis=0))
            variance.append(np.stack([_variance(told, noise, known) for _, noise, known in found]))
        sure = (
            (
                np.any([np.isfinite(told[name][0]) for name in exact[level]], axis=0)
                if exact[level]
                else np.zeros(len(table.columns), dtype=bool)
            )
            for level in published.levels
        )
        return TableNoise(tree, published, tuple(kind), tuple(variance), tuple(sure))

    def of_level(self, level: str) -> Floats:
        """Variances of the published units of a level, ``(units, columns)``: of each unit's own
        measurements or, where the units that were measured are others, of the sum over the fewest
        that make it up."""
        depth = self.published.index(level)
        if self.tree.alike:
            return self.variance[depth][self.kind[depth]]
        out = np.zeros((self.published.units(level), self.variance[0].shape[1]))
        cover = Cover.from_places(
            self.tree.spine,
            self.published.up(self.published.levels[-1], level)[self.tree.place],
            self.tree.measured,
        )
        for at, (kind, variance) in enumerate(zip(self.kind, self.variance, strict=True)):
            here = cover.depth == at
            np.add.at(out, cover.place[here], variance[kind[cover.unit[here]]])
        out[:, self.exact[depth]] = 0
        return out

    def of_areas(self, areas: Areas, columns: int) -> Floats:
        """Variances of the first ``columns`` of areas, ``(areas, columns)``: of the sums with the
        least noise."""
        each = (
            areas.noise(self.tree, [v[k, j] for k, v in zip(self.kind, self.variance, strict=True)])
            for j in range(columns)
        )
        return np.stack(list(each), axis=1)


def _kinds(
    universe: Universe, tree: MeasuredSpine, published: Spine, exact: KnownQueries, level: str
) -> Iterator[tuple[NDArray[np.bool_], list[QueryNoise], list[str]]]:
    """The units of a level that were measured alike and have the same exact counts: which units,
    their noise, exact queries."""
    lowest = {
        q: next(lv for lv in reversed(published.levels) if q in exact[lv]) for q in exact[level]
    }
    known = {q: tree.whole(level, of, published) for q, of in lowest.items()}
    for unit_class, units in tree.classes(level).items():
        asked = (ALL, unit_class) if unit_class != tabulation.UNMEASURED else (unit_class,)
        noise = [n for n in universe.measurements if n.level == level and n.unit_class in asked]
        for sure in (
            sorted(set(zip(*(k[units].tolist() for k in known.values()), strict=True)))
            if known
            else [()]
        ):
            same = np.all(
                [units, *(k == s for k, s in zip(known.values(), sure, strict=True))], axis=0
            )
            yield same, noise, [q for q, s in zip(known, sure, strict=True) if s]


def _variance(
    told: Mapping[str, tuple[Floats, Floats]], noise: Iterable[QueryNoise], exact: Sequence[str]
) -> Floats:
    """The variances of one unit's columns, ``(columns,)``."""
    precision = np.zeros(len(next(iter(told.values()))[0]))
    with np.errstate(divide="ignore"):
        for n in noise:
            inside, outside = told[n.query]
            precision += 1 / (inside * n.variance)
            if "total" in exact:
                precision += 1 / (outside * n.variance)
        for name in exact:
            precision[np.isfinite(told[name][0])] = np.inf
        return 1 / precision


def _answers(table: Table, query: Query) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By column, how many answers lie inside it, and how many outside; infinite where one lies
    across, or where the column counts records more than once.

    A cell of either query is a product of groups. So the overlap of an answer with the table's
    answers is the product of the overlaps of its groups with the table's groups. Groups with equal
    overlaps are computed once."""
    touched, alike = zip(*map(_touched, query.groupings, table.query.groupings), strict=True)
    size = reduce(np.multiply.outer, alike)
    number = np.empty(len(table.columns))
    for j in range(len(table.columns)):
        inside = table.times(j).reshape(table.query.shape)
        some, other = _any(inside > 0, touched), _any(inside == 0, touched)
        number[j] = np.inf if (some & other).any() or table.repeats(j) else size[some].sum()
    return number, np.where(np.isfinite(number), query.answers - number, np.inf)


def _touched(groups: Grouping, other: Grouping) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which groups of ``other`` have a level of a group, ``(patterns, groups of other)``, and how
    many groups have each pattern."""
    out = np.zeros((len(groups.groups), len(other.groups)), dtype=bool)
    out[list(groups.index), list(other.index)] = True
    patterns, number = np.unique(out, axis=0, return_counts=True)
    return patterns, number


def _any(inside: NDArray[np.bool_], touched: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Whether a product of patterns has anything inside: axis by axis."""
    for axis, patterns in enumerate(touched):
        inside = np.moveaxis(np.tensordot(inside, patterns, axes=(axis, 1)), -1, axis)
    return inside


# Where published counts are worse than what was measured, from a release alone.
#
# Let a query have the answers :math:`i = 1, \dots, n` with noise :math:`z_i \sim (0, \sigma^2)`, and
# let the published answers be off by :math:`e_i`. The residuals are known: :math:`r_i = z_i - e_i`.
# As estimates follow their measurements, errors do not run against the noise (:math:`\sum e_i z_i \ge
# 0` in expectation), so
#
# .. math:: E\,\tfrac1n \sum r_i^2 \le \sigma^2 + \overline{e^2} .
#
# If publishing was no worse than measuring, :math:`\overline{e^2} \le \sigma^2`, then :math:`\sum
# r_i^2 / \sigma^2` is at most a noncentral chi-square X of n degrees with noncentrality n: mean 2n,
# variance 6n. By Chernoff's inequality, for x > 2n,
#
# .. math:: \ln P(X \ge x) \le \min_t \Big( \frac{nt}{1 - 2t} - \frac n2 \ln(1 - 2t) - tx \Big), \qquad
# 1 - 2t = u = \frac{n + \sqrt{n^2 + 4nx}}{2x} \text{ at the minimum, where } x u^2 = n u +
# n,
#
# which is :func:`log_tail`. A query is listed where that probability is very small. The limit is such
# that all queries of a release together raise a false alarm at most once in a thousand. Then
# :math:`\overline{e^2}` is at least :math:`\overline{r^2} - \sigma^2`, and the page states that
# bound. A query that is not listed can still be worse, by less than this test can detect.

FALSE_ALARM = 1e-3  #: of a whole release
_ROUNDING = 1 / 12  # whole numbers are off by as much


@dataclass(frozen=True)
class Misfit:
    """A query that is published worse than it was measured.

    It has the number of its answers, the standard deviation of its noise, and the least root mean
    square error that fits the residuals. Where units differ in noise, the standard deviation is the
    root of the mean variance."""

    universe: str
    level: str
    query: str
    answers: int
    noise: float
    error_at_least: float


@dataclass(frozen=True)
class ResidualSums:
    """Sums over the measured units of a query at a level.

    They are the number of ``answers``, the sum of squared residuals, that sum in units of the
    variance, and the sum of variances. They add up over parts of a tree; whole numbers are exact up
    to 2^53."""

    universe: str
    level: str
    query: str
    answers: int
    squares: float
    scaled: float
    variances: float


def residual_sums(
    universe: Universe, source: MeasurementSource, published: Mapping[str, Histogram]
) -> list[ResidualSums]:
    """Sums for each query of each ``published`` level: units as they were measured, of a tree or of
    a part of it."""
    return [
        _sums(universe, source, level, name, published[level])
        for level in published
        for name in source.queries(level)
    ]


def merged(sums: Iterable[ResidualSums]) -> list[ResidualSums]:
    """Those of all parts, added up in their order; those of a universe follow each other."""
    out: dict[tuple[str, str, str], ResidualSums] = {}
    for s in sums:
        key = s.universe, s.level, s.query
        o = out.get(key, ResidualSums(*key, 0, 0.0, 0.0, 0.0))
        out[key] = ResidualSums(
            *key,
            o.answers + s.answers,
            o.squares + s.squares,
            o.scaled + s.scaled,
            o.variances + s.variances,
        )
    universes = list(dict.fromkeys(s.universe for s in out.values()))
    return sorted(out.values(), key=lambda s: universes.index(s.universe))


def misfits(sums: Iterable[ResidualSums], tests: int) -> list[Misfit]:
    """The queries that are listed, of ``tests`` that are looked at in all."""
    return [
        Misfit(
            s.universe,
            s.level,
            s.query,
            s.answers,
            (s.variances / s.answers) ** 0.5,
            (max(s.squares - s.variances, 0.0) / s.answers) ** 0.5,
        )
        for s in sums
        if s.answers and log_tail(s.scaled, s.answers) < log(FALSE_ALARM / tests)
    ]


def log_tail(x: float, n: int) -> float:
    """A bound of ln P(X >= x) for a noncentral chi-square X of n degrees with noncentrality n; 0 up
    to its mean."""
    if x <= 2 * n:
        return 0.0
    u = (n + sqrt(n * n + 4 * n * x)) / (2 * x)
    t = (1 - u) / 2
    return n * t / u - n / 2 * log(u) - t * x


def _sums(
    universe: Universe, source: MeasurementSource, level: str, name: str, published: Histogram
) -> ResidualSums:
    query = universe.schema.query(name)
    n, squares, scaled, variances = 0, 0.0, 0.0, 0.0
    step = max(1, (1 << 22) // query.answers)
    for a in range(0, published.units, step):
        b = min(a + step, published.units)
        m = source.read(level, name, a, b)
        known = np.isfinite(m.variance)
        variance = np.maximum(m.variance[known], _ROUNDING)
        off = m.values.astype(np.float64)
        answers = published.rows(a, b).sparse(query)
        off.ravel()[answers.at] -= answers.count
        off = off if known.all() else off[known]
        each = np.einsum("ij,ij->i", off, off)
        squares, scaled = squares + float(each.sum()), scaled + float((each / variance).sum())
        variances, n = variances + float(variance.sum()) * query.answers, n + off.size
    return ResidualSums(universe.name, level, name, n, squares, scaled, variances)


# What the budget of a release achieves: the precision of every measured count from all
# measurements together.
#
# Variances are those of :mod:`das.design`: of the best linear unbiased estimates from the
# measurements of all levels, over the release's own tree and structures. They are functions of the
# specification and of public structure, and of no count.

#: What a page waits for: units of all levels; and units above the lowest level, times
#: multiplications for each. Beyond these nothing is said. Rhode Island has 26,247 and 17 million,
#: and takes half a second.
UNITS, WORK = 200_000, 200_000_000


@dataclass(frozen=True)
class AchievedPrecision:
    """For a level and query: the standard deviation of one answer from all measurements together,
    in persons; 0 where it is published exactly. ``nothing``: no estimate would be worse without its
    measurement."""

    deviation: float
    nothing: bool


def achieved_precision(
    release: OpenedRelease, universe: Universe
) -> Mapping[LevelQuery, AchievedPrecision]:
    """The precision of everything measured. Empty for a part of a release, where it takes too long,
    or where the measurements do not separate every cell."""
    tree = release.tree(universe)
    if release.part is not None or not (
        tree.alike or all(n.mechanism.currency == "rho" for n in universe.noise)
    ):  # shares of chains add up in rho alone
        return {}
    noise = universe.own if isinstance(universe, Planned) else universe.noise
    pairs = tuple((n.level, n.query) for n in noise)
    if not _quick(universe, [tree.spine.units(level) for level in tree.spine.levels], pairs):
        return {}
    draws, precision = Choices.over(pairs, tree), np.array([1 / n.variance for n in noise])
    estimands = [Estimand(level, q) for level, q in pairs]
    try:
        model = trees.of_structures(
            universe.schema, tree, release.bounds(universe), draws, estimands, {}
        )
        f = model.variances(draws.precision(precision))
    except UserError:  # nothing tells some cells apart; or the tree is one unit
        return {}
    spare = redundant(model, precision, f)
    measured = {(n.level, n.query) for n in universe.noise}
    return {
        pair: AchievedPrecision(float(np.sqrt(v)), bool(no))
        for pair, v, no in zip(pairs, f, spare, strict=True)
        if pair in measured
    }


def _quick(universe: Universe, units: list[int], pairs: tuple[LevelQuery, ...]) -> bool:
    contrasts = Contrasts.for_queries(
        universe.schema, [universe.schema.query(q) for q in dict.fromkeys(q for _, q in pairs)]
    )
    above = sum(units[:-1])
    return above + units[-1] <= UNITS and above * len(contrasts.kinds) * contrasts.d**3 <= WORK
