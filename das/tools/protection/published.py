"""Protected tables: what anybody may know of each line, whatever method protected it.

Of line :math:`i` of a unit the true count :math:`t_i` lies between ``lower`` and ``upper``. An
exact line has both equal; a withheld one has 0 and :data:`UNBOUNDED`; a rounded or perturbed one
has its interval, and a *price*: minus the logarithm of the probability of the printed ``value``
where the truth is :math:`t_i`, less its least, as a function of :math:`|t_i - value_i|`. Prices are
convex, so that the most likely records are the answer of a linear or integer program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.tables import Table

# Table sets: the lines that an office publishes, for the units of each level.
#
# A *line* is one number of a published table: the count of the records whose cell is in a set of
# cells. As an operator on histograms it is a row of zeros and ones, :math:`y = Q h`; lines overlap,
# so unlike those of a query (:mod:`das.model.query`) they say some things several times over.


@dataclass(frozen=True, eq=False)
class LineMatrix:
    """The lines of some tables. ``matrix``: whether line ``i`` counts cell ``k``, ``(lines,
    cells)``, ones of int64; ``names``: the field names, ``(lines,)``, such as ``P0120005``;
    ``table``: the number of each line's table, ``(lines,)``."""

    matrix: sparse.csr_array
    names: tuple[str, ...]
    table: NDArray[np.int64]

    @staticmethod
    def from_tables(tables: tuple[Table, ...]) -> LineMatrix:
        """Raises :class:`InputError` where a column counts some records more than once."""
        masks = [sparse.csr_array(t.masks) for t in tables]
        return LineMatrix(
            sparse.vstack(masks, format="csr").astype(np.int64),
            tuple(name for t in tables for name in t.columns),
            np.repeat(np.arange(len(tables)), [len(t.columns) for t in tables]),
        )

    def __len__(self) -> int:
        return len(self.names)

    def counts(self, h: Histogram) -> NDArray[np.int64]:
        """``Q h`` for every unit, ``(units, lines)``. Raises :class:`InputError` for a histogram of
        another schema."""
        if h.cells != self.matrix.shape[1]:
            raise InputError(
                f"the histogram has {h.cells} cells, the lines count {self.matrix.shape[1]}",
                where="table set",
            )
        rows = sparse.csr_array((h.count, h.cell, h.indptr), shape=(h.units, h.cells))
        return (rows @ self.matrix.T).toarray()


@dataclass(frozen=True, eq=False)
class TableSet(Frozen):
    """The tables of each level whose units have some, over the cells of one schema."""

    name: str
    schema: Schema
    tables: Mapping[str, tuple[Table, ...]]

    def __post_init__(self) -> None:
        if not self.tables or not all(self.tables.values()):
            raise InputError(
                "a level has no table",
                where=f"table set {self.name!r}",
                remedy="name levels with tables alone",
            )
        for level, tables in self.tables.items():
            names = [c for t in tables for c in t.columns]
            if len(set(names)) != len(names):
                raise InputError(
                    "two lines have the same name", where=f"table set {self.name!r}, {level}"
                )
            if odd := [t.name for t in tables if t.cells != self.schema.cells]:
                raise InputError(
                    f"table {odd[0]} counts the cells of another schema",
                    where=f"table set {self.name!r}, {level}",
                )

    @cached_property
    def _lines(self) -> dict[str, LineMatrix]:
        return {}

    def lines(self, level: str) -> LineMatrix:
        """The lines of a level. Raises :class:`InputError` where it has none."""
        if level not in self.tables:
            raise InputError(
                f"level {level!r} has no table",
                where=f"table set {self.name!r}",
                remedy=f"there are tables of {', '.join(self.tables)}",
            )
        if level not in self._lines:
            self._lines[level] = LineMatrix.from_tables(self.tables[level])
        return self._lines[level]

    def __getstate__(self) -> dict[str, object]:
        """Another process makes the matrices itself."""
        return {k: v for k, v in self.__dict__.items() if k != "_lines"}


#: The ``value`` of a line that is not shown.
WITHHELD = -1
#: The ``upper`` of a line of which nothing is known.
UNBOUNDED = int(np.iinfo(np.int32).max)


@dataclass(frozen=True, eq=False)
class LevelLines(Frozen):
    """The lines of one level: ``lower``, ``upper`` and ``value``, int64 of shape ``(units,
    lines)``; ``price[d]`` at the distance d between truth and value, from 0 to the largest that the
    bounds of a shown line allow. A single zero says that no value is likelier than another."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    value: NDArray[np.int64]
    price: tuple[float, ...] = (0.0,)

    def __post_init__(self) -> None:
        where = "protected lines"
        if not self.lower.shape == self.upper.shape == self.value.shape or self.value.ndim != 2:
            raise InputError("bounds and values have different shapes", where=where)
        if (self.lower < 0).any() or (self.lower > self.upper).any():
            raise InputError("a bound is negative, or above the other", where=where)
        shown = self.shown
        if (self.lower[~shown & (self.lower == self.upper)]).any():
            raise InputError("a withheld line is known exactly", where=where)
        step = np.diff(self.price)
        if self.price[0] != 0 or (step < 0).any() or (np.diff(step) < -1e-12).any():
            raise InputError("prices are not convex, or do not begin with 0", where=where)

    @staticmethod
    def exact(counts: NDArray[np.int64]) -> LevelLines:
        """Counts as they are, ``(units, lines)``."""
        return LevelLines(counts, counts, counts)

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Whether each line is printed, ``(units, lines)``."""
        return self.value != WITHHELD

    def some(self, units: NDArray[np.int64]) -> LevelLines:
        """The units of these numbers, in this order."""
        return LevelLines(self.lower[units], self.upper[units], self.value[units], self.price)


@dataclass(frozen=True, eq=False)
class ExpectedGroups(Frozen):
    """What tables of other areas than units tell of each lowest unit: how many records of each
    group of cells one expects there. ``group`` of each cell, ``(cells,)``; ``count``, ``(units,
    groups)``."""

    group: NDArray[np.int64]
    count: NDArray[np.float64]

    def share(self, unit: int, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """The shares of cells in a unit: of groups as expected, and within a group as ``share``,
        ``(cells,)``, has them around it."""
        whole = np.bincount(self.group, share, minlength=self.count.shape[1])
        wanted = self.count[unit] + _LEAST * max(float(self.count[unit].sum()), 1.0) * whole
        return np.asarray(share * (wanted / np.maximum(whole, 1e-300))[self.group] / wanted.sum())

    @cached_property
    def _first(self) -> NDArray[np.int64]:
        """The first cell of each cell's group."""
        return np.asarray(np.unique(self.group, return_index=True)[1][self.group], np.int64)

    def tells(self, matrix: sparse.csr_array) -> bool:
        """Whether columns, ``(columns, cells)``, are sums of groups."""
        return int((matrix - matrix[:, self._first]).count_nonzero()) == 0

    def above(self, unit: NDArray[np.int64]) -> ExpectedGroups:
        """What one expects of areas. ``unit``: the number of the area of each unit."""
        count = np.zeros((int(unit.max()) + 1, self.count.shape[1]))
        np.add.at(count, unit, self.count)
        return ExpectedGroups(self.group, count)

    def histogram(self) -> Histogram:
        """The expected counts as integers: each the floor of its part, and what is left to the
        largest remainders of the unit; all of a group in its first cell."""
        whole = np.floor(self.count + 1e-9)
        left = np.rint(self.count.sum(axis=1) - whole.sum(axis=1))
        rank = np.argsort(np.argsort(whole - self.count, axis=1, kind="stable"), axis=1)
        unit, group = np.nonzero(whole := (whole + (rank < left[:, None])).astype(np.int64))
        cell = np.unique(self.group, return_index=True)[1][group]
        units, cells = len(self.count), len(self.group)
        return Histogram.from_triplets(units, cells, unit, cell, whole[unit, group])


#: The part of a unit's records that may be in groups where none are expected.
_LEAST = 1e-6


@dataclass(frozen=True, eq=False)
class ProtectedTables(Frozen):
    """What a method publishes about the units of a tree. ``levels``: the lines of each level that
    has tables; ``records``: for a method that makes records, their histogram of the lowest level,
    whose tables these are; ``expected``: for one that publishes tables of other areas, too."""

    spine: Spine
    tables: TableSet
    levels: Mapping[str, LevelLines]
    records: Histogram | None = None
    expected: ExpectedGroups | None = None

    def __post_init__(self) -> None:
        for level, lines in self.levels.items():
            wanted = (self.spine.units(level), len(self.tables.lines(level)))
            if lines.value.shape != wanted:
                raise InputError(
                    f"{lines.value.shape} units and lines, where there are {wanted}",
                    where=f"protected tables, {level}",
                )
        if self.records is not None and self.records.units != self.spine.units(
            self.spine.levels[-1]
        ):
            raise InputError("records of another tree", where="protected tables")


# Lines that are not shown.


def most(lines: LevelLines, matrix: sparse.csr_array) -> NDArray[np.int64]:
    """The upper bounds of lines, ``(units, lines)``, by their ``matrix``. A withheld line without
    a bound is at most any line that counts all of its records."""
    both = (matrix @ matrix.T).toarray()
    upper = lines.upper.copy()
    for line in np.flatnonzero((upper == UNBOUNDED).any(axis=0)):
        wider = both[line] == both[line, line]
        hidden = upper[:, line] == UNBOUNDED
        upper[hidden, line] = lines.upper[hidden][:, wider].min(axis=1)
    return upper


def withheld(lines: LevelLines, hidden: NDArray[np.bool_]) -> LevelLines:
    """Lines without those that are ``hidden``, ``(units, lines)``: nothing is known of them."""
    return LevelLines(
        np.where(hidden, 0, lines.lower),
        np.where(hidden, UNBOUNDED, lines.upper),
        np.where(hidden, WITHHELD, lines.value),
        lines.price,
    )
