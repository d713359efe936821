"""Areas off the spine as a Parquet file: those of a release, or those that an evaluation was given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.model.areas import Areas
from das.model.names import shrunk
from das.model.spine import Spine

#: Its name in a release, and in the evaluation of a run.
NAME = "areas.parquet"
COLUMNS = ("kind", "area", "name", "geocode")


def write(path: Path, kinds: Sequence[Areas], spine: Spine) -> None:
    """One row for each unit of each area: ``kind``, ``area`` (its code), ``name``, ``geocode`` (of the lowest level)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.tmp")
    parts = [(np.full(len(k.unit), k.kind), k.codes[k.area], k.called[k.area], spine.codes[-1][k.unit]) for k in kinds]
    columns = [pa.chunked_array([pa.array(p[i], pa.string()) for p in parts], pa.string()) for i in range(len(COLUMNS))]
    pq.write_table(pa.table(columns, names=list(COLUMNS)), draft, compression="zstd",
                   use_dictionary=list(COLUMNS[:3]), column_encoding={"geocode": "DELTA_BYTE_ARRAY"})  # fmt: skip
    draft.replace(path)


def read(path: Path, spine: Spine) -> tuple[Areas, ...]:
    """The areas that were kept; none where there is no such file."""
    if not path.exists():
        return ()
    remedy = "the release is incomplete or altered: get it again from where it was published"
    try:
        table = pq.read_table(path, columns=list(COLUMNS))
        if any(c.null_count for c in table.columns):
            raise ReleaseError("a value is missing", where=path, remedy=remedy)
        kind, code, name, unit = (np.array(c.cast(pa.string()).to_pylist(), dtype=np.str_) for c in table.columns)
        at = spine.find(spine.levels[-1], unit)
        if (at < 0).any():
            raise ReleaseError(f"{unit[at < 0][0]} is no unit of level {spine.levels[-1]!r}", where=path, remedy=remedy)
        return tuple(
            _areas(str(k), code[kind == k], at[kind == k], name[kind == k]) for k in dict.fromkeys(kind.tolist())
        )
    except (OSError, pa.ArrowException, InputError) as error:
        raise ReleaseError(f"the areas cannot be read ({error})", where=path, remedy=remedy) from None


def _areas(kind: str, code: NDArray[np.str_], unit: NDArray[np.int64], name: NDArray[np.str_] | None = None) -> Areas:
    codes, first, area = np.unique(shrunk(code), return_index=True, return_inverse=True)
    return Areas(kind, codes, area.astype(np.int64), unit, None if name is None else shrunk(name[first]))
