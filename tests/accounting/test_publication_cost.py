"""What a register keeps of a publication: its cost is the plan's, its text gives it back, and the
conversions to another relation hold for every pair of data sets and are reached by some."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.accounting import Composition, epsilon
from das.accounting.draws import Moves, only, record
from das.accounting.guarantee import worst_epsilon
from das.accounting.publication_cost import PublicationCost
from das.accounting.relations import relations
from das.accounting.statement import account
from das.accounting.zcdp import no_more
from das.cli.options import load_any
from das.errors import RegisterError
from das.model.budget import Neighbours, PlannedMeasurement
from das.model.mechanism import EPSILON, RHO
from das.model.mechanisms import DISCRETE_GAUSSIAN, MECHANISMS
from das.model.plan import Plan
from das.release.publications import publication
from das.spec.sdhc import SdhcSpec

BOUNDED, UNBOUNDED = Neighbours.BOUNDED, Neighbours.UNBOUNDED


def gaussian(rho: Fraction, relation: Neighbours = BOUNDED, stability: int = 1) -> PublicationCost:
    draw = PlannedMeasurement.priced(
        "State", "total", DISCRETE_GAUSSIAN, relation, rho, stability=stability
    )
    return PublicationCost(RHO, relation, {"persons": record([draw], relation)})


@pytest.mark.parametrize("name", ["pl94-2010", "dhc-2020", "sdhc-2020", "1940-pure-dp"])
def test_the_cost_is_that_of_the_plan_and_its_text_gives_it_back(name: str) -> None:
    given = load_any(Path(name), ())
    spec = publication(given.publication()).resolved(given)
    draws = {u.name: u.plan.measurements for u in spec.universes}
    found = PublicationCost.of(spec.terms, draws)
    assert found.by_universe == {u.name: u.plan.cost for u in spec.universes}
    assert PublicationCost.from_json(json.loads(json.dumps(found.to_json()))) == found
    if name.startswith("pl94"):
        return  # its account takes seconds, and is none of ours
    stated = PublicationCost.stated(account(spec.terms, draws))
    assert (stated.cost, stated.neighbours) == (found.cost, found.neighbours)
    assert stated.differing == ()
    assert not stated.composes
    for delta in (Fraction(1, 10**6), Fraction(1, 10**12)) if found.differing else ():
        exact, bound = worst_epsilon(found.differing, delta), no_more(stated.rho, delta)
        assert exact.high <= bound, "what states rho alone is never cheaper"


def test_an_altered_text_is_refused() -> None:
    text = gaussian(Fraction(1, 3)).to_json()
    for change in (
        {"cost": "1/4"},
        {"currency": "epsilon"},
        {"more": 1},
        {"universes": {}},
        {"universes": {"persons": [{"noise": "discrete-gaussian", "paths": [], "moves": [[0]]}]}},
    ):
        with pytest.raises(Exception, match=r".") as refused:
            PublicationCost.from_json(text | change)
        assert not isinstance(refused.value, AssertionError)


# --- another relation


def square(a: dict[str, int], b: dict[str, int]) -> int:
    return sum((a.get(k, 0) - b.get(k, 0)) ** 2 for k in {*a, *b})


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 2), min_size=4, max_size=4), st.integers(1, 9)),
        min_size=1,
        max_size=3,
    )
)
def test_a_replaced_record_costs_at_most_twice_an_added_one(
    queries: list[tuple[list[int], int]],
) -> None:
    """Every partition of four cells, and every pair of neighbors: the distance of all answers."""

    def rho(before: list[int], after: list[int]) -> Fraction:
        total = Fraction(0)
        for groups, sigma_sq in queries:
            a, b = (Counter(f"g{groups[cell]}" for cell in cells) for cells in (before, after))
            total += Fraction(square(a, b), 2 * sigma_sq)
        return total

    base = [0, 1, 2, 3]
    added = max(rho(base, [*base, x]) for x in range(4))
    replaced = max(rho([*base, x], [*base, y]) for x, y in product(range(4), repeat=2))
    draws = [
        PlannedMeasurement("State", f"q{i}", DISCRETE_GAUSSIAN, Fraction(s), Fraction(1, 2 * s))
        for i, (_, s) in enumerate(queries)
    ]
    stated = PublicationCost(RHO, UNBOUNDED, {"persons": record(draws, UNBOUNDED)})
    assert stated.rho == added
    found = stated.between(BOUNDED)
    assert found.rho == 2 * added >= replaced
    every = {g for groups, _ in queries for g in [tuple(groups)]}
    if all(len({groups[c] for c in range(4)}) > 1 for groups in every) and len(queries) == 1:
        assert replaced == found.rho, "and somebody reaches it"


def test_converted_measurements_are_composed_exactly() -> None:
    one = gaussian(Fraction(1, 2), UNBOUNDED)  # sigma^2 = 1
    delta = Fraction(1, 10**8)
    twice = worst_epsilon(one.between(BOUNDED).differing, delta)
    low, high = epsilon([(Fraction(1), 2)], delta)
    assert twice.low <= high
    assert low <= twice.high
    assert twice.high < no_more(Fraction(1), delta)


def test_what_may_differ_by_more_than_one_costs_four_times() -> None:
    alone = PublicationCost(RHO, UNBOUNDED, alone={"persons": Fraction(3, 7)})
    assert alone.between(BOUNDED).rho == 4 * Fraction(3, 7)
    assert alone.between(UNBOUNDED) is alone
    # two moves of k that meet in one answer: (2k)^2 = 4 k^2
    k, sigma_sq = 3, Fraction(5)
    moved, both = Fraction(k**2) / (2 * sigma_sq), Fraction((2 * k) ** 2) / (2 * sigma_sq)
    shifted = only(Composition((), ((1 / sigma_sq, k, 1),)))
    found = PublicationCost(RHO, UNBOUNDED, {"p": (shifted,)})
    assert found.rho == moved
    assert found.between(BOUNDED).rho == both
    assert not found.between(BOUNDED).composes


def test_pure_epsilon_adds_up() -> None:
    plan = Plan.of_epsilon("1/2", ["State"], ["total"])
    assert plan.neighbours is BOUNDED
    pure = PublicationCost(EPSILON, UNBOUNDED, {"persons": record(plan.measurements, UNBOUNDED)})
    assert pure.between(BOUNDED).pure == 2 * pure.pure == Fraction(1, 2)
    assert pure.rho == pure.pure**2 / 2
    assert pure.differing == ()


def test_nothing_follows_from_bounded_to_unbounded() -> None:
    with pytest.raises(RegisterError, match="nothing follows"):
        gaussian(Fraction(1)).between(UNBOUNDED)


def test_many_changes_are_bounded_by_rho() -> None:
    """A pair of each of a hundred paths is no list that anybody wants to compose."""
    draws = [((MECHANISMS["discrete-gaussian"], Fraction(i + 1)), 1) for i in range(100)]
    moves = Moves(tuple((d,) for d in draws), tuple((i,) for i in range(100)), ())
    found = PublicationCost(RHO, UNBOUNDED, {"groups": (moves,)}).between(BOUNDED)
    assert found.rho == 2 * Fraction(1, 2)
    assert (found.differing, found.composes) == ((), False)


def test_a_pair_of_paths_is_each_pair() -> None:
    noise = MECHANISMS["discrete-gaussian"]
    paths = tuple((((noise, Fraction(s)), 1),) for s in (2, 3))
    moves = Moves(paths, ((0,), (1,)), ())
    (found,) = PublicationCost(RHO, UNBOUNDED, {"p": (moves,)}).between(BOUNDED).parts["p"]
    expected = [
        Composition.of([(Fraction(a), 1), (Fraction(b), 1)])
        for a, b in combinations_with_replacement((2, 3), 2)
    ]
    assert [found.composition(m) for m in found.moves] == expected


def test_two_persons_of_the_sdhc_can_raise_one_answer() -> None:
    """Each query reaches one answer by 1, and a unit record changes with its person: one person who
    goes and one who comes at another address cost what one who moves does."""
    changes = ("sdhc.most.persons=1", "sdhc.most.children=1")
    spec = publication("sdhc").resolved(load_any(Path("sdhc-2020"), changes))
    assert isinstance(spec, SdhcSpec)
    draws = spec.universes[0].plan.measurements
    queries = [d.query.split(" ") for d in draws]
    assert {spec.reach_of(table, group, None).by for table, group in queries} == {1}
    moved = spec._moves(draws, relations()[2])
    found = PublicationCost.of(spec.terms, {spec.name: draws})
    assert found.between(BOUNDED).rho == moved.rho == 4 * found.rho
