"""What check, plan and run say of measurements that add nothing."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from das.cli.kit import redundant
from das.release.opened import open_release
from das.spec.notes import redundant_by_trees
from tests.commands import Commands, Das
from tests.worlds import ROOT, Worlds

PLAIN = ("--set", "geography.spine=tabulation")
TAKES = "persons: total at State takes 32.35 % of rho and adds nothing"
KNOWN = ": total is published exactly at State"
SPARE = ". `das plan configs/pl94-2010.toml --optimize TARGETS.toml --spare` spends it anew"


@pytest.fixture
def check(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> Das:
    monkeypatch.chdir(ROOT)
    return commands.named("check")


def about(said: tuple[int, str, str], word: str = "nothing:") -> list[str]:
    """The lines on standard output that tell of such draws."""
    code, out, err = said
    assert (code, err) == (0, "")
    return [
        line
        for line in out.splitlines()
        if line.startswith(("persons", "housing", "farms")) and word in line
    ]


def test_check_tells_what_the_state_total_takes_and_what_to_do(check: Das) -> None:
    assert about(check("configs/pl94-2010.toml", *PLAIN)) == [TAKES + KNOWN + SPARE]


def test_plan_tells_it_below_its_tables(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    said = commands.named("plan")("configs/pl94-2010.toml", *PLAIN, "--coverage", "0.95")
    assert about(said) == [TAKES + KNOWN + SPARE]
    assert not about(
        commands.named("plan")("configs/pl94-2010.toml", *PLAIN, "--universe", "housing")
    )


@pytest.mark.parametrize("change", ["constraints.total=US", "budget.queries.State={detailed='1'}"])
def test_nothing_is_told_where_every_draw_buys_something(check: Das, change: str) -> None:
    """Only the nation's total is exact, and it is not measured; the states', and they are not
    measured.
    """
    assert (
        about(
            check(
                "configs/pl94-2010.toml",
                *PLAIN,
                "--set",
                change,
                "--set",
                "estimation.passes.State=[['*']]",
            )
        )
        == []
    )
    out = check(
        "configs/pl94-2010.toml",
        *PLAIN,
        "--set",
        change,
        "--set",
        "estimation.passes.State=[['*']]",
        "--json",
    )[1]
    assert json.loads(out)["redundant"] == []


def test_several_levels_have_one_line(check: Das) -> None:
    lines = about(check("configs/pl94-2010.toml", *PLAIN, "--set", "constraints.total=County"))
    assert lines == [
        "persons: total at State and County take 40.67 % of rho and add nothing: total is published"
        " exactly at County, and so above it" + SPARE
    ]


def test_as_json_it_is_exact(check: Das) -> None:
    (told,) = json.loads(
        check("configs/pl94-2010.toml", *PLAIN, "--set", "budget.rho=1", "--json")[1]
    )["redundant"]
    share = Fraction(1440, 4099) * Fraction(3773, 4097)
    assert told.pop("share") == pytest.approx(float(share), rel=1e-12)
    assert told == {
        "universe": "persons",
        "level": "State",
        "query": "total",
        "rho": str(share),
        "known": {"level": "State", "query": "total"},
        "everywhere": True,
        "units": None,
        "of": None,
    }


def test_on_an_optimized_spine_it_is_told_where_without_a_tree_and_where_with_one(
    check: Das,
) -> None:
    (line,) = about(check("configs/pl94-2010.toml"), "adds nothing")
    assert line.startswith(
        f"{TAKES} in a State that is one unit of the tree{KNOWN}. A State with American Indian"
    )
    assert "--optimize" not in line
    classes = json.loads(check("configs/pl94-2010.toml", "--json")[1])["redundant"]
    assert {c.get("class") for c in classes} == {
        None,
        *(f"State to {x}" for x in ("County", "Tract", "Block_Group", "Block")),
    }
    assert not any(c["everywhere"] for c in classes)


def test_with_data_it_is_told_in_how_many_units(check: Das, worlds: Worlds) -> None:
    """Of the three states two are in two units."""
    (line,) = about(
        check("configs/pl94-2010.toml", "--data", worlds.data("shipped")), "adds nothing"
    )
    assert (
        line == f"{TAKES} in 1 of its 5 units{KNOWN}. The others are parts of places, and need it"
    )


def test_the_trees_of_a_run_tell_what_its_draws_buy(worlds: Worlds) -> None:
    opened = open_release(
        worlds.run("run.seed=1", "geography.spine=tabulation", data="one thousand") / "release"
    )
    (line,) = redundant.lines(
        redundant_by_trees(opened.run, opened.trees, opened.spine), Path("mine.toml")
    )
    assert line.startswith(TAKES + KNOWN)
    assert "`das plan mine.toml --optimize" in line
