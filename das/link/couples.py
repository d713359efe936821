r"""Couples, before anything else is linked: householders and their spouses or partners.

How many partners of each kind and sex a block has follows from the persons' file, which measures
couples better than that of households. Who they are is open within the block, because
relationships by age are mostly noise there. So each block has the couples that are closest in age:
:math:`c` pairs of householders and other adults at least cost. That is an assignment with as many
rows and columns without a partner as leave exactly :math:`c` pairs. Those called partners already are preferred.
A person who takes a relationship gives their own for it. Partners for whom a block has nobody are
made up for in another block, so a tract keeps its couples of each kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from das.link.fields import Floats, Ints
from das.link.householders import possible_ages
from das.link.people import HomePersons
from das.link.trust import Trust
from das.model.dhc.members import HEADS, LEVEL, PARTNERS
from das.model.frozen import Frozen

_FAR = 1e4
#: What a couple costs that is made up for in another block group.
_AWAY = 8.0
#: Partners of this age and over are published apart.
_OLD = 65
#: Years that men are older than women in opposite-sex couples.
_OLDER = 2.0
#: What it costs that a householder living alone is in a couple.
_ALONE = 0.5
_OPPOSITE = (LEVEL["opposite-sex-spouse"], LEVEL["opposite-sex-partner"])
_SAME = (LEVEL["same-sex-spouse"], LEVEL["same-sex-partner"])
_OTHER = LEVEL["other-nonrelative"]


@dataclass(frozen=True, eq=False)
class Couples(Frozen):
    """``relgq`` of all persons; ``partner_of``: the number of the householder whose partner each
    person is, or -1; both ``(persons,)``."""

    relgq: Ints
    partner_of: Ints


def age_gap(people: HomePersons, one: Ints, other: Ints) -> Floats:
    """The cost of couples of the persons ``one`` and ``other``, which broadcast."""
    older = people.sex[one] - people.sex[other]  # 1 where the other is the man
    years = np.abs(people.age[other] - people.age[one] - _OLDER * older)
    return np.asarray(0.3 * years + 0.5 * np.maximum(years - 8, 0))


class _Matching:
    """Couples of some blocks while they are found."""

    def __init__(self, people: HomePersons, group: Ints, trust: Trust) -> None:
        self.group = group  # of each person
        self.people, self.relgq, self.new = people, people.relgq.copy(), trust.partner
        self.partner_of = np.full(len(people), -1, dtype=np.int64)
        self.taken = np.zeros(len(people), dtype=bool)  # householders in couples
        self.head = np.isin(self.relgq, HEADS)
        self.left: list[int] = []  # kinds and sexes of partners for whom there was nobody

    def block(self, here: Ints) -> None:
        """The couples of the persons ``here``."""
        for kinds, same in ((_SAME, True), (_OPPOSITE, False)):
            for sex in (0, 1):
                for old in (True, False):
                    people = here[(self.people.age[here] >= _OLD) == old]
                    called = people[np.isin(self.relgq[people], kinds)]
                    called = called[self.people.sex[called] == sex]
                    called = called[self.partner_of[called] < 0]
                    if len(called):
                        self._pairs(here, called, sex if same else 1 - sex, old)

    def _pairs(self, here: Ints, called: Ints, of_sex: int, old: bool) -> None:
        """Couples of householders ``of_sex`` with as many persons as are ``called`` partners, of 65
        and over or not."""
        people, relgq = self.people, self.relgq
        free = self.head[here] & ~self.taken[here] & (people.sex[here] == of_sex)
        heads, sex = here[free], people.sex[called[0]]
        open_to = (relgq[here] > max(PARTNERS)) & (people.age[here] >= 18)
        open_to &= (people.age[here] >= _OLD) == old
        others = here[open_to & (people.sex[here] == sex)]
        able = np.concatenate([called, others])
        couples = min(len(called), len(heads))
        rows, columns = _cheapest(self._cost(heads, able, len(called)), couples)
        chosen, of = able[columns], heads[rows]
        dropped = called[~np.isin(called, chosen)]
        new = np.sort(chosen[~np.isin(chosen, called)])
        self._exchange(dropped, new)
        self.partner_of[chosen], self.taken[of] = of, True

    def _cost(self, heads: Ints, able: Ints, called: int) -> Floats:
        new = np.arange(len(able)) >= called
        cost = self._pair_cost(heads[:, None], able[None, :])
        return np.asarray(cost + self.new * new[None, :])

    def _pair_cost(self, h: Ints, a: Ints) -> Floats:
        people = self.people
        cost = age_gap(people, h, a) + _ALONE * (self.relgq[h] == HEADS[0])
        return np.asarray(cost + 0.2 * (people.cenrace[h] != people.cenrace[a]))

    def _exchange(self, dropped: Ints, new: Ints) -> None:
        """Those who are no partners any more take the relationships of the new ones; what is left
        over is found in another block."""
        relgq, ages = self.relgq, self.people.age
        kinds = relgq[dropped].copy()
        if len(new):
            fits = possible_ages()[relgq[new][None, :], ages[dropped][:, None]]
            apart = np.abs(ages[dropped][:, None] - ages[new][None, :])
            rows, columns = linear_sum_assignment(np.where(fits, apart, 500.0 + apart))
            given = relgq[new[columns]].copy()
            relgq[new[columns]] = kinds[rows]
            relgq[dropped[rows]] = np.where(fits[rows, columns], given, _OTHER)
            dropped = np.delete(dropped, rows)
        self.left += dropped.tolist()

    def elsewhere(self) -> None:
        """Who found nobody gives the relationship to the closest pair of a householder and someone
        else, in any block; where there is none it is lost."""
        people, relgq = self.people, self.relgq
        pairs: dict[tuple[int, int], tuple[Ints, Ints, Floats]] = {}
        for person in self.left:
            kind, sex = int(relgq[person]), int(people.sex[person])
            relgq[person] = _OTHER
            key = self._of(kind, sex), sex
            heads, others, cost = pairs.get(key) or pairs.setdefault(key, self._everywhere(*key))
            old = people.age[person] >= _OLD
            cost = cost + 3.0 * ((people.age[others] >= _OLD) != old)
            cost += _AWAY * (self.group[others] != self.group[person])
            cost[self.taken[heads] | (relgq[others] <= max(PARTNERS)) | (others == person)] = _FAR
            if not len(cost) or cost.min() >= _FAR:
                continue
            best = int(np.argmin(cost))
            new, of = int(others[best]), int(heads[best])
            if possible_ages()[relgq[new], people.age[person]]:
                relgq[person] = relgq[new]
            relgq[new], self.partner_of[new], self.taken[of] = kind, of, True

    def _everywhere(self, of_sex: int, sex: int) -> tuple[Ints, Ints, Floats]:
        """All pairs, within blocks, of a householder of one sex and a grown-up member of another or
        the same, and what they cost as couples."""
        people, able = self.people, (self.people.age >= 18) & ~self.head
        heads = np.flatnonzero(self.head & ~self.taken & (people.sex == of_sex))
        others = np.flatnonzero(able & (people.sex == sex))
        others = others[np.argsort(people.block[others], kind="stable")]
        first, last = (
            np.searchsorted(people.block[others], people.block[heads], side)
            for side in ("left", "right")
        )
        h = np.repeat(heads, last - first)
        nth = np.arange(len(h)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
        a = others[np.repeat(first, last - first) + nth]
        return h, a, self._pair_cost(h, a) + self.new

    @staticmethod
    def _of(kind: int, sex: int) -> int:
        """The sex of the householder whose partner someone is."""
        return sex if kind in _SAME else 1 - sex


def matched(people: HomePersons, group: Ints, trust: Trust) -> Couples:
    """Couples of all blocks; persons are householders or partners by ``relgq``, and ``group`` is
    the block group of each block. As many householders of each sex live alone as before, where
    others can."""
    before = people.relgq
    of = _Matching(people, group[people.block], trust)
    order = np.argsort(people.block, kind="stable")
    cuts = np.flatnonzero(np.diff(people.block[order])) + 1
    for here in np.split(order, cuts) if len(order) else ():
        of.block(here)
    of.elsewhere()
    of.relgq[np.flatnonzero(of.taken & (of.relgq == HEADS[0]))] = HEADS[1]
    _alone_again(people, of, before)
    return Couples(of.relgq, of.partner_of)


def _alone_again(people: HomePersons, of: _Matching, before: Ints) -> None:
    """For each householder who lived alone and is in a couple now, another of the same sex lives
    alone: the closest in age, and rather one of the same block."""
    for person in np.flatnonzero((before == HEADS[0]) & (of.relgq == HEADS[1])).tolist():
        free = (of.relgq == HEADS[1]) & ~of.taken & (people.sex == people.sex[person])
        if free.any():
            near = np.flatnonzero(free)
            gap = np.abs(people.age[near] - people.age[person])
            gap = gap + 4.0 * (people.block[near] != people.block[person])
            gap += 30.0 * (of.group[near] != of.group[person])
            of.relgq[near[np.argmin(gap)]] = HEADS[0]


def _cheapest(cost: Floats, pairs: int) -> tuple[Ints, Ints]:
    """The ``pairs`` of rows and columns whose sum of costs is least."""
    rows, columns = cost.shape
    if not pairs:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    size = rows + columns - pairs
    square = np.zeros((size, size))
    square[:rows, :columns] = cost
    square[rows:, columns:] = _FAR * size
    i, j = linear_sum_assignment(square)
    real = (i < rows) & (j < columns)
    return i[real], j[real]
