r"""Which household each householder of a block group gets.

An assignment first, by how much householder and household differ. Then two households change places
as long as that lowers

.. math:: \sum_b \sum_f w_f \Bigl| T_{bf} - \sum_{h \in b} F_{hf} \Bigr| + \sum_h c(h, i(h)),

with features :math:`F` of households (members, own children by age, the oldest, ...) and what the
persons of block :math:`b` ask of them, :math:`T`. Gains are computed for all exchanges of one block
at once. Last, sizes change by one where members still do not add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from das.errors import InputError
from das.model.frozen import Frozen
from das.publications.dhc.agreement.counted import (
    MS,
    Floats,
    Ints,
    N,
    age_class,
    race7,
    type_fields,
)
from das.publications.dhc.model.household_types import LARGEST
from das.publications.dhc.model.households import DHCH
from das.publications.dhc.model.members import HEADS, LEVEL, OWN
from das.tools.link.household_pool import Pool
from das.tools.link.people import HomePersons

#: What it costs that a household and its householder differ.
_COUPLE, _ALONE, _SEX, _AGE, _RACE, _ZERO = 60.0, 6.0, 8.0, 2.0, 2.0, 40.0
_FARTHEST = 6
_STEPS = 4000


@dataclass(frozen=True, eq=False)
class Features(Frozen):
    """``of`` households, ``(households, features)``, what blocks want of each feature together,
    ``wanted``, ``(blocks, features)``, and its ``weight``, ``(features,)``. The first is room."""

    of: Floats
    wanted: Floats
    weight: Floats

    def __post_init__(self) -> None:
        if not self.of.shape[1] == self.wanted.shape[1] == len(self.weight):
            raise InputError("features differ in number", where="link")


def features(
    people: HomePersons, other: np.ndarray, pool: Pool, elderly: Ints, blocks: int
) -> Features:
    """What households have and persons ask for. ``other``: who is neither householder nor partner.
    What persons ask is scaled to what the pool has, except the room."""
    t = type_fields()
    k, age, room = pool.kind, people.age, pool.room
    strange = other & (people.relgq >= LEVEL["roommate"])
    own = other & np.isin(people.relgq, OWN)
    pairs: list[tuple[np.ndarray, np.ndarray, float]] = [
        (room, other, 8.0),
        (np.isin(t.own[k], (1, 3)), own & (age < 6), 6.0),
        (np.isin(t.own[k], (2, 3)), own & (age >= 6) & (age < 18), 6.0),
        (room * np.isin(t.own[k], (1, 3)), own & (age < 6), 2.0),
        (room * np.isin(t.own[k], (2, 3)), own & (age >= 6) & (age < 18), 2.0),
        (np.isin(t.children[k], (1, 3)), other & (age < 6), 1.5),
        (np.isin(t.children[k], (2, 3)), other & (age >= 6) & (age < 18), 1.5),
        (room * (t.children[k] == 0), other & (age >= 18), 1.0),
        (room * (t.relatives[k] == 0), strange, 1.0),
        (t.multig[k], other & np.isin(people.relgq, _GENERATIONS), 3.0),
        *((elderly >= i, age >= a, 0.7) for i, a in ((1, 60), (2, 65), (3, 75))),
    ]
    of = np.stack([np.asarray(f, dtype=float) for f, _, _ in pairs], axis=1)
    asked = np.stack(
        [np.bincount(people.block[who], minlength=blocks) for _, who, _ in pairs], axis=1
    ).astype(float)
    scale = of.sum(axis=0) / np.maximum(1, asked.sum(axis=0))
    scale[0] = 1.0
    return Features(of, asked * scale, np.array([w for _, _, w in pairs]))


_GENERATIONS = [LEVEL[x] for x in ("parent", "grandchild", "parent-in-law")]


def differences(
    people: HomePersons, heads: Ints, couple: Ints, pool: Pool, given: Mapping[str, Ints]
) -> Floats:
    """The cost of each household for each householder, ``(households, heads)``. ``couple``: the
    kind that each householder is in; ``given``: attributes of the published households."""
    t = type_fields()
    k = pool.kind[:, None]
    sex, cls = people.sex[heads], age_class(people.age[heads])
    alone = (people.relgq[heads] == HEADS[0]) != (t.size[k] == 1)
    cost = _COUPLE * (t.couple[k] != couple) + _ALONE * alone
    cost = cost + _SEX * (given["sex"][:, None] != sex)
    cost += _AGE * np.minimum(np.abs(given["hhage"][:, None] - cls), _FARTHEST)
    cost += _RACE * (given["hisp"][:, None] != people.hispanic[heads])
    cost += _RACE * (given["race"][:, None] != race7()[people.cenrace[heads]])
    return np.asarray(cost + _ZERO * _never()[sex, cls][:, pool.kind].T)


def _never() -> np.ndarray:
    """Whether householders of a sex and age can have no household of a type, with any other
    members, ``(2, 9, 522)``."""
    possible = np.asarray(DHCH.possible).reshape(DHCH.shape)
    return np.asarray(~possible[:, :, 0, 0, :, 0, :].any(axis=2))


def crowding(people: HomePersons, heads: Ints, other: np.ndarray, pool: Pool) -> Floats:
    """What is taken off the cost of large households where there are many members to a household,
    ``(households, heads)``."""
    blocks = int(people.block.max()) + 1
    members = np.bincount(people.block[other], minlength=blocks)
    homes = np.maximum(1, np.bincount(people.block[heads], minlength=blocks))
    each = (members / homes)[people.block[heads]]
    return np.asarray((pool.room - pool.room.mean())[:, None] * (each - each.mean()))


def assigned(cost: Floats) -> Ints:
    """The household of each householder at least cost, ``(heads,)``."""
    rows, columns = linear_sum_assignment(cost)
    out = np.empty(len(columns), dtype=np.int64)
    out[columns] = rows
    return out


class Exchange:
    """Households that change places between blocks. ``at`` is the household of each householder,
    and ``block`` theirs, both ``(heads,)``; ``couple`` the kind that each householder is in, which
    an exchange never changes.

    Of the households of a block that are alike in all features, one is tried: that which fits its
    householder least."""

    def __init__(self, at: Ints, block: Ints, couple: Ints, cost: Floats, of: Features) -> None:
        self.at, self.block, self.couple, self.cost = at.copy(), block, couple, cost
        self.weight = of.weight.astype(np.float32)
        self.features = of.of.astype(np.float32)
        self.alike = np.unique(of.of, axis=0, return_inverse=True)[1].reshape(-1)
        held = np.zeros_like(of.wanted)
        np.add.at(held, block, of.of[at])
        self.lack = (of.wanted - held).astype(np.float32)
        self.homes = [np.flatnonzero(block == b) for b in range(len(of.wanted))]
        self.tried_of = np.zeros(len(at), dtype=bool)
        for b in range(len(self.homes)):
            self._represent(b)

    def _represent(self, b: int) -> None:
        """Which households of a block are tried."""
        homes = self.homes[b]
        worst = self.cost[self.at[homes], homes]
        key = self.alike[self.at[homes]] * (N + 1) + self.couple[homes]
        order = np.lexsort((-worst, key))
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        self.tried_of[homes] = False
        self.tried_of[homes[order[first]]] = True

    def run(self) -> Ints:
        """Exchange until nothing is gained; the worst block is tried first."""
        tried = np.array([len(h) == 0 for h in self.homes])
        for _ in range(_STEPS):
            badness = np.where(tried, -1.0, np.abs(self.lack) @ self.weight)
            b = int(np.argmax(badness))
            if badness[b] < 0:
                break
            other = self._best(b)
            tried[b] = True
            if other >= 0:
                tried[[b, other]] = False
        return self.at

    def _best(self, b: int) -> int:
        """The best exchange of a block, made if it gains; returns the other block, or -1."""
        mine = self.homes[b][self.tried_of[self.homes[b]]]
        others = np.flatnonzero(self.tried_of & (self.block != b))
        best, pair = -1e-4, None
        for kind in np.unique(self.couple[mine]):
            i, j = mine[self.couple[mine] == kind], others[self.couple[others] == kind]
            if len(i) and len(j):
                gains = self._gains(b, i, j)
                x, y = np.unravel_index(np.argmin(gains), gains.shape)
                if gains[x, y] < best:
                    best, pair = float(gains[x, y]), (int(i[x]), int(j[y]))
        if pair is None:
            return -1
        k, m = pair
        to, moved = int(self.block[m]), self.features[self.at[m]] - self.features[self.at[k]]
        self.lack[b] -= moved
        self.lack[to] += moved
        self.at[k], self.at[m] = self.at[m], self.at[k]
        self._represent(b)
        self._represent(to)
        return to

    def _gains(self, b: int, i: Ints, j: Ints) -> Floats:
        """By how much exchanging each household of ``i`` with each of ``j`` changes the objective,
        ``(i, j)``."""
        at, w = self.at, self.weight
        step = self.features[at[j]][None, :, :] - self.features[at[i]][:, None, :]
        there = self.lack[self.block[j]]
        out = np.abs(self.lack[b] - step) @ w - np.abs(self.lack[b]) @ w
        out += np.abs(np.add(there, step, out=step)) @ w - np.abs(there) @ w
        out += self.cost[np.ix_(at[j], i)].T + self.cost[np.ix_(at[i], j)]
        out -= self.cost[at[j], j][None, :] + self.cost[at[i], i][:, None]
        return np.asarray(out)


def fitted(pool: Pool, at: Ints, block: Ints, others: Ints) -> None:
    """Change sizes until the room of each block's households is its ``others``, ``(blocks,)``."""
    for b in range(len(others)):
        homes = at[block == b]
        if not len(homes):
            continue
        while gap := int(others[b] - pool.room[homes].sum()):
            if not pool.resize(homes, int(np.sign(gap)), abs(gap)):
                _widen(pool, homes, gap)


def _widen(pool: Pool, homes: Ints, gap: int) -> None:
    """What no change of size by one gives: the largest households share it. Raises
    :class:`InputError` where there is less than no room, which would be a contradiction: all could
    be of one or two."""
    if gap < 0 or type_fields().size[pool.kind[homes]].max() < LARGEST:
        raise InputError("a block's households cannot hold its persons", where="link")
    pool.widen(homes, gap)


def couple_index(relgq: Ints) -> Ints:
    """The kind of couple of a partner with a relationship: an index of ``COUPLES``."""
    of = {
        LEVEL["opposite-sex-spouse"]: 0,
        LEVEL["same-sex-spouse"]: MS,
        LEVEL["opposite-sex-partner"]: 2,
        LEVEL["same-sex-partner"]: 3,
    }
    return np.array([of.get(int(r), N) for r in relgq], dtype=np.int64)
