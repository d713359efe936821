"""A table of persons in CSV or Parquet, one line per person or per count, and what its columns mean.

``columns`` is the table ``[data.columns]`` of the configuration::

    [data.columns]
    count = "n"  # optional: persons that a line stands for
    housing_units = "units"  # optional: housing units of the line's place, the same on all its lines
    [data.columns.geography]  # level = column, all levels below the root
    State = "state"
    Block = "block"
    [data.columns.attributes]  # attribute = column; an attribute that is not listed is its own column
    votingage = "adult"
    [data.columns.codes.votingage]  # optional: value in the file = level of the schema
    n = "under-18"
    y = "18-and-over"

Values are the labels of the schema's levels. Where a column without ``codes`` holds none of the labels, its
values are level numbers from 0. Which of the two is settled by the first batch; the rest must agree.
Lines with a count of 0 make a place known without anybody in it. Counting goes batch by batch.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from das.errors import InputError, SpecError
from das.files.source import AGAIN, Layout, Member, batches, members, sources
from das.model.confidential import Confidential
from das.model.records import Blocks, Extract, Records
from das.model.schema import Attribute, Schema

Progress = Callable[[str, int, int], None]
SUFFIXES = (".csv", ".txt", ".psv", ".tsv", ".parquet")
MERGE = 1 << 22  #: counts that wait before they are merged
CELL, COUNT, UNITS = "das:cell", "das:count", "das:units"  #: names that no level of a geography has

#: For the privacy statement.
NOTES = (
    "The list of places is that of the places that occur in the table: that a place has a record at all is published "
    "exactly. List empty places with a count of 0 to hide it.",
)


@dataclass
class Columns:
    """The meaning of the columns, checked against the schema; ``codes`` maps values to level numbers."""

    geography: dict[str, str]
    attributes: dict[str, str]
    count: str | None
    housing_units: str | None
    codes: dict[str, dict[str, int]] = field(default_factory=dict)

    @staticmethod
    def of(columns: Mapping[str, Any] | None, schema: Schema) -> Columns:
        given = dict(columns or {})
        known = ("geography", "attributes", "count", "housing_units", "codes")
        if unknown := [k for k in given if k not in known]:
            raise SpecError(f"unknown key {unknown[0]!r}", where="data.columns", remedy=f"use {', '.join(known)}")
        if not given.get("geography"):
            raise SpecError(
                "the reader 'table' needs to know which columns hold the geographic codes",
                where="data.columns.geography",
                remedy='add a table [data.columns.geography] with lines such as Block = "block"',
            )
        names = [a.name for a in schema.attributes]
        for key in ("attributes", "codes"):
            if odd := [a for a in given.get(key, {}) if a not in names]:
                raise SpecError(
                    f"schema {schema.name!r} has no attribute {odd[0]!r}",
                    where=f"data.columns.{key}",
                    remedy=f"its attributes are {', '.join(names)}",
                )
        if given.get("housing_units") and schema.dwelling is None:
            raise SpecError(
                "housing units need a schema that says who lives in one",
                where="data.columns.housing_units",
                remedy="name the schema's attribute of dwelling, or delete the key",
            )
        out = Columns(
            dict(given["geography"]),
            {n: given.get("attributes", {}).get(n, n) for n in names},
            given.get("count"),
            given.get("housing_units"),
        )
        for name, labels in given.get("codes", {}).items():
            levels = schema.attribute(name).levels
            for value, label in labels.items():
                if label not in levels:
                    raise SpecError(
                        f"{name!r} has no level {label!r}",
                        where=f"data.columns.codes.{name}.{value}",
                        remedy=f"its levels are {', '.join(levels[:20])}",
                    )
            out.codes[name] = {value: levels.index(label) for value, label in labels.items()}
        return out

    @property
    def texts(self) -> list[str]:
        return list(dict.fromkeys([*self.geography.values(), *self.attributes.values()]))

    @property
    def numbers(self) -> list[str]:
        return [c for c in (self.count, self.housing_units) if c is not None]


def read(
    paths: Sequence[Path], schema: Schema, *, columns: Mapping[str, Any] | None = None, progress: Progress | None = None
) -> Extract:
    """Read all tables among ``paths``; together they are one extract. Units of housing are not records here."""
    meaning = Columns.of(columns, schema)
    used = [m for p in paths for m in members(Path(p)) if m.base.endswith(SUFFIXES) or m.path == Path(p)]
    if not used:
        raise InputError("no input files", where="data.path", remedy=f"name at least one file ({', '.join(SUFFIXES)})")
    keys = [*meaning.geography, CELL, *([UNITS] if meaning.housing_units else [])]
    parts: list[pa.Table] = []
    merged = waiting = 0
    for number, member in enumerate(used):
        if progress:
            progress(f"reading {member.name}", number, len(used))
        for line, batch in _batches(member, meaning):
            parts.append(_group(_encode(batch, meaning, schema, member, line), keys))
            waiting += len(parts[-1])
            if waiting > max(merged, MERGE):
                parts = [_group(pa.concat_tables(parts), keys)]
                merged, waiting = len(parts[0]), 0
    if progress:
        progress("read", len(used), len(used))
    if not parts:
        raise InputError("has no records", where=used[0].name)
    return _extract(_group(pa.concat_tables(parts), keys), meaning, schema, sources(used))


def _group(table: pa.Table, keys: list[str]) -> pa.Table:
    return table.group_by(keys).aggregate([(COUNT, "sum")]).rename_columns([*keys, COUNT])


def _batches(member: Member, meaning: Columns) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches with the line (or row, in Parquet) number before their first record."""
    if member.base.endswith(".parquet"):
        yield from _parquet(member, meaning)
        return
    with member.open() as stream:
        first = stream.readline(1 << 20).decode("utf-8-sig", errors="replace")
    delimiter = max(",|\t;", key=first.count)
    names = next(csv.reader(io.StringIO(first), delimiter=delimiter), [])
    _check_names(names, meaning, member)
    kinds: dict[str, pa.DataType | None] = dict.fromkeys(names)
    kinds |= dict.fromkeys(meaning.texts, pa.string()) | dict.fromkeys(meaning.numbers, pa.int64())
    line = 1
    for batch in batches(member, Layout(delimiter, kinds, skip=1, quotes=True)):
        yield line, batch
        line += len(batch)


def _parquet(member: Member, meaning: Columns) -> Iterator[tuple[int, pa.RecordBatch]]:
    row = 0
    try:
        with member.open() as stream:
            whole = stream if member.inner is None and member.path.suffix == ".parquet" else io.BytesIO(stream.read())
            file = pa.parquet.ParquetFile(whole)
            _check_names(file.schema_arrow.names, meaning, member)
            wanted = [*meaning.texts, *meaning.numbers]
            for batch in file.iter_batches(columns=wanted):
                texts = [pc.cast(batch.column(n), pa.string()) for n in meaning.texts]
                numbers = [pc.cast(batch.column(n), pa.int64()) for n in meaning.numbers]
                for name, column in zip(wanted, [*texts, *numbers], strict=True):
                    if column.null_count:
                        missing = pc.index(pc.is_null(column), True).as_py()
                        raise InputError(f"{name} is missing", where=f"{member.name}, row {row + missing + 1}")
                yield row, pa.RecordBatch.from_arrays([*texts, *numbers], names=wanted)
                row += len(batch)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise InputError(f"is not a Parquet file that can be read: {e}", where=member.name, remedy=AGAIN) from None


def _check_names(names: Sequence[str], meaning: Columns, member: Member) -> None:
    if len(set(names)) != len(names):
        raise InputError("two columns have the same name", where=f"{member.name}, line 1")
    for name in [*meaning.texts, *meaning.numbers]:
        if name not in names:
            raise InputError(
                f"has no column {name!r}",
                where=member.name,
                remedy=f"its columns are {', '.join(map(repr, names[:30]))}; say in [data.columns] which is which",
            )


def _encode(batch: pa.RecordBatch, meaning: Columns, schema: Schema, member: Member, line: int) -> pa.Table:
    """Geographic codes, cells, counts and housing units of one batch."""
    out: dict[str, pa.Array] = {}
    for level, name in meaning.geography.items():
        column = batch.column(name)
        _check(pc.not_equal(pc.binary_length(column), 0), column, name, member, line, "a geographic code is needed")
        out[level] = column
    cell = np.zeros(len(batch), dtype=np.int64)
    for attribute in schema.attributes:
        column = batch.column(meaning.attributes[attribute.name])
        cell = cell * len(attribute.levels) + _levels(column, attribute, meaning, member, line)
    out[CELL] = pa.array(cell)
    out[COUNT] = batch.column(meaning.count) if meaning.count else pa.array(np.ones(len(batch), dtype=np.int64))
    for key, source in ((COUNT, meaning.count), (UNITS, meaning.housing_units)):
        if source is not None:
            out[key] = batch.column(source)
            _check(pc.greater_equal(out[key], 0), out[key], source, member, line, "it must not be negative")
    return pa.table(out)


def _levels(column: pa.Array, attribute: Attribute, meaning: Columns, member: Member, line: int) -> NDArray[np.int64]:
    """The level number of each value."""
    encoded = column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    if attribute.name not in meaning.codes:
        labels = {label: i for i, label in enumerate(attribute.levels)}
        by_number = {str(i): i for i in labels.values()}
        meaning.codes[attribute.name] = labels if any(v in labels for v in values) else by_number
    codes = meaning.codes[attribute.name]
    number = np.array([codes.get(v, -1) for v in values], dtype=np.int64)[encoded.indices.to_numpy()]
    shown = ", ".join(list(codes)[:20])
    name = meaning.attributes[attribute.name]
    _check(pa.array(number >= 0), column, name, member, line, f"use {shown}, or map values in data.columns.codes")
    return number


def _check(good: pa.Array, column: pa.Array, name: str, member: Member, line: int, remedy: str) -> None:
    if not pc.all(good, min_count=0).as_py():
        bad = pc.index(good, False).as_py()
        kind = "row" if member.base.endswith(".parquet") else "line"
        raise InputError(
            f"{name} is {column[bad].as_py()!r}", where=f"{member.name}, {kind} {line + bad + 1}", remedy=remedy
        )


def _extract(table: pa.Table, meaning: Columns, schema: Schema, read_from: tuple[Any, ...]) -> Extract:
    levels = list(meaning.geography)
    places = table.select(levels).group_by(levels).aggregate([])
    lowest = levels[-1]
    _check_parents(places, lowest)
    places = places.sort_by(lowest)
    codes = places.column(lowest).combine_chunks()
    block = pc.index_in(table.column(lowest), value_set=codes).to_numpy().astype(np.int64)
    cell, count = table.column(CELL).to_numpy(), table.column(COUNT).to_numpy()
    structures = None
    if meaning.housing_units:
        structures = _structures(table, schema, block, codes)
    some = count > 0
    fields = {level: np.array(places.column(level).to_pylist(), dtype=np.str_) for level in levels}
    return Extract(
        Blocks(fields, structures),
        Confidential(Records(schema, block[some], cell[some], count[some])),
        None,
        read_from,
        NOTES,
    )


def _check_parents(places: pa.Table, lowest: str) -> None:
    """Raises unless a code of the lowest level stands with one code of each level above."""
    code = places.column(lowest)
    if len(places) != len(pc.unique(code)):
        repeated = pc.value_counts(code)
        bad = repeated.field("values").filter(pc.greater(repeated.field("counts"), 1))[0].as_py()
        rows = places.filter(pc.equal(code, bad)).slice(0, 2).to_pylist()
        differ = next(level for level in rows[0] if rows[0][level] != rows[1][level])
        raise InputError(
            f"{lowest} {bad!r} is in {differ} {rows[0][differ]!r} and in {differ} {rows[1][differ]!r}",
            where="data.columns.geography",
            remedy="list levels from the top down; codes must be unique: begin each with the code of the level above",
        )


def _structures(table: pa.Table, schema: Schema, block: NDArray[np.int64], codes: pa.Array) -> NDArray[np.int64]:
    """Housing units from their column, and 1 facility of each type that somebody lives in."""
    assert schema.dwelling is not None
    given, cell, some = (
        table.column(UNITS).to_numpy(),
        table.column(CELL).to_numpy(),
        table.column(COUNT).to_numpy() > 0,
    )
    out = np.zeros((len(codes), len(schema.attribute(schema.dwelling).levels)), dtype=np.int64)
    out[block[some], schema.level_of(schema.dwelling)[cell[some]]] = 1
    home = out[:, 0].astype(bool)
    out[block, 0] = given
    for wrong, what in (
        (out[block, 0] != given, "has two different numbers of housing units"),
        (home[block] & (given == 0), "has people in households, but no housing unit"),
    ):
        if wrong.any():
            raise InputError(
                f"{codes[int(block[np.flatnonzero(wrong)[0]])].as_py()!r} {what}", where="data.columns.housing_units"
            )
    return out
