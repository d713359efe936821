r"""Relationships once everyone has a household: as many of each, by age, as the persons' file has
in the tract.

A member can take any relationship that leaves the household of its type: no third generation where
the type has none, a relative where one is needed. An own child under 18 where the type has none of
that age has a price. A minimum-cost flow of a tract sends members to relationships by class of age,
and on to relationships: keeping one's own costs nothing, another a little, more than published at
an age some, and more than published in all much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise

import numpy as np

from das.publications.dhc.agreement.counted import Ints, type_fields
from das.publications.dhc.model.members import LEVEL, OWN, PARENTS
from das.solve.network import Flow
from das.tools.link import local_moves
from das.tools.link.linked_tract import FIRST_GROUP, MEMBER, LinkedTract
from das.tools.link.local_moves import HouseholdMoves
from das.tools.link.members import GRANDS, OWNS, PARENT_LIKE, possible_ages, relation_class
from das.tools.link.people import (
    CELLS,
    CHILD6,
    CHILD17,
    FREE,
    GENERATION,
    GRAND6,
    GRAND17,
    GROWN,
    OWN6,
    OWN17,
    RELATIVE,
    STRANGER,
    HomePersons,
)

#: The relationships of members: from biological child to other nonrelative.
FIRST = LEVEL["biological-child"]
MEMBERS = LEVEL["other-nonrelative"] + 1 - FIRST
#: Ages where the classes begin in which relationships are counted.
BANDS = (3, 5, 6, 12, 14, 15, 18, 30, 65)
_CHANGED, _OTHER_CLASS, _OVER_AGE, _OVER, _MANY = 2, 3, 4, 40, 1 << 30
#: What an own child costs where the type has none of that age.
_NEW_OWN = 15
#: What years between generations cost, by the class of :data:`_YEARS` that they are in.
SHUT = -1
_YEARS, _CLOSE = (15, 17), np.array([SHUT, 4, 0])
_CHILD, _PARENT, _GRANDCHILD = 0, 1, 2
_IN_LAW, _OTHER_RELATIVE = (LEVEL[x] for x in ("child-in-law", "other-relative"))
_GRANDCHILDREN = (LEVEL["grandchild"],)


@cache
def _sets() -> Mapping[int, tuple[int, ...]]:
    """The relationships that each kind of place is for; those of free ones follow from the type."""
    strangers = tuple(range(LEVEL["roommate"], FIRST + MEMBERS))
    relatives = tuple(r for r in range(FIRST, LEVEL["roommate"]))
    grand = _GRANDCHILDREN
    return {
        OWN6: OWN,
        OWN17: OWN,
        CHILD6: (*relatives, *strangers),
        CHILD17: (*relatives, *strangers),
        GRAND6: grand,
        GRAND17: grand,
        GENERATION: (*PARENTS, *grand),
        GROWN: (*OWN, _IN_LAW),
        RELATIVE: relatives,
        STRANGER: strangers,
        FREE: (*relatives, *strangers),
    }


def prices(people: HomePersons, household: Ints, places: Ints, head: Ints, kind: Ints) -> Ints:
    """What it costs that a person has each relationship of members, ``(persons, MEMBERS)``, or
    ``SHUT``. All are shut to householders and partners, whose kind of place is -1."""
    out = np.full((len(people), MEMBERS), SHUT, dtype=np.int64)
    member = np.flatnonzero(places >= 0)
    place, home = places[member], household[member]
    age, t = people.age[member], type_fields()
    by_place = np.zeros((len(_sets()), MEMBERS), dtype=bool)
    for p, labels in _sets().items():
        by_place[p, [x - FIRST for x in labels]] = True
    able = by_place[place] & possible_ages()[FIRST : FIRST + MEMBERS, age].T
    able[age < 18, _IN_LAW - FIRST] = False
    years = _years_cost(people.age[head[home]] - age)
    years = np.where((place <= OWN17)[:, None] & (years != SHUT), 0, years)
    able &= years != SHUT
    _one_generation(able, people.relgq[member], place, home, kind)
    _needs_relative(able, place, kind[home])
    able[~able.any(axis=1) & (t.relatives[kind[home]] == 1), _OTHER_RELATIVE - FIRST] = True
    able[~able.any(axis=1), MEMBERS - 1] = True
    bit = np.where(age < 6, 1, 2)
    new = np.zeros_like(years)
    new[np.ix_((age < 18) & (t.own[kind[home]] & bit == 0), [x - FIRST for x in OWN])] = _NEW_OWN
    out[member] = np.where(able, years.clip(0) + new, SHUT)
    return out


def _years_cost(gap: Ints) -> Ints:
    """What it costs, ``(members, MEMBERS)``, that members have relationships that their ages do not
    suggest. ``gap``: how many years each is younger than the householder. Children are 17 years
    younger, parents as much older, grandchildren 33 years younger; two years less cost something,
    and fewer are ``SHUT``."""
    out = np.zeros((len(gap), MEMBERS), dtype=np.int64)
    for labels, years in (((*OWN, _IN_LAW), gap), (PARENTS, -gap), (_GRANDCHILDREN, gap - 16)):
        cost = _CLOSE[np.searchsorted(_YEARS, years, side="right")]
        out[:, [x - FIRST for x in labels]] = cost[:, None]
    return out


def _one_generation(able: np.ndarray, relgq: Ints, place: Ints, home: Ints, kind: Ints) -> None:
    """Where a type has no three generations, one besides the householder's is allowed: that of its
    own children, else the one that most members are called after."""
    t, homes = type_fields(), len(kind)
    cls = relation_class()[relgq]
    votes = np.zeros((homes, 3))
    for i, which in enumerate((OWNS, PARENT_LIKE, GRANDS)):
        np.add.at(votes[:, i], home, (cls == which) * (place != STRANGER))
    votes[:, _CHILD] += 0.5 + 100 * (t.own[kind] > 0)
    kept = np.argmax(votes, axis=1)
    plain = t.multig[kind] == 0
    groups = ((*OWN, _IN_LAW), PARENTS, _GRANDCHILDREN)
    for i, labels in enumerate(groups):
        shut = plain[home] & (kept[home] != i)
        for label in labels:
            able[shut, label - FIRST] = False


def _needs_relative(able: np.ndarray, place: Ints, kind: Ints) -> None:
    """The only relative of a family is one, and nobody is one where there are none."""
    t = type_fields()
    strangers = slice(LEVEL["roommate"] - FIRST, None)
    child = np.isin(place, (CHILD6, CHILD17))
    only = child & (t.relatives[kind] == 1) & (t.couple[kind] > 1) & (t.own[kind] == 0)
    able[only, strangers] = False
    able[child & (t.relatives[kind] == 0), : strangers.start] = False


def relabeled(people: HomePersons, price: Ints, published: Ints) -> Ints:
    """``relgq`` of everyone in a tract, from :func:`prices`. ``published``: the persons of each
    class of age and relationship of members, ``(bands, MEMBERS)``."""
    out = people.relgq.copy()
    member = np.flatnonzero((price != SHUT).any(axis=1))
    if not len(member):
        return out
    band = np.searchsorted(BANDS, people.age[member], side="right")
    now = (people.relgq[member] - FIRST).clip(0, MEMBERS - 1)
    key = np.concatenate([price[member], now[:, None], band[:, None]], axis=1).astype(np.int8)
    alike, group, many = np.unique(key, axis=0, return_inverse=True, return_counts=True)
    sent = _flowed(alike.astype(np.int64), many, published)
    order = np.argsort(group.reshape(-1), kind="stable")
    # group by group, those of one in their order
    labels = np.repeat(np.tile(np.arange(MEMBERS), len(many)), sent.reshape(-1))
    out[member[order]] = FIRST + labels
    return out


def by_band(people: HomePersons) -> Ints:
    """Persons by class of age and relationship of members, ``(bands, MEMBERS)``."""
    which = people.relgq >= FIRST
    band = np.searchsorted(BANDS, people.age[which], side="right")
    out = np.zeros((len(BANDS) + 1, MEMBERS), dtype=np.int64)
    np.add.at(out, (band, people.relgq[which] - FIRST), 1)
    return out


def _flowed(alike: Ints, many: Ints, published: Ints) -> Ints:
    """How many of each group of persons who are alike get each relationship, ``(groups, MEMBERS)``.
    A row of ``alike`` has prices, the relationship so far, and the class of age."""
    groups, bands = len(many), len(published)
    price, now, band = alike[:, :MEMBERS], alike[:, MEMBERS], alike[:, MEMBERS + 1]
    kinds = relation_class()[FIRST:]
    cost = np.where(kinds[None, :] == kinds[now][:, None], _CHANGED, _OTHER_CLASS)
    cost[np.arange(groups), now] = 0
    rows, columns = np.nonzero(price != SHUT)
    by_age = groups + np.arange(bands * MEMBERS)
    ends = groups + bands * MEMBERS + np.arange(MEMBERS)
    sink = int(ends[-1]) + 1
    flow = Flow()
    to = by_age[band[rows] * MEMBERS + columns]
    flow.add(rows, to, many[rows], cost[rows, columns] + price[rows, columns])
    total = published.sum(axis=0)
    for tail, head, held, over in (
        (by_age, np.tile(ends, bands), published.reshape(-1), _OVER_AGE),
        (ends, np.full(MEMBERS, sink), total, _OVER),
    ):
        flow.add(tail, head, held, np.zeros(len(tail)))
        flow.add(tail, head, np.full(len(tail), _MANY), np.full(len(tail), over))
    supply = np.zeros(sink + 1, dtype=np.int64)
    supply[:groups] = many
    found = flow.solve(supply, sink)
    assert found is not None  # each person has a relationship that is open
    sent = np.zeros((groups, MEMBERS), dtype=np.int64)
    sent[rows, columns] = found[: len(rows)]
    return sent


# Prices: the linked households of a tract move towards what the files say of the tract.
#
# Steps of the link before this one work in blocks. What they leave over adds up in tracts and
# counties. Here households and members change as long as that lowers the distance :math:`J` of
# :mod:`das.tools.link.people`, plus what is implausible in ages. All moves of a kind are judged at once at
# the prices of the moment, and the best are made one by one. Each is judged again when its turn
# comes, because prices change with every move. Persons stay in their block and of their age. So
# tables of persons without relationship cannot change, and each household stays one that can be.

#: The least gain of a move; the households for one move: a sweep with fewer moves is the last.
LEAST, _FEW = 0.2, 300
_TRIES = {"tenures": 6, "joined": 4, "exchanged": 4, "swapped": 6, "headed": 6}


def steered(tract: LinkedTract, rng: np.random.Generator, sweeps: int) -> None:
    """Lower the distance of a tract."""
    for _ in range(sweeps):
        many = make_moves(tract, local_moves.relabeled(tract))
        for name, tries in _TRIES.items():
            many += make_moves(tract, getattr(local_moves, name)(tract, rng, tries))
        if many <= len(tract.head) / _FEW:
            break


def make_moves(tract: LinkedTract, moves: HouseholdMoves) -> int:
    """Make the moves that gain, the best first; returns how many. A household changes once."""
    good, index, now, then = local_moves.best(tract, moves, tract.prices(), LEAST)
    chosen = _Chosen(tract)
    group = (FIRST_GROUP + tract.group[good.homes[:, 0]]).tolist()
    judged = zip(good.homes.tolist(), group, _steps(now, then), good.cost.tolist(), strict=True)
    many = [i for i, move in enumerate(judged) if chosen.gains(*move)]
    tract.over[:, :] = chosen.over
    _apply(tract, good.some(np.array(many, dtype=np.int64)), index[many])
    return len(many)


class _Chosen:
    """The moves of a kind while they are judged one by one. Plain lists, because each move changes
    few cells."""

    def __init__(self, tract: LinkedTract) -> None:
        self.over, weight = tract.over.tolist(), tract.weight.tolist()
        above = [row for row in range(FIRST_GROUP) if tract.weight[row].any()]
        self.judges = [
            [(self.over[row], weight[row]) for row in (*above, group)]
            for group in range(len(weight))
        ]
        self.touched = [False] * len(tract.head)

    def gains(
        self, homes: list[int], group: int, steps: list[tuple[int, int]], cost: float
    ) -> bool:
        """Whether a move still gains; if so, it is made."""
        first, second = homes
        if self.touched[first] or (second >= 0 and self.touched[second]):
            return False
        for over, weight in self.judges[group]:
            for cell, s in steps:
                cost += weight[cell] * s * (2 * over[cell] + s)
        if cost >= -LEAST:
            return False
        for row in (*range(FIRST_GROUP), group):
            for cell, s in steps:
                self.over[row][cell] += s
        self.touched[first] = True
        if second >= 0:
            self.touched[second] = True
        return True


def _steps(now: Ints, then: Ints) -> Iterator[list[tuple[int, int]]]:
    """Of each move the cells that change, by their first place among those before and after, and by
    how much."""
    move, place = np.nonzero(now != then)
    both = np.stack([now[move, place], then[move, place]], 1).reshape(-1)
    key = np.repeat(move, 2) * (CELLS + 1) + both
    alike, first, which = np.unique(key, return_index=True, return_inverse=True)
    step = np.bincount(which, np.tile([-1, 1], len(move)), len(alike)).astype(np.int64)
    order = np.argsort(first)
    order = order[step[order] != 0]
    steps = list(zip(both[first[order]].tolist(), step[order].tolist(), strict=True))
    ends = np.searchsorted(alike[order] // (CELLS + 1), np.arange(len(now) + 1)).tolist()
    return (steps[a:b] for a, b in pairwise(ends))


def _apply(tract: LinkedTract, chosen: HouseholdMoves, index: Ints) -> None:
    """Change households and persons by moves that do not touch each other's."""
    for s in (0, 1):
        there = chosen.homes[:, s] >= 0
        home = chosen.homes[there, s]
        tract.head[home], tract.counts[home] = chosen.heads[there, s], chosen.counts[there, s]
        tract.tenure[home], tract.index[home] = chosen.tenure[there, s], index[there, s]
    if chosen.whole:
        goes = np.arange(len(tract.head))
        goes[chosen.homes[:, 0]], goes[chosen.homes[:, 1]] = chosen.homes[:, 1], chosen.homes[:, 0]
        who = np.flatnonzero(tract.relgq >= MEMBER)
        tract.home[who] = goes[tract.home[who]]
    for s in (0, 1):
        there = chosen.persons[:, s] >= 0
        person = chosen.persons[there, s]
        tract.relgq[person], tract.home[person] = chosen.labels[there, s], chosen.to[there, s]
    tract.order()
