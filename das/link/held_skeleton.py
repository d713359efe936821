"""The skeleton of a block group while its households are linked: who lives alone, by class, and who
has which tenure.

Costs draw households to householders whom they fit. After households have changed places and sizes,
blocks have as many persons living alone as they have households of one person. Then the skeleton
says again who they are, and householders of a block exchange households for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from das.link.fields import Floats, Ints, N, type_fields
from das.link.householders import living_alone
from das.link.people import HomePersons
from das.link.pool import Pool
from das.link.skeleton_cells import TENURES
from das.link.tenures import tenures
from das.model.dhc.members import HEADS
from das.model.frozen import Frozen

#: What it costs that a household has another tenure than the skeleton has of its householder, or
#: is of one person where the householder is not alone.
_HELD = 12.0


@dataclass(frozen=True, eq=False)
class HeldSkeleton(Frozen):
    """``cells`` of the skeleton, ``(1512,)``. Of the householders ``heads`` the kind of ``couple``,
    and their ``order``, which decides between those who are alike. ``tenure`` of the published
    households."""

    cells: Ints
    heads: Ints
    couple: Ints
    order: Ints
    tenure: Ints

    def tenures(self, people: HomePersons, pool: Pool) -> Ints:
        """The tenure of each householder, ``(heads,)``."""
        of, wanted = type_fields(), np.zeros((N + 1, TENURES), dtype=np.int64)
        np.add.at(wanted, (of.couple[pool.kind], self.tenure), of.size[pool.kind] > 1)
        return tenures(people, self.heads, self.couple, self.cells, wanted, self.order)

    def cost(self, people: HomePersons, pool: Pool, tenure: Ints) -> Floats:
        """Of each household for each householder, ``(households, heads)``."""
        alone = people.relgq[self.heads] == HEADS[0]
        apart = (type_fields().size[pool.kind] == 1)[:, None] != alone
        return np.asarray(_HELD * apart + _HELD * (self.tenure[:, None] != tenure))

    def settled(
        self, people: HomePersons, pool: Pool, at: Ints, cost: Floats
    ) -> tuple[HomePersons, Ints, Ints]:
        """The persons, the household of each householder, ``(heads,)``, and their tenures, once
        households ``at`` are theirs; ``cost``: without that of the skeleton."""
        block = people.block[self.heads]
        one = type_fields().size[pool.kind[at]] == 1
        blocks = int(people.block.max()) + 1
        coupled = np.zeros(len(people), dtype=bool)
        coupled[self.heads[self.couple < N]] = True
        by_block = np.bincount(block[one], minlength=blocks)
        homes = np.bincount(block, minlength=blocks)
        people = living_alone(people, homes, self.cells, coupled, by_block)
        tenure = self.tenures(people, pool)
        whole = cost + self.cost(people, pool, tenure)
        return people, within_blocks(at, block, self.couple, whole), tenure


def within_blocks(at: Ints, block: Ints, couple: Ints, cost: Floats) -> Ints:
    """The household of each householder, ``(heads,)``, at least cost if those of a block in couples
    of one kind exchange them."""
    out, key = at.copy(), block * (N + 1) + couple
    order = np.argsort(key, kind="stable")
    for here in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        rows, columns = linear_sum_assignment(cost[np.ix_(at[here], here)])
        out[here[columns]] = at[here[rows]]
    return out
