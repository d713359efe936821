"""Published tables as CSV: ``<Table>_<Level>.csv``, a header of GEOCODE and field names, one row
per unit. Where units have a GEOID or a name, these stand after the code.

Those of a seeded run have one column more (:mod:`das.model.not_private`), and so do those that rest
on an attribute that was assigned (:class:`das.tables.Table`); reading drops both."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from das.errors import InputError
from das.files import atomic, csv_text
from das.files import codes as texts
from das.files.atomic import HashingWriter
from das.files.run.run_directory import read_json
from das.model.histogram import Histogram
from das.model.names import NOT_COUNTED, Codes, encoded
from das.model.not_private import CELL, COLUMN, Private
from das.model.spine import Spine
from das.tables import Table

GEOCODE, GEOID, NAME = "GEOCODE", "GEOID", "NAME"
#: What a column of a table is not.
BESIDE = (GEOID, NAME, NOT_COUNTED, COLUMN)
#: Values of a table held at once.
BATCH = 1 << 22


def marks(table: Table, private: Private) -> dict[str, str]:
    """The columns after those of the table, and what each row of them says."""
    made_up = {NOT_COUNTED: f"{' and '.join(table.assigned)} assigned"} if table.assigned else {}
    return made_up | ({} if private else {COLUMN: CELL})


def write(
    directory: Path,
    level: str,
    codes: Codes,
    tables: Sequence[Table],
    h: Histogram,
    *,
    beside: Mapping[str, Codes] | None = None,
    private: Private = True,
    batch: int = BATCH,
) -> list[Path]:
    """Write the tables of one level; return their files, in the order of ``tables``. ``beside`` has
    more texts for each row, by column, as codes (:func:`identifiers`).

    All tables are written under temporary names first: after a failure none of them has changed.

    Raises:
        InputError: codes that do not fit the histogram, or that hold a comma or a quote."""
    if len(codes) != h.units:
        raise InputError(
            f"{len(codes)} codes for {h.units} units", where=f"tables of level {level!r}"
        )
    paths = [directory / file_name(table, level) for table in tables]
    places = {name: texts.column(code) for name, code in {GEOCODE: codes, **(beside or {})}.items()}
    quotes = quoting(known for column, known in places.items() if column != GEOCODE)
    try:
        with atomic.files(paths) as drafts:
            for table, draft in zip(tables, drafts, strict=True):
                with draft.open("wb") as file:
                    file.write(header(table, places, private))
                    write_lines(file, table, places, h, quotes=quotes, private=private, batch=batch)
    except pa.ArrowInvalid as e:
        raise InputError(
            f"a code cannot stand in a CSV file ({e})", where=f"level {level!r}"
        ) from None
    return paths


def file_name(table: Table, level: str) -> str:
    return f"{table.name}_{level}.csv"


def digest(table: Table, spine: Spine, level: str, h: Histogram, *, private: Private) -> str:
    """SHA-256 of the file that :func:`write` makes of one table of a level of a release."""
    hashed, beside = HashingWriter(), identifiers(spine, level)
    places = {
        name: texts.column(code)
        for name, code in {GEOCODE: spine.codes[spine.index(level)], **beside}.items()
    }
    known = [column for name, column in places.items() if name != GEOCODE]
    hashed.write(header(table, places, private))
    write_lines(hashed, table, places, h, quotes=quoting(known), private=private)
    return hashed.digest


def identifiers(spine: Spine, level: str) -> dict[str, Codes]:
    """GEOIDs and names, as codes, each where the units of the level have them."""
    found = {GEOID: spine.geoids(level), NAME: encoded(spine.names[spine.index(level)])}
    return {column: known for column, known in found.items() if known.any()}


def quoting(columns: Iterable[pa.StringArray | pa.ChunkedArray]) -> Literal["needed", "none"]:
    """How texts are written in a CSV file: unchanged, or in quotes if one of them has a comma or a
    quote."""
    return (
        "needed"
        if any(pc.any(pc.match_substring_regex(c, '[,"]')).as_py() for c in columns)
        else "none"
    )


def header(table: Table, columns: Iterable[str], private: Private = True) -> bytes:
    """The first line: ``columns`` are those that stand before the table's own."""
    return (",".join([*columns, *table.columns, *marks(table, private)]) + "\n").encode()


def write_lines(
    file: Any,
    table: Table,
    places: Mapping[str, pa.StringArray],
    h: Histogram,
    *,
    quotes: Literal["needed", "none"],
    private: Private = True,
    batch: int = BATCH,
) -> None:
    """The lines of some units: ``places`` are the columns that stand before the table's own."""
    options = pacsv.WriteOptions(include_header=False, quoting_style=quotes)
    units = max(1, batch // len(table.columns))
    mark = marks(table, private)
    names = [*places, *table.columns, *mark]
    for start in range(0, h.units, units):
        stop = min(start + units, h.units)
        values = np.ascontiguousarray(table.values(h.rows(start, stop)).T)
        columns = [*(t[start:stop] for t in places.values()), *map(csv_text.column, values)]
        columns += [texts.repeated(cell, stop - start) for cell in mark.values()]
        csv_text.write_table(pa.table(columns, names=names), file, options)


@dataclass(frozen=True, eq=False)
class TableValues:
    """A table as it was read: ``values`` has shape ``(units, columns)``."""

    codes: Codes
    columns: tuple[str, ...]
    values: NDArray[np.int64]


def read(path: Path) -> TableValues:
    """Read one table.

    Raises:
        InputError: no such file, no GEOCODE column, or something other than whole numbers in the
            others."""
    try:
        with path.open(encoding="utf-8") as file:
            header = file.readline().rstrip("\n").split(",")
        header = [c for c in header if c not in BESIDE]
        kinds = {c: pa.int64() for c in header[1:]} | {GEOCODE: pa.string()}
        options = pacsv.ConvertOptions(column_types=kinds, include_columns=header)
        table = pacsv.read_csv(path, convert_options=options)
    except (OSError, pa.ArrowInvalid, UnicodeDecodeError) as e:
        raise InputError(f"not readable as a published table ({e})", where=path) from None
    if header[0] != GEOCODE or any(c.null_count for c in table.columns):
        raise InputError(f"the first column is {header[0]!r}, or a value is missing", where=path)
    values = np.stack([c.to_numpy() for c in table.columns[1:]], axis=1)
    return TableValues(
        texts.codes(csv_text.read_column(table.column(GEOCODE))), tuple(header[1:]), values
    )


# Which columns of places the tables of a level have: those that some of its units have something
# in.


@dataclass(frozen=True)
class LineColumns:
    """Names of columns, and how texts are written in them."""

    columns: tuple[str, ...]
    quotes: Literal["needed", "none"]

    @staticmethod
    def for_level(spine: Spine, level: str) -> LineColumns:
        found = identifiers(spine, level)
        return LineColumns((GEOCODE, *found), quoting(map(texts.column, found.values())))

    def union(self, other: LineColumns) -> LineColumns:
        """Those of units of both."""
        columns = tuple(c for c in (GEOCODE, GEOID, NAME) if c in {*self.columns, *other.columns})
        return LineColumns(columns, "needed" if "needed" in (self.quotes, other.quotes) else "none")

    @staticmethod
    def read(path: Path, level: str) -> LineColumns:
        found = read_json(path)[level]
        return LineColumns(tuple(found["columns"]), found["quotes"])

    def of_units(self, spine: Spine, level: str) -> dict[str, pa.StringArray]:
        """The columns for all units of a level."""
        every = {
            GEOCODE: spine.codes[spine.index(level)],
            GEOID: spine.geoids(level),
            NAME: encoded(spine.names[spine.index(level)]),
        }
        return {column: texts.column(every[column]) for column in self.columns}


def write_columns(
    path: Path,
    table: Table,
    spine: Spine,
    level: str,
    columns: LineColumns,
    h: Histogram,
    private: Private,
) -> None:
    """The lines of some units of a level, without the header."""
    with atomic.file(path) as draft, draft.open("wb") as file:
        write_lines(
            file, table, columns.of_units(spine, level), h, quotes=columns.quotes, private=private
        )


def join(
    path: Path, table: Table, columns: LineColumns, private: Private, parts: Iterable[Path]
) -> None:
    """Join ``parts``, the lines of one level, into a table."""
    with atomic.file(path) as draft, draft.open("wb") as file:
        file.write(header(table, columns.columns, private))
        for part in parts:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, file, 1 << 20)


# Lines of published tables by name, from a folder of ``<Table>_<Level>.csv``, ours or another
# publisher's. Its first column has the codes of places (``GEOCODE``). A column for each line is named
# ``P0170003`` or ``P17_003N``; as a value its name is ``P17:3``.

_OURS = re.compile(r"(P|H|PCT|HCT|PCO)(\d{3})(\d{4})")
_BUREAUS = re.compile(r"(P|H|PCT|HCT|PCO)(\d+)_(\d{3})N")
#: Levels in this order, the lowest first; others follow by name.
_ORDER = ("Block", "Block_Group", "Tract", "County", "State", "US")


def levels(folder: Path, wanted: Collection[str]) -> Sequence[str]:
    """The levels at which a folder has some of the ``wanted`` tables, the lowest first."""
    if not folder.is_dir():
        return ()
    parts = [path.stem.partition("_") for path in folder.glob("*_*.csv")]
    found = {level for name, _, level in parts if name in wanted}
    return [*(level for level in _ORDER if level in found), *sorted(found - set(_ORDER))]


def lines(folder: Path, level: str, wanted: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Each line of the ``wanted`` tables that are there, ``(places,)``, in the order of the codes.
    Raises :class:`InputError` for damaged files, and tables of different places."""
    out: dict[str, NDArray[np.int64]] = {}
    first: tuple[str, list[bytes]] | None = None
    for table in wanted:
        path = folder / f"{table}_{level}.csv"
        if not path.is_file():
            continue
        found = read(path)
        order = np.argsort(found.codes, kind="stable")
        codes = found.codes[order].tolist()
        if first is not None and codes != first[1]:
            raise InputError(
                f"has other places than {first[0]}",
                where=path,
                remedy="give tables of the same places",
            )
        first = first or (path.name, codes)
        for column, values in zip(found.columns, found.values.T, strict=True):
            if name := line_name(column):
                out[name] = values[order]
    return out


def line_name(column: str) -> str | None:
    """
    >>> line_name("P0170003"), line_name("H9_008N"), line_name("NAME")
    ('P17:3', 'H9:8', None)"""
    found = _OURS.fullmatch(column) or _BUREAUS.fullmatch(column)
    return f"{found[1]}{int(found[2])}:{int(found[3])}" if found else None
