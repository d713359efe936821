"""What is swapped: households, or single persons where records have no households."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen
from das.protect.study_records import NO_HOUSEHOLD, StudyRecords

#: What can be swapped.
KINDS = ("household", "person")


@dataclass(frozen=True, eq=False, repr=False)
class SwapUnits(Frozen):
    """The units that change places. ``unit``: the unit of each person, -1 for those who stay, int64
    of shape ``(persons,)``; ``place``: where each unit is, ``(units,)``; ``size``: its persons;
    ``profile``: a number for its persons in each group of the attributes that partners share;
    ``persons``: whether each is a single person."""

    unit: NDArray[np.int64]
    place: NDArray[np.int64]
    size: NDArray[np.int64]
    profile: NDArray[np.int64]
    persons: bool = False

    @staticmethod
    def of(records: StudyRecords, kind: str, match: Sequence[str] = ()) -> SwapUnits:
        """The households (or persons) of ``records``. ``match``: attributes or groupings such as
        ``votingage``. Partners have as many persons in each of their groups."""
        unit = np.arange(len(records)) if kind == KINDS[1] else records.household
        if unit is None:
            raise InputError(
                "the records have no households",
                where="method swapping",
                remedy='swap persons instead: unit = "person"',
            )
        inside = unit != NO_HOUSEHOLD
        mine, units = unit[inside], int(unit.max(initial=-1)) + 1
        place = np.zeros(units, dtype=np.int64)
        place[mine] = records.place[inside]
        counts = []
        for name in match:
            query = records.schema.query(name)
            at = mine * query.answers + query.at(records.cell[inside])
            counts.append(
                np.bincount(at, minlength=units * query.answers).reshape(units, query.answers)
            )
        profile = np.zeros(units, dtype=np.int64)
        if counts and units:
            profile = np.unique(np.hstack(counts), axis=0, return_inverse=True)[1].ravel()
        return SwapUnits(unit, place, np.bincount(mine, minlength=units), profile, kind == KINDS[1])

    def __len__(self) -> int:
        return len(self.place)

    def moved(self, records: StudyRecords, place: NDArray[np.int64]) -> StudyRecords:
        """The records with each unit at another place, ``(units,)``. Where single persons move, it
        is unknown who lives with whom."""
        there = records.place.copy()
        inside = self.unit != NO_HOUSEHOLD
        there[inside] = place[self.unit[inside]]
        home = None if self.persons else records.household
        return replace(records, place=there, household=home)
