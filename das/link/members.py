"""Who lives where: persons who are neither householders nor partners take the places of their
block's households, by an assignment in each block.

A person fits a place by age, by relationship, by the difference of ages to the householder, and by
origin and race. Weights of age are larger than all others together, because ages are published and
relationships can be exchanged afterwards (:mod:`das.link.relationships`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import linear_sum_assignment

from das.errors import InputError
from das.link.fields import Floats, Ints, type_fields
from das.link.people import HomePersons
from das.link.places import (
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
    expanded,
)
from das.link.trust import Trust
from das.model.dhc.members import LEVEL, OWN, PARENTS
from das.model.frozen import Frozen

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
