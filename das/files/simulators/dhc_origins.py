"""Which person of the block is which member of a simulated household: origin and race, mostly those
of the householder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.files.simulators.people import Ints

# : how often a member is to be of the householder's origin and race, if the block still has such a
# person
KINSHIP = 0.9
ORIGINS = 2 * 63


def assign(
    rng: np.random.Generator,
    household: Ints,
    group: Ints,
    head: NDArray[np.bool_],
    persons: tuple[Ints, Ints],
) -> Ints:
    """Each member's ``hispanic 63 + cenrace``, ``(members,)``.

    ``group`` is the block and voting age of each member; ``persons`` has the same and the origin of
    each person of the blocks, in any order. Every person is taken once, so each group has the
    members that it must have. Householders are drawn at random from their group. A share
    ``KINSHIP`` of the others look for a person like their householder, first come, first served, in
    random order. The rest get the remaining persons."""
    order, pool = by_group(rng, persons[0]), np.argsort(2 * group + ~head, kind="stable")
    out = np.empty(len(group), dtype=np.int64)
    out[pool] = persons[1][order]
    of_head = np.empty(int(household[-1]) + 1 if len(household) else 0, dtype=np.int64)
    of_head[household[head]] = out[head]
    rest = pool[~head[pool]]
    if not len(rest):
        return out
    there = np.sort(group[rest] * ORIGINS + out[rest])
    kin = rest[rng.random(len(rest)) < KINSHIP]
    wanted = group[kin] * ORIGINS + of_head[household[kin]]
    queue = by_group(rng, wanted)
    kin, wanted = kin[queue], wanted[queue]
    taken = np.searchsorted(there, wanted) + np.arange(len(kin)) - np.searchsorted(wanted, wanted)
    found = taken < np.searchsorted(there, wanted, side="right")
    out[kin[found]] = wanted[found] % ORIGINS
    left = np.ones(len(rest), dtype=bool)
    left[taken[found]] = False
    over = there[left][by_group(rng, there[left] // ORIGINS)] % ORIGINS
    waiting = np.ones(len(group), dtype=bool)
    waiting[head] = waiting[kin[found]] = False
    last = np.flatnonzero(waiting)
    out[last[np.argsort(group[last], kind="stable")]] = over
    return out


def by_group(rng: np.random.Generator, group: Ints) -> Ints:
    """An order by group, at random within."""
    return np.argsort(group + rng.random(len(group)), kind="stable")
