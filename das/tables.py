"""The published tables: which cells each column of a table adds up.

What a table counts is data (:mod:`das.model.publications`, ``[tables.<name>]`` of a configuration). Field names are table,
three digits, and the number of the column, four digits: ``P0010001``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.errors import InputError
from das.model.histogram import Histogram
from das.model.kinds import PERSONS, RecordKind
from das.model.labels import NOT_COUNTED
from das.model.query import Query
from das.model.schema import Schema
from das.model.tabulation import Tabulation
from das.model.universe import Universe


@dataclass(frozen=True, eq=False)
class Table:
    """Columns, each the sum of some cells of the histogram; a cell may be in many columns or in none.

    Column ``j`` has field name ``columns[j]``, label ``labels[j]`` and the cells
    ``cell[indptr[j]:indptr[j + 1]]``, of ``cells``. ``assigned`` are attributes that it tells levels of apart and that
    were made up by a rule: it is no count, and its title says so.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    cells: int
    indptr: NDArray[np.int64]
    cell: NDArray[np.int64]
    assigned: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.columns) == len(self.labels) == len(self.indptr) - 1 or self.indptr[-1] != len(self.cell):
            raise InputError("columns, labels and members differ in number", where=f"table {self.name}")
        if len(set(self.columns)) != len(self.columns):
            raise InputError("two columns have the same name", where=f"table {self.name}")

    @staticmethod
    def of(name: str, title: str, cells: int, members: list[tuple[str, NDArray[np.bool_]]]) -> Table:
        """From a label and a mask of cells, ``(cells,)``, for each column."""
        inside = [np.flatnonzero(mask) for _, mask in members]
        fields = _fields(name, len(members))
        indptr = np.cumsum([0, *map(len, inside)])
        labels = tuple(label for label, _ in members)
        return Table(name, title, fields, labels, cells, indptr, np.concatenate(inside))

    def members(self, column: str) -> NDArray[np.int64]:
        """The cells that ``column`` adds up, increasing."""
        j = self.columns.index(column)
        return self.cell[self.indptr[j] : self.indptr[j + 1]]

    def said(self, j: int) -> str:
        """The label of column ``j`` where its table is not beside it: with what was made up by a rule."""
        return self.labels[j] + _not_counted(self.assigned)

    @cached_property
    def masks(self) -> NDArray[np.bool_]:
        """Whether each column counts each cell, ``(columns, cells)``."""
        out = np.zeros((len(self.columns), self.cells), dtype=bool)
        out[np.repeat(np.arange(len(self.columns)), np.diff(self.indptr)), self.cell] = True
        return out

    @cached_property
    def _by_cell(self) -> sparse.csr_array:
        ones = np.ones(len(self.cell), dtype=np.int64)
        return sparse.csc_array((ones, self.cell, self.indptr), shape=(self.cells, len(self.columns))).tocsr()

    def values(self, h: Histogram) -> NDArray[np.int64]:
        """The table: ``(units, columns)``. Costs stored counts x columns of a cell, and the result.

        Raises:
            InputError: a histogram of another schema.
        """
        if h.cells != self.cells:
            raise InputError(f"the histogram has {h.cells} cells, the table {self.cells}", where=f"table {self.name}")
        counts = sparse.csr_array((h.count, h.cell, h.indptr), shape=(h.units, h.cells))
        return (counts @ self._by_cell).toarray()


def _fields(name: str, number: int) -> tuple[str, ...]:
    """Table, three digits, and the number of the column, four digits.

    >>> _fields("P1", 2), _fields("young_women", 1)
    (('P0010001', 'P0010002'), ('young_women0001',))
    """
    letters = name.rstrip("0123456789")
    head = f"{letters}{int(name[len(letters) :]):03d}" if letters.isupper() and name != letters else name
    return tuple(f"{head}{i:04d}" for i in range(1, number + 1))


def of(universe: Universe, assigned: Collection[str] = ()) -> tuple[Table, ...]:
    """The tables of a universe: those of its publication, and those that its configuration defines. Those that rest on
    an attribute that was ``assigned`` say so."""
    return tuple(_said(table(t, universe.schema), universe.schema, assigned) for t in universe.tables)


def published(schema: Schema, kind: RecordKind = PERSONS) -> tuple[Table, ...]:
    """The tables of the publication of a kind of records that have the attributes of a schema.

    Example:
        >>> from das.model.schema import PL94
        >>> [(t.name, len(t.columns)) for t in published(PL94)]
        [('P1', 71), ('P2', 73), ('P3', 71), ('P4', 73), ('P5', 10)]
    """
    return tuple(table(t, schema) for t in kind.publication(schema).tables)


def _said(table: Table, schema: Schema, assigned: Collection[str]) -> Table:
    """The table, with those of the attributes on which it rests."""
    resting = tuple(a for a in assigned if _rests(table, schema, a))
    if not resting:
        return table
    return replace(table, title=table.title + _not_counted(resting), assigned=resting)


def _not_counted(assigned: Collection[str]) -> str:
    """
    >>> _not_counted(["hhgq"]), _not_counted([])
    (' (NOT COUNTED: hhgq assigned)', '')
    """
    return f" ({NOT_COUNTED}: {' and '.join(assigned)} assigned)" if assigned else ""


def _rests(table: Table, schema: Schema, attribute: str) -> bool:
    """Whether some column adds up some levels of the attribute and not others."""
    axis = schema.axis(attribute)
    for column in table.columns:
        inside = np.zeros(table.cells, dtype=bool)
        inside[table.members(column)] = True
        shaped = inside.reshape(schema.shape)
        if (shaped != shaped.take([0], axis=axis)).any():
            return True
    return False


def table(asked: Tabulation, schema: Schema) -> Table:
    """Columns as listed; or the answers to the query, after the total where it is wanted, of the records that meet its
    condition."""
    if asked.query is not None and not asked.total:
        return _of_query(asked.name, schema.query(asked.query), schema)
    inside = schema.where(asked.where)
    if asked.query is None:
        members = [(label, inside & schema.where(where)) for label, where in asked.columns]
    else:
        query = schema.query(asked.query)
        answers = [(label, inside & (query.index == i)) for i, label in enumerate(query.captions("; "))]
        members = [("Total", inside), *((label, mask) for label, mask in answers if mask.any())]
    return Table.of(asked.name, asked.title, schema.cells, members)


def _of_query(name: str, query: Query, schema: Schema) -> Table:
    order = np.argsort(query.index, kind="stable")
    indptr = np.searchsorted(query.index[order], np.arange(query.answers + 1))
    return Table(
        name, query.title, _fields(name, query.answers), tuple(query.captions("; ")), schema.cells, indptr, order
    )
