"""The tree that a universe was measured over, if that is not the published one: a Parquet file in
the folder of its measurements.

It is like the spine of a release (:mod:`das.files.release.spine`), with two more columns.

* ``measured_with``: the class of a unit. ``County to Tract`` means with the shares of these levels,
  and ``unmeasured`` that the unit's parent has its share. ``measured`` means with unknown shares,
  as in measurements of another publisher; there ``unmeasured`` does not imply that the parent has
  the share.
* ``place``: for the lowest units, the geocode of the published spine.

A subtree's units are consecutive in the published spine, but not in this one. So a subtree has a
row group for each run of its units. The footer also says whether the ``shares`` are known. For each
unit at the level of the subtrees it has the number of the published unit that contains it
(``place``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import codes as texts
from das.files import csv_text
from das.files.release import spine as spine_file
from das.model import tabulation
from das.model.measured_spine import MeasuredSpine, MeasuredUpperTree, Subtrees
from das.model.names import encoded
from das.model.not_private import Private
from das.model.spine import Spine

NAME = "spine.parquet"
#: Those added to the columns of the published spine.
COLUMNS = ("measured_with", "place")
SCHEMA = pa.schema([(name, pa.string()) for name in (*spine_file.COLUMNS, *COLUMNS)])


def write(
    path: Path,
    tree: MeasuredSpine,
    published: Spine,
    subtrees: Subtrees | None = None,
    *,
    private: Private = True,
) -> None:
    """Nothing where the tree is the published one. Without ``subtrees`` it is all upper tree."""
    if tree.is_published:
        return
    subtrees = subtrees or Subtrees.none(published)
    home, more = np.zeros(tree.spine.units(subtrees.level), dtype=np.int64), {}
    if len(subtrees):
        place = tree.home_units(subtrees.level, published)
        home = np.searchsorted(subtrees.starts, place, side="right")
        more = {"shares": tree.shares, "place": place.tolist()}
        if (home == 0).any():
            raise ValueError(f"a unit of {subtrees.level} lies in several subtrees")
    names, lowest, ends = tree.spine.levels, len(tree.spine) - 1, tree.ends

    def beside(depth: int, a: int, b: int) -> Sequence[pa.Array]:
        codes = (
            published.codes[-1][tree.place[a:b]] if depth == lowest else np.zeros(b - a, dtype="S1")
        )
        return _classes(names, depth, ends[depth][a:b], tree.shares), texts.column(codes)

    spine_file.write_cut(
        path,
        SCHEMA,
        spine_file.tables(tree.spine, subtrees.level, home, SCHEMA, beside),
        subtrees,
        more,
        private=private,
        use_dictionary=[*spine_file.FEW, "measured_with"],
        column_encoding=dict.fromkeys((*spine_file.SORTED, "place"), "DELTA_BYTE_ARRAY"),
    )


def read(path: Path, published: Spine) -> MeasuredSpine:
    """The tree of the file, or the published one if there is no file.

    Raises :class:`ReleaseError` if it is not a tree of the published spine's lowest units, or its
    shares do not add up."""
    if not path.exists():
        return MeasuredSpine.from_published(published)
    found = _TreeRows.from_path(path, published)
    return _checked(path, found, spine_file.tree(path, found.levels), published)


def read_upper_tree(path: Path, upper_tree: Spine, levels: Sequence[str]) -> MeasuredUpperTree:
    """The upper levels of the tree, out of all ``levels``; those of the published ``upper_tree`` if
    there is no file."""
    if not path.exists():
        return MeasuredUpperTree(
            upper_tree, np.arange(len(upper_tree.codes[-1])), every=tuple(levels)
        )
    said = _said(path)
    found, spine = _upper_tree(path, said, upper_tree)
    given = said.more.get("place")
    place = np.array(
        given if isinstance(given, list) and all(type(x) is int for x in given) else [],
        dtype=np.int64,
    )
    if len(place) != len(spine.codes[-1]) or not (
        0 <= place.min() <= place.max() < len(upper_tree.codes[-1])
    ):
        raise _strange(path)
    last = found.last(path, levels)
    return MeasuredUpperTree(spine, place, last, found.shares, every=tuple(levels))


def read_subtree(path: Path, subtree: int, published: Spine) -> MeasuredSpine:
    """A subtree of the tree, from 1, with the units above it. It is over that subtree of the
    ``published`` spine, whose lowest units ``place`` numbers; without a file it is that subtree
    itself. Only its row groups and those of the upper tree are read."""
    if not path.exists():
        return MeasuredSpine.from_published(published)
    said = _said(path)
    above, upper_tree = _upper_tree(path, said, published.truncated(said.subtrees.level))
    found = _TreeRows.from_path(path, published, said.of_subtree(subtree))
    if not found.levels:
        raise ReleaseError(f"subtree {subtree} has no unit", where=path, remedy=spine_file.REMEDY)
    units = np.unique(next(iter(found.levels.values())).numbers(upper_tree.codes[-1]))
    kept = upper_tree.kept(said.subtrees.level, units)
    upper = [x[here] for x, here in zip(above.last(path, published.levels), kept, strict=True)]
    spine = spine_file.tree(path, found.levels, upper_tree.restricted(said.subtrees.level, units))
    return _checked(path, found, spine, published, upper, above.shares)


def _said(path: Path) -> spine_file.RowGroups:
    if (said := spine_file.row_groups(path)) is None:
        raise ReleaseError(
            "it is not cut into subtrees, as the release's spine.parquet is",
            where=path,
            remedy=spine_file.REMEDY,
        )
    return said


def _upper_tree(
    path: Path, said: spine_file.RowGroups, published: Spine
) -> tuple[_TreeRows, Spine]:
    found = _TreeRows.from_path(path, published, said.of_subtree(0))
    found.shares = said.more.get("shares") is True
    if tuple(found.levels) != published.levels or published.levels[-1] != said.subtrees.level:
        raise _strange(path)
    return found, spine_file.tree(path, found.levels)


@dataclass
class _TreeRows:
    """What was read of a tree: by level its rows and, piece by piece, the classes and which of them
    each unit has; the places of the lowest units."""

    levels: dict[str, spine_file.LevelRows]
    classes: dict[str, list[tuple[list[str], NDArray[np.int64]]]]
    places: list[NDArray[np.int64]]
    shares: bool

    @staticmethod
    def from_path(path: Path, published: Spine, groups: Collection[int] | None = None) -> _TreeRows:
        classes: dict[str, list[tuple[list[str], NDArray[np.int64]]]] = {}
        places = []

        def through() -> Iterator[tuple[str, pa.Table]]:
            for level, rows in spine_file.by_level(path, (*spine_file.COLUMNS, *COLUMNS), groups):
                kinds = rows["measured_with"].combine_chunks().dictionary_encode()
                classes.setdefault(level, []).append(
                    (kinds.dictionary.to_pylist(), csv_text.array(kinds.indices))
                )
                if level == published.levels[-1]:
                    places.append(published.find(level, texts.codes(rows["place"])))
                yield level, rows

        levels = spine_file.collected(path, through())
        shares = not any(
            tabulation.MEASURED in kinds for pieces in classes.values() for kinds, _ in pieces
        )
        return _TreeRows(levels, classes, places, shares)

    def last(self, path: Path, levels: Sequence[str]) -> tuple[NDArray[np.int8], ...]:
        """The level whose shares each unit is measured with last, in a tree of these ``levels``."""
        out = []
        for level, pieces in self.classes.items():
            depth = levels.index(level)
            known = {tabulation.name(levels, depth, end): end for end in range(depth, len(levels))}
            known |= {tabulation.MEASURED: depth, tabulation.UNMEASURED: -1}
            if odd := sorted({k for kinds, _ in pieces for k in kinds} - known.keys()):
                raise ReleaseError(
                    f"{level} has no class {odd[0]!r}", where=path, remedy=spine_file.REMEDY
                )
            out.append(
                np.concatenate(
                    [np.array([known[k] for k in kinds], dtype=np.int8)[at] for kinds, at in pieces]
                )
            )
        return tuple(out)


def _checked(
    path: Path,
    tree_rows: _TreeRows,
    spine: Spine,
    published: Spine,
    upper: Sequence[NDArray[np.int8]] = (),
    shares: bool = True,
) -> MeasuredSpine:
    """The tree of these levels, which follow those of ``upper``, and of their places."""
    place = np.concatenate([np.zeros(0, dtype=np.int64), *tree_rows.places])
    if spine.levels != published.levels or (place < 0).any():
        raise _strange(path)
    last = (*upper, *tree_rows.last(path, published.levels))
    try:
        return MeasuredSpine(spine, place, last, shares=shares and tree_rows.shares)
    except InputError as error:
        raise ReleaseError(
            f"{error.what} ({error.where})", where=path, remedy=spine_file.REMEDY
        ) from None


def _strange(path: Path) -> ReleaseError:
    return ReleaseError(
        "its levels and places are not those of the release's spine.parquet",
        where=path,
        remedy=spine_file.REMEDY,
    )


def _classes(levels: Sequence[str], depth: int, last: NDArray[np.int8], shares: bool) -> pa.Array:
    """The names of the classes of some units."""
    if not shares:
        names = encoded([tabulation.MEASURED, tabulation.UNMEASURED])
        return texts.column(names[(last != depth).astype(np.int64)])
    kinds = [tabulation.name(levels, depth, end) for end in range(depth - 1, len(levels))]
    return texts.column(encoded(kinds)[np.maximum(last, depth - 1) - (depth - 1)])
