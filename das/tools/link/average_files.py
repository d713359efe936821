"""Tables of averages as CSV files, ``PH1_County.csv`` and the like: a row for each unit. For each line
there is the average, over how many households or families it is (``_n``), and where there are
replicates its standard error (``_error``). A field is empty where there is no household.

A line is named by its table with the letter of its iteration, and its number: ``PH1_001`` is for all
households, ``PH1B_001`` for one race."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from das.files import atomic, csv_text
from das.files import codes as texts
from das.files.release.tables import GEOCODE, identifiers, quoting
from das.model.not_private import CELL, COLUMN, Private
from das.model.spine import Spine
from das.publications.sdhc.model.published import PublishedCell
from das.tools.link.averages import AverageTable

#: Digits of an average behind the point.
_DIGITS = 4


def write(
    folder: Path, spine: Spine, level: str, tables: Sequence[AverageTable], *, private: Private
) -> list[Path]:
    """Write the tables of a level, all or none; returns their files."""
    codes = {GEOCODE: spine.codes[spine.index(level)], **identifiers(spine, level)}
    places = {name: texts.column(c) for name, c in codes.items()}
    quotes = quoting(known for name, known in places.items() if name != GEOCODE)
    options = pacsv.WriteOptions(include_header=False, quoting_style=quotes)
    paths = [folder / f"{t.name}_{level}.csv" for t in tables]
    with atomic.files(paths) as drafts:
        for table, draft in zip(tables, drafts, strict=True):
            columns = {**places, **dict(_columns(table))}
            if not private:
                columns[COLUMN] = texts.repeated(CELL, len(table.average))
            with draft.open("wb") as file:
                file.write((",".join(columns) + "\n").encode())
                csv_text.write_table(pa.table(columns), file, options)
    return paths


def line_name(line: PublishedCell) -> str:
    """What a line is called."""
    return f"{line.table}{line.iteration.strip('*')}_{line.cell:03d}"


def _columns(table: AverageTable) -> Iterator[tuple[str, pa.Array]]:
    for i, line in enumerate(table.lines):
        yield line_name(line), _rounded(table.average[:, i])
        yield f"{line_name(line)}_n", pa.array(table.many[:, i])
        if table.error is not None:
            yield f"{line_name(line)}_error", _rounded(table.error[:, i])


def _rounded(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(np.round(values, _DIGITS), mask=np.isnan(values))
