"""The spine of a release as a Parquet file, root first: ``level``, ``geocode``, ``parent`` (its geocode), ``name`` and
``geoid`` (the Bureau's standard identifier), the last two empty where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import parquet
from das.model.names import blank, shrunk
from das.model.spine import Spine

REMEDY = parquet.LOST
COLUMNS = ("level", "geocode", "parent", "name", "geoid")


def write(path: Path, spine: Spine) -> None:
    levels = []
    for depth, (level, codes, up) in enumerate(zip(spine.levels, spine.codes, spine.parent, strict=True)):
        above = spine.codes[depth - 1][up] if depth else np.array([""])
        values = np.full(len(codes), level), codes, above, spine.names[depth], spine.geoids(level)
        levels.append(pa.table({c: pa.array(v, pa.string()) for c, v in zip(COLUMNS, values, strict=True)}))
    draft = path.with_name(f".{path.name}.tmp")
    pq.write_table(pa.concat_tables(levels), draft, compression="zstd", use_dictionary=["level", "parent", "name"],
                   column_encoding=dict.fromkeys(("geocode", "geoid"), "DELTA_BYTE_ARRAY"))  # fmt: skip
    draft.replace(path)


def read(path: Path) -> Spine:
    """A file without ``name`` or ``geoid`` is a spine whose units have no names.

    Raises :class:`ReleaseError` where the file is missing, unreadable or no tree, or a GEOID is not that of its code.
    """
    column = _columns(path)
    level, code, parent = (column[c] for c in COLUMNS[:3])
    name = column.get("name", blank(len(level)))
    names = tuple(dict.fromkeys(level.tolist()))
    codes, parents = [], []
    for depth, here in enumerate(level == n for n in names):
        codes.append(shrunk(code[here]))
        if depth == 0:
            parents.append(np.zeros(int(here.sum()), dtype=np.int64))
            continue
        order = np.argsort(codes[depth - 1], kind="stable")
        at = np.minimum(np.searchsorted(codes[depth - 1], parent[here], sorter=order), len(order) - 1)
        if (codes[depth - 1][order[at]] != parent[here]).any():
            raise ReleaseError(f"a unit of {names[depth]!r} has an unknown parent", where=path, remedy=REMEDY)
        parents.append(order[at])
    try:
        spine = Spine(names, tuple(codes), tuple(parents), tuple(shrunk(name[level == n]) for n in names))
    except InputError as error:
        raise ReleaseError(f"no tree: {error.what}", where=path, remedy=REMEDY) from None
    geoid = column.get("geoid", np.concatenate([spine.geoids(n) for n in names]))
    for n in names:
        if (odd := geoid[level == n] != spine.geoids(n)).any():
            raise ReleaseError(f"{n} {code[level == n][odd][0]} has the GEOID {geoid[level == n][odd][0]!r}", where=path,
                               remedy=REMEDY)  # fmt: skip
    return spine


def _columns(path: Path) -> dict[str, NDArray[np.str_]]:
    """The columns that there are, as arrays of strings."""
    table = parquet.columns(path, COLUMNS[:3], wanted=COLUMNS[3:])
    return {n: np.array(c.to_pylist(), dtype=np.str_) for n, c in zip(table.column_names, table.columns, strict=True)}
