r"""The program of a unit, pruned before any solver sees it.

A line whose upper bound is zero empties its cells. Cells that the same lines count are
interchangeable, and become one class. A unit that shows only its number of persons has a single
class, not 9,576 cells. Lines that count the same classes become one row with the tightest
bounds. What is left: integers :math:`x \ge 0`, one for each class, with
:math:`l \le A x \le u`."""

from __future__ import annotations

from dataclasses import dataclass

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


def reduced(
    lines: AttackLines, said: UnitLines, among: Bools | None = None
) -> ReducedProgram | None:
    """The program of a unit, of the cells ``among`` which its records are; ``None`` where a line
    with records has no cell for them."""
    zero = (said.upper == 0).astype(np.int64)
    alive = lines.possible & (lines.by_cell @ zero == 0)
    if among is not None:
        alive &= among
    cells = np.flatnonzero(alive)
    rows = np.flatnonzero(said.informative & (said.upper > 0))
    by_cell = lines.by_cell[cells]
    code = np.zeros(len(lines), dtype=np.int64)
    code[rows] = lines.line_code[rows]
    _, first, of_class = np.unique(by_cell @ code, return_index=True, return_inverse=True)
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
    by_class = sparse.csc_array(matrix)
    bound = upper[~empty]
    most = np.full(len(first), UNBOUNDED, dtype=np.int64)
    np.minimum.at(
        most, np.repeat(np.arange(len(first)), np.diff(by_class.indptr)), bound[by_class.indices]
    )
    return ReducedProgram(
        cells, of_class, matrix, lower[~empty], bound, most,
        terms[0], terms[1], int(keep[row[total[0]]]) if len(total) and not empty[row[total[0]]] else -1,
    )  # fmt: skip
