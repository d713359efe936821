"""The configuration dhc-best: production's totals, and no relation of a statement at more than
production's epsilon; what it measures.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from das.accounting.guarantee import exact_epsilon
from das.publications.dhc.model import strategy
from das.publications.dhc.spec import HOUSEHOLDS, PERSONS, UNITS, DhcSpec
from das.spec import load
from das.tools.planning.target_file import read_targets

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
EIGHT = f"geography.levels={list(strategy.LEVELS)}".replace("'", '"')
#: Levels of production that the tree of tabulation does not have.
GONE = ("Prim", "Tract_Subset_Group")


def of(name: str, *changes: str) -> DhcSpec:
    return load((CONFIGS / name).read_text(encoding="utf-8"), where=name, overrides=changes)


@pytest.fixture(scope="module")
def best() -> DhcSpec:
    return of("dhc-best.toml")


@pytest.fixture(scope="module")
def production() -> DhcSpec:
    """Over its eight levels."""
    return of("dhc-2020.toml", EIGHT)


def test_what_production_spent_and_the_tree_does_not_have() -> None:
    spent = {
        name: sum(sum(s.rho[level].values()) for level in GONE)
        for name, s in (
            (PERSONS, strategy.persons()),
            (UNITS, strategy.units()),
            (HOUSEHOLDS, strategy.households()),
        )
    }
    assert spent[PERSONS] == Fraction(3107, 2500)
    assert spent[UNITS] + spent[HOUSEHOLDS] == Fraction(1214, 625)
    assert of("dhc-2020.toml").universe(PERSONS).plan.cost == Fraction(18597, 5000)
    without = of("dhc-2020.toml", f"geography.levels={[*strategy.LEVELS[1:3], *LOWER]}")
    rho = without.universe(PERSONS).plan.cost
    assert rho == Fraction(7249, 2000)


def test_tracts_and_block_groups_can_have_all_that_is_left() -> None:
    """The facts' two plans: production's own rho of these levels, and all of its total."""
    rho = {level: sum(queries.values()) for level, queries in strategy.persons().rho.items()}
    assert (rho["Tract_Subset"], rho["Block_Group"]) == (Fraction(868, 625), Fraction(43, 100))
    left = rho["Tract_Subset"] + rho["Block_Group"] + sum(rho[level] for level in GONE)
    assert left == Fraction(1129, 500) + Fraction(2009, 2500)
    kept = sum(rho[level] for level in ("US", "State", "County", "Block"))
    assert kept + left == Fraction(24811, 5000)


LOWER = ("Tract", "Block_Group", "Block")


def test_no_universe_costs_more_than_in_production(best: DhcSpec, production: DhcSpec) -> None:
    for u in production.universes:
        spent = best.universe(u.name).plan.cost
        assert Fraction(97, 100) * u.plan.cost < spent <= u.plan.cost


@pytest.mark.parametrize("name", [PERSONS, UNITS, HOUSEHOLDS])
def test_no_relation_has_more_epsilon_than_in_production(
    best: DhcSpec, production: DhcSpec, name: str
) -> None:
    """Every change of one record that both statements list, by exact composition; what a statement
    lists on one tree alone is less than what contains it."""
    delta = best.budget.delta
    ours, theirs = (
        {c.what: c.differing for c in s.terms.changes(name, s.universe(name).plan.plain)}
        for s in (best, production)
    )
    same = "place within one Block_Group"  # which blocks alone see, measured as in production
    assert best.universe(name).strategy.rho["Block"] == best.production(name)["Block"]
    both = ours.keys() & theirs.keys() - {same}
    assert len(both) >= 5
    for what in both:
        low, _ = exact_epsilon(theirs[what], delta)
        assert exact_epsilon(ours[what], delta)[1] <= low, what
    within = "place within one Tract"
    most, _ = exact_epsilon(theirs["place within one Tract_Subset_Group"], delta)
    assert exact_epsilon(ours[within], delta)[1] <= most


def test_households_are_told_no_less_and_four_things_more(best: DhcSpec) -> None:
    found = best.universe(HOUSEHOLDS).strategy
    for level, before in best.production(HOUSEHOLDS).items():
        assert all(found.rho[level][q] >= rho for q, rho in before.items())
    size, last = "hhtenshort_2lev * hhsize_all", {"hhtenshort_2lev * hhage", "elderly", "p16"}
    for level in ("State", "County", "Tract", "Block_Group"):
        new = found.rho[level].keys() - strategy.households().rho["State"].keys()
        assert new == {size, *last}
    assert size in found.outer[0].queries
    assert last <= set(found.outer[1].queries)


def test_states_and_counties_share_what_is_left_among_small_queries(best: DhcSpec) -> None:
    """All queries of at most a hundred answers have equally much more than in production."""
    found = best.universe(HOUSEHOLDS).strategy
    for level in ("State", "County"):
        before = best.production(HOUSEHOLDS)[level]
        more = {q: r - before.get(q, Fraction(0)) for q, r in found.rho[level].items()}
        small = {q for q in more if found.schema.query(q).answers <= 100}
        assert len({more[q] for q in small}) == 1
        assert {q for q, r in more.items() if r} == small


def test_households_are_as_their_targets_have_it(best: DhcSpec) -> None:
    """What the file of targets holds has production's share; what it measures is new."""
    text = (CONFIGS / "targets" / "dhc-best-households.toml").read_text(encoding="utf-8")
    found, u = read_targets(text, where="t"), best.universe(HOUSEHOLDS)
    for level, query in (pair.split(":", 1) for pair in found.hold):
        assert u.schema.query(query).answers > 1000
        assert u.strategy.rho[level][query] == best.production(HOUSEHOLDS)[level][query]
    new = {
        f"{level}:{query}"
        for level in ("Tract", "Block_Group")
        for query in u.strategy.rho[level].keys() - best.production(HOUSEHOLDS)[level].keys()
    }
    assert set(found.measure) == new


def test_it_says_what_its_shares_were_made_from(best: DhcSpec) -> None:
    assert "targets dhc-best" in best.notes[-1]
    assert "it is not checked" in best.notes[-1]
    assert best.production(PERSONS)["Block"] == best.universe(PERSONS).strategy.rho["Block"]
