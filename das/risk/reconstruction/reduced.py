r"""The program of a unit, pruned before any solver sees it.

A line whose upper bound is zero empties its cells. Cells that the same lines count are
interchangeable, and become one class. A unit that shows only its number of persons has a single
class, not 9,576 cells. Lines that count the same classes become one row with the tightest
bounds. What is left: integers :math:`x \ge 0`, one for each class, with
:math:`l \le A x \le u`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.protect.published import UNBOUNDED
from das.risk.reconstruction.lines import AttackLines

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class UnitLines:
    """What is published about one unit: the arrays of ``LevelLines``, ``(lines,)``, and prices."""

    lower: Ints
    upper: Ints
    value: Ints
    price: tuple[float, ...]

    @property
    def priced(self) -> bool:
        """Whether some truths are likelier than others."""
        return len(self.price) > 1 and self.price[-1] > 0

    @property
    def informative(self) -> Bools:
        """Lines that say something."""
        return (self.lower > 0) | (self.upper < UNBOUNDED)


@dataclass(frozen=True, eq=False)
class ReducedProgram:
    """``cells``: those that can have records, and ``of_class`` the class of each; ``matrix``
    ``(rows, classes)`` ones; ``lower`` and ``upper`` ``(rows,)``; ``most`` ``(classes,)`` the
    largest count of each. ``priced_row`` and ``priced_value``: for each price to pay, its row and
    the printed value. The same persons printed alike in two lines pay once: that was one draw."""

    cells: Ints
    of_class: Ints
    matrix: sparse.csr_array
    lower: Ints
    upper: Ints
    most: Ints
    priced_row: Ints
    priced_value: Ints
    total_row: int

    @property
    def classes(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def exact(self) -> Bools:
        """Rows that are known exactly."""
        return self.lower == self.upper

    def obeyed(self, x: Ints) -> bool:
        """Whether integers obey every row, exactly."""
        y = self.matrix @ x
        return bool((x >= 0).all() and (y >= self.lower).all() and (y <= self.upper).all())

    @property
    def first(self) -> Ints:
        """A cell of each class, ``(classes,)``."""
        return self.cells[np.unique(self.of_class, return_index=True)[1]]

    def with_rows(self, matrix: sparse.csr_array, lower: Ints, upper: Ints) -> ReducedProgram:
        """The program with more rows, except those that say nothing."""
        most = matrix @ self.most
        says = (lower > 0) | (upper < most)
        matrix, lower, upper = matrix[says], lower[says], upper[says]
        return replace(
            self,
            matrix=sparse.csr_array(sparse.vstack([self.matrix, matrix])),
            lower=np.concatenate([self.lower, lower]),
            upper=np.concatenate([self.upper, upper]),
            most=np.minimum(self.most, largest(matrix, upper)),
        )


def largest(matrix: sparse.csr_array, upper: Ints) -> Ints:
    """The least upper bound of a row with each class, ``(classes,)``."""
    out = np.full(matrix.shape[1], UNBOUNDED, dtype=np.int64)
    row, column = matrix.nonzero()
    np.minimum.at(out, column, upper[row])
    return out


def reduced(
    lines: AttackLines, said: UnitLines, among: Bools | None = None, apart: Ints | None = None
) -> ReducedProgram | None:
    """The program of a unit, of the cells ``among`` which its records are; ``None`` where a line
    with records has no cell for them. Cells with different numbers in ``apart`` ``(cells,)`` are
    not in one class."""
    zero = (said.upper == 0).astype(np.int64)
    alive = lines.possible & (lines.by_cell @ zero == 0)
    if among is not None:
        alive &= among
    cells = np.flatnonzero(alive)
    rows = np.flatnonzero(said.informative & (said.upper > 0))
    by_cell = lines.by_cell[cells]
    code = np.zeros(len(lines), dtype=np.int64)
    code[rows] = lines.line_code[rows]
    fingerprint = by_cell @ code + (0 if apart is None else apart[cells])
    _, first, of_class = np.unique(fingerprint, return_index=True, return_inverse=True)
    matrix = sparse.csr_array(by_cell[first].T)[rows]
    return _merged(lines, said, cells, of_class, first, matrix, rows)


def _merged(
    lines: AttackLines,
    said: UnitLines,
    cells: Ints,
    of_class: Ints,
    first: Ints,
    matrix: sparse.csr_array,
    rows: Ints,
) -> ReducedProgram | None:
    """Rows that count the same classes become one."""
    print_of, at, row = np.unique(
        matrix @ lines.cell_code[cells[first]], return_index=True, return_inverse=True
    )
    lower = np.zeros(len(print_of), dtype=np.int64)
    upper = np.full(len(print_of), UNBOUNDED, dtype=np.int64)
    np.maximum.at(lower, row, said.lower[rows])
    np.minimum.at(upper, row, said.upper[rows])
    empty = print_of == 0
    if (lower > upper).any() or (lower[empty] > 0).any():
        return None
    matrix, keep = matrix[at[~empty]], np.cumsum(~empty) - 1
    priced = (said.value[rows] >= 0) & ~empty[row] if said.priced else np.zeros(len(rows), bool)
    terms = np.unique(np.stack([keep[row[priced]], said.value[rows[priced]]]), axis=1)
    total = np.flatnonzero(rows == lines.total)
    here = keep[row[total]] if len(total) and not empty[row[total[0]]] else [-1]
    return ReducedProgram(
        cells,
        of_class,
        matrix,
        lower[~empty],
        upper[~empty],
        largest(matrix, upper[~empty]),
        terms[0],
        terms[1],
        int(here[0]),
    )
