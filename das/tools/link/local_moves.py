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
from das.tools.link.people import CELLS, RELATIONS, person_index

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
    tract: LinkedTract,
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
        tract.tenure[both],
        tract.head[both],
        np.stack(persons, 1),
        np.stack(labels, 1),
        np.stack(to, 1),
        cost,
    )


def _of_households(
    tract: LinkedTract, i: Ints, j: Ints, counts: Ints, tenure: Ints, cost: Floats, whole: bool
) -> HouseholdMoves:
    """Moves of two households and no single person."""
    both, none = np.stack([i, j], 1), np.full((len(i), 2), -1)
    return HouseholdMoves(both, counts, tenure, tract.head[both], none, none, none, cost, whole)


def relabeled(tract: LinkedTract) -> HouseholdMoves:
    """Another relationship for someone who is no householder."""
    who = tract.others
    label, was = np.arange(FIRST, RELATIONS), tract.relgq[who]
    cost = tract.becoming(who[:, None], tract.home[who][:, None], label[None, :])
    able = possible_labels()[label][:, tract.age[who]].T & (label[None, :] != was[:, None])
    n, j = np.nonzero(able & (cost < WRONG))
    person, to, now, cost = who[n], label[j], was[n], cost[n, j]
    h, cls = tract.home[person], tract.cls[person]
    counts = tract.counts[h] - contributions()[now, cls] + contributions()[to, cls]
    # nobody stops being a partner for being of another age
    cost = cost - np.where(now < MEMBER, 0.0, tract.implausible(person, h, now))
    none = np.full(len(h), -1)
    return _of_persons(
        tract, (h, none), (counts, counts), (person, none), (to, none), (h, none), cost
    )


def tenures(tract: LinkedTract, rng: np.random.Generator, tries: int) -> HouseholdMoves:
    """Two households of a block group exchange tenures."""
    i, j = tract.pairs_of_homes(rng, tries, tract.group)
    keep = tract.tenure[i] != tract.tenure[j]
    i, j = i[keep], j[keep]
    both, crossed = np.stack([i, j], 1), np.stack([j, i], 1)
    cost = _AWAY * (tract.block[i] != tract.block[j])
    return _of_households(tract, i, j, tract.counts[both], tract.tenure[crossed], cost, False)


def joined(tract: LinkedTract, rng: np.random.Generator, tries: int) -> HouseholdMoves:
    """A member joins another household of the block, in the same or in another relationship."""
    p = np.repeat(tract.others[tract.relgq[tract.others] >= MEMBER], tries)
    h, to = tract.home[p], tract.random_home(rng, tract.block[tract.home[p]])
    label = np.where(rng.random(len(p)) < 0.5, tract.relgq[p], rng.choice(_JOIN_AS, len(p)))
    size = tract.counts[:, SIZE]
    keep = (to != h) & possible_labels()[label, tract.age[p]]
    keep &= (size[to] < _MOST) | (size[h] > size[to] + 1)
    new = tract.becoming(p, to, label)
    p, h, to, label, new = (x[keep & (new < WRONG)] for x in (p, h, to, label, new))
    cost = new - tract.implausible(p, h, tract.relgq[p])
    con, cls, none = contributions(), tract.cls[p], np.full(len(p), -1)
    counts = (tract.counts[h] - con[tract.relgq[p], cls], tract.counts[to] + con[label, cls])
    return _of_persons(tract, (h, to), counts, (p, none), (label, none), (to, none), cost)


def exchanged(tract: LinkedTract, rng: np.random.Generator, tries: int) -> HouseholdMoves:
    """Two persons of a block change households, each with their relationship or that of the
    other. Partners take the other's."""
    same = np.isin(tract.relgq[tract.others], _SAME)
    p = np.repeat(tract.others, np.where(same, _OFTEN, tries))
    q = tract.random_other(rng, tract.block[tract.home[p]])
    p, q = (x[tract.home[p] != tract.home[q]] for x in (p, q))
    h, k, was_p, was_q = tract.home[p], tract.home[q], tract.relgq[p], tract.relgq[q]
    take = (was_p < MEMBER) | (was_q < MEMBER) | (rng.random(len(p)) < 0.5)
    other_sex = tract.people.sex[p] != tract.people.sex[q]
    new_p, new_q = (
        np.where(take, np.where(other_sex, _OF_OTHER_SEX[a], a), b)
        for a, b in ((was_q, was_p), (was_p, was_q))
    )
    keep = possible_labels()[new_p, tract.age[p]] & possible_labels()[new_q, tract.age[q]]
    one, two = tract.implausible(p, k, new_p), tract.implausible(q, h, new_q)
    keep &= (one < WRONG) & (two < WRONG)
    p, q, h, k, was_p, was_q, new_p, new_q, cost = (
        x[keep] for x in (p, q, h, k, was_p, was_q, new_p, new_q, one + two)
    )
    cost -= tract.implausible(p, h, was_p) + tract.implausible(q, k, was_q)
    con, a, b = contributions(), tract.cls[p], tract.cls[q]
    counts = (
        tract.counts[h] - con[was_p, a] + con[new_q, b],
        tract.counts[k] - con[was_q, b] + con[new_p, a],
    )
    return _of_persons(tract, (h, k), counts, (p, q), (new_p, new_q), (k, h), cost)


def swapped(tract: LinkedTract, rng: np.random.Generator, tries: int) -> HouseholdMoves:
    """Two householders of a block exchange all members except partners."""
    i, j = tract.pairs_of_homes(rng, tries, tract.block)
    core = tract.core()
    rest = tract.counts - core
    keep = (
        (rest[i] != rest[j]).any(axis=1)
        & tract.fits(tract.head[i], j)
        & tract.fits(tract.head[j], i)
    )
    i, j = i[keep], j[keep]
    counts = np.stack([core[i] + rest[j], core[j] + rest[i]], 1)
    tenure = tract.tenure[np.stack([i, j], 1)]
    return _of_households(tract, i, j, counts, tenure, np.zeros(len(i)), True)


def headed(tract: LinkedTract, rng: np.random.Generator, tries: int) -> HouseholdMoves:
    """A householder changes places and relationships with their partner, or with someone of another
    household of the block."""
    h = np.repeat(np.arange(len(tract.head)), tries)
    partner = tract.partner()
    q = np.where(rng.random(len(h)) < 0.5, partner[h], tract.random_other(rng, tract.block[h]))
    keep = (q >= 0) & ((tract.home[q] != h) | (q == partner[h])) & (tract.age[q] >= 18)
    keep &= tract.fits(q, h) & possible_labels()[tract.relgq[q], tract.age[tract.head[h]]]
    h, q = h[keep], q[keep]
    p, k, label, same = tract.head[h], tract.home[q], tract.relgq[q], tract.home[q] == h
    other = np.where(same, -1, partner[h])  # whose householder changes
    one = tract.implausible(p, k, label, np.where(same, q, tract.head[k]))
    two = np.where(other < 0, 0.0, tract.implausible(other, h, tract.relgq[other], q))
    cost = one + two - tract.implausible(q, k, label)
    cost -= np.where(other < 0, 0.0, tract.implausible(other, h, tract.relgq[other]))
    con, a, b = contributions(), tract.cls[p], tract.cls[q]
    there = con[label, a] - con[label, b]
    here = tract.counts[h] - con[HEADS[1], a] + con[HEADS[1], b] + same[:, None] * there
    second = np.where(same, -1, k)
    made = _of_persons(
        tract,
        (h, second),
        (here, tract.counts[k] + there),
        (p, q),
        (label, np.full(len(q), HEADS[1])),
        (k, h),
        cost,
    )
    heads = np.stack([q, tract.head[k]], 1)
    good = np.flatnonzero((one < WRONG) & (two < WRONG))
    return HouseholdMoves(**{**vars(made), "heads": heads}).some(good)


def best(
    tract: LinkedTract, moves: HouseholdMoves, prices: tuple[Floats, Floats], least: float
) -> tuple[HouseholdMoves, Ints, Ints, Ints]:
    """The moves that gain more than ``least``, by their prices, the best first; of those that begin
    with a household a few. The cells of households after them, ``(moves, 2, families)``, and all
    cells that change, ``(moves, cells)``, before and after."""
    gain = moves.cost.copy()
    able, found = np.ones(len(gain), dtype=bool), []
    for side in (0, 1):
        there = np.flatnonzero(moves.homes[:, side] >= 0)
        home = moves.homes[there, side]
        index, fits = tract.after(
            moves.heads[there, side], moves.counts[there, side], moves.tenure[there, side]
        )
        found.append((there, tract.index[home], index))
        gain[there] += tract.change(home, *found[-1][1:], prices)
        able[there] &= fits
        there = np.flatnonzero(moves.persons[:, side] >= 0)
        p = moves.persons[there, side]
        now, then = (
            person_index()[r, tract.cls[p]] for r in (tract.relgq[p], moves.labels[there, side])
        )
        found.append((there, now, then))
        gain[there] += tract.change(tract.home[p], now, then, prices)
    good = np.flatnonzero(able & (gain < -least))
    good = good[np.argsort(gain[good], kind="stable")]
    good = good[_first(moves.homes[good, 0])]
    now, then = [], []
    for there, *cells in found:
        at = np.full(len(gain), -1)
        at[there] = np.arange(len(there))
        some = np.flatnonzero(at[good] >= 0)
        for parts, of in zip((now, then), cells, strict=True):
            parts.append(np.full((len(good), of.shape[1]), CELLS))
            parts[-1][some] = of[at[good[some]]]
    index = np.stack([then[0], then[2]], 1)
    return moves.some(good), index, np.concatenate(now, 1), np.concatenate(then, 1)


def _first(home: Ints) -> Ints:
    """The first few of each household, in order."""
    order = np.argsort(home, kind="stable")
    start = np.flatnonzero(np.diff(home[order], prepend=-1))
    nth = np.arange(len(home)) - np.repeat(start, np.diff([*start, len(home)]))
    return np.sort(order[nth < _KEPT])
