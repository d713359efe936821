"""Persons at home and published households, one by one, as the link takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from das.errors import InputError
from das.link.counted import HOME
from das.link.fields import Ints
from das.model.dhc.members import LinkedPersons
from das.model.dhc.persons import DHCP
from das.model.frozen import Frozen
from das.model.histogram import Histogram

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
