"""One file of noisy measurements, and those of a level: what their footers say, and their
columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import codes as texts
from das.files import numbers
from das.files.measurements.nmf import describe
from das.files.parquet import LOST as _LOST
from das.files.parquet import batches, metadata, readable
from das.files.parquet import columns as _columns
from das.model.codes import Codes, text
from das.model.schema import Schema
from das.model.spine import Spine


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
    def of(files: Sequence[NmfFile], measured: NDArray[np.bool_]) -> NmfLevelFiles:
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
    def of(path: Path, spine: Spine, level: str) -> NmfFile:
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
    return numbers.array(flat).reshape(len(column), widths[0])


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
    than :func:`das.files.measurements.nmf.describe`.
    """
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
