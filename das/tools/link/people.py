"""Persons at home and published households, one by one, as the link takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.publications.dhc.agreement.counted import HOME, MS, Ints, type_fields
from das.publications.dhc.model.household_types import ATTRIBUTE
from das.publications.dhc.model.households import DHCH, TENURES, TENVACGQ, VACANCIES
from das.publications.dhc.model.members import (
    HEADS,
    LEVEL,
    OWN,
    PARTNERS,
    LinkedPersons,
    cells_of,
    household_levels,
)
from das.publications.dhc.model.persons import DHCP

_FIELDS = ("block", "relgq", "sex", "age", "hispanic", "cenrace")


@dataclass(frozen=True, eq=False)
class HomePersons(Frozen):
    """Persons in households, arrays of shape ``(persons,)``: the number of their block, and their
    levels in ``dhcp``."""

    block: Ints
    relgq: Ints
    sex: Ints
    age: Ints
    hispanic: Ints
    cenrace: Ints

    def __len__(self) -> int:
        return len(self.block)

    @staticmethod
    def of(h: Histogram) -> HomePersons:
        """From counts of ``dhcp`` by block; persons in group quarters are left out."""
        found = np.unravel_index(h.cell, DHCP.shape)
        levels = [np.asarray(x, dtype=np.int64) for x in found]
        times = np.where(levels[0] < HOME, h.count, 0)
        return HomePersons(*(np.repeat(x, times) for x in (h.unit, *levels)))

    def some(self, which: Ints) -> HomePersons:
        return HomePersons(*(getattr(self, name)[which] for name in _FIELDS))

    def labelled(self, relgq: Ints) -> HomePersons:
        """The same persons, with other relationships."""
        return replace(self, relgq=relgq)

    def linked(self, household: Ints) -> LinkedPersons:
        """With the number of their household."""
        if len(household) != len(self):
            raise InputError("persons and households differ in number", where="link")
        return LinkedPersons(household, self.relgq, self.sex, self.age, self.hispanic, self.cenrace)


def households_of(h: Histogram) -> tuple[Ints, Ints]:
    """Block and cell of ``dhch`` of each published household."""
    return np.repeat(h.unit, h.count), np.repeat(h.cell, h.count)


def grown_up(people: HomePersons, groups: Ints, tracts: Ints) -> tuple[HomePersons, Ints]:
    """Persons such that every block with persons at home has someone of 15 or over.

    A block where nobody is gets one from its block group, otherwise from its tract (``groups`` and
    ``tracts``, by block). In exchange it gives a child of the same origin, race and voting age. So
    redistricting counts of blocks stay. If nobody can be spared, the oldest becomes 15.
    Returns the persons, and the numbers of those who changed."""
    block, changed = people.block.copy(), list[int]()
    age = people.age.copy()
    able = np.bincount(block[age >= 15], minlength=len(groups))
    young = np.flatnonzero((np.bincount(block, minlength=len(groups)) > 0) & (able == 0))
    for b in young.tolist():
        here = np.flatnonzero(block == b)
        found = _exchanged(people, block, able, here, (groups == groups[b], tracts == tracts[b]))
        if found is None:
            oldest = here[np.argmax(age[here])]
            age[oldest] = 15
            changed.append(int(oldest))
        else:
            child, teenager = found
            block[child], block[teenager] = block[teenager], b
            able[block[child]] -= 1
            changed += found
        able[b] += 1
    return replace(people, block=block, age=age), np.array(sorted(changed), dtype=np.int64)


def _exchanged(
    people: HomePersons, block: Ints, able: Ints, here: Ints, areas: tuple[np.ndarray, ...]
) -> tuple[int, int] | None:
    """A child of a block and a person of 15 to 17 elsewhere who can change places."""
    for area in areas:
        spare = area[block] & (able[block] > 1) & (people.age >= 15) & (people.age < 18)
        for child in here[np.argsort(-people.age[here], kind="stable")].tolist():
            alike = spare & (people.hispanic == people.hispanic[child])
            alike &= people.cenrace == people.cenrace[child]
            if alike.any():
                others = np.flatnonzero(alike)
                same = others[people.sex[others] == people.sex[child]]
                return int(child), int(same[0] if len(same) else others[0])
    return None


# The places in a household besides householder and partner: what its type says of its members.
#
# There are places for own children, other children, grandchildren, grown children, relatives and
# nonrelatives. One is for a parent or grandchild, the third generation. Free ones are for anyone whom
# the type allows.

#: Kinds of places. Those of children come in pairs: under 6, and 6 to 17.
OWN6, OWN17, CHILD6, CHILD17, GRAND6, GRAND17, GENERATION, GROWN, RELATIVE, STRANGER, FREE = range(
    11
)
KINDS = 11
_PLACE_FIELDS = ("couple", "relatives", "own", "children", "multig")


@cache
def places() -> Ints:
    """The places that each type needs, ``(522, 6)``, -1 behind them. Room beyond is ``FREE``, or
    ``STRANGER`` in a household without relatives."""
    t = type_fields()
    out = np.full((len(t.size), 6), -1, dtype=np.int64)
    for i in range(len(out)):
        needed = _needed(*(int(getattr(t, name)[i]) for name in _PLACE_FIELDS))[: int(t.room[i])]
        out[i, : len(needed)] = needed
    return out


def _needed(couple: int, relatives: int, own: int, children: int, multig: int) -> list[int]:
    other = children & ~own
    out = _ranges(own, OWN6)
    if multig and not own:
        # a grown child is the second generation
        return [GROWN, *(_ranges(children, GRAND6) or [GENERATION])]
    if multig:
        return [*out, *(_ranges(other, GRAND6) or [GENERATION])]
    out += _ranges(other, CHILD6)
    if relatives and couple > MS and not out:
        out.append(RELATIVE)
    return out


def _ranges(field: int, first: int) -> list[int]:
    """A place for each range of ages of a field of types: the first kind, and the one after it."""
    return [first + i for i in (0, 1) if field >> i & 1]


def expanded(kind: Ints, room: Ints) -> tuple[Ints, Ints]:
    """The places of some households, by type and room: of each place its household's number, and
    its kind; both ``(places,)``."""
    home = np.repeat(np.arange(len(kind)), room)
    start = np.cumsum(room) - room
    nth = np.arange(len(home)) - start[home]
    needed = places()[kind[home], np.minimum(nth, 5)]
    rest = np.where(type_fields().relatives[kind[home]] == 1, FREE, STRANGER)
    return home, np.where((nth < 6) & (needed >= 0), needed, rest)


# Units that match linked households: tenure by block is that of its households, and what was not
# occupied is vacant.
#
# Where a household moved to a block, a vacant unit leaves it. Vacant units by reason, and rented ones
# without payment of cash rent, keep the sums of their block group where blocks have room for them.

_VACANT = slice(len(TENURES), len(TENURES) + len(VACANCIES))
_RENTED, _FREE = 2, 3


def rewritten(units: Histogram, tenure: Ints, group: Ints) -> Histogram:
    """The units of each block. ``tenure``: its linked households by tenure in three classes,
    ``(blocks, 3)``; ``group``: its block group."""
    dense = units.dense()
    out = dense.copy()
    housing = dense[:, : _VACANT.stop].sum(axis=1)
    out[:, :_RENTED] = tenure[:, :_RENTED]
    out[:, _FREE] = shared(dense[:, [_FREE]], tenure[:, 2], group, whole=False)[:, 0]
    out[:, _RENTED] = tenure[:, 2] - out[:, _FREE]
    out[:, _VACANT] = shared(dense[:, _VACANT], housing - tenure.sum(axis=1), group, whole=True)
    block, cell = np.nonzero(out)
    return Histogram.of(units.units, TENVACGQ.cells, block, cell, out[block, cell])


def shared(now: Ints, room: Ints, group: Ints, *, whole: bool) -> Ints:
    """Counts ``now`` by block and class, changed so that each block has at most ``room`` of them
    (``whole``: exactly), ``(blocks, classes)``. What leaves a block goes to blocks of its group
    with room, class by class. What finds none is lost, and what is missing is of the last class."""
    out = now.copy()
    over = np.maximum(out.sum(axis=1) - room, 0)
    moved = np.zeros((int(group.max(initial=0)) + 1, now.shape[1]), dtype=np.int64)
    for b in np.flatnonzero(over).tolist():
        for _ in range(int(over[b])):
            kind = int(np.argmax(out[b]))
            out[b, kind] -= 1
            moved[group[b], kind] += 1
    free = room - out.sum(axis=1)
    for b in np.flatnonzero((free > 0) & (whole | (moved[group].sum(axis=1) > 0))).tolist():
        for _ in range(int(free[b])):
            kind = int(np.argmax(moved[group[b]]))
            if moved[group[b], kind]:
                moved[group[b], kind] -= 1
                out[b, kind] += 1
            elif whole:
                out[b, -1] += 1
    return out


# Households that cannot be, in the end: relationships change until every household has a type and
# a cell that is no structural zero.
#
# Three steps, each for the households that are still impossible: own children under 18 become other
# relatives; a spouse or partner becomes a nonrelative; everyone does. A household whose members are
# all nonrelatives of its householder is always possible.

_OTHER_RELATIVE, _OTHER, _IN_LAW = (
    LEVEL[x] for x in ("other-relative", "other-nonrelative", "child-in-law")
)


def cells(people: LinkedPersons, tenure: Ints) -> tuple[Ints, np.ndarray]:
    """The cell of ``dhch`` of each household, and which of them cannot be."""
    levels = household_levels(people, len(tenure))
    odd = levels[ATTRIBUTE] < 0
    found = cells_of({name: np.where(odd, 0, x) for name, x in levels.items()}, tenure)
    return found, np.asarray(odd | ~DHCH.possible[found])


def made_possible(people: HomePersons, household: Ints, tenure: Ints) -> tuple[HomePersons, Ints]:
    """The persons with relationships that can be, and the cell of each household."""
    head = np.isin(people.relgq, HEADS)
    for which, becomes in (
        (np.isin(people.relgq, (*OWN, _IN_LAW)) & (people.age < 18), _OTHER_RELATIVE),
        (np.isin(people.relgq, PARTNERS), _OTHER),
        (~head, _OTHER),
    ):
        found, odd = cells(people.linked(household), tenure)
        if not odd.any():
            return people, found
        relgq = people.relgq.copy()
        relgq[which & odd[household]] = becomes
        people = people.labelled(relgq)
    found, odd = cells(people.linked(household), tenure)
    if odd.any():
        raise InputError(
            f"{int(odd.sum())} households cannot be, whatever their members are called",
            where="link",
        )
    return people, found
