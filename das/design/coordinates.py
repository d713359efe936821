"""In which coordinates the histogram of a unit is described, and which of them each unit has.

Over all that structures allow, the coordinates are the dense levels of
:mod:`das.estimate.contrasts`, once for each contrast. Over the cells that a unit was published
with, they are these cells, and there is one contrast."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das.estimate.contrasts import Contrasts
from das.model.query import Query
from das.model.schema import Schema

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """``size`` coordinates in each of several contrasts.

    ``multiplicity`` ``(contrasts,)`` is the number of equal vectors in each. Only the first
    contrast has a total. ``contrasts``: those of a schema's algebra, or none for cells."""

    size: int
    multiplicity: Array
    contrasts: Contrasts | None = None

    @staticmethod
    def of_contrasts(contrasts: Contrasts) -> Coordinates:
        return Coordinates(contrasts.d, contrasts.multiplicity, contrasts)

    @staticmethod
    def of_cells(schema: Schema) -> Coordinates:
        return Coordinates(schema.cells, np.ones(1))

    def part(self, contrasts: slice) -> Coordinates:
        """The coordinates with the multiplicities of some contrasts alone."""
        return replace(self, multiplicity=self.multiplicity[contrasts])

    def label(self, query: Query) -> NDArray[np.intp]:
        """Which coordinates a query adds up: equal numbers, ``(size,)``."""
        if self.contrasts is None:
            return query.index
        return np.asarray(
            np.unique(self.contrasts.answers(query)[:, 0], return_inverse=True)[1], dtype=np.intp
        )

    def factor(self, query: Query) -> Array:
        """Q'Q in each contrast, as a multiple of one where labels are equal, ``(contrasts,)``."""
        if self.contrasts is None:
            return np.ones(1)
        return self.contrasts.query(query)[:, 0, 0]
