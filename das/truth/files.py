"""The true histogram of the lowest level, kept in ``confidential/``: a file for each subtree, or
one for all of a run that is not cut. Tasks read it, and a run can be evaluated again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das.errors import InputError, ReleaseError
from das.files import atomic, csv_text
from das.model.confidential import Confidential
from das.model.histogram import Histogram

_COLUMNS = ("unit", "cell", "count")


def write(path: Path, truth: Confidential[Histogram]) -> None:
    h = truth.open("to keep it in the confidential part of the run")
    table = pa.table({c: csv_text.column(getattr(h, c)) for c in _COLUMNS})
    table = table.replace_schema_metadata({"units": str(h.units), "cells": str(h.cells)})
    with atomic.file(path, 0o600) as draft:
        pq.write_table(table, draft, compression="zstd")


def read(path: Path) -> Confidential[Histogram]:
    """The counts of a subtree, or of all subtrees in a folder."""
    if path.is_dir():
        parts = [read(p).open("parts of one whole") for p in sorted(path.glob("part-*.parquet"))]
        if parts:
            return Confidential(Histogram.concatenate(parts))
    try:
        table = pq.ParquetFile(path).read()
        meta = table.schema.metadata
        units, cells = int(meta[b"units"]), int(meta[b"cells"])
        unit, cell, count = (csv_text.array(table[c]).astype(np.int64) for c in _COLUMNS)
        return Confidential(Histogram.from_triplets(units, cells, unit, cell, count))
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError, InputError) as error:
        raise ReleaseError(
            f"the true counts cannot be read ({error})",
            where=path,
            remedy="evaluation needs the confidential part of the run, as it was written",
        ) from None
