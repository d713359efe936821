r"""The standard error of a mean error within one run.

Errors of one run are not independent. The answers of a unit come from one solve. Siblings add up to
a parent whose own error is small, so an excess in one is a shortage in another. Taken one by one,
the errors of 2,016 cells would suggest a precision that no rerun shows. The mean over a class is a
ratio of sums over clusters, :math:`\bar e = \sum_c S_c / \sum_c n_c`, and its linearized variance

.. math:: \widehat{\mathrm{Var}}(\bar e) = \frac{m}{m - 1} \frac{\sum_c (S_c - \bar e\, n_c)^2}{(\sum_c n_c)^2},

over the :math:`m` clusters that the class occurs in (Cochran, *Sampling Techniques*, 1977, equation
6.13, as a with-replacement sample). Intervals are those of Student's t with :math:`m - 1` degrees
of freedom. A cluster is a family of siblings, or a unit where a level has fewer than
:data:`FAMILIES` families. Differences between clusters that would recur in every rerun count as
well, so intervals are more likely too wide than too narrow.

Errors are integers, so :math:`S_c` and :math:`n_c` are integers, too. With :math:`N = \sum n_c` and
:math:`E = \sum S_c`, the square of the residuals is a quadratic form in five sums over clusters:

.. math:: \sum_c (S_c - \bar e\, n_c)^2 = \frac{N^2 \sum S_c^2 - 2 E N \sum S_c n_c + E^2 \sum n_c^2}{N^2}.

Exact integers lose nothing by cancellation, and the clusters need not be kept. The sums of parts of
a tree add up to those of the whole, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from das.model.closed import Closed

Ints = NDArray[np.int64]

#: With fewer families than this at a level its units are the clusters.
FAMILIES = 10
CONFIDENCE = 0.95


@dataclass(frozen=True, repr=False)
class ClusteredInterval(Closed):
    """A standard error, its clusters, and the interval at 95 %."""

    error: float
    low: float
    high: float
    clusters: int


@dataclass(frozen=True, repr=False)
class ClusterSums(Closed):
    """Sums over clusters with an error :math:`S` (``total``) and a number of errors :math:`n`
    (``size``), of those that have any: exact, of any magnitude."""

    clusters: int
    size: int
    total: int
    size_squared: int
    total_size: int
    total_squared: int

    @staticmethod
    def of(total: Ints, size: Ints) -> ClusterSums:
        """From those of each cluster, ``(clusters,)``."""
        here = size > 0
        s, n = total[here], size[here]
        return ClusterSums(len(n), int(n.sum()), int(s.sum()), _dot(n, n), _dot(s, n), _dot(s, s))

    @staticmethod
    def of_each(total: Ints, size: Ints) -> tuple[ClusterSums, ...]:
        """:meth:`of` each column ``(clusters, columns)``: of all at once where 64 bits certainly
        hold the sums of squares.
        """
        if max(_largest(total), _largest(size)) ** 2 * len(total) >= 1 << 63:
            return tuple(ClusterSums.of(total[:, i], size[:, i]) for i in range(total.shape[1]))
        total = np.where(size > 0, total, 0)
        sums = (size > 0, size, total, size * size, total * size, total * total)
        return tuple(
            ClusterSums(*column)
            for column in zip(*(x.sum(axis=0).tolist() for x in sums), strict=True)
        )

    @staticmethod
    def merged(parts: Sequence[ClusterSums]) -> ClusterSums:
        """The sums over the clusters of all parts; no cluster is in two parts."""
        return ClusterSums(
            sum(p.clusters for p in parts),
            sum(p.size for p in parts),
            sum(p.total for p in parts),
            sum(p.size_squared for p in parts),
            sum(p.total_size for p in parts),
            sum(p.total_squared for p in parts),
        )

    def interval(self, unit: int = 1) -> ClusteredInterval | None:
        """The interval in persons, where ``unit`` persons are counted as one; ``None`` with fewer
        than two clusters.
        """
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
    error.
    """
    return error * float(stdtrit(m - 1, (1 + CONFIDENCE) / 2))
