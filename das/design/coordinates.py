"""In which coordinates the histogram of a unit is described, and which of them each unit has.

Over all that structures allow, the coordinates are the dense levels of :mod:`das.estimate.modes`,
once for each mode. Over the cells that a unit was published with, they are these cells, and there
is one mode."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das.estimate.modes import Modes
from das.model.query import Query
from das.model.schema import Schema

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """``size`` coordinates in each of several modes, of which ``multiplicity`` ``(modes,)`` has as
    many as there are vectors alike in it. The first mode alone has a total. ``modes``: those of a
    schema's algebra, or none for cells."""

    size: int
    multiplicity: Array
    modes: Modes | None = None

    @staticmethod
    def of_modes(modes: Modes) -> Coordinates:
        return Coordinates(modes.d, modes.multiplicity, modes)

    @staticmethod
    def of_cells(schema: Schema) -> Coordinates:
        return Coordinates(schema.cells, np.ones(1))

    def part(self, modes: slice) -> Coordinates:
        """With the multiplicities of some modes alone."""
        return replace(self, multiplicity=self.multiplicity[modes])

    def label(self, query: Query) -> NDArray[np.intp]:
        """Which coordinates a query adds up: equal numbers, ``(size,)``."""
        if self.modes is None:
            return query.index
        return np.asarray(
            np.unique(self.modes.answers(query)[:, 0], return_inverse=True)[1], dtype=np.intp
        )

    def factor(self, query: Query) -> Array:
        """Q'Q in each mode, as a multiple of one where labels are equal, ``(modes,)``."""
        if self.modes is None:
            return np.ones(1)
        return self.modes.query(query)[:, 0, 0]
