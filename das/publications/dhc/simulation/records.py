"""Simulated persons and households of the DHC in blocks whose redistricting counts are given.

Given are the persons of each block by the 2,016 cells of ``pl94``, its housing units and which are
occupied, and its group quarters. Households are made of these persons, not persons for households,
so that all of that is met exactly:

1. how many adults and minors live in each household (:mod:`~das.publications.dhc.simulation.members`),
2. who they are to the householder, their sex and age (:mod:`~das.publications.dhc.simulation.members`),
3. which of the block's persons, by origin and race, they are
   (:mod:`~das.publications.dhc.simulation.members`),
4. who lives in which facility (:mod:`~das.publications.dhc.simulation.members`),
5. tenure and vacancy (:func:`tenures`, :func:`vacancies`).

What a household is, from its type to whether anybody in it is 75, is then computed from its members
(:mod:`das.publications.dhc.model.members`). Given the block, relationship, sex and age are drawn independently
of origin and race."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.readers.formats import MOST_AT_HOME
from das.files.simulators.people import Ints, choose, skewed
from das.model.histogram import Histogram
from das.model.redistricting import PL94
from das.publications.dhc.model.households import DHCH, TENURES, TENVACGQ, THREE, VACANCIES
from das.publications.dhc.model.members import (
    ADULT,
    HEADS,
    PARTNERS,
    LinkedPersons,
    household_cells,
)
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.simulation import members, shares
from das.publications.dhc.simulation.members import Compositions, compositions, draw_members

_MORTGAGE, _CLEAR, _RENTED, _CASHLESS = range(len(TENURES))


def tenures(rng: np.random.Generator, people: LinkedPersons, block: Ints, blocks: int) -> Ints:
    """Tenure in four classes of each household: by the householder's age, whether there is a
    couple, and the block."""
    homes = len(block)
    head = np.flatnonzero(np.isin(people.relgq, HEADS))
    age = np.empty(homes, dtype=np.int64)
    age[people.household[head]] = np.searchsorted(
        (25, 35, 45, 55, 60, 65, 75, 85), people.age[head], side="right"
    )
    couple = np.bincount(people.household[np.isin(people.relgq, PARTNERS)], minlength=homes) > 0
    owned = shares.OWNED[1 - couple.astype(np.int64), age]
    odds = owned / (1 - owned) * skewed(rng, blocks, shares.BLOCK_TENURE)[block]
    owns = rng.random(homes) < odds / (1 + odds)
    indebted, pays = rng.random(homes) < shares.MORTGAGE[age], rng.random(homes) >= shares.CASHLESS
    return np.where(owns, np.where(indebted, _MORTGAGE, _CLEAR), np.where(pays, _RENTED, _CASHLESS))


def vacancies(rng: np.random.Generator, vacant: Ints) -> Ints:
    """Vacant units by why, ``(blocks, 7)``. ``vacant``: units of each block."""
    block = np.repeat(np.arange(len(vacant)), vacant)
    usual = choose(rng, shares.VACANT, len(vacant))[block]
    why = np.where(
        rng.random(len(block)) < shares.ALIKE, usual, choose(rng, shares.VACANT, len(block))
    )
    return np.bincount(
        block * len(VACANCIES) + why, minlength=len(VACANCIES) * len(vacant)
    ).reshape(-1, len(VACANCIES))


_RACES = len(PL94.attribute("cenrace").levels)


class _Inhabitants(NamedTuple):
    """Persons one by one: block, kind of dwelling, voting age, and Hispanic origin x race."""

    block: Ints
    hhgq: Ints
    adult: Ints
    origin: Ints

    def those(self, which: NDArray[np.bool_]) -> _Inhabitants:
        return _Inhabitants(*(values[which] for values in self))


@dataclass(frozen=True, eq=False)
class SimulatedDhc:
    """``people``, and the block of each, ``(persons,)``; of each household its block, tenure in the
    four classes of ``tenvacgq`` and cell of ``dhch``, ``(households,)``; of each block ``vacant``
    units by why, ``(blocks, 7)``, and ``facilities``, ``(blocks, 24)``."""

    people: LinkedPersons
    block: Ints
    home_block: Ints
    tenure: Ints
    cell: Ints
    vacant: Ints
    facilities: Ints

    @property
    def blocks(self) -> int:
        return len(self.vacant)

    @property
    def occupied(self) -> Ints:
        """Households of each block: as given where that could be (:func:`occupied_units`)."""
        return np.bincount(self.home_block, minlength=self.blocks)

    def persons(self) -> Histogram:
        """Over ``dhcp``, by block."""
        return _counted(DHCP.cells, self.block, self.people.cells, self.blocks)

    def households(self) -> Histogram:
        """Over ``dhch``, by block."""
        return _counted(DHCH.cells, self.home_block, self.cell, self.blocks)

    def units(self) -> Histogram:
        """Over ``tenvacgq``, by block."""
        homes = np.bincount(
            self.home_block * len(TENURES) + self.tenure, minlength=len(TENURES) * self.blocks
        )
        every = np.concatenate(
            [homes.reshape(self.blocks, -1), self.vacant, self.facilities], axis=1
        )
        block, cell = np.nonzero(every)
        return Histogram.from_triplets(self.blocks, TENVACGQ.cells, block, cell, every[block, cell])


def _counted(cells: int, block: Ints, cell: Ints, blocks: int) -> Histogram:
    return Histogram.from_triplets(blocks, cells, block, cell, np.ones(len(cell), dtype=np.int64))


def simulate(
    rng: np.random.Generator,
    persons: Histogram,
    units: Ints,
    occupied: Ints,
    facilities: Ints | None = None,
) -> SimulatedDhc:
    """Households and persons with the redistricting counts that are given, exactly; a function of
    these and of ``rng``.

    ``persons``: by block, over ``pl94``. ``units``, ``occupied``: housing units, ``(blocks,)``.
    ``facilities``: by type, ``(blocks, 24)``, or by class, ``(blocks, 7)``; without them there is
    one in each class that somebody lives in. Occupied units are lowered or raised where they cannot
    be (:func:`occupied_units`). Raises :class:`InputError` for what contradicts itself: another
    schema or a structural zero, persons in households without a unit, facilities without persons.
    """
    units, occupied = np.asarray(units, dtype=np.int64), np.asarray(occupied, dtype=np.int64)
    _check(persons, units, occupied)
    every = np.repeat(np.arange(len(persons.cell)), persons.count)
    hhgq, adult, hispanic, race = np.unravel_index(persons.cell[every], PL94.shape)
    given = _Inhabitants(persons.unit[every], hhgq, adult, hispanic * _RACES + race)
    housed, away = given.those(given.hhgq == 0), given.those(given.hhgq > 0)
    occupied = occupied_units(np.bincount(housed.block, minlength=len(units)), units, occupied)
    homes, families = _households(rng, housed, occupied)
    by_type, residents = _quarters(rng, away, facilities, len(units))
    people = LinkedPersons(
        *(np.concatenate(both) for both in zip(families, residents, strict=True))
    )
    tenure = tenures(rng, people, homes.block, len(units))
    return SimulatedDhc(
        people,
        np.concatenate([homes.block[families[0]], away.block]),
        homes.block,
        tenure,
        household_cells(people, np.array(THREE)[tenure]),
        vacancies(rng, units - occupied),
        by_type,
    )


def occupied_units(persons: Ints, units: Ints, occupied: Ints) -> Ints:
    """Occupied units as near to ``occupied`` as can be, ``(blocks,)``: none where nobody lives in
    households, else at most one a person. There is one at least for each ``MOST_AT_HOME`` persons,
    if there are that many units. Others are vacant. A block with fewer adults than households keeps
    them: minors of 15 to 17 head some.

    >>> occupied_units(np.array([0, 3, 3, 41]), np.array([5, 5, 5, 5]), np.array([2, 4, 0, 1]))
    array([0, 3, 1, 3])"""
    most = np.minimum(persons, units)
    return np.clip(occupied, np.minimum(-(-persons // MOST_AT_HOME), most), most)


def _check(persons: Histogram, units: Ints, occupied: Ints) -> None:
    remedy = (
        "give persons over pl94 by block, and housing units and occupied ones of the same blocks"
    )
    if persons.cells != PL94.cells:
        raise InputError(
            f"persons in {persons.cells} cells, and pl94 has {PL94.cells}",
            where="simulate",
            remedy=remedy,
        )
    if units.shape != (persons.units,) or occupied.shape != units.shape:
        raise InputError(
            f"{persons.units} blocks with persons, units of shape {units.shape} and occupied ones"
            f" of shape {occupied.shape}",
            where="simulate",
            remedy=remedy,
        )
    if ((occupied < 0) | (occupied > units)).any():
        block = int(np.argmax((occupied < 0) | (occupied > units)))
        raise InputError(
            f"block number {block} has {occupied[block]} occupied units of {units[block]}",
            where="simulate",
            remedy="give at most as many as there are",
        )
    if not PL94.possible[persons.cell].all():
        raise InputError(
            "persons in a structural zero of pl94",
            where="simulate",
            remedy="nobody under 18 lives in a nursing home",
        )
    homeless = np.unique(
        persons.unit[(persons.cell < PL94.steps(("hhgq",))[0][0]) & (units[persons.unit] == 0)]
    )
    if len(homeless):
        raise InputError(
            f"block number {homeless[0]} has persons in households, and no housing unit",
            where="simulate",
            remedy="place them in group quarters, or add a unit",
        )


def _households(
    rng: np.random.Generator, housed: _Inhabitants, occupied: Ints
) -> tuple[Compositions, tuple[Ints, ...]]:
    """The households, and everybody in them as :class:`LinkedPersons` has it."""
    a, m = (
        np.bincount(housed.block[housed.adult == voting], minlength=len(occupied))
        for voting in (1, 0)
    )
    homes = compositions(rng, a, m, occupied)
    who = draw_members(rng, homes)
    group = 2 * homes.block[who.household] + (who.age >= ADULT)
    origin = members.assign(
        rng,
        who.household,
        group,
        np.isin(who.relgq, HEADS),
        (2 * housed.block + housed.adult, housed.origin),
    )
    return homes, (who.household, who.relgq, who.sex, who.age, *divmod(origin, _RACES))


def _quarters(
    rng: np.random.Generator, away: _Inhabitants, facilities: Ints | None, blocks: int
) -> tuple[Ints, tuple[Ints, ...]]:
    """Facilities by type, and everybody in them as :class:`LinkedPersons` has it."""
    kinds = len(PL94.attribute("hhgq").levels)
    by_class = np.bincount(away.block * kinds + away.hhgq, minlength=kinds * blocks).reshape(
        -1, kinds
    )[:, 1:]
    by_type = members.facilities_by_type(rng, facilities, by_class)
    types = members.types_of(rng, away.block, away.hhgq, by_type)
    nowhere = np.full(len(types), -1)
    return by_type, (
        nowhere,
        *members.residents(rng, types, away.adult),
        *divmod(away.origin, _RACES),
    )
