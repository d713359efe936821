r"""What a least coarsening still gives away, and what is done about it.

* Small hidden counts whose bounds meet: their atom is joined to another one.
* Districts of any kinds that cut atoms: their tables, with those of atoms at all grains, tell of
  *slivers*, parts of an atom in the same districts. Let A have the published sums of the hidden
  counts x of slivers. A *line* is a 0-1 vector :math:`f = A'y`: its sum f x follows. The least line
  of count i is a program, and by duality its relaxation has the value

  .. math:: \min \{ f x : f = A'y, 0 \le f \le 1, f_i = 1 \}
     = \max \{ z_i - \sum_{j \ne i} \max(0, -z_j) : A z = A x \}.

  So a table z with the same sums, none negative, and :math:`z_i \ge m` proves that no line of i is
  less than m. Few programs find such tables for nearly all counts at once, each for the slivers of a
  region, while all others stay. The rest have programs in integers of their own, in which f may be
  more than 1 where a count is 0: so what follows because no count is negative is found, too. A line
  of 1 to m - 1 has a count of 1 to m - 1, so these are enough.

Why slivers are enough. Over the blocks of a sliver, whose totals are printed, f is a sum of rows and
columns. It is 0 or 1, so one of both is constant. Rows are printed totals; without them f is a line
of slivers. The same holds of an atom that no district cuts at a finer grain: f is a sum of counts
printed there, and a line of the grains before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from das.tools.protection.least.staircase import GrainCounts, Staircase
from das.tools.protection.truth.least.families import all_losses
from das.tools.protection.truth.least.solution import CountTree, LeastAtoms, in_one

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]
#: Slivers whose counts may change in one program, then in the next.
_REGIONS = (150, 250, 400, 400, 700, 1500)
#: To which side of a sliver others may change where it has a program of its own.
_NEAR = 100
#: Seconds of a program; what has no proof by then counts as exposed.
_LIMIT = {"time_limit": 5.0}
#: A unit, the grain and the group of a hidden count, and districts that tell it.
_Violation = tuple[int, int, int | slice, list[tuple[int, int]]]
#: Bits that joining two atoms may cost, so that a district can be shown.
PRICE = 1000.0
#: Of a kind's districts, the share that must pass a grain for any to have a table there. The tables
#: of a few would take most of the programs.
FEWEST = 0.25


def value_of(tree: CountTree, atom: Sequence[Ints]) -> float:
    """The cost in bits of atoms, by its definition: at each grain and level, a unit that is no union
    of atoms has the shares of its atom."""
    out = -float(tree.own[0].sum())
    for depth, unit in enumerate(tree.ancestors()):
        for h in range(not tree.rules.totals, len(tree.chain) if tree.users[depth] else 0):
            inside = in_one(unit, atom[h])
            group = np.where(inside[unit], len(unit) + atom[h], unit)
            group = np.unique(group, return_inverse=True)[1].ravel()
            pair = tuple(tree.counts[-1].summed(g, group) for g in range(max(h - 1, 0), h + 1))
            loss = all_losses(pair, None if h else np.bincount(group))
            out += tree.users[depth] * float(loss.sum())
    return out


def without_small(tree: CountTree, least: LeastAtoms) -> tuple[tuple[Ints, ...], int]:
    """The atoms, joined until no small count follows exactly, and how many did at first. What no
    joining helps is left: :meth:`Staircase.given_away` has it."""
    atom, finest, above = [a.copy() for a in least.atom], tree.counts[-1].finest, tree.ancestors()
    known = first = Staircase.from_counts(tree.chain, atom, finest).given_away(tree.rules.m)
    while len(known):
        before = [a.copy() for a in atom]
        for unit, grain, group in known.tolist():
            same = tree.chain.above[grain - 1] == tree.chain.above[grain - 1][group]
            same[group] = False  # in the same group of the grain before, but not in this one
            _join(tree, above, atom, unit, grain, same, before)
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
    useful: Masks,
    before: list[Ints],
    most: float = np.inf,
    places: Sequence[Ints] = (),
) -> None:
    """Join a unit's atom to another of its family that has persons in ``useful`` groups, in the same
    districts, the one that costs least; at this grain and all finer ones. Not if it is no longer
    what it was ``before``, or if it costs more than ``most`` bits. An atom that goes beyond the
    family has all of it."""
    for depth in range(len(tree) - 1, 0, -1):
        family = above[depth - 1]
        start, stop = np.searchsorted(family, [family[unit], family[unit] + 1]).tolist()
        here, counts = slice(start, stop), tree.counts[-1].rows(start, stop)
        now, at = [a[here] for a in atom], above[depth][here]
        mine = now[grain] == atom[grain][unit]
        if not np.array_equal(mine, before[grain][here] == before[grain][unit]):
            return
        touched = np.isin(at, at[mine])
        same = [place[here] == place[unit] for place in places]
        some = np.all([~touched, counts.have(grain, useful), *same], axis=0)
        if not some.any():
            continue  # one level up
        joined = mine | _nearest(counts, grain, now[grain], touched, some)
        wholes, price = [], 0.0
        for h in range(grain, len(atom)):
            both = np.isin(at, at[np.isin(now[h], now[h][joined])])
            wholes.append(np.isin(now[h], now[h][both]))
            price += tree.weight(depth) * _price(counts, h, wholes[-1], now[h])
        if price <= most:
            for each, whole in zip(now[grain:], wholes, strict=True):
                each[whole] = each[whole].min()
        return


def _nearest(counts: GrainCounts, grain: int, atom: Ints, touched: Masks, useful: Masks) -> Masks:
    """The units of the atom that it costs least to join to those ``touched``, of the atoms of others
    that have ``useful`` ones."""
    other = np.full(len(atom), -1)
    other[~touched] = np.unique(atom[~touched], return_inverse=True)[1].ravel()
    pair = [counts.summed(g, other) for g in (grain - 1, grain)]
    own = [counts.summed(g, touched - 1) for g in (grain - 1, grain)]
    joint = all_losses((pair[0] + own[0], pair[1] + own[1]))[:, 0]
    cost = joint - all_losses((pair[0], pair[1]))[:, 0]
    cost[np.bincount(other[useful], minlength=len(cost)) == 0] = np.inf
    return np.asarray(other == cost.argmin())


def _price(counts: GrainCounts, grain: int, whole: Masks, atom: Ints) -> float:
    """What it costs at a grain, for one level of users, to make one of the atoms in a set."""
    of = np.unique(np.where(whole, atom, -1), return_inverse=True)[1].ravel() - (not whole.all())
    parts = [counts.summed(g, of) for g in (grain - 1, grain)]
    union = [p.sum(axis=0, keepdims=True) for p in parts]
    return float(all_losses((union[0], union[1])).sum() - all_losses((parts[0], parts[1])).sum())


# --- districts


@dataclass(frozen=True, eq=False)
class KeptDistricts:
    """``grain``: by kind, the finest grain at which each district has a table of its own,
    ``(districts,)``; ``atom``: the atoms, some of them joined for this; by grain but the first: how
    many counts had a line that was too small or followed exactly (``lines``), and how many tables
    were ``withheld`` for them."""

    grain: tuple[Ints, ...]
    atom: tuple[Ints, ...]
    lines: tuple[int, ...]
    withheld: tuple[int, ...]


def kept_districts(
    tree: CountTree, atoms: Sequence[Ints], kinds: Sequence[Ints], price: float = PRICE
) -> KeptDistricts:
    """The districts whose tables can be shown besides those of atoms. ``kinds``: by kind the
    district of each lowest unit, ``(units,)``, -1 for none. Where a line of slivers is too small,
    its atom is joined to another, if that costs at most ``price`` bits; else the district that is in
    most lines is withheld."""
    above, atom = tree.ancestors(), [a.copy() for a in atoms]
    cut = [np.unique(area[~_within_all(atom[0], [area])]) for area in kinds]  # no total either
    grain = [
        -np.isin(np.arange(a.max() + 1), c).astype(int) for a, c in zip(kinds, cut, strict=True)
    ]
    lines, withheld = [], []
    for h in range(1, len(tree.chain)):
        for area, g in zip(kinds, grain, strict=True):
            sums = tree.counts[-1].summed(h, area)
            passing = (g == h - 1) & tree.rules.passing(sums, tree.chain.grains[h])
            if passing.sum() >= FEWEST * len(g):
                g[passing] = h
        before, again = sum(int((g == h).sum()) for g in grain), np.arange(len(atom[0]))
        lines.append(0)
        while any((g == h).any() for g in grain):
            places = [_places(kinds, grain, j) for j in range(h + 1)]
            bad = list(_violations(tree, atom, places, again))
            if len(again) == len(atom[0]):
                lines[-1] = len(bad)
            if not bad:
                break
            known, again = [a.copy() for a in atom], np.array([unit for unit, *_ in bad])
            for unit, at, group, _ in bad if price else ():
                useful = np.zeros(len(tree.chain.grains[at]), dtype=bool)
                useful[group] = True
                _join(tree, above, atom, unit, at, useful, known, price, places[at])
            if all(map(np.array_equal, atom, known)):
                _withhold(h, atom, grain, places, bad)
        withheld.append(before - sum(int((g == h).sum()) for g in grain))
    return KeptDistricts(tuple(grain), tuple(atom), tuple(lines), tuple(withheld))


def _places(kinds: Sequence[Ints], grain: Sequence[Ints], h: int) -> list[Ints]:
    """By kind, the district of each unit whose table is shown at a grain, or -1."""
    each = zip(kinds, grain, strict=True)
    return [np.where((area >= 0) & (g[area] >= h), area, -1) for area, g in each]


def _withhold(
    h: int,
    atom: Sequence[Ints],
    grain: Sequence[Ints],
    places: Sequence[Sequence[Ints]],
    bad: Sequence[_Violation],
) -> None:
    """Take tables of grain h from districts. Each violation takes it from one whose table its line
    has, or else from one next to it: from the district that is so to most violations. Where there is
    none, all lose it."""
    near = []
    for unit, at, _, some in bad:
        for around in (0, 1, at, h) if not some else ():
            mates = atom[around] == atom[around][unit]
            each = [np.unique(place[mates & (place >= 0)]) for place in places[h]]
            some = [(k, q) for k, found in enumerate(each) for q in found.tolist()]
            if some:
                break
        near.append(some)
    if not any(near):
        near = [[(k, q)] for k, g in enumerate(grain) for q in np.flatnonzero(g == h).tolist()]
    while near := [some for some in near if some]:
        (kind, district), _ = Counter(chain.from_iterable(near)).most_common(1)[0]
        grain[kind][district] = h - 1
        near = [some for some in near if (kind, district) not in some]


def _violations(
    tree: CountTree, atom: Sequence[Ints], places: Sequence[Sequence[Ints]], again: Ints
) -> Iterator[_Violation]:
    """A unit, the grain and the group of each hidden count that a line tells too well; of slivers
    that have a unit of ``again``; and the districts (kind, number) whose tables of the last grain
    are in the line. The group is all where the persons are too few."""
    h = len(places) - 1
    few = _Hidden.persons(atom[h], places[h], tree.counts[-1].finest.totals())
    for i, shown in few.exposed(tree.rules.k, again):
        yield int(few.unit[few.sliver[i]]), h, slice(None), shown
    small = _Hidden.counts(tree, atom, places)
    for i, shown in small.exposed(tree.rules.m, again):
        yield int(small.unit[small.sliver[i]]), int(small.grain[i]), int(small.group[i]), shown


@dataclass(frozen=True, eq=False)
class _Hidden:
    """The hidden counts of slivers that are not certainly 0. ``home``: the sliver of each unit, or
    -1; ``unit``: the first of each sliver; by count its ``sliver``, ``grain`` and ``group``;
    ``sums``: which counts each published sum has, ``(sums, counts)``; ``owner``: the kind and the
    number of the district whose table of the last grain has it, ``(sums, 2)``, or -1."""

    home: Ints
    unit: Ints
    sliver: Ints
    grain: Ints
    group: Ints
    count: Ints
    sums: sparse.csc_array
    owner: Ints

    @staticmethod
    def persons(atom: Ints, places: Sequence[Ints], total: Ints) -> _Hidden:
        """Of slivers at one grain."""
        home, unit, inside = _slivers([atom, *places], ~_within_all(atom, places))
        every, none = np.arange(len(unit)), np.zeros(len(unit), dtype=np.int64)
        count = np.bincount(home[inside], total[inside], len(unit)).astype(np.int64)
        return _Hidden._built(
            home,
            unit,
            every,
            none,
            none,
            count,
            [(a[unit], kind, 1) for kind, a in enumerate((atom, *places), -1)],
        )

    @staticmethod
    def counts(tree: CountTree, atom: Sequence[Ints], places: Sequence[Sequence[Ints]]) -> _Hidden:
        """At the finest grain at which the sliver's atom is cut, with all sums up to there."""
        last, depth = len(places) - 1, np.zeros(len(atom[0]), dtype=np.int64)
        for h in range(1, last + 1):
            depth[~_within_all(atom[h], places[h])] = h
        home, unit, _ = _slivers([atom[1], *places[1]], depth > 0)
        size = np.array([len(g) for g in tree.chain.grains])
        each = size[depth[unit]]
        sliver = np.repeat(np.arange(len(unit)), each)
        group = np.arange(len(sliver)) - np.repeat(np.cumsum(each) - each, each)
        grain, own, count = depth[unit][sliver], group.copy(), np.zeros(len(sliver), np.int64)
        rows = list[tuple[Ints, int, int]]()
        for h in range(last, -1, -1):
            if (finer := grain > h).any():
                group[finer] = tree.chain.above[h][group[finer]]
            if (here := grain == h).any():
                table = tree.counts[-1].summed(h, home)
                count[here] = table[sliver[here], group[here]]
            printed = (
                [atom[h][unit], *(p[unit] for p in places[h])] if h else [np.arange(len(unit))]
            )
            for kind, label in enumerate(printed, -1):
                shown = (grain >= h) & (label[sliver] >= 0)
                row = np.where(shown, label[sliver] * size[h] + group, -1)
                rows.append((row, kind if h == last else -1, int(size[h])))
        return _Hidden._built(home, unit, sliver, grain, own, count, rows)

    @staticmethod
    def _built(
        home: Ints,
        unit: Ints,
        sliver: Ints,
        grain: Ints,
        group: Ints,
        count: Ints,
        rows: list[tuple[Ints, int, int]],
    ) -> _Hidden:
        """From the sum that has each count, or -1, in each of some ``rows``; with the kind of
        districts that print it, and how many sums a district has."""
        parts, owner = [sparse.csc_array((0, len(count)))], [np.zeros((0, 2), dtype=np.int64)]
        for row, kind, each in rows:
            inside = np.flatnonzero(row >= 0)
            label, number = np.unique(row[inside], return_inverse=True)
            cells = (np.ones(len(inside)), (number.ravel(), inside))
            parts.append(sparse.csc_array(cells, (len(label), len(count))))
            owner.append(np.stack([np.full(len(label), kind), label // each], axis=1))
        sums = sparse.vstack(parts).tocsr()
        some = np.asarray(sums[sums @ count == 0].sum(axis=0)).ravel() == 0
        sums = sums.tocsc()[:, np.flatnonzero(some)]
        kept = (sliver[some], grain[some], group[some], count[some])
        return _Hidden(home, unit, *kept, sums, np.concatenate(owner))

    def exposed(self, least: int, again: Ints) -> list[tuple[int, list[tuple[int, int]]]]:
        """The counts of 1 to ``least`` - 1, in slivers of units of ``again``, that may be in a line of
        less than ``least``; and the districts that the line is of."""
        left = np.isin(self.sliver, self.home[again]) & (self.count > 0) & (self.count < least)
        rng, slivers = np.random.default_rng(1), len(self.unit)
        whole = [slivers] * 2 * bool(slivers and len(again) == len(self.home))
        for region in (*(r for r in _REGIONS if 2 * r < slivers), *whole):
            at = (self.sliver + rng.integers(region) * (region < slivers)) // region
            for number in np.unique(at[left]):
                here = np.flatnonzero(at == number)
                left[here] &= self._raised(here, left[here], least, rng) < least - 1e-6
        found = ((i, self._line(i, least)) for i in np.flatnonzero(left).tolist())
        return [(i, districts) for i, districts in found if districts is not None]

    def _raised(
        self, here: Ints, left: NDArray[np.bool_], least: int, rng: np.random.Generator
    ) -> Floats:
        """Other counts with the same sums, as many of those ``left`` as possible ``least``."""
        sums, todo, n = self._sums(here)[0], np.flatnonzero(left), len(here)
        known, few = sums @ self.count[here], np.full(len(todo), least)
        capped = sparse.csr_array((-np.ones(len(few)), (np.arange(len(few)), todo)), (len(few), n))
        matrix = sparse.block_array([[sums, None], [capped, sparse.eye_array(len(few))]])
        limits = LinearConstraint(
            matrix, np.append(known, few - np.inf), np.append(known, np.zeros(len(few)))
        )
        cost = np.append(np.zeros(n), -0.5 - rng.random(len(few)))
        found = milp(cost, constraints=limits, bounds=Bounds(0, np.append(np.full(n, np.inf), few)))
        return np.asarray(self.count[here] if found.x is None else found.x[:n])

    def _sums(self, here: Ints) -> tuple[sparse.csr_array, Ints]:
        """The sums that have some of the counts, and who prints them."""
        sums = self.sums[:, here].tocsr()
        some = np.diff(sums.indptr) > 0
        return sums[some], self.owner[some]

    def _line(self, i: int, least: int) -> list[tuple[int, int]] | None:
        """The districts that the least line of a count is of, where the slivers around it may change
        alone; ``None`` if it has ``least`` or more."""
        here = np.flatnonzero(np.abs(self.sliver - self.sliver[i]) <= _NEAR)
        (sums, owner), count = self._sums(here), self.count[here]
        mine, (rows, columns) = here == i, sums.shape
        total = self.sliver[here] == self.sliver[i]  # printed: not all of it may be in the line
        most = total.sum() - 1 if total.sum() > 1 else np.inf
        line = milp(
            np.append(sums @ count, np.zeros(columns)),
            integrality=np.append(np.zeros(rows), count > 0),
            bounds=Bounds(
                np.append(np.full(rows, -np.inf), mine),
                np.append(np.full(rows, np.inf), np.where(count > 0, 1, np.inf)),
            ),
            options=_LIMIT,
            constraints=[
                LinearConstraint(sparse.hstack([sums.T, -sparse.eye_array(columns)]), 0, 0),
                LinearConstraint(np.append(np.zeros(rows), total)[None], -np.inf, most),
            ],
        )
        if line.x is None:
            return []
        used = owner[(np.abs(line.x[:rows]) > 1e-6) & (owner[:, 0] >= 0)]
        districts = [(kind, number) for kind, number in np.unique(used, axis=0).tolist()]
        return districts if line.mip_dual_bound < least - 1e-6 else None


def _within_all(atom: Ints, places: Sequence[Ints]) -> NDArray[np.bool_]:
    """Whether the atom of each unit is in one district of each kind, or in none."""
    return np.asarray(np.all([in_one(atom, p + 1)[atom] for p in places], axis=0))


def _slivers(keys: Sequence[Ints], cut: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """The sliver of each unit, -1 where its atom is not ``cut``; the first unit of each; and the units
    in one."""
    inside, home = np.flatnonzero(cut), np.full(len(cut), -1)
    _, first, of = np.unique(
        np.stack(keys)[:, inside], axis=1, return_index=True, return_inverse=True
    )
    home[inside] = of.ravel()
    return home, inside[first], inside
