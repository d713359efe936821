"""Areas off the spine as a Parquet file: those of a release, or those that an evaluation was given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from das.errors import InputError, ReleaseError
from das.files import atomic, parquet
from das.files import codes as texts
from das.model.areas import Areas
from das.model.codes import encoded, text
from das.model.spine import Spine

#: Its name in a release, and in the evaluation of a run.
NAME = "areas.parquet"
REMEDY = parquet.LOST
COLUMNS = ("kind", "area", "name", "geocode")


def write(path: Path, kinds: Sequence[Areas], spine: Spine) -> None:
    """One row for each unit of each area: ``kind``, ``area`` (its code), ``name``, ``geocode`` (of the lowest level)."""
    parts = []
    for k in kinds:
        places = k.codes[k.area], encoded(k.called)[k.area], spine.codes[-1][k.unit]
        parts.append([pa.repeat(k.kind, len(k.unit)), *map(texts.column, places)])
    columns = [pa.chunked_array([p[i] for p in parts], pa.string()) for i in range(len(COLUMNS))]
    with atomic.file(path) as draft:
        pq.write_table(pa.table(columns, names=list(COLUMNS)), draft, compression="zstd",
                       use_dictionary=list(COLUMNS[:3]), column_encoding={"geocode": "DELTA_BYTE_ARRAY"})  # fmt: skip


def read(path: Path, spine: Spine) -> tuple[Areas, ...]:
    """The areas that were kept; none where there is no such file."""
    if not path.exists():
        return ()
    try:
        table = pq.read_table(path, columns=list(COLUMNS))
        if any(c.null_count for c in table.columns):
            raise ReleaseError("a value is missing", where=path, remedy=REMEDY)
        table = table.select(COLUMNS).cast(pa.schema([(c, pa.string()) for c in COLUMNS]))
        kinds = pc.unique(table["kind"]).to_pylist()
        return tuple(_areas(kind, table.filter(pc.equal(table["kind"], kind)), spine, path) for kind in kinds)
    except (OSError, pa.ArrowException, InputError) as error:
        raise ReleaseError(f"the areas cannot be read ({error})", where=path, remedy=REMEDY) from None


def _areas(kind: str, rows: pa.Table, spine: Spine, path: Path) -> Areas:
    unit = texts.codes(rows["geocode"])
    at = spine.find(spine.levels[-1], unit)
    if len(odd := np.flatnonzero(at < 0)):
        raise ReleaseError(f"{text(unit[odd])[0]} is no unit of level {spine.levels[-1]!r}", where=path, remedy=REMEDY)
    codes, first, area = np.unique(texts.codes(rows["area"]), return_index=True, return_inverse=True)
    return Areas(kind, codes, area, at, texts.texts(rows["name"].take(pa.array(first))))
