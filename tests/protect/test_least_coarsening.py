"""The least coarsening: against complete enumeration, by the definition of its cost, and on the
real blocks of Rhode Island."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain as chained
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from das.errors import InputError, SpecError
from das.files.readers import pl94_2010
from das.geography import tabulation
from das.model.histogram import Histogram
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.tools.protection.least.chain import Chain, Rules
from das.tools.protection.truth.least import solution
from das.tools.protection.truth.least.audit import value_of
from das.tools.protection.truth.least.families import by_intervals, by_subsets
from das.tools.protection.truth.least.solution import (
    CountTree,
    Effort,
    LevelFamilies,
    lower_bound,
    siblings,
    solved,
)

TWO = Schema.from_attributes("two", {"race": ["W", "O"]})
THREE = Schema.from_attributes(
    "three", {"a": ["W", "B", "O"]}, groupings={"w": ("a", {"W": ["W"], "other": ["B", "O"]})}
)
CHAINS = {2: Chain.spelled(["total", "race"], TWO), 3: Chain.spelled(["total", "w", "a"], THREE)}
NUMBER, SEARCH = Effort("number"), Effort("search", rounds=6)


def family(counts: Sequence[Sequence[int]], rules: Rules, chain: Chain | None = None) -> CountTree:
    """Blocks of one unit, whose own users do not count."""
    parent = [np.zeros(1, np.int64), np.zeros(len(counts), np.int64)]
    return CountTree.from_counts(
        chain or CHAINS[len(counts[0])], rules, parent, np.array(counts), (0.0, 1.0)
    )


def atoms(row: np.ndarray) -> list[list[int]]:
    """Blocks by atom, from 1."""
    return [(np.flatnonzero(row == a) + 1).tolist() for a in np.unique(row)]


BLOCKS = [(10, 5), (8, 2), (12, 1), (6, 4)]
COLORS = [(10, 5, 0), (8, 1, 1), (12, 1, 0), (6, 3, 1)]


@pytest.mark.parametrize("effort", [NUMBER, SEARCH])
def test_four_blocks_of_two_races(effort: Effort) -> None:
    found = solved(family(BLOCKS, Rules(10, 3)), effort)
    assert found.value == pytest.approx(0.543028, abs=1e-6)
    assert [atoms(a) for a in found.atom] == [[[1], [2], [3], [4]], [[1], [2, 3], [4]]]


def test_four_blocks_of_three_races() -> None:
    """With m 3 not even the sum passes at the finest grain: its last group has 2."""
    coarse = solved(family(COLORS, Rules(10, 3)), SEARCH)
    assert len(coarse.chain) == 2
    assert coarse.value == pytest.approx(0.543028, abs=1e-6)
    fine = solved(family(COLORS, Rules(10, 2)), SEARCH)
    assert fine.value == pytest.approx(1.339760, abs=1e-6)
    assert [atoms(a) for a in fine.atom[1:]] == [[[1], [2, 3], [4]], [[1], [2, 3, 4]]]
    large = solved(family(COLORS, Rules(15, 3)), SEARCH)
    assert large.value == pytest.approx(0.626165, abs=1e-6)
    assert atoms(large.atom[1]) == [[1, 4], [2, 3]]


def test_totals_have_a_least_population() -> None:
    """Four blocks of 1, 4, 6 and 9 persons, no total under 5: the first two have one, and each has
    half of it by the best estimate. As many persons as blocks would tell that each has one."""
    found = solved(family([(1, 0), (4, 0), (6, 0), (9, 0)], Rules(5, 2, totals=5)), SEARCH)
    assert [atoms(a) for a in found.atom] == [[[1, 2], [3], [4]]] * 2
    assert found.value == pytest.approx(np.log2(2 / 5) + 4 * np.log2(8 / 5))
    ones = solved(family([(1, 0), (0, 1), (2, 0), (5, 4)], Rules(4, 1, totals=2)), SEARCH)
    assert [atoms(a) for a in ones.atom] == [[[1, 2, 3], [4]]] * 2
    with pytest.raises(InputError, match="not even the whole passes"):
        family([(1, 0), (1, 0)], Rules(2, 1, totals=2))


def test_what_was_chosen_tells_something() -> None:
    """Others in block 2 may be 0 to 3, by what is printed. Only with 1 or 2 would the least
    coarsening be this one."""
    values = {}
    for others in range(4):
        tree = family(
            [(10, 5), (10 - others, others), (10 + others, 3 - others), (6, 4)], Rules(10, 3)
        )
        found = solved(tree, SEARCH)
        values[others] = (atoms(found.atom[1]), round(found.value, 6))
    together = [[1], [2, 3], [4]]
    assert values[1] == (together, 0.106551)
    assert values[2] == (together, 0.543028)
    alone = ([[1], [2], [3], [4]], 0.0)
    assert values[0] == values[3] == alone


# --- by the definition: every coarsening of a small tree, and its deviance


def partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for chosen in product([False, True], repeat=len(rest)):
        mates = [r for r, c in zip(rest, chosen, strict=True) if c]
        for others in partitions([r for r in rest if r not in mates]):
            yield [[first, *mates], *others]


def flat(lists: Iterable[Sequence[int]]) -> list[int]:
    return sorted(chained.from_iterable(lists))


def coarsenings(groups: list[list[int]]) -> Iterator[list[list[int]]]:
    """The partitions of leaves that have the shape: each group is divided inside, or joined to
    others."""
    for joined in partitions(list(range(len(groups)))):
        options = [
            list(partitions(groups[g[0]])) if len(g) == 1 else [[flat(groups[i] for i in g)]]
            for g in joined
        ]
        for chosen in product(*options):
            yield [sorted(atom) for part in chosen for atom in part]


def passes(counts: np.ndarray, chain: Chain, h: int, rules: Rules, blocks: int = 0) -> bool:
    if counts.sum() < rules.totals or (rules.totals and counts.sum() <= blocks):
        return False
    for g in range(1, h + 1):
        t = chain.coarser(counts[None], len(chain) - 1, g)[0]
        if t.sum() < rules.k or ((t > 0) & (t < rules.m)).any():
            return False
    return True


def deviance(
    leaves: np.ndarray, units: list[list[int]], atoms: list[list[int]], chain: Chain, h: int
) -> float:
    """Of the estimate of units' tables at grain h, given those of the grain before: a unit has the
    shares of its atom, or its own where it is made of atoms. Blocks of an atom share its total."""
    out = 0.0
    for unit in units:
        mine = [a for a in atoms if set(a) <= set(unit)]
        inside = flat(mine) == sorted(unit)
        around = unit if inside else next(a for a in atoms if set(unit) <= set(a))
        t, n = leaves[around].sum(axis=0), leaves[unit].sum(axis=0)
        last = len(chain) - 1
        if h == 0:
            share = (n.sum() / len(unit)) / (t.sum() / len(around))
            out += n.sum() * np.log2(share)
            continue
        fine, coarse = (chain.coarser(x[None], last, h)[0] for x in (t, n))
        above, own = (chain.coarser(x[None], last, h - 1)[0] for x in (t, n))
        of = chain.above[h - 1]
        for c in np.flatnonzero(coarse):
            out += coarse[c] * np.log2((coarse[c] / own[of[c]]) / (fine[c] / above[of[c]]))
    return out


def enumerated(
    leaves: np.ndarray, groups: list[list[int]], chain: Chain, rules: Rules, users: Sequence[float]
) -> float:
    """The least over all chains of partitions, each refined by the one of the grain before."""
    each = [sorted(p) for p in {tuple(map(tuple, sorted(p))) for p in coarsenings(groups)}]
    units = [[flat(groups)], groups, [[i] for i in range(len(leaves))]]
    costs: list[dict[int, float]] = []
    for h in range(not rules.totals, len(chain)):
        costs.append({})
        for number, p in enumerate(each):
            if all(passes(leaves[list(a)].sum(axis=0), chain, h, rules, len(a)) for a in p):
                lists = [list(a) for a in p]
                costs[-1][number] = sum(
                    w * deviance(leaves, u, lists, chain, h)
                    for w, u in zip(users, units, strict=True)
                    if w
                )
    best = dict.fromkeys(range(len(each)), 0.0) if not costs else costs[0]
    for finer in costs[1:]:
        best = {
            n: cost
            + min(
                (
                    best[b]
                    for b in best
                    if all(any(set(x) <= set(y) for y in each[n]) for x in each[b])
                ),
                default=np.inf,
            )
            for n, cost in finer.items()
        }
    return min(best.values(), default=np.inf)


def shown_chain(leaves: np.ndarray, chain: Chain, rules: Rules) -> Chain | None:
    whole = leaves.sum(axis=0)
    fits = [h for h in range(1, len(chain)) if passes(whole, chain, h, rules, len(leaves))]
    return Chain(chain.grains[: fits[-1] + 1]) if fits else None


@pytest.mark.parametrize("totals", [False, True])
def test_trees_are_solved_as_by_enumeration(totals: bool) -> None:
    """Two groups of blocks, users of blocks and of groups: the value, and a bound below it."""
    rng, solvable, tight = np.random.default_rng(3), 0, 0
    for _ in range(60):
        chain = CHAINS[int(rng.integers(2, 4))]
        sizes = rng.integers(1, 4, size=2)
        groups = [list(range(sizes[0])), list(range(sizes[0], sizes.sum()))]
        leaves = rng.poisson(
            rng.choice([1.0, 2.5, 5.0], size=len(chain.grains[-1])),
            size=(sizes.sum(), len(chain.grains[-1])),
        )
        leaves[:, 0] += leaves.sum(axis=1) == 0
        rules = some_rules(rng, 12, 4, totals)
        users = (0.0, float(rng.integers(1, 4)), 1.0)
        shown = shown_chain(leaves, chain, rules)
        parent = [np.zeros(1, np.int64), np.zeros(2, np.int64), np.repeat([0, 1], sizes)]
        if shown is None:
            with pytest.raises(InputError, match="not even the whole passes"):
                CountTree.from_counts(chain, rules, parent, leaves, users)
            continue
        tree = CountTree.from_counts(chain, rules, parent, leaves, users)
        expected = enumerated(
            chain.coarser(leaves, len(chain) - 1, len(shown) - 1), groups, shown, rules, users
        )
        found = solved(tree, SEARCH)
        assert found.value == pytest.approx(expected, abs=1e-9)
        assert value_of(tree, found.atom) == pytest.approx(expected, abs=1e-9)
        assert solved(tree, NUMBER).value >= expected - 1e-9
        assert lower_bound(tree, 0) <= expected + 1e-9
        assert lower_bound(tree) == pytest.approx(expected, abs=1e-9)
        solvable, tight = solvable + 1, tight + (expected > 0)
    assert solvable > 35
    assert tight > 20


def some_rules(rng: np.random.Generator, k: int, m: int, totals: bool) -> Rules:
    persons, least = int(rng.integers(0, k)), int(rng.integers(1, m))
    if not totals:
        return Rules(persons, least)
    return Rules(max(persons, 2), least, totals=int(rng.integers(2, max(persons, 2) + 1)))


@pytest.mark.parametrize("totals", [False, True])
def test_families_are_solved_as_by_enumeration(totals: bool) -> None:
    """One family each, with other rules besides: both recursions."""
    rng, larger = np.random.default_rng(1), 0
    for _ in range(200):
        chain = CHAINS[int(rng.integers(2, 4))]
        n = int(rng.integers(2, 6))
        leaves = rng.poisson(
            rng.choice([0.5, 2, 6], size=len(chain.grains[-1])), size=(n, len(chain.grains[-1]))
        )
        leaves[:, 0] += leaves.sum(axis=1) == 0
        rules = some_rules(rng, 15, 5, totals)
        shown = shown_chain(leaves, chain, rules)
        if shown is None:
            continue
        tree = family(leaves.tolist(), rules, chain)
        counts = tree.counts[-1][-1]
        expected = enumerated(counts, [[i] for i in range(n)], shown, rules, (0.0, 0.0, 1.0))
        single = np.where(tree.passes[-1], 0.0, np.inf)
        assert single.shape[1] == len(tree.chain) - (not totals)
        each = siblings(tree, 1, np.arange(n)[None], single)
        assert by_subsets(each).value[0, -1] == pytest.approx(expected, abs=1e-9)
        ordered = by_intervals(each).value[0, -1]
        assert ordered >= expected - 1e-9
        larger += ordered > expected + 1e-9
    assert larger


def test_the_bound_of_large_families_is_near_that_of_exact_ones() -> None:
    """Three to six units of some blocks: what a unit loses without tables inside is its own, and is
    not shared with those in its atom. Shared, the bound is .42 of the optimum."""
    rng, loose, exact = np.random.default_rng(3), 0.0, 0.0
    for _ in range(40):
        units = int(rng.integers(3, 7))
        sizes = rng.integers(1, 4, size=units)
        leaves = rng.poisson([4.0, 2.0, 0.7], size=(sizes.sum(), 3)) + (np.arange(3) == 0)
        parent = [np.zeros(1, np.int64), np.zeros(units, np.int64), np.repeat(range(units), sizes)]
        tree = CountTree.from_counts(CHAINS[3], Rules(15, 3), parent, leaves, (0.0, 2.0, 1.0))
        bound, least = lower_bound(tree, 0), lower_bound(tree)
        assert bound <= least + 1e-9
        loose, exact = loose + bound, exact + least
    assert 0.5 * exact < loose


def test_the_rule_of_others_is_about_classes() -> None:
    """At least two persons outside the most frequent race and origin, whatever their age."""
    schema = Schema.from_attributes("o", {"age": ["y", "o"], "race": ["W", "B"]})
    chain = Chain.spelled(["total", "race", "age * race"], schema)
    assert chain.grains[2].classes.tolist() == [0, 1, 0, 1]
    counts = np.array([[5, 1, 5, 0], [5, 1, 5, 1], [5, 0, 5, 0]])
    assert Rules(1, 1, 2).passed(counts, chain.grains[2]).tolist() == [False, True, False]
    assert Rules(1, 1, 2).passed(counts[:, :2], chain.grains[0]).all()


# --- searching, capping, refusing


def random_tree(n: int, seed: int = 5) -> CountTree:
    rng = np.random.default_rng(seed)
    leaves = rng.poisson([6.0, 1.2], size=(n, 2))
    leaves[:, 0] += 1
    return family(leaves.tolist(), Rules(20, 3))


def test_a_search_never_loses_what_was_found() -> None:
    tree = random_tree(24)
    by_order = [
        solved(tree, Effort(order, rounds=12)).value for order in ("number", "best", "search")
    ]
    assert by_order == sorted(by_order, reverse=True)
    assert by_order[2] < by_order[0]
    assert lower_bound(tree) <= by_order[2]
    again = solved(tree, Effort("search", rounds=12))
    assert again.value == by_order[2]
    level = LevelFamilies(tree, 1, np.where(tree.passes[1], 0.0, np.inf))
    level.runs(np.arange(24))
    before = level.value[0, 0]
    for seed in range(4):
        order = level._shuffled(np.zeros(1, np.int64), np.random.default_rng(seed), moved=False)
        trial = LevelFamilies(tree, 1, level.single)
        trial.runs(order)
        assert trial.value[0, 0] <= before + 1e-9


def test_a_large_family_is_divided_into_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its atoms nest in runs, or join them; what it costs is what its atoms cost."""
    tree = random_tree(40)
    whole = solved(tree, NUMBER)
    monkeypatch.setattr(solution, "CAP", 12)
    found = solved(tree, NUMBER)
    assert len(tree.capped()) == 3
    assert found.value >= whole.value
    inverse = np.unique(found.atom[1], return_inverse=True)[1]
    table = np.stack([np.bincount(inverse, tree.counts[1][1][:, c]) for c in (0, 1)], axis=1)
    assert Rules(20, 3).passed(table.astype(int), tree.chain.grains[1]).all()
    each = [table, tree.counts[1][1]]
    cost = [
        (t.sum(1) * np.log2(t.sum(1)) - (t * np.log2(np.maximum(t, 1))).sum(1)).sum() for t in each
    ]
    assert found.value == pytest.approx(cost[0] - cost[1])


def test_a_chain_refines_or_is_refused() -> None:
    chain = Chain.spelled((), PL94)
    assert [len(g) for g in chain.grains] == [1, 3, 6, 10, 28, 88, 252]
    assert chain.grains[3].labels[:2] == (
        "Under 18 years; Hispanic or Latino",
        "Under 18 years; Not Hispanic: White alone",
    )
    with pytest.raises(SpecError, match="'votingage' does not refine 'eth3'"):
        Chain.spelled(["total", "eth3", "votingage"], PL94)
    with pytest.raises(SpecError, match="begins with the total"):
        Chain.spelled(["eth3", "eth5"], PL94)
    with pytest.raises(SpecError, match="a list of texts"):
        Chain.spelled("total", PL94)
    with pytest.raises(SpecError, match="k is -1"):
        Rules(-1)
    assert [g.name for g in Chain.spelled((), THREE).grains] == ["total", "a"]


def test_rhode_island(shared_data: Path) -> None:
    """Runs of block numbers: the value that an independent program gives, to the digit."""
    path = shared_data / "pl94_2010" / "ri" / "ri2010.pl.zip"
    if not path.exists():
        pytest.skip(f"no {path}")
    extract = pl94_2010.read([path], PL94)
    records = extract.persons.open("a public file")
    levels = ["State", "County", "Tract", "Block_Group", "Block"]
    spine, unit = tabulation.spine(extract.blocks, levels)
    grain = Chain.spelled((), PL94).grains[-1]
    cell = grain.index[records.cell]
    counts = Histogram.from_triplets(
        len(unit), len(grain), unit[records.block], cell, records.count
    )
    lived = np.flatnonzero(counts.totals())
    parent = spine.restricted("Block", lived).parent
    chain = Chain.spelled((), PL94)
    tree = CountTree.from_counts(
        chain, Rules(100, 3), parent, counts.some(lived).dense(), (1.0,) * 5
    )
    found = solved(tree, NUMBER)
    assert found.value == pytest.approx(368_343, abs=1)
    assert len(found.atom[0]) == 17_644
    assert found.value / 1.65 < lower_bound(tree, 0) < found.value
