"""Parquet files whose row groups end at the borders of subtrees, so that one subtree is read
without the others.

The footer has an object ``das:shards``. Its ``level`` and ``starts`` say how the tree is cut
(:class:`das.model.subtrees.Subtrees`). Its ``groups`` is the number of the subtree of each row
group, 0 for the upper tree. To other readers of Parquet it is one table. A file without that object
is all upper tree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import atomic, numbers, parquet
from das.files import codes as texts
from das.model.codes import Codes
from das.model.not_private import Private
from das.model.spine import Spine
from das.model.subtrees import Subtrees

KEY = "das:shards"
#: The most rows of a row group.
ROWS = 1 << 16


@dataclass(frozen=True)
class RowGroups:
    """The row groups of a file by its footer; ``more`` is what some kinds of files add."""

    subtrees: Subtrees
    groups: tuple[int, ...]
    rows: tuple[int, ...]
    more: Mapping[str, Any]

    def of(self, subtree: int) -> list[int]:
        """The row groups of a subtree, or of the upper tree."""
        return [g for g, home in enumerate(self.groups) if home == subtree]


def write(
    path: Path,
    schema: pa.Schema,
    tables: Iterable[tuple[int, pa.Table]],
    subtrees: Subtrees | None,
    more: Mapping[str, Any] | None = None,
    *,
    private: Private,
    **options: Any,
) -> None:
    """Each table, of a subtree, as row groups of its own."""
    groups: list[int] = []
    rows: list[int] = []
    with (
        atomic.file(path) as draft,
        pq.ParquetWriter(
            draft, parquet.marked(schema, private), compression="zstd", **options
        ) as writer,
    ):
        for subtree, table in tables:
            writer.write_table(table, row_group_size=max(1, len(table)))
            groups.append(subtree)
            rows.append(len(table))
        if subtrees is not None and len(subtrees):
            said = {
                "level": subtrees.level,
                "starts": subtrees.starts.tolist(),
                "groups": groups,
                "rows": rows,
            }
            writer.add_key_value_metadata({KEY: json.dumps(said | dict(more or {}))})


def row_groups(path: Path) -> RowGroups | None:
    """What the file says; nothing where it is not cut. Raises :class:`ReleaseError` where it is cut
    otherwise.
    """
    meta = parquet.opened(path).metadata
    text = (meta.metadata or {}).get(KEY.encode())
    if text is None:
        return None
    try:
        given = json.loads(text)
        subtrees = Subtrees(given.pop("level"), np.array(given.pop("starts"), dtype=np.int64))
        groups, rows = tuple(given.pop("groups")), tuple(given.pop("rows"))
    except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        raise ReleaseError(
            f"what it says of its subtrees is not readable ({error})",
            where=path,
            remedy=parquet.LOST,
        ) from None
    there = tuple(meta.row_group(g).num_rows for g in range(meta.num_row_groups))
    if (
        rows != there
        or len(groups) != len(rows)
        or not set(groups) <= set(range(len(subtrees) + 1))
    ):
        raise ReleaseError(
            "its row groups are not those that it says", where=path, remedy=parquet.LOST
        )
    return RowGroups(subtrees, groups, rows, given)


def runs(home: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Runs of equal values: each value, and where the run begins and ends."""
    cuts = [0, *(np.flatnonzero(home[1:] != home[:-1]) + 1).tolist(), len(home)]
    for a, b in pairwise(cuts if len(home) else []):
        yield int(home[a]), a, b


def pieces(home: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """The same, none longer than a row group."""
    for subtree, a, b in runs(home):
        for start in range(a, b, ROWS):
            yield subtree, start, min(start + ROWS, b)


def slices(
    spine: Spine, level: str, home: NDArray[np.int64]
) -> Iterator[tuple[int, int, int, int]]:
    """Row groups of a tree, level by level: subtree, depth, and the units ``start, stop``. ``home``
    is the subtree of each unit of ``level``, ``(units,)``."""
    below = spine.index(level) + 1
    for depth, parent in enumerate(spine.parent):
        home = home if depth < below else home[parent]
        for subtree, start, stop in pieces(
            np.zeros(len(parent), dtype=np.int64) if depth < below else home
        ):
            yield subtree, depth, start, stop


def runs_of(name: str, tables: Iterable[pa.Table]) -> Iterator[tuple[bytes, pa.Table]]:
    """The rows of tables, some at a time, all with the same text in the column ``name``: this, and
    they.
    """
    for rows in tables:
        start = 0
        for text, size in zip(*same(rows[name]), strict=True):
            yield text, rows.slice(start, size)
            start += size


def same(column: pa.ChunkedArray) -> tuple[Codes, NDArray[np.int64]]:
    """Runs of equal texts: each text, and how long its run is."""
    found = pc.run_end_encode(column.combine_chunks())
    return texts.codes(found.values), np.diff(numbers.integers(found.run_ends), prepend=0)
