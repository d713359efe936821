"""The link of one block group: householders, households, members. Couples are found for its tract
between the first two, and relationships at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from das.link.fields import Ints, N, household_attributes
from das.link.matching import (
    Exchange,
    assigned,
    couple_index,
    crowding,
    differences,
    features,
    fitted,
)
from das.link.members import Filled, filled
from das.link.people import HomePersons
from das.link.pool import Pool, PoolTargets
from das.link.trust import Trust
from das.model.dhc.household_types import ATTRIBUTE
from das.model.dhc.households import DHCH, TENURE
from das.model.dhc.members import HEADS, LEVEL
from das.model.frozen import Frozen


@dataclass(frozen=True, eq=False)
class GroupLink(Frozen):
    """A linked block group. ``people`` have their relationships so far, ``filled`` their
    households. Of each household: ``head``, the number of the householder, ``kind``, its type as
    asked at last, ``tenure``, and ``asked``, the type of the published household."""

    people: HomePersons
    filled: Filled
    head: Ints
    kind: Ints
    tenure: Ints
    asked: Ints


@dataclass(frozen=True, eq=False)
class GroupHomes(Frozen):
    """The published households of a block group, as many as its occupied units: ``block`` and
    ``cell`` of ``dhch`` of each."""

    block: Ints
    cell: Ints

    @staticmethod
    def of(block: Ints, cell: Ints, wanted: int, rng: np.random.Generator) -> GroupHomes:
        """All, and some twice or left out where occupied units had to change; where there are none,
        the first that can be, since persons decide on everything but tenure."""
        if not len(cell):
            block, cell = np.zeros(1, dtype=np.int64), np.flatnonzero(DHCH.possible)[:1]
        every = np.arange(len(cell))
        if wanted <= len(cell):
            drawn = np.sort(rng.permutation(every)[:wanted])
        else:
            drawn = np.concatenate([every, np.sort(rng.choice(every, wanted - len(cell)))])
        return GroupHomes(block[drawn], cell[drawn])

    @property
    def races(self) -> Ints:
        """Householders by origin and race in seven groups, ``(14,)``."""
        of = household_attributes(self.cell)
        return np.bincount(of["hisp"] * 7 + of["race"], minlength=14)


def link_group(
    people: HomePersons, partner_of: Ints, homes: GroupHomes, trust: Trust, rng: np.random.Generator
) -> GroupLink:
    """Link the persons at home of a block group to its published households. Its blocks are 0, 1,
    .... Persons are householders and partners by ``relgq`` and ``partner_of``."""
    of, blocks = household_attributes(homes.cell), int(people.block.max()) + 1
    heads, other, couple = _roles(people, partner_of)
    pool = Pool(of[ATTRIBUTE], rng.random(len(homes.cell)))
    targets = _targets(people, heads, couple, other)
    pool.repair(targets)
    cost = differences(people, heads, couple, pool, of)
    cost += trust.elsewhere * (homes.block[:, None] != people.block[heads])
    at = assigned(cost - trust.crowded * crowding(people, heads, other, pool))
    wanted = features(people, other, pool, of["elderly"], blocks)
    at = Exchange(at, people.block[heads], couple, cost, wanted).run()
    fitted(pool, at, people.block[heads], np.bincount(people.block[other], minlength=blocks))
    pool.families(targets.strangers)
    household = np.full(len(people), -1, dtype=np.int64)
    household[heads] = np.arange(len(heads))
    partners = np.flatnonzero(partner_of >= 0)
    household[partners] = household[partner_of[partners]]
    full = filled(people, heads, household, pool.kind[at], pool.room[at], of["elderly"][at], trust)
    return GroupLink(people, full, heads, pool.kind[at], of[TENURE.name][at], of[ATTRIBUTE][at])


def _roles(people: HomePersons, partner_of: Ints) -> tuple[Ints, np.ndarray, Ints]:
    """Householders, block by block; who is neither householder nor partner, ``(persons,)``; and the
    kind of couple of each householder."""
    head = np.isin(people.relgq, HEADS)
    heads = np.flatnonzero(head)
    heads = heads[np.argsort(people.block[heads], kind="stable")]
    couple = np.full(len(people), N, dtype=np.int64)
    partners = np.flatnonzero(partner_of >= 0)
    couple[partner_of[partners]] = couple_index(people.relgq[partners])
    return heads, ~head & (partner_of < 0), couple[heads]


def _targets(people: HomePersons, heads: Ints, couple: Ints, other: np.ndarray) -> PoolTargets:
    strangers = int((other & (people.relgq >= LEVEL["roommate"])).sum())
    kinds = np.bincount(couple, minlength=N + 1)
    others = int(other.sum())
    alone = int((people.relgq[heads] == HEADS[0]).sum())
    alone = max(alone, int(kinds[N]) - others)  # each of the rest has someone
    if not others:
        alone = int(kinds[N])
    return PoolTargets(kinds[:N], alone, others, strangers)


def renumbered(people: HomePersons, blocks: Ints) -> HomePersons:
    """The persons of some blocks, numbered 0, 1, ... in their order."""
    where = np.searchsorted(blocks, people.block)
    return replace(people, block=where.astype(np.int64))
