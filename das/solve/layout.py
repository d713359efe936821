r"""Where the numbers of many problems are in one flat vector, and operations on such a vector
problem by problem.

The children of a problem that share a matrix are a *block*: an array ``(cells, children)``, or
``(rows, children)`` of their sums. Blocks follow each other in the vector. Those of equal shape
form a *run*, which one call of a matrix product serves.

*The batch makes no difference.* The result for a problem depends on its own numbers alone, to the
last bit. Operations are element by element, sums over one line, sums of a problem's lines in their
order, or one call of BLAS for one block. None adds up across problems, and no shape depends on
which other problems are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import _sparsetools, csr_array, vstack

from das.solve.partitions import Parts

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]


def added(place: NDArray[np.integer[Any]], values: Array, places: int) -> Array:
    """The sum of the ``values`` at each place, one after the other: ``(places,)``."""
    return np.bincount(place, values, places).astype(float)


def grouped(values: NDArray[Any], group: Index, groups: int | None = None) -> Array:
    """The sums of each line over the groups of its values, one after the other: ``(lines, n) ->
    (lines, groups)``; without their number, of the groups that occur."""
    groups = int(group.max(initial=0)) + 1 if groups is None else groups
    place = group * len(values) + np.arange(len(values))[:, None]
    sums = np.bincount(place.ravel(), values.ravel(), groups * len(values))
    return sums.astype(float, copy=False).reshape(groups, len(values)).T


@dataclass(frozen=True, eq=False)
class Segments:
    """A flat vector in lines: ``width`` values in each, none empty, and the ``problem`` of
    ``problems`` that each is of."""

    width: Index
    problem: Index
    problems: int

    @cached_property
    def start(self) -> Index:
        return np.asarray(np.cumsum(self.width) - self.width)

    @cached_property
    def line(self) -> Index:
        """The line that each value is in."""
        return np.repeat(np.arange(len(self.width)), self.width)

    @cached_property
    def problem_of(self) -> Index:
        """The problem that each value is of."""
        return self.problem[self.line]

    def sums(self, values: Array) -> Array:
        """The sum of each line."""
        return np.add.reduceat(values, self.start) if len(self.start) else np.zeros(0)

    def total(self, values: Array) -> Array:
        """The sum of each problem, 0 where it has no line: ``(problems,)``."""
        return added(self.problem, self.sums(values), self.problems)

    def norm(self, values: Array) -> Array:
        """The Euclidean norm of each problem."""
        return np.sqrt(self.total(values * values))

    def largest(self, values: Array) -> Array:
        """The largest value of each problem, 0 where none is positive."""
        out = np.zeros(self.problems)
        if len(self.start):
            np.maximum.at(out, self.problem, np.maximum.reduceat(values, self.start))
        return out


@dataclass(frozen=True, eq=False)
class Arrangement:
    """All blocks: their ``cells``, ``rows`` and ``children``, whose ``problem`` of ``problems``
    each is, and the ``kind`` of its children there; each ``(blocks,)``."""

    cells: Index
    rows: Index
    children: Index
    problem: Index
    kind: Index
    problems: int

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """First and last but one of those that are alike and follow each other."""
        shape = np.stack([self.cells, self.rows, self.children])
        cut = np.flatnonzero((shape[:, 1:] != shape[:, :-1]).any(axis=0)) + 1
        edges = [0, *cut.tolist(), len(self.cells)]
        return list(pairwise(edges))

    @cached_property
    def entries(self) -> Segments:
        """The variables: a line for each block and cell."""
        return self._lines(self.cells)

    @cached_property
    def sums(self) -> Segments:
        """The sums of the variables: a line for each block and row."""
        return self._lines(self.rows)

    def _lines(self, height: Index) -> Segments:
        return Segments(
            np.repeat(self.children, height), np.repeat(self.problem, height), self.problems
        )

    @cached_property
    def cell_of(self) -> Index:
        """For each line of the variables, the place of its problem's cell among the cells of all
        problems."""
        cells = self._cells
        first = np.cumsum(cells) - cells
        within = np.arange(len(self.entries.width)) - np.repeat(
            np.cumsum(self.cells) - self.cells, self.cells
        )
        return np.repeat(first[self.problem], self.cells) + within

    @cached_property
    def cell_of_variable(self) -> Index:
        return self.cell_of[self.entries.line]

    @cached_property
    def _cells(self) -> Index:
        """The cells of each problem."""
        cells = np.zeros(self.problems, dtype=np.intp)
        cells[self.problem] = self.cells
        return cells

    @cached_property
    def problem_of_cell(self) -> Index:
        return np.repeat(np.arange(self.problems), self._cells)

    @cached_property
    def children_of_cell(self) -> Array:
        """How many children the problem of each cell has."""
        return added(self.problem, self.children.astype(float), self.problems)[self.problem_of_cell]

    @cached_property
    def places(self) -> list[list[tuple[int, int]]]:
        """For each problem, the run of each of its blocks, and which of the run it is."""
        out: list[list[tuple[int, int]]] = [[] for _ in range(self.problems)]
        for r, (a, b) in enumerate(self.runs):
            for k, problem in enumerate(self.problem[a:b].tolist()):
                out[problem].append((r, k))
        return out

    @cached_property
    def child_of(self) -> Index:
        """The child of each variable, of all children in the order of the blocks."""
        entries = self.entries
        first = np.repeat(np.cumsum(self.children) - self.children, self.cells)
        return np.arange(len(entries.line)) - (entries.start - first)[entries.line]

    def some(self, keep: Mask) -> Arrangement:
        """Those of the problems that are kept."""
        here = keep[self.problem]
        number = np.cumsum(keep) - 1
        return Arrangement(
            self.cells[here],
            self.rows[here],
            self.children[here],
            number[self.problem[here]],
            self.kind[here],
            int(keep.sum()),
        )


class BlockDiagonal:
    """One matrix for each block, on vectors of ``width`` columns a block: ``stacks``, of each run,
    ``(blocks, p, q)``."""

    def __init__(self, stacks: Sequence[Array], width: Sequence[int]) -> None:
        self.stacks, self.width = list(stacks), list(width)

    @cached_property
    def _views(self) -> tuple[Array, Array, list[tuple[Array, Array, Array]]]:
        """A vector to act on, one to act into, and for each run its matrices and its parts of
        both."""
        of, into = (sum(m.shape[0] * m.shape[side] * w for m, w in self._runs) for side in (2, 1))
        x, y = np.zeros(of), np.zeros(into)
        views, a, c = [], 0, 0
        for m, w in self._runs:
            blocks, p, q = m.shape
            b, d = a + blocks * q * w, c + blocks * p * w
            if p and q:
                views.append((m, x[a:b].reshape(blocks, q, w), y[c:d].reshape(blocks, p, w)))
            a, c = b, d
        return x, y, views

    @property
    def _runs(self) -> list[tuple[Array, int]]:
        return list(zip(self.stacks, self.width, strict=True))

    def __call__(self, x: Array) -> Array:
        if len(self.stacks) == 1:
            return np.matmul(
                self.stacks[0], x.reshape(len(self.stacks[0]), -1, self.width[0])
            ).ravel()
        held, out, views = self._views
        held[:] = x
        for m, of, into in views:
            np.matmul(m, of, out=into)
        return out.copy()

    @property
    def transposed(self) -> BlockDiagonal:
        return BlockDiagonal(
            [np.ascontiguousarray(m.swapaxes(1, 2)) for m in self.stacks], self.width
        )

    def some(self, keep: Sequence[Mask]) -> BlockDiagonal:
        """For each run, the blocks that are kept."""
        kept = [(m[k], w) for m, w, k in zip(self.stacks, self.width, keep, strict=True) if k.any()]
        return BlockDiagonal([m for m, _ in kept], [w for _, w in kept])


# The sums that contain the variables of one parent's children, each with a multiplier: for
# :mod:`das.solve.dual`.
#
# Variables are ``(cells, children)``: the numbers of a cell are contiguous. A flat vector of
# multipliers has three parts. First come those of the rows (a query's answers, then the groups) for
# each child, ``rows x children``. Those of the cells (the parent) and of the parts follow.


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
        parts."""
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
        out = np.zeros((self.cells, self.children))
        add_product(self.back, self.of_rows(y), out)
        out += self.of_cells(y)[:, None]
        if len(self.parts):
            out[:, self.parts.bound] += self.of_parts(y)[self.parts.part[self.parts.bound]]
        return out

    def sums(self, x: Array) -> Array:
        """The sum of the variables of each multiplier, flat."""
        out = np.zeros(self.size)
        add_product(self.rows, x, self.of_rows(out))
        x.sum(axis=1, out=self.of_cells(out))
        if len(self.parts):
            self.of_parts(out)[:] = self.parts.sums(x.sum(axis=0))
        return out

    def matrix(self, cell: Index, child: Index) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The 0/1 matrix of some of the variables and their multipliers, ``(variables, size)``:
        where the row of each variable begins, and the columns."""
        each = np.diff(self.back.indptr)[cell]
        part = self.parts.part[child]
        end = np.zeros(len(cell) + 1, dtype=np.int32)
        np.cumsum(each + 1 + (part >= 0), out=end[1:])
        columns = np.empty(end[-1], dtype=np.int32)
        first = np.cumsum(each) - each
        within = np.arange(int(each.sum())) - np.repeat(first, each)
        own = self.back.indices[within + np.repeat(self.back.indptr[cell], each)]
        columns[within + np.repeat(end[:-1], each)] = own * self.children + np.repeat(child, each)
        columns[end[:-1] + each] = self.own + cell
        columns[(end[1:] - 1)[part >= 0]] = self.own + self.cells + part[part >= 0]
        return end, columns


def add_product(m: csr_array, x: Array, out: Array) -> None:
    """Add ``m @ x`` to ``out``: arrays of two dimensions, each in one piece. SciPy's own way there
    takes longer than a small product itself."""
    _sparsetools.csr_matvecs(
        *m.shape, x.shape[1], m.indptr, m.indices, m.data, x.ravel(), out.reshape(-1)
    )


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
