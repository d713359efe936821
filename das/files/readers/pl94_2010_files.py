"""The layout of 2010 redistricting (P.L. 94-171) files, and their geographic header.

Source: 2010 Census Redistricting Data (P.L. 94-171) Summary File, technical documentation, chapters
2 and 6."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.readers import pl94_common as pl94
from das.files.readers import pl94_header
from das.files.readers.source import Member, as_integers, letters

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
) -> pl94_header.Header:
    """The fixed-width header of P.L. 94-171 (``PLST``) or Summary File 1 (``SF1ST``), some lines at
    a time.
    """
    levels, named = (
        np.array([*pl94_header.LEVELS, pl94_header.SF1_BLOCKS]),
        np.array(list(pl94_header.NAMED)),
    )
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
        raise InputError("the file is empty", where=member.name, remedy=pl94_header.AGAIN)
    line = np.concatenate([p[1] for p in parts])
    kept = {n: np.concatenate([p[2][n] for p in parts]) for n in COLUMNS}
    place = {n: np.concatenate([p[n] for p in places]) for n in places[0]}
    return pl94_header.Header(
        name=member.name,
        stusab=stusab,
        logrecno=np.concatenate([p[0] for p in parts]),
        line=line,
        sumlev=kept["SUMLEV"],
        fields={n: kept[n] for n in pl94.WIDTHS},
        pop100=_integers(kept["POP100"], "POP100", member, line),
        hu100=_integers(kept["HU100"], "HU100", member, line),
        names=pl94_header.names_of(place["SUMLEV"], place, place["NAME"]),
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
