"""Areas off the spine: any lists of the lowest units, such as places, that may cut across every level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError


@dataclass(frozen=True, eq=False)
class Areas:
    """Areas of one kind: unit ``unit[i]`` of the lowest level lies in area ``area[i]``, whose name is
    ``names[area[i]]``. An area has one unit at least; a unit may be in several areas, or in none."""

    kind: str
    names: NDArray[np.str_]
    area: NDArray[np.int64]
    unit: NDArray[np.int64]

    def __post_init__(self) -> None:
        where = f"areas {self.kind!r}"
        if len(self.area) != len(self.unit):
            raise InputError("areas and units differ in number", where=where)
        if len(self.names) == 0 or not np.array_equal(np.unique(self.area), np.arange(len(self.names))):
            raise InputError("an area has no unit, or has no name", where=where)
        if len(np.unique(self.names)) != len(self.names):
            raise InputError("two areas have the same name", where=where)
        if self.unit.min() < 0 or len(np.unique(np.stack([self.area, self.unit]), axis=1).T) != len(self.area):
            raise InputError("a unit is in an area twice, or is no unit", where=where)

    @staticmethod
    def of_field(kind: str, code: NDArray[np.str_], unit: NDArray[np.int64], units: int) -> Areas | None:
        """From a code of each block and the lowest unit of each block. Blank, or all nines, is no area; a unit whose
        blocks have different codes is in none of them. ``None`` where there is no area."""
        names, area = np.unique(code, return_inverse=True)
        low, high = np.full(units, len(names)), np.full(units, -1)
        np.minimum.at(low, unit, area)
        np.maximum.at(high, unit, area)
        inside = np.flatnonzero((low == high) & ~np.append(_none(names), True)[low])
        if not len(inside):
            return None
        kept, area = np.unique(low[inside], return_inverse=True)
        return Areas(kind, names[kept], area.astype(np.int64), inside.astype(np.int64))


#: Fields whose codes are unique only in another, whose code stands before theirs.
INSIDE = {"Place": "State", "CD": "State", "SLDU": "State", "SLDL": "State", "VTD": "County"}


def off_spine(
    fields: Mapping[str, NDArray[np.str_]], levels: Sequence[str], unit: NDArray[np.int64], units: int
) -> tuple[Areas, ...]:
    """Every geographic field of the blocks that is no level of the spine, with codes that are unique as a whole."""
    found = []
    for field, code in fields.items():
        if field in levels:
            continue
        if (above := fields.get(INSIDE.get(field, ""))) is not None:
            code = np.where(_none(code), "", np.strings.add(above, np.strings.strip(code)))
        areas = Areas.of_field(field, code, unit, units)
        if areas is not None:
            found.append(areas)
    return tuple(found)


def _none(codes: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Blank, or all nines."""
    return np.asarray(np.strings.strip(codes, "9 ") == "")
