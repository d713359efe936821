r"""Exact tables of a chain of grains, over atoms: the finer a grain, the larger its areas.

Let the atoms of each grain be unions of those of the grain before. Then (1) whatever addition and
subtraction of the tables give as a 0-1 sum of hidden counts is a sum of printed ones; and (2) the
tables are the cliques of a decomposable model, with separators :math:`S_h`: the table of grain h
that follows from that of grain h + 1. So the sharp bounds of the count of unit u in group c are

.. math:: U = \min_h T_h, \qquad L = \max\Big(0, \sum_{h \le H} T_h - \sum_{h < H} S_h\Big),

each at the atom of u and the group that holds c; and the estimate of greatest entropy is
:math:`\prod_h T_h / \prod_h S_h`. Both ends are attained by integer tables.

Where not every total is printed, the atoms of the first grain are sets of lowest units, and stand for
u above. Each of the s units of one has somebody, nothing else is known. Let the atom have N persons
and bounds L and U, and s > 1. Then a unit has at least 1 where L = N, else 0; and at most the lesser
of U and N - s + 1. Its estimate is that of the atom divided by s.

Source: A. Dobra, S. E. Fienberg, Bounds for cell entries in contingency tables given marginal totals
and decomposable graphs, PNAS 97 (2000)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.tools.protection.least.chain import Chain, Rules

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
WHERE = "tables of atoms"
#: Counts at the finest grain of a chain, ``(units, groups)``, sparse or not.
Finest = Histogram | Ints
#: Sums at a grain, ``(areas, groups)``, from the area of each lowest unit.
AreaSums = Callable[[int, Ints], Ints]
#: Units whose dense counts at all grains are made at a time.
UNITS = 1 << 12


@dataclass(frozen=True, eq=False)
class GrainCounts(Frozen):
    """Counts of units at each grain of a chain, kept sparse: ``finest``, those at the finest."""

    chain: Chain
    finest: Histogram

    @staticmethod
    def from_finest(chain: Chain, finest: Finest) -> GrainCounts:
        """From either form."""
        if not isinstance(finest, Histogram):
            unit, group = np.nonzero(finest)
            size = len(finest), len(chain.grains[-1])
            finest = Histogram.from_triplets(*size, unit, group, finest[unit, group])
        return GrainCounts(chain, finest)

    def __getitem__(self, grain: int) -> Ints:
        """Of all units, ``(units, groups)``."""
        return self.summed(grain, np.arange(self.finest.units))

    def some(self, units: Ints) -> tuple[Ints, ...]:
        """Of some units, by grain."""
        out = [self.finest.some(units).dense()]
        for h in range(len(self.chain) - 1, 0, -1):
            out.insert(0, self.chain.coarser(out[0], h, h - 1))
        return tuple(out)

    def parts(self) -> Iterator[tuple[Ints, tuple[Ints, ...]]]:
        """Of all units, some at a time: which, and theirs by grain."""
        units = np.arange(self.finest.units)
        return ((u, self.some(u)) for u in np.array_split(units, len(units) // UNITS + 1))

    def rows(self, start: int, stop: int) -> GrainCounts:
        """Those of units ``start:stop``."""
        return GrainCounts(self.chain, self.finest.rows(start, stop))

    def have(self, grain: int, group: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which units have persons in some groups of a grain."""
        inside = group[self.chain.holding(len(self.chain) - 1, grain)][self.finest.cell]
        return np.bincount(self.finest.unit[inside], minlength=self.finest.units) > 0

    def summed(self, grain: int, area: Ints) -> Ints:
        """Added up by the area of each unit, ``(areas, groups)``; an area below 0 is left out."""
        within = self.chain.holding(len(self.chain) - 1, grain % len(self.chain))
        at, groups = area[self.finest.unit], len(self.chain.grains[grain])
        key, inside = at * groups + within[self.finest.cell], at >= 0
        areas = int(area.max(initial=-1)) + 1
        total = np.bincount(key[inside], self.finest.count[inside], areas * groups)
        return total.astype(np.int64).reshape(areas, groups)


@dataclass(frozen=True, eq=False)
class Staircase(Frozen):
    """``atom``: by grain, the number of each lowest unit's atom, ``(units,)``, from 0 on;
    ``count``: the table of each atom, ``(atoms, groups)``."""

    chain: Chain
    atom: tuple[Ints, ...]
    count: tuple[Ints, ...]

    def __post_init__(self) -> None:
        if not len(self.chain) == len(self.atom) == len(self.count):
            raise InputError("grains, atoms and tables differ in number", where=WHERE)
        for h, (atom, count) in enumerate(zip(self.atom, self.count, strict=True)):
            if count.shape != (int(atom.max()) + 1, len(self.chain.grains[h])):
                raise InputError(f"a table of another size at grain {h}", where=WHERE)
        for h in range(1, len(self.chain)):
            self._check(h)

    def _check(self, h: int) -> None:
        name, finer, atom = self.chain.grains[h].name, self.atom[h - 1], self.atom[h]
        inside = np.zeros(len(self.count[h - 1]), dtype=np.int64)
        inside[finer] = atom
        if (inside[finer] != atom).any():
            raise InputError(f"atoms of {name!r} divide those of the grain before", where=WHERE)
        summed = summed_by(inside, self.count[h - 1])
        if (summed != self._separators[h]).any() or (self.count[h] < 0).any():
            raise InputError(f"tables of {name!r} do not add up to the grain before", where=WHERE)

    @staticmethod
    def from_counts(chain: Chain, first: Sequence[Ints], finest: Finest) -> Staircase:
        """From the first unit of each unit's atom, by grain, and the units' counts."""
        counts = GrainCounts.from_finest(chain, finest)
        atoms = [np.unique(row, return_inverse=True)[1].ravel().astype(np.int64) for row in first]
        tables = [counts.summed(h, atom) for h, atom in enumerate(atoms)]
        return Staircase(chain, tuple(atoms), tuple(tables))

    def __len__(self) -> int:
        """The lowest units."""
        return len(self.atom[0])

    @cached_property
    def _separators(self) -> tuple[Ints, ...]:
        """By grain, S of the grain before, by atom; of the first 0."""
        each = enumerate(self.count[1:], 1)
        none = np.zeros_like(self.count[0])
        return none, *(self.chain.coarser(table, h, h - 1) for h, table in each)

    def _tables(self, grain: int, units: Ints) -> Iterator[tuple[Ints, Ints]]:
        """T of units at each group of a grain, ``(units, groups)``, from the total on; and S of the
        grain before, which is 0 at first."""
        group = [self.chain.holding(grain, h) for h in range(grain + 1)]
        for h, atom in enumerate(self.atom[: grain + 1]):
            at, before = atom[units], self._separators[h]
            yield self.count[h][np.ix_(at, group[h])], before[np.ix_(at, group[max(h - 1, 0)])]

    @cached_property
    def size(self) -> Ints:
        """By lowest unit, how many have one total with it, and it."""
        return np.asarray(np.bincount(self.atom[0])[self.atom[0]])

    @property
    def joined(self) -> bool:
        """Whether some lowest units have one total."""
        return len(self.count[0]) < len(self)

    def bounds(self, grain: int, units: Ints, whole: bool = False) -> tuple[Ints, Ints]:
        """What can be known of some units' counts at a grain: the least and the largest,
        ``(units, groups)`` each; ``whole``, of their atoms at the first grain."""
        shape = len(units), len(self.chain.grains[grain])
        lower, upper = np.zeros(shape, np.int64), np.full(shape, np.iinfo(np.int64).max)
        for table, separator in self._tables(grain, units):
            lower += table - separator
            np.minimum(upper, table, out=upper)
        np.maximum(lower, 0, out=lower)
        if self.joined and not whole:
            some = self.size[units] > 1
            persons = self.count[0][self.atom[0][units[some]]]
            lower[some] = lower[some] == persons
            upper[some] = np.minimum(upper[some], persons - self.size[units[some], None] + 1)
        return lower, upper

    def estimates(self, grain: int, units: Ints) -> Floats:
        """The counts of greatest entropy, ``(units, groups)``."""
        out = np.repeat(1 / self.size[units, None], len(self.chain.grains[grain]), axis=1)
        for table, separator in self._tables(grain, units):
            out *= table / np.maximum(separator, 1)
        return out

    def own(self, area: Ints) -> Ints:
        """The finest grain of the table that each area has of its own, as a union of atoms; -1 where
        not even its total is known. ``area``: that of each unit, ``(units,)``, or -1."""
        out = np.full(int(area.max()) + 1, -1)
        whole = np.ones(len(out), dtype=bool)
        for h, atom in enumerate(self.atom):
            of = np.zeros(len(self.count[h]), dtype=np.int64)
            of[atom] = area
            cut = np.zeros(len(of), dtype=bool)
            cut[atom[of[atom] != area]] = True
            whole[area[cut[atom] & (area >= 0)]] = False
            out[whole] = h
        return out

    def tables(self, grain: int, area: Ints) -> Ints:
        """The sums of atoms' tables by area, ``(areas, groups)``; right for areas that are unions of
        atoms (:meth:`own`)."""
        first = np.unique(self.atom[grain], return_index=True)[1]
        return summed_by(area[first], self.count[grain], int(area.max()) + 1)

    def of_areas(self, area: Ints) -> Staircase:
        """The same tables with areas as the lowest units: those of areas that are unions of atoms,
        and of atoms that hold areas. Each area nests in atoms or is made of them, as units of a level do."""
        own, first = self.own(area), np.unique(area, return_index=True)[1]
        out = []
        for h in range(len(self.chain)):
            mine = np.arange(len(own))
            out.append(np.where(own >= h, mine, len(own) + self.atom[h][first]))
        each = [np.unique(row, return_inverse=True)[1].ravel().astype(np.int64) for row in out]
        tables = []
        for h, atom in enumerate(each):
            of = np.zeros(len(self.count[h]), dtype=np.int64)
            of[self.atom[h]] = atom[area]
            tables.append(summed_by(of, self.count[h]))
        return Staircase(self.chain, tuple(each), tuple(tables))

    def at_odds(
        self, grain: int, area: Ints, known: NDArray[np.bool_], counts: Ints
    ) -> NDArray[np.bool_]:
        """Which areas are of some that divide the same units as some atoms do, with all counts
        ``known``, and other sums than these, ``(areas,)``. ``counts``: ``(areas, groups)``."""
        none = len(known)  # as an area, it has the units of no area
        ends = np.where(area < 0, none, area), none + 1 + self.atom[grain]
        size = none + 1 + len(self.count[grain])
        edges = coo_array((np.ones(len(area)), ends), shape=(size, size))
        number, part = connected_components(edges, directed=False)
        sums = np.zeros((number, counts.shape[1]), dtype=np.int64)
        np.add.at(sums, part[:none], counts)
        np.subtract.at(sums, part[none + 1 :], self.count[grain])
        sums[part[: none + 1][~np.append(known, False)]] = 0
        return np.asarray(sums[part[:none]].any(axis=1))

    def bounds_of_areas(self, grain: int, area: Ints) -> tuple[Ints, Ints]:
        """Bounds of the counts of areas, ``(areas, groups)`` each: sums of those of their parts in
        one atom at all grains but the first, which are sharp."""
        _, first, part = np.unique(
            np.stack([area, self.atom[1]]), axis=1, return_index=True, return_inverse=True
        )
        atoms = (np.arange(len(first)), *(a[first] for a in self.atom[1:]))
        part = part.ravel()[np.unique(self.atom[0], return_index=True)[1]]
        total = summed_by(part, self.count[0], len(first))
        each = Staircase(self.chain, atoms, (total, *self.count[1:])).bounds(grain, atoms[0])
        return summed_by(area[first], each[0]), summed_by(area[first], each[1])

    def failing(self, rules: Rules) -> Ints:
        """By grain, how many atoms do not pass the rules."""
        each = zip(self.chain.grains[1:], self.count[1:], strict=True)
        passing = [rules.total_passed(self.count[0][:, 0], np.bincount(self.atom[0]))]
        passing += [rules.passing(count, grain) for grain, count in each]
        return np.array([int((~found).sum()) for found in passing])

    def given_away(self, m: int) -> Ints:
        """Hidden counts of 1 to m - 1 that follow exactly, of units and of what has its total as one:
        rows of the first unit, grain and group."""
        own, out = self.own(self.atom[0]), [np.zeros((0, 3), dtype=np.int64)]
        first = np.unique(self.atom[0], return_index=True)[1]
        for h in range(1, len(self.chain)):
            hidden = first[own < h]
            for units in np.array_split(hidden, len(hidden) // UNITS + 1):
                lower, upper = self.bounds(h, units, whole=True)
                row, group = np.nonzero((lower == upper) & (lower > 0) & (lower < m))
                out.append(np.stack([units[row], np.full(len(row), h), group], axis=1))
        return np.concatenate(out)


def finest_tables(grain: Ints, area: Ints, sums: AreaSums) -> tuple[Ints, ...]:
    """The table of each area at its ``grain``, empty below 0. ``area``: of each lowest unit, or -1."""
    table: dict[int, Ints] = {}
    for h in np.unique(grain).tolist():
        here = np.append(grain == h, False)  # the last: of units in no area
        number = np.where(here, here.cumsum() - 1, -1)
        found = sums(max(h, 0), number[area])[:, : None if h >= 0 else 0]
        table |= zip(np.flatnonzero(here).tolist(), found, strict=True)
    return tuple(table[u] for u in range(len(grain)))


def summed_by(group: Ints, counts: Ints, groups: int | None = None) -> Ints:
    """Rows of counts added up by their group, ``(groups, columns)``; a group below 0 is left out."""
    size = int(group.max()) + 1 if groups is None else groups
    out = np.zeros((size, counts.shape[1]), dtype=np.int64)
    np.add.at(out, group[group >= 0], counts[group >= 0])
    return out
