r"""Occupied units that persons do not contradict.

In a block with :math:`n` persons at home, :math:`a` of them of 15 and over, and :math:`u` housing
units, the occupied units must be

.. math:: [n > 0] \le o \le \min(a, u).

Published counts violate it, because persons and units are measured apart. :func:`consistent` moves
each count into its interval, and keeps the sum of every block group where its intervals hold it:
the difference goes, a household at a time, where persons per household are furthest off."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from das.errors import InputError
from das.link.fields import Ints
from das.model.frozen import Frozen


@dataclass(frozen=True, eq=False)
class OccupiedBounds(Frozen):
    """``lower`` and ``upper`` by block, each ``(blocks,)``."""

    lower: Ints
    upper: Ints

    def __post_init__(self) -> None:
        if (self.lower > self.upper).any():
            block = int(np.argmax(self.lower > self.upper))
            raise InputError(
                f"a block has at least {self.lower[block]} and at most {self.upper[block]}"
                " occupied units",
                where=f"block {block}",
            )

    @staticmethod
    def of(home: Ints, able: Ints, housing: Ints) -> OccupiedBounds:
        """From persons at home, those of them who are or may be 15 and over, and housing units. A
        block with persons keeps one household, also where nobody is 15."""
        lower = (home > 0).astype(np.int64)
        return OccupiedBounds(lower, np.maximum(lower, np.minimum(able, housing)))

    def broken(self, occupied: Ints) -> np.ndarray:
        """The blocks whose occupied units are outside, ``(blocks,)``."""
        return np.asarray((occupied < self.lower) | (occupied > self.upper))


def consistent(occupied: Ints, home: Ints, bounds: OccupiedBounds, group: Ints) -> Ints:
    """The nearest counts inside the bounds, ``(blocks,)``; ``group`` numbers the block groups. The
    sum of a group is kept where its bounds allow, otherwise it is the nearest that they do.

    >>> n, able, occ = (np.array(x) for x in ([0, 5, 3, 10, 2], [0, 4, 1, 8, 0], [2, 0, 3, 4, 1]))
    >>> bounds = OccupiedBounds.of(n, able, np.full(5, 20))
    >>> consistent(occ, n, bounds, np.zeros(5, dtype=int)).tolist()
    [0, 3, 1, 5, 1]
    """
    out = np.clip(occupied, bounds.lower, bounds.upper)
    for g in np.unique(group[bounds.broken(occupied)]):
        here = np.flatnonzero(group == g)
        gap = int(occupied[here].sum() - out[here].sum())
        _moved(out, home, bounds, here, gap)
    return out


def _moved(out: Ints, home: Ints, bounds: OccupiedBounds, here: Ints, gap: int) -> None:
    """Add ``gap`` households to blocks of a group, or take them away, where persons per household
    are most, or least."""
    sign = 1 if gap > 0 else -1

    def key(b: int) -> float:
        return -sign * home[b] / max(1, out[b])

    def open_to(b: int) -> bool:
        return bool(out[b] < bounds.upper[b] if sign > 0 else out[b] > bounds.lower[b])

    queue = [(key(b), b) for b in here.tolist() if open_to(b)]
    heapify(queue)
    while gap and queue:
        _, b = heappop(queue)
        out[b] += sign
        gap -= sign
        if open_to(b):
            heappush(queue, (key(b), b))
