r"""The cheapest complementary suppression of a small table, by cuts.

A master program chooses the hidden rows z, of the least cost. Where a range of a primary row is too
short (:mod:`das.protect.complementary`), the multipliers of its linear program name the shown rows
that make it so. As long as all of these are shown, it stays too short: :math:`\sum z_c \ge 1` over
them is a cut. The master is solved again until no range is too short. Each round adds cuts that the
present choice breaks, and there are finitely many choices, so it ends, with the optimum.

Source: M. Fischetti, J. J. Salazar, Models and algorithms for optimizing cell suppression in
tabular data with linear constraints, JASA 95 (2000). Their cuts have coefficients from the
multipliers; these are of covering type."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from das.errors import SolverError
from das.protect.complementary import Protection
from das.protect.unit_lines import DistinctLines

#: What counts as a multiplier, or as too short.
_NOTHING = 1e-7


def cheapest(
    unit: DistinctLines,
    primary: NDArray[np.int64],
    cost: NDArray[np.float64],
    wanted: Protection,
    forced: NDArray[np.int64] | None = None,
) -> NDArray[np.bool_]:
    """The rows to hide, ``(rows,)``, of the least cost. ``forced``: rows that are hidden in any
    case."""
    cuts: list[NDArray[np.float64]] = []
    lowest = np.zeros(len(cost))
    lowest[primary if forced is None else np.union1d(primary, forced)] = 1.0
    while True:
        cover = [LinearConstraint(np.array(cuts), 1.0, np.inf)] if cuts else []
        found = milp(cost, constraints=cover, bounds=Bounds(lowest, 1.0), integrality=1)
        if found.x is None:
            raise SolverError(
                f"the master program ended with: {found.message}", where="suppression"
            )
        hidden = found.x > 0.5
        new = [cut for i in primary for cut in _cuts(unit, hidden, int(i), wanted)]
        if not new:
            return hidden
        cuts += new


def _cuts(
    unit: DistinctLines, hidden: NDArray[np.bool_], i: int, wanted: Protection
) -> Iterator[NDArray[np.float64]]:
    """Sets of rows, one of each to be hidden: what makes a range of row i too short."""
    count = unit.lower[i]
    low, below = _reach(unit, hidden, unit.rows[i])
    high, above = _reach(unit, hidden, -unit.rows[i])
    high = -high
    if count - low < min(wanted.side, count) - _NOTHING:
        yield below
    if high - count < wanted.side - _NOTHING:
        yield above
    if high - low < wanted.width - _NOTHING:
        yield np.maximum(below, above)


def _reach(
    unit: DistinctLines, hidden: NDArray[np.bool_], objective: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """The least value of an objective where the other rows are shown, and those of them, 1 or 0,
    that make it so."""
    shown = np.flatnonzero(~hidden)
    found = linprog(objective, A_eq=unit.rows[shown], b_eq=unit.lower[shown], method="highs")
    binding = np.zeros(len(hidden))
    if found.status == 3:
        return -np.inf, binding
    if found.status != 0:
        raise SolverError(f"a linear program ended with: {found.message}", where="suppression")
    binding[shown[abs(found.eqlin.marginals) > _NOTHING]] = 1.0
    return float(found.fun), binding
