"""Moves of linked households that leave every person in their block and of their age: another
relationship, another household, another householder; two persons, all members or tenures in
exchange.

Each kind is a function that lists many moves at once. A move changes at most two households and two
persons. Which pairs are tried is random, from the seed of the tract."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das.model.frozen import Frozen
from das.publications.dhc.agreement.counted import Floats, Ints
from das.publications.dhc.model.members import HEADS, LEVEL
from das.tools.link.linked_tract import FIRST, MEMBER, WRONG, LinkedTract
from das.tools.link.matching import SIZE, contributions, possible_labels
from das.tools.link.people import RELATIONS, person_index

#: The moves that begin with one household and are judged, at most.
_KEPT = 3
#: The most persons of a household that another person joins, unless theirs is larger.
_MOST = 9
#: What a couple of two sexes is to one of the same sex, and the other way round.
_PAIRS = [[LEVEL[f"{a}-sex-{b}"] for a in ("opposite", "same")] for b in ("spouse", "partner")]
_OF_OTHER_SEX = np.arange(RELATIONS)
_OF_OTHER_SEX[np.array(_PAIRS)] = np.array(_PAIRS)[:, ::-1]
#: Tries of partners of the same sex, whom few can replace.
_SAME, _OFTEN = (LEVEL["same-sex-spouse"], LEVEL["same-sex-partner"]), 40
#: What someone can become who joins another household.
_JOIN_AS = tuple(
    LEVEL[x]
    for x in (
        "opposite-sex-spouse",
        "opposite-sex-partner",
        "biological-child",
        "other-relative",
        "other-nonrelative",
    )
)
#: What an exchange of tenures costs between blocks.
_AWAY = 0.3


@dataclass(frozen=True, eq=False)
class HouseholdMoves(Frozen):
    """``homes`` that change, ``(moves, 2)``, the second -1 where none; their ``counts``, ``tenure``
    and householders, ``heads``, after it; ``persons`` who change, -1 where none, with the
    relationships ``labels`` and households ``to``; and what a move costs in plausibility, ``cost``,
    ``(moves,)``. ``whole``: all members of the two homes change places, except householders and
    their partners."""

    homes: Ints
    counts: Ints
    tenure: Ints
    heads: Ints
    persons: Ints
    labels: Ints
    to: Ints
    cost: Floats
    whole: bool = False

    def some(self, which: Ints) -> HouseholdMoves:
        return HouseholdMoves(**{k: x if k == "whole" else x[which] for k, x in vars(self).items()})


def _of_persons(
    of: LinkedTract,
    homes: tuple[Ints, Ints],
    counts: tuple[Ints, Ints],
    persons: tuple[Ints, Ints],
    labels: tuple[Ints, Ints],
    to: tuple[Ints, Ints],
    cost: Floats,
) -> HouseholdMoves:
    """Moves of one or two persons, after which households have other ``counts``."""
    both = np.stack(homes, 1)
    return HouseholdMoves(
        both,
        np.stack(counts, 1),
        of.tenure[both],
        of.head[both],
        np.stack(persons, 1),
        np.stack(labels, 1),
        np.stack(to, 1),
        cost,
    )


def _of_households(
    of: LinkedTract, i: Ints, j: Ints, counts: Ints, tenure: Ints, cost: Floats, whole: bool
) -> HouseholdMoves:
    """Moves of two households and no single person."""
    both, none = np.stack([i, j], 1), np.full((len(i), 2), -1)
    return HouseholdMoves(both, counts, tenure, of.head[both], none, none, none, cost, whole)


def relabelled(of: LinkedTract) -> HouseholdMoves:
    """Another relationship for someone who is no householder."""
    who = of.others
    label, was = np.arange(FIRST, RELATIONS), of.relgq[who]
    cost = of.becoming(who[:, None], of.home[who][:, None], label[None, :])
    able = possible_labels()[label][:, of.age[who]].T & (label[None, :] != was[:, None])
    n, j = np.nonzero(able & (cost < WRONG))
    person, to, now, cost = who[n], label[j], was[n], cost[n, j]
    h, cls = of.home[person], of.cls[person]
    counts = of.counts[h] - contributions()[now, cls] + contributions()[to, cls]
    # nobody stops being a partner for being of another age
    cost = cost - np.where(now < MEMBER, 0.0, of.implausible(person, h, now))
    none = np.full(len(h), -1)
    return _of_persons(of, (h, none), (counts, counts), (person, none), (to, none), (h, none), cost)


def tenures(of: LinkedTract, rng: np.random.Generator, tries: int) -> HouseholdMoves:
    """Two households of a block group exchange tenures."""
    i, j = of.pairs_of_homes(rng, tries, of.group)
    keep = of.tenure[i] != of.tenure[j]
    i, j = i[keep], j[keep]
    both, crossed = np.stack([i, j], 1), np.stack([j, i], 1)
    cost = _AWAY * (of.block[i] != of.block[j])
    return _of_households(of, i, j, of.counts[both], of.tenure[crossed], cost, False)


def joined(of: LinkedTract, rng: np.random.Generator, tries: int) -> HouseholdMoves:
    """A member joins another household of the block, in the same or in another relationship."""
    p = np.repeat(of.others[of.relgq[of.others] >= MEMBER], tries)
    h, to = of.home[p], of.random_home(rng, of.block[of.home[p]])
    label = np.where(rng.random(len(p)) < 0.5, of.relgq[p], rng.choice(_JOIN_AS, len(p)))
    size = of.counts[:, SIZE]
    keep = (to != h) & possible_labels()[label, of.age[p]]
    keep &= (size[to] < _MOST) | (size[h] > size[to] + 1)
    new = of.becoming(p, to, label)
    p, h, to, label, new = (x[keep & (new < WRONG)] for x in (p, h, to, label, new))
    cost = new - of.implausible(p, h, of.relgq[p])
    con, cls, none = contributions(), of.cls[p], np.full(len(p), -1)
    counts = (of.counts[h] - con[of.relgq[p], cls], of.counts[to] + con[label, cls])
    return _of_persons(of, (h, to), counts, (p, none), (label, none), (to, none), cost)


def exchanged(of: LinkedTract, rng: np.random.Generator, tries: int) -> HouseholdMoves:
    """Two persons of a block change households, each with their relationship or that of the
    other. Partners take the other's."""
    same = np.isin(of.relgq[of.others], _SAME)
    p = np.repeat(of.others, np.where(same, _OFTEN, tries))
    q = of.random_other(rng, of.block[of.home[p]])
    p, q = (x[of.home[p] != of.home[q]] for x in (p, q))
    h, k, was_p, was_q = of.home[p], of.home[q], of.relgq[p], of.relgq[q]
    take = (was_p < MEMBER) | (was_q < MEMBER) | (rng.random(len(p)) < 0.5)
    other_sex = of.people.sex[p] != of.people.sex[q]
    new_p, new_q = (
        np.where(take, np.where(other_sex, _OF_OTHER_SEX[a], a), b)
        for a, b in ((was_q, was_p), (was_p, was_q))
    )
    keep = possible_labels()[new_p, of.age[p]] & possible_labels()[new_q, of.age[q]]
    one, two = of.implausible(p, k, new_p), of.implausible(q, h, new_q)
    keep &= (one < WRONG) & (two < WRONG)
    p, q, h, k, was_p, was_q, new_p, new_q, cost = (
        x[keep] for x in (p, q, h, k, was_p, was_q, new_p, new_q, one + two)
    )
    cost -= of.implausible(p, h, was_p) + of.implausible(q, k, was_q)
    con, a, b = contributions(), of.cls[p], of.cls[q]
    counts = (
        of.counts[h] - con[was_p, a] + con[new_q, b],
        of.counts[k] - con[was_q, b] + con[new_p, a],
    )
    return _of_persons(of, (h, k), counts, (p, q), (new_p, new_q), (k, h), cost)


def swapped(of: LinkedTract, rng: np.random.Generator, tries: int) -> HouseholdMoves:
    """Two householders of a block exchange all members except partners."""
    i, j = of.pairs_of_homes(rng, tries, of.block)
    core = of.core()
    rest = of.counts - core
    keep = (rest[i] != rest[j]).any(axis=1) & of.fits(of.head[i], j) & of.fits(of.head[j], i)
    i, j = i[keep], j[keep]
    counts = np.stack([core[i] + rest[j], core[j] + rest[i]], 1)
    tenure = of.tenure[np.stack([i, j], 1)]
    return _of_households(of, i, j, counts, tenure, np.zeros(len(i)), True)


def headed(of: LinkedTract, rng: np.random.Generator, tries: int) -> HouseholdMoves:
    """A householder changes places and relationships with their partner, or with someone of another
    household of the block."""
    h = np.repeat(np.arange(len(of.head)), tries)
    partner = of.partner()
    q = np.where(rng.random(len(h)) < 0.5, partner[h], of.random_other(rng, of.block[h]))
    keep = (q >= 0) & ((of.home[q] != h) | (q == partner[h])) & (of.age[q] >= 18)
    keep &= of.fits(q, h) & possible_labels()[of.relgq[q], of.age[of.head[h]]]
    h, q = h[keep], q[keep]
    p, k, label, same = of.head[h], of.home[q], of.relgq[q], of.home[q] == h
    other = np.where(same, -1, partner[h])  # whose householder changes
    one = of.implausible(p, k, label, np.where(same, q, of.head[k]))
    two = np.where(other < 0, 0.0, of.implausible(other, h, of.relgq[other], q))
    cost = one + two - of.implausible(q, k, label)
    cost -= np.where(other < 0, 0.0, of.implausible(other, h, of.relgq[other]))
    con, a, b = contributions(), of.cls[p], of.cls[q]
    there = con[label, a] - con[label, b]
    here = of.counts[h] - con[HEADS[1], a] + con[HEADS[1], b] + same[:, None] * there
    second = np.where(same, -1, k)
    made = _of_persons(
        of,
        (h, second),
        (here, of.counts[k] + there),
        (p, q),
        (label, np.full(len(q), HEADS[1])),
        (k, h),
        cost,
    )
    heads = np.stack([q, of.head[k]], 1)
    good = np.flatnonzero((one < WRONG) & (two < WRONG))
    return HouseholdMoves(**{**vars(made), "heads": heads}).some(good)


def best(
    of: LinkedTract, moves: HouseholdMoves, prices: tuple[Floats, Floats], least: float
) -> HouseholdMoves:
    """The moves that gain more than ``least``, by their prices, the best first; of those that begin
    with a household a few."""
    gain = moves.cost.copy()
    able = np.ones(len(gain), dtype=bool)
    for side in (0, 1):
        there = np.flatnonzero(moves.homes[:, side] >= 0)
        home = moves.homes[there, side]
        index, fits = of.after(
            moves.heads[there, side], moves.counts[there, side], moves.tenure[there, side]
        )
        gain[there] += of.change(home, of.index[home], index, prices)
        able[there] &= fits
        there = np.flatnonzero(moves.persons[:, side] >= 0)
        p = moves.persons[there, side]
        now, then = (person_index()[r, of.cls[p]] for r in (of.relgq[p], moves.labels[there, side]))
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
