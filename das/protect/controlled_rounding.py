r"""Controlled rounding: multiples of a base next to the counts, such that all sums hold.

Rows of a unit (:mod:`das.protect.unit_lines`) have counts t. Their roundings :math:`y = b z` are
the lines of one histogram, :math:`y = Q x` with real :math:`x \ge 0`, so that whatever adds up
before adds up after. Among these, by an integer program,

.. math:: \min \sum_c w_c |y_c - t_c|, \quad
    z_c \in \{\lfloor t_c / b \rfloor - s, ..., \lceil t_c / b \rceil + s\},

with :math:`w_c` the number of lines of a row. A two-way table has a solution with *slack* s = 0.
Tables that overlap in more ways may have none. Then s is 1, 2, ..., until there is one: all zeros
are a solution for a large s. The program stops within :data:`GAP` of its optimum.

Each unit is rounded by itself, so its lines are not the sums of those of its parts.

Source: L. H. Cox, A constructive procedure for unbiased controlled rounding, JASA 82 (1987), for
two-way tables; J. J. Salazar, Controlled rounding and cell perturbation: statistical disclosure
limitation methods for tabular data, Mathematical Programming 105 (2006), for the program."""

from __future__ import annotations

from itertools import count as slacks

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from das.protect.published import UNBOUNDED, LevelLines
from das.protect.table_set import LineMatrix
from das.protect.unit_lines import DistinctLines

#: How far from the optimum a rounding can be, as a share of its sum of changes.
GAP = 0.02
#: Nodes of the search before the next slack is tried.
NODES = 2000


def controlled(exact: LevelLines, of: LineMatrix, base: int) -> LevelLines:
    """The lines of each unit, rounded, with the bounds that follow from the unit's slack."""
    y, slack = np.zeros_like(exact.value), np.zeros((len(exact.value), 1), dtype=np.int64)
    for u in np.flatnonzero(exact.value.any(axis=1)):
        unit = DistinctLines.of(of.matrix, exact.value[u], exact.value[u], UNBOUNDED)
        here = np.flatnonzero(unit.row >= 0)
        weight = np.bincount(unit.row[here], minlength=len(unit.lower)).astype(np.float64)
        rounded, slack[u] = rounded_rows(unit, base, weight)
        y[u, here] = rounded[unit.row[here]]
    most = base - 1 + base * slack
    return LevelLines(np.maximum(y - most, y > 0), y + most, y)


def rounded_rows(
    unit: DistinctLines, base: int, weight: NDArray[np.float64]
) -> tuple[NDArray[np.int64], int]:
    """The rounding of each row of a unit with exact counts, and its slack."""
    for slack in slacks():
        found = _program(unit, base, weight, slack)
        if found.x is not None:
            z = np.rint(found.x[: len(unit.lower)]).astype(np.int64)
            return base * z, slack
    raise AssertionError("all zeros are a solution")


def _program(
    unit: DistinctLines, base: int, weight: NDArray[np.float64], slack: int
) -> OptimizeResult:
    """Variables: z, how far each y is from its count, x."""
    (rows, cells), t = unit.rows.shape, unit.lower
    one, none = sparse.identity(rows, format="csr"), sparse.csr_array((rows, cells))
    sums = sparse.hstack([base * one, 0 * one, -sparse.csr_array(unit.rows)], format="csr")
    above = sparse.hstack([base * one, -one, none], format="csr")
    below = sparse.hstack([base * one, one, none], format="csr")
    free = np.full(rows, np.inf)
    low = np.maximum(np.floor(t / base) - slack, 0)
    return milp(
        np.concatenate([np.zeros(rows), weight, np.zeros(cells)]),
        constraints=[
            LinearConstraint(sums, 0.0, 0.0),
            LinearConstraint(above, -free, t),
            LinearConstraint(below, t, free),
        ],
        bounds=Bounds(
            np.concatenate([low, np.zeros(rows + cells)]),
            np.concatenate([np.ceil(t / base) + slack, np.full(rows + cells, np.inf)]),
        ),
        integrality=np.concatenate([np.ones(rows), np.zeros(rows + cells)]),
        options={"mip_rel_gap": GAP, "node_limit": NODES},
    )
