"""From the persons of households to households: their cell of ``dhch`` follows from who lives
there.

Own children are biological, adopted and stepchildren of the householder under 18; relatives are
these of any age, spouses, and everybody from siblings to other relatives. A household has three
generations if, besides the householder's, two of these live there: parents or parents-in-law,
children of any age or children-in-law, grandchildren. Source: the technical documentation of the
file (2020), subject definitions; that of a generation is the one under which all types that follow
are among the 522."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen
from das.publications.dhc.model.households import (
    ATTRIBUTE,
    COUPLES,
    DHCH,
    HHAGE,
    LARGEST,
    TENURE,
    TYPES,
)
from das.publications.dhc.model.persons import DHCP, RACE7, RELATIONSHIPS

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ADULT = 18
#: The levels of ``relgq`` that each relationship is.
LEVEL = {name: i for i, name in enumerate(RELATIONSHIPS)}
HEADS = (LEVEL["householder-alone"], LEVEL["householder"])
#: Of each kind of couple but the last, what the other of the two is to the householder.
PARTNERS = tuple(
    LEVEL[p]
    for p in ("opposite-sex-spouse", "same-sex-spouse", "opposite-sex-partner", "same-sex-partner")
)
OWN = tuple(LEVEL[r] for r in ("biological-child", "adopted-child", "stepchild"))
PARENTS = (LEVEL["parent"], LEVEL["parent-in-law"])
#: Generations beside the householder's.
_GENERATIONS = (PARENTS, (*OWN, LEVEL["child-in-law"]), (LEVEL["grandchild"],))
_RELATED = (
    *(LEVEL[r] for r in ("opposite-sex-spouse", "same-sex-spouse", "sibling", "other-relative")),
    *(x for generation in _GENERATIONS for x in generation),
)
_OLD = (60, 65, 75)  #: where the classes of ``elderly`` begin
_HHAGE = [
    int(level.split("-")[0]) for level in HHAGE.levels
]  #: where the classes of ``hhage`` begin
_SMALL = 6  #: children are under it or not
_FIELDS = (len(COUPLES), 2, 4, 4, 2, 2, LARGEST + 1)


@dataclass(frozen=True, eq=False)
class LinkedPersons(Frozen):
    """Persons one by one, arrays of shape ``(persons,)``: the number of their household, -1 in
    group quarters, and their levels in ``dhcp``."""

    household: Ints
    relgq: Ints
    sex: Ints
    age: Ints
    hispanic: Ints
    cenrace: Ints

    def __len__(self) -> int:
        return len(self.household)

    @property
    def cells(self) -> Ints:
        """Of ``dhcp``."""
        levels = (self.relgq, self.sex, self.age, self.hispanic, self.cenrace)
        return np.ravel_multi_index(levels, DHCP.shape).astype(np.int64)


@dataclass(frozen=True, eq=False)
class HousedPersons(Frozen):
    """``people`` of some places, the number of the ``place`` of each, ``(persons,)``, and how many
    ``households`` they have."""

    people: LinkedPersons
    place: Ints
    households: int

    def __post_init__(self) -> None:
        home = self.people.household
        if self.place.shape != home.shape or (home >= self.households).any():
            raise InputError("persons without a place, or of another household", where="households")

    @property
    def home(self) -> Ints:
        """The place of each household, ``(households,)``."""
        out = np.full(self.households, -1, dtype=np.int64)
        inside = self.people.household >= 0
        out[self.people.household[inside]] = self.place[inside]
        return out


def household_cells(people: LinkedPersons, tenure: Ints) -> Ints:
    """The cell of ``dhch`` of each household, ``(households,)``. ``tenure``: in three classes.

    Raises :class:`InputError` for a household without a householder, with two, or of no type that
    there is."""
    homes, at = len(tenure), np.flatnonzero(np.isin(people.relgq, HEADS))
    if len(at) != homes or not np.array_equal(np.sort(people.household[at]), np.arange(homes)):
        raise InputError("a household must have one householder", where="households")
    levels = household_levels(people, homes)
    if (odd := levels[ATTRIBUTE] < 0).any():
        raise InputError(
            f"household {int(np.argmax(odd))} has members whom no type of household has",
            where="households",
        )
    return cells_of(levels, tenure)


def cells_of(levels: Mapping[str, Ints], tenure: Ints) -> Ints:
    """The cell of ``dhch`` with the levels that :func:`household_levels` found, and a tenure in
    three classes."""
    every = {**levels, TENURE.name: tenure}
    return np.ravel_multi_index(tuple(every[a.name] for a in DHCH.attributes), DHCH.shape).astype(
        np.int64
    )


def household_levels(people: LinkedPersons, homes: int) -> dict[str, Ints]:
    """Of households with one householder each, their levels in all attributes of ``dhch`` but
    tenure, ``(households,)``. The type is -1 where the members are of none."""
    at = np.flatnonzero(np.isin(people.relgq, HEADS))
    head = np.empty(homes, dtype=np.int64)
    head[people.household[at]] = at
    elderly = sum(_any(people, people.age >= age, homes).astype(np.int64) for age in _OLD)
    return {
        "sex": people.sex[head],
        "hhage": np.searchsorted(_HHAGE, people.age[head], side="right") - 1,
        "hisp": people.hispanic[head],
        "race": np.asarray(RACE7.index)[people.cenrace[head]],
        "elderly": np.asarray(elderly),
        ATTRIBUTE: _types(people, homes),
    }


def _types(people: LinkedPersons, homes: int) -> Ints:
    """The number in ``TYPES`` of each household, ``(homes,)``, or -1."""
    relgq, minor = people.relgq, people.age < ADULT
    couple = np.full(homes, len(PARTNERS))
    for i, level in enumerate(PARTNERS):
        couple[people.household[relgq == level]] = i
    child = minor & ~np.isin(relgq, (*HEADS, *PARTNERS))
    generations = sum(
        _any(people, np.isin(relgq, levels), homes).astype(np.int64) for levels in _GENERATIONS
    )
    size = np.minimum(
        np.bincount(people.household[people.household >= 0], minlength=homes), LARGEST
    )
    fields = (
        couple,
        _any(people, np.isin(relgq, _RELATED), homes),
        _ranges(people, child & np.isin(relgq, OWN), homes),
        _ranges(people, child, homes),
        _any(people, minor, homes),
        generations >= 2,
        size,
    )
    return type_numbers()[tuple(np.asarray(f, dtype=np.int64) for f in fields)]


@cache
def type_numbers() -> Ints:
    """The number of the type with some values of the seven fields, -1 where there is none."""
    out = np.full(_FIELDS, -1, dtype=np.int64)
    for i, (couple, *rest) in enumerate(TYPES):
        out[(list(COUPLES).index(couple), *rest)] = i
    return out


def _any(people: LinkedPersons, which: Bools, homes: int) -> Bools:
    """Of each household, whether any of its members is one of ``which``."""
    return np.bincount(people.household[which & (people.household >= 0)], minlength=homes) > 0


def _ranges(people: LinkedPersons, child: Bools, homes: int) -> Ints:
    """Of each household, in which of the two ranges of ages some children are: an index of
    ``household_types.RANGES``."""
    small, large = (
        _any(people, child & side, homes) for side in (people.age < _SMALL, people.age >= _SMALL)
    )
    return small + 2 * large.astype(np.int64)
