r"""Prices: the linked households of a tract move towards what the files say of the tract.

Steps of the link before this one work in blocks. What they leave over adds up in tracts and
counties. Here households and members change as long as that lowers the distance :math:`J` of
:mod:`das.link.totals`, plus what is implausible in ages. All moves of a kind are judged at once at
the prices of the moment, and the best are made one by one; each is judged again when its turn comes,
because prices change with every move. Persons stay in their block and of their age. So tables of
persons without relationship cannot change, and each household stays one that can be."""

from __future__ import annotations

import numpy as np

from das.link import moves
from das.link.fields import Floats, Ints
from das.link.linked_tract import FIRST, LinkedTract
from das.link.moves import Moves
from das.link.totals import person_index
from das.model.dhc.members import HEADS, PARTNERS

FIRST_SWEEPS, MORE_SWEEPS = 6, 2
_LEAST = 0.2
_TRIES = {"tenures": 6, "moved": 4, "exchanged": 4, "members": 6, "heads": 6}


def steered(of: LinkedTract, rng: np.random.Generator, sweeps: int) -> None:
    """Lower the distance of a tract."""
    for _ in range(sweeps):
        made = _made(of, moves.relabelled(of))
        for name, tries in _TRIES.items():
            made += _made(of, getattr(moves, name)(of, rng, tries))
        if not made:
            break


def _made(of: LinkedTract, found: Moves) -> int:
    """Make the moves that gain; returns how many."""
    good = moves.best(of, found, of.prices(), _LEAST)
    touched = np.zeros(len(of.counts), dtype=bool)
    made = 0
    after = [
        of.after(good.heads[:, s], good.counts[:, s], good.tenure[:, s])[0]
        for s in (0, 1)
    ]
    for i in range(len(good.homes)):
        homes = [(s, h) for s in (0, 1) if (h := int(good.homes[i, s])) >= 0]
        if any(touched[h] for _, h in homes):
            continue
        now, then = _cells(of, good, after, i, homes)
        g = 1 + int(of.group[homes[0][1]])
        if _gain(of, g, now, then) + good.cost[i] < -_LEAST:
            _apply(of, good, after, i, homes)
            rows = [0, g]
            for row in rows:
                np.subtract.at(of.over[row], now, 1)
                np.add.at(of.over[row], then, 1)
            for _, h in homes:
                touched[h] = True
            made += 1
    of.order()
    return made


def _cells(
    of: LinkedTract, good: Moves, after: list[Ints], i: int, homes: list[tuple[int, int]]
) -> tuple[Ints, Ints]:
    now = [of.index[h] for _, h in homes]
    then = [after[s][i] for s, _ in homes]
    for s in (0, 1):
        p = int(good.persons[i, s])
        if p >= 0:
            now.append(person_index()[of.relgq[p], of.cls[p]])
            then.append(person_index()[good.labels[i, s], of.cls[p]])
    return np.concatenate(now), np.concatenate(then)


def _gain(of: LinkedTract, g: int, now: Ints, then: Ints) -> float:
    cells, where = np.unique(np.concatenate([now, then]), return_inverse=True)
    sign = np.ones(len(where))
    sign[: len(now)] = -1
    step = np.bincount(where, weights=sign, minlength=len(cells))
    out = 0.0
    for row in (0, g):
        out += float((of.weight[row, cells] * step * (2 * of.over[row, cells] + step)).sum())
    return out


def _apply(
    of: LinkedTract, good: Moves, after: list[Ints], i: int, homes: list[tuple[int, int]]
) -> None:
    for s, h in homes:
        of.head[h] = good.heads[i, s]
        of.counts[h], of.tenure[h], of.index[h] = (
            good.counts[i, s],
            good.tenure[i, s],
            after[s][i],
        )
    for s in (0, 1):
        p = int(good.persons[i, s])
        if p >= 0:
            of.relgq[p], of.home[p] = good.labels[i, s], good.to[i, s]
    if good.members:
        a, b = homes[0][1], homes[1][1]
        who = np.flatnonzero(((of.home == a) | (of.home == b)) & ~np.isin(of.relgq, HEADS))
        who = who[of.relgq[who] >= FIRST + len(PARTNERS)]
        of.home[who] = np.where(of.home[who] == a, b, a)
