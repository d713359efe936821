"""A table row by row, in numbers: of each row its block, its household if it has one, its cell and
how many records it is.

Codes of blocks and households are kept once each: a table takes 24 bytes a row, however long the
codes are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from das.engine.progress import Progress
from das.errors import InputError
from das.files.readers.rows import CELL, COUNT, names, place, rows
from das.files.readers.source import Member
from das.model.closed import Closed
from das.model.columns import Columns
from das.model.schema import Schema

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
BLOCK, HOUSEHOLD, NUMBER = "block", "household", "count"  #: columns


@dataclass(frozen=True, eq=False, repr=False)
class CodedTexts(Closed):
    """A column of texts: its distinct ``values``, and which of them each row has, ``(rows,)``."""

    values: pa.StringArray
    index: NDArray[np.int32]

    @staticmethod
    def of(parts: Sequence[pa.DictionaryArray]) -> CodedTexts:
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
class CodedRows(Closed):
    """``cell`` of ``schema`` and ``count``, ``(rows,)``; ``household`` of tables that are
    linked.
    """

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
    households.
    """
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
    meaning = Columns.of(columns, schema, where="")
    for batch in rows([member], meaning, schema.attributes, encoding, progress):
        for name in (BLOCK, HOUSEHOLD) if linked else (BLOCK,):
            places[name].append(batch.column(name).combine_chunks().dictionary_encode())
        for name, parts in numbers.items():
            parts.append(batch.column(name).to_numpy())
    block, household = (CodedTexts.of(parts) for parts in places.values())
    cell, count = (np.concatenate(parts) for parts in numbers.values())
    return CodedRows(member, schema, block, household, cell, count)
