"""The published tables: which cells each column of a table adds up.

Redistricting tables P1 to P5 and H1: order and labels are those of the 2010 P.L. 94-171 technical
documentation, segments 1 and 2 (P5: 2020, segment 3). Field names are table, three digits, and the
number of the column, four digits: ``P0010001``.
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
from das.model.labels import NOT_COUNTED
from das.model.query import Query
from das.model.schema import CENRACE, H1, PL94, Schema
from das.model.universe import Tabulation, Universe

#: The largest full cross of all attributes that becomes a table of its own.
LARGEST_CROSS = 1000


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
    """The tables of a universe: those of its schema, and those that its configuration defines. Those that rest on an
    attribute that was ``assigned`` say so."""
    schema = universe.schema
    every = (*published(schema, universe.letter), *(_asked(t, schema) for t in universe.tables))
    return tuple(_said(t, schema, assigned) for t in every)


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


def _asked(asked: Tabulation, schema: Schema) -> Table:
    """Columns as listed; or the total and the answers to the query, of the records that meet its condition."""
    inside = schema.where(asked.where)
    if asked.query is None:
        members = [(label, inside & schema.where(where)) for label, where in asked.columns]
    else:
        query = schema.query(asked.query)
        answers = [(label, inside & (query.index == i)) for i, label in enumerate(query.captions("; "))]
        members = [("Total", inside), *((label, mask) for label, mask in answers if mask.any())]
    return Table.of(asked.name, asked.title, schema.cells, members)


def published(schema: Schema, letter: str = "T") -> tuple[Table, ...]:
    """The tables of a schema.

    The redistricting schema has P1 to P5, housing units H1. Any other has ``T0`` (the total), one table
    for each attribute, ``T1``, ``T2``, ..., and the full cross of all attributes if that has at most 1,000
    cells; ``letter`` is what their names begin with.

    Example:
        >>> [(t.name, len(t.columns)) for t in published(PL94)]
        [('P1', 71), ('P2', 73), ('P3', 71), ('P4', 73), ('P5', 10)]
    """
    if letter == "T" and schema.attributes == PL94.attributes:
        return _redistricting()
    if letter in ("T", "U") and schema.attributes == H1.attributes:
        return (_housing(),)
    return _general(schema, letter)


# --- redistricting -----------------------------------------------------------------------------------

_NUMBER = {2: "two races", 3: "three races", 4: "four races", 5: "five races", 6: "six races"}

LabelledCells = tuple[str, NDArray[np.bool_]]


def _redistricting() -> tuple[Table, ...]:
    everyone = np.ones(PL94.cells, dtype=bool)
    adult = PL94.level_of("votingage") == 1
    for_adults = " for the population 18 years and over"
    origin = "Hispanic or Latino, and not Hispanic or Latino by race"
    return (
        Table.of("P1", "Race", PL94.cells, _by_race(everyone)),
        Table.of("P2", origin, PL94.cells, _by_origin_and_race(everyone)),
        Table.of("P3", "Race" + for_adults, PL94.cells, _by_race(adult)),
        Table.of("P4", origin + for_adults, PL94.cells, _by_origin_and_race(adult)),
        Table.of("P5", "Group quarters population by major group quarters type", PL94.cells, _by_quarters()),
    )


def _by_race(of: NDArray[np.bool_]) -> list[LabelledCells]:
    return [("Total", of), *_races(of)]


def _by_origin_and_race(of: NDArray[np.bool_]) -> list[LabelledCells]:
    hispanic = PL94.level_of("hispanic") == 1
    head = [("Total", of), ("Hispanic or Latino", of & hispanic), ("Not Hispanic or Latino", of & ~hispanic)]
    return [*head, *_races(of & ~hispanic)]


def _races(of: NDArray[np.bool_]) -> list[LabelledCells]:
    """One race and each; two or more; two races and each pair; ...; six races: 70 columns."""
    race = PL94.level_of("cenrace")
    labels = PL94.attribute("cenrace").labels
    number = np.array([c.count("+") + 1 for c in CENRACE])
    columns: list[LabelledCells] = []
    for n in range(1, 7):
        if n == 1:
            columns.append(("Population of one race", of & (number[race] == 1)))
        if n == 2:
            columns.append(("Population of two or more races", of & (number[race] >= 2)))
        if n >= 2:
            columns.append((f"Population of {_NUMBER[n]}", of & (number[race] == n)))
        columns += [(labels[i], of & (race == i)) for i in np.flatnonzero(number == n)]
    return columns


def _by_quarters() -> list[LabelledCells]:
    kind = PL94.level_of("hhgq")
    each: list[LabelledCells] = [(label, kind == i) for i, label in enumerate(PL94.attribute("hhgq").labels)]
    inside, outside = (
        ("Institutionalized population", (kind >= 1) & (kind <= 4)),
        ("Noninstitutionalized population", kind >= 5),
    )
    return [("Total", kind > 0), inside, *each[1:5], outside, *each[5:]]


def _housing() -> Table:
    status = H1.level_of("h1")
    columns = [("Total", status >= 0), ("Occupied", status == 1), ("Vacant", status == 0)]
    return Table.of("H1", "Occupancy status", H1.cells, columns)


# --- any other schema --------------------------------------------------------------------------------


def _general(schema: Schema, letter: str) -> tuple[Table, ...]:
    names = [a.name for a in schema.attributes]
    queries = [schema.query("total"), *map(schema.query, names)]
    if len(names) > 1 and schema.cells <= LARGEST_CROSS:
        queries.append(schema.query(" * ".join(names)))
    return tuple(_of_query(f"{letter}{i}", query, schema) for i, query in enumerate(queries))


def _of_query(name: str, query: Query, schema: Schema) -> Table:
    order = np.argsort(query.index, kind="stable")
    indptr = np.searchsorted(query.index[order], np.arange(query.answers + 1))
    return Table(
        name, query.title, _fields(name, query.answers), tuple(query.captions("; ")), schema.cells, indptr, order
    )
