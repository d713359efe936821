"""Measurements on demand as files: Parquet, with the columns of the noisy measurement files.

``<root>/<Level>.parquet/Revealed/part-<subtree>.parquet`` has one row for each query and each unit
that the query measures. Its columns are

* those of :mod:`das.files.measurements.nmf` that identify unit and query;
* ``cell`` (a list of integers, increasing): the answers to the query that were measured on demand
  for this unit, numbered in C order;
* ``value`` (a list of the same length): these answers;
* ``variance`` (float32).

A unit without requests has empty lists; a unit that is not measured has no row.

A part appears whole or not at all. Each of its row groups has one query. Any reader of Parquet can
decode it. ``cell`` is plain, where zstd finds that siblings have the same cells, or delta-packed
where that is smaller (few units with long lists). ``value`` is delta-packed. A schema of 1.2
million cells takes 1.0 byte for each number where blocks need all cells of their group. It takes
2.0 bytes where each block needs some of its own (``python -m benchmarks.on_request``)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import atomic
from das.files.measurements.nmf import ONE_PAGE, describe, geocodes_of, matrix, names_of, units_of
from das.files.parquet import LOST, columns, marked, opened, readable, refuse_marked
from das.model.measurement import SparseMeasurement, not_measured, published_variance
from das.model.not_private import Private
from das.model.schema import Schema
from das.model.spine import Spine

Ints = NDArray[np.int64]
_FOLDER = "Revealed"
_GROUP = 1 << 24  # numbers of a row group
_CODINGS = ("PLAIN", "DELTA_BINARY_PACKED")
_LEVEL = 9  # of zstd: the coordinates are a tenth smaller than at its least


def write(
    root: Path,
    level: str,
    schema: Schema,
    spine: Spine,
    measurements: Iterable[SparseMeasurement],
    subtree: int = 0,
    *,
    private: Private = True,
) -> dict[str, str]:
    """Write what was measured on demand of a level of a subtree, whose spine this is: a measurement
    of each of its queries. The file says if they are not ``private``. Returns SHA-256 of the part,
    by its path from ``root``."""
    geocodes = geocodes_of(spine, level)
    tables = [t for m in measurements for t in _tables(m, schema, geocodes)]
    if not tables:
        return {}
    if any(t.schema.field("value").type.value_type == pa.int64() for t in tables):
        wide = pa.list_(pa.int64())
        tables = [
            t.set_column(t.schema.get_field_index("value"), "value", t["value"].cast(wide))
            for t in tables
        ]
    data = min((_encoded(tables, coding, private) for coding in _CODINGS), key=len)
    path = _part(Path(), level, subtree)
    atomic.write_bytes(root / path, data)
    return {path.as_posix(): hashlib.sha256(data).hexdigest()}


def _part(root: Path, level: str, subtree: int) -> Path:
    return root / f"{level}.parquet" / _FOLDER / f"part-{subtree:05d}.parquet"


def _tables(m: SparseMeasurement, schema: Schema, geocodes: pa.StringArray) -> Iterator[pa.Table]:
    """The rows of a query, some units at a time."""
    if m.shape != (len(geocodes), schema.query(m.query).answers):
        raise ValueError(f"a measurement of {m.shape} answers is not of this level and query")
    measured, indptr, cell = np.flatnonzero(np.isfinite(m.variance)), m.indptr, m.cell
    ends = indptr[measured + 1]
    start = 0
    while start < len(measured):
        first = indptr[measured[start]]
        stop = max(start + 1, int(np.searchsorted(ends, first + _GROUP, side="right")))
        unit, last = measured[start:stop], ends[stop - 1]
        offset = pa.array(np.append(indptr[unit], last) - first, pa.int32())
        held = describe(
            geocodes.take(pa.array(unit)), f"{m.query}_dpq", schema.query(m.query), schema
        )
        held["cell"] = pa.ListArray.from_arrays(offset, pa.array(cell[first:last], pa.int32()))
        held["value"] = pa.ListArray.from_arrays(offset, pa.array(_narrow(m.values[first:last])))
        held["variance"] = pa.array(published_variance(m.variance[unit]))
        yield pa.table(held)
        start = stop


def _narrow(values: Ints) -> NDArray[np.signedinteger]:
    """int32 where every value fits."""
    fits = not len(values) or np.abs(values).max() <= np.iinfo(np.int32).max
    return values.astype(np.int32) if fits else values


def _encoded(tables: Sequence[pa.Table], coding: str, private: Private) -> bytes:
    sink = pa.BufferOutputStream()
    packed = {
        "cell.list.element": coding,
        "value.list.element": "DELTA_BINARY_PACKED",
        "geocode": "DELTA_BYTE_ARRAY",
    }
    with pq.ParquetWriter(
        sink,
        marked(tables[0].schema, private),
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=False,
        column_encoding=packed,
        write_statistics=["query_name"],
        data_page_size=ONE_PAGE,
    ) as writer:
        for t in tables:
            writer.write_table(
                t.replace_schema_metadata(writer.schema.metadata), row_group_size=max(1, t.num_rows)
            )
    return sink.getvalue().to_pybytes()


class OnDemandReader:
    """A :class:`das.model.measurement.SparseSource` of one published directory. It
    repeats the answers that were drawn on demand. ``spine``: the measured one, or a
    ``subtree``'s own. The queries of one level are kept in memory. With ``private``, files
    marked as seeded are refused. With ``partly``, levels at which nothing is measured have no
    file; otherwise that is refused."""

    def __init__(
        self,
        root: Path,
        spine: Spine,
        subtree: int | None = None,
        *,
        private: Private = False,
        partly: bool = False,
    ) -> None:
        self.root, self.spine, self.subtree, self.private = Path(root), spine, subtree, private
        self._partly = partly
        self._held: (
            tuple[str, dict[str, list[tuple[Path, int]]], dict[str, SparseMeasurement]] | None
        ) = None

    def queries(self, level: str) -> tuple[str, ...]:
        return tuple(self._level(level)[0])

    def shape(self, level: str, query: str) -> tuple[int, int]:
        return self.read(level, query).shape

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        return self.read(level, query).variance

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        return self.read(level, query).answers(units, cells)

    def read(self, level: str, query: str) -> SparseMeasurement:
        """All measurements on demand of one query at one level. Raises :class:`ReleaseError` for a
        damaged file."""
        groups, read = self._level(level)
        if query not in groups:
            raise not_measured(level, query, groups)
        if query not in read:
            read[query] = _joined(level, query, self.spine, groups[query])
        return read[query]

    def _level(
        self, level: str
    ) -> tuple[dict[str, list[tuple[Path, int]]], dict[str, SparseMeasurement]]:
        """The row groups of each query, and what was read of them; of another level nothing is
        kept."""
        if self._held is None or self._held[0] != level:
            wanted = "*" if self.subtree is None else f"{self.subtree:05d}"
            paths = sorted(_part(self.root, level, 0).parent.glob(f"part-{wanted}.parquet"))
            if not paths and not self._partly:
                raise ReleaseError(
                    f"nothing was measured on demand of level {level!r}",
                    where=_part(self.root, level, 0).parent,
                    remedy=LOST,
                )
            groups: dict[str, list[tuple[Path, int]]] = {}
            for path in paths:
                refuse_marked(path, self.private)
                with readable(path):
                    for number, name in enumerate(names_of(opened(path).metadata, path)):
                        groups.setdefault(name.removesuffix("_dpq"), []).append((path, number))
            self._held = level, groups, {}
        return self._held[1], self._held[2]


def _joined(
    level: str, query: str, spine: Spine, groups: Sequence[tuple[Path, int]]
) -> SparseMeasurement:
    """The row groups of one query together: each unit in one row."""
    rows = [_rows(path, group, level, query, spine) for path, group in groups]
    unit, per_unit, at, values = (
        np.concatenate([getattr(r, name) for r in rows])
        for name in ("unit", "variance", "at", "values")
    )
    if len({r.cells for r in rows}) > 1 or len(np.unique(unit)) < len(unit):
        raise _damaged(
            f"a unit has two rows of {query!r}, or rows have different shapes", groups[0][0]
        )
    variance = np.full(spine.units(level), np.inf)
    variance[unit] = per_unit
    if (at[1:] < at[:-1]).any():
        order = np.argsort(at, kind="stable")
        at, values = at[order], values[order]
    if (at[1:] == at[:-1]).any():
        raise _damaged(f"an answer to {query!r} is there twice", groups[0][0])
    return SparseMeasurement(level, query, rows[0].cells, at, values, variance)


@dataclass(frozen=True, eq=False)
class _OnDemandRows:
    """A row group: its units and their variances, how many answers the query has, which of all were
    revealed, and what they are."""

    unit: Ints
    variance: NDArray[np.float64]
    cells: int
    at: Ints
    values: Ints


def _rows(path: Path, group: int, level: str, query: str, spine: Spine) -> _OnDemandRows:
    table = columns(
        path, ["geocode", "query_shape", "cell", "value", "variance"], group
    ).combine_chunks()
    unit = units_of(table["geocode"], spine, level, path)
    shapes = matrix(table["query_shape"], path).prod(axis=1)
    cells, variance = int(shapes[0]), table["variance"].to_numpy()
    cell, value = (table[name].combine_chunks() for name in ("cell", "value"))
    length, number, values = cell.value_lengths().to_numpy(), cell.flatten(), value.flatten()
    if not (pa.types.is_integer(number.type) and pa.types.is_integer(values.type)):
        raise _damaged(f"what was measured on demand of {query!r} is not integers", path)
    if not np.array_equal(length, value.value_lengths().to_numpy()) or not (shapes == cells).all():
        raise _damaged(
            f"rows of {query!r} have different shapes, or lists that are not as long as one"
            " another",
            path,
        )
    if not (np.isfinite(variance) & (variance > 0)).all():
        raise _damaged(f"a variance of {query!r} is not positive and finite", path)
    number = number.to_numpy().astype(np.int64)
    if len(number) and not (number.min() >= 0 and number.max() < cells):
        raise _damaged(f"an answer to {query!r} that there is not", path)
    return _OnDemandRows(
        unit,
        variance,
        cells,
        np.repeat(unit, length) * cells + number,
        values.to_numpy().astype(np.int64),
    )


def _damaged(what: str, path: Path) -> ReleaseError:
    return ReleaseError(what, where=path, remedy=LOST)
