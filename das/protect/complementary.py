r"""Complementary suppression: which lines must be hidden so that the small ones stay hidden.

The rows of a unit (:mod:`das.protect.unit_lines`) have counts t. The *primary* ones are hidden, and
more of the least total cost. What is shown must leave each primary row i a range :math:`[l_i, u_i]`
(over :math:`x \ge 0`, :mod:`das.protect.audit`) with

.. math:: t_i - l_i \ge s, \quad u_i - t_i \ge s, \quad u_i - l_i \ge w,

``side`` s and ``width`` w. A row that is 0 is always shown. The cost of a row is its count, times
the number of its lines.

The cheapest rows are found by :mod:`das.protect.covering`, for small tables. Here, for blocks by
the thousand, :func:`enough` moves each primary row in turn, in each direction as far as it must.
It does so by the cheapest change of the shown rows:

.. math:: \min \sum_{c\ \text{shown}} w_c |Q_c x - t_c|, \quad x \ge 0,\; Q_i x \ge t_i + w - s
    \ (\text{or} \le t_i - s);

The rows that change are hidden. Every range is then wide enough, by construction. Rows that are
not needed in the end are shown again, the most costly first.

Source: L. H. Cox, Network models for complementary cell suppression, JASA 90 (1995), for two-way
tables; M. Fischetti, J. J. Salazar, JASA 95 (2000), for any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from das.errors import SolverError
from das.protect.audit import ranges
from das.protect.unit_lines import DistinctLines

#: What counts as a change.
_NOTHING = 1e-7


@dataclass(frozen=True)
class Protection:
    """How far a primary row must be able to lie on each ``side`` of its count, and how ``width``
    its range must be. A side ends at 0."""

    side: int = 1
    width: int = 3

    def short(
        self, count: NDArray[Any], low: NDArray[Any], high: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """Whether each range is too short."""
        return (
            (count - low < np.minimum(self.side, count))
            | (high - count < self.side)
            | (high - low < self.width)
        )


def concealed(unit: DistinctLines, hidden: NDArray[np.bool_]) -> DistinctLines:
    """The unit with nothing known of the hidden rows. ``unit`` has exact counts."""
    return replace(
        unit, lower=np.where(hidden, 0.0, unit.lower), upper=np.where(hidden, np.inf, unit.upper)
    )


def too_short(
    unit: DistinctLines, hidden: NDArray[np.bool_], primary: NDArray[np.int64], wanted: Protection
) -> NDArray[np.int64]:
    """The primary rows whose range is too short."""
    low, high = ranges(concealed(unit, hidden), primary)
    return primary[wanted.short(unit.lower, low, high)[primary]]


def enough(
    unit: DistinctLines, primary: NDArray[np.int64], cost: NDArray[np.float64], wanted: Protection
) -> NDArray[np.bool_]:
    """Rows to hide, ``(rows,)``, that are enough, and not always the cheapest."""
    hidden = np.zeros(len(cost), dtype=bool)
    hidden[primary] = True
    far = wanted.width - wanted.side
    for i in too_short(unit, hidden, primary, wanted):
        count = unit.lower[i]
        for sign, by in ((1.0, max(wanted.side, far)), (-1.0, min(wanted.side, count))):
            hidden |= _changed(unit, hidden, sign * unit.rows[i], sign * count + by, cost)
    others = np.setdiff1d(np.flatnonzero(hidden), primary)
    for c in others[np.argsort(-cost[others], kind="stable")]:
        hidden[c] = False
        hidden[c] = len(too_short(unit, hidden, primary, wanted)) > 0
    return hidden


def _changed(
    unit: DistinctLines,
    hidden: NDArray[np.bool_],
    row: NDArray[np.float64],
    least: float,
    cost: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """The shown rows that change when ``row`` reaches ``least`` in the cheapest way."""
    shown = np.flatnonzero(~hidden)
    n, cells = len(shown), unit.rows.shape[1]
    one = sparse.identity(n, format="csr")
    balance = sparse.hstack([sparse.csr_array(unit.rows[shown]), -one, one], format="csr")
    found = milp(
        np.concatenate([np.zeros(cells), cost[shown], cost[shown]]),
        constraints=[
            LinearConstraint(balance, unit.lower[shown], unit.lower[shown]),
            LinearConstraint(np.concatenate([row, np.zeros(2 * n)])[None], least, np.inf),
        ],
        bounds=Bounds(0, np.inf),
    )
    if found.x is None:
        raise SolverError(f"a linear program ended with: {found.message}", where="suppression")
    out = np.zeros(len(hidden), dtype=bool)
    out[shown] = (found.x[cells : cells + n] > _NOTHING) | (found.x[cells + n :] > _NOTHING)
    return out
