"""Noisy answers, as estimation sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError


@dataclass(frozen=True)
class Measurement:
    """Noisy answers of one query for the units ``start : start + len(values)`` of one level.

    ``values`` has shape ``(units, answers)`` (int64, may be negative); ``variance`` shape ``(units,)``,
    float, infinite where a unit was not measured.
    """

    level: str
    query: str
    start: int
    values: NDArray[np.int64]
    variance: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.variance.shape != self.values.shape[:1]:
            raise InputError(
                "values must be (units, answers) and variance (units,)", where=f"{self.level}/{self.query}"
            )
        if not (self.variance > 0).all():
            raise InputError("a variance is not positive", where=f"{self.level}/{self.query}")


class MeasurementSource(Protocol):
    """Where estimation reads measurements from: a slice of units at a time."""

    def queries(self, level: str) -> tuple[str, ...]:
        """Names of the queries measured at ``level``."""
        ...

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        """The measurement of units ``start:stop``."""
        ...
