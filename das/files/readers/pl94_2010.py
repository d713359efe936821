"""2010 redistricting (P.L. 94-171) files, with group quarters from Summary File 1 if that is in the
same place.

A state is the zip ``{ss}2010.pl.zip``, or its three files: ``{ss}geo2010.pl`` (fixed width, 500
characters), ``{ss}000012010.pl`` (P1, P2) and ``{ss}000022010.pl`` (P3, P4, H1), comma-separated,
without names. Records that are read: geographic component 00 at the levels state, county, tract,
block group and block. Source: 2010 Census Redistricting Data (P.L. 94-171) Summary File, technical
documentation, chapters 2 and 6.

**Group quarters.** The 2010 file does not say where people live. Two ways to fill the ``hhgq``
attribute:

* Without Summary File 1, a block's persons beyond 20 for each occupied housing unit are put in
  group quarters of type 7 (other noninstitutional): everybody where no unit is occupied. All others
  are in households. This is an imputation. It finds too few residents of group quarters (small
  facilities in blocks with households), and all have one type.
* With ``{ss}2010.sf1.zip`` (or ``{ss}geo2010.sf1`` and ``{ss}000062010.sf1``) among the paths, the
  published counts by block and type (table P42) are met exactly. A deterministic rule decides which
  of the block's people they are (:func:`das.files.readers.pl94_records.assign`).

The files do not count facilities either: a block gets 1 facility of each type that somebody lives
in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files.readers import pl94_common, pl94_records
from das.files.readers import pl94_common as pl94
from das.files.readers import pl94_records as sf1
from das.files.readers.formats import MOST_AT_HOME, PL94_2010
from das.files.readers.pl94_records import geography
from das.files.readers.source import Member, apart, as_integers, by_state, letters, sources
from das.model.records import Extract
from das.model.schema import Schema

# The layout of 2010 redistricting (P.L. 94-171) files, and their geographic header.
#
# Source: 2010 Census Redistricting Data (P.L. 94-171) Summary File, technical documentation, chapters
# 2 and 6.

PATTERN = re.compile(r"(?P<state>[a-z]{2})(?P<part>(geo|00001|00002)2010\.pl|(geo|00006)2010\.sf1)")
NAMES = "{ss}2010.pl.zip, or its files {ss}geo2010.pl, {ss}000012010.pl and {ss}000022010.pl"
SEGMENTS = {
    1: [*pl94.NAMES["P001"], *pl94.NAMES["P002"]],
    2: [*pl94.NAMES["P003"], *pl94.NAMES["P004"], *pl94.NAMES["H001"]],
}
CELLS = [*SEGMENTS[1], *SEGMENTS[2]]
LINE, NAME = 500, (227, 90)
#: First column (from 1) and width of the header's fields, and of a place's name.
COLUMNS = {
    "FILEID": (1, 6),
    "STUSAB": (7, 2),
    "SUMLEV": (9, 3),
    "GEOCOMP": (12, 2),
    "LOGRECNO": (19, 7),
    "STATE": (28, 2),
    "COUNTY": (30, 3),
    "COUSUB": (37, 5),
    "PLACE": (46, 5),
    "TRACT": (55, 6),
    "BLKGRP": (61, 1),
    "BLOCK": (62, 4),
    "AIANHH": (77, 4),
    "CD": (154, 2),
    "SLDU": (156, 3),
    "SLDL": (159, 3),
    "VTD": (162, 6),
    "SDELM": (184, 5),
    "SDSEC": (189, 5),
    "SDUNI": (194, 5),
    "POP100": (319, 9),
    "HU100": (328, 9),
}


def _rows(member: Member, lines: int) -> Iterator[NDArray[np.uint8]]:
    """The lines of the header as bytes, ``(lines, LINE)``, that many at a time."""
    start = 0
    with member.open() as stream:
        head = stream.read(LINE + 2)
        end = b"\r\n" if head[LINE:] == b"\r\n" else b"\n"
        chunk = head + stream.read(lines * (LINE + len(end)) - len(head))
        while chunk:
            rows = _cut(chunk, end, member, start)
            start += len(rows)
            yield rows
            chunk = stream.read(lines * (LINE + len(end)))


def read_header(
    member: Member, fileid: str, stusab: str, lines: int = 1 << 14
) -> pl94_common.Header:
    """The fixed-width header of P.L. 94-171 (``PLST``) or Summary File 1 (``SF1ST``), some lines at
    a time."""
    levels = np.array([*pl94_common.LEVELS, pl94_common.SF1_BLOCKS])
    named = np.array(list(pl94_common.NAMED))
    parts, start = [], 0
    places: list[dict[str, NDArray[np.str_]]] = []
    for rows in _rows(member, lines):
        field = {n: letters(rows[:, at - 1 : at - 1 + width]) for n, (at, width) in COLUMNS.items()}
        line = np.arange(start, start + len(rows))
        for name, expected in (("FILEID", f"{fileid:6}"), ("STUSAB", stusab)):
            _check_id(field[name], name, expected, member, line)
        record = _integers(field["LOGRECNO"], "LOGRECNO", member, line)
        whole = field["GEOCOMP"] == "00"
        at = np.flatnonzero(whole & np.isin(field["SUMLEV"], levels))
        parts.append((record, line[at], {n: v[at] for n, v in field.items()}))
        at = np.flatnonzero(whole & np.isin(field["SUMLEV"], named))
        names = letters(rows[at, NAME[0] - 1 : sum(NAME) - 1])
        places.append({n: field[n][at] for n in ("SUMLEV", *pl94.WIDTHS)} | {"NAME": names})
        start += len(rows)
    if not parts:
        raise InputError("the file is empty", where=member.name, remedy=pl94_common.AGAIN)
    line = np.concatenate([p[1] for p in parts])
    kept = {n: np.concatenate([p[2][n] for p in parts]) for n in COLUMNS}
    place = {n: np.concatenate([p[n] for p in places]) for n in places[0]}
    return pl94_common.Header(
        name=member.name,
        stusab=stusab,
        logrecno=np.concatenate([p[0] for p in parts]),
        line=line,
        sumlev=kept["SUMLEV"],
        fields={n: kept[n] for n in pl94.WIDTHS},
        pop100=_integers(kept["POP100"], "POP100", member, line),
        hu100=_integers(kept["HU100"], "HU100", member, line),
        names=pl94_common.names_of(place["SUMLEV"], place, place["NAME"]),
    )


def _cut(chunk: bytes, end: bytes, member: Member, start: int) -> NDArray[np.uint8]:
    """Lines of latin-1 bytes, ``(lines, 500)``; raises at the first of another length."""
    width = LINE + len(end)
    if len(chunk) % width == LINE:
        chunk += end  # the last line may lack its end
    whole = len(chunk) // width
    rows = np.frombuffer(chunk, np.uint8)[: whole * width].reshape(whole, width)
    sound = (rows[:, LINE:] == np.frombuffer(end, np.uint8)).all(axis=1) & (
        rows[:, :LINE] >= ord(" ")
    ).all(axis=1)
    if not sound.all() or len(chunk) % width:
        bad = whole if sound.all() else int(np.flatnonzero(~sound)[0])
        length = len(chunk[bad * width :].split(b"\n", 1)[0].rstrip(b"\r"))
        raise InputError(
            f"the line has {length} characters, or control characters in it, where {LINE} are"
            " expected",
            where=f"{member.name}, line {start + bad + 1}",
            remedy=(
                "the header must be whole and as published (latin-1, fixed width): not cut short,"
                " not re-encoded"
            ),
        )
    return rows[:, :LINE]


def _check_id(
    values: NDArray[np.str_], name: str, expected: str, member: Member, line: NDArray[np.intp]
) -> None:
    if (wrong := values != expected).any():
        bad = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"{name} is {str(values[bad])!r}, where {expected!r} is expected",
            where=f"{member.name}, line {line[bad] + 1}",
            remedy="the file is of another state, year or product than its name says",
        )


def _integers(
    values: NDArray[np.str_], name: str, member: Member, line: NDArray[np.intp]
) -> NDArray[np.int64]:
    number, sound = as_integers(values)
    if not sound.all():
        bad = int(np.flatnonzero(~sound)[0])
        raise InputError(f"{name} is not a number", where=f"{member.name}, line {line[bad] + 1}")
    return number


def read(paths: Sequence[Path], schema: Schema, *, progress: Progress = SILENT) -> Extract:
    """Read all states among ``paths`` (zips, files or folders); together they are one nation.

    ``schema`` has attributes among hhgq, votingage, hispanic and cenrace. Raises
    :class:`InputError` for anything that is not the complete, consistent P.L. 94-171 of each state.
    """
    pl94_records.cell_map(schema)
    groups, with_sf1 = _groups(paths)
    found = [_read_state(stusab.upper(), parts, progress) for stusab, parts in groups.items()]
    read_from = sources([m for parts in groups.values() for m in parts.values()])
    return pl94_records.extract(found, schema, read_from, {} if with_sf1 else PL94_2010.assigned)


def states(paths: Sequence[Path]) -> list[list[Path]]:
    """The files of each state among ``paths``, which can be read by themselves."""
    return apart(_groups(paths)[0])


def _groups(paths: Sequence[Path]) -> tuple[dict[str, dict[str, Member]], bool]:
    """The parts of each state, and whether Summary File 1 is there, for every one or for none."""
    groups = by_state(paths, PATTERN, NAMES)
    with_sf1 = [s for s, parts in groups.items() if any(p.endswith("sf1") for p in parts)]
    if with_sf1 and len(with_sf1) != len(groups):
        lacking = sorted(set(groups) - set(with_sf1))
        raise InputError(
            f"Summary File 1 is there for {with_sf1[0].upper()}, but not for {lacking[0].upper()}",
            where="data.path",
            remedy=(
                "give it for every state or for none, so that group quarters mean the same"
                " everywhere"
            ),
        )
    return groups, bool(with_sf1)


def _read_state(
    stusab: str, parts: Mapping[str, Member], progress: Progress
) -> pl94_records.StateExtract:
    needed = ["geo2010.pl", "000012010.pl", "000022010.pl"]
    if any(p.endswith("sf1") for p in parts):
        needed += ["geo2010.sf1", "000062010.sf1"]
    for part in needed:
        if part not in parts:
            raise InputError(
                f"{stusab.lower()}{part} is missing",
                where=next(iter(parts.values())).path,
                remedy=f"a state is {NAMES}; Summary File 1 is geo2010.sf1 and 000062010.sf1",
            )
    progress.stage(f"read {stusab}: header", None)
    header = read_header(parts["geo2010.pl"], "PLST", stusab)
    found = pl94_common.places(header)
    progress.stage(f"read {stusab}", len(SEGMENTS) * len(header.logrecno))
    values = pl94.segments(
        {n: parts[f"{n:05d}2010.pl"] for n in SEGMENTS}, header, SEGMENTS, ",", progress
    )
    _check(header, found, values)
    people = pl94_records.persons(values, found, header.name)
    housing = values[pl94.HOUSING : pl94.HOUSING + 3, found.rows["750"]].astype(np.int64)
    if "geo2010.sf1" in parts:
        beside = read_header(parts["geo2010.sf1"], "SF1ST", stusab)
        population = values[pl94.POPULATION, found.rows["750"]]
        types = sf1.counts(parts["000062010.sf1"], beside, found.codes["750"], population)
    else:
        types = _imputed(people, housing)
    people = sf1.assign(people, types, housing[0], found.codes["750"], header.name)
    return pl94_records.StateExtract(geography(header, found), people, housing, header.names)


def _imputed(people: pl94_records.Counts, housing: NDArray[np.int64]) -> NDArray[np.int64]:
    """Persons in group quarters by type, ``(blocks, 7)``: those beyond ``MOST_AT_HOME`` for each
    occupied unit, as type 7."""
    types = np.zeros((housing.shape[1], 7), dtype=np.int64)
    np.add.at(types[:, 6], people.block, people.number)
    types[:, 6] = np.maximum(types[:, 6] - MOST_AT_HOME * housing[1], 0)
    return types


def _check(
    header: pl94_common.Header, places: pl94_common.HeaderPlaces, values: NDArray[np.int32]
) -> None:
    pl94.check_sums(values, pl94.IDENTITIES, CELLS, header.line, f"segments of {header.name}")
    for name, of_header, cell in (
        ("POP100", header.pop100, pl94.POPULATION),
        ("HU100", header.hu100, pl94.HOUSING),
    ):
        pl94_common.check_header(header, name, of_header, values[cell], CELLS[cell])
    pl94_common.check_levels(values, places, list(pl94_common.LEVELS)[1:], CELLS, header.name)
