"""Files of a study of protection methods: records as counts for a run, protected tables as CSV."""

from __future__ import annotations

<<<<<<< HEAD
from collections.abc import Iterator
from dataclasses import dataclass
=======
>>>>>>> study
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from das.errors import InputError
from das.files import atomic, rows_csv
from das.files import codes as texts
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.protect.published import UNBOUNDED, WITHHELD, LevelLines, ProtectedTables


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


_PROTECTED = ("geocode", "name", "table", "line", "label", "value", "lower", "upper")


def write_protected(folder: Path, published: ProtectedTables) -> list[Path]:
<<<<<<< HEAD
    """A file for each level with tables: a line a unit and line of a table. ``value`` is what is
    printed, empty where it is withheld; ``lower`` and ``upper`` are the bounds that anybody can
    know, ``upper`` empty where there is none."""
    return [
        rows_csv.write(folder / f"{level}.csv", _PROTECTED, _rows(published, level))
        for level in published.levels
    ]


def _rows(published: ProtectedTables, level: str) -> Iterator[tuple[object, ...]]:
    spine, lines = published.spine, published.levels[level]
    tables = published.tables.tables[level]
    named = [(t.name, c, x) for t in tables for c, x in zip(t.columns, t.labels, strict=True)]
    codes, names = spine.geocodes(level), spine.names[spine.index(level)]
    for unit in range(len(codes)):
        numbers = (getattr(lines, name)[unit].tolist() for name in ("value", "lower", "upper"))
        for of, value, low, high in zip(named, *numbers, strict=True):
            printed = "" if value == WITHHELD else value
            yield codes[unit], names[unit], *of, printed, low, "" if high >= UNBOUNDED else high


@dataclass(frozen=True, eq=False)
class ProtectedRows(Frozen):
    """A file of :func:`write_protected`: ``codes`` of the units, ``names`` of the lines, and what
    is known of each, ``(units, lines)``."""

    codes: tuple[str, ...]
    names: tuple[str, ...]
    lines: LevelLines


def read_protected(folder: Path, price: tuple[float, ...] = (0.0,)) -> dict[str, ProtectedRows]:
    """The files of a folder, by level; none where it has no such file. Prices are not in the files.
    Raises :class:`InputError` for a file that is damaged."""
    header = ",".join(_PROTECTED)
    return {
        path.stem: _protected(path, price)
        for path in sorted(folder.glob("*.csv"))
        if first_line(path) == header
    }


def first_line(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().strip()


def _protected(path: Path, price: tuple[float, ...]) -> ProtectedRows:
    texts_of, numbers = ("geocode", "line"), ("value", "lower", "upper")
    types = dict.fromkeys(texts_of, pa.string()) | dict.fromkeys(numbers, pa.int64())
    options = csv.ConvertOptions(column_types=types, include_columns=[*texts_of, *numbers])
    try:
        rows = csv.read_csv(path, convert_options=options)
        codes = rows["geocode"].combine_chunks().dictionary_encode()
        names = rows["line"].combine_chunks().dictionary_encode()
        shape = len(codes.dictionary), len(names.dictionary)
        order = codes.indices.to_numpy() * shape[1] + names.indices.to_numpy()
        if not np.array_equal(order, np.arange(shape[0] * shape[1])):
            raise InputError("lines are missing, or in another order", where=path)
        value, lower, upper = (
            rows[name].fill_null(empty).to_numpy().reshape(shape)
            for name, empty in zip(numbers, (WITHHELD, 0, UNBOUNDED), strict=True)
        )
    except pa.ArrowInvalid as error:
        raise InputError(f"is damaged ({error})", where=path) from None
    return ProtectedRows(
        tuple(codes.dictionary.to_pylist()),
        tuple(names.dictionary.to_pylist()),
        LevelLines(lower, upper, value, price),
    )
=======
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
>>>>>>> study
