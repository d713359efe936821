"""Noisy measurement files: Parquet in the layout of the Bureau's 2020 publication.

``<root>/<Level>.parquet/{DPQuery,Constraint}[/State=<code>]/part-*.parquet``, one row for each unit and
query (or constraint). Columns: ``geocode``; ``query_name`` (``<query>_dpq``, ``<name>_con``); one string
column for each attribute, holding ``*`` (summed out), ``detailed``, or the name of a grouping;
``query_shape`` and ``value`` (lists of integers, C order); ``variance`` (float32) or ``sign``.

A part holds one batch of units, with row groups of one query each, so that one query of one level is read
without touching the others. Values are dictionary-encoded: 129 to 256 different ones take a byte each, which zstd
packs to within a tenth of their entropy; fewer or more take seven bits or nine, which nothing packs. So a query's
rows are cut into two or four row groups where that brings the number of values into this range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import atomic
from das.files import codes as texts
from das.files.parquet import LOST as _LOST
from das.files.parquet import columns as _columns
from das.files.parquet import opened, readable
from das.model.codes import Codes, text
from das.model.constraint import Constraint
from das.model.measurement import Measurement
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine, places

_LEVEL_OF_PARTITION = "State"
#: A variance below what float32 holds (1e-70 occurs at rho = 1000) is published as the least that it does.
_LEAST = np.finfo(np.float32).tiny

#: More than a column of a row group holds. In several pages, those written before the 129th value is met would have seven
#: bits a value, which nothing packs.
_ONE_PAGE = 1 << 28


def write(root: Path, level: str, schema: Schema, spine: Spine, measurements: Iterable[Measurement]) -> Path:
    """Write all measurements of a level as they come; the level appears whole or not at all. Returns the folder
    that holds them and nothing else."""
    final = root / f"{level}.parquet"
    partition, geocodes = _partition(spine, level), texts.column(spine.codes[spine.index(level)])
    with atomic.folder(final) as draft:
        for number, batch in enumerate(_batches(measurements)):
            for where, a, b in _runs(partition, batch[0].start, len(batch[0].values)):
                folder = draft / "DPQuery" / where
                folder.mkdir(parents=True, exist_ok=True)
                tables = [_rows(m, a, b, schema.query(m.query), schema, geocodes) for m in batch]
                _write_part(folder / f"part-{number:05d}.parquet", tables)
    return final / "DPQuery"


def write_constraints(root: Path, schema: Schema, spine: Spine, constraints: Sequence[Constraint]) -> None:
    """Add the constraint rows of the levels they stand at."""
    for level in dict.fromkeys(c.level for c in constraints):
        partition, geocodes = _partition(spine, level), texts.column(spine.codes[spine.index(level)])
        here = [c for c in constraints if c.level == level]
        with atomic.folder(root / f"{level}.parquet" / "Constraint") as draft:
            for where, a, b in _runs(partition, 0, spine.units(level)):
                folder = draft / where
                folder.mkdir(parents=True, exist_ok=True)
                tables = [_constraint_rows(c, a, b, schema.query(c.query), schema, geocodes) for c in here]
                _write_part(folder / "part-00000.parquet", tables)


def _batches(measurements: Iterable[Measurement]) -> Iterator[list[Measurement]]:
    """Measurements of the same units stand together."""
    batch: list[Measurement] = []
    for m in measurements:
        if batch and m.start != batch[0].start:
            yield batch
            batch = []
        batch.append(m)
    if batch:
        yield batch


def _partition(spine: Spine, level: str) -> tuple[list[str], NDArray[np.int64]]:
    """Folders, and which of them each unit is in: that of its state where there is such a level at or above it, else that
    of the level itself."""
    if _LEVEL_OF_PARTITION in spine.levels and spine.index(level) >= spine.index(_LEVEL_OF_PARTITION):
        codes = text(spine.codes[spine.index(_LEVEL_OF_PARTITION)])
        names = [f"{_LEVEL_OF_PARTITION}={quote(c, safe='')}" for c in codes.tolist()]  # as Hive does
        return names, spine.up(level, _LEVEL_OF_PARTITION)
    return [""], np.zeros(spine.units(level), dtype=np.int64)


def _runs(partition: tuple[list[str], NDArray[np.int64]], start: int, n: int) -> Iterator[tuple[str, int, int]]:
    """Runs of equal folders among units start:start+n, as offsets into the batch."""
    here = partition[1][start : start + n]
    cuts = [0, *(np.flatnonzero(here[1:] != here[:-1]) + 1).tolist(), n]
    for a, b in pairwise(cuts):
        yield partition[0][here[a]], a, b


def _rows(m: Measurement, a: int, b: int, query: Query, schema: Schema, geocodes: pa.StringArray) -> pa.Table:
    columns = describe(geocodes[m.start + a : m.start + b], f"{m.query}_dpq", query, schema)
    columns["value"] = _lists(m.values[a:b])
    columns["variance"] = pa.array(np.maximum(m.variance[a:b].astype(np.float32), _LEAST))
    return pa.table(columns)


def _constraint_rows(c: Constraint, a: int, b: int, query: Query, schema: Schema, geocodes: pa.StringArray) -> pa.Table:
    columns = describe(geocodes[a:b], f"{c.name}_con", query, schema)
    columns["value"] = _lists(c.bound[a:b])
    columns["sign"] = pa.repeat(c.sign, b - a)
    return pa.table(columns)


def describe(geocodes: pa.StringArray, name: str, query: Query, schema: Schema) -> dict[str, pa.Array]:
    """The columns of the rows of one query: whose they are, and what was asked."""
    n = len(geocodes)
    columns = {"geocode": geocodes, "query_name": pa.repeat(name, n)}
    for attribute, grouping in zip(schema.attributes, query.groupings, strict=True):
        label = "*" if grouping.is_total else "detailed" if grouping.is_detailed else grouping.name
        columns[attribute.name] = pa.repeat(label, n)
    shape = np.tile(np.array(query.shape, dtype=np.int32), (n, 1))
    columns["query_shape"] = _lists(shape)
    return columns


def _lists(values: NDArray[np.generic]) -> pa.ListArray:
    """Rows of an array as lists; int32 where every value fits."""
    info = np.iinfo(np.int32)
    if values.size == 0 or (values.min() >= info.min and values.max() <= info.max):
        values = values.astype(np.int32, copy=False)
    n, width = values.shape
    offsets = np.arange(n + 1, dtype=np.int32) * np.int32(width)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()))


def _write_part(path: Path, tables: Sequence[pa.Table]) -> None:
    wide = any(t.schema.field("value").type.value_type == pa.int64() for t in tables)
    if wide:
        tables = [t.set_column(t.schema.get_field_index("value"), "value", t["value"].cast(pa.list_(pa.int64())))
                  for t in tables]  # fmt: skip
    with pq.ParquetWriter(
        path,
        tables[0].schema,
        compression="zstd",
        use_dictionary=["value.list.element"],  # the other columns hardly change: zstd alone is smaller
        column_encoding={"geocode": "DELTA_BYTE_ARRAY"},  # sorted codes share their beginnings
        write_statistics=["query_name"],
        data_page_size=_ONE_PAGE,
    ) as writer:
        for t in tables:
            writer.write_table(t, row_group_size=_rows_of_a_group(t))


def _rows_of_a_group(table: pa.Table) -> int:
    """All rows, a half or a quarter of them: what makes the values of the first group a byte each."""
    rows = max(1, table.num_rows)
    values = table["value"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    width = len(values) // rows
    for parts in (1, 2, 4):
        part = -(-rows // parts)
        if part * width >= 1 << 16 and 128 < len(pc.unique(pa.array(values[: part * width]))) <= 256:
            return part
    return rows


# --- reading -----------------------------------------------------------------------------------------------


class NmfReader:
    """Measurements of one published directory, read a slice of units at a time."""

    def __init__(self, root: Path, spine: Spine) -> None:
        self.root, self.spine = Path(root), spine
        self._files: dict[str, tuple[_File, ...]] = {}

    def queries(self, level: str) -> tuple[str, ...]:
        return _queries(self._level(level))

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        """Units ``start:stop``; every one of them must be in the files, once."""
        return self.part(level, start, stop).read(level, query, start, stop)

    def part(self, level: str, start: int, stop: int) -> NmfPart:
        """The files that hold units ``start:stop``, and the codes of these and of what stands between them."""
        files = tuple(f for f in self._level(level) if f.first < stop and f.last >= start)
        first = min([start, *(f.first for f in files)])
        last = max([stop, *(f.last + 1 for f in files)])
        codes = self.spine.codes[self.spine.index(level)][first:last]
        return NmfPart(self.root, level, first, codes, files)

    def constraints(self, level: str) -> dict[str, tuple[str, NDArray[np.int64]]]:
        """Constraint rows of a level: name -> (sign, bounds of shape (units, answers))."""
        found: dict[str, tuple[str, NDArray[np.int64]]] = {}
        for path in sorted((self.root / f"{level}.parquet" / "Constraint").rglob("*.parquet")):
            table = _columns(path, ["geocode", "query_name", "value", "sign"])
            names = texts.texts(table["query_name"])
            unit = _units(table["geocode"], self.spine, level, path)
            for name in dict.fromkeys(names.tolist()):
                rows = np.flatnonzero(names == name)
                got = _matrix(table["value"].take(pa.array(rows)), path)
                sign = table["sign"][int(rows[0])].as_py()
                key = name.removesuffix("_con")
                if key not in found:
                    found[key] = (sign, np.full((self.spine.units(level), got.shape[1]), -1, dtype=np.int64))
                bound = found[key][1]
                if sign != found[key][0] or got.shape[1] != bound.shape[1] or (bound[unit[rows]] >= 0).any():
                    raise ReleaseError(f"constraint {key!r} is not the same in all parts, or is there twice",
                                       where=path, remedy=_LOST)  # fmt: skip
                bound[unit[rows]] = got
        for key, (_, bound) in found.items():
            if (bound < 0).any():
                raise ReleaseError(
                    f"constraint {key!r} is missing for a unit of {level!r}", where=self.root, remedy=_LOST
                )
        return found

    def _level(self, level: str) -> tuple[_File, ...]:
        if level not in self._files:
            folder = self.root / f"{level}.parquet" / "DPQuery"
            paths = sorted(folder.rglob("*.parquet"))
            if not paths:
                raise ReleaseError(f"no measurements of level {level!r}", where=folder, remedy=_LOST)
            found = (_File.of(p, self.spine, level) for p in paths)
            self._files[level] = tuple(sorted(found, key=lambda f: f.first))
        return self._files[level]


@dataclass(frozen=True)
class _File:
    """One file of a level: which queries its row groups hold, and the first and last of its units."""

    path: Path
    groups: tuple[tuple[str, int], ...]
    first: int
    last: int

    @staticmethod
    def of(path: Path, spine: Spine, level: str) -> _File:
        with readable(path):
            meta = opened(path).metadata
            groups = tuple((name.removesuffix("_dpq"), g) for g, name in enumerate(_names(meta, path)))
        unit = np.concatenate([_units(_columns(path, ["geocode"], g)["geocode"], spine, level, path)
                               for name, g in groups if name == groups[0][0]])  # fmt: skip
        return _File(path, groups, int(unit.min()), int(unit.max()))

    def groups_of(self, query: str) -> list[int]:
        found = [g for name, g in self.groups if name == query]
        if not found:
            raise ReleaseError(f"query {query!r} is not in this file", where=self.path, remedy=_LOST)
        return found


@dataclass(frozen=True, eq=False)
class NmfPart:
    """Some units of one level, for a task: ``files`` that hold them, and ``codes`` of units ``first : first + len(codes)``
    of the level, all that the files have."""

    root: Path
    level: str
    first: int
    codes: Codes
    files: tuple[_File, ...]

    def queries(self, level: str) -> tuple[str, ...]:
        return _queries(self._of(level))

    def part(self, level: str, start: int, stop: int) -> NmfPart:
        files = tuple(f for f in self._of(level) if f.first < stop and f.last >= start)
        return NmfPart(self.root, level, self.first, self.codes, files)

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        values: NDArray[np.int64] | None = None
        variance, times = np.zeros(stop - start), np.zeros(stop - start, dtype=np.int64)
        for file in self._of(level):
            if not (file.first < stop and file.last >= start):
                continue
            for group in file.groups_of(query):
                unit, got, var = self._load(file.path, group)
                keep = (unit >= start) & (unit < stop)
                if values is None:
                    values = np.zeros((stop - start, got.shape[1]), dtype=np.int64)
                if got.shape[1] != values.shape[1]:
                    raise ReleaseError(f"other numbers of answers to {query!r} than before", where=file.path,
                                       remedy=_LOST)  # fmt: skip
                values[unit[keep] - start], variance[unit[keep] - start] = got[keep], var[keep]
                np.add.at(times, unit[keep] - start, 1)
        if values is None or (times != 1).any():
            at = int(np.flatnonzero(times != 1)[0])
            what = "no measurement" if times[at] == 0 else f"{times[at]} measurements"
            code = self.codes[start + at - self.first].decode()
            raise ReleaseError(f"{what} of {query!r} for {level} {code}", where=self.root, remedy=_LOST)
        if not (variance > 0).all():
            raise ReleaseError(f"a variance of {query!r} at {level!r} is not positive", where=self.root, remedy=_LOST)
        return Measurement(level, query, start, values, variance)

    def _of(self, level: str) -> tuple[_File, ...]:
        if level != self.level:
            raise ValueError(f"this is a part of level {self.level!r}, not of {level!r}")
        return self.files

    def _load(self, path: Path, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        table = _columns(path, ["geocode", "value", "variance"], group)
        unit = self.first + _known(table["geocode"], lambda codes: places(self.codes, codes), self.level, path)
        return unit, _matrix(table["value"], path), table["variance"].to_numpy().astype(np.float64)


def _queries(files: Sequence[_File]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for file in files for name, _ in file.groups))


def _names(meta: pq.FileMetaData, path: Path) -> Iterator[str]:
    """The query of each row group, from its statistics: there is one alone."""
    column = next((i for i in range(meta.num_columns) if meta.schema.column(i).path == "query_name"), None)
    if column is None or not meta.num_rows:
        raise ReleaseError("no column query_name, or no rows", where=path, remedy=_LOST)
    for g in range(meta.num_row_groups):
        stats = meta.row_group(g).column(column).statistics
        if stats is None or not stats.has_min_max or stats.min != stats.max or not isinstance(stats.min, str):
            raise ReleaseError(f"row group {g} mixes queries, or does not say which it holds", where=path, remedy=_LOST)
        yield stats.min


def _matrix(column: pa.ChunkedArray, path: Path) -> NDArray[np.int64]:
    """Lists of one length as rows of an array."""
    try:
        widths = pc.unique(pc.list_value_length(column)).to_pylist()
        flat = pc.list_flatten(column)
    except pa.ArrowException as error:
        raise ReleaseError(f"values are not lists ({error})", where=path, remedy=_LOST) from None
    if not pa.types.is_integer(flat.type) or flat.null_count:
        raise ReleaseError("values are not lists of integers", where=path, remedy=_LOST)
    if len(widths) != 1 or len(flat) != len(column) * widths[0]:
        raise ReleaseError("lists of different lengths under one query", where=path, remedy=_LOST)
    return flat.to_numpy().astype(np.int64, copy=False).reshape(len(column), widths[0])


def _units(column: pa.ChunkedArray, spine: Spine, level: str, path: Path) -> NDArray[np.int64]:
    """Unit numbers of geocodes."""
    return _known(column, lambda codes: spine.find(level, codes), level, path)


def _known(
    column: pa.ChunkedArray, find: Callable[[Codes], NDArray[np.int64]], level: str, path: Path
) -> NDArray[np.int64]:
    """What ``find`` says of geocodes, of which each must be that of a unit."""
    wanted = texts.codes(column)
    unit = find(wanted)
    if (unit < 0).any():
        raise ReleaseError(
            f"geocode {str(text(wanted[unit < 0])[0])!r} is not a unit of {level!r}", where=path, remedy=_LOST
        )
    return unit
