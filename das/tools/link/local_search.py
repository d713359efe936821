r"""Prices: the linked households of a tract move towards what the files say of the tract.

Steps of the link before this one work in blocks. What they leave over adds up in tracts and
counties. Here households and members change as long as that lowers the distance :math:`J` of
:mod:`das.tools.link.totals`, plus what is implausible in ages. All moves of a kind are judged at once at
the prices of the moment, and the best are made one by one. Each is judged again when its turn
comes, because prices change with every move. Persons stay in their block and of their age. So
tables of persons without relationship cannot change, and each household stays one that can be."""

from __future__ import annotations

import numpy as np

from das.publications.dhc.agreement.counted import Ints
from das.tools.link import local_moves
from das.tools.link.linked_tract import FIRST_GROUP, MEMBER, LinkedTract
from das.tools.link.local_moves import HouseholdMoves
from das.tools.link.totals import CELLS, person_index

#: The least gain of a move; the households for one move: a sweep with fewer moves is the last.
LEAST, _FEW = 0.2, 300
_TRIES = {"tenures": 6, "joined": 4, "exchanged": 4, "swapped": 6, "headed": 6}


def steered(of: LinkedTract, rng: np.random.Generator, sweeps: int) -> None:
    """Lower the distance of a tract."""
    for _ in range(sweeps):
        many = made(of, local_moves.relabelled(of))
        for name, tries in _TRIES.items():
            many += made(of, getattr(local_moves, name)(of, rng, tries))
        if many <= len(of.head) / _FEW:
            break


def made(of: LinkedTract, found: HouseholdMoves) -> int:
    """Make the moves that gain, the best first; returns how many. A household changes once."""
    good = local_moves.best(of, found, of.prices(), LEAST)
    index, now, then = _cells(of, good)
    chosen = _Chosen(of)
    homes, cost = good.homes.tolist(), good.cost.tolist()
    group = (FIRST_GROUP + of.group[good.homes[:, 0]]).tolist()
    many = [
        i
        for i, (a, b) in enumerate(zip(now.tolist(), then.tolist(), strict=True))
        if chosen.gains(homes[i], group[i], a, b, cost[i])
    ]
    of.over[:, :] = chosen.over
    _apply(of, good.some(np.array(many, dtype=np.int64)), index[many])
    return len(many)


class _Chosen:
    """The moves of a kind while they are judged one by one. Plain lists, because each move changes
    few cells."""

    def __init__(self, of: LinkedTract) -> None:
        self.over, self.weight = of.over.tolist(), of.weight.tolist()
        self.above = [row for row in range(FIRST_GROUP) if of.weight[row].any()]
        self.touched = [False] * len(of.head)

    def gains(
        self, homes: list[int], group: int, now: list[int], then: list[int], cost: float
    ) -> bool:
        """Whether a move still gains; if so, it is made."""
        if self.touched[homes[0]] or (homes[1] >= 0 and self.touched[homes[1]]):
            return False
        step: dict[int, int] = {}
        for a, b in zip(now, then, strict=True):
            if a != b:
                step[a] = step.get(a, 0) - 1
                step[b] = step.get(b, 0) + 1
        rows = [(self.over[row], self.weight[row]) for row in (*self.above, group)]
        for over, weight in rows:
            for cell, s in step.items():
                cost += weight[cell] * s * (2 * over[cell] + s)
        if cost >= -LEAST:
            return False
        for row in (*range(FIRST_GROUP), group):
            for cell, s in step.items():
                self.over[row][cell] += s
        self.touched[homes[0]] = True
        if homes[1] >= 0:
            self.touched[homes[1]] = True
        return True


def _cells(of: LinkedTract, good: HouseholdMoves) -> tuple[Ints, Ints, Ints]:
    """The cells of households after moves, ``(moves, 2, families)``, and all cells that change,
    ``(moves, cells)``, before and after."""
    index, now, then = [], [], []
    for s in (0, 1):
        home, person = good.homes[:, s], good.persons[:, s]
        after, _ = of.after(good.heads[:, s], good.counts[:, s], good.tenure[:, s])
        index.append(after)
        there = (home >= 0)[:, None]
        now.append(np.where(there, of.index[home], CELLS))
        then.append(np.where(there, after, CELLS))
        there, cls = (person >= 0)[:, None], of.cls[person]
        now.append(np.where(there, person_index()[of.relgq[person], cls], CELLS))
        then.append(np.where(there, person_index()[good.labels[:, s], cls], CELLS))
    return np.stack(index, 1), np.concatenate(now, 1), np.concatenate(then, 1)


def _apply(of: LinkedTract, chosen: HouseholdMoves, index: Ints) -> None:
    """Change households and persons by moves that do not touch each other's."""
    for s in (0, 1):
        there = chosen.homes[:, s] >= 0
        home = chosen.homes[there, s]
        of.head[home], of.counts[home] = chosen.heads[there, s], chosen.counts[there, s]
        of.tenure[home], of.index[home] = chosen.tenure[there, s], index[there, s]
    if chosen.whole:
        goes = np.arange(len(of.head))
        goes[chosen.homes[:, 0]], goes[chosen.homes[:, 1]] = chosen.homes[:, 1], chosen.homes[:, 0]
        who = np.flatnonzero(of.relgq >= MEMBER)
        of.home[who] = goes[of.home[who]]
    for s in (0, 1):
        there = chosen.persons[:, s] >= 0
        person = chosen.persons[there, s]
        of.relgq[person], of.home[person] = chosen.labels[there, s], chosen.to[there, s]
    of.order()
