"""Who lives where: persons who are neither householders nor partners take the places of their
block's households, by an assignment in each block.

A person fits a place by age, by relationship, by the difference of ages to the householder, and by
origin and race. Weights of age are larger than all others together, because ages are published and
relationships can be exchanged afterwards (:mod:`das.tools.link.relationships`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import linear_sum_assignment

from das.errors import InputError, SolverError
from das.model.frozen import Frozen
from das.publications.dhc.agreement.counted import Floats, Ints, age_class, race7, type_fields
from das.publications.dhc.model.members import (
    ADULT,
    HEADS,
    LEVEL,
    OWN,
    PARENTS,
    PARTNERS,
    LinkedPersons,
)
from das.publications.dhc.model.persons import DHCP
from das.solve.network import Flow
from das.tools.link.people import (
    CHILD6,
    CHILD17,
    FREE,
    GENERATION,
    GRAND6,
    GRAND17,
    GROWN,
    KINDS,
    OWN6,
    OWN17,
    RELATIVE,
    STRANGER,
    HomePersons,
    Trust,
    expanded,
)

#: Classes of relationships: own children, parents, grandchildren, children-in-law, other
#: relatives, nonrelatives.
OWNS, PARENT_LIKE, GRANDS, IN_LAWS, KIN, STRANGERS = range(6)
#: Ages where classes begin: under 6, 6 to 17, 18 to 29, 30 and over.
_AGES = (6, 18, 30)
_WRONG_AGE, _WRONG_RELATION = 12.0, 3.0
_AGES_OF: Mapping[int, tuple[float, float, float, float]] = {
    OWN6: (0, 12, 24, 30),
    OWN17: (12, 0, 18, 30),
    CHILD6: (0, 12, 24, 30),
    CHILD17: (12, 0, 18, 24),
    GRAND6: (0, 12, 18, 30),
    GRAND17: (12, 0, 12, 30),
    GENERATION: (8, 8, 6, 0),
    GROWN: (24, 18, 0, 0),
    RELATIVE: (2, 2, 0, 0),
    STRANGER: (2, 2, 0, 0),
    FREE: (0, 0, 0, 0),
}
_RELATIONS_OF: Mapping[int, tuple[float, ...]] = {
    OWN6: (0, 3, 2, 3, 3, 3),
    OWN17: (0, 3, 2, 3, 3, 3),
    CHILD6: (5, 3, 0, 3, 0, 0),
    CHILD17: (5, 3, 0, 3, 0, 0),
    GRAND6: (4, 5, 0, 5, 3, 4),
    GRAND17: (4, 5, 0, 5, 3, 4),
    GENERATION: (8, 0, 2, 8, 8, 8),
    GROWN: (0, 3, 3, 1, 3, 3),
    RELATIVE: (0, 0, 0, 0, 0, 3),
    STRANGER: (3, 3, 3, 3, 3, 0),
    FREE: (0, 3, 2, 0, 0, 0.2),
}


@dataclass(frozen=True, eq=False)
class Filled(Frozen):
    """``household`` of each person, ``(persons,)``, and the kind of ``place`` that they take, -1
    for householders and partners."""

    household: Ints
    place: Ints


@cache
def relation_class() -> Ints:
    """The class of each relationship."""
    out = np.full(LEVEL["other-nonrelative"] + 1, KIN, dtype=np.int64)
    out[list(OWN)], out[list(PARENTS)] = OWNS, PARENT_LIKE
    out[LEVEL["grandchild"]], out[LEVEL["child-in-law"]] = GRANDS, IN_LAWS
    out[LEVEL["roommate"] :] = STRANGERS
    return out


@cache
def _tables() -> tuple[Floats, Floats]:
    """Costs by kind of place and class of age, and by kind and class of relationship."""
    ages = np.array([_AGES_OF[k] for k in range(KINDS)], dtype=float)
    return ages, np.array([_RELATIONS_OF[k] for k in range(KINDS)], dtype=float)


def filled(
    people: HomePersons,
    head: Ints,
    household: Ints,
    kind: Ints,
    room: Ints,
    elderly: Ints,
    trust: Trust,
) -> Filled:
    """The household of everyone. ``household`` is that of householders and partners, and -1 of all
    others; households have a householder, ``head``, a type, ``kind``, ``room`` and the class of
    their oldest, ``elderly``, each ``(households,)``. Raises :class:`InputError` where a block's
    room is not its persons."""
    out, place = household.copy(), np.full(len(people), -1, dtype=np.int64)
    others = np.flatnonzero(household < 0)
    home, kinds = expanded(kind, room)
    where = people.block[head[home]]
    person = others[np.argsort(people.block[others], kind="stable")]
    slot = np.argsort(where, kind="stable")
    if not np.array_equal(people.block[person], where[slot]):
        raise InputError("a block has other persons than room for them", where="link")
    cuts = np.flatnonzero(np.diff(where[slot])) + 1
    for p, s in zip(np.split(person, cuts), np.split(slot, cuts), strict=True):
        if not len(p):
            continue
        cost = _cost(people, p, head[home[s]], kinds[s], kind[home[s]], elderly[home[s]], trust)
        rows, columns = linear_sum_assignment(cost)
        out[p[rows]], place[p[rows]] = home[s[columns]], kinds[s[columns]]
    return Filled(out, place)


def _cost(
    people: HomePersons, p: Ints, head: Ints, place: Ints, kind: Ints, elderly: Ints, trust: Trust
) -> Floats:
    """The cost of each person in each place, ``(persons, places)``."""
    ages, relations = _tables()
    age = people.age[p]
    band, cls = np.searchsorted(_AGES, age, side="right"), relation_class()[people.relgq[p]]
    cost = ages[place][:, band].T + relations[place][:, cls].T
    gap = people.age[head][None, :] - age[:, None]  # how much younger than the householder
    cost += _generations(place[None, :], gap, cls[:, None])
    # most persons of 18 to 29 are children of a householder
    free = np.isin(place, (FREE, GROWN, RELATIVE))
    young = ((age >= 18) & (age < 30))[:, None] & free
    cost += young * (3.0 * (gap < 16) + 0.1 * np.maximum(16 - gap, 0))
    # leave places that children could have
    other = ((age >= 30) & np.isin(cls, (KIN, STRANGERS, PARENT_LIKE)))[:, None] & free
    cost += 1.5 * other * (gap >= 16)
    cost += 0.6 * (people.hispanic[p][:, None] != people.hispanic[head][None, :])
    cost += 0.6 * (people.cenrace[p][:, None] != people.cenrace[head][None, :])
    t = type_fields()
    own, children = t.own[kind][None, :], t.children[kind][None, :]
    small, minor = (age < 6)[:, None], (age < 18)[:, None]
    bit = np.where(small, 1, 2)
    cost += trust.children * (minor & (children & bit == 0))
    # an own child would add to a household's own children
    cost += 4.0 * (minor & (cls == OWNS)[:, None] & (own & bit == 0))
    oldest = np.searchsorted((60, 65, 75), age, side="right")[:, None]
    cost += trust.elderly * (oldest > elderly[None, :])
    return cost


def _generations(place: Ints, gap: Ints, cls: Ints) -> Floats:
    """What differences of age cost: own children are 16 to 45 years younger than the householder,
    parents as much older, grandchildren 36 years younger at least. Children who are less than 15
    years younger, and parents who are less than 15 years older, cost most."""
    child = np.isin(place, (OWN6, OWN17, GROWN)) | ((place == FREE) & (cls == OWNS))
    parent = ((place == GENERATION) | (place == FREE)) & (cls == PARENT_LIKE)
    grand = np.isin(place, (GRAND6, GRAND17)) | ((place == FREE) & (cls == GRANDS))
    cost = child * (0.1 * np.abs(gap - 28) + 1.0 * np.maximum(16 - gap, 0))
    cost = cost + 3.0 * (child * np.maximum(15 - gap, 0) + parent * np.maximum(15 + gap, 0))
    cost = cost + child * 0.3 * np.maximum(gap - 45, 0)
    cost += parent * (0.5 * np.maximum(16 + gap, 0))
    return np.asarray(cost + grand * (0.5 * np.maximum(36 - gap, 0)))


# Which persons of a block group are householders: as many in each block as it has households.
#
# A minimum-cost flow chooses them. Units go from blocks through persons who are alike to classes of
# sex, age, origin and race, and on to origin and race. Today's householders cost nothing, others the
# more the less likely they are. A class is free up to the householders that the *persons'* file
# has of it; an origin and race up to those of the *households'* file. That is what each file measures
# better. Who stops being a householder takes the relationship of the most alike who becomes one. So
# a block group keeps its counts by relationship.

#: A tenth of a unit of cost.
_SCALE = 10.0
_HEAD, _ADULT, _PARTNER, _TEEN, _CHILD = (
    np.round(_SCALE * x) for x in (0.0, 4.0, 6.0, 30.0, 6000.0)
)
_OVER_CLASS, _OVER_RACE = 8 * _SCALE, 14 * _SCALE
_MANY = 1 << 30
_HEAD_OTHERS = HEADS[1]
_OTHER = LEVEL["other-nonrelative"]
#: The ages that each relationship can have, from the structural zeros of ``dhcp``.


def possible_ages() -> np.ndarray:
    """Whether persons of an age can have a relationship, ``(relgq, ages)``."""
    by = np.asarray(DHCP.possible).reshape(DHCP.shape)
    return np.asarray(by[:, 0, :, 0, 0])


def race_class(hispanic: Ints, cenrace: Ints) -> Ints:
    """One of 14 classes of origin and race in seven groups."""
    return np.asarray(hispanic * 7 + race7()[cenrace])


def _unlikely(people: HomePersons) -> Floats:
    """What it costs that each person is a householder."""
    cost = np.full(len(people), _ADULT)
    cost[np.isin(people.relgq, PARTNERS)] = _PARTNER
    cost[people.age < 18] = _TEEN
    cost[np.isin(people.relgq, HEADS) & (people.age >= 15)] = _HEAD
    cost[people.age < 15] = _CHILD
    return cost


def class_of_persons(people: HomePersons) -> Ints:
    """The class of sex, age, origin and race of each person, ``(persons,)``."""
    cell = people.sex * 9 + np.maximum(age_class(people.age), 0)
    return np.asarray(cell * 14 + race_class(people.hispanic, people.cenrace))


def chosen(people: HomePersons, mate: Ints, occupied: Ints, races: Ints) -> np.ndarray:
    """Which persons are householders, ``(persons,)``: ``occupied`` of each block, among them one of
    each couple. ``mate``: the other of the couple of each person, or -1. ``races``: householders by
    origin and race in the households' file, ``(14,)``."""
    cost, cls = _unlikely(people), class_of_persons(people)
    free = np.bincount(cls[cost == _HEAD], minlength=252), races
    one = np.flatnonzero(mate > np.arange(len(mate)))
    pair = np.stack([one, mate[one]])
    single = np.flatnonzero(mate < 0)
    key = np.stack([people.block, cost.astype(np.int64), cls], axis=1)
    alike, group, many = np.unique(key[single], axis=0, return_inverse=True, return_counts=True)
    left = occupied - np.bincount(people.block[one], minlength=len(occupied))
    taken, first = _flow(alike, many, key[pair, 1:], left, free)
    head = np.zeros(len(people), dtype=bool)
    head[single] = first_of_each(group.reshape(-1), taken)
    head[np.where(first, *pair)] = True
    return head


def _flow(
    alike: Ints, many: Ints, pairs: Ints, left: Ints, free: tuple[Ints, Ints]
) -> tuple[Ints, np.ndarray]:
    """How many of each group of persons who are alike become householders, ``(groups,)``, and
    whether the first of each couple does, ``(couples,)``. A row of ``alike`` has block, cost and
    class; ``pairs`` has cost and class, ``(2, couples, 2)``. Households that are ``left`` to
    persons in no couple, by block. Classes, and origins and races, are ``free`` up to these."""
    now, races = free
    blocks, groups = len(left), len(many)
    node = np.arange(groups) + blocks
    classes = blocks + groups + np.arange(252)
    sexes = classes[-1] + 1 + np.arange(28)  # of a sex, origin and race
    ends = sexes[-1] + 1 + np.arange(14)
    sink = int(ends[-1]) + 1
    flow, none, couples = Flow(), np.zeros, pairs.shape[1]
    for cost, cls in pairs.transpose(0, 2, 1):
        flow.add(sink + 1 + np.arange(couples), classes[cls], np.ones_like(cls), cost)
    flow.add(alike[:, 0], node, many, alike[:, 1])
    flow.add(node, classes[alike[:, 2]], many, none(groups))
    to = np.arange(252) // 126 * 14 + np.arange(252) % 14
    by_sex = np.bincount(to, weights=now, minlength=28).astype(np.int64)
    for tail, head, held in ((classes, sexes[to], now), (sexes, ends[np.arange(28) % 14], by_sex)):
        flow.add(tail, head, held, none(len(tail)))
        flow.add(tail, head, np.full(len(tail), _MANY), np.full(len(tail), _OVER_CLASS))
    flow.add(ends, np.full(14, sink), races, none(14))
    flow.add(ends, np.full(14, sink), np.full(14, _MANY), np.full(14, _OVER_RACE))
    supply = np.ones(sink + 1 + couples, dtype=np.int64)
    supply[: sink + 1] = np.pad(left, (0, sink + 1 - blocks))
    found = flow.solve(supply, sink)
    if found is None:
        raise SolverError("a block has fewer persons than households", where="householders")
    return found[2 * couples :][:groups], found[:couples] > 0


def relabeled(people: HomePersons, head: np.ndarray) -> HomePersons:
    """The persons with relationships that fit: a person who becomes a householder gives theirs to
    the most alike who stops being one."""
    was = np.isin(people.relgq, HEADS)
    lost, new = np.flatnonzero(was & ~head), np.flatnonzero(head & ~was)
    relgq = people.relgq.copy()
    relgq[new], relgq[lost] = _HEAD_OTHERS, _OTHER
    if len(lost) and len(new):
        fits = possible_ages()[people.relgq[new][None, :], people.age[lost][:, None]]
        apart = np.abs(people.age[lost][:, None] - people.age[new][None, :])
        cost = apart + 12.0 * (people.sex[lost][:, None] != people.sex[new][None, :])
        rows, columns = linear_sum_assignment(np.where(fits, cost, 1000.0))
        good = fits[rows, columns]
        lost_at, new_at = lost[rows], new[columns]
        relgq[lost_at[good]] = people.relgq[new_at[good]]
        relgq[new_at] = people.relgq[lost_at]
    return people.labeled(relgq)


def first_of_each(group: Ints, many: Ints) -> np.ndarray:
    """Whether each member of a ``group`` is among the first ``many`` of it, ``(members,)``."""
    order, size = np.argsort(group, kind="stable"), np.bincount(group, minlength=len(many))
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - (np.cumsum(size) - size)[group[order]]
    return np.asarray(rank < many[group])


# Couples, before anything else is linked: who of a block live as spouses or partners.
#
# How many couples a tract has follows from the persons' file, which measures them better than that of
# households. Who they are is open, because relationships by age and block are mostly noise there. So
# the couples of a tract are those that cost least, among all grown persons of each block. A
# minimum-cost flow sends one unit for each person called a partner through two persons of one block.
# It is free in the block of that person, costs something in another block, and more in another block
# group. Years between the two cost the more the rarer they are, and nobody is more than
# :data:`MOST_YEARS` apart from their partner. A householder and someone called a partner are
# preferred. Each block keeps grown persons for all its households. Which of the two is the
# householder is settled with all householders (:mod:`das.tools.link.members`). Last, a person who
# becomes a partner gives their relationship to one who is none any more.

#: Years between a householder and their partner.
MOST_YEARS = 23
#: What couples cost: of another class of age, in another block group, and that do not exist. In
#: another block they cost that many times what households elsewhere do.
_OTHER_AGE, _AWAY, _LOST, _MOVED = 10.0, 8.0, 60.0, 5.0
#: Partners of this age and over are published apart.
_OLD = 65
#: Years that men are older than women in opposite-sex couples.
_OLDER = 2.0
#: What it costs that a householder living alone is in a couple.
_ALONE = 0.5
_OPPOSITE = (LEVEL["opposite-sex-spouse"], LEVEL["opposite-sex-partner"])
_SAME = (LEVEL["same-sex-spouse"], LEVEL["same-sex-partner"])


@dataclass(frozen=True, eq=False)
class Couples(Frozen):
    """``relgq`` of all persons; ``partner_of``: the number of the householder whose partner each
    person is, or -1; both ``(persons,)``."""

    relgq: Ints
    partner_of: Ints


def age_gap(people: HomePersons, one: Ints, other: Ints) -> Floats:
    """The cost of couples of the persons ``one`` and ``other``, which broadcast."""
    older = people.sex[one] - people.sex[other]  # 1 where the other is the man
    years = np.abs(people.age[other] - people.age[one] - _OLDER * older)
    return np.asarray(0.3 * years + 0.5 * np.maximum(years - 8, 0) + np.maximum(years - 14, 0))


def matched(people: HomePersons, occupied: Ints, group: Ints, trust: Trust) -> Ints:
    """The other of the couple of each person, or -1, ``(persons,)``. Persons are partners by
    ``relgq``; ``occupied`` are the units and ``group`` is the block group of each block."""
    mate = np.full(len(people), -1, dtype=np.int64)
    grown, head = people.age >= ADULT, np.isin(people.relgq, HEADS)
    adults = np.bincount(people.block[grown], minlength=len(group))
    room = np.maximum(np.minimum(occupied, adults - occupied), 0)
    for kinds, one, other in (
        *((_SAME, head & (people.sex == s), ~head & (people.sex == s)) for s in (0, 1)),
        (_OPPOSITE, people.sex == 0, people.sex == 1),
    ):
        called = np.isin(people.relgq, kinds)
        if kinds == _SAME:
            called &= other
        if called.any():
            left, right = (np.flatnonzero(x & grown & (mate < 0)) for x in (one, other))
            i, j = _cheapest(people, called, (left, right), room, group, trust)
            mate[i], mate[j] = j, i
            room = room - np.bincount(people.block[i], minlength=len(room))
    return mate


def _cheapest(
    people: HomePersons,
    called: np.ndarray,
    sides: tuple[Ints, Ints],
    room: Ints,
    group: Ints,
    trust: Trust,
) -> tuple[Ints, Ints]:
    """Couples at least cost, as many as are ``called`` partners, with one from each of two
    ``sides``. A block has ``room`` for that many.

    Nodes: the persons of the sides; the room of the blocks; for each class of age of the second
    person the blocks, the block groups and the tract; the sink."""
    left, right = sides
    flow, blocks, groups = Flow(), len(group), int(group.max()) + 1
    of_right, of_room = len(left), len(left) + len(right)
    first, wide = of_room + blocks, blocks + groups + 1
    sink = first + 2 * wide
    old = first + wide * (people.age >= _OLD)  # the first node of each person's class
    i, j = _of_a_block(people.block[left], people.block[right])
    near = np.abs(people.age[left[i]] - people.age[right[j]]) <= MOST_YEARS
    i, j = i[near], j[near]
    cost = _couple_cost(people, left[i], right[j], called, trust)
    flow.add(of_right + j, i, np.ones_like(i), _SCALE * cost)
    for tail, head in (
        (old[right] + people.block[right], of_right + np.arange(len(right))),
        (np.arange(len(left)), of_room + people.block[left]),
    ):
        flow.add(tail, head, np.ones_like(tail), np.zeros(len(tail)))
    flow.add(of_room + np.arange(blocks), np.full(blocks, sink), room, np.zeros(blocks))
    _add_supply(flow, group, first, sink, trust)
    supply = np.bincount((old + people.block)[called], minlength=sink + 1)
    found = flow.solve(supply, sink)
    assert found is not None  # couples that find no place are lost
    pairs = np.flatnonzero(found[: len(i)])
    return left[i[pairs]], right[j[pairs]]


def _add_supply(flow: Flow, group: Ints, first: int, sink: int, trust: Trust) -> None:
    """The arcs by which a couple gets to another block, block group or class of age, or is lost.
    ``first``: the first node of the blocks of the first class of age."""
    blocks, groups = len(group), int(group.max()) + 1
    wide = blocks + groups + 1
    up = np.append(blocks + group, np.full(groups, wide - 1))
    price = np.repeat([_MOVED * trust.elsewhere, _AWAY], [blocks, groups])
    tract = first + wide - 1 + wide * np.arange(2)
    for tails, ends, each in (
        (first + np.arange(wide - 1), first + up, price),
        (first + wide + np.arange(wide - 1), first + wide + up, price),
        (tract, tract[::-1], np.full(2, _OTHER_AGE)),
    ):
        for a, b in ((tails, ends), (ends, tails)):
            flow.add(a, b, np.full(len(a), _MANY), _SCALE * each / 2)
    flow.add(tract, np.full(2, sink), np.full(2, _MANY), np.full(2, _SCALE * _LOST))


def _couple_cost(people: HomePersons, i: Ints, j: Ints, called: np.ndarray, trust: Trust) -> Floats:
    """What couples cost, by age, and by what the two are called: best is one householder, and one
    partner."""
    head = np.isin(people.relgq, HEADS)
    wrong = np.abs(head[i] + 0 + head[j] - 1) + np.abs(called[i] + 0 + called[j] - 1)
    alone = (people.relgq[i] == HEADS[0]) | (people.relgq[j] == HEADS[0])
    cost = age_gap(people, i, j) + trust.partner * wrong + _ALONE * alone
    return np.asarray(cost + 0.2 * (people.cenrace[i] != people.cenrace[j]))


def _of_a_block(one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """All pairs of two lists whose blocks are the same, as places in the lists."""
    order = np.argsort(other, kind="stable")
    first, last = (np.searchsorted(other[order], one, side) for side in ("left", "right"))
    many = last - first
    nth = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    return np.repeat(np.arange(len(one)), many), order[np.repeat(first, many) + nth]


def with_partners(people: HomePersons, mate: Ints, head: np.ndarray, group: Ints) -> Couples:
    """The persons with those called partners who are in a couple and no ``head``. ``group`` is the
    block group of each block."""
    relgq, coupled = people.relgq.copy(), (mate >= 0) & ~head
    same = coupled & (people.sex == people.sex[mate])
    for kinds, partner in ((_SAME, same), (_OPPOSITE, coupled & ~same)):
        called = np.isin(relgq, kinds)
        dropped, new = np.flatnonzero(called & ~partner), np.flatnonzero(partner & ~called)
        kind, given = relgq[dropped], relgq[new]
        fits = possible_ages()[given[None, :], people.age[dropped][:, None]]
        apart = np.abs(people.age[dropped][:, None] - people.age[new][None, :]).astype(float)
        apart += 50.0 * (head[dropped][:, None] != np.isin(given, HEADS)[None, :])
        for place, cost in ((people.block, 4.0), (group[people.block], 30.0)):
            apart += cost * (place[dropped][:, None] != place[new][None, :])
        rows, columns = linear_sum_assignment(np.where(fits, apart, 500.0 + apart))
        relgq[dropped] = _OTHER
        relgq[dropped[rows]] = np.where(fits[rows, columns], given[columns], _OTHER)
        relgq[new[columns]] = kind[rows]
    return Couples(relgq, np.where(coupled, mate, -1))


def alone_again(people: HomePersons, before: Ints, partner_of: Ints, group: Ints) -> HomePersons:
    """The persons with as many householders of each sex living alone as ``before``, where others
    can: householders in couples live with others, and the closest in age lives alone instead,
    rather one of the same block. ``group`` is the block group of each block."""
    relgq, free = people.relgq.copy(), np.isin(people.relgq, HEADS)
    free[partner_of[partner_of >= 0]] = False
    relgq[np.isin(relgq, HEADS) & ~free & (relgq == HEADS[0])] = HEADS[1]
    for person in np.flatnonzero((before == HEADS[0]) & (relgq != HEADS[0])).tolist():
        able = free & (relgq == HEADS[1]) & (people.sex == people.sex[person])
        if able.any():
            near = np.flatnonzero(able)
            gap = np.abs(people.age[near] - people.age[person])
            gap = gap + 4.0 * (people.block[near] != people.block[person])
            gap += 30.0 * (group[people.block[near]] != group[people.block[person]])
            relgq[near[np.argmin(gap)]] = HEADS[0]
    return people.labeled(relgq)


# Ages within linked households, by their tails: what a median hides.
#
# A link chooses who lives together by age. Six figures say how often that ends in households that
# hardly exist: of couples (spouses and unmarried partners), and of children and parents of
# householders. Each has a known value in simulated records.

#: Years: couples that are further apart, and generations that are closer, are rare.
FAR, CLOSE = 20, 15
#: Householders below this age are rare.
YOUNG = 16
#: What each figure says.
KINSHIP: Mapping[str, str] = {
    "couples_apart": f"couples more than {FAR} years apart, %",
    "couples_90": "difference of ages of couples, 90th percentile, years",
    "no_adult": "households with nobody of 18 or over, %",
    "young_householders": f"householders under {YOUNG}, %",
    "near_parents": f"parents and parents-in-law less than {CLOSE} years older, %",
    "near_children": f"children less than {CLOSE} years younger, %",
}


def kinship(people: LinkedPersons) -> dict[str, float]:
    """The figures of :data:`KINSHIP` for persons in households, which are numbered from 0 on. A
    figure of nobody is 0."""
    home, age = people.household, people.age
    heads = np.flatnonzero(np.isin(people.relgq, HEADS))
    of_head = np.zeros(len(heads), dtype=np.int64)
    of_head[home[heads]] = age[heads]
    older = age - of_head[home]
    oldest = np.zeros(len(heads), dtype=np.int64)
    np.maximum.at(oldest, home, age)
    couples = np.abs(older[np.isin(people.relgq, PARTNERS)])
    return {
        "couples_apart": _percent(couples > FAR),
        "couples_90": float(np.percentile(couples, 90)) if len(couples) else 0.0,
        "no_adult": _percent(oldest < ADULT),
        "young_householders": _percent(of_head < YOUNG),
        "near_parents": _percent(older[np.isin(people.relgq, PARENTS)] < CLOSE),
        "near_children": _percent(-older[np.isin(people.relgq, OWN)] < CLOSE),
    }


def _percent(which: np.ndarray) -> float:
    return 100.0 * float(which.mean()) if len(which) else 0.0
