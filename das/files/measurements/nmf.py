"""Noisy measurement files: Parquet in the layout of the Bureau's 2020 publication.

``<root>/<Level>.parquet/DPQuery[/State=<code>]/part-<subtree>-<batch>.parquet``, one row for each
unit and query, and ``.../Constraint[/State=<code>]/part-<subtree>.parquet``, one for each unit and
constraint. Columns: ``geocode``, empty for a root above all places (``US``); ``query_name``
(``<query>_dpq``, ``<name>_con``); one string column for each attribute; ``query_shape`` and
``value`` (lists of integers, C order); ``variance`` (float32) or ``sign``. An attribute's column
holds ``*`` (summed out) or the name of a grouping. The attribute's own name stands for each level
by itself, and ``detailed`` does in the query of that name.

A unit that no query measures has no row in ``DPQuery``, and a level without a measured unit has no
such folder. Constraints have rows for all units.

Each part appears whole or not at all, and identifies itself: a ledger, which lists the parts that
must exist, shows which are missing. A part can be written several times, and by several processes
at once, if all write the same content. It belongs to one subtree (:mod:`das.model.measured_spine`); 0 is
the upper tree, or the whole of a tree without subtrees. It holds one batch of units, with row
groups of one query each, so one query of one level is read without touching the others.

Values are dictionary-encoded. With 129 to 256 different values each takes a byte, which zstd packs
to within a tenth of their entropy. With fewer or more, each takes seven bits or nine, which nothing
packs. So a query's rows are split into two or four row groups where that brings the number of
values into this range."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.engine import in_order
from das.errors import ReleaseError
from das.files import atomic, csv_text
from das.files import codes as texts
from das.files.parquet import LOST as _LOST
from das.files.parquet import batches, marked, metadata, readable
from das.files.parquet import columns as _columns
from das.model.constraint import Constraint
from das.model.measurement import Measurement, published_variance
from das.model.names import Codes, encoded, text
from das.model.not_private import Private
from das.model.query import DETAILED, Query
from das.model.schema import Schema
from das.model.spine import Spine

_LEVEL_OF_PARTITION = "State"

#: More than a column of a row group holds. In several pages, those written before the 129th value
#: is met would have seven bits a value, which nothing packs.
ONE_PAGE = 1 << 28


def write(
    root: Path,
    level: str,
    schema: Schema,
    spine: Spine,
    measurements: Iterable[Measurement],
    subtree: int = 0,
    *,
    private: Private = True,
) -> dict[str, str]:
    """Write all measurements of a level of a subtree as they come, for the units that are measured;
    ``spine`` is the subtree's. Each file says if it is not ``private``. Returns SHA-256 of each
    part, by its path from ``root``."""
    partition, geocodes = folders(spine, level), geocodes_of(spine, level)

    def written(given: tuple[int, list[Measurement]]) -> dict[str, str]:
        (number, batch), parts = given, {}
        measured = np.any([np.isfinite(m.variance) for m in batch], axis=0)
        for where, a, b in _runs(partition, batch[0].start, len(batch[0].values)):
            unit = a + np.flatnonzero(measured[a:b])
            if len(unit):
                path = Path(
                    f"{level}.parquet", "DPQuery", where, f"part-{subtree:05d}-{number:05d}.parquet"
                )
                tables = [_rows(m, unit, schema.query(m.query), schema, geocodes) for m in batch]
                parts[path] = _part(tables, private)
        atomic.write_all({root / path: data for path, data in parts.items()})
        return {path.as_posix(): hashlib.sha256(data).hexdigest() for path, data in parts.items()}

    with ThreadPoolExecutor(2) as aside:  # while the next batch is drawn
        every = in_order(aside, written, enumerate(_batches(measurements)), ahead=3)
        return {path: digest for parts in every for path, digest in parts.items()}


def write_constraints(
    root: Path,
    schema: Schema,
    spine: Spine,
    constraints: Sequence[Constraint],
    subtree: int = 0,
    *,
    private: Private = True,
) -> None:
    """Add the constraint rows of the levels they stand at, of the units of a subtree. ``private``:
    the run is."""
    parts = {}
    for level in dict.fromkeys(c.level for c in constraints):
        partition, geocodes = folders(spine, level), geocodes_of(spine, level)
        here = [c for c in constraints if c.level == level]
        for where, a, b in _runs(partition, 0, spine.units(level)):
            tables = [
                _constraint_rows(c, a, b, schema.query(c.query), schema, geocodes) for c in here
            ]
            path = root / f"{level}.parquet" / "Constraint" / where / f"part-{subtree:05d}.parquet"
            parts[path] = _part(tables, private)
    atomic.write_all(parts)


def geocodes_of(spine: Spine, level: str) -> pa.StringArray:
    """The geocodes of a level as the files have them. A child's begins with its parent's, so a root
    whose code is only the name of its level, such as US, has the empty one."""
    codes = spine.codes[spine.index(level)]
    if level == spine.levels[0] and codes[0] == encoded([level])[0]:
        codes = encoded([""])
    return texts.column(codes)


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


def folders(spine: Spine, level: str) -> tuple[list[str], NDArray[np.int64]]:
    """Folders, and which of them each unit is in: that of its state where there is such a level at
    or above it, else that of the level itself."""
    if _LEVEL_OF_PARTITION in spine.levels and spine.index(level) >= spine.index(
        _LEVEL_OF_PARTITION
    ):
        codes = text(spine.codes[spine.index(_LEVEL_OF_PARTITION)])
        names = [
            f"{_LEVEL_OF_PARTITION}={quote(c, safe='')}" for c in codes.tolist()
        ]  # as Hive does
        return names, spine.up(level, _LEVEL_OF_PARTITION)
    return [""], np.zeros(spine.units(level), dtype=np.int64)


def _runs(
    partition: tuple[list[str], NDArray[np.int64]], start: int, n: int
) -> Iterator[tuple[str, int, int]]:
    """Runs of equal folders among units start:start+n, as offsets into the batch."""
    here = partition[1][start : start + n]
    cuts = [0, *(np.flatnonzero(here[1:] != here[:-1]) + 1).tolist(), n]
    for a, b in pairwise(cuts):
        yield partition[0][here[a]], a, b


def _rows(
    m: Measurement, unit: NDArray[np.intp], query: Query, schema: Schema, geocodes: pa.StringArray
) -> pa.Table:
    """Those of some units, counted from the first of the measurement."""
    columns = describe(
        geocodes.take(csv_text.column(m.start + unit)), f"{m.query}_dpq", query, schema
    )
    columns["value"] = lists(m.values[unit])
    columns["variance"] = csv_text.column(published_variance(m.variance[unit]))
    return pa.table(columns)


def _constraint_rows(
    c: Constraint, a: int, b: int, query: Query, schema: Schema, geocodes: pa.StringArray
) -> pa.Table:
    columns = describe(geocodes[a:b], f"{c.name}_con", query, schema)
    columns["value"] = lists(c.bound[a:b])
    columns["sign"] = texts.repeated(c.sign, b - a)
    return pa.table(columns)


def describe(
    geocodes: pa.StringArray, name: str, query: Query, schema: Schema
) -> dict[str, pa.Array]:
    """The columns of the rows of one query: whose they are, and what was asked."""
    n = len(geocodes)
    columns = {"geocode": geocodes, "query_name": texts.repeated(name, n)}
    for attribute, grouping in zip(schema.attributes, query.groupings, strict=True):
        label = grouping.name
        if grouping.is_total:
            label = "*"
        elif grouping.is_detailed:
            label = DETAILED if query.name == DETAILED else attribute.name
        columns[attribute.name] = texts.repeated(label, n)
    shape = np.tile(np.array(query.shape, dtype=np.int32), (n, 1))
    columns["query_shape"] = lists(shape)
    return columns


def lists(values: NDArray[np.generic]) -> pa.ListArray:
    """Rows of an array as lists; int32 where every value fits."""
    info = np.iinfo(np.int32)
    if values.size == 0 or (values.min() >= info.min and values.max() <= info.max):
        values = values.astype(np.int32, copy=False)
    n, width = values.shape
    offsets = np.arange(n + 1, dtype=np.int32) * np.int32(width)
    return pa.ListArray.from_arrays(csv_text.column(offsets), csv_text.column(values.ravel()))


def _part(tables: Sequence[pa.Table], private: Private) -> bytes:
    """A file, some megabytes, made in memory."""
    wide = any(t.schema.field("value").type.value_type == pa.int64() for t in tables)
    if wide:
        tables = [
            t.set_column(
                t.schema.get_field_index("value"), "value", t["value"].cast(pa.list_(pa.int64()))
            )
            for t in tables
        ]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        marked(tables[0].schema, private),
        compression="zstd",
        use_dictionary=[
            "value.list.element"
        ],  # the other columns hardly change: zstd alone is smaller
        column_encoding={"geocode": "DELTA_BYTE_ARRAY"},  # sorted codes share their beginnings
        write_statistics=["query_name"],
        data_page_size=ONE_PAGE,
    ) as writer:
        for t in tables:
            writer.write_table(
                t.replace_schema_metadata(writer.schema.metadata),
                row_group_size=_rows_of_a_group(t),
            )
    return sink.getvalue().to_pybytes()


def _rows_of_a_group(table: pa.Table) -> int:
    """All rows, a half or a quarter of them: what makes the values of the first group a byte
    each."""
    rows = max(1, table.num_rows)
    values = csv_text.array(table["value"].combine_chunks().flatten())
    width = len(values) // rows
    for parts in (1, 2, 4):
        part = -(-rows // parts)
        if part * width < 1 << 16:
            break
        if (many := len(pc.unique(csv_text.column(values[: part * width])))) <= 256:
            return part if many > 128 else rows  # fewer rows have no more different values
    return rows


# One file of noisy measurements, and those of a level: what their footers say, and their
# columns.


@dataclass(frozen=True, eq=False)
class NmfLevelFiles:
    """The files of a level, which of its units are measured ``(units,)``, and the number of answers
    to each query. Of the runs of units that the files have, by their first units: ``file``
    ``(runs,)`` whose it is, ``first`` its first unit, and ``reached`` the last of it and of those
    before it."""

    files: tuple[NmfFile, ...]
    file: NDArray[np.int64]
    first: NDArray[np.int64]
    reached: NDArray[np.int64]
    measured: NDArray[np.bool_]
    answers: Mapping[str, int]

    @staticmethod
    def from_files(files: Sequence[NmfFile], measured: NDArray[np.bool_]) -> NmfLevelFiles:
        files = sorted(files, key=lambda f: f.first)
        runs = np.array(
            sorted((*run, i) for i, f in enumerate(files) for run in f.runs), dtype=np.int64
        ).reshape(-1, 3)
        return NmfLevelFiles(
            tuple(files),
            runs[:, 2],
            runs[:, 0],
            np.maximum.accumulate(runs[:, 1]),
            measured,
            _answers(files),
        )

    def of_units(self, start: int, stop: int) -> tuple[NmfFile, ...]:
        """Those that may hold some of the units ``start:stop``."""
        a, b = np.searchsorted(self.reached, start), np.searchsorted(self.first, stop)
        return tuple(
            self.files[i] for i in np.unique(self.file[a:b]) if self.files[i].may_hold(start, stop)
        )


@dataclass(frozen=True)
class NmfFile:
    """One file of a level: the queries of its row groups, and the runs of units that it has, by the
    first and last of each. A subtree's file has several runs where its units are among others in
    the tree, as in the branches of an optimized spine."""

    path: Path
    groups: tuple[tuple[str, int], ...]
    runs: tuple[tuple[int, int], ...]

    @property
    def first(self) -> int:
        return self.runs[0][0]

    @property
    def last(self) -> int:
        return self.runs[-1][1]

    def may_hold(self, start: int, stop: int) -> bool:
        """Whether it may hold some of the units ``start:stop``."""
        return any(first < stop and last >= start for first, last in self.runs)

    @staticmethod
    def from_path(path: Path, spine: Spine, level: str) -> NmfFile:
        with readable(path):
            meta = metadata(path)
            groups = tuple(
                (name.removesuffix("_dpq"), g) for g, name in enumerate(names_of(meta, path))
            )
        once = [g for name, g in groups if name == groups[0][0]]
        unit = np.sort(
            np.concatenate(
                [
                    units_of(rows["geocode"], spine, level, path)
                    for rows in batches(path, ["geocode"], once)
                ]
            )
        )
        cuts = (
            np.flatnonzero(np.diff(unit) > len(unit)) + 1
        )  # more than there are in the file lie between
        return NmfFile(
            path, groups, tuple((int(run[0]), int(run[-1])) for run in np.split(unit, cuts))
        )

    def groups_of(self, query: str) -> list[int]:
        found = [g for name, g in self.groups if name == query]
        if not found:
            raise ReleaseError(
                f"query {query!r} is not in this file", where=self.path, remedy=_LOST
            )
        return found


def _answers(files: Sequence[NmfFile]) -> dict[str, int]:
    """The number of answers to each query, from the shape in its first row."""
    out: dict[str, int] = {}
    for file in files:
        for name, group in file.groups:
            if name not in out:
                shape = _columns(file.path, ["query_shape"], group)["query_shape"][:1]
                out[name] = int(matrix(shape, file.path).prod())
    return out


def names_of(meta: pq.FileMetaData, path: Path) -> Iterator[str]:
    """The query of each row group, from its statistics: there is one alone."""
    column = next(
        (i for i in range(meta.num_columns) if meta.schema.column(i).path == "query_name"), None
    )
    if column is None or not meta.num_rows:
        raise ReleaseError("no column query_name, or no rows", where=path, remedy=_LOST)
    for g in range(meta.num_row_groups):
        stats = meta.row_group(g).column(column).statistics
        if (
            stats is None
            or not stats.has_min_max
            or stats.min != stats.max
            or not isinstance(stats.min, str)
        ):
            raise ReleaseError(
                f"row group {g} mixes queries, or does not say which it holds",
                where=path,
                remedy=_LOST,
            )
        yield stats.min


def matrix(column: pa.ChunkedArray, path: Path) -> NDArray[np.int64]:
    """Lists of one length as rows of an array."""
    return as_written(column, path).astype(np.int64, copy=False)


def as_written(column: pa.ChunkedArray, path: Path) -> NDArray[np.signedinteger[Any]]:
    """The same, of numbers as wide as in the file."""
    try:
        widths = pc.unique(pc.list_value_length(column)).to_pylist()
        flat = pc.list_flatten(column)
    except pa.ArrowException as error:
        raise ReleaseError(f"values are not lists ({error})", where=path, remedy=_LOST) from None
    if not pa.types.is_integer(flat.type) or flat.null_count:
        raise ReleaseError("values are not lists of integers", where=path, remedy=_LOST)
    if len(widths) != 1 or len(flat) != len(column) * widths[0]:
        raise ReleaseError("lists of different lengths under one query", where=path, remedy=_LOST)
    return csv_text.array(flat).reshape(len(column), widths[0])


def units_of(column: pa.ChunkedArray, spine: Spine, level: str, path: Path) -> NDArray[np.int64]:
    """Unit numbers of geocodes."""
    codes = texts.codes(column)
    if level == spine.levels[0]:
        codes = root_named(codes, spine.codes[0])
    return known_units(codes, partial(spine.find, level), level, path)


def root_named(codes: Codes, root: Codes) -> Codes:
    """Geocodes of a root, with its code instead of the empty one that files have."""
    return np.where(codes == b"", root[0], codes)


def known_units(
    wanted: Codes, find: Callable[[Codes], NDArray[np.int64]], level: str, path: Path
) -> NDArray[np.int64]:
    """The results of ``find`` for geocodes, which must be those of units."""
    unit = find(wanted)
    if (unit < 0).any():
        raise ReleaseError(
            f"geocode {str(text(wanted[unit < 0])[0])!r} is not a unit of {level!r}",
            where=path,
            remedy=_LOST,
        )
    return unit


def odd_columns(path: Path, schema: Schema) -> Iterator[tuple[str, str]]:
    """Each query with a row that does not say what was asked, and the column that says otherwise
    than :func:`das.files.measurements.nmf.describe`."""
    for group, name in enumerate(names_of(metadata(path), path)):
        query = schema.query(name.removesuffix("_dpq"))
        geocodes = _columns(path, ["geocode"], group)["geocode"].combine_chunks()
        asked = describe(geocodes, name, query, schema)
        found = _columns(path, list(asked), group)
        with readable(path):
            odd = [
                c for c, w in asked.items() if not found[c].combine_chunks().cast(w.type).equals(w)
            ]
        yield from ((query.name, column) for column in odd)
