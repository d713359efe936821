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
from functools import cache

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
from das.publications.dhc.model.households import ATTRIBUTE, DHCH, LARGEST, TENURE
from das.publications.dhc.model.members import HEADS, LEVEL, OWN, PARENTS, PARTNERS, type_numbers
from das.tools.link.members import possible_ages
from das.tools.link.people import AGES, MEMBERS, RELATIONS, HomePersons, age_classes

# The households of a block group as a pool that its persons can fill: as many couples of each
# kind, persons living alone, and members, and no more room of nonfamilies than nonrelatives.
#
# What is wrong is repaired by the smallest change of type. How far two types are apart weighs their
# fields by how well the file measures them.

#: Of the fields of a type, what it costs that they differ; of size, for each person.
_WEIGHTS = {
    "couple": 10.0,
    "size": 4.0,
    "own": 5.0,
    "multig": 3.0,
    "relatives": 2.0,
    "children": 1.5,
    "minor": 1.0,
}
#: The most persons that a household of 7 or more can have above 7.
EXTRA = 3
_FAR = 1e6


@cache
def distances() -> Floats:
    """How far every two types are apart, ``(522, 522)``."""
    t = type_fields()
    out = np.zeros((len(t.size), len(t.size)))
    for name, weight in _WEIGHTS.items():
        field = getattr(t, name)
        apart = np.abs(field[:, None] - field[None, :])
        out += weight * (apart if name == "size" else apart > 0)
    return out


def nearest(kind: Ints, allowed: np.ndarray) -> tuple[Ints, Floats]:
    """For each of some types the nearest of those ``allowed``, ``(522,)`` or ``(types, 522)``, and
    how far it is; ``_FAR`` where none is."""
    far = np.where(allowed, distances()[kind], _FAR)
    best = np.argmin(far, axis=1)
    return best, far[np.arange(len(kind)), best]


@dataclass(frozen=True, eq=False)
class PoolTargets(Frozen):
    """What the persons of a block group ask of its households: ``couples`` of each of four kinds,
    householders living ``alone``, ``others`` besides householders and partners, and the
    ``strangers`` among them."""

    couples: Ints
    alone: int
    others: int
    strangers: int

    def __post_init__(self) -> None:
        if self.couples.min() < 0 or min(self.alone, self.others, self.strangers) < 0:
            raise InputError("a negative count of persons", where="link")


class Pool:
    """Households while they are repaired: ``kind`` is their type, and ``extra`` the persons of one
    of 7 or more beyond the seventh; each ``(households,)``. ``jitter`` decides between equal
    changes."""

    def __init__(self, kind: Ints, jitter: Floats) -> None:
        self.kind, self.jitter = kind.copy(), jitter
        self.extra = np.zeros_like(kind)

    @property
    def room(self) -> Ints:
        """Persons besides householder and partner."""
        return type_fields().room[self.kind] + self.extra

    def repair(self, targets: PoolTargets) -> None:
        """Raises :class:`InputError` where no households can hold these persons."""
        self._couples(targets.couples)
        self._alone(targets.alone)
        self.families(targets.strangers)
        self._room(targets.others)

    def _change(self, where: Ints, allowed: np.ndarray, many: int) -> int:
        """Change ``many`` of the households ``where`` to the nearest allowed types; returns how
        many it were."""
        best, far = nearest(self.kind[where], allowed)
        order = np.argsort(far + self.jitter[where], kind="stable")[:many]
        order = order[far[order] < _FAR]
        self.kind[where[order]] = best[order]
        self.extra[where[order]] *= type_fields().size[best[order]] == LARGEST
        return len(order)

    def _couples(self, wanted: Ints) -> None:
        t = type_fields()
        goal = np.append(wanted, len(self.kind) - wanted.sum())
        if goal[N] < 0:
            raise InputError("more couples than households", where="link")
        for kind in np.argsort(goal - np.bincount(t.couple[self.kind], minlength=N + 1)):
            now = np.bincount(t.couple[self.kind], minlength=N + 1)
            short = int(goal[kind] - now[kind])
            if short > 0:
                spare = now - goal
                for other in np.argsort(-spare):
                    if spare[other] > 0 and short > 0:
                        where = np.flatnonzero(t.couple[self.kind] == other)
                        take = int(min(short, spare[other]))
                        short -= self._change(where, t.couple == kind, take)

    def _alone(self, wanted: int) -> None:
        t = type_fields()
        alone = (t.couple == N) & (t.size == 1)
        several = (t.couple == N) & (t.size > 1)
        gap = wanted - int(alone[self.kind].sum())
        where = np.flatnonzero((several if gap > 0 else alone)[self.kind])
        self._change(where, alone if gap > 0 else several, abs(gap))

    def families(self, strangers: int) -> None:
        """Nonfamilies have no more room than there are nonrelatives."""
        t = type_fields()
        while True:
            apart = (t.relatives[self.kind] == 0) & (t.room[self.kind] > 0)
            over = int(t.room[self.kind][apart].sum()) - strangers
            where = np.flatnonzero(apart)
            if over <= 0 or not len(where):
                return
            many = max(1, int(over / max(1.0, t.room[self.kind][where].mean())))
            same = (t.size[None, :] == t.size[self.kind[where]][:, None]) & (t.relatives == 1)
            same &= t.couple[None, :] == t.couple[self.kind[where]][:, None]
            if not self._change(where, same, many):
                return

    def _room(self, others: int) -> None:
        gap = others - int(self.room.sum())
        large = np.flatnonzero(type_fields().size[self.kind] == LARGEST)
        for _ in range(EXTRA):
            take = large[np.argsort(self.jitter[large], kind="stable")][: max(0, gap)]
            self.extra[take] += 1
            gap -= len(take)
        while gap := others - int(self.room.sum()):
            if not self.resize(np.arange(len(self.kind)), int(np.sign(gap)), abs(gap)):
                self._stretch(gap)

    def _stretch(self, gap: int) -> None:
        if gap < 0 or not len(self.kind):
            raise InputError("more room in households than persons", where="link")
        sizes = type_fields().size[self.kind]
        if sizes.max() < LARGEST:
            large = np.argmax(sizes)
            self.kind[large] = nearest(self.kind[[large]], self._grown(LARGEST))[0][0]
        self.widen(np.arange(len(self.kind)), gap)

    def widen(self, where: Ints, gap: int) -> None:
        """The largest of some households share ``gap`` persons more."""
        large = where[type_fields().size[self.kind[where]] == LARGEST]
        self.extra[large] += gap // len(large)
        self.extra[large[: gap % len(large)]] += 1

    def _grown(self, size: int) -> np.ndarray:
        return np.asarray(type_fields().size == size)

    def resize(self, where: Ints, step: int, many: int) -> int:
        """Give ``many`` of some households one person more (``step`` 1) or less, at most once
        each, those first whose type changes least; returns how many it were."""
        t = type_fields()
        kind = self.kind[where]
        largest, extra = t.size[kind] == LARGEST, self.extra[where]
        open_ended = largest & (extra < EXTRA if step > 0 else extra > 0)
        same = t.couple[None, :] == t.couple[kind][:, None]
        best, far = nearest(kind, same & (t.size[None, :] == t.size[kind][:, None] + step))
        # living alone is measured well
        far = far + np.where((t.size[kind] == 1) | (t.size[best] == 1), 8.0, 0.0)
        far = np.where(open_ended, 20.0 if step > 0 else 5.0, far)
        order = np.argsort(far + 3 * self.jitter[where], kind="stable")[:many]
        order = order[far[order] < _FAR]
        chosen, opened = where[order], open_ended[order]
        self.extra[chosen[opened]] += step
        self.kind[chosen[~opened]] = best[order][~opened]
        self.extra[chosen[~opened]] = 0
        return len(chosen)


# Households by what their members add up to: counts from which type, oldest, and size follow, so
# that a change of members changes them by a sum.

#: What is counted: members by what they are to the householder, minors who are neither householder
#: nor partner, the old, everyone, partners of four kinds, and minors who are one of those two.
(OWN6, OWN17, GROWN, PARENT, GRAND, KIN, STRANGER, CHILD6, CHILD17, OLD60, OLD65, OLD75, SIZE) = (
    range(13)
)
PARTNER = slice(13, 17)
YOUNG = 17
COUNTED = 18
_IN_LAW, _GRANDCHILD = LEVEL["child-in-law"], LEVEL["grandchild"]


@cache
def contributions() -> Ints:
    """What a person adds, by relationship and class of age, ``(RELATIONS, classes, COUNTED)``."""
    out = np.zeros((RELATIONS, len(AGES) + 1, COUNTED), dtype=np.int64)
    starts = np.array([0, *AGES])
    out[..., SIZE] = 1
    for column, age in ((OLD60, 60), (OLD65, 65), (OLD75, 75)):
        out[:, starts >= age, column] = 1
    minor = starts < 18
    for r in range(RELATIONS):
        if r in HEADS or r in PARTNERS:
            out[r, minor, YOUNG] = 1
            if r in PARTNERS:
                out[r, :, 13 + PARTNERS.index(r)] = 1
            continue
        out[r, starts < 6, CHILD6] = 1
        out[r, minor & (starts >= 6), CHILD17] = 1
        if r in OWN:
            out[r, starts < 6, OWN6] = 1
            out[r, minor & (starts >= 6), OWN17] = 1
            out[r, ~minor, GROWN] = 1
        else:
            out[r, :, _column(r)] = 1
    return out


def _column(relation: int) -> int:
    if relation in PARENTS:
        return PARENT
    if relation == _IN_LAW:
        return GROWN
    if relation == _GRANDCHILD:
        return GRAND
    return KIN if relation < LEVEL["roommate"] else STRANGER


@cache
def possible_labels() -> np.ndarray:
    """Whether persons of an age can have a relationship, ``(RELATIONS, ages)``: as in ``dhcp``, and
    children-in-law are grown up."""
    out = possible_ages()[:RELATIONS].copy()
    out[_IN_LAW, :18] = False
    return out


@dataclass(frozen=True, eq=False)
class HeadLevels(Frozen):
    """What each person would give a household as its householder: ``sex``, class of age, origin and
    race, ``(persons,)``, as in ``dhch``."""

    sex: Ints
    hhage: Ints
    hisp: Ints
    race: Ints

    @staticmethod
    def from_people(people: HomePersons) -> HeadLevels:
        """Nobody under 15 can be one; their class is the first."""
        return HeadLevels(
            people.sex,
            np.maximum(age_class(people.age), 0),
            people.hispanic,
            race7()[people.cenrace],
        )


def counted(people: HomePersons, household: Ints, homes: int) -> Ints:
    """``(homes, COUNTED)``."""
    out = np.zeros((homes, COUNTED), dtype=np.int64)
    np.add.at(out, household, contributions()[people.relgq, age_classes(people.age)])
    return out


def attributes(
    counts: Ints, levels: HeadLevels, head: Ints, tenure: Ints
) -> tuple[Mapping[str, Ints], np.ndarray]:
    """The attributes of ``dhch`` of households and their true size, and whether there can be such. ``counts``,
    ``(..., COUNTED)``; the numbers of their householders, ``head``, and ``tenure`` broadcast to
    ``(...)``."""
    n = np.ascontiguousarray(np.moveaxis(counts, -1, 0))
    some = n > 0
    partner = some[PARTNER]
    couple = np.where(partner.any(axis=0), np.argmax(partner, axis=0), len(PARTNERS))
    own = some[OWN6] + 2 * some[OWN17]
    child = some[CHILD6] + 2 * some[CHILD17]
    second = some[OWN6] | some[OWN17] | some[GROWN]
    related = second | some[PARENT] | some[GRAND] | some[KIN] | (couple < 2)
    generations = second.astype(np.int64) + some[PARENT] + some[GRAND]
    fields = (
        couple,
        related.astype(np.int64),
        own,
        child,
        ((child > 0) | some[YOUNG]).astype(np.int64),
        (generations >= 2).astype(np.int64),
        np.minimum(n[SIZE], 7),
    )
    kind = np.take(type_numbers(), np.ravel_multi_index(fields, type_numbers().shape))
    of = {
        "sex": np.broadcast_to(levels.sex[head], kind.shape),
        "hhage": np.broadcast_to(levels.hhage[head], kind.shape),
        "hisp": np.broadcast_to(levels.hisp[head], kind.shape),
        "race": np.broadcast_to(levels.race[head], kind.shape),
        "elderly": some[OLD60].astype(np.int64) + some[OLD65] + some[OLD75],
        TENURE.name: np.broadcast_to(tenure, kind.shape),
        ATTRIBUTE: np.maximum(kind, 0),
        MEMBERS: n[SIZE],
    }
    cell = np.ravel_multi_index(tuple(of[a.name] for a in DHCH.attributes), DHCH.shape)
    able = (kind >= 0) & possible_cells()[cell] & (n[PARTNER].sum(axis=0) <= 1)
    return of, able


@cache
def possible_cells() -> np.ndarray:
    return np.asarray(DHCH.possible)


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

    def __init__(
        self, at: Ints, block: Ints, couple: Ints, cost: Floats, features: Features
    ) -> None:
        self.at, self.block, self.couple, self.cost = at.copy(), block, couple, cost
        self.weight = features.weight.astype(np.float32)
        self.features = features.of.astype(np.float32)
        self.alike = np.unique(features.of, axis=0, return_inverse=True)[1].reshape(-1)
        held = np.zeros_like(features.wanted)
        np.add.at(held, block, features.of[at])
        self.lack = (features.wanted - held).astype(np.float32)
        self.homes = [np.flatnonzero(block == b) for b in range(len(features.wanted))]
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
        out += self.cost[at[j], i[:, None]] + self.cost[at[i][:, None], j]
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
