"""What people type for levels and queries."""

import pytest

from das.errors import UserError
from das.model.redistricting import PL94
from das.model.spelling import named, product, query

LEVELS = ("US", "State", "County", "Block_Group", "Block", "County_Subdivision")


@pytest.mark.parametrize(
    "text", ["block group", "blockgroup", "Block_Group", "BLOCK-GROUP", " block  group "]
)
def test_one_level_in_many_spellings(text):
    assert named(text, LEVELS, "level") == "Block_Group"


def test_a_name_that_is_there_is_itself_although_others_are_alike():
    assert named("a_b", ["A_B", "a_b"], "level") == "a_b"
    with pytest.raises(UserError, match="the levels are A_B, a_b"):
        named("ab", ["A_B", "a_b"], "level")


def test_near_names_are_suggested():
    with pytest.raises(UserError, match="no level 'Conty'") as caught:
        named("Conty", LEVELS, "level", "--level")
    assert str(caught.value).startswith("--level: ")
    assert "did you mean County?" in str(caught.value)
    with pytest.raises(UserError) as caught:
        named("x" * 5, [f"level{i}" for i in range(500)], "level")
    assert "and 480 more" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text", ["hispanic*cenrace", "cenrace * hispanic", "Hispanic * CENRACE", "hispanic* cenrace"]
)
def test_one_query_in_many_spellings(text):
    assert product(text, ["total", "hispanic * cenrace"]) == "hispanic * cenrace"
    assert query(text, PL94) == "hispanic * cenrace"
    assert (
        query(text, PL94, ["cenrace * hispanic"]) == "cenrace * hispanic"
    )  # as the plan spells it


def test_a_query_is_one_of_its_schema():
    assert query("Detailed", PL94) == "detailed"
    assert query("TOTAL", PL94) == "total"
    assert query("cenrace*hhgq*voting_age", PL94) == "hhgq * votingage * cenrace"
    for text, message in (
        ("hispanc", "did you mean hispanic"),
        ("total*cenrace", "by itself"),
        ("", "no attribute"),
    ):
        with pytest.raises(UserError, match=message):
            query(text, PL94)
    with pytest.raises(UserError, match="the queries are total"):
        product("race", ["total"])
