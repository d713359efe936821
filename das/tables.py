"""The published tables: which cells each column of a table adds up, as sums of answers to a query.

What a table counts is data (:mod:`das.model.universe`, ``[tables.<name>]`` of a configuration).
Field names are table, three digits, and the number of the column, four digits: ``P0010001``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.errors import InputError
from das.model.histogram import Histogram
from das.model.names import NOT_COUNTED
from das.model.query import FEW_CELLS, Grouping, Query
from das.model.schema import Attribute, Schema
from das.model.tabulation import Tabulation
from das.model.universe import PERSONS, RecordKind, Universe

#: Between the parts of the path of a column.
WITHIN = " > "

#: The most tables that are kept.
_MOST_KNOWN = 256
#: Of each attribute some levels, ``(levels,)``: their product are the cells of a box.
Box = tuple[NDArray[np.bool_], ...]


@dataclass(frozen=True, eq=False)
class Table:
    """A table. Each column is a sum of answers to one query, the coarsest query that separates all
    columns. An answer can be in many columns or in none. It can be several times in a column that
    counts a record several times.

    Column ``j`` has field name ``columns[j]``, label ``labels[j]`` and the answers
    ``answer[indptr[j]:indptr[j + 1]]``. ``assigned`` lists attributes whose levels the table
    separates although a rule assigned them. Such a table is not a count, and its title says so."""

    name: str
    title: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    query: Query
    indptr: NDArray[np.int64]
    answer: NDArray[np.int64]
    assigned: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.columns) == len(self.labels) == len(self.indptr) - 1 or self.indptr[
            -1
        ] != len(self.answer):
            raise InputError(
                "columns, labels and members differ in number", where=f"table {self.name}"
            )
        if len(set(self.columns)) != len(self.columns):
            raise InputError("two columns have the same name", where=f"table {self.name}")

    @staticmethod
    def from_lines(
        name: str, title: str, schema: Schema, lines: Sequence[tuple[str, Sequence[Box]]]
    ) -> Table:
        """A table from a label and boxes for each column. A column counts a record once for each
        box that it is in."""
        boxes = [box for _, each in lines for box in each]
        query = Query(
            name,
            tuple(_told(a, [box[i] for box in boxes]) for i, a in enumerate(schema.attributes)),
        )
        first = [np.unique(g.index, return_index=True)[1] for g in query.groupings]
        inside = [np.concatenate([_answers(first, box) for box in each]) for _, each in lines]
        labels = tuple(label for label, _ in lines)
        indptr = np.cumsum([0, *map(len, inside)])
        return Table(
            name, title, _fields(name, len(lines)), labels, query, indptr, np.concatenate(inside)
        )

    @property
    def cells(self) -> int:
        """Cells of the histogram."""
        return prod(len(g.index) for g in self.query.groupings)

    def times(self, j: int) -> NDArray[np.int64]:
        """How many times column ``j`` counts each answer, ``(answers,)``."""
        return np.bincount(
            self.answer[self.indptr[j] : self.indptr[j + 1]], minlength=self.query.answers
        )

    def mask(self, j: int) -> NDArray[np.bool_]:
        """The cells that column ``j`` adds up, ``(cells,)``."""
        return (self.times(j) > 0)[self.query.index]

    @property
    def masks(self) -> NDArray[np.bool_]:
        """Whether each column counts each cell, ``(columns, cells)``.

        Raises:
            InputError: a column that counts some records more than once."""
        if odd := [c for j, c in enumerate(self.columns) if self.repeats(j)]:
            raise InputError(
                f"column {odd[0]} counts some records more than once: it is no sum of cells",
                where=f"table {self.name}",
                remedy="ask for its parts",
            )
        return np.stack([self.mask(j) for j in range(len(self.columns))])

    def repeats(self, j: int) -> bool:
        """Whether column ``j`` counts some records more than once."""
        return bool((self.times(j) > 1).any())

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The path of each column: the labels of the earlier columns that contain it, outermost
        first, then its own: ``("Total", "Male", "Under 5 years")``."""
        inside: list[tuple[NDArray[np.int64], str]] = []
        out = []
        for j, label in enumerate(self.labels):
            times = self.times(j)
            while inside and (times > inside[-1][0]).any():
                inside.pop()
            inside.append((times, label))
            out.append(tuple(name for _, name in inside))
        return tuple(out)

    @cached_property
    def unique_labels(self) -> tuple[str, ...]:
        """The label of each column. If several have the same label, it follows as much of the path
        as distinguishes them: ``"Male > Under 5 years"``."""
        out = list(self.labels)
        length = 1
        while many := [x for x, n in Counter(out).items() if n > 1]:
            length += 1
            again = [
                WITHIN.join(path[-length:]) if x in many else x
                for x, path in zip(out, self.paths, strict=True)
            ]
            if again == out:
                return tuple(
                    f"{x} ({c})" if x in many else x for x, c in zip(out, self.columns, strict=True)
                )
            out = again
        return tuple(out)

    def full_label(self, j: int) -> str:
        """The label of column ``j`` when shown without its table, as no other column has it. It also
        says which attributes a rule assigned."""
        return self.unique_labels[j] + _not_counted(self.assigned)

    @cached_property
    def _by_answer(self) -> sparse.csr_array:
        ones = np.ones(len(self.answer), dtype=np.int64)
        return sparse.csc_array(
            (ones, self.answer, self.indptr), shape=(self.query.answers, len(self.columns))
        ).tocsr()

    def values(self, h: Histogram) -> NDArray[np.int64]:
        """The table's values, ``(units, columns)``. The cost is stored counts x columns of a cell,
        and the result.

        Raises:
            InputError: a histogram of another schema."""
        if h.cells != self.cells:
            raise InputError(
                f"the histogram has {h.cells} cells, the table {self.cells}",
                where=f"table {self.name}",
            )
        counts = sparse.csr_array(
            (h.count, self.query.at(h.cell), h.indptr), shape=(h.units, self.query.answers)
        )
        return (counts @ self._by_answer).toarray()


_KNOWN: dict[tuple[int, int, tuple[str, ...]], tuple[Tabulation, Schema, Table]] = {}


def _told(attribute: Attribute, masks: Sequence[NDArray[np.bool_]]) -> Grouping:
    """Groups of levels that every mask contains together or not at all, in the order of their first
    levels."""
    _, first, group = np.unique(np.stack(masks), axis=1, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))[group.ravel()]
    return Grouping(
        attribute.name, attribute.name, tuple(map(str, range(len(first)))), tuple(number.tolist())
    )


def _answers(first: Sequence[NDArray[np.int64]], box: Box) -> NDArray[np.int64]:
    """The answers whose cells are in a box. The box must not cut a group in two. ``first`` has one
    level of each group."""
    out = np.zeros(1, dtype=np.int64)
    for level, mask in zip(first, box, strict=True):
        out = (out[:, None] * len(level) + np.flatnonzero(mask[level])).ravel()
    return out


def _fields(name: str, number: int) -> tuple[str, ...]:
    """Table, three digits, and the number of the column, four digits.

    >>> _fields("P1", 2), _fields("young_women", 1)
    (('P0010001', 'P0010002'), ('young_women0001',))"""
    letters = name.rstrip("0123456789")
    head = (
        f"{letters}{int(name[len(letters) :]):03d}"
        if letters.isupper() and name != letters
        else name
    )
    return tuple(f"{head}{i:04d}" for i in range(1, number + 1))


def universe_tables(universe: Universe, assigned: Collection[str] = ()) -> tuple[Table, ...]:
    """The tables of a universe: those of its publication, and those that its configuration defines.
    Tables that rest on an ``assigned`` attribute say so."""
    return tuple(_known(t, universe.schema, tuple(assigned)) for t in universe.tables)


def _known(asked: Tabulation, schema: Schema, assigned: tuple[str, ...]) -> Table:
    """A table of a schema, kept, because each step of a run asks for its tables anew. It goes by
    who the two values are: while they are kept, no others have their numbers."""
    if schema.cells > FEW_CELLS:  # the index of its query takes megabytes
        return _said(table(asked, schema), schema, assigned)
    key = id(asked), id(schema), assigned
    if key not in _KNOWN:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = asked, schema, _said(table(asked, schema), schema, assigned)
    return _KNOWN[key][2]


def published(schema: Schema, kind: RecordKind = PERSONS) -> tuple[Table, ...]:
    """The tables of the publication of a kind of records that have the attributes of a schema.

    Example:
        >>> from das.model.redistricting import PL94
        >>> [(t.name, len(t.columns)) for t in published(PL94)]
        [('P1', 71), ('P2', 73), ('P3', 71), ('P4', 73), ('P5', 10)]"""
    return tuple(table(t, schema) for t in kind.publication(schema).tables)


def _said(table: Table, schema: Schema, assigned: Collection[str]) -> Table:
    """The table, marked with the assigned attributes on which it rests."""
    resting = tuple(a for a in assigned if _rests(table, schema, a))
    if not resting:
        return table
    return replace(table, title=table.title + _not_counted(resting), assigned=resting)


def _not_counted(assigned: Collection[str]) -> str:
    """
    >>> _not_counted(["hhgq"]), _not_counted([])
    (' (NOT COUNTED: hhgq assigned)', '')"""
    return f" ({NOT_COUNTED}: {' and '.join(assigned)} assigned)" if assigned else ""


def _rests(table: Table, schema: Schema, attribute: str) -> bool:
    """Whether some column adds up only some levels of the attribute."""
    axis = schema.axis(attribute)
    for j in range(len(table.columns)):
        shaped = table.times(j).reshape(table.query.shape)
        if (shaped != shaped.take([0], axis=axis)).any():
            return True
    return False


def table(asked: Tabulation, schema: Schema) -> Table:
    """The columns as listed. Otherwise, for records that meet the condition, the answers to the
    query, after the total if wanted."""
    if asked.query is not None and not asked.total:
        return _of_query(asked.name, schema.query(asked.query))
    of = schema.box(asked.where)
    if asked.query is None:
        lines = [
            (
                label,
                [
                    _both(of, schema.box(w))
                    for w in (where if isinstance(where, tuple) else (where,))
                ],
            )
            for label, where in asked.columns
        ]
    else:
        query = schema.query(asked.query)
        groups = ([g.group_of == i for i in range(len(g.groups))] for g in query.groupings)
        answers = (_both(of, box) for box in product(*groups))
        kept = (
            x
            for x in zip(query.captions("; "), answers, strict=True)
            if all(mask.any() for mask in x[1])
        )
        lines = [(schema.words.total, [of]), *((label, [box]) for label, box in kept)]
    return Table.from_lines(asked.name, asked.title, schema, lines)


def _both(one: Box, other: Box) -> Box:
    return tuple(a & b for a, b in zip(one, other, strict=True))


def _of_query(name: str, query: Query) -> Table:
    every = np.arange(query.answers + 1)
    return Table(
        name,
        query.title,
        _fields(name, query.answers),
        tuple(query.captions("; ")),
        query,
        every,
        every[:-1],
    )
