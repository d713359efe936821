"""The link of a release: its persons at home in households, tract by tract.

A tract depends on nothing outside of it, so tracts can be linked in any order and by any number of
processes. All choices between equals come from a generator whose seed is a digest of the published
counts, the tract and the number of the link: the same release has the same link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from das.errors import InputError
from das.link import householders, relationships
from das.link.counted import unit_counts
from das.link.couples import alone_again, matched, with_partners
from das.link.fields import Ints, household_attributes
from das.link.group import GroupHomes, GroupLink, link_group, renumbered
from das.link.linked_tract import LinkedTract
from das.link.people import HomePersons, grown_up, households_of
from das.link.possible import made_possible
from das.link.steering import steered
from das.link.ties import OccupiedBounds, consistent
from das.link.totals import published_totals
from das.link.trust import PUBLISHED, Trust
from das.model.dhc.households import TENURE
from das.model.dhc.members import HEADS
from das.model.frozen import Frozen
from das.model.histogram import Histogram


@dataclass(frozen=True, eq=False)
class TractInput(Frozen):
    """A tract to link: ``persons``, ``households`` and ``units`` of its blocks, ``group``, the
    number of the block group of each block, and ``seed``."""

    persons: Histogram
    households: Histogram
    units: Histogram
    group: Ints
    seed: bytes
    trust: Trust = PUBLISHED

    def __post_init__(self) -> None:
        blocks = {h.units for h in (self.persons, self.households, self.units)}
        if blocks != {len(self.group)}:
            raise InputError("counts of different blocks", where="link")


@dataclass(frozen=True, eq=False)
class LinkedHomes(Frozen):
    """Persons and their households. ``people`` are ordered by household, the householder first.
    ``household``: the number of each person's, ``(persons,)``. Of each household ``cell`` of
    ``dhch`` and the type ``asked`` of it, that of its published household. ``occupied`` and
    ``published_occupied`` of each block; ``moved``: persons who changed blocks or ages so that each
    block has someone of 15 and over."""

    people: HomePersons
    household: Ints
    cell: Ints
    asked: Ints
    occupied: Ints
    published_occupied: Ints
    moved: int

    @property
    def block(self) -> Ints:
        """Of each household, ``(households,)``."""
        out = np.zeros(len(self.cell), dtype=np.int64)
        out[self.household] = self.people.block
        return out

    @property
    def size(self) -> Ints:
        return np.bincount(self.household, minlength=len(self.cell))

    @property
    def tenure(self) -> Ints:
        """Households of each block by tenure, ``(blocks, 3)``."""
        out = np.zeros((len(self.occupied), len(TENURE.levels)), dtype=np.int64)
        found = household_attributes(self.cell)[TENURE.name]
        np.add.at(out, (self.block, found), 1)
        return out


def seed_of(counts: Mapping[str, Histogram], number: int = 0) -> bytes:
    """The seed of all links of a release, from its published counts by universe and the number of
    the link."""
    digest = sha256(b"%d" % number)
    for name in sorted(counts):
        digest.update(name.encode())
        for values in counts[name].to_arrays().values():
            digest.update(np.ascontiguousarray(values, dtype="<i8").tobytes())
    return digest.digest()


def tract_seed(seed: bytes, code: bytes) -> bytes:
    """The seed of one tract."""
    return sha256(seed + code).digest()


def link_tract(given: TractInput) -> LinkedHomes:
    """Link one tract. Raises :class:`InputError` where persons at home have no housing units."""
    blocks, units = len(given.group), unit_counts(given.units)
    people, moved, occupied = _people_and_units(given)
    home = np.bincount(people.block, minlength=blocks)
    rng = np.random.default_rng(np.frombuffer(given.seed, dtype=np.uint32))
    groups = [
        np.flatnonzero(given.group == g) for g in np.unique(given.group[np.flatnonzero(home)])
    ]
    links = _groups(people, groups, occupied, given, rng)
    published = relationships.by_band(HomePersons.of(given.persons))
    homes = _joined(links, published, blocks)
    if len(homes.cell):
        tract = linked_tract(given, homes)
        steered(tract, rng, given.trust.sweeps)
        homes = settled(homes, tract)
    return replace(homes, occupied=occupied, published_occupied=units["occupied"], moved=len(moved))


def _people_and_units(given: TractInput) -> tuple[HomePersons, Ints, Ints]:
    """The persons at home of a tract, such that each block that has any has someone of 15 and over;
    the numbers of those who changed for it; and the occupied units of each block."""
    blocks, units = len(given.group), unit_counts(given.units)
    people, moved = grown_up(
        HomePersons.of(given.persons), given.group, np.zeros(blocks, dtype=np.int64)
    )
    home = np.bincount(people.block, minlength=blocks)
    able = np.bincount(people.block[people.age >= 15], minlength=blocks)
    there = units["housing"]
    homeless = np.flatnonzero((home > 0) & (there == 0))
    if len(homeless):
        raise InputError(
            f"{home[homeless[0]]} persons live at home and there are no housing units",
            where=f"block {homeless[0]} of a tract",
        )
    bounds = OccupiedBounds.of(home, able, there)
    return people, moved, consistent(units["occupied"], home, bounds, given.group)


def _groups(
    people: HomePersons,
    groups: list[Ints],
    occupied: Ints,
    given: TractInput,
    rng: np.random.Generator,
) -> list[tuple[Ints, GroupLink]]:
    """The block groups, each with its blocks, linked one by one; their couples together."""
    block, cell = households_of(given.households)
    mate = matched(people, occupied, given.group, given.trust)
    homes, who, head = [], [], np.zeros(len(people), dtype=bool)
    for here in groups:
        inside = np.flatnonzero(np.isin(block, here))
        where = np.searchsorted(here, block[inside])
        homes.append(GroupHomes.of(where, cell[inside], int(occupied[here].sum()), rng))
        who.append(np.flatnonzero(np.isin(people.block, here)))
        part = renumbered(people.some(who[-1]), here)
        other = _numbered(who[-1], mate)
        head[who[-1]] = householders.chosen(part, other, occupied[here], homes[-1].races)
    before = people.relgq
    couples = with_partners(people, mate, head, given.group)
    people = people.labelled(couples.relgq)
    relgq = people.relgq.copy()
    for w in who:
        relgq[w] = householders.relabelled(people.some(w), head[w]).relgq
    people = alone_again(people.labelled(relgq), before, couples.partner_of, given.group)
    return [
        (
            here,
            link_group(
                renumbered(people.some(w), here),
                _numbered(w, couples.partner_of),
                home,
                given.trust,
                rng,
            ),
        )
        for here, w, home in zip(groups, who, homes, strict=True)
    ]


def _numbered(who: Ints, other: Ints) -> Ints:
    """The place among ``who``, in order, of the ``other`` of each of them, or -1."""
    found = other[who]
    return np.where(found < 0, -1, np.searchsorted(who, found))


def _joined(links: list[tuple[Ints, GroupLink]], published: Ints, blocks: int) -> LinkedHomes:
    """The block groups of a tract as one, with relationships."""
    if not links:
        return _empty(blocks)
    first = np.cumsum([0, *(len(link.head) for _, link in links)])
    start = np.cumsum([0, *(len(link.people) for _, link in links)])
    parts = [replace(link.people, block=here[link.people.block]) for here, link in links]
    people = HomePersons(
        *(
            np.concatenate([getattr(p, name) for p in parts])
            for name in ("block", "relgq", "sex", "age", "hispanic", "cenrace")
        )
    )
    household = np.concatenate(
        [k.filled.household + f for (_, k), f in zip(links, first, strict=False)]
    )
    place = np.concatenate([k.filled.place for _, k in links])
    head = np.concatenate([k.head + s for (_, k), s in zip(links, start, strict=False)])
    kind, tenure = (np.concatenate([getattr(k, f) for _, k in links]) for f in ("kind", "tenure"))
    asked = np.concatenate([k.asked for _, k in links])
    price = relationships.prices(people, household, place, head, kind)
    relgq = relationships.relabelled(people, price, published)
    relgq[head] = np.where(np.bincount(household)[household[head]] == 1, *HEADS)
    people = people.labelled(relgq)
    people, cell = made_possible(people, household, tenure)
    order = np.lexsort((people.age * -1, people.relgq, household))
    none = np.zeros(blocks, dtype=np.int64)
    return LinkedHomes(people.some(order), household[order], cell, asked, none, none, 0)


def linked_tract(given: TractInput, homes: LinkedHomes) -> LinkedTract:
    """Linked households, to be moved towards the published totals of their tract."""
    tenure = household_attributes(homes.cell)[TENURE.name]
    totals = published_totals(HomePersons.of(given.persons), given.households, given.group)
    return LinkedTract(homes.people, homes.household, tenure, given.group, totals)


def settled(homes: LinkedHomes, tract: LinkedTract) -> LinkedHomes:
    """The households of a ``tract`` that were moved."""
    relgq = tract.relgq.copy()
    relgq[tract.head] = np.where(np.bincount(tract.home) == 1, *HEADS)
    people, cell = made_possible(homes.people.labelled(relgq), tract.home, tract.tenure)
    order = np.lexsort((people.age * -1, people.relgq, tract.home))
    return replace(homes, people=people.some(order), household=tract.home[order], cell=cell)


def _empty(blocks: int) -> LinkedHomes:
    nothing, none = np.zeros(0, dtype=np.int64), np.zeros(blocks, dtype=np.int64)
    return LinkedHomes(HomePersons(*[nothing] * 6), nothing, nothing, nothing, none, none, 0)
