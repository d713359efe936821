"""A folder of published tables as CSV, as the Census Bureau publishes them: a row a place.

A place is named by ``GEOCODE``, ``GEO_ID`` or ``GEOID`` (of a later edition: ``GEOID10``), or by
``STATE``, ``COUNTY``, ``TRACT``, ``BLKGRP`` and ``BLOCK``. Its level follows from ``SUMLEV``, or
from the length of its code. A field that is no number is withheld."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen

#: By level: the digits of a code, and the number of a summary level.
LEVELS = {
    "State": (2, "040"),
    "County": (5, "050"),
    "Tract": (11, "140"),
    "Block_Group": (12, "150"),
    "Block": (15, "101"),
}
#: Not shown.
NOT_SHOWN = -1
_CODES = ("GEOCODE", "GEO_ID", "GEOID10", "GEOID20", "GEOID")
#: The group of a block is the first digit of its number.
_PARTS = (("STATE", 2), ("COUNTY", 3), ("TRACT", 6))
_LAST = (("BLOCK", 4), ("BLKGRP", 1))
_ENCODINGS = ("utf-8-sig", "latin-1")


@dataclass(frozen=True, eq=False)
class PublishedFields(Frozen):
    """The tables of a level: ``codes`` in order, ``(places,)``; ``values`` by field, each
    ``(places,)``, -1 where it is not shown."""

    codes: tuple[str, ...]
    values: Mapping[str, NDArray[np.int64]]


@dataclass
class _LevelFields:
    """What the files say about a level so far, by field and place."""

    values: dict[str, dict[str, int]] = field(default_factory=dict)


def read(folder: Path, wanted: Callable[[str], bool]) -> dict[str, PublishedFields]:
    """The fields that are ``wanted`` of every place, by level from the top down.

    Raises:
        InputError: no file with such a field, a file without places, or two values of one field."""
    found: dict[str, _LevelFields] = {}
    paths = [folder] if folder.is_file() else sorted(folder.rglob("*.csv"))
    for path in paths:
        for level, code, values in _rows(path, wanted):
            columns = found.setdefault(level, _LevelFields()).values
            for name, value in values.items():
                if columns.setdefault(name, {}).setdefault(code, value) != value:
                    raise InputError(
                        f"{name} of {code} is {value} here, and other in another file", where=path
                    )
    if not found:
        raise InputError(
            "there is no CSV file with columns of tables",
            where=folder,
            remedy="a table has a row a place and columns such as P0080003; see docs/explanation/reconstruction.md",
        )
    return {level: _together(found[level]) for level in LEVELS if level in found}


def _together(level: _LevelFields) -> PublishedFields:
    codes = sorted({code for column in level.values.values() for code in column})
    return PublishedFields(
        tuple(codes),
        {
            name: np.array([column.get(code, NOT_SHOWN) for code in codes], dtype=np.int64)
            for name, column in level.values.items()
        },
    )


def _rows(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Level, code and values of each row; none where a file has no such field."""
    with path.open(newline="", encoding=_encoding(path)) as file:
        lines = csv.reader(file)
        header = [name.strip().upper() for name in next(lines, [])]
        columns = [(i, name) for i, name in enumerate(header) if wanted(name)]
        if not columns:
            return
        place = _place_of(header, path)
        for line in lines:
            if len(line) != len(header):
                raise InputError(
                    f"{len(line)} fields, not {len(header)}", where=f"{path}, line {lines.line_num}"
                )
            level, code = place(line, f"{path}, line {lines.line_num}")
            if level:
                yield level, code, {name: _value(line[i]) for i, name in columns}


def _encoding(path: Path) -> str:
    """The first encoding in which the file can be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None
    try:
        data.decode(_ENCODINGS[0])
    except UnicodeDecodeError:
        return _ENCODINGS[1]
    return _ENCODINGS[0]


def _value(text: str) -> int:
    return int(text) if text.strip().isdigit() else NOT_SHOWN


def _place_of(header: list[str], path: Path) -> Callable[[list[str], str], tuple[str, str]]:
    """How a row names its place: level, empty for one that is not used, and code."""
    known = [header.index(name) for name in _CODES if name in header]
    parts = [(header.index(name), size) for name, size in _PARTS if name in header]
    last = [(header.index(name), size) for name, size in _LAST if name in header]
    if not known and not (len(parts) >= 1 and "STATE" in header):
        raise InputError(
            "no column names the places",
            where=path,
            remedy=f"one of {', '.join(_CODES)}, or STATE, COUNTY, TRACT and BLOCK",
        )
    summary = header.index("SUMLEV") if "SUMLEV" in header else None
    by_number = {number: level for level, (_, number) in LEVELS.items()}
    by_size = {size: level for level, (size, _) in LEVELS.items()}

    def place(line: list[str], where: str) -> tuple[str, str]:
        if known:
            code = line[known[0]].strip().rpartition("US")[2]
        else:
            each = [(line[i].strip(), n) for i, n in parts]
            each += [(line[i].strip(), n) for i, n in last if line[i].strip()][:1]
            code = "".join(text.zfill(n) for text, n in each if text)
        if summary is not None:
            level = by_number.get(line[summary].strip().zfill(3), "")
            code = code[: LEVELS[level][0]] if level else code
        else:
            level = by_size.get(len(code), "")
        if level and not (code.isdigit() and len(code) == LEVELS[level][0]):
            raise InputError(f"{code!r} is no code of a {level}", where=where)
        return level, code

    return place
