"""Counts that a release took over from an earlier one, and that are exact in it:
``tied-<universe>.parquet``.

A row for each count that is not 0: ``geocode`` of the lowest unit, ``answer`` (to the query that is
fixed, in C order), ``count``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das.errors import InputError, ReleaseError
from das.files import atomic, parquet
from das.files import codes as texts
from das.model.histogram import Histogram
from das.model.names import Codes
from das.model.not_private import Private
from das.model.spine import Spine

COLUMNS = ("geocode", "answer", "count")


def name(universe: str) -> str:
    return f"tied-{universe}.parquet"


def write(path: Path, counts: Histogram, spine: Spine, *, private: Private = True) -> None:
    """``counts`` of the lowest units of ``spine``; the file says if they are not ``private``."""
    columns = [
        texts.column(spine.codes[-1][counts.unit]),
        pa.array(counts.cell, pa.int32()),
        pa.array(counts.count),
    ]
    with atomic.file(path) as draft:
        table = pa.table(columns, names=list(COLUMNS))
        pq.write_table(table.cast(parquet.marked(table.schema, private)), draft, compression="zstd")


def read(
    path: Path, spine: Spine, answers: int, *, private: Private = False, whole: bool = True
) -> Histogram:
    """The counts of the lowest units of ``spine``: the ``whole`` tree, or a subtree, whose lowest
    units are consecutive. Raises :class:`ReleaseError` for a file that is not a list of counts of
    these units and answers. It does so, too, for a seeded file that should be ``private``."""
    parquet.refuse_marked(path, private)
    file = parquet.opened(path)
    with parquet.readable(path):
        table = file.read() if whole else _between(path, spine.codes[-1])
    kinds = [pa.string(), pa.int32(), pa.int64()]
    if (
        table.schema.names != list(COLUMNS)
        or table.schema.types != kinds
        or any(c.null_count for c in table.columns)
    ):
        raise ReleaseError(
            f"its columns are not {', '.join(COLUMNS)}", where=path, remedy=parquet.LOST
        )
    lowest = spine.levels[-1]
    unit = spine.find(lowest, texts.codes(table["geocode"]))
    answer, count = (table[c].to_numpy().astype(np.int64) for c in COLUMNS[1:])
    try:
        counts = Histogram.from_triplets(spine.units(lowest), answers, unit, answer, count)
    except InputError as error:
        raise ReleaseError(error.what, where=path, remedy=parquet.LOST) from None
    if len(counts.cell) != len(count):
        raise ReleaseError("a count is there twice, or is 0", where=path, remedy=parquet.LOST)
    return counts


def _between(path: Path, codes: Codes) -> pa.Table:
    """The rows from the first to the last of the ``codes``, which increase, as those of the file
    do."""
    first, last = codes[0].decode(), codes[-1].decode()
    return pq.read_table(path, filters=[("geocode", ">=", first), ("geocode", "<=", last)])
