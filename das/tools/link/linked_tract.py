"""A linked tract while it changes: members, what they add up to, and how far that is from what is
published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from das.model.frozen import Frozen
from das.publications.dhc.agreement.counted import Floats, Ints, N, household_attributes
from das.publications.dhc.model.households import ATTRIBUTE, DHCH, TENURE
from das.publications.dhc.model.members import ADULT, HEADS, LEVEL, OWN, PARENTS, PARTNERS
from das.tools.link.matching import (
    Exchange,
    HeadLevels,
    Pool,
    PoolTargets,
    assigned,
    attributes,
    counted,
    couple_index,
    crowding,
    differences,
    features,
    fitted,
)
from das.tools.link.members import MOST_YEARS, Filled, age_gap, filled
from das.tools.link.people import (
    CELLS,
    RELATIONS,
    HomePersons,
    Totals,
    Trust,
    added,
    age_classes,
    household_index,
    person_index,
)

#: The first relationship of those who are no householders, and of those who are no partners either.
FIRST = HEADS[1] + 1
MEMBER = FIRST + len(PARTNERS)
_IN_LAW, _GRANDCHILD = LEVEL["child-in-law"], LEVEL["grandchild"]
#: What costs as much cannot be.
WRONG = 30.0
#: What years between generations cost, and couples that are far apart.
_YEARS, _CLOSE = (15, 17), np.array([WRONG, 3.0, 0.0])
_COUPLE, _USUAL = 1.8, 8.0
_NO_AGE = 1000
#: The row of the first block group; before it are those of the unit above the tract and of the tract.
FIRST_GROUP = 2
#: Years between generations.
_APART = 16


class LinkedTract:
    """Persons of a tract in households, which :mod:`das.tools.link.local_moves` change.

    ``over``: how far it is over its totals, and their ``weight``, ``(2 + groups, CELLS + 1)``: of
    the unit above the tract, which weighs nothing at first, of the tract, and of its block groups.
    """

    def __init__(
        self, people: HomePersons, household: Ints, tenure: Ints, group: Ints, totals: Totals
    ) -> None:
        self.people, self.home = people, household.copy()
        self.relgq, self.age, self.cls = people.relgq.copy(), people.age, age_classes(people.age)
        self.levels = HeadLevels.from_people(people)
        head = np.flatnonzero(np.isin(people.relgq, HEADS))
        self.head = head[np.argsort(household[head])]
        self.tenure = tenure.copy()
        self.block = people.block[self.head]
        self.group = group[self.block]
        self.counts = counted(people, household, len(tenure))
        self.index, _ = self.after(self.head, self.counts, self.tenure)
        groups = len(totals.wanted) - 1
        held = added(self.index, self.group, groups)
        there = person_index()[self.relgq, self.cls]
        held += added(there, self.group[household], groups)
        totals = totals.with_large(held)
        self.wanted = totals.wanted[0]
        self.weight = np.pad(totals.weight, ((1, 0), (0, 1)))
        self.over = np.pad(held - totals.wanted, ((1, 0), (0, 1)))
        self.order()

    @property
    def added_up(self) -> Floats:
        """What it adds up to, ``(CELLS,)``."""
        return np.asarray(self.over[1, :-1] + self.wanted)

    def set_above(self, over: Floats, weight: Floats) -> None:
        """Set how far the unit above the tract is ``over`` its totals, and what that weighs, both
        ``(CELLS,)``."""
        self.over[0, :-1], self.weight[0, :-1] = over, weight

    def order(self) -> None:
        """Who is what, for random choices by block."""
        self.others = np.flatnonzero(~np.isin(self.relgq, HEADS))
        blocks = int(self.block.max()) + 1
        order = np.argsort(self.people.block[self.others], kind="stable")
        self.others = self.others[order]
        self._start = np.searchsorted(self.people.block[self.others], np.arange(blocks + 1))
        self._homes = np.argsort(self.block, kind="stable")
        self._first = np.searchsorted(self.block[self._homes], np.arange(blocks + 1))

    def after(self, head: Ints, counts: Ints, tenure: Ints) -> tuple[Ints, np.ndarray]:
        """The cells of households with other members, and whether there can be such."""
        of, able = attributes(counts, self.levels, head, tenure)
        return household_index(of), able

    def prices(self) -> tuple[Floats, Floats]:
        """What one more and one less of each cell change, ``(groups, CELLS + 1)``."""
        more, less = self.weight * (2 * self.over + 1), self.weight * (1 - 2 * self.over)
        above = slice(FIRST_GROUP)
        return (
            more[FIRST_GROUP:] + more[above].sum(axis=0),
            less[FIRST_GROUP:] + less[above].sum(axis=0),
        )

    def change(self, home: Ints, now: Ints, then: Ints, prices: tuple[Floats, Floats]) -> Floats:
        """How cells that change from ``now`` to ``then``, ``(moves, families)``, change the
        distance."""
        at = np.flatnonzero(now != then)
        row = self.group[home[at // now.shape[1]]] * (CELLS + 1)
        out = np.zeros(now.shape)
        more, less = (np.take(p, row + x.ravel()[at]) for p, x in zip(prices, (then, now)))
        out.reshape(-1)[at] = more + less
        return np.asarray(out.sum(axis=1))

    def implausible(
        self, person: Ints, home: Ints, label: Ints, head: Ints | None = None
    ) -> Floats:
        """What it costs that persons have a relationship in a household, perhaps under another
        ``head``. At :data:`WRONG` it cannot be."""
        head = self.head[home] if head is None else head
        person, head, label = np.broadcast_arrays(person, head, label)
        gap = self.age[head] - self.age[person]
        out = np.zeros(gap.shape)
        for labels, years in (((*OWN, _IN_LAW), gap), (PARENTS, -gap), ((_GRANDCHILD,), gap - 16)):
            at = _among(*labels)[label]
            out[at] = _CLOSE[np.searchsorted(_YEARS, years[at], side="right")]
        at = _among(*PARTNERS)[label]
        head, other = head[at], person[at]
        same = _among(LEVEL["same-sex-spouse"], LEVEL["same-sex-partner"])[label[at]]
        sex = self.people.sex
        fits = (same == (sex[head] == sex[other])) & (self.age[other] >= ADULT)
        fits &= np.abs(self.age[head] - self.age[other]) <= MOST_YEARS
        out[at] = np.where(fits, _COUPLE * age_gap(self.people, head, other), WRONG)
        return out

    def becoming(self, person: Ints, home: Ints, label: Ints) -> Floats:
        """The same where it is new: most couples cost nothing."""
        out = self.implausible(person, home, label)
        couple = _among(*PARTNERS)[label] & (out < WRONG)
        return np.asarray(np.where(couple, np.maximum(out - _USUAL, 0.0), out))

    def random_home(self, rng: np.random.Generator, block: Ints) -> Ints:
        many = self._first[block + 1] - self._first[block]
        return self._homes[self._first[block] + (rng.random(len(block)) * many).astype(np.int64)]

    def random_other(self, rng: np.random.Generator, block: Ints) -> Ints:
        many = self._start[block + 1] - self._start[block]
        at = self._start[block] + (rng.random(len(block)) * many).astype(np.int64)
        return np.where(many > 0, np.append(self.others, -1)[at], -1)

    def pairs_of_homes(self, rng: np.random.Generator, tries: int, area: Ints) -> tuple[Ints, Ints]:
        """Random pairs of households of one block or block group."""
        order = np.argsort(area, kind="stable")
        first = np.searchsorted(area[order], np.arange(int(area.max()) + 2))
        i = np.repeat(np.arange(len(area)), tries)
        many = first[area[i] + 1] - first[area[i]]
        j = order[first[area[i]] + (rng.random(len(i)) * many).astype(np.int64)]
        keep = i != j
        return i[keep], j[keep]

    def core(self) -> Ints:
        """What householders and partners alone add up to."""
        who = np.flatnonzero(self.relgq < MEMBER)
        now = self.people.labeled(self.relgq).some(who)
        return counted(now, self.home[who], len(self.counts))

    def partner(self) -> Ints:
        """The partner in each household, or -1."""
        out = np.full(len(self.head), -1)
        who = np.flatnonzero(np.isin(self.relgq, PARTNERS))
        out[self.home[who]] = who
        return out

    def fits(self, head: Ints, home: Ints) -> np.ndarray:
        """Whether persons are old enough, and young enough, for the members of households that they
        would head."""
        oldest, youngest, grand = self._spans()
        age = self.age[head]
        fits = (age - oldest[home] >= _APART) & (youngest[home] - age >= _APART)
        return np.asarray(fits & (age - grand[home] >= 2 * _APART))

    def _spans(self) -> tuple[Ints, Ints, Ints]:
        """Of each household the age of its oldest child, of its youngest parent, and of its oldest
        grandchild."""
        out = []
        for labels, sign in (((*OWN, _IN_LAW), 1), (PARENTS, -1), ((_GRANDCHILD,), 1)):
            who = np.flatnonzero(np.isin(self.relgq, labels))
            found = np.full(len(self.head), -_NO_AGE)
            np.maximum.at(found, self.home[who], sign * self.age[who])
            out.append(sign * found)
        return out[0], out[1], out[2]

    @property
    def distance(self) -> float:
        return float((self.weight * self.over**2).sum())


# The link of one block group: householders, households, members. Couples are found for its tract
# between the first two, and relationships at the end.


@cache
def _among(*labels: int) -> np.ndarray:
    """Which relationships are one of these, ``(RELATIONS,)``."""
    return np.isin(np.arange(RELATIONS), labels)


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
    def resampled(block: Ints, cell: Ints, wanted: int, rng: np.random.Generator) -> GroupHomes:
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
