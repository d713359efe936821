r"""The cheapest nested atoms of one family: a unit with its children.

An atom :math:`G` of siblings that is published at grain :math:`h` costs

.. math:: w \, \ell_h(G) - \sum_{c \in G} D_h(c), \qquad
    \ell_h(G) = \sum_a X(T(G, a)) - \sum_c X(T(G, c)), \quad X(z) = z \log_2 z

bits, over the groups a of the grain before and c of this one. It is the deviance of the best
estimate from the truth, in all units of the children's level and below, counted :math:`w` times;
:math:`D_h(c)` is what the units in c would cost by themselves. A child alone costs what its own
children cost at best, which is given. Costs add, and whether an atom passes depends on the atom
alone; so two recursions give the exact optimum (:math:`A_h`: of one atom with all below it;
:math:`B_h`: of a set of children):

.. math:: A_h(S) = \text{cost}_h(S) + B_{h-1}(S), \qquad B_h(S) = \min_{T \subseteq S} A_h(T) + B_h(S \setminus T)

* :func:`by_intervals`: over runs of children in a given order, :math:`O(n^3)`;
* :func:`by_subsets`: over all subsets, :math:`O(3^n)`.

Both do many families of one size at a time, in arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.tools.protection.least.chain import Chain, Rules

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_TABLE = np.arange(1 << 16, dtype=np.float64)
_TABLE[1:] *= np.log2(_TABLE[1:])
#: Candidate atoms at a time.
_ROWS = 1 << 15


def zlog(z: Ints) -> Floats:
    """X(z) = z log2 z.

    >>> zlog(np.array([0, 1, 2, 1 << 20])).tolist()
    [0.0, 0.0, 2.0, 20971520.0]"""
    out: Floats = _TABLE.take(z, mode="clip")
    large = z >= len(_TABLE)
    if large.any():
        out[large] = z[large] * np.log2(z[large])
    return out


def all_losses(counts: tuple[Ints, ...], places: Ints | None = None) -> Floats:
    """The losses of units, ``(units, grains - 1)``, from their counts at each grain; with the lowest
    ``places`` in each, ``(units,)``, also that of totals, which comes first."""
    out = np.zeros((*counts[0].shape[:-1], len(counts) + 1))
    if places is not None:
        out[..., 0] = counts[0][..., 0] * np.log2(places)
    for h, count in enumerate(counts, 1):
        for at in range(0, len(count), _ROWS):
            out[at : at + _ROWS, ..., h] = zlog(count[at : at + _ROWS]).sum(axis=-1)
    return np.asarray(out[..., :-1] - out[..., 1:])[..., places is None :]


def passing_losses(
    population: Ints, places: Ints, counts: Callable[[int, Ints], Ints], chain: Chain, rules: Rules
) -> Floats:
    """The losses of candidate atoms, ``(rows, grains)``, infinite from the first grain on that one
    does not pass; without the first grain, ``(rows, grains - 1)``, if all totals are printed.
    ``counts(h, rows)`` are those at a grain: the finer a grain, the fewer are asked for."""
    out = np.full((len(population), len(chain)), np.inf)
    if rules.totals:
        rows = np.flatnonzero(rules.total_passed(population, places))
        out[rows, :1] = all_losses((population[rows, None],), places[rows])
    rows = np.flatnonzero(population >= rules.k)
    before = zlog(population[rows])
    for h, grain in enumerate(chain.grains[1:], 1):
        if not len(rows):
            break
        found = counts(h, rows)
        passed = rules.passed(found, grain)
        rows, here = rows[passed], zlog(found[passed]).sum(axis=1)
        out[rows, h] = before[passed] - here
        before = here
    return out[:, not rules.totals :]


@dataclass(frozen=True, eq=False)
class Siblings:
    """The children of families of one size. ``counts``: by grain, ``(families, children,
    groups)``; ``places``: the lowest ones in each, ``(families, children)``; ``single``: what a
    child by itself costs at each grain but the first, infinite where it does not pass, and ``own``:
    D above, ``(families, children, grains - 1)``; ``weight``: w. If not all totals are printed, the
    first grain is one of these grains, too."""

    chain: Chain
    rules: Rules
    counts: tuple[Ints, ...]
    places: Ints
    single: Floats
    own: Floats
    weight: float

    @property
    def size(self) -> int:
        return int(self.single.shape[1])


@dataclass(frozen=True, eq=False)
class BestAtoms:
    """``value``: the least cost below a family's unit, by the grain of its own table,
    ``(families, grains - 1)``, infinite where it does not pass. ``atom``: for each such grain t and
    each grain h, the number of the atom of each child, ``(families, t, h, children)``; the number
    is that of its first child in the given order. Above t it means nothing."""

    value: Floats
    atom: NDArray[np.int16]


def by_intervals(siblings: Siblings) -> BestAtoms:
    """The best atoms that are runs of the children in their order."""
    families, n, grains = siblings.single.shape
    atoms = _interval_atoms(siblings)
    best = np.zeros((families, n + 1, n + 1))  # of what is before the first, which costs nothing
    value = np.full((families, grains), np.inf)
    chosen = np.zeros((grains, families, n + 1, n + 1), dtype=np.int16)
    for h in range(grains):
        cost = atoms[:, h] + best
        cost[:, np.arange(n), np.arange(1, n + 1)] = siblings.single[:, :, h]
        if not np.isfinite(cost).any():
            break
        best = np.full((families, n + 1, n + 1), np.inf)
        best[:, np.arange(n + 1), np.arange(n + 1)] = 0.0
        for j in range(1, n + 1):  # the last atom begins at l
            sums = best[:, :j, :j] + cost[:, None, :j, j]
            last = sums.argmin(axis=2)
            chosen[h, :, :j, j] = last
            best[:, :j, j] = np.take_along_axis(sums, last[:, :, None], axis=2)[:, :, 0]
        value[:, h] = best[:, 0, n]
    return BestAtoms(value, _interval_numbers(chosen))


def _interval_atoms(siblings: Siblings) -> Floats:
    """The costs of runs of two or more children, ``(families, grains - 1, n + 1, n + 1)`` by first
    child and the one after the last; infinite for others."""
    families, n, grains = siblings.single.shape
    out = np.full((families, grains, n + 1, n + 1), np.inf)
    first, end = np.triu_indices(n + 1, 2)
    every = (*siblings.counts, siblings.places[:, :, None])
    sums = [np.pad(c.cumsum(axis=1), ((0, 0), (1, 0), (0, 0))) for c in every]
    below = np.pad(siblings.own.cumsum(axis=1), ((0, 0), (1, 0), (0, 0)))
    step = max(1, _ROWS // max(families, 1))
    for at in range(0, len(first), step):
        i, j = first[at : at + step], end[at : at + step]

        def counts(h: int, rows: Ints, i: Ints = i, j: Ints = j) -> Ints:
            family, run = np.divmod(rows, len(i))
            found: Ints = sums[h][family, j[run]] - sums[h][family, i[run]]
            return found

        population, places = ((s[:, j, 0] - s[:, i, 0]).ravel() for s in (sums[0], sums[-1]))
        loss = passing_losses(population, places, counts, siblings.chain, siblings.rules)
        cost = siblings.weight * loss.reshape(families, len(i), grains)
        cost -= below[:, j] - below[:, i]
        out[:, :, i, j] = cost.transpose(0, 2, 1)
    return out


def _interval_numbers(chosen: NDArray[np.int16]) -> NDArray[np.int16]:
    """The atoms of the optimum, from where the last atom of each run begins."""
    grains, families, size, _ = chosen.shape
    n, each = size - 1, np.arange(families)
    out = np.zeros((families, grains, grains, n), dtype=np.int16)
    for t in range(grains):
        above = np.zeros((families, n), dtype=np.int16)
        for h in range(t, -1, -1):
            here = out[:, t, h]
            begin = np.full(families, n, dtype=np.int16)
            for j in range(n, 0, -1):
                ends = begin == j
                begin = np.where(ends, chosen[h, each, above[:, j - 1], j], begin)
                here[:, j - 1] = begin
            above = here
    return out


def by_subsets(siblings: Siblings) -> BestAtoms:
    """The best atoms of all."""
    families, n, grains = siblings.single.shape
    whole, every = (1 << n) - 1, 1 << n
    atoms = _subset_atoms(siblings)
    best = np.zeros((families, every))
    value = np.full((families, grains), np.inf)
    kept_cost, kept_best = [], []
    for h in range(grains):
        cost = atoms[:, h] + best
        cost[:, 1 << np.arange(n)] = siblings.single[:, :, h]
        cost[:, 0] = np.inf
        best = np.zeros((families, every))
        for i in range(n):  # the sets whose last child is i; its atom is T, without i
            size = 1 << i
            best[:, size : 2 * size] = _min_sums(cost[:, size : 2 * size], best[:, :size], i)
        value[:, h] = best[:, whole]
        kept_cost.append(cost)
        kept_best.append(best)
    atom = np.zeros((families, grains, grains, n), dtype=np.int16)
    for f, t in zip(*np.nonzero(np.isfinite(value)), strict=True):
        parts = [whole]
        for h in range(t, -1, -1):
            parts = [p for s in parts for p in _divided(s, kept_cost[h][f], kept_best[h][f])]
            for p in parts:
                inside = np.flatnonzero(p >> np.arange(n) & 1)
                atom[f, t, h, inside] = inside[0]
    return BestAtoms(value, atom)


def _subset_atoms(siblings: Siblings) -> Floats:
    """The costs of sets of two or more children, ``(families, grains - 1, 2^n)``."""
    families, n, grains = siblings.single.shape
    every = 1 << n

    def sums(each: NDArray[Any]) -> NDArray[Any]:
        out = np.zeros((families, every, each.shape[2]), dtype=each.dtype)
        for i in range(n):
            out[:, 1 << i : 2 << i] = out[:, : 1 << i] + each[:, i, None]
        return out.reshape(families * every, -1)

    kept: dict[int, NDArray[Any]] = {}

    def counts(h: int, rows: Ints) -> Ints:
        if h not in kept:
            kept.clear()
            kept[h] = sums(siblings.counts[h])
        found: Ints = kept[h][rows]
        return found

    population, places = (sums(s)[:, 0] for s in (siblings.counts[0], siblings.places[..., None]))
    loss = passing_losses(population, places, counts, siblings.chain, siblings.rules)
    cost = siblings.weight * loss - sums(siblings.own)
    return cost.reshape(families, every, grains).transpose(0, 2, 1).copy()


def _divided(children: int, cost: Floats, best: Floats) -> Iterator[int]:
    """The atoms of a set of children: of their best partition, from the last child's on."""
    while children:
        last = 1 << (children.bit_length() - 1)
        rest, subsets = children ^ last, np.zeros(1, dtype=np.intp)
        for i in range(rest.bit_length()):
            if rest >> i & 1:
                subsets = np.concatenate([subsets, subsets + (1 << i)])
        at = int(subsets[np.argmin(cost[subsets + last] + best[rest ^ subsets])]) + last
        yield at
        children ^= at


@lru_cache(maxsize=32)
def _thirds(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For each way to put n children in a first set, a second, or neither: both sets."""
    first, second = np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)
    for i in range(n):
        first = np.concatenate([first, first + (1 << i), first])
        second = np.concatenate([second, second, second + (1 << i)])
    return first, second


def _min_sums(one: Floats, other: Floats, n: int) -> Floats:
    """For each set S of n children the least ``one(T) + other(S - T)`` over T in S."""
    first, second = _thirds(n)
    out = one[:, first] + other[:, second]
    for i in range(n - 1, -1, -1):  # the highest child is the slowest third
        parts = out.reshape(len(one), 3, 3**i, -1)
        joined = np.minimum(parts[:, 1], parts[:, 2])
        out = np.stack([parts[:, 0], joined], axis=-1)
    return out.reshape(len(one), -1) if n else out
