"""The errors of one query at one level, or of a part of its units: a value that adds up, and its
rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from das.evaluate.bias import FAMILIES, ClusterSums
from das.evaluate.spread import Spread
from das.evaluate.theory import Moments
from das.model.closed import Closed
from das.model.error_rows import CLASSES, ErrorRow

_QUANTILES = tuple(Fraction(p, 100) for p in (50, 90, 95, 99))


@dataclass(frozen=True, eq=False, repr=False)
class Errors(Closed):
    """What a row needs, by class of the true count.

    It has the distribution of errors in ``classes``. It has ``(classes,)`` sums of :math:`|e|/t`,
    :math:`e/t` and :math:`t` over the positive true counts, and the number of these where nobody is
    left (``lost``). Errors are whole numbers; ``unit`` of them make a person.

    ``families`` are sums over families of siblings, of each class and of all; ``parents`` is how
    many families there are. ``units`` are the same over units, and stay only while there are fewer
    than :data:`das.evaluate.bias.FAMILIES` families."""

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
