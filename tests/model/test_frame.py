"""What a user has in memory: trees, schemas and plans made of it, and what each refuses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError, SpecError
from das.geography import tabulation
from das.model import frame
from das.model.budget import Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC
from das.model.names import Names
from das.model.plan import Plan
from das.model.records import Blocks
from das.model.schema import Schema
from das.model.spine import Spine

PLACES = pd.DataFrame(
    {
        "State": ["2", "1", "2", "2"],
        "County": ["2b", "1a", "2a", "2b"],
        "Block": ["2b1", "1a0", "2a0", "2b0"],
        "called": ["Bee", "Ay", "Too", "Bee"],
    }
)
LEVELS = ["US", "State", "County", "Block"]


# --- columns
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        lambda f: f,
        lambda f: f.to_dict("list"),
        pa.Table.from_pandas,
        lambda f: {c: f[c].to_numpy() for c in f},
        lambda f: f.astype("category"),
        lambda f: f.convert_dtypes(),
    ],
)
def test_a_frame_of_any_kind_makes_one_spine(made: Any) -> None:
    spine, wanted = (
        Spine.from_frame(made(PLACES), LEVELS, {"County": "called"}),
        Spine.from_frame(PLACES, LEVELS),
    )
    assert [c.tolist() for c in spine.codes] == [c.tolist() for c in wanted.codes]
    assert spine.names[2].tolist() == ["Ay", "Too", "Bee"]


def test_each_row_is_found_again() -> None:
    spine = Spine.from_frame(PLACES, LEVELS)
    assert (
        spine.geocodes("Block")[spine.find("Block", PLACES["Block"])].tolist()
        == PLACES["Block"].tolist()
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=30
    )
)
def test_a_frame_makes_the_tree_that_a_reader_makes(rows: list[tuple[int, int, int]]) -> None:
    """Of complete codes, in any order and with places listed again."""
    fields = {
        level: np.array(["".join(map(str, r[: n + 1])) for r in rows])
        for n, level in enumerate(LEVELS[1:])
    }
    names = {"County": Names.from_pairs(fields["County"], np.strings.add("c", fields["County"]))}
    read, _ = tabulation.spine(Blocks(fields, None, names), LEVELS)
    spine = Spine.from_frame(
        fields | {"called": np.strings.add("c", fields["County"])}, LEVELS, {"County": "called"}
    )
    for mine, theirs in zip(
        (*spine.codes, *spine.parent, *spine.names),
        (*read.codes, *read.parent, *read.names),
        strict=True,
    ):
        assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    "change, levels, said",
    [
        (lambda f: f, "Block", "give a list of columns"),
        (lambda f: f, [], "give a list of columns"),
        (lambda f: f, ["US", "Stat"], r"no column 'Stat'[\s\S]*State, County, Block"),
        (lambda f: f[:0], LEVELS, "there is no place"),
        (lambda f: f["Block"].tolist(), LEVELS, "a list, and no table"),
        (
            lambda f: f.assign(Block=[1, 2, 3, 4]),
            LEVELS,
            "column 'Block' is not text[^$]*read the column as text",
        ),
        (
            lambda f: f.assign(Block=["a", None, "b", "c"]),
            LEVELS,
            "'Block' has no value in 1 of 4 rows[^$]*number 1",
        ),
        (
            lambda f: f.assign(Block=["a", "b", float("nan"), "c"]),
            LEVELS,
            "'Block' has no value in 1 of 4 rows",
        ),
        (lambda f: f.assign(Block=["a", "b", "", "c"]), LEVELS, "'Block' is empty in 1 of 4 rows"),
        (
            lambda f: f.assign(County=["x"] * 4),
            LEVELS,
            "County x lies in more than one State: 1 and 2",
        ),
        (
            lambda f: f,
            ["State", "Block"],
            "level 'State' has 2 units, but the first level must have one",
        ),
        (lambda f: f.to_dict("list") | {"Block": ["a"]}, LEVELS, "columns have 1 to 4 values"),
        (
            lambda f: f.to_dict("list") | {"Block": np.zeros((4, 2), str)},
            LEVELS,
            "has 2 dimensions",
        ),
    ],
)
def test_a_frame_that_is_no_tree_is_refused(change: Any, levels: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Spine.from_frame(change(PLACES), levels)


def test_names_are_of_levels() -> None:
    with pytest.raises(InputError, match="names of 'Place', which is no level"):
        Spine.from_frame(PLACES, LEVELS, {"Place": "called"})


@pytest.mark.parametrize(
    "values, said",
    [
        ([1.0, 2.0], "not of whole numbers"),
        ([1, -1], "negative in row number 1"),
        (["1", "2"], "not of whole numbers"),
        ([1, None], "no value in 1 of 2"),
    ],
)
def test_counts_are_whole(values: list[Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        frame.counts({"n": values}, "n", "records")


def test_counts_are_read() -> None:
    for values in ([3, 0], np.array([3, 0], np.uint8), pd.array([3, 0], "Int64")):
        assert frame.counts({"n": values}, "n", "records").tolist() == [3, 0]


# --- schemas
# ---------------------------------------------------------------------------------------------------


def test_a_schema_of_numbers_lists_and_labels() -> None:
    adult = ("age", {"minor": range(18), "adult": range(18, 120)})
    schema = Schema.from_attributes(
        "people",
        {"age": 120, "sex": {"m": "Male", "f": "Female"}, "home": ["house", "gq"]},
        groupings={"votingage": adult},
        impossible=[{"age": [0, 1], "home": ["gq"]}],
        dwelling="home",
    )
    assert schema.shape == (120, 2, 2)
    assert schema.attribute("age").levels[-1] == "119"
    assert schema.query("votingage * sex").captions()[:2] == ["minor, Male", "minor, Female"]
    assert (~schema.possible).sum() == 4
    assert schema.dwelling == "home"
    assert repr(schema) == "<Schema 'people': age 120 x sex 2 x home 2 = 480 cells>"


@pytest.mark.parametrize(
    "attributes, groupings, said",
    [
        (["age"], None, r"its attributes are \['age'\]"),
        ({"age": "old"}, None, "its levels are 'old'"),
        ({"age": [1, 2]}, None, "give a list of texts"),
        ({"age": 0}, None, "at least one level"),
        ({}, None, "at least one attribute"),
        ({"age": ["a", "a"]}, None, "levels must differ"),
        ({"age": 3}, {"old": ("sex", {"a": [1]})}, "no attribute 'sex'"),
        ({"age": 3}, {"old": ("age", {"a": [0, 1], "b": [1, 2]})}, "exactly one group; see '1'"),
        ({"age": 3}, {"old": ("age", {"a": [0], "b": [1]})}, "exactly one group; see '2'"),
    ],
)
def test_a_schema_that_is_none_is_refused(attributes: Any, groupings: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Schema.from_attributes("x", attributes, groupings=groupings)


# --- plans
# -----------------------------------------------------------------------------------------------------


def test_a_plan_shares_its_budget_exactly() -> None:
    plan = Plan.of_rho(
        "1/2", {"A": "1/4", "B": "3/4"}, {"A": ["total"], "B": {"total": "0.1", "sex": "9/10"}}
    )
    assert [(d.level, d.query, d.cost) for d in plan.measurements] == [
        ("A", "total", Fraction(1, 8)),
        ("B", "total", Fraction(3, 80)),
        ("B", "sex", Fraction(27, 80)),
    ]
    assert (plan.mechanism, plan.neighbours) == (DISCRETE_GAUSSIAN, Neighbours.BOUNDED)
    same = Plan.of_epsilon(3, ["A", "B", "C"], ["total", "sex"], "unbounded")
    assert {d.cost for d in same.measurements} == {Fraction(1, 2)}
    assert (same.mechanism, same.cost) == (GEOMETRIC, 3)
    assert (
        repr(plan)
        == "<Plan: rho = 1/2, 3 queries at 2 levels, discrete-gaussian, bounded neighbors>"
    )


@pytest.mark.parametrize(
    "rho, levels, queries, neighbours, said",
    [
        (0.5, ["A"], ["q"], "bounded", "plan, rho: 0.5 is a float, which is not exact"),
        (1, {"A": 1.0}, ["q"], "bounded", "levels, 'A': 1.0 is a float"),
        (1, ["A"], {"q": 1.0}, "bounded", "queries of A, 'q': 1.0 is a float"),
        (0, ["A"], ["q"], "bounded", "the budget is 0"),
        (1, {"A": "1/2"}, ["q"], "bounded", "sum to 1/2"),
        (1, "A", ["q"], "bounded", "levels are 'A'"),
        (1, ["A"], [], "bounded", r"queries of A are \[\]"),
        (1, ["A", "B"], {"A": ["q"]}, "bounded", "queries of B are"),
        (1, ["A"], {"A": ["q"], "B": ["q"]}, "bounded", "queries for 'B', which has no share"),
        (1, ["A"], ["q"], "both", "say bounded or unbounded"),
    ],
)
def test_a_plan_that_is_not_exact_is_refused(
    rho: Any, levels: Any, queries: Any, neighbours: str, said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        Plan.of_rho(rho, levels, queries, neighbours)
