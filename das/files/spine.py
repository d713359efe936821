"""The spine of a release as a Parquet file: ``level``, ``geocode``, ``parent`` (its geocode), root first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das.errors import InputError, ReleaseError
from das.model.spine import Spine


def write(path: Path, spine: Spine) -> None:
    level, code, parent = [], [], []
    for depth, (name, codes, up) in enumerate(zip(spine.levels, spine.codes, spine.parent, strict=True)):
        level.append(pa.array([name] * len(codes), pa.string()))
        code.append(pa.array(codes, pa.string()))
        above = spine.codes[depth - 1][up] if depth else np.array([""])
        parent.append(pa.array(above, pa.string()))
    table = pa.table({"level": pa.chunked_array(level), "geocode": pa.chunked_array(code),
                      "parent": pa.chunked_array(parent)})  # fmt: skip
    draft = path.with_name(f".{path.name}.tmp")
    pq.write_table(table, draft, compression="zstd")
    draft.replace(path)


def read(path: Path) -> Spine:
    """Raises :class:`ReleaseError` where the file is missing, unreadable or no tree."""
    remedy = "the release is incomplete or altered: get it again from where it was published"
    try:
        table = pq.read_table(path, columns=["level", "geocode", "parent"])
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise ReleaseError(f"no readable spine ({error})", where=path, remedy=remedy) from None
    level = np.array(table["level"].to_pylist(), dtype=str)
    code = np.array(table["geocode"].to_pylist(), dtype=str)
    parent = np.array(table["parent"].to_pylist(), dtype=str)
    names = tuple(dict.fromkeys(level.tolist()))
    codes, parents = [], []
    for depth, name in enumerate(names):
        here = level == name
        codes.append(code[here])
        if depth == 0:
            parents.append(np.zeros(int(here.sum()), dtype=np.int64))
            continue
        order = np.argsort(codes[depth - 1], kind="stable")
        at = np.minimum(np.searchsorted(codes[depth - 1], parent[here], sorter=order), len(order) - 1)
        if (codes[depth - 1][order[at]] != parent[here]).any():
            raise ReleaseError(f"a unit of {name!r} has an unknown parent", where=path, remedy=remedy)
        parents.append(order[at])
    try:
        return Spine(names, tuple(codes), tuple(parents))
    except InputError as error:
        raise ReleaseError(f"no tree: {error.what}", where=path, remedy=remedy) from None
