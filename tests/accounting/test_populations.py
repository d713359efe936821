"""Who is in several populations, against every set; and declarations whose sets nobody can list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import RegisterError
from das.model.mechanisms import EPSILON, RHO
from das.register import publication_cost
from das.register.book import Cap, Opening, Register
from das.register.publication_cost import CostliestSets, JointSet, JointSets
from tests.accounting.test_register import entry

NAMES = tuple("abcdefg")
PAIRS = st.sets(st.sampled_from([frozenset(p) for p in combinations(NAMES, 2)]), max_size=14)
COSTS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), min_size=7, max_size=7)


def each(costs: Sequence[tuple[int, int]], names: Sequence[str] = NAMES) -> list[JointSet]:
    """By rho and pure epsilon; equal costs have equal numbers."""
    return [
        JointSet(frozenset((name,)), (8 * rho + pure,), Fraction(rho), Fraction(pure))
        for name, (rho, pure) in zip(names, costs, strict=True)
    ]


def joint(names: Collection[str], disjoint: Collection[frozenset[str]]) -> list[frozenset[str]]:
    every = chain.from_iterable(combinations(sorted(names), n) for n in range(len(names) + 1))
    sets = map(frozenset, every)
    return [s for s in sets if not any(pair <= s for pair in disjoint)]


def bill(names: Collection[str], found: Sequence[JointSet]) -> tuple[int, ...]:
    by_name = {next(iter(s.names)): s for s in found}
    return tuple(sorted(chain.from_iterable(by_name[n].costs for n in names)))


@given(PAIRS, COSTS)
def test_the_dearest_set_of_all(
    disjoint: set[frozenset[str]], costs: list[tuple[int, int]]
) -> None:
    given_ = [replace(s, pure=Fraction(0)) for s in each(costs)]
    rho = {next(iter(s.names)): s.rho for s in given_}
    most = max(sum(rho[n] for n in s) for s in joint(NAMES, disjoint))
    found = CostliestSets(given_, disjoint, additive=True).sets()
    assert found.exact
    assert found.kept[0].rho == most == sum(rho[n] for n in found.kept[0].names)
    assert found.kept[0].names in joint(NAMES, disjoint)


@given(PAIRS, COSTS, st.integers(1, 4))
def test_every_set_is_kept_or_bounded(
    disjoint: set[frozenset[str]], costs: list[tuple[int, int]], kept: int
) -> None:
    """Each set is in one that is kept, costs the same as one, or is below ``rest``."""
    given_ = each(costs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publication_cost, "KEPT", kept)
        found = CostliestSets(given_, disjoint, additive=False).sets()
    assert found.exact
    assert len(found.kept) <= kept
    for s in found.kept:
        assert s.names in joint(NAMES, disjoint)
        assert s.costs == bill(s.names, given_)
    check_covered(found, given_, disjoint)


def check_covered(
    found: JointSets, given_: Sequence[JointSet], disjoint: Collection[frozenset[str]]
) -> None:
    by_name = {next(iter(s.names)): s for s in given_}
    bills = {s.costs for s in found.kept}
    allowed = joint(by_name, disjoint)
    for s in allowed:
        if any(s < other for other in allowed) or bill(s, given_) in bills:
            continue
        assert found.rest is not None
        assert sum(by_name[n].rho for n in s) <= found.rest[0]
        assert sum(by_name[n].pure for n in s) <= found.rest[1]


@given(PAIRS, COSTS, st.booleans())
def test_without_a_branch_it_is_an_upper_bound_that_says_so(
    disjoint: set[frozenset[str]], costs: list[tuple[int, int]], additive: bool
) -> None:
    given_ = [replace(s, pure=s.pure * (not additive)) for s in each(costs)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publication_cost, "BRANCHES", 0)
        bound = CostliestSets(given_, disjoint, additive=additive).sets()
    exact = CostliestSets(given_, disjoint, additive=additive).sets()
    assert bound.kept[0].rho + bound.kept[0].pure >= exact.kept[0].rho + exact.kept[0].pure
    if bound.exact:
        assert bound == exact


# --- censuses by states


def censuses(cap: Cap, years: int = 3, states: int = 50, apart: int = 0) -> Register:
    """Nobody is in two states of a census; each costs something else where they are ``apart``."""
    names = [[f"{2000 + 10 * y}-{s:02}" for s in range(states)] for y in range(years)]
    pairs = tuple(pair for year in names for pair in combinations(year, 2))
    register = Register.opened("init", Opening("x", cap, "a", disjoint=pairs).to_json())
    for y, s in product(range(years), range(states)):
        rho = Fraction(1 + (y + s) % states * apart, 10_000)
        register = register.after("spend", entry(f"{y}-{s}", rho, names[y][s]).to_json())
    return register


def test_three_censuses_of_fifty_states_need_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """125,000 sets: as sums of the costliest state of each census, without a single branch."""
    monkeypatch.setattr(publication_cost, "BRANCHES", 0)
    spent = censuses(Cap(RHO, Fraction(1)), apart=1).spent
    assert (spent.cost, spent.exact) == (Fraction(3 * 50, 10_000), True)
    assert sorted(spent.populations) == ["2000-49", "2010-48", "2020-47"]


def test_an_epsilon_of_equal_states_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication_cost, "BRANCHES", 0)
    cap = Cap(EPSILON, Fraction(1), Fraction(1, 10**9))
    one = censuses(cap, states=1).spent
    assert one.exact
    assert censuses(cap).spent.cost == one.cost
    assert censuses(cap).spent.exact


def test_an_epsilon_of_different_states_is_exact_or_a_bound() -> None:
    cap = Cap(EPSILON, Fraction(1), Fraction(1, 10**9))
    register = censuses(cap, apart=1)
    spent = register.spent
    assert cap.spent(register.spendings(spent.populations)) <= spent.cost
    assert spent.cost <= cap.bound(Fraction(3 * 50, 10_000), Fraction(0))
    register.check_cap()


def test_a_cap_that_may_be_passed_is_refused_and_says_so() -> None:
    """A wheel of populations, each disjoint from the next two: no censuses by states."""
    names = [f"p{i:02}" for i in range(60)]
    pairs = tuple((names[i], names[(i + d) % 60]) for i in range(60) for d in (1, 2))
    opening = Opening("x", Cap(RHO, Fraction(25, 100)), "a", disjoint=pairs)
    register = Register.opened("init", opening.to_json())
    for name in names:
        register = register.after("spend", entry(name, Fraction(1, 100), name).to_json())
    spent = register.spent
    assert Fraction(20, 100) <= spent.cost <= Fraction(60, 100), "every third, at most"
    if not spent.exact and spent.cost > Fraction(25, 100):
        with pytest.raises(RegisterError, match="up to rho"):
            register.check_cap()
