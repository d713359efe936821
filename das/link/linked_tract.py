"""A linked tract while it changes: members, what they add up to, and how far that is from what is
published."""

from __future__ import annotations

import numpy as np

from das.link.composition import HeadLevels, attributes, counted
from das.link.couples import MOST_YEARS, age_gap
from das.link.fields import Floats, Ints
from das.link.people import HomePersons
from das.link.totals import Totals, added, age_classes, household_index, person_index
from das.model.dhc.members import ADULT, HEADS, LEVEL, OWN, PARENTS, PARTNERS

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
    """Persons of a tract in households, which :mod:`das.link.moves` change.

    ``over``: how far it is over its totals, and their ``weight``, ``(2 + groups, CELLS + 1)``: of
    the unit above the tract, which weighs nothing at first, of the tract, and of its block groups.
    """

    def __init__(
        self, people: HomePersons, household: Ints, tenure: Ints, group: Ints, totals: Totals
    ) -> None:
        self.people, self.home = people, household.copy()
        self.relgq, self.age, self.cls = people.relgq.copy(), people.age, age_classes(people.age)
        self.levels = HeadLevels.of(people)
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
        g = self.group[home][:, None]
        return np.asarray(
            np.where(now == then, 0.0, prices[0][g, then] + prices[1][g, now]).sum(axis=1)
        )

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
            at = np.isin(label, labels)
            out[at] = _CLOSE[np.searchsorted(_YEARS, years[at], side="right")]
        at = np.isin(label, PARTNERS)
        head, other = head[at], person[at]
        same = np.isin(label[at], (LEVEL["same-sex-spouse"], LEVEL["same-sex-partner"]))
        sex = self.people.sex
        fits = (same == (sex[head] == sex[other])) & (self.age[other] >= ADULT)
        fits &= np.abs(self.age[head] - self.age[other]) <= MOST_YEARS
        out[at] = np.where(fits, _COUPLE * age_gap(self.people, head, other), WRONG)
        return out

    def becoming(self, person: Ints, home: Ints, label: Ints) -> Floats:
        """The same where it is new: most couples cost nothing."""
        out = self.implausible(person, home, label)
        couple = np.isin(label, PARTNERS) & (out < WRONG)
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
        now = self.people.labelled(self.relgq).some(who)
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
