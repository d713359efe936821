"""The records of a study: persons in their places, and who lives with whom (confidential)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen, NoRepr
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine

#: The household of a person who is in none: somebody in group quarters.
NO_HOUSEHOLD = -1


@dataclass(frozen=True, eq=False, repr=False)
class StudyRecords(NoRepr, Frozen):
    """Persons as arrays of int64, ``(persons,)``. ``place``: the unit of the lowest level of
    ``spine``; ``cell``: of ``schema``; ``household``: its number, 0 to households - 1, or
    :data:`NO_HOUSEHOLD`; ``None`` where the input has no households. ``points``: a coordinate pair
    for each place, ``(places, 2)``, where known."""

    schema: Schema
    spine: Spine
    place: NDArray[np.int64]
    cell: NDArray[np.int64]
    household: NDArray[np.int64] | None = None
    points: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        where, places = "records of a study", self.spine.units(self.spine.levels[-1])
        if len(self.place) != len(self.cell):
            raise InputError("places and cells differ in number", where=where)
        for name, value, most in (
            ("place", self.place, places),
            ("cell", self.cell, self.schema.cells),
        ):
            if len(value) and not (value.min() >= 0 and value.max() < most):
                raise InputError(f"a {name} outside 0..{most - 1}", where=where)
        if self.household is not None:
            self._check_households(where)
        if self.points is not None and self.points.shape != (places, 2):
            raise InputError("each place needs two coordinates", where=where)

    def _check_households(self, where: str) -> None:
        assert self.household is not None
        if len(self.household) != len(self.place):
            raise InputError("persons and their households differ in number", where=where)
        inside = self.household != NO_HOUSEHOLD
        home, place = self.household[inside], self.place[inside]
        if not np.array_equal(np.unique(home), np.arange(self.households)):
            raise InputError("households are not numbered 0 to households - 1", where=where)
        order = np.argsort(home, kind="stable")
        same = home[order][1:] == home[order][:-1]
        if (place[order][1:] != place[order][:-1])[same].any():
            raise InputError("a household is in two places", where=where)

    def __len__(self) -> int:
        return len(self.place)

    @property
    def households(self) -> int:
        """The number of households; 0 where the input has none."""
        if self.household is None or not len(self.household):
            return 0
        return int(self.household.max()) + 1

    def histogram(self) -> Histogram:
        """Counts by place and cell."""
        ones = np.ones(len(self), dtype=np.int64)
        places = self.spine.units(self.spine.levels[-1])
        return Histogram.from_triplets(places, self.schema.cells, self.place, self.cell, ones)
