"""The linked population of a release: every tract linked, and what follows from it for both files
of the DHC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.publications.dhc.agreement.counted import HOME, Ints
from das.publications.dhc.model import quarters
from das.publications.dhc.model.households import DHCH, TENURE, TENVACGQ
from das.publications.dhc.model.persons import DHCP
from das.tools.link.linking import LinkedHomes, TractInput, seed_of, tract_seed
from das.tools.link.people import PUBLISHED, HomePersons, Trust, rewritten

_QUARTERS = TENVACGQ.cells - len(quarters.TYPES)
_WIDTH = DHCP.cells // DHCP.shape[0]


@dataclass(frozen=True, eq=False)
class LinkedPopulation(Frozen):
    """Everyone of a release. ``people`` at home are in order of their ``household``, which is
    in order of blocks; of each household its ``cell`` of ``dhch``, its ``block``, and the type
    ``asked`` of it. ``away``: persons in group quarters by block, over ``dhcp``. ``units``: over
    ``tenvacgq``. ``occupied`` and ``published_occupied``: units of each block. ``moved``: persons
    who changed blocks or ages."""

    people: HomePersons
    household: Ints
    cell: Ints
    block: Ints
    asked: Ints
    away: Histogram
    units: Histogram
    occupied: Ints
    published_occupied: Ints
    moved: int

    def __post_init__(self) -> None:
        size = np.bincount(self.household, minlength=len(self.cell))
        if len(size) != len(self.cell) or (size == 0).any():
            raise InputError("a household without persons", where="link")
        if (self.block[self.household] != self.people.block).any():
            raise InputError("a person in another block than their household", where="link")

    @property
    def size(self) -> Ints:
        """Persons of each household, ``(households,)``."""
        return np.bincount(self.household, minlength=len(self.cell))

    @property
    def counts(self) -> dict[str, Histogram]:
        """Persons, units and households by block: both files of the DHC, from the link."""
        blocks, home = self.away.units, self.people.linked(self.household).cells
        persons = Histogram.from_triplets(
            blocks,
            DHCP.cells,
            np.concatenate([self.people.block, self.away.unit]),
            np.concatenate([home, self.away.cell]),
            np.concatenate([np.ones_like(home), self.away.count]),
        )
        one = np.ones_like(self.cell)
        return {
            "persons": persons,
            "units": self.units,
            "households": Histogram.from_triplets(blocks, DHCH.cells, self.block, self.cell, one),
        }

    @property
    def facilities(self) -> Ints:
        """Facilities of group quarters by block and type, ``(blocks, 24)``."""
        out = np.zeros((self.units.units, len(quarters.TYPES)), dtype=np.int64)
        away = self.units.cell >= _QUARTERS
        out[self.units.unit[away], self.units.cell[away] - _QUARTERS] = self.units.count[away]
        return out


def tracts(
    counts: Mapping[str, Histogram],
    groups: Ints,
    tract: Ints,
    codes: Sequence[bytes],
    number: int = 0,
    trust: Trust = PUBLISHED,
) -> list[TractInput]:
    """The tracts of a release, in order. ``groups`` and ``tract`` number the block group and the
    tract of each block; ``codes`` name the tracts. ``number``: that of the link."""
    seed, out = seed_of(counts, number), []
    cuts = np.searchsorted(tract, np.arange(len(codes) + 1))
    for code, a, b in zip(codes, cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        persons, households, units = (
            counts[name].rows(a, b) for name in ("persons", "households", "units")
        )
        here = np.unique(groups[a:b], return_inverse=True)[1].reshape(-1)
        key = tract_seed(seed, bytes(code))
        out.append(TractInput(persons, households, units, here, key, trust))
    return out


def joined(
    linked: Sequence[LinkedHomes], counts: Mapping[str, Histogram], groups: Ints
) -> LinkedPopulation:
    """The linked tracts of a release as one population, in their order."""
    start = np.cumsum([0, *(len(part.occupied) for part in linked)])
    first = np.cumsum([0, *(len(part.cell) for part in linked)])
    fields = ("relgq", "sex", "age", "hispanic", "cenrace")
    block = np.concatenate([p.people.block + s for p, s in zip(linked, start, strict=False)])
    people = HomePersons(
        block, *(np.concatenate([getattr(p.people, f) for p in linked]) for f in fields)
    )
    household = np.concatenate([p.household + f for p, f in zip(linked, first, strict=False)])
    cell, asked = (np.concatenate([getattr(p, f) for p in linked]) for f in ("cell", "asked"))
    home = np.concatenate([p.block + s for p, s in zip(linked, start, strict=False)])
    people, household, order = _by_block(people, household, home)
    occupied, before = (
        np.concatenate([getattr(p, f) for p in linked]) for f in ("occupied", "published_occupied")
    )
    tenure = np.zeros((len(occupied), len(TENURE.levels)), dtype=np.int64)
    np.add.at(tenure, (home, np.unravel_index(cell, DHCH.shape)[_TENURE]), 1)
    return LinkedPopulation(
        people,
        household,
        cell[order],
        home[order],
        asked[order],
        _away(counts["persons"]),
        rewritten(counts["units"], tenure, groups),
        occupied,
        before,
        sum(p.moved for p in linked),
    )


_TENURE = [a.name for a in DHCH.attributes].index(TENURE.name)


def _by_block(people: HomePersons, household: Ints, block: Ints) -> tuple[HomePersons, Ints, Ints]:
    """Households in order of their blocks, and persons in order of households; and that order."""
    order = np.argsort(block, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    number = place[household]
    who = np.argsort(number, kind="stable")
    return people.some(who), number[who], order


def _away(persons: Histogram) -> Histogram:
    """Persons in group quarters."""
    far = persons.cell // _WIDTH >= HOME
    return Histogram.from_triplets(
        persons.units, persons.cells, persons.unit[far], persons.cell[far], persons.count[far]
    )
