r"""Exact distributions of integer errors, added up batch by batch.

Errors are integers, so a distribution is a list of distinct values with their counts, whatever the
number of errors: everything that is reported, quantiles too, is exact and needs no errors kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das.model.closed import Closed

#: A distribution over a range wider than this many values, and than the batch, is counted by
#: sorting.
WIDE = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Spread(Closed):
    """``count[i]`` errors of signed ``value[i]``; values increasing, counts > 0."""

    value: NDArray[np.int64]
    count: NDArray[np.int64]

    @staticmethod
    def of(errors: NDArray[np.int64]) -> Spread:
        """Count errors, in any shape."""
        if errors.size == 0:
            return NONE
        errors = errors.ravel()
        low, high = int(errors.min()), int(errors.max())
        if high - low > max(WIDE, errors.size):
            return Spread(*np.unique(errors, return_counts=True))
        count = np.bincount(errors - low, minlength=high - low + 1)
        value = np.flatnonzero(count)
        return Spread(value + low, count[value])

    @staticmethod
    def repeated(error: int, times: int) -> Spread:
        """The same error several times, or never."""
        return Spread(np.array([error]), np.array([times])) if times else NONE

    def merge(self, other: Spread) -> Spread:
        """The errors of both."""
        return Spread.merged([self, other])

    @staticmethod
    def merged(parts: Sequence[Spread]) -> Spread:
        """The errors of all."""
        return _collect(
            np.concatenate([p.value for p in parts]), np.concatenate([p.count for p in parts])
        )

    def without(self, other: Spread) -> Spread:
        """These errors less ``other``, which are among them."""
        return _collect(
            np.concatenate([self.value, other.value]), np.concatenate([self.count, -other.count])
        )

    @property
    def n(self) -> int:
        return int(self.count.sum())

    @property
    def l1(self) -> int:
        """Sum of absolute errors."""
        return int(np.abs(self.value) @ self.count)

    @property
    def mae(self) -> float:
        return self.l1 / self.n

    @property
    def rmse(self) -> float:
        return float(
            np.sqrt(self.value.astype(np.float64) ** 2 @ self.count.astype(np.float64) / self.n)
        )

    @property
    def bias(self) -> float:
        """Mean of the signed error."""
        return int(self.value @ self.count) / self.n

    def quantiles(self, ps: Sequence[Fraction]) -> list[int]:
        r"""The quantiles of the absolute error, of each p :math:`\min\{x : P[|e| \le x] \ge p\}`.

        NumPy's ``inverted_cdf``: always an error that occurs; for an even number of errors the
        median is the lower of the two in the middle."""
        size, n = _collect(np.abs(self.value), self.count), self.n
        ranks = [-(-p.numerator * n // p.denominator) for p in ps]
        return [int(x) for x in size.value[np.searchsorted(np.cumsum(size.count), ranks)]]

    @property
    def largest(self) -> int:
        return int(np.abs(self.value).max())


def _collect(value: NDArray[np.int64], count: NDArray[np.int64]) -> Spread:
    if not len(value):
        return NONE
    order = np.argsort(value, kind="stable")
    value = value[order]
    first = np.flatnonzero(np.append(True, value[1:] != value[:-1]))
    total = np.add.reduceat(count[order], first)
    return Spread(value[first[total > 0]], total[total > 0])


NONE = Spread(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
