"""The link of a release: its persons at home in households, tract by tract.

A tract depends on nothing outside of it, so tracts can be linked in any order and by any number of
processes. All choices between equals come from a generator whose seed is a digest of the published
counts, the tract and the number of the link: the same release has the same link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from heapq import heapify, heappop, heappush

import numpy as np

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.publications.dhc.agreement.counted import Ints, household_attributes, unit_counts
from das.publications.dhc.model.households import TENURE
from das.publications.dhc.model.members import HEADS
from das.tools.link import members, relationships
from das.tools.link.linked_tract import GroupHomes, GroupLink, LinkedTract, link_group, renumbered
from das.tools.link.members import alone_again, matched, with_partners
from das.tools.link.people import (
    PUBLISHED,
    HomePersons,
    Totals,
    Trust,
    above_weights,
    grown_up,
    households_of,
    is_firm,
    made_possible,
    published_totals,
)
from das.tools.link.relationships import steered

# Occupied units that persons do not contradict.
#
# In a block with :math:`n` persons at home, :math:`a` of them of 15 and over, and :math:`u` housing
# units, the occupied units must be
#
# .. math:: [n > 0] \le o \le \min(a, u).
#
# Published counts violate it, because persons and units are measured apart. :func:`consistent` moves
# each count into its interval, and keeps the sum of every block group where its intervals hold it:
# the difference goes, a household at a time, where persons per household are furthest off.


@dataclass(frozen=True, eq=False)
class OccupiedBounds(Frozen):
    """``lower`` and ``upper`` by block, each ``(blocks,)``."""

    lower: Ints
    upper: Ints

    def __post_init__(self) -> None:
        if (self.lower > self.upper).any():
            block = int(np.argmax(self.lower > self.upper))
            raise InputError(
                f"a block has at least {self.lower[block]} and at most {self.upper[block]}"
                " occupied units",
                where=f"block {block}",
            )

    @staticmethod
    def from_counts(home: Ints, able: Ints, housing: Ints) -> OccupiedBounds:
        """From persons at home, those of them who are or may be 15 and over, and housing units. A
        block with persons keeps one household, also where nobody is 15."""
        lower = (home > 0).astype(np.int64)
        return OccupiedBounds(lower, np.maximum(lower, np.minimum(able, housing)))

    def broken(self, occupied: Ints) -> np.ndarray:
        """The blocks whose occupied units are outside, ``(blocks,)``."""
        return np.asarray((occupied < self.lower) | (occupied > self.upper))


def consistent(occupied: Ints, home: Ints, bounds: OccupiedBounds, group: Ints) -> Ints:
    """The nearest counts inside the bounds, ``(blocks,)``; ``group`` numbers the block groups. The
    sum of a group is kept where its bounds allow, otherwise it is the nearest that they do.

    >>> n, able, occ = (np.array(x) for x in ([0, 5, 3, 10, 2], [0, 4, 1, 8, 0], [2, 0, 3, 4, 1]))
    >>> bounds = OccupiedBounds.from_counts(n, able, np.full(5, 20))
    >>> consistent(occ, n, bounds, np.zeros(5, dtype=int)).tolist()
    [0, 3, 1, 5, 1]"""
    out = np.clip(occupied, bounds.lower, bounds.upper)
    for g in np.unique(group[bounds.broken(occupied)]):
        here = np.flatnonzero(group == g)
        gap = int(occupied[here].sum() - out[here].sum())
        _moved(out, home, bounds, here, gap)
    return out


def _moved(out: Ints, home: Ints, bounds: OccupiedBounds, here: Ints, gap: int) -> None:
    """Add ``gap`` households to blocks of a group, or take them away, where persons per household
    are most, or least."""
    sign = 1 if gap > 0 else -1

    def key(b: int) -> float:
        return -sign * home[b] / max(1, out[b])

    def open_to(b: int) -> bool:
        return bool(out[b] < bounds.upper[b] if sign > 0 else out[b] > bounds.lower[b])

    queue = [(key(b), b) for b in here.tolist() if open_to(b)]
    heapify(queue)
    while gap and queue:
        _, b = heappop(queue)
        out[b] += sign
        gap -= sign
        if open_to(b):
            heappush(queue, (key(b), b))


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
    published = relationships.by_band(HomePersons.from_histogram(given.persons))
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
        HomePersons.from_histogram(given.persons), given.group, np.zeros(blocks, dtype=np.int64)
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
    bounds = OccupiedBounds.from_counts(home, able, there)
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
        homes.append(GroupHomes.resampled(where, cell[inside], int(occupied[here].sum()), rng))
        who.append(np.flatnonzero(np.isin(people.block, here)))
        part = renumbered(people.some(who[-1]), here)
        other = _numbered(who[-1], mate)
        head[who[-1]] = members.chosen(part, other, occupied[here], homes[-1].races)
    before = people.relgq
    couples = with_partners(people, mate, head, given.group)
    people = people.labeled(couples.relgq)
    relgq = people.relgq.copy()
    for w in who:
        relgq[w] = members.relabeled(people.some(w), head[w]).relgq
    people = alone_again(people.labeled(relgq), before, couples.partner_of, given.group)
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
    relgq = relationships.relabeled(people, price, published)
    relgq[head] = np.where(np.bincount(household)[household[head]] == 1, *HEADS)
    people = people.labeled(relgq)
    people, cell = made_possible(people, household, tenure)
    order = np.lexsort((people.age * -1, people.relgq, household))
    none = np.zeros(blocks, dtype=np.int64)
    return LinkedHomes(people.some(order), household[order], cell, asked, none, none, 0)


def linked_tract(given: TractInput, homes: LinkedHomes) -> LinkedTract:
    """Linked households, to be moved towards the published totals of their tract."""
    tenure = household_attributes(homes.cell)[TENURE.name]
    totals = published_totals(
        HomePersons.from_histogram(given.persons), given.households, given.group
    )
    return LinkedTract(homes.people, homes.household, tenure, given.group, totals)


def settled(homes: LinkedHomes, tract: LinkedTract) -> LinkedHomes:
    """The households of a ``tract`` that were moved."""
    relgq = tract.relgq.copy()
    relgq[tract.head] = np.where(np.bincount(tract.home) == 1, *HEADS)
    people, cell = made_possible(homes.people.labeled(relgq), tract.home, tract.tenure)
    order = np.lexsort((people.age * -1, people.relgq, tract.home))
    return replace(homes, people=people.some(order), household=tract.home[order], cell=cell)


def _empty(blocks: int) -> LinkedHomes:
    nothing, none = np.zeros(0, dtype=np.int64), np.zeros(blocks, dtype=np.int64)
    return LinkedHomes(HomePersons(*[nothing] * 6), nothing, nothing, nothing, none, none, 0)


# Tracts of a county move together, towards the totals of the county.
#
# Each tract is near its own totals once it is linked. What tracts are off adds up in the county,
# whose totals are published with far less error than that. So the distance :math:`J` of
# :mod:`das.tools.link.people` gets one more unit, the county. Tracts move one after another, and each sees
# how far the county is off after the moves of all others. So no deviation is made up for twice.
#
# *Firm* families have the weight that they have in a tract, and are met in the end: what a turn
# leaves over is asked for again in the next, as the multipliers of an augmented Lagrangian are. So
# it does not matter that what is plausible, such as couples of similar age, has a price as well.
# Other families contradict firm ones, above all sizes of households, which cannot add up to the
# persons. They weigh less by the number of tracts, because their errors add up. Were they asked for
# again and again, precise totals would give way to them.
#
# Where blocks of a tract cannot hold what is published of it, other tracts make up for that in firm
# families. So the county is right, and each of them a little off.

#: Sweeps over all tracts.
TURNS = 6
#: The most tracts that move together.
MOST = 80


def parts(above: Ints) -> list[Ints]:
    """The tracts that move together, as numbers: those of one unit, at most :data:`MOST`.
    ``above``: the unit above each tract."""
    return [
        part
        for unit in np.unique(above)
        for here in (np.flatnonzero(above == unit),)
        for part in np.array_split(here, -(-len(here) // MOST))
    ]


def moved_together(given: Sequence[TractInput], homes: Sequence[LinkedHomes]) -> list[LinkedHomes]:
    """Linked tracts, moved towards the totals of all of them."""
    lived_in = [i for i, h in enumerate(homes) if len(h.cell)]
    out, tracts = list(homes), [linked_tract(given[i], homes[i]) for i in lived_in]
    if not tracts or not given[0].trust.sweeps:
        return out
    held = np.sum([t.added_up for t in tracts], axis=0)
    totals = _totals([given[i] for i in lived_in]).with_large(held[None])
    over, weight = held - totals.wanted[0], above_weights(totals.weight[0], len(tracts))
    rngs = [
        np.random.default_rng([*np.frombuffer(given[i].seed, dtype=np.uint32), 1]) for i in lived_in
    ]
    pull = np.zeros_like(over)
    for _ in range(TURNS):
        over = over + pull
        for tract, rng in zip(tracts, rngs, strict=True):
            tract.set_above(over, weight)
            steered(tract, rng, 1)
            over = tract.over[0, :-1]
        over = over - pull
        pull += np.where(is_firm(), over, 0.0)
    for i, tract in zip(lived_in, tracts, strict=True):
        out[i] = settled(homes[i], tract)
    return out


def _totals(given: Sequence[TractInput]) -> Totals:
    """What the files say of some tracts as a whole."""
    persons, households = (
        Histogram.concatenate([getattr(g, name) for g in given])
        for name in ("persons", "households")
    )
    return published_totals(
        HomePersons.from_histogram(persons), households, np.zeros(persons.units, dtype=np.int64)
    )
