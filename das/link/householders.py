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
    return first_of_each(group, taken)


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


def living_alone(
    people: HomePersons, occupied: Ints, skeleton: Ints, coupled: np.ndarray | None = None
) -> HomePersons:
    """The persons with as many householders of each class living alone as the ``skeleton`` has, of
    those who are not ``coupled``, ``(persons,)``.

    A flow sends those of each class to blocks: rather householders who did before. A block with
    other persons than householders has someone who lives with them, and one of few other persons
    has householders alone. Where a class has too few, others of the same sex take their place."""
    is_head = np.isin(people.relgq, HEADS)
    head = np.flatnonzero(is_head if coupled is None else is_head & ~coupled)
    due = skeleton[: _CELLS // 2].reshape(-1, TENURES).sum(axis=1)
    if due.sum() > len(head):
        due = shared_out(len(head), due)
    others = np.bincount(people.block, minlength=len(occupied)) - occupied
    least = np.maximum(occupied - others, 0)
    most = np.maximum(np.where(others > 0, occupied - 1, occupied), least)
    was = people.relgq[head] != _ALONE
    rows = np.stack([people.block[head], class_of_persons(people)[head], was], axis=1)
    alike, group, many = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    taken = _alone_flow(alike, many, due, least, most)
    relgq = people.relgq.copy()
    alone = first_of_each(group.reshape(-1), taken)
    relgq[head] = np.where(alone, _ALONE, _HEAD_OTHERS)
    return people.labelled(relgq)


def _alone_flow(alike: Ints, many: Ints, due: Ints, least: Ints, most: Ints) -> Ints:
    """How many of each group of householders who are alike live alone, ``(groups,)``. A row of
    ``alike`` has block, class, and whether they have lived with others. ``due`` of each class; the
    ``least`` and ``most`` of each block."""
    blocks, groups = len(least), len(many)
    node, flow, changed = WIDTH + np.arange(groups), Flow(), 4 * _SCALE * alike[:, 2]
    flow.add(alike[:, 1], node, many, changed)
    first = WIDTH + groups
    for similar, price in ((np.arange(WIDTH) // (WIDTH // 2), 50), (np.zeros(WIDTH, int), 150)):
        hub = first + similar
        flow.add(np.arange(WIDTH), hub, due, np.full(WIDTH, price * _SCALE))
        flow.add(hub[alike[:, 1]], node, many, changed)
        first = int(hub.max()) + 1
    entered, place = len(np.concatenate(flow.tail)), first + np.arange(blocks)
    sink, each = first + blocks, _SCALE * np.ones(blocks)
    flow.add(node, place[alike[:, 0]], many, np.zeros(groups))
    for room, price in ((least, -100), (most - least, 0), (np.full(blocks, _MANY), 100)):
        flow.add(place, np.full(blocks, sink), room, price * each)
    supply = np.zeros(sink + 1, dtype=np.int64)
    supply[:WIDTH] = due
    found = flow.solve(supply, sink)
    assert found is not None  # no more are due than there are
    return found[entered : entered + groups]


def first_of_each(group: Ints, many: Ints) -> np.ndarray:
    """Whether each member of a ``group`` is among the first ``many`` of it, ``(members,)``."""
    order, size = np.argsort(group, kind="stable"), np.bincount(group, minlength=len(many))
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - (np.cumsum(size) - size)[group[order]]
    return np.asarray(rank < many[group])


def shared_out(total: int, parts: Ints) -> Ints:
    """Whole numbers with a sum, in proportion to some ``parts``.

    >>> shared_out(4, np.array([2, 1, 2])).tolist()
    [2, 0, 2]
    """
    upto = np.rint(np.cumsum(parts) * total / parts.sum()).astype(np.int64)
    return np.diff(upto, prepend=0)
