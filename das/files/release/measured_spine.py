"""The tree that a universe was measured over, as a Parquet file beside its measurements, where it is not the published one.

As the spine of a release (:mod:`das.files.release.spine`), with two columns more: ``measured_with``, the class of a unit
(``County to Tract``: with the shares of these levels; ``unmeasured``: its parent has its share; ``measured``: nobody says
with which shares, as in measurements of another publisher, where ``unmeasured`` says no more than that), and ``place``, of the
lowest units the geocode of the published spine.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import atomic, parquet
from das.files import codes as texts
from das.files.release import spine as spine_file
from das.model import chains
from das.model.measured_spine import MeasuredSpine
from das.model.spine import Spine

NAME = "spine.parquet"
#: Beside those of the published spine.
COLUMNS = ("measured_with", "place")


def write(path: Path, tree: MeasuredSpine, published: Spine) -> None:
    """Nothing where the tree is the published one."""
    if tree.alike:
        return
    levels = tree.spine.levels
    names: list[pa.Array] = []
    for depth, last in enumerate(tree.last):
        if not tree.shares:
            names.append(pa.array(np.where(last == depth, chains.MEASURED, chains.UNMEASURED), pa.string()))
            continue
        kinds = [chains.name(levels, depth, end) for end in range(depth - 1, len(levels))]
        dictionary = pa.DictionaryArray.from_arrays(
            pa.array(np.maximum(last, depth - 1) - (depth - 1)), pa.array(kinds)
        )
        names.append(dictionary.cast(pa.string()))
    above = sum(map(len, tree.spine.codes[:-1]))
    places = [pa.repeat("", above), texts.column(published.codes[-1][tree.place])]
    table = spine_file.table_of(tree.spine)
    for column, parts in zip(COLUMNS, (names, places), strict=True):
        table = table.append_column(column, pa.chunked_array(parts, pa.string()))
    with atomic.file(path) as draft:
        pq.write_table(table, draft, compression="zstd", use_dictionary=["level", "parent", "name", "measured_with"],
                       column_encoding=dict.fromkeys(("geocode", "geoid", "place"), "DELTA_BYTE_ARRAY"))  # fmt: skip


def read(path: Path, published: Spine) -> MeasuredSpine:
    """That of the file, and the published one where there is none.

    Raises :class:`ReleaseError` where it is no tree of the published spine's lowest units, or its shares do not add up.
    """
    if not path.exists():
        return MeasuredSpine.of(published)
    spine = spine_file.read(path)
    table = parquet.columns(path, COLUMNS)
    classes = texts.texts(table["measured_with"])
    lowest, ends = len(spine.codes[-1]), np.cumsum([0, *map(len, spine.codes)])
    place = published.find(published.levels[-1], texts.codes(table["place"])[-lowest:])
    if spine.levels != published.levels or len(classes) != ends[-1] or (place < 0).any():
        raise ReleaseError("its levels and places are not those of the release's spine.parquet", where=path,
                           remedy=spine_file.REMEDY)  # fmt: skip
    last = tuple(_last(spine, depth, classes[a:b], path) for depth, (a, b) in enumerate(itertools.pairwise(ends)))
    try:
        return MeasuredSpine(spine, place, last, shares=not (classes == chains.MEASURED).any())
    except InputError as error:
        raise ReleaseError(f"{error.what} ({error.where})", where=path, remedy=spine_file.REMEDY) from None


def _last(spine: Spine, depth: int, classes: NDArray[np.str_], path: Path) -> NDArray[np.int8]:
    known = {chains.name(spine.levels, depth, end): end for end in range(len(spine)) if end >= depth}
    known |= {chains.MEASURED: depth, chains.UNMEASURED: -1}
    kinds, which = np.unique(classes, return_inverse=True)
    if odd := [k for k in kinds.tolist() if k not in known]:
        raise ReleaseError(f"{spine.levels[depth]} has no class {odd[0]!r}", where=path, remedy=spine_file.REMEDY)
    return np.array([known[k] for k in kinds.tolist()], dtype=np.int8)[which]
