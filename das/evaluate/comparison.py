"""Two sources of errors side by side, and runs repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from functools import lru_cache
from math import atan, cos, exp, lgamma, pi, sin, sqrt, tan
from statistics import NormalDist, fmean, mean, stdev

import numpy as np
from numpy.typing import NDArray

from das.model.error_rows import Comparison, ErrorRow, PairedRow, SummaryRow, SweepRow
from das.model.frozen import NoRepr

# Quantiles of Student's t with a whole number of degrees of freedom.
#
# With :math:`t = \sqrt\nu \tan\theta` and :math:`C = \cos^2\theta`,
#
# .. math:: P(|T| \le t) = \sin\theta \Big(1 + \tfrac12 C + \tfrac{1 \cdot 3}{2 \cdot 4} C^2 + \dots\Big)
#           \quad (\nu \text{ even}), \qquad
#           \tfrac2\pi \Big(\theta + \sin\theta \cos\theta
#           \big(1 + \tfrac23 C + \tfrac{2 \cdot 4}{3 \cdot 5} C^2 + \dots\big)\Big)
#           \quad (\nu \text{ odd}),
#
# with :math:`\lfloor\nu/2\rfloor` terms in the brackets (Abramowitz and Stegun, 26.7.3 and 26.7.4).
# It is concave in the angle, so Newton's method rises to the quantile from that of the normal. Beyond
# :data:`MANY` degrees the expansion about the normal quantile (26.7.5) is as exact. SciPy has all of
# this, and takes longer to load than a small run takes to estimate.

#: The most degrees of freedom whose sum is taken.
MANY = 1000


@lru_cache(maxsize=4096)
def student(degrees: int, coverage: float) -> float:
    """The t that is exceeded in size with probability 1 - ``coverage``.

    >>> round(student(10, 0.95), 3)
    2.228"""
    if degrees < 1 or not 0 < coverage < 1:
        raise ValueError(f"there is no t of {degrees} degrees of freedom that covers {coverage}")
    z = NormalDist().inv_cdf((1 + coverage) / 2)
    if degrees > MANY:
        return _expansion(z, degrees)
    angle, step = atan(z / sqrt(degrees)), 1.0
    peak = 2 / sqrt(pi) * exp(lgamma((degrees + 1) / 2) - lgamma(degrees / 2))
    while step > 1e-15 * angle:
        step = (coverage - _covered(angle, degrees)) / (peak * cos(angle) ** (degrees - 1))
        angle += step
    return sqrt(degrees) * tan(angle)


def _covered(angle: float, degrees: int) -> float:
    odd = degrees % 2
    k = 2.0 * np.arange(1, degrees // 2) + odd
    terms = 1 + float(np.cumprod((k - 1) / k * cos(angle) ** 2).sum())
    if not odd:
        return sin(angle) * terms
    return 2 / pi * (angle + (sin(angle) * cos(angle) * terms if degrees > 1 else 0.0))


def _expansion(z: float, degrees: int) -> float:
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / degrees**i for i, term in enumerate(terms))


def interval(values: Sequence[float], coverage: float = 0.95) -> tuple[float, float]:
    """The interval of the mean of two or more independent values.

    >>> [round(end, 3) for end in interval([1.0, 2.0, 3.0])]
    [-0.484, 4.484]"""
    if len(values) < 2:
        raise ValueError("an interval needs two values")
    half = student(len(values) - 1, coverage) * stdev(values) / sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


# The standard error of a mean error within one run.
#
# Errors of one run are not independent. The answers of a unit come from one solve. Siblings add up to
# a parent whose own error is small, so an excess in one is a shortage in another. Taken one by one,
# the errors of 2,016 cells would suggest a precision that no rerun shows. The mean over a class is a
# ratio of sums over clusters, :math:`\bar e = \sum_c S_c / \sum_c n_c`, and its linearized variance
#
# .. math:: \widehat{\mathrm{Var}}(\bar e) = \frac{m}{m - 1} \frac{\sum_c (S_c - \bar e\, n_c)^2}{(\sum_c n_c)^2},
#
# over the :math:`m` clusters that the class occurs in (Cochran, *Sampling Techniques*, 1977, equation
# 6.13, as a with-replacement sample). Intervals are those of Student's t with :math:`m - 1` degrees
# of freedom. A cluster is a family of siblings, or a unit where a level has fewer than
# :data:`FAMILIES` families. Differences between clusters that would recur in every rerun count as
# well, so intervals are more likely too wide than too narrow.
#
# Errors are integers, so :math:`S_c` and :math:`n_c` are integers, too. With :math:`N = \sum n_c` and
# :math:`E = \sum S_c`, the square of the residuals is a quadratic form in five sums over clusters:
#
# .. math:: \sum_c (S_c - \bar e\, n_c)^2 = \frac{N^2 \sum S_c^2 - 2 E N \sum S_c n_c + E^2 \sum n_c^2}{N^2}.
#
# Exact integers lose nothing by cancellation, and the clusters need not be kept. The sums of parts of
# a tree add up to those of the whole, in any order.

Ints = NDArray[np.int64]

#: With fewer families than this at a level its units are the clusters.
FAMILIES = 10
CONFIDENCE = 0.95


@dataclass(frozen=True, repr=False)
class ClusteredInterval(NoRepr):
    """A standard error, its clusters, and the interval at 95 %."""

    error: float
    low: float
    high: float
    clusters: int


@dataclass(frozen=True, repr=False)
class ClusterSums(NoRepr):
    """Sums over clusters with an error :math:`S` (``total``) and a number of errors :math:`n`
    (``size``), of those that have any: exact, of any magnitude."""

    clusters: int
    size: int
    total: int
    size_squared: int
    total_size: int
    total_squared: int

    @staticmethod
    def from_clusters(total: Ints, size: Ints) -> ClusterSums:
        """From those of each cluster, ``(clusters,)``."""
        here = size > 0
        s, n = total[here], size[here]
        return ClusterSums(len(n), int(n.sum()), int(s.sum()), _dot(n, n), _dot(s, n), _dot(s, s))

    @staticmethod
    def of_each(total: Ints, size: Ints) -> tuple[ClusterSums, ...]:
        """:meth:`of` each column ``(clusters, columns)``: of all at once where 64 bits certainly
        hold the sums of squares."""
        if max(_largest(total), _largest(size)) ** 2 * len(total) >= 1 << 63:
            return tuple(
                ClusterSums.from_clusters(total[:, i], size[:, i]) for i in range(total.shape[1])
            )
        total = np.where(size > 0, total, 0)
        sums = (size > 0, size, total, size * size, total * size, total * total)
        return tuple(
            ClusterSums(*column)
            for column in zip(*(x.sum(axis=0).tolist() for x in sums), strict=True)
        )

    @staticmethod
    def merged(parts: Sequence[ClusterSums]) -> ClusterSums:
        """The sums over the clusters of all parts; no cluster is in two parts."""
        return ClusterSums(*map(sum, zip(*map(astuple, parts), strict=True)))

    def interval(self, unit: int = 1) -> ClusteredInterval | None:
        """The interval in persons, where ``unit`` persons are counted as one; ``None`` with fewer
        than two clusters."""
        m, n, e = self.clusters, self.size, self.total
        if m < 2:
            return None
        residual = (
            n * n * self.total_squared - 2 * e * n * self.total_size + e * e * self.size_squared
        )
        mean, error = e / (n * unit), sqrt(m * residual / ((m - 1) * n**4 * unit**2))
        reach = half_width(error, m)
        return ClusteredInterval(error, mean - reach, mean + reach, m)


def _dot(a: Ints, b: Ints) -> int:
    """The sum of products, exact."""
    if _largest(a) * _largest(b) * len(a) < 1 << 63:
        return int(a @ b)
    return sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))


def _largest(values: Ints) -> int:
    """The largest magnitude."""
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def half_width(error: float, m: int) -> float:
    """Half the interval at 95 % around a mean of ``m`` independent values with this standard
    error."""
    return error * student(m - 1, CONFIDENCE)


def compared(rows: Iterable[ErrorRow]) -> list[Comparison]:
    """Noisy measurements and published counts side by side, for each level, query and class of the
    true count. Where not all measurements were drawn, the expected effect of their noise replaces
    them."""
    found = {(r.level, r.query, r.bin, r.source): r for r in rows}
    out = []
    for (level, query, bin_, source), post in found.items():
        if source != "postprocessed":
            continue
        n = found.get((level, query, bin_, "nmf"))
        theory = n.expected_mae if n else post.expected_mae
        against = n.mae if n else theory
        out.append(
            Comparison(
                level,
                query,
                bin_,
                post.n,
                n.mae if n else None,
                theory,
                post.mae,
                post.mae / against if against else None,
                n.rmse if n else None,
                post.rmse,
                n.bias if n else None,
                post.bias,
                post.bias_low,
                post.bias_high,
            )
        )
    return out


def summary(rows: Sequence[SweepRow]) -> list[SummaryRow]:
    """Means over the repeats of a sweep, with intervals over them: what a rerun would show, and no
    model of errors."""
    groups: dict[tuple[object, ...], list[SweepRow]] = {}
    noisy: dict[tuple[object, ...], float] = {}
    for r in rows:
        e = r.error
        groups.setdefault((r.budget, r.method, e.level, e.query, e.source, e.bin), []).append(r)
        if e.source == "nmf":
            noisy[r.budget, r.method, r.repeat, e.level, e.query, e.bin] = e.mae
    return [_summary(group, noisy) for group in groups.values()]


def paired(rows: Sequence[SweepRow]) -> list[PairedRow]:
    """Every method except the first, compared with the first on the same noise.

    These are differences within the same repeat. So their spread contains none of the variation
    that both methods share."""
    first = rows[0].method
    published = [r for r in rows if r.error.source == "postprocessed"]
    against = {
        (r.budget, r.repeat, r.error.level, r.error.query, r.error.bin): r.error.mae
        for r in published
        if r.method == first
    }
    pairs: dict[tuple[Fraction, str, str, str, str], list[tuple[float, float]]] = {}
    for r in published:
        e = r.error
        other = against.get((r.budget, r.repeat, e.level, e.query, e.bin))
        if r.method != first and other is not None:
            pairs.setdefault((r.budget, e.level, e.query, e.bin, r.method), []).append(
                (e.mae, other)
            )
    out = []
    for key, both in pairs.items():
        one, other = (mean(values) for values in zip(*both, strict=True))
        spread = _spread([x - y for x, y in both])
        out.append(PairedRow(*key, first, len(both), one, other, *spread))
    return out


def _summary(group: Sequence[SweepRow], noisy: dict[tuple[object, ...], float]) -> SummaryRow:
    first, errors = group[0], [r.error for r in group]
    e = errors[0]
    mae, bias = _spread([x.mae for x in errors]), _spread([x.bias for x in errors])
    differences = []
    if e.source == "postprocessed":
        keys = [(r.budget, r.method, r.repeat, e.level, e.query, e.bin) for r in group]
        differences = [
            r.error.mae - noisy[k] for r, k in zip(group, keys, strict=True) if k in noisy
        ]
    difference = _spread(differences) if differences else (None, None, None)
    return SummaryRow(
        first.budget,
        first.method,
        e.level,
        e.query,
        e.source,
        e.bin,
        len(group),
        e.n,
        *mae,
        e.expected_mae,
        sqrt(mean(x.rmse**2 for x in errors)),
        *bias,
        *difference,
    )


def _spread(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """The mean of independent runs, and its interval at 95 % where there are several."""
    center = mean(values)
    if len(values) < 2:
        return center, None, None
    reach = half_width(stdev(values) / sqrt(len(values)), len(values))
    return center, center - reach, center + reach


@dataclass(frozen=True, repr=False)
class Headline(NoRepr):
    """Mean absolute error of the total at one level; ``nmf`` is ``None`` where it was not
    measured."""

    level: str
    units: int
    nmf: float | None
    postprocessed: float


def headline(rows: Sequence[ErrorRow]) -> tuple[Headline, ...]:
    """The errors that a run prints at its end: that of the total at each level, in the order of
    the rows."""
    totals = {(r.level, r.source): r for r in rows if r.query == "total" and r.bin == "all"}
    out = []
    for (level, source), row in totals.items():
        if source == "postprocessed":
            nmf = totals.get((level, "nmf"))
            out.append(Headline(level, row.n, nmf.mae if nmf else None, row.mae))
    return tuple(out)
