"""Units that match linked households: tenure by block is that of its households, and what was not
occupied is vacant.

Where a household moved to a block, a vacant unit leaves it. Vacant units by reason, and rented ones
without payment of cash rent, keep the sums of their block group where blocks have room for them."""

from __future__ import annotations

import numpy as np

from das.link.fields import Ints
from das.model.dhc.units import TENURES, TENVACGQ, VACANCIES
from das.model.histogram import Histogram

_VACANT = slice(len(TENURES), len(TENURES) + len(VACANCIES))
_RENTED, _FREE = 2, 3


def rewritten(units: Histogram, tenure: Ints, group: Ints) -> Histogram:
    """The units of each block. ``tenure``: its linked households by tenure in three classes,
    ``(blocks, 3)``; ``group``: its block group."""
    dense = units.dense()
    out = dense.copy()
    housing = dense[:, : _VACANT.stop].sum(axis=1)
    out[:, :_RENTED] = tenure[:, :_RENTED]
    out[:, _FREE] = shared(dense[:, [_FREE]], tenure[:, 2], group, whole=False)[:, 0]
    out[:, _RENTED] = tenure[:, 2] - out[:, _FREE]
    out[:, _VACANT] = shared(dense[:, _VACANT], housing - tenure.sum(axis=1), group, whole=True)
    block, cell = np.nonzero(out)
    return Histogram.of(units.units, TENVACGQ.cells, block, cell, out[block, cell])


def shared(now: Ints, room: Ints, group: Ints, *, whole: bool) -> Ints:
    """Counts ``now`` by block and class, changed so that each block has at most ``room`` of them
    (``whole``: exactly), ``(blocks, classes)``. What leaves a block goes to blocks of its group
    with room, class by class. What finds none is lost, and what is missing is of the last class."""
    out = now.copy()
    over = np.maximum(out.sum(axis=1) - room, 0)
    moved = np.zeros((int(group.max(initial=0)) + 1, now.shape[1]), dtype=np.int64)
    for b in np.flatnonzero(over).tolist():
        for _ in range(int(over[b])):
            kind = int(np.argmax(out[b]))
            out[b, kind] -= 1
            moved[group[b], kind] += 1
    free = room - out.sum(axis=1)
    for b in np.flatnonzero((free > 0) & (whole | (moved[group].sum(axis=1) > 0))).tolist():
        for _ in range(int(free[b])):
            kind = int(np.argmax(moved[group[b]]))
            if moved[group[b], kind]:
                moved[group[b], kind] -= 1
                out[b, kind] += 1
            elif whole:
                out[b, -1] += 1
    return out
