"""What single changes cost, against counting the answers that really change, record by record."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import das
from das.accounting import tight
from das.accounting.changes import below, changes, touched
from das.accounting.draws import record
from das.accounting.guarantee import cost
from das.model.budget import Neighbours, PlannedMeasurement
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, MECHANISMS
from das.model.plan import Plan
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.model.spine import Spine
from tests.oracles import dense
from tests.strategies import fractions, queries, schemas, spines

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Schema, Spine, Plan]:
    """A schema, a tree, and one to three queries at each level of it, under either neighbor
    relation.
    """
    schema, spine = draw(schemas(most_attributes=2, most_levels=3)), draw(spines(3, 3))
    costs = [
        (level, draw(queries(schema)).name, draw(fractions(9)))
        for level in spine.levels
        for _ in range(draw(st.integers(1, 3)))
    ]
    neighbours = draw(st.sampled_from(list(Neighbours)))
    return (
        schema,
        spine,
        Plan.priced(draw(st.sampled_from(list(MECHANISMS.values()))), neighbours, costs),
    )


def loss(
    plan: Plan, schema: Schema, spine: Spine, one: tuple[int, int], other: tuple[int, int]
) -> Fraction:
    """What the plan's noise tells of a record in (lowest unit, cell) ``one`` against ``other``,
    from dense answers: rho = sum of squared differences / (2 sigma^2), or epsilon = sum of absolute
    differences / b."""
    total = Fraction(0)
    for d in plan.measurements:
        matrix, up = dense(schema, schema.query(d.query)), spine.up(spine.levels[-1], d.level)
        answers = np.zeros((2, spine.units(d.level), len(matrix)), dtype=int)
        for i, (unit, cell) in enumerate((one, other)):
            answers[i, up[unit]] += matrix[:, cell]
        gap = answers[1] - answers[0]
        if plan.mechanism is DISCRETE_GAUSSIAN:
            total += int((gap**2).sum()) / (2 * d.parameter)
        else:
            total += int(abs(gap).sum()) / d.parameter
    return total


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_no_change_of_attributes_tells_more_than_its_line(
    world: tuple[Schema, Spine, Plan],
) -> None:
    """Every pair of cells: at most the line of the attributes in which they differ, and for some
    pair exactly.
    """
    schema, spine, plan = world
    cells = list(np.ndindex(*schema.shape))
    for line in changes(plan.measurements, schema, spine.levels):
        if line.kind != "attributes":
            continue
        all_ = line.what == "every attribute"
        free = [a.name for a in schema.attributes] if all_ else line.what.split(" * ")
        allowed = [a.name in free for a in schema.attributes]
        pairs = [
            (i, j)
            for (i, v), (j, w) in product(enumerate(cells), repeat=2)
            if all(x == y or ok for x, y, ok in zip(v, w, allowed, strict=True))
        ]
        losses = [loss(plan, schema, spine, (0, i), (0, j)) for i, j in pairs]
        said = cost(plan.mechanism.currency, line.differing)
        assert max(losses) <= said
        if len(plan.measurements) <= 2 or not schema.recodes:
            assert max(losses) == said  # at most two groupings of an attribute, or one


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_no_move_tells_more_than_its_line(world: tuple[Schema, Spine, Plan]) -> None:
    """Every pair of places: exactly the line of the lowest level that holds both."""
    schema, spine, plan = world
    lines = {
        c.what: cost(plan.mechanism.currency, c.differing)
        for c in changes(plan.measurements, schema, spine.levels)
    }
    lowest = spine.levels[-1]
    for one, other in product(range(spine.units(lowest)), repeat=2):
        if one != other:
            joint = [
                lv
                for lv in spine.levels
                if spine.up(lowest, lv)[one] == spine.up(lowest, lv)[other]
            ][-1]
            assert (
                loss(plan, schema, spine, (one, 0), (other, 0))
                == lines[f"place within one {joint}"]
            )


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_any_other_record_is_the_most_of_all(world: tuple[Schema, Spine, Plan]) -> None:
    schema, spine, plan = world
    lines = [
        (c.kind, cost(plan.mechanism.currency, c.differing))
        for c in changes(plan.measurements, schema, spine.levels)
    ]
    factor = 1 if plan.neighbours is Neighbours.BOUNDED else 2
    assert lines[0] == ("record", factor * plan.cost)
    assert all(c <= lines[0][1] for _, c in lines)


def test_the_bureaus_own_figures_by_level() -> None:
    """Expected values of the production system's test of its per-attribute and per-level epsilons:
    global scale 343/256, levels by 44, 44, 44, 44, 127 and 721 of 1,024, delta = 1e-10; "block
    within" each level."""
    levels = ("US", "State", "County", "Tract", "Block_Group", "Block")
    parts = (44, 44, 44, 44, 127, 721)
    pure = {
        "US": 0.7142857142857141,
        "State": 0.682215743440233,
        "County": 0.650145772594752,
        "Tract": 0.6180758017492709,
        "Block_Group": 0.5255102040816325,
    }
    zcdp = {
        "US": 7.083721309900284,
        "State": 6.907723397016525,
        "County": 6.72818124294281,
        "Tract": 6.544831171631813,
        "Block_Group": 5.991352275013924,
    }
    for mechanism, total, expected in (
        (GEOMETRIC, Fraction(256, 343), pure),
        (DISCRETE_GAUSSIAN, Fraction(256, 343) ** 2, zcdp),
    ):
        costs = [(lv, "detailed", total * n / 1024) for lv, n in zip(levels, parts, strict=True)]
        plan = Plan.priced(mechanism, Neighbours.BOUNDED, costs)
        for level, value in expected.items():
            spent = cost(
                mechanism.currency,
                record(below(plan.measurements, levels, level), Neighbours.BOUNDED),
            )
            ours = float(spent) if mechanism is GEOMETRIC else tight(spent, Fraction(1, 10**10))
            assert ours == pytest.approx(value, rel=1e-5)


def test_production_by_hand() -> None:
    """2020 redistricting: of each level's share, what goes to queries that sum over Hispanic origin
    is not touched.
    """
    plan = das.load_spec(CONFIGS / "pl94-2010.toml", ["geography.spine=tabulation"]).persons.plan
    found = touched(plan.measurements, PL94, ["hispanic"])
    names = {
        "hispanic",
        "hispanic * cenrace",
        "votingage * hispanic",
        "votingage * hispanic * cenrace",
        "detailed",
    }
    assert {d.query for d in found} == names
    # levels: total, cenrace, votingage, hhinstlevels, hhgq, votingage * cenrace
    without = [
        (Fraction(104, 4099), Fraction(0 + 52 + 26 + 26 + 26 + 130, 4097)),
        (Fraction(1440, 4099), Fraction(3773 + 6 + 6 + 6 + 6 + 12, 4097)),
        (Fraction(447, 4099), Fraction(3126 + 10 + 10 + 10 + 10 + 28, 4097)),
        (Fraction(687, 4099), Fraction(1567 + 8 + 5 + 5 + 5 + 20, 4102)),
        (Fraction(1256, 4099), Fraction(1705 + 3 + 3 + 3 + 3 + 9, 4099)),
        (Fraction(165, 4099), Fraction(5 + 9 + 5 + 5 + 5 + 21, 4097)),
    ]
    by_hand = Fraction(293764, 114921) * sum(level * (1 - part) for level, part in without)
    assert cost(plan.mechanism.currency, record(found, Neighbours.BOUNDED)) == by_hand
    everything = touched(plan.measurements, PL94, [a.name for a in PL94.attributes])
    assert {d.query for d in plan.measurements} - {d.query for d in everything} == {"total"}


def test_which_attributes_are_listed_together() -> None:
    half = Fraction(1, 2)
    draws = [
        PlannedMeasurement.priced("US", q, DISCRETE_GAUSSIAN, Neighbours.BOUNDED, half)
        for q in ("hispanic * cenrace", "hhinstlevels", "hispanic", "detailed")
    ]
    listed = [c.what for c in changes(draws, PL94, ("US", "Block")) if c.kind == "attributes"]
    assert listed == [
        "hhgq",
        "votingage",
        "hispanic",
        "cenrace",
        "hispanic * cenrace",
        "every attribute",
    ]
    spent = {
        c.what: cost(DISCRETE_GAUSSIAN.currency, c.differing)
        for c in changes(draws, PL94, ("US", "Block"))
    }
    assert spent["hhgq"] == 1  # by the coarser view hhinstlevels, and by detailed
    assert spent["place within one US"] == 0  # nothing is measured below
