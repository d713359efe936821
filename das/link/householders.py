"""Which persons of a block group are householders: as many in each block as it has households.

A minimum-cost flow chooses them. Units go from blocks through persons who are alike to classes of
sex, age, origin and race, and on to origin and race. Today's householders cost nothing, others the
more the less likely they are. A class is free up to the householders that the *persons'* file
has of it; an origin and race up to those of the *households'* file. That is what each file measures
better. Who stops being a householder takes the relationship of the most alike who becomes one. So
a block group keeps its counts by relationship."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from das.errors import SolverError
from das.link.counted import age_class, race7
from das.link.fields import Floats, Ints
from das.link.people import HomePersons
from das.model.dhc.members import HEADS, LEVEL, PARTNERS
from das.model.dhc.persons import DHCP
from das.solve.flow import Flow

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


def relabelled(people: HomePersons, head: np.ndarray) -> HomePersons:
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
    return people.labelled(relgq)


def first_of_each(group: Ints, many: Ints) -> np.ndarray:
    """Whether each member of a ``group`` is among the first ``many`` of it, ``(members,)``."""
    order, size = np.argsort(group, kind="stable"), np.bincount(group, minlength=len(many))
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - (np.cumsum(size) - size)[group[order]]
    return np.asarray(rank < many[group])
