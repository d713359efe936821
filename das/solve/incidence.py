"""The sums that contain the variables of one parent's children, each with a multiplier: for
:mod:`das.solve.dual`.

Variables are ``(cells, children)``: the numbers of a cell are contiguous. A flat vector of
multipliers has three parts. First come those of the rows (a query's answers, then the groups) for
each child, ``rows x children``. Those of the cells (the parent) and of the parts follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from das.solve.parts import Parts

Array = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Incidence:
    """``rows`` ``(rows, cells)``, 0/1; ``parts`` of the children."""

    rows: csr_array
    children: int
    parts: Parts

    @cached_property
    def back(self) -> csr_array:
        return self.rows.T.tocsr()

    @property
    def cells(self) -> int:
        return int(self.rows.shape[1])

    @property
    def own(self) -> int:
        """The multipliers of rows of one child; those of the cells follow, then those of the
        parts.
        """
        return int(self.rows.shape[0]) * self.children

    @property
    def size(self) -> int:
        return self.own + self.cells + len(self.parts)

    def of_rows(self, y: Array) -> Array:
        """``(rows, children)``, a view."""
        return y[: self.own].reshape(-1, self.children)

    def of_cells(self, y: Array) -> Array:
        return y[self.own : self.own + self.cells]

    def of_parts(self, y: Array) -> Array:
        return y[self.own + self.cells :]

    def spread(self, y: Array) -> Array:
        """What the multipliers add to each variable: ``(cells, children)``."""
        out = np.asarray(self.back @ self.of_rows(y))
        out += self.of_cells(y)[:, None]
        if len(self.parts):
            out[:, self.parts.bound] += self.of_parts(y)[self.parts.part[self.parts.bound]]
        return out

    def sums(self, x: Array) -> Array:
        """The sum of the variables of each multiplier, flat."""
        held = np.asarray(self.rows @ x)
        parts = self.parts.sums(x.sum(axis=0)) if len(self.parts) else np.zeros(0)
        return np.concatenate([held.ravel(), x.sum(axis=1), parts])

    def of(self, cell: Index, child: Index) -> Any:
        """The 0/1 matrix of some of the variables and their multipliers, ``(variables, size)``,
        sparse.
        """
        each = np.diff(self.back.indptr)[cell]
        first = np.cumsum(each) - each
        place = np.repeat(self.back.indptr[cell] - first, each) + np.arange(int(each.sum()))
        own = self.back.indices[place].astype(np.int64) * self.children + np.repeat(child, each)
        part = self.parts.part[child]
        more = 1 + (part >= 0)
        end = np.cumsum(each + more)
        columns = np.empty(int(end[-1]) if len(end) else 0, dtype=np.int64)
        start = end - each - more
        columns[np.repeat(start - first, each) + np.arange(len(own))] = own
        columns[start + each] = self.own + cell
        columns[(end - 1)[part >= 0]] = self.own + self.cells + part[part >= 0]
        shape = (len(cell), self.size)
        return csr_array((np.ones(len(columns)), columns, np.concatenate([[0], end])), shape=shape)


def of_index(index: Sequence[Index], cells: int) -> list[tuple[csr_array, Index]]:
    """For each partition, of all cells or some (-1: in no answer), the answers of several cells as
    rows ``(answers, cells)``, and the cells that have an answer to themselves."""
    out = []
    for i in index:
        there = np.flatnonzero(i >= 0)
        _, position, many = np.unique(i[there], return_inverse=True, return_counts=True)
        place = np.cumsum(many > 1) - 1
        some = np.flatnonzero(many[position] > 1)
        shape = (int((many > 1).sum()), cells)
        rows = csr_array((np.ones(len(some)), (place[position[some]], there[some])), shape=shape)
        out.append((rows, there[many[position] == 1]))
    return out


def stacked(rows: Sequence[csr_array], cells: int) -> csr_array:
    return vstack([csr_array((0, cells)), *rows], format="csr")
