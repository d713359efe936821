"""The least coarsening of a tree: families from the bottom up, then the atoms from the top down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.histogram import Histogram
from das.tools.protection.least.chain import Chain, Rules
from das.tools.protection.least.staircase import Finest, GrainCounts
from das.tools.protection.truth.least.families import (
    BestAtoms,
    Siblings,
    all_losses,
    by_intervals,
    by_subsets,
    passing_losses,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: Families of at most this many children are solved over all sets.
EXACT = 13
#: Of a larger family, runs of this many children become units of a level that no user counts: the
#: recursion over runs takes the cube of their number.
CAP = 300
ORDERS = ("number", "best", "search")
#: Cells of a batch of families.
_BATCH = 1 << 19


@dataclass(frozen=True, eq=False)
class CountTree:
    """The inhabited units, root first. By depth: ``parent``, ``(units,)``; ``counts``; ``places``:
    the lowest units in each, ``(units,)``; ``users``: the weight of the level; ``own``: what units
    cost by themselves with all below them, and ``passes``: whether they pass, ``(units, grains -
    1)``; or ``(units, grains)``, if not all totals are printed."""

    chain: Chain
    rules: Rules
    parent: tuple[Ints, ...]
    counts: tuple[GrainCounts, ...]
    places: tuple[Ints, ...]
    users: tuple[float, ...]
    own: tuple[Floats, ...]
    passes: tuple[NDArray[np.bool_], ...]

    @staticmethod
    def from_counts(
        chain: Chain, rules: Rules, parent: Sequence[Ints], finest: Finest, users: Sequence[float]
    ) -> CountTree:
        """From the counts of the lowest units, each with a person. The tree's chain ends with the
        finest grain that the root passes. Raises :class:`InputError` where it passes none."""
        all_of = GrainCounts.from_finest(chain, finest).finest
        whole = all_of.up(np.zeros(all_of.units, dtype=np.int64), 1)
        shown = shown_chain(GrainCounts(chain, whole), rules, all_of.units)
        group = chain.holding(len(chain) - 1, len(shown) - 1)[all_of.cell]
        size = all_of.units, len(shown.grains[-1])
        each = Histogram.from_triplets(*size, all_of.unit, group, all_of.count)
        return _built(shown, rules, tuple(parent), each, users)

    def __len__(self) -> int:
        return len(self.parent)

    def weight(self, depth: int) -> float:
        """Of the users of a level and of all below it."""
        return sum(self.users[depth:])

    def ancestors(self) -> list[Ints]:
        """By depth, the unit that holds each lowest unit."""
        out = [np.arange(len(self.parent[-1]))]
        for up in self.parent[:0:-1]:
            out.insert(0, up[out[0]])
        return out

    def grouped(self, area: Ints) -> tuple[CountTree, Ints]:
        """With a level of no users above the highest level that districts do not cut: the units of a
        parent in one district; not above the lowest level, unless totals may be joined. And the
        lowest units in the new order. ``area``: the district of each lowest unit, or -1."""
        above = self.ancestors()
        depth = [bool(in_one(unit, area + 1).all()) for unit in above].index(True)
        if depth == len(self) - 1 and not self.rules.totals:
            return self, above[-1]
        above.insert(depth, area)
        order, parent = np.lexsort(above[::-1]), list[Ints]()
        up = np.zeros(len(area), dtype=np.int64)
        for unit in above:
            new = (np.diff(up, prepend=-1) != 0) | (np.diff(unit[order], prepend=-2) != 0)
            parent.append(up[new])
            up = np.cumsum(new) - 1
        users = (*self.users[:depth], 0.0, *self.users[depth:])
        finest = self.counts[-1].finest.some(order)
        return _built(self.chain, self.rules, tuple(parent), finest, users), order

    def capped(self) -> CountTree:
        """With a level of runs of children above each level that has a family of more than
        :data:`CAP`. Atoms join whole runs, or children of one run."""
        out, users = [self.parent[0]], [self.users[0]]
        for up, weight in zip(self.parent[1:], self.users[1:], strict=True):
            levels = [up]
            while (size := np.diff(starts := starts_of(levels[0]))).max() > CAP:
                runs = -(-size // CAP)
                place = np.arange(len(levels[0])) - np.repeat(starts[:-1], size)
                run = place * np.repeat(runs, size) // np.repeat(size, size)
                first = np.repeat(np.cumsum(runs) - runs, size)
                levels[:1] = [np.repeat(np.arange(len(runs)), runs), run + first]
            out += levels
            users += [0.0] * (len(levels) - 1) + [weight]
        if len(out) == len(self):
            return self
        return _built(self.chain, self.rules, tuple(out), self.counts[-1].finest, users)


def shown_chain(whole: GrainCounts, rules: Rules, places: int) -> Chain:
    """The grains at which the whole passes, which has some lowest ``places``. Raises
    :class:`InputError` where it passes none."""
    chain, counts, size = whole.chain, whole.some(np.arange(1)), np.array([places])
    shown = int(_passes(chain, rules, counts, size).sum()) - bool(rules.totals)
    if shown < 1 or not rules.total_passed(counts[0][0], size):
        raise InputError(
            f"not even the whole passes at {chain.grains[1].name!r}",
            where="least coarsening",
            remedy="lower k or m, or begin the chain with a coarser grain",
        )
    return Chain(chain.grains[: shown + 1])


def _built(
    chain: Chain, rules: Rules, parent: tuple[Ints, ...], finest: Histogram, users: Sequence[float]
) -> CountTree:
    each, places = [finest], [np.ones(finest.units, dtype=np.int64)]
    for up in parent[:0:-1]:
        each.insert(0, each[0].up(up, int(up[-1]) + 1))
        places.insert(0, np.add.reduceat(places[0], starts_of(up)[:-1]))
    counts = tuple(GrainCounts(chain, e) for e in each)
    own, passes = list[Floats](), list[NDArray[np.bool_]]()
    for depth in range(len(parent) - 1, -1, -1):
        below = 0.0 if not own else np.add.reduceat(own[0], starts_of(parent[depth + 1])[:-1])
        size = places[depth]
        found = [
            (all_losses(c, size[u] if rules.totals else None), _passes(chain, rules, c, size[u]))
            for u, c in counts[depth].parts()
        ]
        own.insert(0, users[depth] * np.concatenate([loss for loss, _ in found]) + below)
        passes.insert(0, np.concatenate([passed for _, passed in found]))
    return CountTree(
        chain, rules, parent, counts, tuple(places), tuple(users), tuple(own), tuple(passes)
    )


def in_one(unit: Ints, atom: Ints) -> NDArray[np.bool_]:
    """Whether each unit lies in one atom."""
    some = np.zeros(int(unit.max()) + 1, dtype=np.int64)
    some[unit] = atom
    return np.bincount(unit, some[unit] != atom) == 0


def starts_of(parent: Ints) -> Ints:
    """Where the children of each unit above begin, and the end, ``(units above + 1,)``."""
    return np.append(np.flatnonzero(np.diff(parent, prepend=-1)), len(parent))


def _passes(
    chain: Chain, rules: Rules, counts: tuple[Ints, ...], places: Ints
) -> NDArray[np.bool_]:
    found = passing_losses(counts[0][:, 0], places, lambda h, rows: counts[h][rows], chain, rules)
    return np.isfinite(found)


@dataclass(frozen=True)
class Effort:
    """``order``: ``number``, atoms are runs of codes; ``best``, small families exactly, and runs of
    the best of some orders; ``search``, these and ``rounds`` of reshuffling."""

    order: str = "search"
    rounds: int = 24
    seed: int = 1


@dataclass(frozen=True, eq=False)
class LeastAtoms:
    """The atoms of the least coarsening that was found. ``atom``: by grain, the first lowest unit
    of each lowest unit's atom, ``(units,)``; ``value``: the cost in bits; ``exact``: how
    many of the ``families`` were solved exactly."""

    chain: Chain
    atom: tuple[Ints, ...]
    value: float
    exact: int
    families: int


def siblings(tree: CountTree, depth: int, child: Ints, single: Floats) -> Siblings:
    """Children of a level, ``(families, children)``, and what each costs by itself."""
    counts = tuple(c.reshape(*child.shape, -1) for c in tree.counts[depth].some(child.ravel()))
    places, own, weight = tree.places[depth][child], tree.own[depth][child], tree.weight(depth)
    return Siblings(tree.chain, tree.rules, counts, places, single[child], own, weight)


class LevelFamilies:
    """The families of one level, and the best that was found for each: ``value``, ``(families,
    grains - 1)``, by the grain t of the family's own table; ``atom[t, h]``, ``(children,)``: at
    grain h, the first child of each child's atom. ``single``: what a child by itself costs."""

    def __init__(self, tree: CountTree, depth: int, single: Floats) -> None:
        self.tree, self.depth, self.single = tree, depth, single
        self.family = tree.parent[depth]
        self.starts = starts_of(self.family)
        self.size = np.diff(self.starts)
        grains = single.shape[1]
        self.value = np.full((len(self.size), grains), np.inf)
        self.atom = np.zeros((grains, grains, len(self.family)), dtype=np.int32)

    def exact(self) -> None:
        """Solve the small families over all sets."""
        self._improve(1, EXACT, np.arange(len(self.family)), by_subsets)

    def runs(self, order: Ints, least: int = EXACT + 1) -> None:
        """Solve families of ``least`` or more children over runs of an order of the children,
        family by family."""
        self._improve(least, len(self.family), order, by_intervals)

    def _improve(
        self, least: int, most: int, order: Ints, solve: Callable[[Siblings], BestAtoms]
    ) -> None:
        for n in np.unique(self.size[(self.size >= least) & (self.size <= most)]).tolist():
            families = np.flatnonzero(self.size == n)
            step = max(1, _BATCH // (8 * n**2) if n > EXACT else _BATCH >> n + 4)
            for at in range(0, len(families), step):
                some = families[at : at + step]
                self._keep(some, order[self.starts[some][:, None] + np.arange(n)], solve)

    def _keep(self, families: Ints, child: Ints, solve: Callable[[Siblings], BestAtoms]) -> None:
        found = solve(siblings(self.tree, self.depth, child, self.single))
        for t in range(found.value.shape[1]):
            better = np.flatnonzero(found.value[:, t] < self.value[families, t] - 1e-9)
            self.value[families[better], t] = found.value[better, t]
            for h in range(t + 1):
                number = found.atom[better, t, h].astype(np.intp)
                self.atom[t, h, child[better]] = np.take_along_axis(child[better], number, axis=1)

    def orders(self) -> Iterator[Ints]:
        """Orders of the children: by number, by population, by the share of each group of the first
        grain, and by the finest grain that they pass."""
        counts = self.tree.counts[self.depth]
        population = counts.finest.totals()
        yield np.arange(len(population))
        shares = (counts[1] / population[:, None]).T
        for key in (population, *shares, self.tree.passes[self.depth].sum(axis=1)):
            yield np.lexsort((key, self.family))

    def search(self, rounds: int, used: Ints, rng: np.random.Generator) -> None:
        """Reshuffle: orders in which the atoms that were found are runs, so that nothing is lost.
        ``used``: the grain of each family's own table in the solution so far, or -1."""
        finest = np.isfinite(self.value).sum(axis=1) - 1
        for number in range(rounds):
            drawn = (rng.random(len(used)) * (finest + 1)).astype(np.int64)
            target = np.where((used < 0) | (rng.random(len(used)) < 0.3), drawn, used)
            self.runs(self._shuffled(target, rng, moved=number % 3 == 2))

    def _shuffled(self, target: Ints, rng: np.random.Generator, moved: bool) -> Ints:
        """A random order that keeps the atoms for the grain ``target`` of each family runs; or that
        has, in each family, some two children ``moved`` to others' atoms."""
        children = len(self.family)
        every = like = np.arange(children)
        t = target[self.family]
        if moved:
            size = self.size[self.family]
            other = self.starts[self.family] + (rng.random(children) * size).astype(np.int64)
            like = np.where(rng.random(children) < 2 / size, other, every)
        keys = [rng.random(children)]
        for h in range(len(self.atom)):
            key = rng.random(children)[self.atom[t, h, every]][like]
            keys.append(np.where(h <= t, key, 0.0))
        return np.lexsort((*keys, self.family))


def solved(tree: CountTree, effort: Effort, kinds: Sequence[Ints] = ()) -> LeastAtoms:
    """The least coarsening of a tree. ``kinds``: by kind, the district of each lowest unit; atoms
    join units of one district, or whole districts (:meth:`CountTree.grouped`)."""
    order = np.arange(len(tree.parent[-1]))
    for area in kinds:
        tree, again = tree.grouped(area[order])
        order = order[again]
    tree, rng = tree.capped(), np.random.default_rng(effort.seed)
    levels: list[LevelFamilies] = []
    for depth in range(len(tree) - 1, 0, -1):
        levels.insert(0, _first(tree, depth, levels, effort.order))
    if effort.order == "search":
        for depth in range(len(tree) - 1, 0, -1):
            used = _traced(levels)[0][depth - 1]
            if depth < len(tree) - 1:  # what lies below has become better
                levels[depth - 1] = _first(tree, depth, levels[depth:], effort.order)
            levels[depth - 1].search(effort.rounds, used, rng)
    sizes = np.concatenate([lv.size for lv in levels])
    exact = int((sizes <= (EXACT if effort.order != "number" else 1)).sum())
    place = np.argsort(order)
    atom = tuple(order[row][place] for row in _traced(levels)[1])
    return LeastAtoms(tree.chain, atom, float(levels[0].value[0, -1]), exact, len(sizes))


def _first(tree: CountTree, depth: int, below: list[LevelFamilies], order: str) -> LevelFamilies:
    single = below[0].value if below else np.where(tree.passes[depth], 0.0, np.inf)
    out = LevelFamilies(tree, depth, single)
    if order == "number":
        out.runs(np.arange(len(out.family)), least=1)
        return out
    out.exact()
    for each in out.orders():
        out.runs(each)
    return out


def _traced(levels: list[LevelFamilies]) -> tuple[list[Ints], tuple[Ints, ...]]:
    """By depth, the grain of each unit's own table, of those of ``value``, -1 where it has none; and
    by grain, the first lowest unit of the atom of each."""
    grains = levels[0].value.shape[1]
    own, label = [np.array([grains - 1])], np.zeros((grains, 1), dtype=np.int64)
    number = 1
    for level in levels:
        t, every = own[-1][level.family], np.arange(len(level.family))
        alone = np.zeros(len(every), dtype=np.int64)
        label = label[:, level.family]
        for h in range(grains):
            first = level.atom[np.maximum(t, 0), h, every]
            inside = h <= t
            label[h] = np.where(inside, number + first, label[h])
            members = np.bincount(first[inside], minlength=len(every))
            alone += inside & (members[first] == 1)
        own.append(alone - 1)
        number += len(every)
    out = [every] * (not levels[0].tree.rules.totals)
    for row in label:
        _, first, of = np.unique(row, return_index=True, return_inverse=True)
        out.append(first[of.ravel()])
    return own, tuple(out)


# A lower bound of what any coarsening that passes costs, contiguous or not.
#
# An atom G costs w l(G) - sum of D(c): what each child c lost if it alone were the atom, w l(c) - D(c),
# and w (l(G) - sum of l(c)) for joining them. Children pay the first for themselves. The second is
# superadditive: at least that of the parts of any partition of G. So in an atom of g children it is
# at least that of the pairs in a matching, and the mean of that over all matchings. Of this, c pays
#
#     y_c = f_g x mean of its g - 1 smallest pair costs,  f_g = 1/2 for even g, (g - 1)/(2g) for odd,
#
# the least over all g that reach k. Small families are solved exactly, from bounds for their children.
# The pairs of a large atom cost half of it or less: that is most of the gap where atoms are large.


def lower_bound(tree: CountTree, exact: int = EXACT) -> float:
    """A bound in bits, with families of up to ``exact`` children solved over all sets."""
    bound = np.zeros(tree.passes[-1].shape)
    for depth in range(len(tree) - 1, 0, -1):
        single = np.where(tree.passes[depth], bound, np.inf)
        starts = starts_of(tree.parent[depth])
        size, bound = np.diff(starts), np.zeros((len(starts) - 1, single.shape[1]))
        for n in np.unique(size[size <= CAP]).tolist():
            families = np.flatnonzero(size == n)
            step = max(1, _BATCH >> n + 4 if n <= exact else (1 << 14) // n**2)
            for at in range(0, len(families), step):
                some = families[at : at + step]
                each = siblings(tree, depth, starts[some][:, None] + np.arange(n), single)
                bound[some] = by_subsets(each).value if n <= exact else _bounds(each)
    return float(bound[0, -1])


def _bounds(each: Siblings) -> Floats:
    """Of families, ``(families, grains - 1)``: each child has a table of its own down to a grain f,
    or none, and pays for the finer ones."""
    paid = _paid(each)
    out = np.zeros((len(paid), paid.shape[2]))
    for h in range(paid.shape[2]):
        best = paid[:, :, : h + 1].sum(axis=2)
        for f in range(h + 1):
            finer = paid[:, :, f + 1 : h + 1].sum(axis=2)
            best = np.minimum(best, each.single[:, :, f] + finer)
        out[:, h] = best.sum(axis=1)
    return out


def _paid(each: Siblings) -> Floats:
    """y: what each child pays at least in an atom of two or more, ``(families, children, grains -
    1)``."""
    n = each.size
    pairs = tuple(c[:, :, None] + c[:, None] for c in (*each.counts, each.places))
    told = each.rules.totals > 0
    loss = all_losses(each.counts, each.places if told else None)
    both = all_losses(pairs[:-1], pairs[-1] if told else None)
    cost = each.weight * (both - loss[:, :, None] - loss[:, None])
    cost[:, np.arange(n), np.arange(n)] = np.inf
    cost = np.sort(np.maximum(cost, 0.0), axis=2)[:, :, :-1]
    g = np.arange(2, n + 1)
    share = np.where(g % 2 == 0, 0.5, (g - 1) / (2 * g)) / (g - 1)
    mean = cost.cumsum(axis=2) * share[:, None]
    population = each.counts[0][..., 0]
    others = np.sort(population, axis=1)[:, :0:-1].cumsum(axis=1)
    least = np.where(np.arange(mean.shape[-1]) < told, each.rules.totals, each.rules.k)
    mean[(population[:, :, None] + others[:, None])[..., None] < least] = np.inf
    return np.asarray(each.weight * loss - each.own + mean.min(axis=2, initial=np.inf))
