"""Errors of one query at one level, added up chunk by chunk: by class of the true count, and by cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from das.evaluate.bias import interval
from das.evaluate.spread import NONE, Spread
from das.evaluate.theory import Moments
from das.model.error_rows import CLASSES, FIRST, ErrorRow

_FIRST = np.array(FIRST)
_QUANTILES = tuple(Fraction(p, 100) for p in (50, 90, 95, 99))
#: Estimates are real numbers: their errors are counted in this part of a person.
PART = 256


class ErrorTally:
    """Errors of integers, or (``real``) of real numbers.

    Columns of the arrays are the classes of the true count: nearly all true counts of a block are 0, so class 0 is
    what the others leave over, and only the positive counts are looked at one by one.
    """

    def __init__(self, clusters: int, *, real: bool = False) -> None:
        self.unit = PART if real else 1
        self.every = NONE
        self.classes = [NONE] * len(CLASSES)
        self.total = np.zeros((clusters, len(CLASSES)))  # of errors, in parts
        self.size = np.zeros((clusters, len(CLASSES)))
        self.percent, self.algebraic, self.true, self.lost = np.zeros((4, len(CLASSES)))
        self.known = self.covered = 0

    def add(
        self, values: NDArray[np.int64] | NDArray[np.float64], true: NDArray[np.int64], cluster: NDArray[np.int64]
    ) -> None:
        """``values`` and ``true`` are ``(units, answers)``, ``cluster`` ``(units,)`` and not decreasing."""
        if not len(true):
            return
        difference = values - true if self.unit == 1 else np.rint((values - true) * self.unit)
        error = difference.astype(np.int64, copy=False)
        answers = true.shape[1]
        first, home = int(cluster[0]), cluster - cluster[0]
        k, m = len(CLASSES), int(home[-1]) + 1
        here = slice(first, first + m)
        at = np.flatnonzero(true)
        e, t = error.ravel()[at], true.ravel()[at]
        size = np.searchsorted(_FIRST, t, side="right") - 1
        key = home[at // answers] * k + size
        total = np.bincount(key, weights=e, minlength=m * k).reshape(m, k)
        count = np.bincount(key, minlength=m * k).reshape(m, k)
        total[:, 0] = np.bincount(home, weights=error.sum(axis=1), minlength=m) - total.sum(axis=1)
        count[:, 0] = answers * np.bincount(home, minlength=m) - count.sum(axis=1)
        self.total[here] += total
        self.size[here] += count
        for sums, weights in (
            (self.percent, np.abs(e) / t),
            (self.algebraic, e / t),
            (self.true, t),
            (self.lost, e <= -t),
        ):
            sums += np.bincount(size, weights=weights, minlength=k)
        self._spread(error.ravel(), e, size)

    def _spread(self, error: NDArray[np.int64], e: NDArray[np.int64], size: NDArray[np.int64]) -> None:
        rest = every = Spread.of(error)
        for i in range(1, len(CLASSES)):
            if (part := Spread.of(e[size == i])).n:
                self.classes[i] = self.classes[i].merge(part)
                rest = rest.without(part)
        self.classes[0] = self.classes[0].merge(rest)
        self.every = self.every.merge(every)

    def cover(self, inside: NDArray[np.bool_], uncertain: NDArray[np.bool_]) -> None:
        """Which answers lie inside their intervals, of those that are uncertain at all."""
        self.known += int(np.count_nonzero(uncertain))
        self.covered += int(np.count_nonzero(inside & uncertain))

    def rows(self, level: str, query: str, source: str, persons: int, noise: Moments | None) -> Iterator[ErrorRow]:
        """Row ``all`` and those of the classes that occur. ``noise``: what the errors should be, where that is known."""
        everything = slice(0, len(CLASSES))
        for name, which, spread in (("all", everything, self.every),
                                    *((c, slice(i, i + 1), self.classes[i]) for i, c in enumerate(CLASSES))):  # fmt: skip
            if spread.n:
                row = self._row(level, query, source, name, which, spread)
                if name == "all":
                    tvd = 1 - spread.l1 / (2 * persons * self.unit) if persons else None
                    row = replace(row, tvd=tvd, coverage=self.covered / self.known if self.known else None)
                yield row if noise is None else _beside(row, noise)

    def _row(self, level: str, query: str, source: str, name: str, which: slice, spread: Spread) -> ErrorRow:
        u, n = self.unit, spread.n
        p50, p90, p95, p99 = (spread.quantile(p) / u for p in _QUANTILES)
        found = interval(self.total[:, which].sum(axis=1) / u, self.size[:, which].sum(axis=1))
        appeared = vanished = zeros = 0
        if which.start == 0:
            zero = self.classes[0]
            appeared, vanished = int(zero.count[zero.value > 0].sum()), int(zero.count[zero.value < 0].sum())
            zeros = appeared + vanished
        percent = 100 * (self.percent[which].sum() / u + 2 * zeros) / n
        algebraic = 100 * (self.algebraic[which].sum() / u + 2 * (appeared - vanished)) / n
        mean = self.true[which].sum() / n
        real = u > 1
        return ErrorRow(
            level, query, source, name, n, spread.mae / u, spread.rmse / u, spread.bias / u, p50, p95,
            spread.largest / u, None, p90, p99,
            mape=None if real else float(percent),
            malpe=None if real else float(algebraic),
            cv=float(100 * spread.rmse / u / mean) if mean else None,
            bias_se=found.error if found else None,
            bias_low=found.low if found else None,
            bias_high=found.high if found else None,
            clusters=found.clusters if found else None,
            zero_to_positive=None if real else appeared,
            positive_to_zero=None if real else int(self.lost[which].sum()),
        )  # fmt: skip


def _beside(row: ErrorRow, noise: Moments) -> ErrorRow:
    error = noise.deviation_abs / sqrt(row.n)
    return replace(row, expected_mae=noise.mean_abs, expected_rmse=sqrt(noise.variance),
                   mae_z=(row.mae - noise.mean_abs) / error if error > 0 else None)  # fmt: skip
