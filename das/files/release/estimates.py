"""Unbiased estimates of a full-information release: ``estimates/<Level>.parquet``.

One row for each unit and query, columns as in the noisy measurement files, but ``value`` is the best linear
unbiased estimate from all measurements (before non-negativity and rounding) and ``standard_error`` its standard
error, lists in C order of float64 and of float32 (which would round 300 million to a multiple of 32). A normal interval at 90 % is ``value`` plus or minus 1.645 of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import atomic, parquet
from das.files import codes as texts
from das.files.measurements.nmf import describe
from das.model.kinds import kind_of
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine

Array = NDArray[np.float64]


def folder_of(release: Path, universe: str) -> Path:
    """Persons are in ``estimates``; other universes beside it."""
    return release / kind_of(universe).file("estimates")


def write(
    folder: Path, level: str, schema: Schema, spine: Spine, answers: Iterable[tuple[Query, Array, Array]]
) -> None:
    """One row group for each query: ``(query, values, standard errors)``, arrays ``(units, answers)``."""
    geocodes = texts.column(spine.codes[spine.index(level)])
    tables = (_table(geocodes, *answer, schema) for answer in answers)
    if (first := next(tables, None)) is None:
        return
    with (
        atomic.file(folder / f"{level}.parquet") as draft,
        pq.ParquetWriter(draft, first.schema, compression="zstd") as writer,
    ):
        for table in chain([first], tables):
            writer.write_table(table, row_group_size=max(1, table.num_rows))


def _table(geocodes: pa.StringArray, query: Query, value: Array, error: Array, schema: Schema) -> pa.Table:
    columns = describe(geocodes, query.name, query, schema)
    return pa.table(columns | {"value": _lists(value), "standard_error": _lists(error.astype(np.float32))})


def _lists(values: NDArray[np.floating]) -> pa.ListArray:
    n, width = values.shape
    offsets = np.arange(n + 1, dtype=np.int64) * width
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values.ravel()))


class EstimateReader:
    """Estimates of one folder, one query of one level held at a time."""

    def __init__(self, folder: Path, spine: Spine) -> None:
        self._folder, self._spine = folder, spine
        self._groups: dict[str, dict[str, int]] = {}
        self._held: tuple[tuple[str, str], tuple[Array, NDArray[np.float32]]] | None = None

    def queries(self, level: str) -> tuple[str, ...]:
        """The queries that are estimated at ``level``; none where the level has no file."""
        return tuple(self._level(level))

    def read(self, level: str, query: str, start: int, stop: int) -> tuple[Array, NDArray[np.float32]]:
        """Estimates and standard errors of units ``start:stop``, each ``(units, answers)``."""
        if self._held is None or self._held[0] != (level, query):
            self._held = (level, query), self._load(level, query)
        value, error = self._held[1]
        return value[start:stop], error[start:stop]

    def _level(self, level: str) -> dict[str, int]:
        path = self._folder / f"{level}.parquet"
        if level not in self._groups and path.exists():
            groups = range(parquet.opened(path).num_row_groups)
            names = [parquet.columns(path, ["query_name"], g)["query_name"].unique().to_pylist() for g in groups]
            if any(len(n) != 1 for n in names):
                raise ReleaseError("a row group has estimates of several queries", where=path)
            self._groups[level] = {n[0]: g for g, n in enumerate(names)}
        return self._groups.get(level, {})

    def _load(self, level: str, query: str) -> tuple[Array, NDArray[np.float32]]:
        path, units = self._folder / f"{level}.parquet", self._spine.units(level)
        table = parquet.columns(path, ["geocode", "value", "standard_error"], self._level(level)[query])
        value, error = (table[c].combine_chunks().flatten().to_numpy() for c in ("value", "standard_error"))
        codes = texts.codes(table["geocode"])
        if (
            not np.array_equal(codes, self._spine.codes[self._spine.index(level)])
            or len({len(value), len(error), len(value) // units * units}) > 1
        ):
            raise ReleaseError(f"the estimates of {query!r} are not those of the units of {level!r}", where=path)
        return value.reshape(units, -1), error.reshape(units, -1)
