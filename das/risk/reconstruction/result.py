"""What an attack says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram


class AttackStatus(IntEnum):
    """How the guess of a unit came about. ``UNIQUE``: the lines allow these records alone, proved.
    ``SOLVED``: records that obey every line, likeliest where lines are perturbed. ``GAP``: the same
    at the time limit, perhaps not the likeliest. ``TIME_OUT``: no records within the limit.
    ``INFEASIBLE``: no records obey the lines. ``REFUSED``: the solver's numbers, rounded to
    integers, break a line. ``RECORDS``: the office publishes records. ``DEALT``: only the
    number of persons is known here, and those of an area around were dealt out. ``SKIPPED``: not
    attacked."""

    UNIQUE = 0
    SOLVED = 1
    GAP = 2
    TIME_OUT = 3
    INFEASIBLE = 4
    REFUSED = 5
    RECORDS = 6
    DEALT = 7
    SKIPPED = 8

    @property
    def guessed(self) -> bool:
        """Whether there is a guess."""
        return self in _GUESSED


_GUESSED = frozenset(
    {
        AttackStatus.UNIQUE,
        AttackStatus.SOLVED,
        AttackStatus.GAP,
        AttackStatus.RECORDS,
        AttackStatus.DEALT,
    }
)


@dataclass(frozen=True, eq=False)
class Reconstruction(Frozen):
    """The guess at everybody's record in the units of the lowest level, ``(units, cells)``;
    ``status`` ``(units,)``, numbers of :class:`AttackStatus`; ``variability`` ``(units,)`` in
    percent, nan where it was not measured; ``seconds`` ``(units,)``."""

    histogram: Histogram
    status: NDArray[np.int8]
    variability: NDArray[np.float64]
    seconds: NDArray[np.float64]

    def __post_init__(self) -> None:
        units = self.histogram.units
        if not len(self.status) == len(self.variability) == len(self.seconds) == units:
            raise InputError("units differ in number", where="reconstruction")

    def count(self, status: AttackStatus) -> int:
        """Units with this status."""
        return int((self.status == status).sum())

    @property
    def unique(self) -> NDArray[np.bool_]:
        """Units whose records the lines determine, ``(units,)``."""
        return self.status == AttackStatus.UNIQUE

    @property
    def mean_variability(self) -> float:
        """The mean of the variability over persons of the guess, in percent; nan where no unit has
        one (Bureau: cumsolvar).
        """
        known, persons = ~np.isnan(self.variability), self.histogram.totals()
        if not persons[known].sum():
            return float("nan")
        return float(np.average(self.variability[known], weights=persons[known]))

    @staticmethod
    def merged(parts: Sequence[Reconstruction]) -> Reconstruction:
        """One of several that attacked different units of the same tree."""
        if not parts:
            raise InputError("there is no part", where="reconstruction")
        status = np.stack([p.status for p in parts])
        if ((status != AttackStatus.SKIPPED).sum(axis=0) > 1).any():
            raise InputError("two parts attacked the same unit", where="reconstruction")
        of = (status != AttackStatus.SKIPPED).argmax(axis=0)
        every = np.arange(len(of))
        unit, cell, count = (
            np.concatenate([getattr(p.histogram, name) for p in parts])
            for name in ("unit", "cell", "count")
        )
        return Reconstruction(
            Histogram.of(len(of), parts[0].histogram.cells, unit, cell, count),
            status[of, every],
            np.stack([p.variability for p in parts])[of, every],
            np.stack([p.seconds for p in parts])[of, every],
        )
