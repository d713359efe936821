"""Parquet files that may have been altered: whatever is wrong in one is a :class:`ReleaseError`
that names it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.model.not_private import COLUMN, WARNING, Private

LOST = "the release is incomplete or altered: get it again from where it was published"
#: What reading a damaged file may end in: a text that is no UTF-8, a length that no memory holds.
DAMAGE = (OSError, pa.ArrowException, UnicodeDecodeError, MemoryError, OverflowError)
#: How many files have their metadata kept, and how many small files.
_FILES, _SMALL_FILES = 8, 512
#: Limits of a small file: its bytes and its values.
SMALL, _VALUES = 1 << 17, 1 << 19
_Stamp = tuple[str, int, int, int]
_KNOWN: dict[_Stamp, pq.FileMetaData] = {}
_KNOWN_SMALL: dict[_Stamp, pq.FileMetaData] = {}
#: Of a small file where the rows of each row group begin, and end; none where its values are many.
_GROUPS: dict[_Stamp, NDArray[np.int64] | None] = {}


class RecentValues:
    """Values by key, of ``most`` bytes at most: the oldest make room. Several threads can use
    it."""

    def __init__(self, most: int) -> None:
        self.most, self.bytes, self._lock = most, 0, Lock()
        self._held: dict[Any, tuple[Any, int]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Any) -> Any:
        """The value, or ``None``."""
        return self._held.get(key, (None, 0))[0]

    def keep(self, key: Any, value: Any, size: int) -> None:
        """Keep a value of ``size`` bytes."""
        with self._lock:
            self.bytes += size - self._held.pop(key, (None, 0))[1]
            while self._held and self.bytes > self.most:
                self.bytes -= self._held.pop(next(iter(self._held)))[1]
            self._held[key] = value, size


#: Rows of small files; and decoded arrays: a subtree of 32,768 blocks has 80 million numbers, most
#: of them of one byte.
_ROWS, _ARRAYS = RecentValues(1 << 23), RecentValues(3 << 26)
#: Columns that hold numbers, and lists of them, wherever they occur; all others hold text.
NUMBERS = ("variance",)
LISTS = ("value", "standard_error", "query_shape", "cell")


def mark(private: Private) -> dict[str, str]:
    """The metadata of a file of measurements, so that the mark of a seeded run travels with it."""
    return {} if private else {COLUMN: WARNING}


def marked(schema: pa.Schema, private: Private) -> pa.Schema:
    """The schema with this mark added to its metadata."""
    return schema.with_metadata({**(schema.metadata or {}), **mark(private)} or None)


def is_marked(path: Path) -> bool:
    """Whether a file says that its noise was seeded."""
    with readable(path):
        return COLUMN.encode() in (metadata(path).metadata or {})


def refuse_marked(path: Path, said: Private) -> None:
    """Refuse a file that is marked as seeded in a release that is ``said`` not to be. Raises
    :class:`ReleaseError`."""
    if said and is_marked(path):
        raise ReleaseError(
            "this file says that it is of a seeded run, and the specification does not",
            where=path,
            remedy=(
                "publish nothing of it; the release is altered: get it again from where it was"
                " published"
            ),
        )


@contextmanager
def readable(path: Path, remedy: str = LOST) -> Iterator[None]:
    """What goes wrong inside is the fault of the file."""
    try:
        yield
    except DAMAGE as error:
        raise ReleaseError(
            f"not a readable Parquet file ({error})", where=path, remedy=remedy
        ) from None


def opened(path: Path) -> pq.ParquetFile:
    """The open file. Each process reads a file's metadata once, until the file changes. For a
    nation's list of blocks, opened a dozen times for each subtree, metadata take longer than the
    rows. No other threads read ahead: for small row groups on a local disk, asking them takes
    longer than reading."""
    with readable(path):
        return _opened(path, _stamp(path))


def metadata(path: Path) -> pq.FileMetaData:
    """The metadata of a file."""
    with readable(path):
        stamp = _stamp(path)
        known = _KNOWN.get(stamp) or _KNOWN_SMALL.get(stamp)
        return known or _opened(path, stamp).metadata


def _stamp(path: Path) -> _Stamp:
    """It is the same file while this is the same."""
    now = path.stat()
    return str(path), now.st_ino, now.st_size, now.st_mtime_ns


def _opened(path: Path, stamp: _Stamp) -> pq.ParquetFile:
    known, most = (_KNOWN_SMALL, _SMALL_FILES) if stamp[2] <= SMALL else (_KNOWN, _FILES)
    said = known.get(stamp)
    file = pq.ParquetFile(path, metadata=said, pre_buffer=False)
    if said is None:
        while len(known) >= most:
            known.pop(next(iter(known)), None)  # the oldest; threads may be at it, too
        known[stamp] = file.metadata
    return file


def columns(
    path: Path, names: Sequence[str], group: int | None = None, *, wanted: Sequence[str] = ()
) -> pa.Table:
    """The columns ``names``, and those of ``wanted`` that exist, of one row group or of all.

    No value is missing, and each has the type that its column has in every file: texts are strings,
    numbers are doubles.

    A folder of measurements has a file for each level, state and batch, with some kilobytes and a
    dozen row groups each. So a small file is read once, whole, until it changes."""
    with readable(path):
        stamp = _stamp(path)
        first = _first_rows(path, stamp)
    if first is None:
        return _read(path, names, wanted, group)
    key = (stamp, (*names, "", *wanted))
    rows = _ROWS.get(key)
    if rows is None:
        rows = _read(path, names, wanted)
        _ROWS.keep(key, rows, rows.nbytes)
    return rows if group is None else rows.slice(first[group], first[group + 1] - first[group])


def decoded(
    path: Path, group: int | None, read: Callable[[], tuple[NDArray[Any], ...]]
) -> tuple[NDArray[Any], ...]:
    """The arrays that ``read`` makes of a row group: once, while it is the same file, and while
    there is room. A run asks for each some five times: to estimate, for residuals, areas, pages and
    errors."""
    with readable(path):
        key = _stamp(path), group
    arrays: tuple[NDArray[Any], ...] | None = _ARRAYS.get(key)
    if arrays is None:
        arrays = read()
        for array in arrays:
            array.flags.writeable = False
        _ARRAYS.keep(key, arrays, sum(a.nbytes for a in arrays))
    return arrays


def _first_rows(path: Path, stamp: _Stamp) -> NDArray[np.int64] | None:
    """Where row groups begin, and the last ends, if the file is small. A small file is read and
    kept as a whole, even if only a part is needed."""
    if stamp[2] > SMALL:
        return None
    if stamp not in _GROUPS:
        said = metadata(path)
        groups = [said.row_group(g) for g in range(said.num_row_groups)]
        values = sum(g.column(c).num_values for g in groups for c in range(g.num_columns))
        first = np.cumsum([0, *(g.num_rows for g in groups)])
        while len(_GROUPS) >= _SMALL_FILES:
            _GROUPS.pop(next(iter(_GROUPS)), None)
        _GROUPS[stamp] = first if values <= _VALUES else None
    return _GROUPS.get(stamp)


def _read(
    path: Path, names: Sequence[str], wanted: Sequence[str], group: int | None = None
) -> pa.Table:
    file = opened(path)
    chosen = _chosen(file, path, names, wanted)
    with readable(path):
        read = file.read if group is None else partial(file.read_row_group, group)
        return checked(read(chosen, use_threads=False), path)


def batches(
    path: Path,
    names: Sequence[str],
    groups: Collection[int] | None = None,
    *,
    wanted: Sequence[str] = (),
    size: int = 1 << 16,
) -> Iterator[pa.Table]:
    """The columns of some row groups, or of all, in their order and ``size`` rows at a time; each
    column in one piece."""
    every = range(metadata(path).num_row_groups) if groups is None else sorted(groups)
    with readable(path):
        small = _first_rows(path, _stamp(path)) is not None
    if small:
        for group in every:
            rows = columns(path, names, group, wanted=wanted)
            yield from (rows.slice(first, size) for first in range(0, rows.num_rows, size))
        return
    file = opened(path)
    chosen = _chosen(file, path, names, wanted)
    with readable(path):
        for rows in file.iter_batches(size, row_groups=[*every], columns=chosen, use_threads=False):
            yield checked(pa.Table.from_batches([rows]), path)


def _chosen(
    file: pq.ParquetFile, path: Path, names: Sequence[str], wanted: Sequence[str]
) -> list[str]:
    there = file.schema_arrow.names
    if lost := [n for n in names if there.count(n) != 1]:
        raise ReleaseError(f"there is no column {lost[0]!r}, or two", where=path, remedy=LOST)
    return [*names, *(n for n in wanted if n in there)]


def checked(table: pa.Table, path: Path, *, absent: Sequence[str] = ()) -> pa.Table:
    """The table, after a check that no value is missing (except in columns that can be ``absent``)
    and that each column has its type.

    Columns of other names are text. Texts come as strings, numbers as doubles."""
    with readable(path):
        table.validate(full=True)
        for i, name in enumerate(table.column_names):
            kind = table.schema.field(i).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            if not _is_of(name, kind):
                raise ReleaseError(
                    f"column {name!r} is of another type ({kind})", where=path, remedy=LOST
                )
            if name not in absent and (
                table[i].null_count or (name in LISTS and _flat_nulls(table[i], kind))
            ):
                raise ReleaseError(f"a value of {name!r} is missing", where=path, remedy=LOST)
            if name not in LISTS:
                table = table.set_column(
                    i, name, table[i].cast(pa.float64() if name in NUMBERS else pa.string())
                )
    return table


def _flat_nulls(column: pa.ChunkedArray, kind: pa.DataType) -> int:
    return (
        int(pc.list_flatten(column).null_count)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind)
        else 0
    )


def _is_of(name: str, kind: pa.DataType) -> bool:
    if name in LISTS:
        inner = (
            kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else pa.null()
        )
        return pa.types.is_integer(inner) or (
            pa.types.is_floating(inner) and name not in ("query_shape", "cell")
        )
    if name in NUMBERS:
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
