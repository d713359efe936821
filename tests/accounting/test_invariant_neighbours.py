"""Neighbours that agree on what is published exactly, against every pair of records that does."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import das
from das.accounting.changes import changes
from das.accounting.draws import record
from das.accounting.guarantee import cost, exact_epsilon
from das.accounting.invariant_neighbours import ANY, INVARIANT_NEIGHBOURS, definitions, free
from das.accounting.statement import promises
from das.model.budget import Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN, MECHANISMS
from das.model.plan import Plan
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.model.spine import Spine
from tests.accounting.test_changes import loss
from tests.oracles import dense
from tests.strategies import fractions, queries, schemas, spines

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
GAUSSIAN, BOUNDED = DISCRETE_GAUSSIAN, Neighbours.BOUNDED


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Schema, Spine, Plan, list[tuple[str, str]]]:
    """A schema, a tree, one or two queries at each level, and none to two counts that are published
    exactly.
    """
    schema, spine = draw(schemas(most_attributes=2, most_levels=3)), draw(spines(3, 3))
    costs = [
        (level, query, draw(fractions(9)))
        for level in spine.levels
        for query in {"total", draw(queries(schema)).name}
    ]
    exact = draw(
        st.lists(
            st.tuples(st.sampled_from(spine.levels), queries(schema).map(lambda q: q.name)),
            max_size=2,
        )
    )
    return (
        schema,
        spine,
        Plan.priced(draw(st.sampled_from(list(MECHANISMS.values()))), BOUNDED, costs),
        exact,
    )


def agree(
    schema: Schema,
    spine: Spine,
    exact: Sequence[tuple[str, str]],
    one: tuple[int, int],
    other: tuple[int, int],
) -> bool:
    """Whether the exact counts are the same whichever of two (lowest unit, cell) the record is
    in.
    """
    for level, query in exact:
        up, matrix = spine.up(spine.levels[-1], level), dense(schema, schema.query(query))
        same_answer = np.array_equal(matrix[:, one[1]], matrix[:, other[1]])
        if not (up[one[0]] == up[other[0]] and same_answer):
            return False
    return True


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_no_agreeing_pair_is_told_apart_by_more_than_the_free_draws(
    world: tuple[Schema, Spine, Plan, list[tuple[str, str]]],
) -> None:
    schema, spine, plan, exact = world
    rest = cost(
        plan.mechanism.currency,
        record(free(plan.measurements, exact, schema, spine.levels), Neighbours.BOUNDED),
    )
    records = list(product(range(spine.units(spine.levels[-1])), range(schema.cells)))
    losses = [
        loss(plan, schema, spine, a, b)
        for a, b in product(records, repeat=2)
        if agree(schema, spine, exact, a, b)
    ]
    assert max(losses) <= rest
    if not exact and all(len(a.levels) > 1 for a in schema.attributes):
        assert rest == cost(plan.mechanism.currency, record(plan.measurements, Neighbours.BOUNDED))


@settings(max_examples=60, deadline=None)
@given(worlds(), st.data())
def test_with_totals_alone_it_is_reached(
    world: tuple[Schema, Spine, Plan, list[tuple[str, str]]], data: st.DataObject
) -> None:
    """Totals of one level. If the tree forks below that level all the way, and no attribute is
    measured by more than one grouping, some agreeing pair costs exactly what is left. So no further
    draw could be left out."""
    schema, spine, plan, _ = world
    level = data.draw(st.sampled_from(spine.levels))
    exact, lowest = [(level, "total")], spine.levels[-1]
    left = free(plan.measurements, exact, schema, spine.levels)
    above = spine.levels[: spine.levels.index(level) + 1]
    assert set(plan.measurements) - set(left) == {
        d for d in plan.measurements if d.level in above and schema.query(d.query).answers == 1
    }
    assert left == free(plan.measurements, [*exact, *exact], schema, spine.levels)
    line = next(
        c
        for c in changes(plan.measurements, schema, spine.levels, exact)
        if c.what == f"anything within one {level}"
    )
    assert cost(plan.mechanism.currency, line.differing) == cost(
        plan.mechanism.currency, record(left, Neighbours.BOUNDED)
    )
    below = spine.levels[spine.levels.index(level) + 1 :]
    units = range(spine.units(lowest))
    forked = [
        (a, b)
        for a, b in product(units, repeat=2)
        if spine.up(lowest, level)[a] == spine.up(lowest, level)[b]
        and all(spine.up(lowest, lv)[a] != spine.up(lowest, lv)[b] for lv in below)
    ]
    if schema.recodes or any(len(a.levels) == 1 for a in schema.attributes) or not forked:
        return
    first, last = 0, schema.cells - 1
    assert max(loss(plan, schema, spine, (a, first), (b, last)) for a, b in forked) == cost(
        plan.mechanism.currency, line.differing
    )


def test_redistricting_2020() -> None:
    """State totals are measured and exact: between data sets that agree on them, that measurement
    tells nothing.
    """
    spec = das.load_spec(CONFIGS / "pl94-2010.toml", ["geography.spine=tabulation"])
    draws = {u.name: u.plan.measurements for u in spec.universes}
    left = {
        u: free(ds, spec.terms.exact[u], spec.terms.schemas[u], spec.terms.levels)
        for u, ds in draws.items()
    }
    for of, universes, value in (
        (draws, ["persons"], 16.465155),
        (draws, ["persons", "housing"], 16.746346),
        (left, ["persons"], 13.125942),
        (left, ["persons", "housing"], 13.450115),
    ):
        together = record([d for u in universes for d in of[u]], Neighbours.BOUNDED)
        assert exact_epsilon(together, spec.budget.delta) == pytest.approx([value, value], abs=1e-6)
    assert left["housing"] == list(draws["housing"])
    total_of_states = spec.persons.plan.cost * Fraction(1440, 4099) * Fraction(3773, 4097)
    assert (
        cost(GAUSSIAN.currency, record(left["persons"], Neighbours.BOUNDED))
        == spec.persons.plan.cost - total_of_states
    )
    lines = changes(draws["persons"], PL94, spec.terms.levels, spec.terms.exact["persons"])
    assert next(c for c in lines if c.what == "anything within one State").differing == record(
        left["persons"], Neighbours.BOUNDED
    )
    words = definitions(BOUNDED, spec.terms.exact)
    assert (
        "total of persons at State and above; total of housing units at Block and above"
        in words[INVARIANT_NEIGHBOURS]
    )
    assert "need not agree" in words[ANY]


def test_bounds_by_buildings_drop_nothing() -> None:
    spec = das.load_spec(CONFIGS / "pl94-2010.toml")
    bounds = das.load_spec(
        CONFIGS / "pl94-2010.toml", ["constraints={housing_units = true, group_quarters = true}"]
    )
    assert bounds.terms.exact["persons"] == ()
    draws = {"persons": bounds.persons.plan.measurements}
    said = promises(bounds.terms, draws)
    assert said.guarantee == said.invariant_neighbours
    assert spec.terms.exact == {"persons": (("State", "total"),), "housing": (("Block", "total"),)}


def test_an_exact_count_fixes_its_own_sums_at_its_level_and_above() -> None:
    third = Fraction(1, 3)
    plan = Plan.priced(
        GAUSSIAN,
        BOUNDED,
        [
            (lv, q, third)
            for lv in ("US", "State", "Block")
            for q in ("total", "hhgq", "hhinstlevels", "hispanic * hhgq")
        ],
    )
    left = free(plan.measurements, [("State", "hhgq")], PL94, ("US", "State", "Block"))
    gone = {(d.level, d.query) for d in set(plan.measurements) - set(left)}
    assert gone == {(lv, q) for lv in ("US", "State") for q in ("total", "hhgq", "hhinstlevels")}


def test_nobody_agrees_on_totals_who_was_added_or_removed() -> None:
    assert list(definitions(Neighbours.UNBOUNDED, {"persons": [("State", "total")]})) == [ANY]
    assert list(definitions(Neighbours.UNBOUNDED, {"persons": []})) == [ANY, INVARIANT_NEIGHBOURS]
    assert (
        "No measurement is free here" in definitions(BOUNDED, {"persons": []})[INVARIANT_NEIGHBOURS]
    )


def test_what_is_exact_of_places_in_two_units_is_known_of_neither() -> None:
    """A root and two states; one state is in two units. A record that moves between these two
    agrees on the totals of all states, and changes both units' own."""
    levels = ("US", "State", "County")
    costs = [(level, query, Fraction(1, 7)) for level in levels for query in ("total", "hhgq")]
    plan = Plan.priced(GAUSSIAN, BOUNDED, costs)

    def left(exact: str, split: tuple[str, ...]) -> set[tuple[str, str]]:
        return {
            (d.level, d.query)
            for d in free(plan.measurements, [(exact, "total")], PL94, levels, split)
        }

    every = {(d.level, d.query) for d in plan.measurements}
    assert every - left("State", ()) == {("US", "total"), ("State", "total")}
    assert every - left("State", ("State", "County")) == {("US", "total")}
    # counties that are whole tell of the units above, however the states are; those in two units of
    # whole states alone
    assert every - left("County", ("State",)) == {(level, "total") for level in levels}
    assert every - left("County", ("County",)) == {("US", "total"), ("State", "total")}
    unit_of, state_of = (
        np.array([0, 1, 2]),
        np.array([0, 0, 1]),
    )  # places in units, and units in states
    for one, other in product(range(3), repeat=2):
        same_state = state_of[unit_of[one]] == state_of[unit_of[other]]
        told = {("State", "total")} if same_state and unit_of[one] != unit_of[other] else set()
        assert told <= left("State", ("State", "County"))


def test_in_words_only_whole_places_follow_from_exact_totals() -> None:
    exact = {"persons": [("State", "total")]}
    said = definitions(BOUNDED, exact, {"persons": ("State",)})[INVARIANT_NEIGHBOURS]
    assert "total of persons at State and above, at levels whose places are each one unit." in said
    assert "one unit" not in definitions(BOUNDED, exact)[INVARIANT_NEIGHBOURS]
