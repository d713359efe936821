"""Moves between linked households that leave every person in their block and of their age: another
relationship, another household, two persons or all members or tenures in exchange.

Each kind is a function that lists many moves at once. A move changes at most two households and two
persons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das.link.composition import COUNTED, attributes, contributions, possible_labels
from das.link.fields import Floats, Ints
from das.link.linked_tract import FIRST, WRONG, LinkedTract
from das.link.totals import CELLS, RELATIONS, household_index, person_index
from das.model.dhc.members import HEADS, LEVEL
from das.model.frozen import Frozen

_KEPT = 3
#: Tries of partners of the same sex, whom few can replace.
_SAME, _OFTEN = (LEVEL["same-sex-spouse"], LEVEL["same-sex-partner"]), 40
_MOST = 9  # persons of a household that another joins
#: What someone of the other sex is instead.
_OF_OTHER_SEX = np.arange(RELATIONS)
_OF_OTHER_SEX[[2, 3, 4, 5]] = 4, 5, 2, 3
_JOIN_AS = (2, 3, LEVEL["biological-child"], LEVEL["other-relative"], LEVEL["other-nonrelative"])


@dataclass(frozen=True, eq=False)
class Moves(Frozen):
    """``homes`` that change, ``(moves, 2)``, -1 where none; their ``counts`` and ``tenure`` after
    it; ``persons`` who change, -1 where none, with the relationships ``labels`` and households
    ``to``; and what a move ``costs`` in plausibility, ``(moves,)``. ``members``: all members of the
    two homes change places, except householders and their partners."""

    homes: Ints
    counts: Ints
    tenure: Ints
    persons: Ints
    labels: Ints
    to: Ints
    cost: Floats
    heads: Ints
    members: bool = False

    def some(self, which: Ints) -> Moves:
        return Moves(
            *(
                getattr(self, name)[which]
                for name in ("homes", "counts", "tenure", "persons", "labels", "to", "cost", "heads")
            ),
            members=self.members,
        )


def relabelled(of: LinkedTract) -> Moves:
    """Another relationship for someone who is no householder."""
    who = of.others
    home, now = of.home[who], of.relgq[who]
    con = contributions()[:, of.cls[who]]
    label = np.arange(FIRST, RELATIONS)
    cost = of.becoming(who[:, None], home[:, None], label[None, :])
    able = possible_labels()[label][:, of.age[who]].T & (label[None, :] != now[:, None])
    able &= cost < WRONG
    n, j = np.nonzero(able)
    person, to = who[n], label[j]
    h = of.home[person]
    counts = of.counts[h] - con[now[n], n] + con[to, n]
    change = cost[n, j] - np.where(now[n] < FIRST + 4, 0, of.implausible(person, h, now[n]))
    return _one(of, h, counts, person, to, change)


def _one(
    of: LinkedTract, home: Ints, counts: Ints, person: Ints, label: Ints, cost: Floats
) -> Moves:
    none = np.full(len(home), -1)
    return Moves(
        np.stack([home, none], 1),
        np.stack([counts, counts], 1),
        np.stack([of.tenure[home], of.tenure[home]], 1),
        np.stack([person, none], 1),
        np.stack([label, none], 1),
        np.stack([home, none], 1),
        cost,
        of.head[np.stack([home, home], 1)],
    )


def tenures(of: LinkedTract, rng: np.random.Generator, tries: int) -> Moves:
    """Two households of a block group exchange tenures."""
    i, j = of.pairs_of_homes(rng, tries, of.group)
    keep = of.tenure[i] != of.tenure[j]
    i, j = i[keep], j[keep]
    counts = np.stack([of.counts[i], of.counts[j]], 1)
    none = np.full((len(i), 2), -1)
    cost = 0.3 * (of.block[i] != of.block[j])
    return Moves(
        np.stack([i, j], 1),
        counts,
        np.stack([of.tenure[j], of.tenure[i]], 1),
        none,
        none,
        none,
        cost,
        of.head[np.stack([i, j], 1)],
    )


def moved(of: LinkedTract, rng: np.random.Generator, tries: int) -> Moves:
    """A member joins another household of the block, in the same or in another relationship."""
    who = of.members
    p = np.repeat(who, tries)
    to = of.random_home(rng, of.block[of.home[p]])
    label = np.where(rng.random(len(p)) < 0.5, of.relgq[p], rng.choice(_JOIN_AS, len(p)))
    h = of.home[p]
    keep = (to != h) & possible_labels()[label, of.age[p]]
    keep &= (of.counts[to, 12] < _MOST) | (of.counts[h, 12] > of.counts[to, 12] + 1)
    p, to, label, h = p[keep], to[keep], label[keep], h[keep]
    cost = of.becoming(p, to, label) - of.implausible(p, h, of.relgq[p])
    con, cls = contributions(), of.cls[p]
    counts = np.stack(
        [of.counts[h] - con[of.relgq[p], cls], of.counts[to] + con[label, cls]], 1
    )
    none = np.full(len(p), -1)
    return Moves(
        np.stack([h, to], 1),
        counts,
        of.tenure[np.stack([h, to], 1)],
        np.stack([p, none], 1),
        np.stack([label, none], 1),
        np.stack([to, none], 1),
        cost,
        of.head[np.stack([h, to], 1)],
    )


def exchanged(of: LinkedTract, rng: np.random.Generator, tries: int) -> Moves:
    """Two persons of a block change households, each with their relationship or that of the
    other."""
    same = np.isin(of.relgq[of.others], _SAME)
    p = np.repeat(of.others, np.where(same, _OFTEN, tries))
    q = of.random_other(rng, of.block[of.home[p]])
    partner = (of.relgq[p] < FIRST + 4) | (of.relgq[q] < FIRST + 4)
    take = partner | (rng.random(len(p)) < 0.5)
    other = (of.people.sex[p] != of.people.sex[q])[:, None]
    flip = np.where(other, _OF_OTHER_SEX, np.arange(RELATIONS))
    rows = np.arange(len(p))
    new_p = np.where(take, flip[rows, of.relgq[q]], of.relgq[p])
    new_q = np.where(take, flip[rows, of.relgq[p]], of.relgq[q])
    h, k = of.home[p], of.home[q]
    keep = (h != k) & possible_labels()[new_p, of.age[p]] & possible_labels()[new_q, of.age[q]]
    p, q, new_p, new_q, h, k = (x[keep] for x in (p, q, new_p, new_q, h, k))
    cost = of.implausible(p, k, new_p) + of.implausible(q, h, new_q)
    cost -= of.implausible(p, h, of.relgq[p]) + of.implausible(q, k, of.relgq[q])
    con, a, b = contributions(), of.cls[p], of.cls[q]
    out_p, out_q = con[of.relgq[p], a], con[of.relgq[q], b]
    counts = np.stack(
        [of.counts[h] - out_p + con[new_q, b], of.counts[k] - out_q + con[new_p, a]], 1
    )
    homes = np.stack([h, k], 1)
    return Moves(
        homes,
        counts,
        of.tenure[homes],
        np.stack([p, q], 1),
        np.stack([new_p, new_q], 1),
        np.stack([k, h], 1),
        cost,
        of.head[homes],
    )


def members(of: LinkedTract, rng: np.random.Generator, tries: int) -> Moves:
    """Two householders of a block exchange all members except partners."""
    i, j = of.pairs_of_homes(rng, tries, of.block)
    core = of.core()
    other = of.counts - core
    oldest, youngest, grand = of.spans()
    a, b = of.age[of.head[i]], of.age[of.head[j]]
    keep = (other[i] != other[j]).any(axis=1)
    for x, y in ((a, j), (b, i)):
        keep &= (x - oldest[y] >= 16) & (youngest[y] - x >= 16) & (x - grand[y] >= 32)
    i, j = i[keep], j[keep]
    homes = np.stack([i, j], 1)
    counts = np.stack([core[i] + other[j], core[j] + other[i]], 1)
    none = np.full((len(i), 2), -1)
    return Moves(
        homes, counts, of.tenure[homes], none, none, none, np.zeros(len(i)), of.head[homes], members=True
    )


def heads(of: LinkedTract, rng: np.random.Generator, tries: int) -> Moves:
    """A householder and someone else of the block, of the same household perhaps, change places and
    relationships."""
    h = np.repeat(np.arange(len(of.head)), tries)
    p = of.head[h]
    q = of.random_other(rng, of.block[h])
    q = np.where(rng.random(len(h)) < 0.5, of.partner()[h], q)
    keep = q >= 0
    h, p, q = h[keep], p[keep], q[keep]
    k, new = of.home[q], of.relgq[q]
    same, partner = h == k, of.partner()[h]
    cost = of.implausible(p, k, new, np.where(same, q, of.head[k]))
    cost -= of.implausible(q, k, new, np.where(same, p, of.head[k]))
    couple = (partner >= 0) & (partner != q)
    spouse = np.maximum(partner, 0)
    kind = of.relgq[spouse]
    cost += np.where(couple, of.implausible(spouse, h, kind, q), 0.0)
    cost -= np.where(couple, of.implausible(spouse, h, kind), 0.0)
    oldest, youngest, grand = of.spans()
    age = of.age[q]
    fits = (age - oldest[h] >= 16) & (youngest[h] - age >= 16) & (age - grand[h] >= 32)
    inside = same & (new < FIRST + 4)
    keep = (age >= 18) & fits & possible_labels()[new, of.age[p]] & (~same | inside)
    keep &= cost < WRONG
    h, p, q, k, new, same, cost = (x[keep] for x in (h, p, q, k, new, same, cost))
    con, a, b = contributions(), of.cls[p], of.cls[q]
    first, second = con[HEADS[1], a], con[HEADS[1], b]
    there = con[new, a] - con[new, b]
    counts = np.stack(
        [of.counts[h] - first + second + same[:, None] * there, of.counts[k] + there], 1
    )
    homes = np.stack([h, np.where(same, -1, k)], 1)
    return Moves(
        homes,
        counts,
        of.tenure[homes],
        np.stack([p, q], 1),
        np.stack([new, np.full(len(q), HEADS[1])], 1),
        np.stack([k, h], 1),
        cost,
        np.stack([q, of.head[k]], 1),
    )


def best(of: LinkedTract, moves: Moves, prices: tuple[Floats, Floats], least: float) -> Moves:
    """The moves that gain more than ``least``, by their prices, the best first; of those that begin
    with a household a few."""
    gain = moves.cost.copy()
    able = np.ones(len(gain), dtype=bool)
    for side in (0, 1):
        home = moves.homes[:, side]
        there = np.flatnonzero(home >= 0)
        index, fits = of.after(
            moves.heads[there, side], moves.counts[there, side], moves.tenure[there, side]
        )
        gain[there] += of.change(home[there], of.index[home[there]], index, prices)
        able[there] &= fits
        person = moves.persons[:, side]
        there = np.flatnonzero(person >= 0)
        p = person[there]
        now, then = (
            person_index()[r, of.cls[p]] for r in (of.relgq[p], moves.labels[there, side])
        )
        gain[there] += of.change(of.home[p], now, then, prices)
    good = np.flatnonzero(able & (gain < -least))
    good = good[np.argsort(gain[good], kind="stable")]
    return moves.some(good[_first(moves.homes[good, 0])])


def _first(home: Ints) -> Ints:
    """The first few of each household, in order."""
    order = np.argsort(home, kind="stable")
    start = np.flatnonzero(np.diff(home[order], prepend=-1))
    nth = np.arange(len(home)) - np.repeat(start, np.diff([*start, len(home)]))
    return np.sort(order[nth < _KEPT])
