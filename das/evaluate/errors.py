"""The errors of one query at one level, or of a part of its units: a value that adds up, and its
rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from das.evaluate.comparison import FAMILIES, ClusterSums
from das.model.error_rows import CLASSES, FIRST_SIZES, SIZES, ErrorRow, SizeRow
from das.model.frozen import NoRepr
from das.model.mechanisms import Mechanism

# Exact distributions of integer errors, added up batch by batch.
#
# Errors are integers, so a distribution is a list of distinct values with their counts, whatever the
# number of errors: everything that is reported, quantiles too, is exact and needs no errors kept.

#: A distribution over a range wider than this many values, and than the batch, is counted by
#: sorting.
WIDE = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Spread(NoRepr):
    """``count[i]`` errors of signed ``value[i]``; values increasing, counts > 0."""

    value: NDArray[np.int64]
    count: NDArray[np.int64]

    @staticmethod
    def from_errors(errors: NDArray[np.int64]) -> Spread:
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


# What the errors of noisy measurements must be: the moments of their noise.
#
# A published variance determines the noise of a mechanism (:mod:`das.model.mechanisms`), so units of
# one query may have different ones.


@dataclass(frozen=True)
class Moments:
    """E|X| and the variance of one answer's noise."""

    mean_abs: float
    variance: float

    @property
    def deviation_abs(self) -> float:
        """The standard deviation of \\|X\\|. Divided by sqrt(n) it is that of a mean absolute error
        of n answers."""
        return sqrt(max(0.0, self.variance - self.mean_abs**2))


@lru_cache(maxsize=4096)
def moments(mechanism: Mechanism, variance: float) -> Moments:
    """The noise whose published variance is ``variance`` (finite, > 0).

    >>> from das.model.mechanisms import DISCRETE_GAUSSIAN
    >>> m = moments(DISCRETE_GAUSSIAN, 25.0)
    >>> round(m.mean_abs, 4), round(5 * sqrt(2 / 3.14159265), 4)
    (3.9761, 3.9894)"""
    return Moments(mechanism.mean_abs(variance), variance)


def expected(mechanism: Mechanism, units: dict[float, int]) -> Moments:
    """Over units of several variances (``units`` of each): the moments of an answer of a random one
    of them."""
    n = sum(units.values())
    each = [(moments(mechanism, v), k / n) for v, k in units.items()]
    return Moments(sum(m.mean_abs * w for m, w in each), sum(m.variance * w for m, w in each))


# What belongs together, of several parts.

T = TypeVar("T")


def grouped(values: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Those of the same key, in the order in which keys come first.

    >>> grouped(["Block", "Tract", "Blocks"], lambda name: name[0])
    [['Block', 'Blocks'], ['Tract']]"""
    out: dict[Hashable, list[T]] = {}
    for value in values:
        out.setdefault(key(value), []).append(value)
    return list(out.values())


_QUANTILES = tuple(Fraction(p, 100) for p in (50, 90, 95, 99))


@dataclass(frozen=True, eq=False, repr=False)
class Errors(NoRepr):
    """What a row needs, by class of the true count.

    It has the distribution of errors in ``classes``. It has ``(classes,)`` sums of :math:`|e|/t`,
    :math:`e/t` and :math:`t` over the positive true counts, and the number of these where nobody is
    left (``lost``). Errors are whole numbers; ``unit`` of them make a person.

    ``families`` are sums over families of siblings, of each class and of all; ``parents`` is how
    many families there are. ``units`` are the same over units, and stay only while there are fewer
    than :data:`das.evaluate.comparison.FAMILIES` families."""

    unit: int
    classes: tuple[Spread, ...]
    percent: NDArray[np.float64]
    algebraic: NDArray[np.float64]
    true: NDArray[np.int64]
    lost: NDArray[np.int64]
    known: int
    covered: int
    parents: int
    families: tuple[ClusterSums, ...]
    units: tuple[ClusterSums, ...] | None

    @staticmethod
    def merged(parts: Sequence[Errors]) -> Errors:
        """The errors of all parts, which have no family in common. All is exact but the sums of
        percent errors, which are added up in the order of the parts."""
        first, *others = parts
        if not others:
            return first
        units = None
        if all(p.units for p in parts):
            units = tuple(
                map(ClusterSums.merged, zip(*(p.units or () for p in parts), strict=True))
            )
        percent, algebraic, true, lost = (
            sum((getattr(p, name) for p in others), getattr(first, name))
            for name in ("percent", "algebraic", "true", "lost")
        )
        return Errors(
            first.unit,
            tuple(map(Spread.merged, zip(*(p.classes for p in parts), strict=True))),
            percent,
            algebraic,
            true,
            lost,
            sum(p.known for p in parts),
            sum(p.covered for p in parts),
            sum(p.parents for p in parts),
            tuple(map(ClusterSums.merged, zip(*(p.families for p in parts), strict=True))),
            units,
        )

    def rows(
        self, level: str, query: str, source: str, persons: int, noise: Moments | None
    ) -> Iterator[ErrorRow]:
        """Row ``all`` and a row for each class that occurs; none if there is no error. ``persons``:
        the true total of the level. ``noise``: the expected errors, where they are known."""
        every = Spread.merged(self.classes)
        if every.n:
            row = self._row(level, query, source, len(CLASSES), every)
            tvd = 1 - every.l1 / (2 * persons * self.unit) if persons else None
            row = replace(row, tvd=tvd, coverage=self.covered / self.known if self.known else None)
            yield row if noise is None else _beside(row, noise)
        for i, spread in enumerate(self.classes):
            if spread.n:
                row = self._row(level, query, source, i, spread)
                yield row if noise is None else _beside(row, noise)

    def _of_zeros(self) -> tuple[int, int]:
        """How many counts of zero were published as positive, and as negative."""
        zero = self.classes[0]
        return int(zero.count[zero.value > 0].sum()), int(zero.count[zero.value < 0].sum())

    def _row(self, level: str, query: str, source: str, number: int, spread: Spread) -> ErrorRow:
        """The row of a class by its number; the number after the last class means all of them."""
        u, n = self.unit, spread.n
        name, which = "all", slice(0, number)
        if number < len(CLASSES):
            name, which = CLASSES[number], slice(number, number + 1)
        p50, p90, p95, p99 = (x / u for x in spread.quantiles(_QUANTILES))
        clusters = self.families if self.units is None or self.parents >= FAMILIES else self.units
        found = clusters[number].interval(u)
        appeared, vanished = self._of_zeros() if which.start == 0 else (0, 0)
        percent = 100 * (self.percent[which].sum() / u + 2 * (appeared + vanished)) / n
        algebraic = 100 * (self.algebraic[which].sum() / u + 2 * (appeared - vanished)) / n
        mean = self.true[which].sum() / n
        real = u > 1
        return ErrorRow(
            level,
            query,
            source,
            name,
            n,
            spread.mae / u,
            spread.rmse / u,
            spread.bias / u,
            p50,
            p95,
            spread.largest / u,
            None,
            p90,
            p99,
            mape=None if real else float(percent),
            malpe=None if real else float(algebraic),
            cv=float(100 * spread.rmse / u / mean) if mean else None,
            bias_se=found.error if found else None,
            bias_low=found.low if found else None,
            bias_high=found.high if found else None,
            clusters=found.clusters if found else None,
            zero_to_positive=None if real else appeared,
            positive_to_zero=None if real else int(self.lost[which].sum()),
        )


def _beside(row: ErrorRow, noise: Moments) -> ErrorRow:
    error = noise.deviation_abs / sqrt(row.n)
    return replace(
        row,
        expected_mae=noise.mean_abs,
        expected_rmse=sqrt(noise.variance),
        mae_z=(row.mae - noise.mean_abs) / error if error > 0 else None,
    )


def size_rows(
    level: str,
    published: NDArray[np.int64],
    true: NDArray[np.int64],
    expected: NDArray[np.float64] | None,
) -> list[SizeRow]:
    """Errors of totals ``(units,)`` by class of the true one. ``expected`` ``(2, units)``: the bias
    that is predicted, and the standard error of a corrected total. Where a bias is predicted for some
    units, empty units without one are left out: they are known to be empty."""
    error, out = (published - true).astype(float), []
    known, deviation = np.full((2, len(true)), np.nan) if expected is None else expected
    of = np.searchsorted(FIRST_SIZES, true, side="right") - 1
    if not np.isnan(known).all():
        of[np.isnan(known) & (true == 0) & (published == 0)] = -1
    margin = np.ceil(1.96 * deviation - 0.5)
    low, width = np.maximum(published - margin, 0), margin + np.minimum(margin, published)
    held = (low <= true) & (true <= published + margin)
    for i, size in enumerate(SIZES):
        here = of == i
        if n := int(here.sum()):
            e, bias = error[here], float(error[here].mean())
            reach = 1.96 * float(e.std(ddof=1)) / sqrt(n) if n > 1 else 0.0
            said = known[here & ~np.isnan(known)]
            predicted = float(said.mean()) if len(said) else None
            mae, spoken = float(np.abs(e).mean()), here & ~np.isnan(margin)
            row = SizeRow(level, size, n, mae, bias, bias - reach, bias + reach, predicted)
            if spoken.any():
                share, mean = float(held[spoken].mean()), float(width[spoken].mean())
                row = replace(row, intervals=int(spoken.sum()), coverage=share, width=mean)
            out.append(row)
    return out
