"""Unbiased estimates of a full-information release:
``estimates/<Level>.parquet/part-<subtree>.parquet``, 0 being the upper tree.

There is one row for each unit and query, with the columns of the noisy measurement files and two
changes. ``value`` is the best linear unbiased estimate from all measurements, before non-negativity
and rounding. ``standard_error`` is its standard error. They are lists in C order, of float64 and of
float32 (float32 would round 300 million to a multiple of 32). A normal interval at 90 % is
``value`` plus or minus 1.645 of the standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import atomic, csv_text, parquet
from das.files import codes as texts
from das.files.measurements.nmf import describe
from das.files.parquet import LOST, marked
from das.model.names import Codes
from das.model.not_private import Private
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import kind_of

Array = NDArray[np.float64]


def folder_of(release: Path, universe: str) -> Path:
    """The folder of a universe's estimates: ``estimates`` for persons, and a folder next to it for
    each other universe."""
    return release / kind_of(universe).file("estimates")


def write(
    folder: Path,
    level: str,
    schema: Schema,
    spine: Spine,
    answers: Iterable[tuple[Query, Array, Array]],
    subtree: int = 0,
    *,
    private: Private = True,
) -> None:
    """Those of a level of a subtree, whose own ``spine`` this is; the file says if they are not
    ``private``. One row group for each query: ``(query, values, standard errors)``, arrays
    ``(units, answers)``."""
    geocodes = texts.column(spine.codes[spine.index(level)])
    tables = (_table(geocodes, *answer, schema) for answer in answers)
    if (first := next(tables, None)) is None:
        return
    with (
        atomic.file(folder / f"{level}.parquet" / f"part-{subtree:05d}.parquet") as draft,
        pq.ParquetWriter(draft, marked(first.schema, private), compression="zstd") as writer,
    ):
        for table in chain([first], tables):
            writer.write_table(
                table.replace_schema_metadata(writer.schema.metadata),
                row_group_size=max(1, table.num_rows),
            )


def _table(
    geocodes: pa.StringArray, query: Query, value: Array, error: Array, schema: Schema
) -> pa.Table:
    columns = describe(geocodes, query.name, query, schema)
    return pa.table(
        columns | {"value": _lists(value), "standard_error": _lists(error.astype(np.float32))}
    )


def _lists(values: NDArray[np.floating]) -> pa.ListArray:
    n, width = values.shape
    offsets = np.arange(n + 1, dtype=np.int64) * width
    return pa.ListArray.from_arrays(
        csv_text.column(offsets.astype(np.int32)), csv_text.column(values.ravel())
    )


class EstimateReader:
    """Estimates of one folder, one query of one part held at a time: of all units of a spine, or of
    those of a ``subtree`` (0: the upper tree), whose own ``spine`` this is then."""

    def __init__(self, folder: Path, spine: Spine, subtree: int | None = None) -> None:
        self._folder, self._spine, self._subtree = folder, spine, subtree
        self._parts: dict[str, tuple[_Part, ...]] = {}
        self._held: tuple[tuple[Path, str], tuple[Array, NDArray[np.float32]]] | None = None

    def queries(self, level: str) -> tuple[str, ...]:
        """The queries that are estimated at ``level``; none where the level has no file."""
        return tuple(dict.fromkeys(name for part in self._level(level) for name in part.groups))

    def read(
        self, level: str, query: str, start: int, stop: int
    ) -> tuple[Array, NDArray[np.float32]]:
        """Estimates and standard errors of units ``start:stop``, each ``(units, answers)``."""
        value: Array | None = None
        error = np.zeros((0, 0), dtype=np.float32)
        for part in self._level(level):
            here = np.flatnonzero((part.unit >= start) & (part.unit < stop))
            if not len(here):
                continue
            values, errors = self._load(part, query)
            if value is None:
                value = np.zeros((stop - start, values.shape[1]))
                error = np.zeros(value.shape, dtype=np.float32)
            if values.shape[1] != value.shape[1]:
                raise ReleaseError(
                    f"other numbers of answers to {query!r} than before",
                    where=part.path,
                    remedy=LOST,
                )
            to = part.unit[here] - start
            value[to], error[to] = values[here], errors[here]
        return (np.zeros((0, 0)) if value is None else value), error

    def _level(self, level: str) -> tuple[_Part, ...]:
        """The parts of a level, which have each of its units once."""
        if level not in self._parts:
            folder = self._folder / f"{level}.parquet"
            wanted = (
                "part-*.parquet" if self._subtree is None else f"part-{self._subtree:05d}.parquet"
            )
            parts = tuple(
                _Part.from_path(path, self._spine, level) for path in sorted(folder.glob(wanted))
            )
            times = (
                np.bincount(np.concatenate([p.unit for p in parts]))
                if parts
                else np.zeros(0, dtype=np.int64)
            )
            if parts and not (len(times) == self._spine.units(level) and (times == 1).all()):
                raise ReleaseError(
                    f"the estimates are not those of the units of {level!r}",
                    where=folder,
                    remedy=LOST,
                )
            self._parts[level] = parts
        return self._parts[level]

    def _load(self, part: _Part, query: str) -> tuple[Array, NDArray[np.float32]]:
        if self._held is None or self._held[0] != (part.path, query):
            self._held = (part.path, query), part.load(query)
        return self._held[1]


@dataclass(frozen=True, eq=False)
class _Part:
    """One file: the row group of each query, and which unit of the level each of its rows is of,
    ``(rows,)``."""

    path: Path
    groups: Mapping[str, int]
    codes: Codes
    unit: NDArray[np.int64]

    @staticmethod
    def from_path(path: Path, spine: Spine, level: str) -> _Part:
        groups = range(parquet.opened(path).num_row_groups)
        names = [
            parquet.columns(path, ["query_name"], g)["query_name"].unique().to_pylist()
            for g in groups
        ]
        if not names or any(len(n) != 1 for n in names):
            raise ReleaseError(
                "a row group has estimates of several queries, or there is none",
                where=path,
                remedy=LOST,
            )
        codes = texts.codes(parquet.columns(path, ["geocode"], 0)["geocode"])
        unit = spine.find(level, codes)
        if (unit < 0).any():
            raise ReleaseError(
                f"the estimates are not those of the units of {level!r}", where=path, remedy=LOST
            )
        return _Part(path, {n[0]: g for g, n in enumerate(names)}, codes, unit)

    def load(self, query: str) -> tuple[Array, NDArray[np.float32]]:
        """Estimates and standard errors, ``(rows, answers)``."""
        if query not in self.groups:
            raise ReleaseError(f"there are no estimates of {query!r}", where=self.path, remedy=LOST)
        table, units = (
            parquet.columns(self.path, ["geocode", "value", "standard_error"], self.groups[query]),
            len(self.unit),
        )
        value, error = (
            csv_text.array(table[c].combine_chunks().flatten()) for c in ("value", "standard_error")
        )
        same = np.array_equal(texts.codes(table["geocode"]), self.codes)
        if not same or len({len(value), len(error), len(value) // units * units}) > 1:
            raise ReleaseError(
                f"the estimates of {query!r} are not those of the units of the others",
                where=self.path,
                remedy=LOST,
            )
        return value.reshape(units, -1), error.reshape(units, -1)
