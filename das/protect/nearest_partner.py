"""Partners of swapped households nearby: one of the five nearest elsewhere with the same key.

The households that look for a partner do so in the given order. A partner has the same key, has not
moved and is in another place. Each household draws its partner uniformly from the nearest
:data:`CHOICE`, by the coordinates of their places; among those in one place, which are nearest is
drawn, too. If the :data:`SEARCHED` nearest places have nobody, the household draws one of all that
are free; if there is none, it stays.

Source: arXiv 2502.01320 (:mod:`das.protect.rarity`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

#: Households among which a partner is drawn.
CHOICE = 5
#: Nearest places that are searched before all others are.
SEARCHED = 32


def nearest_pairs(
    seekers: NDArray[np.int64],
    key: NDArray[np.int64],
    place: NDArray[np.int64],
    points: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """The pairs, ``(pairs, 2)``. ``seekers``: the units that look, in order; ``key`` and ``place``
    of each unit; ``points``: the coordinates of each place."""
    moved = np.zeros(len(key), dtype=bool)
    out = [np.zeros((0, 2), dtype=np.int64)]
    order = np.lexsort((rng.random(len(key)), place, key))
    for wanted in np.unique(key[seekers]):
        start, end = np.searchsorted(key[order], [wanted, wanted + 1])
        members = order[start:end]
        mine = seekers[key[seekers] == wanted]
        there, first = np.unique(place[members], return_index=True)
        homes = np.split(members, first[1:])
        near = KDTree(points[there]).query(points[place[mine]], k=min(SEARCHED, len(there)))[1]
        for seeker, found in zip(mine.tolist(), near.reshape(len(mine), -1), strict=True):
            if moved[seeker]:
                continue
            free = _nearest(place[seeker], found, there, homes, moved)
            if not len(free):
                free = members[~moved[members] & (place[members] != place[seeker])]
            if len(free):
                pair = np.array([[seeker, rng.choice(free)]])
                moved[pair] = True
                out.append(pair)
    return np.concatenate(out)


def _nearest(
    here: int,
    found: NDArray[np.int64],
    there: NDArray[np.int64],
    homes: list[NDArray[np.int64]],
    moved: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """The nearest free members, :data:`CHOICE` at most, in places found near ``here``."""
    out = np.zeros(0, dtype=np.int64)
    for at in found:
        if there[at] != here:
            out = np.concatenate([out, homes[at][~moved[homes[at]]]])
        if len(out) >= CHOICE:
            break
    return out[:CHOICE]
