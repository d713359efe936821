"""The geographic header of P.L. 94-171 files: places, level by level, and how they nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.readers.source import are_digits, join, letters, points
from das.model.names import Names


class HeaderLevel(NamedTuple):
    """A level of the geography: its field, the header fields that its code is made of, the code's
    width.
    """

    field: str
    parts: tuple[str, ...]
    width: int


AGAIN = "the files are not the published ones, or not whole: fetch them again"

#: Summary levels that are read, lowest first.
LEVELS = {
    "750": HeaderLevel("Block", ("STATE", "COUNTY", "TRACT", "BLKGRP", "BLOCK"), 16),
    "150": HeaderLevel("Block_Group", ("STATE", "COUNTY", "TRACT", "BLKGRP"), 12),
    "140": HeaderLevel("Tract", ("STATE", "COUNTY", "TRACT"), 11),
    "050": HeaderLevel("County", ("STATE", "COUNTY"), 5),
    "040": HeaderLevel("State", ("STATE",), 2),
}

#: The summary level of blocks in Summary File 1.
SF1_BLOCKS = "101"

#: Summary levels whose names are read: the field, and the header fields that its whole code is made
#: of.
NAMED = {
    "040": ("State", ("STATE",)),
    "050": ("County", ("STATE", "COUNTY")),
    "060": ("County_Subdivision", ("STATE", "COUNTY", "COUSUB")),
    "140": ("Tract", ("STATE", "COUNTY", "TRACT")),
    "150": ("Block_Group", ("STATE", "COUNTY", "TRACT", "BLKGRP")),
    "160": ("Place", ("STATE", "PLACE")),
    "280": ("AIAN", ("AIANHH",)),
    "500": ("CD", ("STATE", "CD")),
    "610": ("SLDU", ("STATE", "SLDU")),
    "620": ("SLDL", ("STATE", "SLDL")),
    "700": ("VTD", ("STATE", "COUNTY", "VTD")),
    "950": ("SDELM", ("STATE", "SDELM")),
    "960": ("SDSEC", ("STATE", "SDSEC")),
    "970": ("SDUNI", ("STATE", "SDUNI")),
}


@dataclass(frozen=True, eq=False)
class Header:
    """The geographic header of one state.

    ``logrecno`` has an entry for every line of the file. Everything else is for the lines ``line``
    (from 0) with a level in ``LEVELS``. ``fields`` are the raw codes, ``names`` those of all places
    by field."""

    name: str
    stusab: str
    logrecno: NDArray[np.int64]
    line: NDArray[np.intp]
    sumlev: NDArray[np.str_]
    fields: Mapping[str, NDArray[np.str_]]
    pop100: NDArray[np.int64]
    hu100: NDArray[np.int64]
    names: Mapping[str, Names]


def names_of(
    sumlev: NDArray[np.str_], fields: Mapping[str, NDArray[np.str_]], names: NDArray[np.str_]
) -> dict[str, Names]:
    """Names by field, from rows of the header at the levels of ``NAMED``."""
    out = {}
    for level, (field, parts) in NAMED.items():
        here = sumlev == level
        if here.any():
            out[field] = Names.of(
                np.strings.strip(join(*(fields[p][here] for p in parts))), names[here]
            )
    return out


@dataclass(frozen=True, eq=False)
class HeaderPlaces:
    """Per level present: ``rows`` of the header's arrays in the order of their codes, and the
    ``codes``.
    """

    rows: Mapping[str, NDArray[np.intp]]
    codes: Mapping[str, NDArray[np.str_]]

    def above(self, level: str) -> tuple[NDArray[np.str_], NDArray[np.intp]]:
        """The codes at ``level`` of the places that contain blocks, and the first block of each."""
        codes = letters(points(self.codes["750"])[:, : LEVELS[level].width])
        first = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        return codes[first], first


def places(header: Header, block_level: str = "750") -> HeaderPlaces:
    """Codes of all levels, checked: digits, one state, no duplicates, every block within the rows
    above.

    ``block_level`` is the summary level that lists blocks (``101`` in Summary File 1).
    """
    rows, codes = {}, {}
    for level, (field, parts, _) in LEVELS.items():
        at = np.flatnonzero(header.sumlev == (block_level if level == "750" else level))
        if not len(at):
            continue
        code = join(*(header.fields[p][at] for p in parts))
        if not (good := are_digits(code)).all():
            bad = int(np.flatnonzero(~good)[0])
            _refuse(header, at[bad], f"the {field} code {str(code[bad])!r} is not all digits")
        order = np.argsort(code, kind="stable")
        rows[level], codes[level] = at[order], code[order]
        if len(twice := np.flatnonzero(codes[level][1:] == codes[level][:-1])):
            _refuse(
                header,
                rows[level][twice[0] + 1],
                f"{field} {codes[level][twice[0]]} is there twice",
            )
    if "750" not in rows:
        raise InputError(
            "has no blocks",
            where=header.name,
            remedy=f"rows of summary level {block_level} are needed",
        )
    found = HeaderPlaces(rows, codes)
    _check_nested(header, found)
    return found


def _check_nested(header: Header, found: HeaderPlaces) -> None:
    blocks = points(found.codes["750"])
    if (wrong := blocks[:, 11] != blocks[:, 12]).any():
        bad = int(np.flatnonzero(wrong)[0])
        _refuse(
            header,
            found.rows["750"][bad],
            f"block {found.codes['750'][bad][12:]} is not of its block group",
        )
    if len(states := found.above("040")[0]) > 1:
        raise InputError(
            f"holds blocks of states {states[0]} and {states[1]}", where=header.name, remedy=AGAIN
        )
    for level in found.rows:
        known, inside = found.codes[level], found.above(level)[0]
        if len(odd := np.setxor1d(known, inside)):
            what = "has no blocks" if odd[0] in known else "has blocks, but no row of its own"
            raise InputError(
                f"{LEVELS[level].field} {odd[0]} {what}", where=header.name, remedy=AGAIN
            )


def _refuse(header: Header, row: int, what: str) -> None:
    raise InputError(what, where=f"{header.name}, line {header.line[row] + 1}", remedy=AGAIN)


def check_header(
    header: Header, name: str, of_header: NDArray[np.int64], values: NDArray[np.int32], cell: str
) -> None:
    """Raises unless a total of the header is the cell of the tables that counts the same."""
    if (wrong := of_header != values).any():
        bad = int(np.flatnonzero(wrong)[0])
        _refuse(header, bad, f"{name} is not {cell} of the same place, and must be")


def check_levels(
    values: NDArray[np.int32],
    found: HeaderPlaces,
    levels: Sequence[str],
    names: Sequence[str],
    where: str,
) -> None:
    """Raises unless the blocks add up to the rows of each of ``levels`` that is present, on every
    cell.
    """
    for level in (lv for lv in levels if lv in found.rows):
        _, first = found.above(level)
        for cell, name in enumerate(names):
            total = np.add.reduceat(values[cell, found.rows["750"]].astype(np.int64), first)
            if (wrong := total != values[cell, found.rows[level]]).any():
                bad = int(np.flatnonzero(wrong)[0])
                raise InputError(
                    f"the blocks of {LEVELS[level].field} {found.codes[level][bad]} add up to"
                    f" another {name} than its own row has",
                    where=where,
                    remedy=AGAIN,
                )
