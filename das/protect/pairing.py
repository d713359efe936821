r"""Who exchanges places with whom: random pairs with the same key, near before far.

A household has a *key*: its profile and its number of persons, altered by -1, 0 or 1 with the
probabilities ``size_noise``. It looks for a partner from a unit of the first of the ``levels``: its
own with probability ``reach[0]``. With probability ``reach[k]`` it is sent elsewhere: the units of
those sent so far are permuted at random within each unit of ``levels[k]``. Those with the same key
and unit are paired at random. Those without a partner are paired within the unit of the next level
above, and so on up. The last stay without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from das.model.spine import Spine
from das.protect.swap_units import SwapUnits


def paired(
    units: SwapUnits,
    chosen: NDArray[np.int64],
    spine: Spine,
    levels: Sequence[str],
    reach: Sequence[float],
    size_noise: Sequence[float],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Pairs of the ``chosen`` units, ``(pairs, 2)``."""
    size = units.size[chosen] + rng.choice([-1, 0, 1], size=len(chosen), p=size_noise)
    search = _search(units.place[chosen], spine, levels, reach, rng)
    profile, left, out = units.profile[chosen], np.arange(len(chosen)), []
    for level in levels:
        area = spine.up(levels[0], level)[search[left]]
        keys = np.stack([area, size[left], profile[left]])
        group = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
        out.append(left[pairs(group, rng)])
        left = np.setdiff1d(left, out[-1])
    return chosen[np.concatenate(out)]


def _search(
    place: NDArray[np.int64],
    spine: Spine,
    levels: Sequence[str],
    reach: Sequence[float],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """The unit of ``levels[0]`` where each looks for its partner."""
    out = spine.up(spine.levels[-1], levels[0])[place]
    group = rng.choice(len(reach), size=len(place), p=reach)
    for k in range(1, len(reach)):
        mine = np.flatnonzero(group == k)
        within = spine.up(levels[0], levels[k])[out[mine]]
        there = mine[np.lexsort((rng.random(len(mine)), within))]
        here = mine[np.argsort(within, kind="stable")]
        out[here] = out[there]
    return out


def pairs(group: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Random pairs within groups: positions in ``group``, ``(pairs, 2)``. One of each group of odd
    size has no partner."""
    order = np.lexsort((rng.random(len(group)), group))
    new = np.diff(group[order], prepend=-1) != 0
    start = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    first = np.flatnonzero((np.arange(len(order)) - start) % 2 == 0)
    first = first[first + 1 < len(order)]
    first = first[group[order[first]] == group[order[first + 1]]]
    return np.stack([order[first], order[first + 1]], axis=1)
