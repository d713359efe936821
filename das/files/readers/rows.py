"""The rows of a table in CSV or Parquet, a batch at a time: the codes of their place, their cell
and how many records they are.

What the columns mean is said by :class:`das.model.columns.Columns`. Values are the labels of the
schema's levels. Where a column without ``codes`` holds none of the labels, its values are level
numbers from 0. Which of the two is settled by the first batch; the rest must agree."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from numpy.typing import NDArray

from das.engine.tasks import Progress
from das.errors import InputError
from das.files.parquet import DAMAGE
from das.files.readers.source import (
    AGAIN,
    DelimitedFormat,
    Member,
    batches,
    mis_encoded,
    not_in,
    refuse_encoding,
)
from das.model.columns import Columns
from das.model.frozen import NoRepr
from das.model.schema import Attribute, Schema

UTF_8 = "utf-8"
CELL, COUNT, UNITS = "das:cell", "das:count", "das:units"  #: names that no level of a geography has
NAME = "das:name:"  #: before a level: the column of its names
ABOVE = "delete the lines above the names of the columns"
MOST = 10**12  #: records, or units, of one row: what they add up to is a number of 64 bits still


def rows(
    used: Sequence[Member],
    meaning: Columns,
    attributes: Sequence[Attribute],
    encoding: str,
    progress: Progress,
) -> Iterator[pa.Table]:
    """A table for each batch, in order of the rows.

    Its columns are one for each level, with the codes of the places; ``CELL`` over the
    ``attributes``; and ``COUNT``. Where the input has them, there are also ``UNITS``, and names of
    places (``NAME`` and the level).

    Raises :class:`InputError` with the first place of a fault; for missing values only at the end,
    when all are counted."""
    absent = _Absent(meaning)
    for member in used:
        progress.stage(f"read {member.base}", None)
        for before, batch in _batches(member, meaning, encoding):
            yield _encode(batch, meaning, attributes, absent.at(member, before))
            progress.advance(len(batch))
    absent.refuse()


def place(member: Member, row: int) -> str:
    """Where a row is, counted from 0: by rows in Parquet, by lines in texts, whose first line has
    the names of columns."""
    return (
        f"{member.name}, row {row + 1}" if _is_parquet(member) else f"{member.name}, line {row + 2}"
    )


def names(member: Member, encoding: str = UTF_8) -> list[str]:
    """Those of the columns."""
    if not _is_parquet(member):
        return header(member, encoding)[1]
    with _parquet(member) as file:
        return list(file.schema_arrow.names)


class _Absent:
    """Where the reading is, and how many rows have had no value in a column that needs one: all of
    them are counted before they are refused."""

    def __init__(self, meaning: Columns) -> None:
        self.meaning = meaning
        self.rows, self.found = 0, dict.fromkeys(meaning.texts, 0)
        self.first: dict[str, str] = {}

    def at(self, member: Member, before: int) -> _Absent:
        self.member, self.before = member, before
        return self

    def where(self, row: int) -> str:
        return place(self.member, self.before + row)

    def note(self, name: str, empty: pa.Array) -> None:
        if number := pc.sum(empty).as_py() or 0:
            self.first.setdefault(name, self.where(pc.index(empty, True).as_py()))
            self.found[name] += number

    def refuse(self) -> None:
        """Raises :class:`InputError` where something is missing: how much of it, and the recipe."""
        if not self.first:
            return
        said = "; ".join(
            f"{name} in {self.found[name]:,} of {self.rows:,} rows" for name in self.first
        )
        places = [n for n in self.first if n in self.meaning.places.values()]
        if places:
            remedy = (
                "a geographic code is needed in every row; give records of unknown place a place of"
                " their own"
            )
        elif not self.meaning.where:
            remedy = "a value is needed in every row"
        else:
            name = next(a for a, column in self.meaning.attributes.items() if column in self.first)
            remedy = (
                f'add a level such as "unknown" to {name} in the schema, and say'
                f' {self.meaning.where}.missing = {{ {name} = "unknown" }}'
            )
        raise InputError(
            f"values are missing: {said}", where=next(iter(self.first.values())), remedy=remedy
        )


def _batches(
    member: Member, meaning: Columns, encoding: str
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches with the number of rows before them."""
    if _is_parquet(member):
        yield from _of_parquet(member, meaning)
        return
    delimiter, given = header(member, encoding)
    _check_names(given, meaning, member)
    kinds: dict[str, pa.DataType | None] = dict.fromkeys(given)
    kinds |= dict.fromkeys(meaning.texts, pa.string()) | dict.fromkeys(meaning.numbers, pa.int64())
    before = 0
    for batch in batches(
        member, DelimitedFormat(delimiter, kinds, skip=1, quotes=True, encoding=encoding)
    ):
        yield before, batch
        before += len(batch)


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
        raise InputError(
            f"its first line names no columns ({error})",
            where=member.name,
            remedy="the first line must hold the names of the columns",
        ) from None


def _is_parquet(member: Member) -> bool:
    return member.base.endswith(".parquet")


@contextmanager
def _parquet(member: Member) -> Iterator[pa.parquet.ParquetFile]:
    with member.open() as stream:
        whole = (
            stream
            if member.inner is None and member.path.suffix == ".parquet"
            else io.BytesIO(stream.read())
        )
        try:
            yield pa.parquet.ParquetFile(whole)
        except DAMAGE as e:
            raise InputError(
                f"is not a Parquet file that can be read: {e}", where=member.name, remedy=AGAIN
            ) from None


def _of_parquet(member: Member, meaning: Columns) -> Iterator[tuple[int, pa.RecordBatch]]:
    before = 0
    wanted = [*meaning.texts, *meaning.numbers]
    with _parquet(member) as file:
        _check_names(file.schema_arrow.names, meaning, member)
        for batch in file.iter_batches(columns=wanted):
            texts = [pc.fill_null(pc.cast(batch.column(n), pa.string()), "") for n in meaning.texts]
            for column in texts:
                column.validate(full=True)  # bytes that are no UTF-8 are passed on as they are
            numbers = [_whole(batch.column(n), n, member) for n in meaning.numbers]
            for name, column in zip(meaning.numbers, numbers, strict=True):
                if column.null_count:
                    missing = pc.index(pc.is_null(column), True).as_py()
                    raise InputError(f"{name} is missing", where=place(member, before + missing))
            yield before, pa.RecordBatch.from_arrays([*texts, *numbers], names=wanted)
            before += len(batch)


def _whole(column: pa.Array, name: str, member: Member) -> pa.Array:
    """Whole numbers. Arrow's own message for anything else would quote the value."""
    try:
        return pc.cast(column, pa.int64())
    except pa.ArrowInvalid:
        raise InputError(
            f"{name} is not a column of whole numbers",
            where=member.name,
            remedy="write its counts as whole numbers",
        ) from None


def refuse_repeated(given: Sequence[str], member: Member) -> None:
    """Raises :class:`InputError` where two columns have one name, or none."""
    if len(set(given)) != len(given):
        twice = next(name for name in given if given.count(name) > 1)
        raise InputError(
            f"two columns have the same name, {twice!r}" if twice else "two columns have no name",
            where=f"{member.name}, line 1",
            remedy="give each column a name of its own" if twice else ABOVE,
        )


def _check_names(given: Sequence[str], meaning: Columns, member: Member) -> None:
    refuse_repeated(given, member)
    for name in [*meaning.texts, *meaning.numbers]:
        if name not in given:
            repair = (
                f"say in [{meaning.where}] which is which"
                if meaning.where
                else "is it another table?"
            )
            raise InputError(
                f"has no column {name!r}",
                where=member.name,
                remedy=f"its columns are {', '.join(map(repr, given[:30]))}; {repair}",
            )


def _encode(
    batch: pa.RecordBatch, meaning: Columns, attributes: Sequence[Attribute], here: _Absent
) -> pa.Table:
    """Geographic codes, cells, counts and housing units of one batch."""
    here.rows += len(batch)
    out = _place(batch, meaning, here)
    cell = np.zeros(len(batch), dtype=np.int64)
    for attribute in attributes:
        column = batch.column(meaning.attributes[attribute.name])
        cell = cell * len(attribute.levels) + _levels(column, attribute, meaning, here)
    out[CELL] = pa.array(cell)
    out[COUNT] = (
        batch.column(meaning.count)
        if meaning.count
        else pa.array(np.ones(len(batch), dtype=np.int64))
    )
    for key, source in ((COUNT, meaning.count), (UNITS, meaning.housing_units)):
        if source is not None:
            out[key] = batch.column(source)
            _check(
                pc.greater_equal(out[key], 0),
                f"{source} is negative",
                here,
                "a count must not be negative",
            )
            _check(
                pc.less_equal(out[key], MOST),
                f"{source} is too large",
                here,
                f"it must not be larger than {MOST:,}",
            )
    return pa.table(out)


def _place(batch: pa.RecordBatch, meaning: Columns, here: _Absent) -> dict[str, pa.Array]:
    """Geographic codes, areas and names."""
    out: dict[str, pa.Array] = {}
    above: pa.Array | None = None
    for level, name in meaning.places.items():
        column = batch.column(name)
        if level in meaning.geography:
            here.note(name, pc.equal(pc.binary_length(column), 0))
            if meaning.within_parent and above is not None:
                column = pc.binary_join_element_wise(above, column, "-")
            above = column
        out[level] = column
    return out | {NAME + level: batch.column(name) for level, name in meaning.names.items()}


def _levels(
    column: pa.Array, attribute: Attribute, meaning: Columns, here: _Absent
) -> NDArray[np.int64]:
    """The level number of each value; 0 for now where it is missing and no level is said for
    that."""
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
    number = np.array([codes.get(v, -1) for v in values], dtype=np.int64)[
        encoded.indices.to_numpy()
    ]
    _check(
        pa.array(number >= 0),
        f"{name} has a value that is no level of it",
        here,
        f"use {shown}" + (f", or map values in {meaning.where}.codes" if meaning.where else ""),
    )
    return number


def _check(good: pa.Array, what: str, here: _Absent, remedy: str) -> None:
    """Raises at the first row that is not good. The message has its line, but not its value: a log
    is no place for records."""
    if not pc.all(good, min_count=0).as_py():
        bad = pc.index(good, False).as_py()
        raise InputError(what, where=here.where(bad), remedy=remedy)


# A table row by row, in numbers: of each row its block, its household if it has one, its cell and
# how many records it is.
#
# Codes of blocks and households are kept once each: a table takes 24 bytes a row, however long the
# codes are.

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
BLOCK, HOUSEHOLD, NUMBER = "block", "household", "count"  #: columns


@dataclass(frozen=True, eq=False, repr=False)
class CodedTexts(NoRepr):
    """A column of texts: its distinct ``values``, and which of them each row has, ``(rows,)``."""

    values: pa.StringArray
    index: NDArray[np.int32]

    @staticmethod
    def from_dictionaries(parts: Sequence[pa.DictionaryArray]) -> CodedTexts:
        whole = pa.chunked_array(parts, pa.dictionary(pa.int32(), pa.string())).unify_dictionaries()
        values = whole.chunk(0).dictionary if whole.num_chunks else pa.array([], pa.string())
        index = [part.indices.to_numpy() for part in whole.chunks]
        return CodedTexts(values, np.concatenate([np.zeros(0, dtype=np.int32), *index]))

    def __getitem__(self, row: int) -> str:
        return str(self.values[int(self.index[row])].as_py())

    @property
    def empty(self) -> Bools:
        """Which rows have no value."""
        return np.asarray(pc.equal(self.values, ""), dtype=bool)[self.index]

    def position_in(self, known: pa.StringArray) -> Ints:
        """For each row the place of its value in ``known``, or -1."""
        at = pc.fill_null(pc.index_in(self.values, value_set=known), -1)
        return np.asarray(at, dtype=np.int64)[self.index]


@dataclass(frozen=True, eq=False, repr=False)
class CodedRows(NoRepr):
    """``cell`` of ``schema`` and ``count``, ``(rows,)``; ``household`` of tables that are
    linked."""

    member: Member
    schema: Schema
    block: CodedTexts
    household: CodedTexts
    cell: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.cell)

    @property
    def name(self) -> str:
        return self.member.name

    def refuse(self, bad: Bools, what: str, which: Callable[[int], str], remedy: str) -> None:
        """Raises :class:`InputError` if there are bad rows. The message has their number, ``what``
        is wrong, the first place, and ``which`` row it is. It quotes no value of a record: a log is
        no place for records."""
        if bad.any():
            first = int(np.argmax(bad))
            said = f"{int(bad.sum()):,} of {len(self):,} rows {what}; the first: {which(first)}"
            raise InputError(said, where=place(self.member, first), remedy=remedy)

    def levels(self) -> dict[str, Ints]:
        """The levels of each row, by attribute."""
        found = np.unravel_index(self.cell, self.schema.shape)
        return {a.name: level for a, level in zip(self.schema.attributes, found, strict=True)}


def coded_rows(
    member: Member, schema: Schema, encoding: str, progress: Progress, *, linked: bool = False
) -> CodedRows:
    """All rows of a table with columns of fixed names; one that is ``linked`` has a column of
    households."""
    columns: dict[str, Any] = {
        "geography": {BLOCK: BLOCK},
        "areas": {HOUSEHOLD: HOUSEHOLD} if linked else {},
    }
    if NUMBER in names(member, encoding):
        columns["count"] = NUMBER
    places: dict[str, list[pa.DictionaryArray]] = {BLOCK: [], HOUSEHOLD: []}
    numbers: dict[str, list[Ints]] = {
        CELL: [np.zeros(0, dtype=np.int64)],
        COUNT: [np.zeros(0, dtype=np.int64)],
    }
    meaning = Columns.from_options(columns, schema, where="")
    for batch in rows([member], meaning, schema.attributes, encoding, progress):
        for name in (BLOCK, HOUSEHOLD) if linked else (BLOCK,):
            places[name].append(batch.column(name).combine_chunks().dictionary_encode())
        for name, parts in numbers.items():
            parts.append(batch.column(name).to_numpy())
    block, household = (CodedTexts.from_dictionaries(parts) for parts in places.values())
    cell, count = (np.concatenate(parts) for parts in numbers.values())
    return CodedRows(member, schema, block, household, cell, count)
