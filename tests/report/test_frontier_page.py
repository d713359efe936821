"""The risk-utility map and the page, from a summary made by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from das.tools.protection.study.page import (
    ABOVE,
    PUBLISHED,
    UNIQUES,
    WITH_ALSO,
    FrontierMean,
    StudyFacts,
    frontier_page,
    risk_utility_map,
    shown_settings,
)

FACTS = StudyFacts(
    name="by <hand>", level="Tract", lowest="Block", sampled=4, population=20, persons=900, units=30,
    everybody=5000, exposed=77, inhabited={"Block": 30, "Tract": 4, "areas": 4}, households=True, tables="own", lines={"Block": 9}, also=("T9",),
    known=("sex", "age"), sensitive=("race",), uses={"age": "Sex by age"}, use="age",
    use_level="Block", seeded=False,
)  # fmt: skip


def mean(
    curve: str,
    setting: int,
    measure: str,
    value: float | None,
    *,
    guarantee: str = "none",
    tables: str = PUBLISHED,
    named: str = "",
    spread: float | None = None,
    **of: str,
) -> FrontierMean:
    place = {"persons": "", "level": "", "use": "", "column": "", **of}
    low, high = (
        (None, None) if spread is None or value is None else (value - spread, value + spread)
    )
    return FrontierMean(
        curve, setting, f"{curve} {setting}", named, curve, guarantee,
        "no" if spread is None else "yes", tables, 1 if spread is None else 5, measure,
        place["persons"], place["level"], place["use"], place["column"], value, low, high, 0.5,
    )  # fmt: skip


def point(curve: str, setting: int, error: float, above: float, **of: object) -> list[FrontierMean]:
    given = {"level": "Block", "use": "age"}
    out = [mean(curve, setting, "error", error, **given, **of)]  # type: ignore[arg-type]
    out.append(mean(curve, setting, ABOVE, above, persons=UNIQUES, **of))  # type: ignore[arg-type]
    out.append(mean(curve, setting, "confirmed", above + 10, persons=UNIQUES, **of))  # type: ignore[arg-type]
    out.append(mean(curve, setting, "positive lines withheld", 25.0 * setting, level="Block", **of))  # type: ignore[arg-type]
    return out


MEANS = [
    *point("none", 0, 0.0, 60.0),
    *point("none", 0, 0.0, 80.0, tables=WITH_ALSO),
    *point("swap", 0, 0.2, 50.0, spread=4.0, named="2010"),
    *point("swap", 1, 2.0, 20.0, spread=4.0),
    *point("dp", 0, 1.0, -1.0, guarantee="formal", spread=0.5),
    *point("dp", 1, 9.0, -2.0, guarantee="formal", spread=0.5),
]


def test_a_setting_has_one_number_with_and_without_other_tables() -> None:
    assert [s.name for s in shown_settings(MEANS)] == ["1", "1′", "2", "3", "4", "5"]


def test_the_map_draws_every_point_with_its_number() -> None:
    """Zero errors are at the left of a logarithmic scale; no two labels lie on each other."""
    svg = risk_utility_map(shown_settings(MEANS), "age", "Block", "error").svg("map", "")
    said = re.findall(r'font-weight: bold[^>]* x="([\d.]+)" y="([\d.]+)">([^<]+)<', svg)
    assert {name for _, _, name in said} == {"1", "1′", "2 2010", "3", "4", "5"}
    places = [(float(x), float(y)) for x, y, _ in said]
    apart = [abs(a - c) + abs(b - d) for i, (a, b) in enumerate(places) for c, d in places[:i]]
    assert min(apart) > 8
    x = {name: float(x) for x, _, name in said}
    assert x["1"] < x["2 2010"] < x["4"] < x["5"]
    assert "leave-one-out baseline" in svg
    assert "2010" in svg


def test_no_point_lies_outside_where_errors_are_alike() -> None:
    same = [*point("a", 0, 1.0, 5.0), *point("b", 0, 1.0, 5.0)]
    drawn = risk_utility_map(shown_settings(same), "age", "Block", "error").svg("map", "")
    assert "NaN" not in drawn


def test_the_page_names_the_best_setting_at_the_baseline() -> None:
    """That with the least error among those whose whole interval is at or below zero."""
    page, picture = frontier_page(MEANS, FACTS)
    assert "baseline, 4 (dp 0) has" in page
    assert picture.says in page
    assert "of the 77 people who stand out" in picture.says
    assert "Confidential" in picture.svg()
    assert "by &lt;hand&gt;" in page
    assert "4 of 20 tracts" in page
    worse, _ = frontier_page([m for m in MEANS if m.curve != "dp"], FACTS)
    assert "No setting here leaves this attack at its" in worse


@pytest.mark.parametrize(
    ("exposed", "said"),
    [
        (0, "Nobody stands out here: chance decides. Take"),
        (1, "Only 1 person stands out here: chance decides. Take"),
        (29, "Only 29 people stand out here: chance decides. Take"),
        (30, "At most, an attacker learns the race of 70.0 % of the 30 people who stand out"),
    ],
)
def test_few_people_decide_nothing(exposed: int, said: str) -> None:
    """Neither the page nor the slide names a setting as the best of so few."""
    page, picture = frontier_page(MEANS, replace(FACTS, exposed=exposed))
    assert picture.says.startswith(said)
    assert picture.says in page
    assert ("smallest error" in page) == (exposed == 30)
    assert ("(sample.units) or --all." in page) == (exposed < 30)


def test_all_places_have_few_who_stand_out() -> None:
    """There are no more places to take."""
    facts = replace(FACTS, exposed=9, sampled=20)
    assert frontier_page(MEANS, facts)[1].says == "Only 9 people stand out here: chance decides."


def test_one_place_alone_is_no_comparison() -> None:
    """The level of the map, and others in the tables; where it is all there is, it is no sample."""
    one = replace(FACTS, sampled=1, units=1, inhabited={"Block": 1, "Tract": 1, "areas": 1})
    page, picture = frontier_page(MEANS, one)
    assert picture.says.startswith("The errors are of 1 block alone: chance decides. Take")
    assert "in 1 inhabited block of" in re.sub(r"\s+", " ", page)
    for level in ("block", "tract", "area"):
        assert f"The errors by {level} are those of one place" in page
    whole, picture = frontier_page(MEANS, replace(one, population=1))
    assert "smallest error" in picture.says
    assert "the only tract." in whole
    some = replace(one, units=30, inhabited=one.inhabited | {"Block": 30})
    assert "The errors by block are" not in frontier_page(MEANS, some)[0]


def test_names_keep_their_capitals_in_a_sentence() -> None:
    facts = replace(FACTS, sensitive=("Hispanic origin",), uses={"age": "Hispanic origin by Race"})
    says = frontier_page(MEANS, facts)[1].says
    assert "learns the Hispanic origin of" in says
    assert "for Hispanic origin by race, by block" in says


@pytest.mark.parametrize("curve", ["none", "swap"])
def test_what_is_withheld_has_its_figure(curve: str) -> None:
    page, _ = frontier_page([m for m in MEANS if m.curve == curve], FACTS)
    assert ('id="lost"' in page) == (curve == "swap")
