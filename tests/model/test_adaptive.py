"""Tables that are the finer the larger the group: how sizes nest, which size a group has, what a
level costs.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError, SpecError
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC
from das.publications.detailed.model.iterations import GroupLevel
from das.publications.detailed.model.records import GroupRecords, GroupTotals
from das.publications.detailed.model.tables import (
    FIRST,
    HOUSEHOLD_TYPE,
    ONLY,
    PRODUCTS,
    SEX_BY_AGE,
    TENURE,
    AdaptiveTable,
    LevelPlan,
)

TABLES = [SEX_BY_AGE, HOUSEHOLD_TYPE, TENURE]
AT = GroupLevel("TRACT", 2)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_sizes_nest(table: AdaptiveTable) -> None:
    counts = np.random.default_rng(4).integers(0, 99, table.leaves)
    assert [len(np.unique(of)) for of in table.sizes] == list(table.answers)
    for coarse, fine in zip(table.sizes[:-1], table.sizes[1:], strict=True):
        to = np.zeros(fine.max() + 1, dtype=int)
        to[fine] = coarse
        assert np.array_equal(
            np.bincount(coarse, counts), np.bincount(to, np.bincount(fine, counts))
        )


def test_how_many_answers_each_size_has() -> None:
    assert {t.name: t.answers for t in TABLES} == {
        "t2": (1, 8, 18, 46),
        "t3": (1, 2, 4, 5),
        "t4": (1, 3),
    }
    assert [t.leaves for t in TABLES] == [46, 5, 4]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_age_and_sex_is_in_one_cell(size: int) -> None:
    cells = SEX_BY_AGE.cells[size]
    for sex in "12":
        of = [range(int(a), int(b) + 1) for a, b, s in cells if s == sex]
        assert sorted(age for ages in of for age in ages) == list(range(116))
    leaves = SEX_BY_AGE.cells[3]
    for leaf, answer in enumerate(SEX_BY_AGE.sizes[size]):
        (low, high, sex), (a, b, s) = leaves[leaf], cells[answer]
        assert int(a) <= int(low) <= int(high) <= int(b)
        assert sex == s


def test_cells_of_households_are_the_published_codes() -> None:
    assert [[c for (c,) in cells] for cells in HOUSEHOLD_TYPE.cells] == [
        ["0"],
        ["1", "6"],
        ["2", "3", "7", "8"],
        ["2", "4", "5", "7", "8"],
    ]
    assert HOUSEHOLD_TYPE.sizes[2].tolist() == [0, 1, 1, 2, 3]
    assert TENURE.sizes[1].tolist() == [0, 1, 2, 2]


def sizes(*of: list[int]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(x, dtype=np.int16) for x in of)


@pytest.mark.parametrize(
    "of, cells, says",
    [
        (sizes([0, 0, 0], [0, 0, 1], [0, 1, 1]), (1, 2, 2), "not finer"),
        (sizes([0, 0, 0], [0, 2, 2]), (1, 3), "not finer"),
        (sizes([0, 0, 0], [0, 1, 2]), (1, 2), "as many cells"),
    ],
)
def test_tables_check_themselves(
    of: tuple[np.ndarray, ...], cells: tuple[int, ...], says: str
) -> None:
    with pytest.raises(SpecError, match=says):
        AdaptiveTable("t", ("X",), of, tuple(tuple((str(i),) for i in range(n)) for n in cells))


def plan(
    first: Fraction = Fraction(1, 10), table: AdaptiveTable = SEX_BY_AGE, **given: object
) -> LevelPlan:
    thresholds = (100, 200, 200)[: len(table.sizes) - 1]
    values = {
        "stability": 9,
        "cost": Fraction(159, 1000),
        "thresholds": thresholds,
        "mechanism": DISCRETE_GAUSSIAN,
    } | given
    return LevelPlan(at=AT, table=table, first=first, **values)  # type: ignore[arg-type]


def test_reaching_a_threshold_passes_it() -> None:
    counts = np.array([-50, 0, 99, 100, 101, 199, 200, 10**9])
    assert plan().size(counts).tolist() == [0, 0, 0, 1, 1, 1, 3, 3]


@given(st.lists(st.integers(-5, 30), min_size=3, max_size=3).map(sorted), st.integers(-9, 40))
def test_a_size_is_how_many_thresholds_are_reached(thresholds: list[int], count: int) -> None:
    found = plan(thresholds=tuple(thresholds)).size(np.array([count]))
    assert found.tolist() == [sum(t <= count for t in thresholds)]


def test_the_draws_of_a_level_cost_what_it_costs() -> None:
    p = plan()
    assert [d.query for d in p.measurements] == [ONLY, FIRST, "t2"]
    assert (
        p.measurement(ONLY).cost == p.measurement(FIRST).cost + p.measurement("t2").cost == p.cost
    )
    assert p.measurement(ONLY).parameter == Fraction(9, 1) / (2 * p.cost)
    assert p.measurement(FIRST).parameter == 9 / (2 * p.cost / 10)
    assert p.measurement("t2").parameter == 9 / (2 * p.cost * 9 / 10)
    assert p.level == "TRACT detailed"


def test_where_the_size_is_known_there_is_one_draw() -> None:
    p = plan(Fraction(0), TENURE, mechanism=GEOMETRIC)
    assert [(d.query, d.cost, d.parameter) for d in p.measurements] == [("t4", p.cost, 9 / p.cost)]
    assert p.level == "TRACT detailed, t4"


@pytest.mark.parametrize(
    "given, says",
    [
        ({"stability": 0}, "no noise"),
        ({"cost": Fraction(0)}, "no noise"),
        ({"cost": Fraction(-1)}, "no noise"),
        ({"first": Fraction(1)}, "no noise"),
        ({"first": Fraction(-1)}, "no noise"),
        ({"thresholds": (1, 2)}, "do not choose"),
        ({"thresholds": (1, 2, 3, 4)}, "do not choose"),
        ({"thresholds": (3, 2, 4)}, "do not choose"),
    ],
)
def test_plans_of_levels_check_themselves(given: dict[str, object], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        plan(**given)  # type: ignore[arg-type]


# --- records and totals
# -----------------------------------------------------------------------------------------


def records(**change: object) -> GroupRecords:
    given: dict[str, object] = {
        "block": np.array([0, 5], dtype=np.int32),
        "codes": np.full((2, 8), 1000, dtype=np.int16),
        "ethnicity": np.array([1000, 9999], dtype=np.int16),
        "cells": {"t2": np.array([0, 45], dtype=np.int8)},
    }
    return GroupRecords(**(given | change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change, says",
    [
        ({"codes": np.full((2, 7), 1000, dtype=np.int16)}, "differ in length"),
        ({"ethnicity": np.array([1000], dtype=np.int16)}, "differ in length"),
        ({"cells": {"t2": np.array([0], dtype=np.int8)}}, "differ in length"),
        ({"block": np.array([0, -1], dtype=np.int32)}, "negative block"),
        ({"codes": np.full((2, 8), -1, dtype=np.int16)}, "four digits"),
        ({"ethnicity": np.array([0, 10_000], dtype=np.int16)}, "four digits"),
        ({"cells": {"t2": np.array([0, 46], dtype=np.int8)}}, "does not have"),
        ({"cells": {"t4": np.array([0, 4], dtype=np.int8)}}, "does not have"),
        ({"cells": {"t2": np.array([-1, 4], dtype=np.int8)}}, "does not have"),
    ],
)
def test_records_check_themselves(change: dict[str, object], says: str) -> None:
    assert len(records()) == 2
    with pytest.raises(InputError, match=says):
        records(**change)
    assert repr(records()) == "<GroupRecords: confidential>"


def totals(
    region: list[bytes], iteration: list[int], count: list[int], kind: str = "USA"
) -> GroupTotals:
    of = np.array(region, dtype="S2"), np.array(iteration, dtype=np.int32), np.array(count)
    return GroupTotals({"USA": of[0]}, {kind: of[1]}, {"USA": of[2]})


@pytest.mark.parametrize(
    "given, says",
    [
        (([b"1"], [0], [1, 2]), "differ in length"),
        (([b"1", b"1"], [0, 0], [1, 2]), "there twice"),
        (([b"1", b"1"], [1, 0], [1, 2]), "not sorted"),
        (([b"2", b"1"], [0, 1], [1, 2]), "not sorted"),
        (([b"1"], [0], [1], "STATE"), "same types"),
    ],
)
def test_totals_check_themselves(
    given: tuple[list[bytes], list[int], list[int]], says: str
) -> None:
    assert len(totals([b"1", b"1", b"2"], [0, 3, 0], [5, -1, 0])) == 3
    with pytest.raises(InputError, match=says):
        totals(*given)


def test_products_have_their_tables() -> None:
    assert {p.name: [t.name for t in p.tables] for p in PRODUCTS.values()} == {
        "persons": ["t2"],
        "households": ["t3", "t4"],
    }
