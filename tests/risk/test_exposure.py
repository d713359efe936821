"""Unique persons of a run: which they are, what was published of them, and what leaves."""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das import risk
from das.model import tabulation
from das.model.budget import Allocation, Neighbours
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement
from das.model.mechanisms import DISCRETE_GAUSSIAN, MECHANISMS, Mechanism
from das.model.plan import Plan
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.tools.risk.truth.exposure import exposure, ladder, outlook, uniques
from tests.strategies import histograms, queries, schemas

SCHEMA = Schema("two", (Attribute("sex", ("f", "m")), Attribute("age", ("young", "old"))))
SPINE = Spine(
    ("Country", "Town", "Block"),
    (np.array(["0"]), np.array(["0a", "0b"]), np.array(["0a1", "0a2", "0b1", "0b2"])),
    (np.array([0]), np.array([0, 0]), np.array([0, 0, 1, 1])),
)
TREE = MeasuredSpine.from_published(SPINE)
DETAILED = dict.fromkeys(SPINE.levels, ("detailed",))
BLOCKS = np.array([[1, 0, 3, 0], [0, 1, 2, 0], [1, 0, 0, 0], [0, 1, 1, 0]])
#: Block level, detailed: (0, 0), (1, 1), (2, 0), (3, 1), (3, 2). Of these unique in their town too:
#: (0, 0), (1, 1), (2, 0), (3, 1), (3, 2); in the country none: cells 0 and 1 have 2 each, cell 2
#: has 6.
half = Fraction(1, 2)


def plan(
    neighbours: Neighbours = Neighbours.UNBOUNDED, mechanism: Mechanism = DISCRETE_GAUSSIAN
) -> Plan:
    levels = {"Country": Fraction(1, 4), "Town": Fraction(1, 4), "Block": half}
    measured = {lv: {"detailed": Fraction(3, 4), "sex": Fraction(1, 4)} for lv in levels}
    return Plan.from_allocation(Fraction(2), mechanism, neighbours, Allocation(levels, measured))


def dense(blocks: np.ndarray) -> dict[str, np.ndarray]:
    towns = np.array([blocks[:2].sum(axis=0), blocks[2:].sum(axis=0)])
    return {"Country": towns.sum(axis=0)[None], "Town": towns, "Block": blocks}


def truth() -> dict[str, Confidential[Histogram]]:
    out = {}
    for level, table in dense(BLOCKS).items():
        unit, cell = np.nonzero(table)
        out[level] = Confidential(
            Histogram.from_triplets(len(table), 4, unit, cell, table[unit, cell])
        )
    return out


class Noisy:
    """True answers plus the level's number plus the unit's and the answer's, so that a mix-up
    shows.
    """

    def __init__(self, unmeasured: set[tuple[str, int]] = frozenset()) -> None:  # type: ignore[assignment]
        self.unmeasured = unmeasured

    def queries(self, level: str) -> tuple[str, ...]:
        return ("detailed", "sex")

    def value(self, level: str, query: str, unit: int, answer: int) -> int:
        true = SCHEMA.query(query).answer(dense(BLOCKS)[level])
        return int(true[unit, answer]) + 7 * SPINE.index(level) - 3 * unit + 2 * answer

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        n = SCHEMA.query(query).answers
        values = np.array(
            [[self.value(level, query, u, a) for a in range(n)] for u in range(start, stop)]
        )
        variance = np.array(
            [np.inf if (level, u) in self.unmeasured else 2.0 for u in range(start, stop)]
        )
        return Measurement(level, query, start, values, variance)


@settings(max_examples=40)
@given(st.data())
def test_uniques_are_the_ones_of_the_dense_table(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    query = data.draw(queries(schema))
    histogram = data.draw(histograms(3, schema.cells))
    unit, answer = uniques(histogram, query)
    expected = np.argwhere(query.answer(histogram.dense()) == 1)
    assert np.array_equal(np.stack([unit, answer], axis=1), expected)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("mechanism", list(MECHANISMS.values()))
def test_rows_are_the_one_level_posteriors(neighbours: Neighbours, mechanism: Mechanism) -> None:
    p = plan(neighbours, mechanism)
    rows = exposure(truth(), Noisy(), p, TREE, SCHEMA, prior=0.3, queries=DETAILED)
    blocks = {r.bin: r for r in rows if r.level == "Block"}
    at = [(0, 0), (1, 1), (2, 0), (3, 1), (3, 2)]
    name = "rho" if mechanism is DISCRETE_GAUSSIAN else "epsilon"
    after = np.array(
        [
            risk.posterior(
                Noisy().value("Block", "detailed", u, a),
                prior=0.3,
                neighbours=neighbours,
                **{name: Fraction(3, 4)},
            )
            for u, a in at
        ]
    )
    assert blocks["all"].uniques == 5
    assert blocks["all"].mean == pytest.approx(after.mean())
    assert blocks["all"].max == pytest.approx(after.max())
    assert blocks["all"].risk == pytest.approx(after.mean() / 0.3)
    assert blocks["all"].decided == (after > 0.5).mean()
    assert blocks["1"].uniques == 1  # block 2 holds one person
    assert blocks["1"].mean == pytest.approx(after[2])
    assert blocks["2-9"].uniques == 4
    assert {r.level: r.uniques for r in rows if r.bin == "all"} == {"Town": 5, "Block": 5}


def test_units_that_were_not_measured_are_left_out() -> None:
    rows = exposure(
        truth(), Noisy({("Block", 3)}), plan(), TREE, SCHEMA, prior=0.5, queries=DETAILED
    )
    assert next(r for r in rows if r.level == "Block" and r.bin == "all").uniques == 3
    up = ladder(truth(), Noisy({("Town", 0)}), plan(), TREE, SCHEMA, prior=0.5)
    assert next(r for r in up if r.bin == "all").uniques == 3


def test_every_query_is_taken_where_none_is_named() -> None:
    rows = exposure(truth(), Noisy(), plan(), TREE, SCHEMA, prior=0.5)
    assert {(r.level, r.query) for r in rows} >= {("Block", "sex"), ("Block", "detailed")}
    sex = next(r for r in rows if (r.level, r.query, r.bin) == ("Block", "sex", "all"))
    assert sex.uniques == 5  # women of blocks 0 to 3, the man of block 3


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_ladder_weighs_one_count_a_level(neighbours: Neighbours) -> None:
    rows = ladder(truth(), Noisy(), plan(neighbours), TREE, SCHEMA, prior=0.3)
    assert {r.levels for r in rows} == {2}  # nobody is unique in the country
    row = next(r for r in rows if r.bin == "all")
    at = [(0, 0), (1, 1), (2, 0), (3, 1), (3, 2)]
    x = [
        [Noisy().value("Block", "detailed", u, a), Noisy().value("Town", "detailed", u // 2, a)]
        for u, a in at
    ]
    after = risk.joint_posterior(
        x, rho=[Fraction(3, 4), Fraction(3, 8)], prior=0.3, neighbours=neighbours
    )
    assert (row.level, row.uniques) == ("Town", 5)
    assert row.mean == pytest.approx(after.mean())


def test_the_ladder_has_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old woman of block 1 is alone in the country. Where her town is not measured, she is on
    neither rung.
    """
    monkeypatch.setattr(
        sys.modules[__name__],
        "BLOCKS",
        np.array([[2, 0, 3, 0], [2, 1, 2, 0], [2, 0, 1, 0], [2, 0, 0, 2]]),
    )
    up = {
        r.levels: r.uniques
        for r in ladder(truth(), Noisy(), plan(), TREE, SCHEMA, prior=0.3)
        if r.bin == "all"
    }
    assert up == {2: 2, 3: 1}
    gap = ladder(truth(), Noisy({("Town", 0)}), plan(), TREE, SCHEMA, prior=0.3)
    assert {r.levels: r.uniques for r in gap if r.bin == "all"} == {2: 1}


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_outlook_needs_the_plan_alone(neighbours: Neighbours) -> None:
    rows = outlook(plan(neighbours), [0.5, 0.1])
    rule = {"neighbours": neighbours}
    one = next(
        r for r in rows if (r.level, r.query, r.prior, r.levels) == ("Block", "detailed", 0.1, 1)
    )
    assert one.marginal_posterior == pytest.approx(
        risk.marginal_posterior(rho=0.75, prior=0.1, **rule), abs=1e-12
    )
    assert one.decision_probability == pytest.approx(
        risk.decision_probability(rho=0.75, prior=0.1, **rule), abs=1e-12
    )
    three = next(r for r in rows if r.levels == 3 and r.prior == 0.5)
    assert three.level == "Country"
    costs = [0.75, 0.375, 0.375]
    assert three.marginal_posterior == pytest.approx(
        risk.joint_marginal_posterior(rho=costs, prior=0.5, **rule)
    )
    assert len(rows) == 2 * (6 + 2)
    assert outlook(plan(), [0.5], query="age")[-1].levels == 1  # never measured: no ladder


#: Town 0b has one block: it is measured with the budget of both, and its block with none.
UNEVEN = Spine(
    SPINE.levels,
    (SPINE.codes[0], SPINE.codes[1], SPINE.codes[2][:3]),
    (SPINE.parent[0], SPINE.parent[1], np.array([0, 0, 1])),
)
BYPASSED = MeasuredSpine.bypassed(UNEVEN, np.arange(3))


def test_every_person_is_weighed_with_the_noise_of_her_own_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An only child that is not measured is on no rung, and has no row; the unit above it has the
    noise of both.
    """
    blocks = np.array([[1, 0, 3, 0], [0, 1, 2, 0], [1, 0, 0, 1]])
    tables = {
        "Country": blocks.sum(axis=0)[None],
        "Town": np.array([blocks[:2].sum(axis=0), blocks[2]]),
        "Block": blocks,
    }
    monkeypatch.setattr(sys.modules[__name__], "dense", lambda _: tables)
    levels = {"Country": Fraction(1, 8), "Town": Fraction(1, 4), "Block": Fraction(5, 8)}
    shares = Allocation(
        levels, {lv: {"detailed": Fraction(3, 4), "sex": Fraction(1, 4)} for lv in levels}
    )
    p = Plan.from_allocation(
        Fraction(2),
        DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        shares,
        tabulation.classes(SPINE.levels, BYPASSED.paths),
        BYPASSED.paths,
    )
    noisy, true = Noisy({("Block", 2)}), {}
    for level, table in tables.items():
        unit, cell = np.nonzero(table)
        true[level] = Confidential(
            Histogram.from_triplets(len(table), 4, unit, cell, table[unit, cell])
        )
    cost = {
        ("Country", 0): 3 / 16,
        ("Town", 0): 3 / 8,
        ("Town", 1): 21 / 16,
        ("Block", 0): 15 / 16,
        ("Block", 1): 15 / 16,
    }

    def weighed(cell: int, *units: tuple[str, int]) -> float:
        x = [noisy.value(level, "detailed", unit, cell) for level, unit in units]
        rho = [cost[u] for u in units]
        return float(risk.joint_posterior(x, rho=rho, prior=0.3, neighbours=Neighbours.BOUNDED))

    b0, b1, t0, t1, top = ("Block", 0), ("Block", 1), ("Town", 0), ("Town", 1), ("Country", 0)
    rows = exposure(true, noisy, p, BYPASSED, SCHEMA, prior=0.3, queries=DETAILED)
    rows += ladder(true, noisy, p, BYPASSED, SCHEMA, prior=0.3)
    found = {(r.level, r.levels): (r.uniques, r.mean, r.max) for r in rows if r.bin == "all"}
    expected = {
        ("Block", 1): [weighed(0, b0), weighed(1, b1)],
        ("Town", 1): [weighed(0, t0), weighed(1, t0), weighed(0, t1), weighed(3, t1)],
        ("Country", 1): [weighed(1, top), weighed(3, top)],
        ("Town", 2): [weighed(0, b0, t0), weighed(1, b1, t0)],
        ("Country", 2): [weighed(3, t1, top)],
        ("Country", 3): [weighed(1, b1, t0, top)],
    }
    assert found.keys() == expected.keys()
    for key, after in expected.items():
        assert found[key] == pytest.approx((len(after), np.mean(after), max(after))), key


def test_the_outlook_says_which_units_it_is_of() -> None:
    shares = Allocation(
        {lv: Fraction(1, 3) for lv in SPINE.levels},
        {lv: {"detailed": Fraction(1)} for lv in SPINE.levels},
    )
    p = Plan.from_allocation(
        Fraction(3),
        DISCRETE_GAUSSIAN,
        Neighbours.UNBOUNDED,
        shares,
        tabulation.classes(SPINE.levels, BYPASSED.paths),
        BYPASSED.paths,
    )
    rows = {(o.level, o.unit_class, o.levels): o.marginal_posterior for o in outlook(p, [0.5])}
    costs = {
        ("Country", "Country", 1): [1],
        ("Town", "Town", 1): [1],
        ("Town", "Town to Block", 1): [2],
        ("Block", "Block", 1): [1],
        ("Town", "Block, Town", 2): [1, 1],
        ("Country", "Town to Block, Country", 2): [2, 1],
        ("Country", "Block, Town, Country", 3): [1, 1, 1],
    }
    assert rows == {
        k: pytest.approx(float(risk.joint_marginal_posterior(rho=c, prior=0.5)), abs=1e-12)
        for k, c in costs.items()
    }
