r"""Couples, before anything else is linked: who of a block live as spouses or partners.

How many couples a tract has follows from the persons' file, which measures them better than that of
households. Who they are is open, because relationships by age and block are mostly noise there. So
the couples of a tract are those that cost least, among all grown persons of each block. A
minimum-cost flow sends one unit for each person called a partner through two persons of one block.
It is free in the block of that person, costs something in another block, and more in another block
group. Years between the two cost the more the rarer they are, and nobody is more than
:data:`MOST_YEARS` apart from their partner. A householder and someone called a partner are
preferred. Each block keeps grown persons for all its households. Which of the two is the
householder is settled with all householders (:mod:`das.tools.link.members`). Last, a person who
becomes a partner gives their relationship to one who is none any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from das.model.frozen import Frozen
from das.publications.dhc.agreement.counted import Floats, Ints
from das.publications.dhc.model.members import (
    ADULT,
    HEADS,
    LEVEL,
    OWN,
    PARENTS,
    PARTNERS,
    LinkedPersons,
)
from das.solve.network import Flow
from das.tools.link.members import possible_ages
from das.tools.link.options import Trust
from das.tools.link.people import HomePersons

#: Years between a householder and their partner.
MOST_YEARS = 23
#: A tenth of a unit of cost.
_SCALE = 10.0
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
_OTHER = LEVEL["other-nonrelative"]
_MANY = 1 << 30


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
    cost = _cost(people, left[i], right[j], called, trust)
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


def _cost(people: HomePersons, i: Ints, j: Ints, called: np.ndarray, trust: Trust) -> Floats:
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
    return people.labelled(relgq)


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
