"""Errors of one query at one level, counted chunk by chunk: by class of the true count, and by
cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from das.evaluate.comparison import FAMILIES, ClusterSums
from das.evaluate.errors import NONE, Errors, Spread
from das.model.error_rows import CLASSES, FIRST, CoverageRow
from das.model.histogram import SparseAnswers

Ints = NDArray[np.int64]
_FIRST = np.array(FIRST)
#: Estimates are real numbers: their errors are counted in this part of a person.
PART = 256


class ErrorTally:
    """Errors of integers or (``real``) of real numbers, for units with these parents, ``(units,)``.

    Columns of the arrays are the classes of the true count. Nearly all true counts of a block are
    0. So class 0 is computed as the remainder, and only positive counts are examined one by one."""

    def __init__(self, parent: Ints, *, real: bool = False) -> None:
        self.unit, self.parent = PART if real else 1, parent
        self.parents = int(parent[-1]) + 1
        self.few = self.parents < FAMILIES
        clusters = len(parent) if self.few else self.parents
        self.classes = [NONE] * len(CLASSES)
        self.total = np.zeros((clusters, len(CLASSES)), dtype=np.int64)  # of errors, in parts
        self.size = np.zeros((clusters, len(CLASSES)), dtype=np.int64)
        self.percent, self.algebraic = np.zeros((2, len(CLASSES)))
        self.true, self.lost = np.zeros((2, len(CLASSES)), dtype=np.int64)
        self.known = self.covered = 0

    def add(
        self,
        values: SparseAnswers | NDArray[np.int64] | NDArray[np.float64],
        true: SparseAnswers,
        start: int,
        seen: NDArray[np.bool_] | None = None,
    ) -> None:
        """``values`` and ``true`` of the units from ``start`` on: of all of ``true``, or of those
        that are ``seen``, which ``values`` has alone."""
        units = np.arange(start, start + true.units)
        if seen is not None:
            units, true = units[seen], true.only(seen)
        if not len(units):
            return
        error, rest, sums = (
            self._sparse(values, true)
            if isinstance(values, SparseAnswers)
            else self._dense(values, true)
        )
        home = units if self.few else self.parent[units]
        self._cluster(home, true, error, sums)
        size = np.searchsorted(_FIRST, true.count, side="right") - 1
        k = len(CLASSES)
        self.percent += np.bincount(size, weights=np.abs(error) / true.count, minlength=k)
        self.algebraic += np.bincount(size, weights=error / true.count, minlength=k)
        self.true += _whole(size, true.count, k)
        self.lost += np.bincount(size[error <= -true.count], minlength=k)
        self.classes[0] = self.classes[0].merge(rest)
        for i in np.unique(size).tolist():
            self.classes[i] = self.classes[i].merge(Spread.from_errors(error[size == i]))

    def _sparse(self, values: SparseAnswers, true: SparseAnswers) -> tuple[Ints, Spread, Ints]:
        """As :meth:`_dense`, for values that are nearly all 0."""
        at = np.searchsorted(values.at, true.at)
        found = np.append(values.at, -1)[at] == true.at
        value = np.where(found, np.append(values.count, 0)[at], 0)
        others = np.ones(len(values.at), dtype=bool)
        others[at[found]] = False
        beyond = values.count[others]
        zeros = true.units * true.answers - len(true.at) - len(beyond)
        rest = Spread.from_errors(beyond).merge(Spread.repeated(0, zeros))
        sums = _whole(values.unit, values.count, true.units) - _whole(
            true.unit, true.count, true.units
        )
        return value - true.count, rest, sums

    def _dense(
        self, values: NDArray[np.int64] | NDArray[np.float64], true: SparseAnswers
    ) -> tuple[Ints, Spread, Ints]:
        """The errors where the true count is positive; the distribution of all others, which are
        the values; the sum of all errors of each unit."""
        there = values.ravel()[true.at] - true.count
        if self.unit == 1:
            every, error = values.astype(np.int64, copy=False), there.astype(np.int64, copy=False)
        else:
            every, error = (np.rint(x * self.unit).astype(np.int64) for x in (values, there))
        value = every.ravel()[true.at]
        rest = Spread.from_errors(every).without(Spread.from_errors(value))
        return error, rest, every.sum(axis=1) + _whole(true.unit, error - value, true.units)

    def _cluster(self, home: Ints, true: SparseAnswers, error: Ints, sums: Ints) -> None:
        """``home`` is the cluster of each unit, not decreasing."""
        k, first = len(CLASSES), int(home[0])
        home = home - first
        m = int(home[-1]) + 1
        here = slice(first, first + m)
        key = home[true.unit] * k + np.searchsorted(_FIRST, true.count, side="right") - 1
        total = _whole(key, error, m * k).reshape(m, k)
        size = np.bincount(key, minlength=m * k).reshape(m, k)
        total[:, 0] = _whole(home, sums, m) - total.sum(axis=1)
        size[:, 0] = true.answers * np.bincount(home, minlength=m) - size.sum(axis=1)
        self.total[here] += total
        self.size[here] += size

    def cover(self, inside: NDArray[np.bool_], uncertain: NDArray[np.bool_]) -> None:
        """Which answers lie inside their intervals, of those that are uncertain at all."""
        self.known += int(np.count_nonzero(uncertain))
        self.covered += int(np.count_nonzero(inside & uncertain))

    def errors(self) -> Errors:
        """All that was added."""
        units, total, size = None, self.total, self.size
        if self.few:
            units = _sums(total, size)
            starts = np.searchsorted(self.parent, np.arange(self.parents))
            total, size = (np.add.reduceat(x, starts, axis=0) for x in (total, size))
        return Errors(
            self.unit,
            tuple(self.classes),
            self.percent,
            self.algebraic,
            self.true,
            self.lost,
            self.known,
            self.covered,
            self.parents,
            _sums(total, size),
            units,
        )


def _sums(total: Ints, size: Ints) -> tuple[ClusterSums, ...]:
    """Sums for each class, and for all."""
    every = (np.column_stack([x, x.sum(axis=1)]) for x in (total, size))
    return ClusterSums.of_each(*every)


def _whole(key: Ints, weights: Ints, length: int) -> Ints:
    """Sums of whole numbers by key: exact up to 2^53."""
    return np.bincount(key, weights=weights, minlength=length).astype(np.int64)


# How often intervals hold the truth: by class of the published count, which a reader knows, and of
# the true one.

#: The first count of each class, and what it is called: those of Ashmead et al. (2024).
FIRST_COUNTS = (0, 1, 5, 11, 25, 100)
SIZES = ("0", "1-4", "5-10", "11-24", "25-99", "100+")
BY = ("published", "true")


@dataclass
class CoverageTally:
    """Coverage of one table at one level; arrays ``(by, classes)``. ``first``: where the classes
    begin."""

    first: tuple[int, ...] = FIRST_COUNTS
    size: Ints = field(init=False)
    held: Ints = field(init=False)
    width: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.size, self.held, self.width = (
            np.zeros((len(BY), len(self.first)), dtype=np.int64) for _ in range(3)
        )

    def add(self, true: Ints, published: Ints, lower: Ints, upper: Ints) -> None:
        """Counts and the ends of their intervals, arrays of one shape."""
        inside, wide = (lower <= true) & (true <= upper), upper - lower
        for i, count in enumerate((published, true)):
            at = (np.searchsorted(self.first, count.ravel(), side="right") - 1).astype(np.int64)
            self.size[i] += np.bincount(at, minlength=len(self.first))
            self.held[i] += np.bincount(at[inside.ravel()], minlength=len(self.first))
            np.add.at(self.width[i], at, wide.ravel())

    def rows(self, level: str, table: str) -> list[CoverageRow]:
        """A row for each class that has any count."""
        return [
            CoverageRow(
                level,
                table,
                by,
                name,
                int(n),
                float(self.held[i, j] / n),
                float(self.width[i, j] / n),
            )
            for i, by in enumerate(BY)
            for j, name in enumerate(SIZES)
            if (n := self.size[i, j])
        ]


def coverage_rows(
    tallies: Mapping[tuple[str, str], CoverageTally], levels: Iterable[str]
) -> list[CoverageRow]:
    """All tables of each level, named ``all``, and then each by itself."""
    out = []
    for level in levels:
        of_level = {table: t for (lv, table), t in tallies.items() if lv == level}
        every = CoverageTally()
        for t in of_level.values():
            every.size, every.held, every.width = (
                every.size + t.size,
                every.held + t.held,
                every.width + t.width,
            )
        out += every.rows(level, "all")
        for table, t in of_level.items():
            out += t.rows(level, table)
    return out
