"""What tables of atoms tell: lines and bounds against enumeration, slivers of districts against all
directed cuts, and small counts that no joining is allowed to leave."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from das.errors import InputError
from das.model.schema import Schema
from das.tools.protection.least import staircase
from das.tools.protection.least.chain import Chain, Rules
from das.tools.protection.least.staircase import GrainCounts, Staircase, summed_by
from das.tools.protection.truth.least import audit
from das.tools.protection.truth.least.audit import kept_districts, value_of, without_small
from das.tools.protection.truth.least.solution import CountTree, Effort, LeastAtoms, solved

CELLS = Schema.from_attributes("cells", {"a": ["x", "y"], "b": ["p", "q"]})
CHAIN = Chain.spelled(["total", "a", "a * b"], CELLS)
#: First blocks of the atoms: by blocks; 0, then 1 and 2; all as one.
FIRST = (np.arange(3), np.array([0, 1, 1]), np.zeros(3, dtype=np.int64))


def lines_of(tables: Staircase) -> np.ndarray:
    """The published lines as 0-1 vectors over block x finest group."""
    out = []
    for h, atom in enumerate(tables.atom):
        group = CHAIN.grains[h].index
        for a, g in product(range(int(atom.max()) + 1), range(int(group.max()) + 1)):
            out.append(np.outer(atom == a, group == g).ravel())
    return np.array(out, dtype=float)


def test_every_line_that_follows_is_a_sum_of_printed_ones() -> None:
    """All 4,096 sets of hidden counts: those in the span are disjoint unions of lines, and a lattice
    of tables has others."""
    counts = np.ones((3, 4), dtype=np.int64)
    lines = lines_of(Staircase.from_counts(CHAIN, FIRST, counts))
    every = np.array(list(product([0.0, 1.0], repeat=12)))

    def spanned(lines: np.ndarray) -> set[tuple[float, ...]]:
        left = every - every @ np.linalg.pinv(lines) @ lines
        return set(map(tuple, every[np.abs(left).max(axis=1) < 1e-9]))

    unions = {tuple(np.zeros(12))}
    for line in np.unique(lines, axis=0):
        unions |= {tuple(u + line) for u in map(np.array, unions) if not (u * line).any()}
    assert spanned(lines) == unions
    by_b = np.array(
        [np.outer(np.arange(3) == u, CELLS.level_of("b") == 0).ravel() for u in range(3)]
    )
    by_a = np.array(
        [np.outer(np.arange(3) == u, CELLS.level_of("a") == 0).ravel() for u in range(3)]
    )
    crossed = np.concatenate([lines, by_a, by_b]).astype(float)
    shown = {tuple(line) for line in crossed}
    assert len(spanned(crossed)) > len(unions)
    assert shown <= spanned(crossed)


@pytest.mark.parametrize("first", [FIRST[0], FIRST[1]])
def test_bounds_are_sharp(first: np.ndarray) -> None:
    """Over all integer tables with the same lines, in 20 random ones, with all totals or with one of
    two blocks that have somebody each; and the estimates have the published sums."""
    rng, joined = np.random.default_rng(2), first is FIRST[1]
    for _ in range(20):
        counts = np.minimum(rng.poisson(0.3 if joined else 0.6, size=(3, 4)), 2 - joined)
        counts[counts.sum(axis=1) == 0, 0] = joined
        tables = Staircase.from_counts(CHAIN, (first, *FIRST[1:]), counts)
        lines = lines_of(tables)
        published = lines @ counts.ravel()
        total = counts.sum(axis=1)
        most = summed_by(first, total[:, None])[first, 0]
        if joined and most.max() > 3:
            continue  # too many tables
        rows = [
            [r for r in product(range(n + 1), repeat=4) if sum(r) == n or (sum(r) and joined and u)]
            for u, n in enumerate(most.tolist())
        ]
        pick = np.indices([len(r) for r in rows]).reshape(3, -1)
        every = np.concatenate([np.array(r)[i] for r, i in zip(rows, pick, strict=True)], axis=1)
        same = every[(every @ lines.T == published).all(axis=1)]
        for h in range(3):
            lower, upper = tables.bounds(h, np.arange(3))
            mine = CHAIN.coarser(same.reshape(-1, 4), 2, h).reshape(len(same), -1)
            assert lower.ravel().tolist() == mine.min(axis=0).tolist()
            assert upper.ravel().tolist() == mine.max(axis=0).tolist()
        estimate = tables.estimates(2, np.arange(3))
        assert lines @ estimate.ravel() == pytest.approx(published)


def test_tables_that_do_not_nest_or_add_up_are_refused() -> None:
    good = Staircase.from_counts(CHAIN, FIRST, np.ones((3, 4), dtype=np.int64))
    with pytest.raises(InputError, match="divide those of the grain before"):
        Staircase.from_counts(CHAIN, (FIRST[0], FIRST[2], FIRST[1]), np.ones((3, 4), np.int64))
    wrong = (good.count[0], good.count[1], good.count[2] + 1)
    with pytest.raises(InputError, match="do not add up"):
        Staircase(CHAIN, good.atom, wrong)
    with pytest.raises(InputError, match="another size"):
        Staircase(CHAIN, good.atom, (good.count[0], good.count[1][:1], good.count[2]))
    assert good.own(np.array([0, 0, 0])).tolist() == [2]
    assert good.own(np.array([0, 1, 1])).tolist() == [1, 1]
    assert good.own(np.array([0, 0, 1])).tolist() == [0, 0]
    assert good.own(np.array([0, -1, -1])).tolist() == [1]
    joined = Staircase.from_counts(CHAIN, (FIRST[1], FIRST[1], FIRST[2]), np.ones((3, 4), int))
    assert joined.own(np.arange(3)).tolist() == [1, -1, -1]
    assert good.tables(1, np.array([0, 1, 1])).tolist() == [[2, 2], [4, 4]]
    assert good.failing(Rules(5, 3)).tolist() == [0, 1, 0]
    assert good.failing(Rules(5, 3, totals=5)).tolist() == [3, 1, 0]


# --- slivers


def lines_of_tables(tables: list[np.ndarray]) -> np.ndarray:
    """All 0-1 vectors over hidden counts that follow from the tables: the parts of each are numbered,
    and -1 is in none."""
    n = len(tables[0])
    rows = np.array([t == v for t in tables for v in np.unique(t[t >= 0])], dtype=float)
    every = np.array(list(product([0.0, 1.0], repeat=n)))
    left = every - every @ np.linalg.pinv(rows) @ rows
    return every[np.abs(left).max(axis=1) < 1e-9]


def hidden(tables: list[np.ndarray], sliver: np.ndarray, count: np.ndarray) -> audit._Hidden:
    units = np.arange(int(sliver.max()) + 1)
    none = np.zeros(len(count), dtype=np.int64)
    rows = [(table, -1, 1) for table in tables]
    return audit._Hidden._built(units, units, sliver, none, none, count, rows)


def exposed(found: audit._Hidden, least: int) -> list[int]:
    return [i for i, _ in found.exposed(least, np.arange(len(found.home)))]


def test_the_least_cut_of_a_sliver_is_found() -> None:
    """Of one kind of districts, at one grain: the least line of each sliver in a cut atom, over all
    lines; and of two kinds, which have no cuts."""
    rng, few = np.random.default_rng(4), 0
    for number in range(24):
        edges = np.unique(rng.integers(0, [4, 3, 1 + number % 2 * 2], size=(8, 3)), axis=0)
        atom, *places = (np.unique(e, return_inverse=True)[1].ravel() for e in edges.T)
        weight = rng.integers(1, 4, size=len(edges))
        lines = lines_of_tables([atom, *places])
        found = audit._Hidden.persons(atom, places, weight)
        mine = found.unit[found.sliver[exposed(found, 4)]].tolist() if len(found.unit) else []
        for e in found.unit.tolist():
            least = min((f @ weight for f in lines if f[e]), default=np.inf)
            assert (e in mine) == (least < 4), (edges, weight, e)
        few += len(mine)
    assert few > 20


def test_both_counterexamples_are_found() -> None:
    """Two blocks by age and by race, and both together by age and race: 41 - 22 - 23 - 17 + 10 + 8
    + 5 = 2, although each published count is 5 or more. And atoms {u, x}, {v, z} with a district
    {v, x}: the total of v says how many are of one group in u and of the other in v."""
    counts = np.array([1, 5, 6, 7, 8, 4, 9, 1])
    block, age, race = np.indices((2, 2, 2)).reshape(3, 8)
    lattice = hidden([2 * block + age, 2 * block + race, 2 * age + race], block, counts)
    assert exposed(lattice, 3) == [0, 7]
    assert exposed(hidden([2 * block + age, 2 * age + race], block, counts), 3) == []
    tree = a_tree([[1, 9], [9, 1], [7, 8], [6, 5]])
    places = [[np.full(4, -1)], [np.array([-1, 0, 0, -1])]]
    crossed = audit._Hidden.counts(tree, (np.arange(4), np.array([0, 1, 0, 1])), places)
    both = [(crossed.unit[crossed.sliver[i]], crossed.group[i]) for i in exposed(crossed, 3)]
    assert both == [(0, 0), (1, 1)]


def test_lines_and_bounds_of_two_kinds_are_those_of_enumeration() -> None:
    """Blocks of three groups, at two grains, in districts of two kinds: which small counts are in a
    line under 3 that has not all of its block, or are the same in all integer tables. All are found,
    and hardly another one; none that can be 3 or more."""
    rng, lined, fixed, more = np.random.default_rng(8), 0, 0, 0
    group = np.array([0, 1, 1])
    for _ in range(60):
        atom, one, other = (rng.integers(2, size=4) for _ in range(3))
        count = rng.integers(0, 4, size=12) * rng.integers(2, size=12)
        block, cell = np.indices((4, 3)).reshape(2, 12)
        tables = [block, atom[block] * 3 + cell, one[block] * 3 + cell]
        tables += [atom[block] * 3 + group[cell], other[block] * 3 + group[cell]]
        found = hidden(tables, block, count)
        kept = np.flatnonzero(~np.any([np.bincount(t, count)[t] == 0 for t in tables], axis=0))
        assert found.count.tolist() == count[kept].tolist()
        tables, block, count = [t[kept] for t in tables], block[kept], count[kept]
        if not len(kept) or len(kept) > 10 or np.prod(most(tables, count)) > 10_000:
            continue
        lines = lines_of_tables(tables)
        sums = np.concatenate([t == np.unique(t)[:, None] for t in tables])
        every = np.indices(tuple(most(tables, count))).reshape(len(kept), -1).T
        same = every[(every @ sums.T == sums @ count).all(axis=1)]
        small = [i for i in range(len(kept)) if 0 < count[i] < 3]
        mine = exposed(found, 3)
        for i in small:
            row = block == block[i]
            some = [
                f @ count for f in lines if f[i] and (row.sum() == 1 or f[row].sum() < row.sum())
            ]
            in_line, alone = min(some, default=9) < 3, len(np.unique(same[:, i])) == 1
            assert (i in mine) >= (in_line or alone)
            assert (i in mine) <= (same[:, i].max() < 3)
            more += (i in mine) > (in_line or alone)
            lined, fixed = lined + in_line, fixed + alone
    assert lined > 20
    assert fixed > 5
    assert more < 5


def most(tables: list[np.ndarray], count: np.ndarray) -> np.ndarray:
    """One more than each count can be at most."""
    return np.min([np.bincount(t, count)[t] for t in tables], axis=0).astype(int) + 1


def a_tree(leaves: list[list[int]], k: int = 0, m: int = 3) -> CountTree:
    parent = [np.zeros(1, np.int64), np.zeros(len(leaves), np.int64)]
    chain = Chain.spelled(["total", "a"], Schema.from_attributes("s", {"a": ["x", "y"]}))
    return CountTree.from_counts(chain, Rules(k, m), parent, np.array(leaves), (0.0, 1.0))


def test_a_path_of_slivers_is_told_and_a_circle_is_not() -> None:
    """Atoms {0, 1}, {2, 3}: of districts {0} and {1, 2, 3}, the first shows block 0. In a circle no
    sliver follows."""
    tree = a_tree([[5, 1], [6, 5], [7, 4], [8, 3]])
    atom = (np.arange(4), np.array([0, 0, 2, 2]))
    path = kept_districts(tree, atom, [np.array([0, 1, 1, 1])], price=0)
    assert path.lines[0] > 0  # that of the others would tell it, too
    assert path.grain[0].tolist() == [0, 0]
    circle = kept_districts(tree, atom, [np.array([0, 1, 0, 1])], price=0)
    assert circle.grain[0].tolist() == [1, 1]


def test_districts_are_kept_by_joining_or_withheld() -> None:
    """Districts {0, 4}, {1, 2, 3}: the second, less atom {2, 3}, would show block 1 alone, which has
    one person of a group. A second kind, all blocks but the last, adds nothing."""
    tree = a_tree([[5, 4], [6, 1], [7, 4], [8, 5], [6, 4]])
    atom = (np.arange(5), np.array([0, 0, 2, 2, 4]))
    district = np.array([0, 1, 1, 1, 0])
    withheld = kept_districts(tree, atom, [district], price=0)
    assert withheld.lines[0] > 0
    assert withheld.grain[0].tolist() == [0, 0]  # one alone would follow from the whole
    kept = kept_districts(tree, atom, [district, np.array([0, 0, 0, 0, -1])], price=50)
    assert [g.tolist() for g in kept.grain] == [[1, 1], [1]]
    assert len(np.unique(kept.atom[1])) < 3
    assert value_of(tree, kept.atom) > value_of(tree, atom)


def test_small_counts_that_follow_are_joined_away() -> None:
    """A block of two persons in an atom of one group: both are of it. Its atom is joined to one
    with others."""
    tree = a_tree([[2, 0], [30, 0], [20, 9], [3, 40]], k=10)
    atom = (np.arange(4), np.array([0, 0, 2, 3]))
    tables = Staircase.from_counts(tree.chain, atom, tree.counts[-1][-1])
    assert tables.given_away(3).tolist() == [[0, 1, 0]]
    joined, first = without_small(tree, LeastAtoms(tree.chain, atom, 0.0, 0, 1))
    assert first == 1
    assert joined[1].tolist() == [0, 0, 0, 3]
    assert not len(Staircase.from_counts(tree.chain, joined, tree.counts[-1][-1]).given_away(3))


def test_an_atom_that_is_all_of_its_family_is_joined_one_level_up() -> None:
    """Both units of the upper level then are in one atom, as a part of one cannot be."""
    chain = Chain.spelled(["total", "a"], Schema.from_attributes("s", {"a": ["x", "y"]}))
    parent = [np.zeros(1, np.int64), np.zeros(3, np.int64), np.repeat([0, 1, 2], 2)]
    leaves = np.array([[9, 9], [50, 60], [2, 0], [30, 0], [20, 9], [3, 40]])
    tree = CountTree.from_counts(chain, Rules(10, 3), parent, leaves, (0.0, 0.0, 1.0))
    atom = (np.arange(6), np.array([0, 1, 2, 2, 4, 5]))
    joined, first = without_small(tree, LeastAtoms(tree.chain, atom, 0.0, 0, 3))
    assert first == 1
    assert joined[1].tolist() == [0, 1, 2, 2, 2, 2]


def test_counts_are_the_same_however_many_units_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    dense = rng.poisson(0.7, size=(9, 4)) + (np.arange(4) == 0)
    counts = GrainCounts.from_finest(CHAIN, dense)
    area, some = np.array([1, 0, -1, 2, 2, 1, -1, 0, 2]), np.array([7, 2, 2])
    for h in range(len(CHAIN)):
        each = CHAIN.coarser(dense, len(CHAIN) - 1, h)
        assert (counts[h] == each).all()
        assert (counts.some(some)[h] == each[some]).all()
        assert (counts.rows(2, 6)[h] == each[2:6]).all()
        assert (counts.summed(h, area) == summed_by(area, each)).all()
        last = np.arange(each.shape[1]) == each.shape[1] - 1
        assert (counts.have(h, last) == (each[:, -1] > 0)).all()
    parent = [np.zeros(1, np.int64), np.zeros(9, np.int64)]
    whole = CountTree.from_counts(CHAIN, Rules(3, 2), parent, dense, (1.0, 1.0))
    monkeypatch.setattr(staircase, "UNITS", 2)
    parts = CountTree.from_counts(CHAIN, Rules(3, 2), parent, dense, (1.0, 1.0))
    assert (parts.own[1] == whole.own[1]).all()
    assert (parts.passes[1] == whole.passes[1]).all()


def test_atoms_keep_to_districts_that_are_made_of_units() -> None:
    """Of seven units, in three towns that are no runs: each atom lies in a town, or is made of whole
    ones. It costs what its value says, and no less than without towns. Districts that cut units
    change nothing, if all totals are printed; else atoms keep to their parts of units, too."""
    rng, dearer = np.random.default_rng(3), 0
    parent = [np.zeros(1, np.int64), np.zeros(7, np.int64), np.repeat(np.arange(7), 3)]
    town, cut = np.array([2, 0, 1, 2, 0, 1, 2])[parent[2]], np.arange(21) % 2
    for _ in range(8):
        leaves = rng.poisson([2, 1, 2, 1], size=(21, 4)) + (np.arange(4) == 0)
        tree = CountTree.from_counts(CHAIN, Rules(25, 3), parent, leaves, (0.0, 1.0, 1.0))
        free, kept = solved(tree, Effort("best")), solved(tree, Effort("best"), [town])
        assert value_of(tree, kept.atom) == pytest.approx(kept.value)
        tables = Staircase.from_counts(tree.chain, kept.atom, tree.counts[-1].finest)
        assert not tables.failing(tree.rules).any()
        for atom in tables.atom:
            for a in range(atom.max() + 1):
                inside = np.unique(town[atom == a])
                assert len(inside) == 1 or (atom[np.isin(town, inside)] == a).all()
        assert kept.value >= free.value - 1e-9
        dearer += kept.value > free.value + 1e-9
        same = solved(tree, Effort("best"), [cut])
        assert all(map(np.array_equal, same.atom, free.atom))
        tree = CountTree.from_counts(CHAIN, Rules(25, 3, totals=5), parent, leaves, (0.0, 1.0, 1.0))
        joined = solved(tree, Effort("best"), [cut])
        assert value_of(tree, joined.atom) == pytest.approx(joined.value)
        part = 2 * parent[2] + cut  # of a unit, in one district
        for atom in joined.atom:
            mates = atom[:, None] == atom
            several = (mates & (part[:, None] != part)).any(axis=1)
            assert (mates | (part[:, None] != part))[several].all()
    assert dearer


def test_the_value_is_that_of_the_solution() -> None:
    rng = np.random.default_rng(6)
    parent = [np.zeros(1, np.int64), np.zeros(3, np.int64), np.repeat([0, 1, 2], [4, 2, 5])]
    leaves = rng.poisson([5, 2, 4, 1], size=(11, 4)) + (np.arange(4) == 0)
    tree = CountTree.from_counts(CHAIN, Rules(12, 3), parent, leaves, (1.0, 2.0, 1.0))
    found = solved(tree, Effort("best"))
    assert value_of(tree, found.atom) == pytest.approx(found.value)
    tables = Staircase.from_counts(found.chain, found.atom, tree.counts[-1][-1])
    assert not tables.failing(tree.rules).any()
    assert (
        summed_by(np.zeros(11, np.int64), tree.counts[-1][-1])
        == tables.tables(len(found.chain) - 1, np.zeros(11, np.int64))
    ).all()
