"""Which columns of places the tables of a level have: those that some of its units have something
in.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from das.files import atomic
from das.files import codes as texts
from das.files.release import tables
from das.files.release.tables import GEOCODE, GEOID, NAME, identifiers, quoting
from das.files.run.run_directory import read_json
from das.model.codes import encoded
from das.model.histogram import Histogram
from das.model.not_private import Private
from das.model.spine import Spine
from das.tables import Table


@dataclass(frozen=True)
class LineColumns:
    """Their names, and how texts stand in them."""

    columns: tuple[str, ...]
    quotes: Literal["needed", "none"]

    @staticmethod
    def of(spine: Spine, level: str) -> LineColumns:
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
        """Of all units of a level."""
        every = {
            GEOCODE: spine.codes[spine.index(level)],
            GEOID: spine.geoids(level),
            NAME: encoded(spine.names[spine.index(level)]),
        }
        return {column: texts.column(every[column]) for column in self.columns}


def write_lines(
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
        tables.write_lines(
            file, table, columns.of_units(spine, level), h, quotes=columns.quotes, private=private
        )


def join(
    path: Path, table: Table, columns: LineColumns, private: Private, parts: Iterable[Path]
) -> None:
    """Join ``parts``, the lines of one level, into a table."""
    with atomic.file(path) as draft, draft.open("wb") as file:
        file.write(tables.header(table, columns.columns, private))
        for part in parts:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, file, 1 << 20)
