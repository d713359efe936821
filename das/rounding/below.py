"""What lies below a unit and must be fillable from it: its descendants with known totals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from das.model.constraint import MOST_GROUPS, Bounds
from das.model.level_bounds import LevelBounds
from das.model.spine import Spine


def descendants(
    spine: Spine, bounds: Mapping[str, LevelBounds], level: str, start: int, stop: int
) -> tuple[NDArray[np.int64], Bounds] | None:
    """As :func:`below`; also ``None`` where the units' own bounds and totals say as much."""
    if bounds[level].exact or (bounds[level].reach is None and bounds[level].groups <= MOST_GROUPS):
        return None
    return below(spine, bounds, level, start, stop)


def below(
    spine: Spine, bounds: Mapping[str, LevelBounds], level: str, start: int, stop: int
) -> tuple[NDArray[np.int64], Bounds] | None:
    """The units with known totals, or parts with joint totals, under units ``start:stop`` of
    ``level``: whose each is (from 0, increasing), and their bounds. ``None`` at and below the
    lowest level with known totals."""
    known = [lv for lv in spine.levels if bounds[lv].known]
    if not known or spine.index(level) >= spine.index(known[-1]):
        return None
    home = spine.up(known[-1], level)
    a, b = np.searchsorted(home, [start, stop])
    low, home = bounds[known[-1]].rows(int(a), int(b)), home[a:b] - start
    if low.joint is None:
        return home, low
    of_part = np.zeros(len(low.joint.total), dtype=np.int64)
    of_part[low.joint.part] = home
    order = np.argsort(of_part, kind="stable")
    return of_part[order], low.by_part().some(order)
