"""The spine of a release as a Parquet file, root first: ``level``, ``geocode``, ``parent`` (its geocode), ``name`` and
``geoid`` (the Bureau's standard identifier), the last two empty where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import atomic, parquet
from das.files import codes as texts
from das.model.codes import Codes, encoded
from das.model.spine import Spine

REMEDY = parquet.LOST
COLUMNS = ("level", "geocode", "parent", "name", "geoid")


def table_of(spine: Spine) -> pa.Table:
    """One row for each unit, level by level, root first."""
    levels = []
    for depth, (level, codes, up) in enumerate(zip(spine.levels, spine.codes, spine.parent, strict=True)):
        above = spine.codes[depth - 1][up] if depth else np.array([b""])
        places = map(texts.column, (codes, above, encoded(spine.names[depth]), spine.geoids(level)))
        levels.append(pa.table(dict(zip(COLUMNS, (pa.repeat(level, len(codes)), *places), strict=True))))
    return pa.concat_tables(levels)


def write(path: Path, spine: Spine) -> None:
    with atomic.file(path) as draft:
        pq.write_table(table_of(spine), draft, compression="zstd", use_dictionary=["level", "parent", "name"],
                       column_encoding=dict.fromkeys(("geocode", "geoid"), "DELTA_BYTE_ARRAY"))  # fmt: skip


def read(path: Path) -> Spine:
    """A file without ``name`` or ``geoid`` is a spine whose units have no names.

    Raises :class:`ReleaseError` where the file is missing, unreadable or no tree, or a GEOID is not that of its code.
    """
    table = parquet.columns(path, COLUMNS[:3], wanted=COLUMNS[3:])
    levels = tuple(pc.unique(table["level"]).to_pylist())
    parts = [table.filter(pc.equal(table["level"], level)) for level in levels]
    codes = tuple(texts.codes(p["geocode"]) for p in parts)
    parents = [np.zeros(len(codes[0]) if codes else 0, dtype=np.int64)]
    for level, part, above in zip(levels[1:], parts[1:], codes, strict=False):
        parents.append(_numbers(above, texts.codes(part["parent"])))
        if (parents[-1] < 0).any():
            raise ReleaseError(f"a unit of {level!r} has an unknown parent", where=path, remedy=REMEDY)
    names = tuple(texts.texts(p["name"]) for p in parts) if "name" in table.column_names else ()
    try:
        spine = Spine(levels, codes, tuple(parents), names)
    except InputError as error:
        raise ReleaseError(f"no tree: {error.what}", where=path, remedy=REMEDY) from None
    for level, part in zip(levels, parts if "geoid" in table.column_names else (), strict=False):
        geoid = texts.codes(part["geoid"])
        if len(odd := np.flatnonzero(geoid != spine.geoids(level))):
            raise ReleaseError(f"{level} {spine.code(level, odd[0])} has the GEOID {geoid[odd[0]].decode()!r}", where=path,
                               remedy=REMEDY)  # fmt: skip
    return spine


def _numbers(known: Codes, codes: Codes) -> NDArray[np.int64]:
    """The number of each code among ``known``, -1 where it is none of them; those of siblings follow each other."""
    first = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known, codes[first], sorter=order), len(known) - 1)]
    return np.repeat(np.where(known[at] == codes[first], at, -1), np.diff(first, append=len(codes)))
