"""Keys of an optimized spine: what they mean where they are absent, and each fault that a person
makes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from das.errors import SpecError
from das.spec import RunSpec, parse

CONFIG = (Path(__file__).resolve().parents[2] / "configs" / "pl94-2010.toml").read_text(
    encoding="utf-8"
)


def spec(*keys: str, spine: str = "optimized") -> RunSpec:
    return parse(
        CONFIG, where="c", overrides=[f"geography.spine={spine}", *(f"geography.{k}" for k in keys)]
    )


@pytest.mark.parametrize(
    ("keys", "runs"),
    [
        ([], 12),
        (["fanout=0"], 0),
        (["fanout=none"], None),
        (["targets=Place"], None),
        (["targets=[]"], 12),
        (['targets=["Place"]', "fanout=7"], 7),
    ],
)
def test_groups_are_cut_as_in_2020_and_with_targets_not_at_all(
    keys: list[str], runs: int | None
) -> None:
    assert spec(*keys).geography.runs == runs


def test_a_specification_written_out_has_the_targets_and_of_lists_no_folder() -> None:
    asked = spec(
        'targets=["/home/somebody/wards.csv", "Place"]', "digits={Tract=3}", "geocodes=2010"
    )  # a year without quotes, too
    assert asked.geography.lists == ("/home/somebody/wards.csv",)
    again = parse(asked.dump(), where="again").geography
    assert "somebody" not in asked.dump()
    assert again.targets == ("wards.csv", "Place")
    assert again.lists == ("wards.csv",)
    assert (again.digits, again.geocodes, again.spine) == ({"Tract": 3}, "2010", "optimized")


def test_the_specification_of_a_tabulation_spine_has_no_word_of_them() -> None:
    written = spec(spine="tabulation").dump()
    assert not any(key in written for key in ("targets", "fanout", "geocodes", "digits"))
    assert spec("targets=[]", spine="tabulation").geography.spine == "tabulation"


@pytest.mark.parametrize(
    ("key", "where", "says"),
    [
        (
            "fanout=-3",
            "geography.fanout",
            '-3 is no fan-out: give a whole number from 0 to 1,000,000, or "none"',
        ),
        ("fanout=2.5", "geography.fanout", "no fan-out"),
        ("fanout=true", "geography.fanout", "no fan-out"),
        ("fanout=many", "geography.fanout", "'many' is no fan-out"),
        ("digits={Tract=0}", "geography.digits", "0 is no number of digits"),
        ("digits={US=2}", "geography.digits", "units of 'US' have no numbers"),
        ("geocodes='2021'", "geography.geocodes", "'2020' or '2010'"),
        ('targets=["Place", "Place"]', "geography.targets", "'Place' stands there twice"),
        (
            'targets=["a/wards.csv", "b/wards.csv"]',
            "geography.targets",
            "'wards.csv' stands there twice",
        ),
        (
            'levels=["US", "County", "Tract", "Block_Group", "Block"]',
            "geography.levels",
            "needs a level State",
        ),
        (
            'levels=["US", "State", "Block_Group", "Tract", "Block"]',
            "geography.levels",
            "must end with Block_Group and Block",
        ),
        (
            'levels=["US", "State", "Block"]',
            "geography.levels",
            "must end with Block_Group and Block",
        ),
    ],
)
def test_keys_that_mean_nothing_are_refused(key: str, where: str, says: str) -> None:
    with pytest.raises(SpecError) as refused:
        spec(key)
    assert where in str(refused.value)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "key", ["fanout=0", "fanout=none", "targets=Place", "geocodes='2020'", "digits={Tract=4}"]
)
def test_a_tabulation_spine_has_none_of_them(key: str) -> None:
    with pytest.raises(SpecError, match="this is for an optimized spine") as refused:
        spec(key, spine="tabulation")
    assert f"geography.{key.partition('=')[0]}" in str(refused.value)
    assert 'set geography.spine = "optimized"' in str(refused.value)


def test_facilities_are_settled_at_the_tract_on_the_production_tree_alone() -> None:
    """As ``estimation.method`` and ``constraints.group_quarters`` say, too."""
    assert spec().settled == {"Block_Group": "Tract"}
    assert spec(spine="tabulation").settled == {}
    for change in ("estimation.method=full-information", "constraints.group_quarters=false"):
        other = parse(CONFIG, where="c", overrides=[change])
        assert isinstance(other, RunSpec)
        assert other.settled == {}
