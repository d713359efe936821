"""Households by what their members add up to: counts from which type, oldest, and size follow, so
that a change of members changes them by a sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from das.link.counted import age_class, race7
from das.link.fields import Ints
from das.link.householders import possible_ages
from das.link.people import HomePersons
from das.link.totals import AGES, MEMBERS, RELATIONS, age_classes
from das.model.dhc.household_types import ATTRIBUTE
from das.model.dhc.households import DHCH, TENURE
from das.model.dhc.members import HEADS, LEVEL, OWN, PARENTS, PARTNERS, type_numbers
from das.model.frozen import Frozen

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
    def of(people: HomePersons) -> HeadLevels:
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
    n = counts
    some = n > 0
    couple = np.where(
        some[..., PARTNER].any(axis=-1), np.argmax(some[..., PARTNER], axis=-1), len(PARTNERS)
    )
    own = some[..., OWN6] + 2 * some[..., OWN17]
    child = some[..., CHILD6] + 2 * some[..., CHILD17]
    second = some[..., OWN6] | some[..., OWN17] | some[..., GROWN]
    related = second | some[..., PARENT] | some[..., GRAND] | some[..., KIN] | (couple < 2)
    generations = second.astype(np.int64) + some[..., PARENT] + some[..., GRAND]
    minor = (child > 0) | some[..., YOUNG]
    kind = type_numbers()[
        couple,
        related.astype(np.int64),
        own,
        child,
        minor.astype(np.int64),
        (generations >= 2).astype(np.int64),
        np.minimum(n[..., SIZE], 7),
    ]
    of = {
        "sex": np.broadcast_to(levels.sex[head], kind.shape),
        "hhage": np.broadcast_to(levels.hhage[head], kind.shape),
        "hisp": np.broadcast_to(levels.hisp[head], kind.shape),
        "race": np.broadcast_to(levels.race[head], kind.shape),
        "elderly": some[..., OLD60].astype(np.int64) + some[..., OLD65] + some[..., OLD75],
        TENURE.name: np.broadcast_to(tenure, kind.shape),
        ATTRIBUTE: np.maximum(kind, 0),
        MEMBERS: n[..., SIZE],
    }
    cell = np.ravel_multi_index(tuple(of[a.name] for a in DHCH.attributes), DHCH.shape)
    able = (kind >= 0) & possible_cells()[cell] & (n[..., PARTNER].sum(axis=-1) <= 1)
    return of, able


@cache
def possible_cells() -> np.ndarray:
    return np.asarray(DHCH.possible)
