"""What a least coarsening still gives away, and what is done about it.

* Small hidden counts whose bounds meet: their atom is joined to another one.
* Districts that cut atoms: their tables, less those of atoms, tell of *slivers*, parts of an atom in
  one district. At one grain, the 0-1 sums of slivers that follow are the disjoint unions of
  *directed cuts*: atoms that contain some districts, less these districts, or the reverse. The least
  cut that has a given sliver is a minimum cut of a network, so all of them are found.

Several grains at once, and a second layer of districts that cuts atoms, are not audited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from das.tools.protection.least.chain import Rules
from das.tools.protection.least.staircase import Staircase, summed_by
from das.tools.protection.truth.least.families import all_losses
from das.tools.protection.truth.least.solution import CountTree, LeastAtoms

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: The capacity of an arc that no cut may have.
_UNCUT = 1 << 30
#: Bits that joining two atoms may cost, so that a district can be shown.
PRICE = 1000.0


def value_of(tree: CountTree, atom: Sequence[Ints]) -> float:
    """The cost in bits of atoms, by its definition: at each grain and level, a unit that is no union
    of atoms has the shares of its atom."""
    out = 0.0
    for depth, unit in enumerate(_ancestors(tree)):
        for h in range(1, len(tree.chain) if tree.users[depth] else 0):
            inside = _within(unit, atom[h])
            group = np.where(inside[unit], len(unit) + atom[h], unit)
            group = np.unique(group, return_inverse=True)[1].ravel()
            pair = tuple(summed_by(group, tree.counts[-1][g]) for g in (h - 1, h))
            mine = all_losses((tree.counts[depth][h - 1], tree.counts[depth][h])).sum()
            out += tree.users[depth] * float(all_losses(pair).sum() - mine)
    return out


def _ancestors(tree: CountTree) -> list[Ints]:
    """By depth, the unit that holds each lowest unit."""
    out = [np.arange(len(tree.parent[-1]))]
    for depth in range(len(tree) - 1, 0, -1):
        out.insert(0, tree.parent[depth][out[0]])
    return out


def _within(unit: Ints, atom: Ints) -> NDArray[np.bool_]:
    """Whether each unit lies in one atom."""
    low = np.full(int(unit.max()) + 1, len(atom))
    high = np.zeros(len(low), dtype=np.int64)
    np.minimum.at(low, unit, atom)
    np.maximum.at(high, unit, atom)
    return np.asarray(low == high)


def without_small(tree: CountTree, least: LeastAtoms) -> tuple[tuple[Ints, ...], int]:
    """The atoms, joined until no small count follows exactly, and how many did at first. What no
    joining helps is left: :meth:`Staircase.given_away` has it."""
    atom, finest, above = [a.copy() for a in least.atom], tree.counts[-1][-1], _ancestors(tree)
    known = first = Staircase.from_counts(tree.chain, atom, finest).given_away(tree.rules.m)
    while len(known):
        before = [a.copy() for a in atom]
        for unit, grain, group in known.tolist():
            same = tree.chain.above[grain - 1] == tree.chain.above[grain - 1][group]
            same[group] = False  # in the same group of the grain before, but not in this one
            _join(
                tree, above, atom, unit, grain, tree.counts[-1][grain][:, same].any(axis=1), before
            )
        if all(map(np.array_equal, atom, before)):
            break
        known = Staircase.from_counts(tree.chain, atom, finest).given_away(tree.rules.m)
    return tuple(atom), len(first)


def _join(
    tree: CountTree,
    above: list[Ints],
    atom: list[Ints],
    unit: int,
    grain: int,
    useful: NDArray[np.bool_],
    before: list[Ints],
    most: float = np.inf,
) -> None:
    """Join a unit's atom to another of its family that has a ``useful`` unit, the one that costs
    least; at this grain and all finer ones. Not if it is no longer what it was ``before``,
    or if it costs more than ``most`` bits."""
    mine = atom[grain] == atom[grain][unit]
    if not np.array_equal(mine, before[grain] == before[grain][unit]):
        return
    for depth in range(len(tree) - 1, 0, -1):
        here, family = above[depth], above[depth - 1] == above[depth - 1][unit]
        touched = np.isin(here, here[mine])
        others = family & ~touched
        if not useful[others].any():
            continue  # one level up
        names, of = np.unique(atom[grain][others], return_inverse=True)
        pair = [summed_by(of, tree.counts[-1][g][others]) for g in (grain - 1, grain)]
        own = [tree.counts[-1][g][touched].sum(axis=0) for g in (grain - 1, grain)]
        joint = all_losses((pair[0] + own[0], pair[1] + own[1]))[:, 0]
        cost = joint - all_losses((pair[0], pair[1]))[:, 0]
        cost[np.bincount(of, useful[others]) == 0] = np.inf
        other, wholes, price = atom[grain] == names[int(cost.argmin())], [], 0.0
        for h in range(grain, len(atom)):
            both = np.isin(here, here[np.isin(atom[h], atom[h][mine | other])])
            wholes.append(np.isin(atom[h], atom[h][both]))
            price += tree.weight(depth) * _price(tree, h, wholes[-1], atom[h])
        if price <= most:
            for h, whole in enumerate(wholes, grain):
                atom[h][whole] = np.flatnonzero(whole)[0]
        return


def _price(tree: CountTree, grain: int, whole: NDArray[np.bool_], atom: Ints) -> float:
    """What it costs at a grain, for one level of users, to make one of the atoms in a set."""
    names, of = np.unique(atom[whole], return_inverse=True)
    if len(names) == 1:
        return 0.0
    parts = [summed_by(of, tree.counts[-1][g][whole]) for g in (grain - 1, grain)]
    union = [p.sum(axis=0, keepdims=True) for p in parts]
    return float(all_losses((union[0], union[1])).sum() - all_losses((parts[0], parts[1])).sum())


# --- districts


@dataclass(frozen=True, eq=False)
class KeptDistricts:
    """``grain``: the finest grain at which each district has a table of its own, ``(districts,)``;
    ``atom``: the atoms, some of them joined for this; by grain but the first: how many atoms
    districts ``cut``, how many lines of slivers were too small (``lines``), and how many tables were
    ``withheld`` for them."""

    grain: Ints
    atom: tuple[Ints, ...]
    cut: tuple[int, ...]
    lines: tuple[int, ...]
    withheld: tuple[int, ...]


def kept_districts(
    tree: CountTree, atoms: Sequence[Ints], district: Ints, price: float = PRICE
) -> KeptDistricts:
    """The districts whose tables can be shown besides those of atoms. ``district``: of each lowest
    unit, ``(units,)``, -1 for none. Where a line of slivers is too small, its atom is joined to
    another, if that costs at most ``price`` bits; else the district that cuts most of them is
    withheld."""
    above, number, atom = _ancestors(tree), int(district.max()) + 1, [a.copy() for a in atoms]
    grain, told = np.zeros(number, dtype=np.int64), []
    for h in range(1, len(tree.chain)):
        counts = tree.counts[-1][h]
        shown = (grain == h - 1) & tree.rules.passing(
            summed_by(district, counts), tree.chain.grains[h]
        )
        before, cut, first = int(shown.sum()), 0, -1
        while True:
            place = np.where((district >= 0) & shown[district], district, -1)
            slivers = _Slivers.from_counts(atom[h], place, counts)
            bad = list(slivers.violations(tree.rules)) if shown.any() else []
            cut, first = (slivers.atoms, len(bad)) if first < 0 else (cut, first)
            if not bad:
                break
            known = [a.copy() for a in atom]
            for sliver, group, _ in bad if price else ():
                some = counts[:, group].reshape(len(place), -1).any(axis=1)
                useful = some & (place == slivers.district[sliver])
                _join(tree, above, atom, int(slivers.unit[sliver]), h, useful, known, price)
            if all(map(np.array_equal, atom, known)):
                votes = np.bincount(np.concatenate([near for *_, near in bad]), minlength=number)
                shown[int(np.argmax(np.where(shown, votes, -1)))] = False
        grain[shown] = h
        told.append((cut, first, before - int(shown.sum())))
    return KeptDistricts(grain, tuple(atom), *zip(*told, strict=True))


@dataclass(frozen=True, eq=False)
class _Slivers:
    """The parts of cut atoms: ``atom`` from 0 on, ``district``, ``unit``: the first of each; and
    ``count``, ``(slivers, groups)``. Units without a shown district are one, -1: its table
    follows."""

    atom: Ints
    district: Ints
    unit: Ints
    count: Ints
    atoms: int

    @staticmethod
    def from_counts(atom: Ints, district: Ints, counts: Ints) -> _Slivers:
        size = int(district.max()) + 2
        key, unit, part = np.unique(
            atom * size + district + 1, return_index=True, return_inverse=True
        )
        cut = np.flatnonzero(np.bincount(key // size)[key // size] > 1)
        number = np.unique(key[cut] // size, return_inverse=True)[1].ravel()
        count = summed_by(part.ravel(), counts)[cut]
        return _Slivers(number, key[cut] % size - 1, unit[cut], count, len(set(number.tolist())))

    def violations(self, rules: Rules) -> Iterator[tuple[int, int | slice, Ints]]:
        """For each line of slivers that is too small: a sliver of it, the group that is counted,
        or all, and the shown districts that cut its atoms."""
        side = np.where(self.district < 0, self.district.max(initial=0) + 1, self.district)
        lines: list[tuple[int | slice, Ints, int]]
        lines = [(slice(None), self.count.sum(axis=1), rules.k)]
        lines += [(c, column, rules.m) for c, column in enumerate(self.count.T)]
        for group, weight, least in lines:
            few = np.flatnonzero((weight > 0) & (weight < least))
            for reverse in (False, True) if len(few) else ():
                network = _SliverNetwork(self.atom, side + self.atoms, weight, reverse)
                for e in few.tolist():
                    cut = network.least_cut(e, least)
                    if cut is not None:
                        near = self.district[np.isin(self.atom, self.atom[cut])]
                        yield e, group, np.unique(near[near >= 0])


class _SliverNetwork:
    """Slivers as arcs from atoms to districts that may be cut, each with one back that may not; or
    the ``reverse``."""

    def __init__(self, atom: Ints, district: Ints, weight: Ints, reverse: bool) -> None:
        self.ends = (district, atom) if reverse else (atom, district)
        nodes = int(district.max()) + 1
        rows, columns = np.concatenate(self.ends), np.concatenate(self.ends[::-1])
        capacity = np.concatenate([weight, np.full(len(weight), _UNCUT)])
        self.arcs = sparse.csr_array((capacity.astype(np.int32), (rows, columns)), (nodes, nodes))

    def least_cut(self, sliver: int, least: int) -> Ints | None:
        """The slivers of the smallest directed cut that has this one; none where they have
        ``least`` or more together."""
        start, end = (int(x[sliver]) for x in self.ends)
        flow = maximum_flow(self.arcs, start, end)
        if flow.flow_value >= least:
            return None
        left = sparse.csr_array(self.arcs - flow.flow)
        left.eliminate_zeros()
        reached = np.zeros(self.arcs.shape[0], dtype=bool)
        reached[breadth_first_order(left, start, return_predecessors=False)] = True
        return np.flatnonzero(reached[self.ends[0]] & ~reached[self.ends[1]])
