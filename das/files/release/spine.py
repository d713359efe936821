"""The spine of a release as a Parquet file, root first: ``level``, ``geocode``, ``parent`` (its
geocode), ``name`` and ``geoid`` (the Bureau's standard identifier), the last two empty where there
is none.

Row groups are those of the upper tree, then level by level those of the subtrees
(:mod:`das.files.release.spine`): each is read by itself, and the whole a row group at a time, without
an object for a place."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import atomic, csv_text, parquet
from das.files import codes as texts
from das.model.measured_spine import Subtrees
from das.model.names import Codes, blank, encoded, geoids
from das.model.not_private import Private
from das.model.spine import Spine, places

# Parquet files whose row groups end at the borders of subtrees, so that one subtree is read
# without the others.
#
# The footer has an object ``das:shards``. Its ``level`` and ``starts`` say how the tree is cut
# (:class:`das.model.measured_spine.Subtrees`). Its ``groups`` is the number of the subtree of each row
# group, 0 for the upper tree. To other readers of Parquet it is one table. A file without that object
# is all upper tree.

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

    def of_subtree(self, subtree: int) -> list[int]:
        """The row groups of a subtree, or of the upper tree."""
        return [g for g, home in enumerate(self.groups) if home == subtree]


def write_cut(
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
    otherwise."""
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
    they."""
    for rows in tables:
        start = 0
        for text, size in zip(*same(rows[name]), strict=True):
            yield text, rows.slice(start, size)
            start += size


def same(column: pa.ChunkedArray) -> tuple[Codes, NDArray[np.int64]]:
    """Runs of equal texts: each text, and how long its run is."""
    found = pc.run_end_encode(column.combine_chunks())
    return texts.codes(found.values), np.diff(csv_text.integers(found.run_ends), prepend=0)


REMEDY = parquet.LOST
COLUMNS = ("level", "geocode", "parent", "name", "geoid")
SCHEMA = pa.schema([(name, pa.string()) for name in COLUMNS])
#: How each column is written: few values of some, codes that share their beginnings of the others.
FEW, SORTED = ("level", "parent", "name"), ("geocode", "geoid")

Beside = Callable[[int, int, int], Sequence[pa.Array]]


def write(
    path: Path, spine: Spine, subtrees: Subtrees | None = None, *, private: Private = True
) -> None:
    """One row for each unit, level by level, root first. Without ``subtrees`` it is all upper
    tree."""
    subtrees = subtrees or Subtrees.none(spine)
    home = np.repeat(np.arange(1, len(subtrees) + 1), np.diff(subtrees.starts))
    write_cut(
        path,
        SCHEMA,
        tables(spine, subtrees.level, home),
        subtrees,
        private=private,
        use_dictionary=list(FEW),
        column_encoding=dict.fromkeys(SORTED, "DELTA_BYTE_ARRAY"),
    )


def tables(
    spine: Spine,
    level: str,
    home: NDArray[np.int64],
    schema: pa.Schema = SCHEMA,
    beside: Beside = lambda *_: (),
) -> Iterator[tuple[int, pa.Table]]:
    """Row groups, each with its subtree: ``home`` is the subtree of each unit of ``level``.

    ``beside`` takes a depth and the units ``start, stop``, and returns columns to add to the
    spine's."""
    standard = cache(spine.geoids)
    for subtree, depth, a, b in slices(spine, level, home):
        name = spine.levels[depth]
        above = spine.codes[depth - 1][spine.parent[depth][a:b]] if depth else np.array([b""])
        places = (
            spine.codes[depth][a:b],
            above,
            encoded(spine.names[depth][a:b]),
            standard(name)[a:b],
        )
        yield (
            subtree,
            pa.table(
                [texts.repeated(name, b - a), *map(texts.column, places), *beside(depth, a, b)],
                schema,
            ),
        )


def read(path: Path) -> Spine:
    """The whole. A file without ``name`` or ``geoid`` is a spine whose units have no names.

    Raises :class:`ReleaseError` where the file is missing, unreadable or no tree, or a GEOID is not
    that of its code."""
    return tree(path, collected(path, by_level(path, COLUMNS)))


def read_subtrees(path: Path) -> Subtrees:
    """How the file is cut; one that does not say so is all upper tree."""
    said = row_groups(path)
    return Subtrees.none(read(path)) if said is None else said.subtrees


def read_sizes(path: Path) -> list[int]:
    """How many rows each subtree has."""
    if (said := row_groups(path)) is None:
        return []
    return [sum(said.rows[g] for g in said.of_subtree(i)) for i in range(1, len(said.subtrees) + 1)]


def read_upper_tree(path: Path) -> Spine:
    """The levels down to that of the subtrees."""
    return _upper_tree(path, row_groups(path))


def read_subtree(path: Path, subtree: int) -> Spine:
    """A subtree, from 1, with what is above it: only its row groups and those of the upper tree are
    read."""
    if (said := row_groups(path)) is None:
        raise ValueError("the spine is not cut: it is all upper tree")
    upper = said.subtrees.subtree(_upper_tree(path, said), subtree)
    return tree(path, collected(path, by_level(path, COLUMNS, said.of_subtree(subtree))), upper)


def _upper_tree(path: Path, said: RowGroups | None) -> Spine:
    if said is None:
        return read(path)
    upper_tree = tree(path, collected(path, by_level(path, COLUMNS, said.of_subtree(0))))
    subtrees = said.subtrees
    if upper_tree.levels[-1] != subtrees.level or len(upper_tree.codes[-1]) != subtrees.starts[-1]:
        raise ReleaseError(
            "its subtrees are not those of its upper tree", where=path, remedy=REMEDY
        )
    return upper_tree


def by_level(
    path: Path, names: Sequence[str], groups: Collection[int] | None = None
) -> Iterator[tuple[str, pa.Table]]:
    """The columns ``names`` of a tree's file (or of some of its row groups), some rows at a time,
    all of one level. ``name`` and ``geoid`` need not be there."""
    asked = {may: [n for n in names if (n in ("name", "geoid")) == may] for may in (False, True)}
    rows = parquet.batches(path, asked[False], groups, wanted=asked[True])
    return ((level.decode(), some) for level, some in runs_of("level", rows))


def collected(path: Path, rows: Iterable[tuple[str, pa.Table]]) -> dict[str, LevelRows]:
    """The levels of a tree, in the order in which the file has them."""
    found: dict[str, LevelRows] = {}
    for level, some in rows:
        found.setdefault(level, LevelRows(level, path)).add(some)
    return found


def tree(path: Path, level_rows: Mapping[str, LevelRows], upper: Spine | None = None) -> Spine:
    """The tree of some levels, which lie below those of ``upper`` where that is given."""
    levels = [] if upper is None else list(upper.levels)
    codes = [] if upper is None else list(upper.codes)
    parents = [] if upper is None else list(upper.parent)
    names = [] if upper is None else list(upper.names)
    for level, here in level_rows.items():
        here.check_geoids(whole=upper is None)
        parents.append(here.numbers(codes[-1]) if codes else np.zeros(here.units, dtype=np.int64))
        levels.append(level)
        codes.append(np.concatenate(here.codes))
        names.append(here.called())
        here.codes.clear()
    try:
        return Spine(tuple(levels), tuple(codes), tuple(parents), tuple(names))
    except InputError as error:
        raise ReleaseError(f"no tree: {error.what}", where=path, remedy=REMEDY) from None


@dataclass
class LevelRows:
    """What was read of a level, in pieces; of the parents the runs of the same, and how long each
    is."""

    level: str
    path: Path
    units: int = 0
    codes: list[Codes] = field(default_factory=list)
    parents: list[Codes] = field(default_factory=list)
    sizes: list[NDArray[np.int64]] = field(default_factory=list)
    names: list[NDArray[np.str_]] = field(default_factory=list)
    standard: list[tuple[bool, bool]] = field(
        default_factory=list
    )  #: of each piece: codes have a GEOID; it is said

    def add(self, rows: pa.Table) -> None:
        self.units += len(rows)
        self.codes.append(texts.codes(rows["geocode"]))
        parents, sizes = same(rows["parent"])
        self.parents.append(parents)
        self.sizes.append(sizes)
        if "name" in rows.column_names:
            self.names.append(texts.texts(rows["name"]))
        if "geoid" in rows.column_names:
            geoid, known = texts.codes(rows["geoid"]), geoids(self.level, self.codes[-1])
            said = _some(geoid)
            if said and (odd := geoid != known).any():
                self._refuse(len(self.codes) - 1, int(odd.argmax()), geoid)
            self.standard.append((_some(known), said))

    def numbers(self, above: Codes) -> NDArray[np.int64]:
        """The number of each unit's parent among those ``above``."""
        numbers = places(above, np.concatenate(self.parents))
        if (numbers < 0).any():
            raise ReleaseError(
                f"a unit of {self.level!r} has an unknown parent", where=self.path, remedy=REMEDY
            )
        return np.repeat(numbers, np.concatenate(self.sizes))

    def called(self) -> NDArray[np.str_]:
        return np.concatenate(self.names) if any(map(_some, self.names)) else blank(self.units)

    def check_geoids(self, whole: bool) -> None:
        """All units of a level have one, or none has: where the codes of all are standard ones.
        Units of one subtree may also have none, as those of another may have other codes."""
        if not self.standard:
            return
        standard = len({c.dtype for c in self.codes}) == 1 and all(
            known for known, _ in self.standard
        )
        wanted = standard and (whole or self.standard[0][1])
        for i, (_, said) in enumerate(self.standard):
            if said != wanted:
                self._refuse(
                    i, 0, geoids(self.level, self.codes[i]) if said else np.zeros(1, dtype="S1")
                )

    def _refuse(self, piece: int, row: int, geoid: Codes) -> NoReturn:
        code, said = self.codes[piece][row].decode(), geoid[row].decode()
        raise ReleaseError(
            f"{self.level} {code} has the GEOID {said!r}", where=self.path, remedy=REMEDY
        )


def _some(texts: Codes | NDArray[np.str_]) -> bool:
    """Whether one of them is not empty."""
    return bool(np.strings.str_len(texts).any())
