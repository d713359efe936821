r"""Complementary suppression: which lines must be hidden so that the small ones stay hidden.

The rows of a unit (:mod:`das.protect.unit_lines`) have counts t. The *primary* ones are hidden, and
more of the least total cost. What is shown must leave each primary row i a range :math:`[l_i, u_i]`
(over :math:`x \ge 0`, :mod:`das.protect.audit`) with

.. math:: t_i - l_i \ge s, \quad u_i - t_i \ge s, \quad u_i - l_i \ge w,

``side`` s and ``width`` w. A row that is 0 is always shown. The cost of a row is its count, times
the number of its lines.

The cheapest rows are found by :mod:`das.protect.covering`, for small tables. Here, for blocks by
the thousand, :func:`enough` collects *witnesses*: histograms with all shown rows, that have primary
rows elsewhere than they are.

1. A linear program moves as many primary rows as it can at once, up or down, with the present
   hidden rows. It is repeated with those that have not moved far enough, until none moves more.
2. For a row that is still missing, the cheapest change of the shown rows moves it: :math:`\min
   \sum_{c\ \text{shown}} w_c |Q_c x - t_c|` with :math:`x \ge 0` and :math:`Q_i x` where it must be.
   The rows that change are hidden. Every range is then wide enough, by construction.
3. Rows that are not needed are shown again, the most costly first, if witnesses without them can
   be found.

Source: L. H. Cox, Network models for complementary cell suppression, JASA 90 (1995), for two-way
tables; M. Fischetti, J. J. Salazar, JASA 95 (2000), for any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.protect.unit_lines import DistinctLines
from das.protect.witnesses import Witnesses, changed


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
        above, below = self.missing(count, low, high)
        out: NDArray[np.bool_] = above | below
        return out

    def missing(
        self, count: NDArray[Any], low: NDArray[Any], high: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """Whether each range must go farther, above and below, ``(2, ranges)``."""
        narrow = high - low < self.width
        below = count - low < np.minimum(self.side, count)
        return np.stack([(high - count < self.side) | (narrow & ~below), below])

    def targets(self, count: NDArray[Any]) -> NDArray[np.float64]:
        """How far from its count each must be able to lie, above and below, ``(2, ranges)``: this
        is enough for the width, too."""
        below = np.minimum(self.side, count)
        return np.stack([np.maximum(self.side, self.width - below), below]).astype(np.float64)


def concealed(unit: DistinctLines, hidden: NDArray[np.bool_]) -> DistinctLines:
    """The unit with nothing known of the hidden rows. ``unit`` has exact counts."""
    return replace(
        unit, lower=np.where(hidden, 0.0, unit.lower), upper=np.where(hidden, np.inf, unit.upper)
    )


def enough(
    unit: DistinctLines,
    primary: NDArray[np.int64],
    cost: NDArray[np.float64],
    wanted: Protection,
    forced: NDArray[np.int64] | None = None,
) -> NDArray[np.bool_]:
    """Rows to hide, ``(rows,)``, that are enough, and not always the cheapest. ``forced``: rows
    that are hidden in any case."""
    kept = primary if forced is None else np.union1d(primary, forced)
    hidden = np.zeros(len(cost), dtype=bool)
    hidden[kept] = True
    found = _collected(Witnesses.of(unit), unit, hidden, primary, wanted)
    targets = wanted.targets(unit.lower)
    while (left := _left(found, unit, primary, wanted)).size:
        side, i = left[:, 0].tolist()
        moved = changed(unit, hidden, 1 - 2 * side, i, targets[side, i], cost)
        hidden |= moved.differs[0]
        found = _collected(found.joined(moved), unit, hidden, primary, wanted)
    return _shown_again(found, unit, hidden, primary, cost, wanted, kept)


def _left(
    found: Witnesses, unit: DistinctLines, primary: NDArray[np.int64], wanted: Protection
) -> NDArray[np.int64]:
    """The sides (0 above, 1 below) and rows that no witness shows yet, ``(2, missing)``."""
    low, high = found.ends
    missing = wanted.missing(unit.lower, low, high)[:, primary]
    side, at = np.nonzero(missing)
    return np.stack([side, primary[at]])


def _collected(
    found: Witnesses,
    unit: DistinctLines,
    hidden: NDArray[np.bool_],
    primary: NDArray[np.int64],
    wanted: Protection,
) -> Witnesses:
    """More witnesses, until a program for all rows that are missing moves none far enough."""
    targets = wanted.targets(unit.lower)
    targets[1] = np.minimum(unit.lower, wanted.width - wanted.side)  # as far as is of use
    for side, sign in ((0, 1), (1, -1)):
        while True:
            left = _left(found, unit, primary, wanted)
            rows = left[1][left[0] == side]
            if not len(rows):
                break
            more = found.joined(found.moved(unit, hidden, sign, rows, targets[side, rows]))
            if _left(more, unit, primary, wanted).shape == left.shape:
                break
            found = more
    return found


def _shown_again(
    found: Witnesses,
    unit: DistinctLines,
    hidden: NDArray[np.bool_],
    primary: NDArray[np.int64],
    cost: NDArray[np.float64],
    wanted: Protection,
    kept: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """The hidden rows without those that are not needed."""
    others = np.setdiff1d(np.flatnonzero(hidden), kept)
    for c in others[np.argsort(-cost[others], kind="stable")]:
        fewer = hidden.copy()
        fewer[c] = False
        without = _collected(found.without(int(c)), unit, fewer, primary, wanted)
        if not _left(without, unit, primary, wanted).size:
            hidden, found = fewer, without
    return hidden
