"""Files of a study of protection methods: records as counts for a run, protected tables as CSV."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from das.files import atomic, rows_csv
from das.files import codes as texts
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.protect.published import UNBOUNDED, WITHHELD, ProtectedTables


def write_counts(path: Path, spine: Spine, counts: Histogram, schema: Schema) -> None:
    """Records of the lowest level for the reader ``table``: the codes of all levels
    (``code:<level>``), the attributes (``attribute:<name>``) and a ``count``; a line with a count
    of 0 for each place, so that all of them are known."""
    lowest = spine.levels[-1]
    empty = np.arange(spine.units(lowest))
    unit = np.concatenate([counts.unit, empty])
    cell = np.concatenate([counts.cell, np.zeros(len(empty), dtype=np.int64)])
    count = np.concatenate([counts.count, np.zeros(len(empty), dtype=np.int64)])
    columns: dict[str, pa.Array] = {}
    for depth, level in enumerate(spine.levels):
        known = texts.column(spine.codes[depth])
        at = pa.array(spine.up(lowest, level)[unit])
        columns[f"code:{level}"] = pa.DictionaryArray.from_arrays(at, known).cast(pa.string())
    levels = np.unravel_index(cell, schema.shape)
    for attribute, index in zip(schema.attributes, levels, strict=True):
        known = pa.array(attribute.levels, pa.string())
        coded = pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), known)
        columns[f"attribute:{attribute.name}"] = coded.cast(pa.string())
    columns["count"] = pa.array(count)
    with atomic.file(path, 0o600) as draft:
        pq.write_table(pa.table(columns), draft, compression="zstd")


def write_protected(folder: Path, published: ProtectedTables) -> list[Path]:
    """The tables of each level as CSV, as the Census Bureau publishes its own: a row a place, a
    column a line, empty where it is withheld (``tables/<level>.csv``).

    Next to them what anybody can know of each line, in the same shape: ``bounds/<level>_lower.csv``
    and ``_upper.csv``, empty where there is no upper bound; and the words of the lines,
    ``lines.csv``."""
    out, words = [], []
    for level, lines in published.levels.items():
        named = published.tables.lines(level).names
        tables = published.tables.tables[level]
        words += [(level, t.name, c, x) for t in tables for c, x in zip(t.columns, t.labels)]
        codes = _codes(published.spine, level)
        for name, values, none in (
            (f"tables/{level}", lines.value, lines.value == WITHHELD),
            (f"bounds/{level}_lower", lines.lower, None),
            (f"bounds/{level}_upper", lines.upper, lines.upper >= UNBOUNDED),
        ):
            columns = {
                line: pa.array(values[:, i], mask=None if none is None else none[:, i])
                for i, line in enumerate(named)
            }
            path = folder / f"{name}.csv"
            atomic.make_folder(path.parent)
            with atomic.file(path, 0o600) as draft:
                csv.write_csv(pa.table(codes | columns), draft)
            out.append(path)
    header = ("level", "table", "line", "label")
    return [*out, rows_csv.write(folder / "lines.csv", header, words)]


def _codes(spine: Spine, level: str) -> dict[str, pa.Array]:
    """The GEOID of each place, or its code where it has none; and its name."""
    geoids, codes = spine.geoids(level), spine.codes[spine.index(level)]
    named = {"GEOID": geoids} if (geoids != b"").all() else {"GEOCODE": codes}
    names = {"NAME": pa.array(spine.names[spine.index(level)].tolist(), pa.string())}
    return {k: texts.column(v) for k, v in named.items()} | names
