"""Margins to budgets and back, and the plans that a steward may choose from."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.accounting.planning import Repricing, least_cost, normal_cost, options
from das.errors import SpecError
from das.model.budget import Neighbours, PlannedMeasurement
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, MECHANISMS, Mechanism
from das.model.plan import Plan
from das.model.redistricting import PL94
from tests.oracles import as_mpf

GAUSSIAN = DISCRETE_GAUSSIAN
PLAN = Plan.priced(
    GAUSSIAN,
    Neighbours.BOUNDED,
    [
        ("US", "hhgq", Fraction(1, 10)),
        ("US", "detailed", Fraction(1, 5)),
        ("Tract", "total", Fraction(1, 2)),
        ("Tract", "hispanic * cenrace", Fraction(1, 5)),
    ],
)

CHOICE = Repricing.of_schema(PLAN, PL94)


def held(mechanism: Mechanism, scale: Fraction, most: int) -> mpmath.mpf:
    """P[|X| <= most], term by term."""
    s = as_mpf(scale)
    weight = (
        (lambda k: mpmath.exp(-k * k / (2 * s)))
        if mechanism is GAUSSIAN
        else (lambda k: mpmath.exp(-k / s))
    )
    terms = [
        weight(k)
        for k in range(int(60 * (scale if mechanism is GEOMETRIC else float(scale) ** 0.5)) + 60)
    ]
    return (terms[0] + 2 * mpmath.fsum(terms[1 : most + 1])) / (
        terms[0] + 2 * mpmath.fsum(terms[1:])
    )


@pytest.mark.parametrize("mechanism", list(MECHANISMS.values()))
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("most, coverage", [(0, 0.95), (1, 0.5), (3, 0.95), (11, 0.95), (50, 0.99)])
def test_the_least_cost_keeps_the_margin_and_a_little_less_does_not(
    mechanism: Mechanism, neighbours: Neighbours, most: int, coverage: float
) -> None:
    spent = least_cost(mechanism, neighbours, most, coverage)
    (draw,) = Plan.priced(mechanism, neighbours, [("", "", spent)]).measurements
    with mpmath.workdps(30):
        assert held(mechanism, draw.parameter, most) >= coverage
        assert held(mechanism, draw.parameter * Fraction(1002, 1000), most) < coverage
    assert draw.margin(coverage) == most


@pytest.mark.parametrize("most, step_2", [(3, 1.921), (11, 0.143), (50, 0.007)])
def test_safetab_p_table_7(most: int, step_2: float) -> None:
    """A sensitivity of 9, at 95 %; bounded is twice unbounded."""
    assert round(9 * normal_cost(Neighbours.UNBOUNDED, most, 0.95), 3) == step_2
    assert normal_cost(Neighbours.BOUNDED, most, 0.95) == 2 * normal_cost(
        Neighbours.UNBOUNDED, most, 0.95
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_the_exact_price_is_below_that_of_the_convention(most: int, coverage: float) -> None:
    """Corollary 2 of SafeTab-P: noise of its price keeps the margin, so the least price is no
    higher.
    """
    exact = float(least_cost(GAUSSIAN, Neighbours.UNBOUNDED, most, coverage))
    assert exact <= normal_cost(Neighbours.UNBOUNDED, most, coverage) * (
        1 + 1e-3
    )  # it is rounded up


def test_without_a_wish_there_is_the_plan_alone() -> None:
    assert [(o.name, o.plan) for o in options(CHOICE, {}, {}, 0.95)] == [("now", PLAN)]


def test_a_margin_and_a_new_query() -> None:
    wish, more = {("Tract", "total"): 1}, {("US", "votingage"): Fraction(1, 100)}
    now, changed, squeezed, scaled = options(CHOICE, wish, more, 0.95)
    assert now.plan == PLAN
    spent = {(d.level, d.query): d.cost for d in changed.plan.measurements}
    price = least_cost(GAUSSIAN, Neighbours.BOUNDED, 1, 0.95)
    assert price > Fraction(1, 2)
    assert (
        spent
        == {(d.level, d.query): d.cost for d in PLAN.measurements}
        | {("Tract", "total"): price}
        | more
    )
    assert changed.plan.cost == PLAN.cost - Fraction(1, 2) + price + Fraction(1, 100)
    assert [d.level for d in changed.plan.measurements] == [
        "US",
        "US",
        "US",
        "Tract",
        "Tract",
    ]  # levels stay together
    assert squeezed.plan.cost == PLAN.cost
    assert {
        d.cost / e.cost
        for d, e in zip(squeezed.plan.measurements, changed.plan.measurements, strict=True)
    } == {PLAN.cost / changed.plan.cost}
    assert scaled.plan.cost == (PLAN.cost + Fraction(1, 100)) * price / Fraction(1, 2)
    assert next(d for d in scaled.plan.measurements if d.query == "total").cost == price
    assert [o.name for o in options(CHOICE, {}, more, 0.95)] == [
        "now",
        "others-unchanged",
        "same-total",
    ]


def test_of_several_margins_the_dearest_sets_the_scale() -> None:
    scaled = options(CHOICE, {("Tract", "total"): 3, ("US", "hhgq"): 4}, {}, 0.95)[-1].plan
    at = {d.query: d.margin(0.95) for d in scaled.measurements}
    assert at["hhgq"] == 4
    assert at["total"] <= 3


def test_a_margin_that_is_kept_already_gives_budget_back() -> None:
    _, changed, _, scaled = options(CHOICE, {("Tract", "total"): 50}, {}, 0.95)
    assert changed.plan.cost < PLAN.cost
    assert scaled.plan.cost < PLAN.cost


def test_a_query_is_found_however_it_is_spelt() -> None:
    changed = options(CHOICE, {("Tract", "cenrace * hispanic"): 2}, {}, 0.95)[1].plan
    assert [d.query for d in changed.measurements] == [d.query for d in PLAN.measurements]


def test_what_is_added_to_a_query_that_is_measured_joins_its_cost() -> None:
    before = {(d.level, d.query): d.cost for d in PLAN.measurements}
    more = options(CHOICE, {}, {("Tract", "cenrace * hispanic"): Fraction(1, 100)}, 0.95)[1].plan
    changed = {(d.level, d.query): d.cost - before[d.level, d.query] for d in more.measurements}
    assert changed.pop(("Tract", "hispanic * cenrace")) == Fraction(1, 100)
    assert set(changed.values()) == {0}
    assert more.cost == PLAN.cost + Fraction(1, 100)


@pytest.mark.parametrize(
    "margins, added, words",
    [
        ({("Tract", "detailed"): 3}, {}, ["Tract:detailed", "no such draw", "it measures total"]),
        ({("Ward", "total"): 3}, {}, ["Ward:total", "the levels are US, Tract"]),
        ({}, {("Ward", "total"): Fraction(1)}, ["'Ward' is not a level", "US, Tract"]),
        ({}, {("US", "age"): Fraction(1)}, ["'age'", "neither an attribute nor a grouping"]),
        ({}, {("US", "total"): Fraction(-1)}, ["-1, not positive"]),
        ({}, {("US", "total"): Fraction(0)}, ["0, not positive"]),
    ],
)
def test_what_is_not_there_is_refused(margins, added, words: list[str]) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SpecError) as caught:
        options(CHOICE, margins, added, 0.95)
    for word in words:
        assert word in str(caught.value)


def test_draws_of_a_plan_keep_their_shares_when_it_is_scaled() -> None:
    half = PLAN.scaled(Fraction(1, 2))
    assert half.cost == Fraction(1, 2)
    assert [d.parameter for d in half.measurements] == [d.parameter * 2 for d in PLAN.measurements]
    assert isinstance(half.measurements[0], PlannedMeasurement)
