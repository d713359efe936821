"""The histogram of one level, units x cells, held sparse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen, NoRepr
from das.model.query import Query
from das.model.spine import Spine

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Histogram(NoRepr, Frozen):
    """Counts of one level: compressed rows of int64 counts > 0, read-only.

    Unit ``u`` has cells ``cell[indptr[u]:indptr[u+1]]``, increasing, with counts ``count[...]``.
    The full array would be units x ``cells``: 130 GB for the nation's blocks in the redistricting
    schema; a block has a dozen positive cells, so this takes 1 GB."""

    cells: int
    indptr: NDArray[np.int64]
    cell: NDArray[np.int64]
    count: NDArray[np.int64]

    def __post_init__(self) -> None:
        fit = len(self.cell) == len(self.count) == self.indptr[-1] and self.indptr[0] == 0
        if not fit or (np.diff(self.indptr) < 0).any():
            raise InputError(
                "row pointers, cells and counts do not fit together", where="histogram"
            )
        if self.count.dtype != np.int64 or (len(self.count) and self.count.min() <= 0):
            raise InputError(
                "counts must be positive int64 (zero cells are left out)", where="histogram"
            )
        if len(self.cell) and not (self.cell.min() >= 0 and self.cell.max() < self.cells):
            raise InputError("a cell outside the schema", where="histogram")
        step = np.diff(self.cell) <= 0
        inner = self.indptr[1:-1]
        step[inner[(inner > 0) & (inner < len(self.cell))] - 1] = False
        if step.any():
            raise InputError("the cells of a unit are not strictly increasing", where="histogram")

    @staticmethod
    def from_triplets(
        units: int,
        cells: int,
        unit: NDArray[np.int64],
        cell: NDArray[np.int64],
        count: NDArray[np.int64],
    ) -> Histogram:
        """From triplets in any order; counts of one (unit, cell) are added, zeros left out."""
        for name, value, most in (("unit", unit, units), ("cell", cell, cells)):
            if len(value) and not (value.min() >= 0 and value.max() < most):
                raise InputError(f"a {name} outside 0..{most - 1}", where="histogram")
        key = np.asarray(unit, dtype=np.int64) * cells + cell
        order = np.argsort(key, kind="stable")
        key, count = key[order], np.asarray(count, dtype=np.int64)[order]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        total = np.add.reduceat(count, first) if len(first) else count
        key = key[first]
        if (total < 0).any():
            raise InputError("a negative count", where="histogram")
        key, total = key[total > 0], total[total > 0]
        indptr = np.searchsorted(key, np.arange(units + 1) * cells).astype(np.int64)
        return Histogram(cells, indptr, key % cells, total)

    @property
    def units(self) -> int:
        return len(self.indptr) - 1

    @property
    def unit(self) -> NDArray[np.int64]:
        """The unit of each stored count."""
        return np.repeat(np.arange(self.units), np.diff(self.indptr))

    def totals(self) -> NDArray[np.int64]:
        """Records in each unit, shape ``(units,)``."""
        return np.diff(np.concatenate([[0], np.cumsum(self.count)])[self.indptr])

    def rows(self, start: int, stop: int) -> Histogram:
        """The units ``start:stop`` (a view)."""
        a, b = self.indptr[start], self.indptr[stop]
        return Histogram(
            self.cells, self.indptr[start : stop + 1] - a, self.cell[a:b], self.count[a:b]
        )

    def some(self, units: NDArray[np.int64]) -> Histogram:
        """The units of these numbers, in this order."""
        size = np.diff(self.indptr)[units]
        indptr = np.concatenate([[0], np.cumsum(size)])
        at = np.repeat(self.indptr[units] - indptr[:-1], size) + np.arange(indptr[-1])
        return Histogram(self.cells, indptr, self.cell[at], self.count[at])

    def dense(self) -> NDArray[np.int64]:
        """Shape ``(units, cells)``. For a batch, never for a level of blocks."""
        out = np.zeros((self.units, self.cells), dtype=np.int64)
        out[self.unit, self.cell] = self.count
        return out

    def up(self, parent: NDArray[np.int64], parents: int) -> Histogram:
        """Added up to the level above: ``parent`` is the parent of each unit."""
        return Histogram.from_triplets(
            parents, self.cells, parent[self.unit], self.cell, self.count
        )

    def upward(self, spine: Spine) -> dict[str, Histogram]:
        """The histograms of all levels, root first, from this one of the lowest level."""
        out = {spine.levels[-1]: self}
        for depth in range(len(spine) - 1, 0, -1):
            above, here = spine.levels[depth - 1 : depth + 1]
            out[above] = out[here].up(spine.parent[depth], len(spine.codes[depth - 1]))
        return {level: out[level] for level in spine.levels}

    def answer(self, query: Query) -> NDArray[np.int64]:
        """``Q h`` for every unit, shape ``(units, answers)``, int64. Costs units x answers, not x
        cells."""
        if not isinstance(query, Query):
            raise InputError(
                f"this is a {type(query).__name__}, and no query",
                where="histogram",
                remedy='give one of the schema, such as schema.query("total")',
            )
        return self.sparse(query).dense()

    def sparse(self, query: Query) -> SparseAnswers:
        """The answers to a query, sparse. The cost depends only on the stored counts, with a sort
        if the query adds up cells."""
        at = self.unit * query.answers + query.at(self.cell)
        count = self.count
        if (at[1:] <= at[:-1]).any():
            order = np.argsort(at, kind="stable")
            first = np.flatnonzero(np.diff(at[order], prepend=-1))
            at, count = at[order[first]], np.add.reduceat(count[order], first)
        return SparseAnswers(self.units, query.answers, at, count)

    def to_arrays(self) -> dict[str, NDArray[np.int64]]:
        """The arrays that a file stores."""
        return {
            "cells": np.array(self.cells),
            "indptr": self.indptr,
            "cell": self.cell,
            "count": self.count,
        }

    @staticmethod
    def of_arrays(arrays: Mapping[str, NDArray[np.int64]]) -> Histogram:
        """The histogram from the arrays of ``to_arrays``."""
        return Histogram(int(arrays["cells"]), arrays["indptr"], arrays["cell"], arrays["count"])

    def same_as(self, other: Histogram) -> bool:
        return (
            self.cells == other.cells
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.cell, other.cell)
            and np.array_equal(self.count, other.count)
        )

    @staticmethod
    def concatenate(parts: list[Histogram]) -> Histogram:
        """One below the other, in order."""
        offset = np.cumsum([0, *(p.indptr[-1] for p in parts)])
        indptr = np.concatenate(
            [[0], *(p.indptr[1:] + o for p, o in zip(parts, offset, strict=False))]
        )
        return Histogram(
            parts[0].cells,
            indptr.astype(np.int64),
            np.concatenate([p.cell for p in parts]),
            np.concatenate([p.count for p in parts]),
        )


@dataclass(frozen=True, eq=False, repr=False)
class SparseAnswers(NoRepr, Frozen):
    """A sparse array ``(units, answers)`` in C order: the indices ``at`` (increasing) of its
    nonzero elements, and their values ``count``."""

    units: int
    answers: int
    at: Ints
    count: Ints

    @staticmethod
    def from_dense(dense: Ints) -> SparseAnswers:
        """The sparse form of an array ``(units, answers)``."""
        at, (units, answers) = np.flatnonzero(dense), dense.shape
        return SparseAnswers(units, answers, at, dense.ravel()[at])

    @property
    def unit(self) -> Ints:
        """The unit of each element."""
        return self.at // self.answers

    def dense(self) -> Ints:
        """Shape ``(units, answers)``."""
        out = np.zeros(self.units * self.answers, dtype=np.int64)
        out[self.at] = self.count
        return out.reshape(self.units, self.answers)

    def read(self, at: Ints) -> Ints:
        """The elements ``at`` ``(n,)``, in any order. It searches for each and needs no dense
        array."""
        if not len(self.at):
            return np.zeros(len(at), dtype=np.int64)
        found = np.minimum(np.searchsorted(self.at, at), len(self.at) - 1)
        return np.where(self.at[found] == at, self.count[found], 0)

    def only(self, units: NDArray[np.bool_]) -> SparseAnswers:
        """The answers of some of the units, given by a mask ``(units,)``, renumbered from 0."""
        if units.all():
            return self
        keep, number = units[self.unit], np.cumsum(units) - 1
        at = number[self.unit[keep]] * self.answers + self.at[keep] % self.answers
        return SparseAnswers(int(np.count_nonzero(units)), self.answers, at, self.count[keep])
