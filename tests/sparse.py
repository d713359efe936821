"""A source of answers in memory, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.model.measurement import SparseMeasurement, not_measured

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparseMeasurements(Frozen):
    """Measurements by level and query."""

    held: Mapping[tuple[str, str], SparseMeasurement]

    @staticmethod
    def from_measurements(measurements: Iterable[SparseMeasurement]) -> SparseMeasurements:
        return SparseMeasurements({(m.level, m.query): m for m in measurements})

    def queries(self, level: str) -> tuple[str, ...]:
        return tuple(query for here, query in self.held if here == level)

    def shape(self, level: str, query: str) -> tuple[int, int]:
        return self._of(level, query).shape

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        return self._of(level, query).variance

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        return self._of(level, query).answers(units, cells)

    def _of(self, level: str, query: str) -> SparseMeasurement:
        if (level, query) not in self.held:
            raise not_measured(level, query, self.queries(level))
        return self.held[level, query]
