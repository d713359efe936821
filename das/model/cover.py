"""Places as the fewest units of a tree that make them up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.model.spine import Spine

Ints = NDArray[np.int64]
#: The place of units that lie in none, or in several.
NOWHERE = -1


@dataclass(frozen=True, eq=False)
class Cover(Frozen):
    """Unit ``unit[i]`` of level number ``depth[i]`` lies in place ``place[i]``, as does nothing
    above it that counts. In the order of the places; each place is the disjoint union of its
    units."""

    place: Ints
    depth: Ints
    unit: Ints

    @staticmethod
    def of(
        spine: Spine, home: Ints, counts: Callable[[str], NDArray[np.bool_]] | None = None
    ) -> Cover:
        """``home`` ``(lowest units,)``: the place that each lies in, or :data:`NOWHERE`. One pass
        up the tree: a unit lies in a place if all its children do. ``counts``: by level, which
        units can be taken, such as those that are measured, ``(units,)``; the lowest ones always
        can. Without it all can."""
        homes = [np.asarray(home, dtype=np.int64)]
        for depth in range(len(spine) - 1, 0, -1):
            starts = spine.children(spine.levels[depth])[:-1]
            low, high = np.minimum.reduceat(homes[0], starts), np.maximum.reduceat(homes[0], starts)
            homes.insert(0, np.where(low == high, low, NOWHERE))
        parts, taken = [], np.zeros(1, dtype=bool)
        for depth, (here, parent) in enumerate(zip(homes, spine.parent, strict=True)):
            above = taken[parent]
            whole = (here >= 0) & ~above
            if counts is not None and depth + 1 < len(spine):
                whole &= counts(spine.levels[depth])
            unit, taken = np.flatnonzero(whole), whole | above
            parts.append((here[unit], np.full(len(unit), depth), unit))
        place, level, unit = (np.concatenate(x) for x in zip(*parts, strict=True))
        order = np.argsort(place, kind="stable")
        return Cover(place[order], level[order], unit[order])

    def some(self, places: Ints) -> Cover:
        """The cover of some places, renumbered in the given order."""
        first, last = (np.searchsorted(self.place, places, side) for side in ("left", "right"))
        count = last - first
        here = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
        number = np.repeat(np.arange(len(places)), count)
        return Cover(number, self.depth[here], self.unit[here])

    def first(self, places: int) -> tuple[Ints, Ints]:
        """The level and the number of the first unit of each of ``places`` places, ``(places,)``
        each; -1 for a place without units."""
        there, at = np.unique(self.place, return_index=True)
        depth, unit = np.full(places, NOWHERE), np.full(places, NOWHERE)
        depth[there], unit[there] = self.depth[at], self.unit[at]
        return depth, unit
