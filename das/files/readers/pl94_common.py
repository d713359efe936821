"""What the 2010 and 2020 redistricting (P.L. 94-171) files share: tables, the geographic header,
checks.

Tables P1 (race) and P3 (race, 18 and over) list the 63 combinations of races with their sub-totals;
P2 and P4 do so for the people who are not Hispanic. :mod:`das.files.readers.pl94_records` makes
records of them.

Nothing here assumes that a file is whole or right: sub-totals, the sums of the tables over the
geography, and the agreement of header and segments are all checked, on every row that is used.
Arrays of table cells are ``(cells, rows)``, one row of the file a column, so that a cell is
contiguous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files import codes as texts
from das.files import csv_text
from das.files.readers.source import (
    DelimitedFormat,
    Member,
    are_digits,
    batches,
    join,
    letters,
    points,
)
from das.model.names import Names

# The geographic header of P.L. 94-171 files: places, level by level, and how they nest.


class HeaderLevel(NamedTuple):
    """A level of the geography: its field, the header fields that its code is made of, the code's
    width."""

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
            out[field] = Names.from_pairs(
                np.strings.strip(join(*(fields[p][here] for p in parts))), names[here]
            )
    return out


@dataclass(frozen=True, eq=False)
class HeaderPlaces:
    """Per level present: ``rows`` of the header's arrays in the order of their codes, and the
    ``codes``."""

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

    ``block_level`` is the summary level that lists blocks (``101`` in Summary File 1)."""
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


def _check_nested(header: Header, places: HeaderPlaces) -> None:
    blocks = points(places.codes["750"])
    if (wrong := blocks[:, 11] != blocks[:, 12]).any():
        bad = int(np.flatnonzero(wrong)[0])
        _refuse(
            header,
            places.rows["750"][bad],
            f"block {places.codes['750'][bad][12:]} is not of its block group",
        )
    if len(states := places.above("040")[0]) > 1:
        raise InputError(
            f"holds blocks of states {states[0]} and {states[1]}", where=header.name, remedy=AGAIN
        )
    for level in places.rows:
        known, inside = places.codes[level], places.above(level)[0]
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
    places: HeaderPlaces,
    levels: Sequence[str],
    names: Sequence[str],
    where: str,
) -> None:
    """Raises unless the blocks add up to the rows of each of ``levels`` that is present, on every
    cell."""
    for level in (lv for lv in levels if lv in places.rows):
        _, first = places.above(level)
        for cell, name in enumerate(names):
            total = np.add.reduceat(values[cell, places.rows["750"]].astype(np.int64), first)
            if (wrong := total != values[cell, places.rows[level]]).any():
                bad = int(np.flatnonzero(wrong)[0])
                raise InputError(
                    f"the blocks of {LEVELS[level].field} {places.codes[level][bad]} add up to"
                    f" another {name} than its own row has",
                    where=where,
                    remedy=AGAIN,
                )


IDS = ("FILEID", "STUSAB", "CHARITER", "CIFSN", "LOGRECNO")
Identity = tuple[int, list[int]]  #: a cell, and the cells that it is the sum of


#: Header fields that are read, with their widths.
WIDTHS = {
    "STATE": 2,
    "COUNTY": 3,
    "COUSUB": 5,
    "PLACE": 5,
    "TRACT": 6,
    "BLKGRP": 1,
    "BLOCK": 4,
    "AIANHH": 4,
    "CD": 2,
    "SLDU": 3,
    "SLDL": 3,
    "VTD": 6,
    "SDELM": 5,
    "SDSEC": 5,
    "SDUNI": 5,
}

# --- the tables


def _races(first: int) -> tuple[list[int], list[Identity]]:
    """Positions of the 63 combinations, and the sub-totals, of a table whose "one race" stands at
    ``first``."""
    leaves = list(range(first + 1, first + 7))
    sums: list[Identity] = [(first, leaves.copy())]
    two_or_more, at, heads = first + 7, first + 8, []
    for races in range(2, 7):
        parts = list(range(at + 1, at + 1 + comb(6, races)))
        heads.append(at)
        sums.append((at, parts))
        leaves += parts
        at = parts[-1] + 1
    return leaves, [*sums, (two_or_more, heads), (first - 1, [first, two_or_more])]


_SIZES = {"P001": 71, "P002": 73, "P003": 71, "P004": 73, "H001": 3, "P005": 10}
NAMES = {t: [f"{t}{i:04d}" for i in range(1, n + 1)] for t, n in _SIZES.items()}
#: All cells, in the order of the segments. P5 (group quarters) is in the 2020 files only.
CELLS = [n for names in NAMES.values() for n in names]
_AT = {t: CELLS.index(names[0]) for t, names in NAMES.items()}
POPULATION, HOUSING, GROUP_QUARTERS = _AT["P001"], _AT["H001"], _AT["P005"]
#: Positions in ``CELLS`` of the 63 combinations of races, by table.
LEAVES = {
    t: _races(_AT[t] + (1 if t in ("P001", "P003") else 3))[0]
    for t in ("P001", "P002", "P003", "P004")
}
#: Group quarters in P5 (2020) and P42 (2010), which have the same ten cells: sub-totals, and the
#: positions of the types 1 to 7 of ``hhgq``.
GQ_SUMS: list[Identity] = [(0, [1, 6]), (1, [2, 3, 4, 5]), (6, [7, 8, 9])]
GQ_LEAVES = [2, 3, 4, 5, 7, 8, 9]


def _identities() -> list[Identity]:
    out: list[Identity] = [(HOUSING, [HOUSING + 1, HOUSING + 2])]
    for table, whole in (("P001", None), ("P002", "P001"), ("P003", None), ("P004", "P003")):
        t = _AT[table]
        out += _races(t + (1 if whole is None else 3))[1]
        if whole is not None:
            out += [(t, [t + 1, t + 2]), (t, [_AT[whole]])]
    return out


IDENTITIES = _identities()


def check_sums(
    values: NDArray[np.int32],
    identities: list[Identity],
    names: Sequence[str],
    lines: NDArray[np.intp],
    where: str,
) -> None:
    """Raises unless every cell is >= 0 and every sub-total is the sum of its parts.

    ``values`` is ``(cells, rows)``, ``names`` those of its cells, ``lines`` the line of each row,
    from 0."""
    if values.size and values.min() < 0:
        cell, row = (int(i[0]) for i in np.nonzero(values < 0))
        raise InputError(
            f"{names[cell]} is negative", where=f"{where}, line {lines[row] + 1}", remedy=AGAIN
        )
    for cell, parts in identities:
        total = values[parts].sum(axis=0)
        if (wrong := values[cell] != total).any():
            row = int(np.flatnonzero(wrong)[0])
            label = (
                names[parts[0]]
                if len(parts) == 1
                else f"the sum of {names[parts[0]]} to {names[parts[-1]]}"
            )
            raise InputError(
                f"{names[cell]} must be the same as {label}, and is not",
                where=f"{where}, line {lines[row] + 1}",
                remedy=AGAIN,
            )


# --- the geographic header and the segments


def segments(
    parts: Mapping[int, Member],
    header: Header,
    columns: Mapping[int, list[str]],
    delimiter: str,
    progress: Progress,
) -> NDArray[np.int32]:
    """The cells of all segments, by number, one below the other: ``(cells, rows of the
    header)``."""
    out = np.empty((sum(map(len, columns.values())), len(header.line)), dtype=np.int32)
    at = 0
    for number, names in columns.items():
        into = out[at : at + len(names)]
        segment(
            parts[number],
            header,
            names,
            names,
            fileid="PLST",
            number=number,
            delimiter=delimiter,
            out=into,
            progress=progress,
        )
        at += len(names)
    return out


def segment(
    member: Member,
    header: Header,
    columns: Sequence[str],
    wanted: Sequence[str],
    *,
    fileid: str,
    number: int,
    delimiter: str,
    out: NDArray[np.int32],
    progress: Progress = SILENT,
) -> None:
    """Put the cells ``wanted`` of the header's rows, of a segment with ``columns``, into ``out``,
    ``(len(wanted), rows)``.

    Raises unless the segment is number ``number`` of the same state, record by record that of the
    header."""
    kinds: dict[str, pa.DataType | None] = dict.fromkeys((*IDS, *columns))
    kinds |= dict.fromkeys(wanted, pa.int32()) | dict.fromkeys(
        ("FILEID", "STUSAB", "CIFSN"), pa.string()
    )
    start, total = 0, len(header.logrecno)
    for batch in batches(member, DelimitedFormat(delimiter, kinds | {"LOGRECNO": pa.int64()})):
        stop = start + len(batch)
        for name, expected in (
            ("FILEID", fileid),
            ("STUSAB", header.stusab),
            ("CIFSN", f"{number:02d}"),
        ):
            check_id(member, start, name, batch.column(name), expected)
        record = csv_text.array(batch.column("LOGRECNO"))[: max(0, total - start)]
        if (wrong := record != header.logrecno[start:stop]).any():
            bad = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"is record {record[bad]}, where {header.name} has {header.logrecno[start + bad]}",
                where=f"{member.name}, line {start + bad + 1}",
                remedy="header and segments list the same records in the same order; " + AGAIN,
            )
        lo, hi = np.searchsorted(header.line, [start, stop])
        for i, name in enumerate(wanted):
            out[i, lo:hi] = csv_text.array(batch.column(name))[header.line[lo:hi] - start]
        start = stop
        progress.advance(len(batch))
    if start != total:
        raise InputError(
            f"has {start} records, where {header.name} has {total}", where=member.name, remedy=AGAIN
        )


def check_id(member: Member, start: int, name: str, column: pa.Array, expected: str) -> None:
    """Raises at the first record, of those from line ``start`` on, whose identifier is not
    ``expected``."""
    same = pa.compute.equal(pa.compute.utf8_trim_whitespace(column), texts.repeated(expected, 1)[0])
    if not pa.compute.all(same).as_py():
        bad = pa.compute.index(same, False).as_py()
        raise InputError(
            f"{name} is {column[bad].as_py()!r}, where {expected!r} is expected",
            where=f"{member.name}, line {start + bad + 1}",
            remedy=(
                "the file is of another state, segment or product than its name or the geographic"
                " header says"
            ),
        )
