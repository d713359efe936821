"""What a table of persons looks like: for each column, its values and which row has which.
Confidential: it is the table; only a draft of a configuration is made from it, and its user is told
what of the data stands in that."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen

AGES = 130  #: an attribute can have more values than others if they are ages
_NUMBER = re.compile(r"[-+]?\d+(?:[ .,]\d{3})*(?:[.,]\d+)?").fullmatch


def _is_whole(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) < 10


def _is_age(value: str) -> bool:
    return _is_whole(value) and int(value) < 200


@dataclass(frozen=True, eq=False)
class ColumnProfile(Frozen):
    """``values`` are the distinct values but the empty one; row ``i`` has number ``index[i]`` of
    them, -1 for none."""

    name: str
    values: tuple[str, ...] = field(repr=False)
    index: NDArray[np.int64] = field(repr=False)

    @property
    def empty(self) -> int:
        """Rows without a value."""
        return int((self.index < 0).sum())

    def common(self, least: int) -> tuple[str, ...]:
        """The values with at least ``least`` rows."""
        rows = np.bincount(self.index[self.index >= 0], minlength=len(self.values))
        return tuple(v for v, n in zip(self.values, rows, strict=True) if n >= least)

    @property
    def whole(self) -> bool:
        """True if all values are whole numbers, none negative."""
        return bool(self.values) and all(map(_is_whole, self.values))

    @property
    def decimal(self) -> bool:
        """True if all values are numbers, and some have a decimal point or comma."""
        return all(map(_NUMBER, self.values)) and any("." in v or "," in v for v in self.values)

    @property
    def ages(self) -> bool:
        """True if most values are whole numbers, as few as ages are."""
        few = len(self.values) < AGES + 20
        return few and 2 * sum(map(_is_age, self.values)) > len(self.values)

    def nests_in(self, *coarse: ColumnProfile) -> bool:
        """True if each value occurs with one combination of those of ``coarse`` only."""
        return all(np.array_equal(c.by_value(self)[self.index], c.index) for c in coarse)

    def by_value(self, fine: ColumnProfile) -> NDArray[np.int64]:
        """The value here in the last row of each value of ``fine``; the last entry is for none."""
        out = np.full(fine.index.max(initial=-1) + 2, -1, dtype=np.int64)
        out[fine.index] = self.index
        return out

    def mostly(self, fine: ColumnProfile) -> NDArray[np.int64]:
        """The most frequent value here of each value of ``fine``; neither has empty ones."""
        pairs, rows = np.unique(fine.index * len(self.values) + self.index, return_counts=True)
        place, value = np.divmod(pairs[np.argsort(rows, kind="stable")], len(self.values))
        last = len(place) - 1 - np.unique(place[::-1], return_index=True)[1]
        return np.asarray(value[last], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class InputProfile:
    """``encoding`` is that in which the file was read; ``path`` as it was given."""

    path: str
    encoding: str
    rows: int
    columns: tuple[ColumnProfile, ...] = field(repr=False)

    def without(self, column: str | None) -> InputProfile:
        """The same without a column."""
        return replace(self, columns=tuple(c for c in self.columns if c.name != column))

    def at_places(self, places: InputProfile) -> InputProfile:
        """The same rows, with further columns from a table of ``places``. The columns that both
        tables have identify each row's place.

        Raises :class:`InputError` if the tables have no column in common, or if these columns do
        not identify each row's place."""
        mine = {c.name: c for c in self.columns}
        shared = [c for c in places.columns if c.name in mine]
        if not shared:
            raise InputError(
                "it has no column of the records: nothing tells the place of a record",
                where=places.path,
                remedy="give the codes of places one column name in both tables",
            )
        row = _row_of([mine[c.name] for c in shared], shared, places.path)
        more = tuple(
            ColumnProfile(c.name, c.values, c.index[row])
            for c in places.columns
            if c.name not in mine
        )
        return replace(self, columns=(*self.columns, *more))


def _row_of(
    records: list[ColumnProfile], places: list[ColumnProfile], where: str
) -> NDArray[np.int64]:
    """The row of the table of places that each record is of."""
    at = {key: i for i, key in enumerate(_keys(places))}
    if len(at) < len(places[0].index):
        raise InputError(
            f"some places have the same {', '.join(c.name for c in places)}",
            where=where,
            remedy="list each place once, with a code of its own",
        )
    row = np.array([at.get(key, -1) for key in _keys(records)], dtype=np.int64)
    if (row < 0).any():
        raise InputError(
            f"{int((row < 0).sum()):,} records are of places that it does not list",
            where=where,
            remedy="list every place, and write its code as the records do",
        )
    return row


def _keys(columns: list[ColumnProfile]) -> list[tuple[str, ...]]:
    values = [("", *c.values) for c in columns]
    rows = zip(*((c.index + 1).tolist() for c in columns), strict=True)
    return [tuple(v[i] for v, i in zip(values, row, strict=True)) for row in rows]
