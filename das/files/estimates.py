"""Unbiased estimates of a full-information release: ``estimates/<Level>.parquet``.

One row for each unit and query, columns as in the noisy measurement files, but ``value`` is the best linear
unbiased estimate from all measurements (before non-negativity and rounding) and ``standard_error`` its standard
error, both lists of float32 in C order. A normal interval at 90 % is ``value`` plus or minus 1.645 of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.files.nmf import describe
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine

Array = NDArray[np.float64]


def write(
    folder: Path, level: str, schema: Schema, spine: Spine, answers: Iterable[tuple[Query, Array, Array]]
) -> None:
    """One row group for each query: ``(query, values, standard errors)``, arrays ``(units, answers)``."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{level}.parquet.tmp"
    writer = None
    for query, value, error in answers:
        columns = describe(level, 0, len(value), query.name, query, schema, spine)
        columns |= {"value": _lists(value), "standard_error": _lists(error)}
        table = pa.table(columns)
        if writer is None:
            writer = pq.ParquetWriter(draft, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=max(1, table.num_rows))
    if writer is not None:
        writer.close()
        draft.replace(folder / f"{level}.parquet")


def _lists(values: Array) -> pa.ListArray:
    n, width = values.shape
    offsets = np.arange(n + 1, dtype=np.int64) * width
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values.astype(np.float32).ravel()))
