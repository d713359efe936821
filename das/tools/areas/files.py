"""Counts of areas as CSV, Parquet or JSON, by the ending of the file's name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from das.files import atomic, rows_csv
from das.model.areas import AreaRow
from das.model.not_private import CELL, COLUMN, Private, marked

FORMATS = ("csv", "parquet", "json")
_KINDS = {str: pa.string(), int: pa.int64(), float: pa.float64()}


def write(
    path: Path, kind: str, coverage: float, rows: Sequence[AreaRow], *, private: Private
) -> None:
    """``kind`` of areas, with intervals of ``coverage``. The file appears whole or not at all."""
    if path.suffix == ".csv":
        rows_csv.write_rows(path, AreaRow, rows, private=private)
    elif path.suffix == ".parquet":
        with atomic.file(path) as draft:
            pq.write_table(_table(rows, private), draft, compression="zstd")
    else:
        data = as_data(kind, coverage, rows, private=private)
        atomic.write_text(path, json.dumps(data, ensure_ascii=False))


def as_data(
    kind: str, coverage: float, rows: Sequence[AreaRow], *, private: Private
) -> dict[str, Any]:
    """The rows as JSON has them, with what they are."""
    about = {"kind": kind, "coverage": coverage, "rows": [asdict(r) for r in rows]}
    return marked(about, private)


def _table(rows: Sequence[AreaRow], private: Private) -> pa.Table:
    """Numbers are numbers, even where all of a column are missing."""
    columns: dict[str, pa.Array] = {}
    for name, said in AreaRow.__annotations__.items():
        kind = _KINDS[next(k for k in _KINDS if k.__name__ == said.split(" ")[0])]
        columns[name] = pa.array(list(map(attrgetter(name), rows)), kind)
    return pa.table(columns | ({} if private else {COLUMN: pa.repeat(CELL, len(rows))}))
