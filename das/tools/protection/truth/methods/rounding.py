r"""Rounding every line to a multiple of a base b.

Let :math:`t = q b + r`, :math:`0 \le r < b`, be the true count.

* ``random``: printed is :math:`q b` with probability :math:`1 - r / b`, else :math:`(q + 1) b`: at
  distance d with probability :math:`1 - d / b`. It is unbiased; its variance is :math:`r (b - r)`:
  2 for base 3 where r > 0, on average over residuals :math:`(b^2 - 1) / 6` (4/3, 4, 16.5 for bases
  3, 5, 10). The cell's key decides (:mod:`das.tools.protection.truth.methods.cell_key`), so the same persons are rounded
  in the same way in every table. The price of distance d is :math:`-\ln (1 - d / b)`, convex.
* ``nearest``: the nearest multiple, up where two are as near. No line is random and no value is
  likelier than another. Small groups vanish: with base 5, counts 1 and 2 are 0 everywhere.
* ``controlled``: a multiple next to the count, or a little farther, such that all sums of a unit
  hold (:mod:`das.tools.protection.truth.methods.rounding`).

Multiples stay as they are, zeros too. Each total is rounded on its own, except where controlled.

*What is proved.* Nothing about attacks that combine lines. Intervals of overlapping lines often
leave one table.

Source: L. Willenborg, T. de Waal, Elements of Statistical Disclosure Control (2001), chapter 9;
Stats NZ rounds its censuses to base 3 at random, with seeds from the cell."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count as slacks
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from das.errors import SpecError
from das.tools.protection.published import (
    UNBOUNDED,
    LevelLines,
    LineMatrix,
    ProtectedTables,
    TableSet,
)
from das.tools.protection.truth.method import ProtectionMethod, StudyRecords, exact_lines
from das.tools.protection.truth.methods.cell_key import cell_keys, uniform
from das.tools.protection.truth.methods.complementary import DistinctLines

# Controlled rounding: multiples of a base next to the counts, such that all sums hold.
#
# Rows of a unit (:mod:`das.tools.protection.truth.methods.complementary`) have counts t. Their roundings :math:`y = b z` are
# the lines of one histogram, :math:`y = Q x` with real :math:`x \ge 0`, so that whatever adds up
# before adds up after. Among these, by an integer program,
#
# .. math:: \min \sum_c w_c |y_c - t_c|, \quad
# z_c \in \{\lfloor t_c / b \rfloor - s, ..., \lceil t_c / b \rceil + s\},
#
# with :math:`w_c` the number of lines of a row. A two-way table has a solution with *slack* s = 0.
# Tables that overlap in more ways may have none. Then s is 1, 2, ..., until there is one: all zeros
# are a solution for a large s. The program stops within :data:`GAP` of its optimum.
#
# Each unit is rounded by itself, so its lines are not the sums of those of its parts.
#
# Source: L. H. Cox, A constructive procedure for unbiased controlled rounding, JASA 82 (1987), for
# two-way tables; J. J. Salazar, Controlled rounding and cell perturbation: statistical disclosure
# limitation methods for tabular data, Mathematical Programming 105 (2006), for the program.

#: How far from the optimum a rounding can be, as a share of its sum of changes.
GAP = 0.02
#: Nodes of the search before the next slack is tried.
NODES = 2000


def controlled(exact: LevelLines, line_matrix: LineMatrix, base: int) -> LevelLines:
    """The lines of each unit, rounded, with the bounds that follow from the unit's slack."""
    y, slack = np.zeros_like(exact.value), np.zeros((len(exact.value), 1), dtype=np.int64)
    for u in np.flatnonzero(exact.value.any(axis=1)):
        unit = DistinctLines.from_bounds(
            line_matrix.matrix, exact.value[u], exact.value[u], UNBOUNDED
        )
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


HOW = ("random", "nearest", "controlled")


@dataclass(frozen=True)
class Rounding(ProtectionMethod):
    """``base``: every printed count is a multiple of it; ``how``: ``random``, ``nearest`` or
    ``controlled``."""

    base: int = 3
    how: str = "random"

    name: ClassVar[str] = "rounding"

    def __post_init__(self) -> None:
        where = "method rounding"
        if not isinstance(self.base, int) or isinstance(self.base, bool) or self.base < 2:
            raise SpecError(f"base is {self.base!r}: it must be an integer from 2 on", where=where)
        if self.how not in HOW:
            raise SpecError(
                f"how is {self.how!r}", where=where, remedy=f"it can be {', '.join(HOW)}"
            )

    @property
    def random(self) -> bool:  # type: ignore[override]
        """Whether it draws random numbers."""
        return self.how == "random"

    @property
    def label(self) -> str:
        words = {
            "random": "at random to",
            "nearest": "to the nearest",
            "controlled": "with sums to",
        }
        return f"rounded {words[self.how]} base {self.base}"

    @property
    def price(self) -> tuple[float, ...]:
        """Of the distances 0 to b - 1 of random rounding; else a zero."""
        if self.how != "random":
            return (0.0,)
        return tuple((-np.log1p(-np.arange(self.base) / self.base)).tolist())

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        exact = exact_lines(records.histogram(), records.spine, tables)
        levels = {}
        keys = cell_keys(records, tables, key) if self.how == "random" else {}
        for level, lines in exact.items():
            if self.how == "controlled":
                levels[level] = controlled(lines, tables.lines(level), self.base)
            else:
                levels[level] = self.rounded(lines.value, uniform(keys[level]) if keys else None)
        return ProtectedTables(records.spine, tables, levels)

    def rounded(
        self, t: NDArray[np.int64], chance: NDArray[np.float64] | None = None
    ) -> LevelLines:
        """Counts rounded to the nearest multiple, or at random by numbers from 0 to 1."""
        down, r = np.divmod(t, self.base)
        up = 2 * r >= self.base if chance is None else chance < r / self.base
        return self.known(self.base * (down + up))

    def known(self, y: NDArray[np.int64]) -> LevelLines:
        """What is known of counts that are printed as ``y``, ``random`` or ``nearest``."""
        b = self.base
        if self.how == "nearest":
            return LevelLines(np.maximum(y - b // 2, 0), y + (b - 1) // 2, y, self.price)
        return LevelLines(np.maximum(y - b + 1, y > 0), y + b - 1, y, self.price)
