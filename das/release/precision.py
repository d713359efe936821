"""What a release says of its own precision: the queries that are published worse than they were
measured, and what the budget achieves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from das.design import trees
from das.design.model import Choices, Estimand, LevelQuery
from das.design.target_set import redundant
from das.errors import UserError
from das.estimate.information import Contrasts
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.universe import Planned, Universe
from das.release.opened import OpenedRelease

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
