"""Partners of swapped households nearby: one of the five nearest elsewhere with the same key.

The households that look for a partner do so in the given order. A partner has the same key, has not
moved and is in another place. Each household draws its partner uniformly from the nearest
:data:`CHOICE`, by the coordinates of their places. If none of the :data:`SEARCHED` nearest is free, the
household draws one of all that are; if there is none, it stays.

Source: arXiv 2502.01320 (:mod:`das.protect.rarity`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

#: Households among which a partner is drawn.
CHOICE = 5
#: Nearest households that are looked at before all others are.
SEARCHED = 64


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
    order = np.argsort(key, kind="stable")
    starts = np.searchsorted(key[order], np.unique(key[seekers]))
    ends = np.searchsorted(key[order], np.unique(key[seekers]), side="right")
    for start, end in zip(starts, ends, strict=True):
        members = order[start:end]
        mine = seekers[key[seekers] == key[members[0]]]
        near = (
            KDTree(points[place[members]])
            .query(points[place[mine]], k=min(SEARCHED, len(members)))[1]
            .reshape(len(mine), -1)
        )
        for seeker, found in zip(mine, members[near], strict=True):
            if moved[seeker]:
                continue
            partner = _free(seeker, found, place, moved)[:CHOICE]
            if not len(partner):
                partner = _free(seeker, members, place, moved)
            if len(partner):
                pair = np.array([[seeker, rng.choice(partner)]])
                moved[pair] = True
                out.append(pair)
    return np.concatenate(out)


def _free(
    seeker: int, units: NDArray[np.int64], place: NDArray[np.int64], moved: NDArray[np.bool_]
) -> NDArray[np.int64]:
    return units[~moved[units] & (place[units] != place[seeker])]
