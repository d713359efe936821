"""Tables in CSV or Parquet, one line per record or per count: of persons, or of another universe beside them.

What the columns mean is said by :mod:`das.model.columns`.

Values are the labels of the schema's levels. Where a column without ``codes`` holds none of the labels, its
values are level numbers from 0. Which of the two is settled by the first batch; the rest must agree.
Lines with a count of 0 make a place known without anybody in it. Counting goes batch by batch.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from das.engine.progress import SILENT, Progress
from das.errors import InputError, SpecError
from das.files import codes as texts
from das.files.readers.source import (
    AGAIN,
    DelimitedFormat,
    Member,
    batches,
    members,
    mis_encoded,
    not_in,
    refuse_encoding,
    sources,
)
from das.model.columns import Columns
from das.model.confidential import Confidential
from das.model.names import Names
from das.model.records import Blocks, Extract, Records
from das.model.schema import Attribute, Schema
from das.model.source import Source

UTF_8 = "utf-8"
SUFFIXES = (".csv", ".txt", ".psv", ".tsv", ".parquet")
MERGE = 1 << 22  #: counts that wait before they are merged
CELL, COUNT, UNITS = "das:cell", "das:count", "das:units"  #: names that no level of a geography has
NAME = "das:name:"  #: before a level: the column of its names

#: For the privacy statement.
NOTES = (
    "The list of places is that of the places that occur in the table: that a place has a record at all is published "
    "exactly. List empty places with a count of 0 to hide it.",
)


def read(
    paths: Sequence[Path],
    schema: Schema,
    *,
    columns: Mapping[str, Any] | None = None,
    encoding: str = UTF_8,
    progress: Progress = SILENT,
) -> Extract:
    """Read all tables among ``paths``; together they are one extract. Units of housing are not records here."""
    meaning = Columns.of(columns, schema)
    counted, read_from = _counted(paths, schema, meaning, encoding, progress)
    return _extract(counted, meaning, schema, read_from)


def read_beside(
    paths: Sequence[Path],
    schema: Schema,
    blocks: Blocks,
    *,
    columns: Mapping[str, Any],
    encoding: str = UTF_8,
    where: str = "data.columns",
    progress: Progress = SILENT,
) -> tuple[Confidential[Records], tuple[Source, ...]]:
    """The records of another universe, joined to the places of the persons by the code of the last level of their
    geography. Other levels that are listed must agree with it.

    Raises :class:`InputError` for a place that the persons' input does not list.
    """
    meaning = Columns.of(columns, schema, where)
    if meaning.housing_units or meaning.areas or meaning.names:
        raise SpecError(
            "housing units, areas and names are told by the persons' table", where=where, remedy="delete the key"
        )
    counted, read_from = _counted(paths, schema, meaning, encoding, progress)
    block = _joined(counted, meaning, blocks)
    cell, count = counted.column(CELL).to_numpy(), counted.column(COUNT).to_numpy()
    some = count > 0
    return Confidential(Records(schema, block[some], cell[some], count[some])), read_from


def _joined(counted: pa.Table, meaning: Columns, blocks: Blocks) -> NDArray[np.int64]:
    """The number of each row's place."""
    lowest = list(meaning.geography)[-1]
    where = f"{meaning.where}.geography"
    if unknown := [lv for lv in meaning.geography if lv not in blocks.fields]:
        raise SpecError(f"the persons' input has no geographic field {unknown[0]!r}", where=where,
                        remedy=f"its fields are {', '.join(blocks.fields)}")  # fmt: skip
    codes = blocks.fields[lowest]
    if len(np.unique(codes)) != len(codes):
        raise SpecError(f"{lowest} is not the lowest field of the persons' input: it does not tell its places apart",
                        where=where, remedy=f"end with {list(blocks.fields)[-1]}")  # fmt: skip
    block = pc.index_in(counted.column(lowest), value_set=texts.column(codes))
    if block.null_count:
        lost = pc.unique(counted.column(lowest).filter(pc.is_null(block)))
        places = len(pc.unique(counted.column(lowest)))
        raise InputError(
            f"{len(lost)} of {places} places of {lowest} are not among those of the persons, such as {lost[0].as_py()!r}; "
            f"theirs are such as {codes[0].decode()!r}",
            where=where,
            remedy="write the codes alike, with data.columns.unique_within_parent and every level in both or in neither; "
            "or list every place in the persons' table, empty ones with a count of 0",
        )
    at = block.to_numpy().astype(np.int64)
    for level in meaning.geography:
        here = texts.codes(counted.column(level))
        if len(bad := np.flatnonzero(here != blocks.fields[level][at])):
            raise InputError(f"{lowest} {codes[at[bad[0]]].decode()!r} is in {level} {here[bad[0]].decode()!r}, and in the "
                             f"persons' table in {blocks.fields[level][at[bad[0]]].decode()!r}", where=where,
                             remedy="use the same codes in both tables")  # fmt: skip
    return at


def _counted(
    paths: Sequence[Path], schema: Schema, meaning: Columns, encoding: str, progress: Progress
) -> tuple[pa.Table, tuple[Source, ...]]:
    """Counts by place and cell, and the files that they are from."""
    used = [m for p in paths for m in members(Path(p)) if m.base.endswith(SUFFIXES) or m.path == Path(p)]
    if not used:
        raise InputError("no input files", where="data.path", remedy=f"name at least one file ({', '.join(SUFFIXES)})")
    keys = [
        *meaning.places,
        *(NAME + level for level in meaning.names),
        CELL,
        *([UNITS] if meaning.housing_units else []),
    ]
    parts: list[pa.Table] = []
    absent = _Absent(meaning)
    merged = waiting = 0
    for member in used:
        progress.stage(f"read {member.base}", None)
        for line, batch in _batches(member, meaning, encoding):
            parts.append(_group(_encode(batch, meaning, schema, absent.at(member, line)), keys))
            waiting += len(parts[-1])
            progress.advance(len(batch))
            if waiting > max(merged, MERGE):
                parts = [_group(pa.concat_tables(parts), keys)]
                merged, waiting = len(parts[0]), 0
    if not parts:
        raise InputError("has no records", where=used[0].name)
    absent.refuse()
    return _group(pa.concat_tables(parts), keys), sources(used)


class _Absent:
    """Where the reading is, and how many rows have had no value in a column that needs one: all of them are counted
    before they are refused."""

    def __init__(self, meaning: Columns) -> None:
        self.meaning = meaning
        self.rows, self.found = 0, dict.fromkeys(meaning.texts, 0)
        self.first: dict[str, str] = {}

    def at(self, member: Member, line: int) -> _Absent:
        self.member, self.line = member, line
        return self

    def where(self, row: int) -> str:
        kind = "row" if self.member.base.endswith(".parquet") else "line"
        return f"{self.member.name}, {kind} {self.line + row + 1}"

    def note(self, name: str, empty: pa.Array) -> None:
        if number := pc.sum(empty).as_py() or 0:
            self.first.setdefault(name, self.where(pc.index(empty, True).as_py()))
            self.found[name] += number

    def refuse(self) -> None:
        """Raises :class:`InputError` where something is missing: how much of it, and the recipe."""
        if not self.first:
            return
        said = "; ".join(f"{name} in {self.found[name]:,} of {self.rows:,} rows" for name in self.first)
        places = [n for n in self.first if n in self.meaning.places.values()]
        if places:
            remedy = "a geographic code is needed in every row; give records of unknown place a place of their own"
        else:
            name = next(a for a, column in self.meaning.attributes.items() if column in self.first)
            remedy = (f'add a level such as "unknown" to {name} in the schema, and say {self.meaning.where}.missing = '
                      f'{{ {name} = "unknown" }}')  # fmt: skip
        raise InputError(f"values are missing: {said}", where=next(iter(self.first.values())), remedy=remedy)


def _group(table: pa.Table, keys: list[str]) -> pa.Table:
    return table.group_by(keys).aggregate([(COUNT, "sum")]).rename_columns([*keys, COUNT])


def _batches(member: Member, meaning: Columns, encoding: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches with the line (or row, in Parquet) number before their first record."""
    if member.base.endswith(".parquet"):
        yield from _parquet(member, meaning)
        return
    delimiter, names = header(member, encoding)
    _check_names(names, meaning, member)
    kinds: dict[str, pa.DataType | None] = dict.fromkeys(names)
    kinds |= dict.fromkeys(meaning.texts, pa.string()) | dict.fromkeys(meaning.numbers, pa.int64())
    line = 1
    for batch in batches(member, DelimitedFormat(delimiter, kinds, skip=1, quotes=True, encoding=encoding)):
        yield line, batch
        line += len(batch)


def header(member: Member, encoding: str) -> tuple[str, list[str]]:
    """What separates the columns of a text, and their names."""
    refuse_encoding(member, encoding)
    try:
        known = "utf-8-sig" if encoding == UTF_8 else encoding
        with member.open() as stream, io.TextIOWrapper(stream, known, "replace") as text:
            first = text.readline(1 << 20)
    except UnicodeError as error:
        raise not_in(member, encoding, error) from None
    if "\ufffd" in first and encoding == UTF_8 and (fault := mis_encoded(member, encoding)):
        raise fault
    delimiter = max(",|\t;", key=first.count)
    try:
        return delimiter, next(csv.reader(io.StringIO(first), delimiter=delimiter), [])
    except csv.Error as error:
        raise InputError(f"its first line names no columns ({error})", where=member.name,
                         remedy="the first line must hold the names of the columns") from None  # fmt: skip


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
                texts = [pc.fill_null(t, "") for t in texts]
                for name, column in zip(meaning.numbers, numbers, strict=True):
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


def _encode(batch: pa.RecordBatch, meaning: Columns, schema: Schema, here: _Absent) -> pa.Table:
    """Geographic codes, cells, counts and housing units of one batch."""
    out: dict[str, pa.Array] = {}
    above: pa.Array | None = None
    here.rows += len(batch)
    for level, name in meaning.places.items():
        column = batch.column(name)
        if level in meaning.geography:
            here.note(name, pc.equal(pc.binary_length(column), 0))
            if meaning.within_parent and above is not None:
                column = pc.binary_join_element_wise(above, column, "-")
            above = column
        out[level] = column
    out |= {NAME + level: batch.column(name) for level, name in meaning.names.items()}
    cell = np.zeros(len(batch), dtype=np.int64)
    for attribute in schema.attributes:
        column = batch.column(meaning.attributes[attribute.name])
        cell = cell * len(attribute.levels) + _levels(column, attribute, meaning, here)
    out[CELL] = pa.array(cell)
    out[COUNT] = batch.column(meaning.count) if meaning.count else pa.array(np.ones(len(batch), dtype=np.int64))
    for key, source in ((COUNT, meaning.count), (UNITS, meaning.housing_units)):
        if source is not None:
            out[key] = batch.column(source)
            _check(pc.greater_equal(out[key], 0), out[key], source, here, "it must not be negative")
    return pa.table(out)


def _levels(column: pa.Array, attribute: Attribute, meaning: Columns, here: _Absent) -> NDArray[np.int64]:
    """The level number of each value; 0 for now where it is missing and no level is said for that."""
    encoded = column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    if attribute.name not in meaning.codes and any(values):
        labels = {label: i for i, label in enumerate(attribute.levels)}
        by_number = {str(i): i for i in labels.values()}
        meaning.codes[attribute.name] = labels if any(v in labels for v in values) else by_number
    codes = meaning.codes.get(attribute.name, {})
    shown = ", ".join(list(codes)[:20])
    name = meaning.attributes[attribute.name]
    if "" not in codes and "" in values:
        codes = codes | {"": meaning.missing.get(attribute.name, 0)}
        if attribute.name not in meaning.missing:
            here.note(name, pc.equal(column, ""))
    number = np.array([codes.get(v, -1) for v in values], dtype=np.int64)[encoded.indices.to_numpy()]
    _check(pa.array(number >= 0), column, name, here, f"use {shown}, or map values in {meaning.where}.codes")
    return number


def _check(good: pa.Array, column: pa.Array, name: str, here: _Absent, remedy: str) -> None:
    if not pc.all(good, min_count=0).as_py():
        bad = pc.index(good, False).as_py()
        raise InputError(f"{name} is {column[bad].as_py()!r}", where=here.where(bad), remedy=remedy)


def _extract(table: pa.Table, meaning: Columns, schema: Schema, read_from: tuple[Source, ...]) -> Extract:
    lowest = list(meaning.geography)[-1]
    places = table.select(list(meaning.places)).group_by(list(meaning.places)).aggregate([])
    _check_parents(places, meaning, lowest)
    places = places.sort_by(lowest)
    codes = places.column(lowest).combine_chunks()
    block = pc.index_in(table.column(lowest), value_set=codes).to_numpy().astype(np.int64)
    cell, count = table.column(CELL).to_numpy(), table.column(COUNT).to_numpy()
    structures = None
    if meaning.housing_units:
        structures = _structures(table, schema, block, codes)
    some = count > 0
    fields = {level: texts.codes(places.column(level)) for level in meaning.places}
    return Extract(
        Blocks(fields, structures, _names(table, meaning)),
        Confidential(Records(schema, block[some], cell[some], count[some])),
        {},
        read_from,
        NOTES,
    )


def _names(table: pa.Table, meaning: Columns) -> dict[str, Names]:
    """The names of places by level or kind of area. Raises where a place has two."""
    out = {}
    for level in meaning.names:
        pairs = table.select([level, NAME + level]).group_by([level, NAME + level]).aggregate([])
        code, name = texts.codes(pairs.column(level)), texts.texts(pairs.column(NAME + level))
        code, name = code[name != ""], name[name != ""]
        known, first, at = np.unique(code, return_index=True, return_inverse=True)
        if len(other := np.flatnonzero(name != name[first][at])):
            i = other[0]
            raise InputError(f"{level} {code[i].decode()} is called {str(name[first][at][i])!r} and {str(name[i])!r}",
                             where=f"{meaning.where}.names", remedy="give each place one name")  # fmt: skip
        out[level] = Names.of(known, name[first])
    return out


def _check_parents(places: pa.Table, meaning: Columns, lowest: str) -> None:
    """Raises unless a code of the lowest level stands with one code of each level above, and in one area of a kind."""
    code = places.column(lowest)
    if len(places) == len(pc.unique(code)):
        return
    repeated = pc.value_counts(code)
    bad = repeated.field("values").filter(pc.greater(repeated.field("counts"), 1))[0].as_py()
    rows = places.filter(pc.equal(code, bad)).slice(0, 2).to_pylist()
    differ = next(level for level in rows[0] if rows[0][level] != rows[1][level])
    if differ in meaning.areas:
        remedy = f"an area is made of whole places: end the geography with places that lie in one {differ} each"
    else:
        remedy = ("list levels from the top down; codes must be unique: begin each with the code of the level above, or "
                  f"say {meaning.where}.unique_within_parent = true")  # fmt: skip
    raise InputError(
        f"{lowest} {bad!r} is in {differ} {rows[0][differ]!r} and in {differ} {rows[1][differ]!r}",
        where=f"{meaning.where}.geography",
        remedy=remedy,
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
