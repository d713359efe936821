"""Areas off the spine: any lists of the lowest units, such as places, that may cut across every
level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.names import Codes, Names, blank, encoded
from das.model.spine import Spine


@dataclass(frozen=True, eq=False)
class Areas(Frozen):
    """Areas of one kind. Unit ``unit[i]`` of the lowest level lies in area ``area[i]``, whose code
    is ``codes[area[i]]``. Its name is ``names[area[i]]``, empty if it has none (all are empty
    without this argument). An area has at least one unit; a unit can be in several areas, or in
    none."""

    kind: str
    codes: Codes
    area: NDArray[np.int64]
    unit: NDArray[np.int64]
    names: NDArray[np.str_] | None = None

    def __post_init__(self) -> None:
        where = f"areas {self.kind!r}"
        object.__setattr__(self, "codes", encoded(self.codes))
        if len(self.area) != len(self.unit):
            raise InputError("areas and units differ in number", where=where)
        if len(self.codes) == 0 or not np.array_equal(
            np.unique(self.area), np.arange(len(self.codes))
        ):
            raise InputError("an area has no unit, or has no code", where=where)
        if len(np.unique(self.codes)) != len(self.codes):
            raise InputError("two areas have the same code", where=where)
        if self.names is not None and len(self.names) != len(self.codes):
            raise InputError("codes and names differ in number", where=where)
        both = np.sort(self.area * (int(self.unit.max()) + 1) + self.unit)
        if self.unit.min() < 0 or (both[1:] == both[:-1]).any():
            raise InputError("a unit is in an area twice, or is no unit", where=where)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def called(self) -> NDArray[np.str_]:
        """The name of each area, empty where there is none."""
        return blank(len(self.codes)) if self.names is None else self.names

    @property
    def geoids(self) -> Codes:
        """The Bureau's identifier of each area. It is empty if the kind has no TIGER files, or the
        code has not their number of digits.

        >>> one = np.zeros(1, dtype=int)
        >>> [
        ...     Areas(k, encoded([c]), one, one).geoids[0]
        ...     for k, c in (("Place", "4459000"), ("Place", "7"), ("Ward", "4459000"))
        ... ]
        [np.bytes_(b'4459000'), np.bytes_(b''), np.bytes_(b'')]"""
        return np.where(
            np.strings.str_len(self.codes) == GEOID_DIGITS.get(self.kind, -1), self.codes, b""
        )

    def title(self, area: int) -> str:
        """How a page calls an area: its name and, in brackets, its code; its code where it has no
        name."""
        name, code = str(self.called[area]), self.code(area)
        return f"{name} ({code})" if name else code

    def code(self, area: int) -> str:
        """The code of an area as text."""
        return str(self.codes[area], "utf-8")

    def some(self, wanted: NDArray[np.bool_]) -> Areas:
        """The ``wanted`` ones, ``(areas,)``: one at least."""
        number, inside = np.cumsum(wanted) - 1, wanted[self.area]
        names = None if self.names is None else self.names[wanted]
        return Areas(
            self.kind, self.codes[wanted], number[self.area[inside]], self.unit[inside], names
        )

    def check_partition(self, spine: Spine) -> None:
        """Raises :class:`InputError` where a lowest unit of the spine is in no area, or in two:
        with the first, and how many."""
        times = np.bincount(self.unit, minlength=len(spine.codes[-1]))
        for odd, what in ((times == 0, "in no area"), (times > 1, "in two areas or more")):
            if odd.any():
                first, level = spine.code(spine.levels[-1], int(odd.argmax())), spine.levels[-1]
                more = f" (and {int(odd.sum()) - 1:,} more)" if odd.sum() > 1 else ""
                raise InputError(
                    f"{level} {first}{more} is {what}",
                    where=f"areas {self.kind!r}",
                    remedy="a plan must have each block in exactly one area: fix the list",
                )

    def histogram(self, h: Histogram) -> Histogram:
        """The counts of the lowest units, added up to the areas."""
        return h.some(self.unit).up(self.area, len(self))

    def over(self, tree: MeasuredSpine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The area, and the lowest unit of the tree, of each block in an area. Leaves out blocks
        that are not on the tree."""
        unit = tree.numbers(self.unit)
        return self.area[unit >= 0], unit[unit >= 0]

    def whole_units(self, spine: Spine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The level, by its number, and the unit of the ``spine`` that each area is, neither more
        nor less of its lowest units; -1 both where it is none. Of several (an only child is its
        parent) it is that of the level that the kind is called by, or else the highest."""
        blocks, lowest = np.bincount(self.area), spine.levels[-1]
        depth, unit = np.full((2, len(self)), -1)
        known = [i for i, level in enumerate(spine.levels) if level == self.kind]
        for at in [*reversed(range(len(spine))), *known]:
            home = spine.up(lowest, spine.levels[at])
            first, last = np.full(len(self), len(home)), np.full(len(self), -1)
            np.minimum.at(first, self.area, home[self.unit])
            np.maximum.at(last, self.area, home[self.unit])
            whole = (first == last) & (np.bincount(home)[last] == blocks)
            depth[whole], unit[whole] = at, last[whole]
        return depth, unit

    @staticmethod
    def of_field(
        kind: str, code: Codes, unit: NDArray[np.int64], units: int, names: Names | None = None
    ) -> Areas | None:
        """From a code of each block and the lowest unit of each block. Blank, or all nines, is no
        area; a unit whose blocks have different codes is in none of them. ``None`` where there is
        no area."""
        codes, area = np.unique(code, return_inverse=True)
        low, high = np.full(units, len(codes)), np.full(units, -1)
        np.minimum.at(low, unit, area)
        np.maximum.at(high, unit, area)
        inside = np.flatnonzero((low == high) & ~np.append(_none(codes), True)[low])
        if not len(inside):
            return None
        kept, area = np.unique(low[inside], return_inverse=True)
        called = None if names is None else names.at(codes[kept])
        return Areas(kind, codes[kept], area.astype(np.int64), inside.astype(np.int64), called)

    @staticmethod
    def of_level(spine: Spine, level: str) -> Areas:
        """The units of a level, as areas."""
        depth, lowest = spine.index(level), spine.levels[-1]
        units = np.arange(spine.units(lowest))
        return Areas(level, spine.codes[depth], spine.up(lowest, level), units, spine.names[depth])

    @staticmethod
    def merged(kinds: Sequence[Areas]) -> Areas:
        """All areas of several kinds, one kind after the other; their codes are numbers."""
        starts = np.cumsum([0, *map(len, kinds)])
        area = [a.area + start for a, start in zip(kinds, starts, strict=False)]
        codes, unit = encoded(np.arange(starts[-1]).astype(str)), [a.unit for a in kinds]
        return Areas("areas", codes, np.concatenate(area), np.concatenate(unit))

    @staticmethod
    def joined(
        parts: Sequence[Sequence[Areas]], at: Sequence[NDArray[np.int64]]
    ) -> tuple[Areas, ...]:
        """The areas of several trees, over their joint tree. Unit u of tree i is its unit
        ``at[i][u]``. Areas with the same kind and code in several trees become one area."""
        found: dict[str, list[tuple[Areas, NDArray[np.int64]]]] = {}
        for kinds, here in zip(parts, at, strict=True):
            for areas in kinds:
                found.setdefault(areas.kind, []).append((areas, here[areas.unit]))
        out = []
        for kind, same in found.items():
            code, first, number = np.unique(
                np.concatenate([a.codes for a, _ in same]), return_index=True, return_inverse=True
            )
            starts = np.cumsum([0, *(len(a) for a, _ in same)])
            area = np.concatenate(
                [number[a.area + start] for (a, _), start in zip(same, starts, strict=False)]
            )
            names = np.concatenate([a.called for a, _ in same])[first]
            out.append(Areas(kind, code, area, np.concatenate([unit for _, unit in same]), names))
        return tuple(out)


#: School districts: of elementary schools, of secondary schools, and of both.
SCHOOLS = ("SDELM", "SDSEC", "SDUNI")

#: The lengths of the GEOIDs of areas: state and place; state, county and subdivision; state and
#: district.
GEOID_DIGITS = {
    "Place": 7,
    "County_Subdivision": 10,
    "CD": 4,
    "SLDU": 5,
    "SLDL": 5,
    **dict.fromkeys(SCHOOLS, 7),
}

#: Fields whose codes are unique only within another field, whose code comes before theirs.
INSIDE = {
    "Place": "State",
    "CD": "State",
    "SLDU": "State",
    "SLDL": "State",
    "VTD": "County",
    **dict.fromkeys(SCHOOLS, "State"),
}


def off_spine(
    fields: Mapping[str, Codes],
    levels: Sequence[str],
    unit: NDArray[np.int64],
    units: int,
    names: Mapping[str, Names] | None = None,
) -> tuple[Areas, ...]:
    """Every geographic field of the blocks that is no level of the spine, with codes that are
    unique as a whole."""
    found = []
    for field, code in fields.items():
        if field in levels:
            continue
        if (above := fields.get(INSIDE.get(field, ""))) is not None:
            code = np.where(_none(code), b"", np.strings.add(above, np.strings.strip(code)))
        areas = Areas.of_field(field, code, unit, units, (names or {}).get(field))
        if areas is not None:
            found.append(areas)
    return tuple(found)


def _none(codes: Codes) -> NDArray[np.bool_]:
    """Blank, or all nines."""
    return np.asarray(np.strings.strip(codes, b"9 ") == b"")


# Counts of areas as rows: what a person reads, and what files hold.

#: What may be missing, or a fraction.
NUMBERS = ("lower", "upper", "rmse", "bias", "other_side", "estimate", "standard_error")


@dataclass(frozen=True)
class AreaRow:
    """One statistic of one area, or of all together, whose ``area`` is empty. ``blocks`` are its
    lowest units; ``value`` is published.

    From replicates of the release, where it has any: ``lower`` to ``upper`` the interval of the
    published value, ``rmse`` and ``bias`` its error; of a share, ``other_side`` how often a rerun
    would find it on the other side of one half.

    From all measurements, of a count: ``estimate`` without bias, its ``standard_error``, and
    ``estimate_low`` to ``estimate_high`` the interval about it, not cut off at zero; missing where
    nothing measured at the lowest level tells the count."""

    area: str
    name: str
    blocks: int
    universe: str
    field: str
    label: str
    value: float
    lower: float | None = None
    upper: float | None = None
    rmse: float | None = None
    bias: float | None = None
    other_side: float | None = None
    estimate: float | None = None
    standard_error: float | None = None
    estimate_low: int | None = None
    estimate_high: int | None = None
