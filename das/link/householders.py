"""Which persons of a block group are householders: as many in each block as it has households.

A minimum-cost flow chooses them. Units go from blocks through persons who are alike to classes of
sex, age, origin and race, and on to origin and race. Today's householders cost nothing, others the
more the less likely they are. A class is free up to the householders that the *persons'* file
has of it; an origin and race up to those of the *households'* file. That is what each file measures
better. Where both files were estimated together, classes are those of the skeleton
(:mod:`das.link.skeleton_family`), whose every class fits the block group. Who stops being a householder takes the relationship of the most alike who becomes one. So
a block group keeps its counts by relationship."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from das.errors import InputError, SolverError
from das.link.counted import age_class, race7
from das.link.fields import Floats, Ints
from das.link.people import HomePersons
from das.link.skeleton_cells import RACES, SKELETON, TENURES, WIDTH, class_of
from das.model.dhc.members import HEADS, LEVEL, PARTNERS
from das.model.dhc.persons import DHCP
from das.model.frozen import Frozen
from das.solve.flow import Flow

#: A tenth of a unit of cost.
_SCALE = 10.0
_HEAD, _ADULT, _PARTNER, _TEEN, _CHILD = (
    np.round(_SCALE * x) for x in (0.0, 4.0, 6.0, 30.0, 6000.0)
)
_OVER_CLASS, _OVER_RACE = 8 * _SCALE, 14 * _SCALE
#: What a householder costs whom the skeleton does not have.
_OVER_SKELETON = 100 * _SCALE
_MANY = 1 << 30
_CELLS = SKELETON.cells
_ALONE, _HEAD_OTHERS = HEADS
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


@dataclass(frozen=True, eq=False)
class HouseholderTargets(Frozen):
    """Householders of a block group: by origin and race, ``races``, ``(14,)``, in the households'
    file, and, where it was estimated, the ``skeleton``, ``(1512,)``."""

    races: Ints
    skeleton: Ints | None = None

    def __post_init__(self) -> None:
        if len(self.races) != RACES or not (self.skeleton is None or len(self.skeleton) == _CELLS):
            raise InputError("householders of other classes", where="link")


def class_of_persons(people: HomePersons) -> Ints:
    """The class of sex, age, origin and race of each person, ``(persons,)``."""
    cell = people.sex * 9 + np.maximum(age_class(people.age), 0)
    return np.asarray(cell * RACES + race_class(people.hispanic, people.cenrace))


def chosen(people: HomePersons, occupied: Ints, targets: HouseholderTargets) -> np.ndarray:
    """Which persons are householders, ``(persons,)``: ``occupied`` of each block."""
    cost, cls = _unlikely(people), class_of_persons(people)
    if targets.skeleton is None:
        free = np.bincount(cls[cost == _HEAD], minlength=WIDTH), targets.races
        over = _OVER_CLASS, _OVER_RACE
    else:
        classes = np.bincount(class_of(np.arange(_CELLS)), targets.skeleton).astype(np.int64)
        free = classes, classes.reshape(-1, RACES).sum(axis=0)
        over = _OVER_SKELETON, 0.0
    key = np.stack([people.block, cost.astype(np.int64), cls], axis=1)
    alike, group, many = np.unique(key, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    taken = _flow(alike, many, occupied, free, over)
    order = np.argsort(group, kind="stable")
    start = np.concatenate([[0], np.cumsum(many)])[:-1]
    place = np.empty(len(people), dtype=np.int64)
    place[order] = np.arange(len(people)) - start[group[order]]
    return np.asarray(place < taken[group])


def _flow(
    alike: Ints, many: Ints, occupied: Ints, free: tuple[Ints, Ints], over: tuple[float, float]
) -> Ints:
    """How many of each group of persons who are alike become householders, ``(groups,)``.
    Classes, and origins and races, are ``free`` up to these; what is ``over`` costs that."""
    now, races = free
    blocks, groups = len(occupied), len(many)
    node = np.arange(groups) + blocks
    classes = blocks + groups + np.arange(252)
    sexes = classes[-1] + 1 + np.arange(28)  # of a sex, origin and race
    ends = sexes[-1] + 1 + np.arange(14)
    sink = int(ends[-1]) + 1
    flow, none = Flow(), np.zeros
    flow.add(alike[:, 0], node, many, alike[:, 1])
    flow.add(node, classes[alike[:, 2]], many, none(groups))
    to = np.arange(252) // 126 * 14 + np.arange(252) % 14
    by_sex = np.bincount(to, weights=now, minlength=28).astype(np.int64)
    for tail, head, held in ((classes, sexes[to], now), (sexes, ends[np.arange(28) % 14], by_sex)):
        flow.add(tail, head, held, none(len(tail)))
        flow.add(tail, head, np.full(len(tail), _MANY), np.full(len(tail), over[0]))
    flow.add(ends, np.full(14, sink), races, none(14))
    flow.add(ends, np.full(14, sink), np.full(14, _MANY), np.full(14, over[1]))
    supply = np.zeros(sink + 1, dtype=np.int64)
    supply[:blocks] = occupied
    found = flow.solve(supply, sink)
    if found is None:
        raise SolverError("a block has fewer persons than households", where="householders")
    return found[:groups]


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


def living_alone(people: HomePersons, occupied: Ints, skeleton: Ints) -> HomePersons:
    """The persons with as many householders of each class living alone as the ``skeleton`` has.

    A flow sends those of each class to blocks: rather householders who did before. A block with
    other persons than householders has someone who lives with them, and one of few other persons
    has householders alone."""
    head = np.flatnonzero(np.isin(people.relgq, HEADS))
    block, cls = people.block[head], class_of_persons(people)[head]
    was = (people.relgq[head] == _ALONE).astype(np.int64)
    alike, group, many = np.unique(
        np.stack([block, cls, was], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    wanted = skeleton[: _CELLS // 2].reshape(-1, TENURES).sum(axis=1)
    supply = np.minimum(wanted, np.bincount(cls, minlength=WIDTH))
    blocks, groups = len(occupied), len(many)
    others = np.bincount(people.block, minlength=blocks) - occupied
    least = np.maximum(occupied - others, 0)
    most = np.maximum(np.where(others > 0, occupied - 1, occupied), least)
    node, place = WIDTH + np.arange(groups), WIDTH + groups + np.arange(blocks)
    sink, flow, cost = WIDTH + groups + blocks, Flow(), _SCALE * np.ones(blocks)
    flow.add(alike[:, 1], node, many, 4 * _SCALE * (1 - alike[:, 2]))
    flow.add(node, place[alike[:, 0]], many, np.zeros(groups))
    for room, price in ((least, -100), (most - least, 0), (np.full(blocks, _MANY), 100)):
        flow.add(place, np.full(blocks, sink), room, price * cost)
    nodes = np.zeros(sink + 1, dtype=np.int64)
    nodes[:WIDTH] = supply
    found = flow.solve(nodes, sink)
    assert found is not None  # every householder can live alone
    order = np.argsort(group.reshape(-1), kind="stable")
    start = np.concatenate([[0], np.cumsum(many)])[:-1]
    rank = np.empty(len(head), dtype=np.int64)
    rank[order] = np.arange(len(head)) - start[group.reshape(-1)[order]]
    relgq = people.relgq.copy()
    relgq[head] = np.where(rank < found[:groups][group.reshape(-1)], _ALONE, _HEAD_OTHERS)
    return people.labelled(relgq)
