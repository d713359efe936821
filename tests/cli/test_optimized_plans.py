"""What check, account and plan show of a configuration with the optimized spine, before there are
data.
"""

from __future__ import annotations

import json
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
import tomli_w
from click.testing import CliRunner

from das.cli import main
from das.spec import parse

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "pl94-2010.toml"
SPINE = ("--set", "geography.spine=optimized")


def said(command: str, *options: str) -> str:
    found = CliRunner().invoke(main, [command, str(CONFIG), *SPINE, *options])
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture(scope="module")
def checked() -> dict:
    return json.loads(said("check", "--json"))


def test_check_lists_every_class_and_shows_the_plain_units(checked: dict) -> None:
    lines = [x for x in checked["plan"] if x["universe"] == "persons" and x["query"] == "total"]
    plain = {x["level"]: x for x in lines if "class" not in x}
    assert list(plain) == ["State", "County", "Tract", "Block_Group", "Block"]
    classes = {x["class"] for x in lines if "class" in x}
    assert {"County to Tract", "Block_Group to Block"} < classes
    tract, group = (
        plain["Tract"],
        next(x for x in lines if x.get("class") == "Tract to Block_Group"),
    )
    assert Fraction(group["rho"]) / Fraction(tract["rho"]) == Fraction(687 + 1256, 687)
    row = next(e for e in checked["guarantee"]["persons"]["epsilon"] if e["delta"] == "1e-10")
    assert row["between"] == {"persons": ["plain", "State to Block"]}
    assert [f"{x:.4f}" for x in row["pld"]] == ["16.4678", "16.4678"]


def test_plan_shows_plain_units_and_says_what_the_others_have() -> None:
    out = said("plan", "--coverage", "0.95")
    assert out.count("│ Tract       │ total") == 1
    assert "the child is not measured" in out
    assert "Tract to Block_Group 0.354" in out  # 687/1943
    assert "largest for persons plain and State to Block" in out


def test_a_plan_that_was_wished_for_keeps_the_classes_and_is_a_configuration() -> None:
    options = ("--margin", "Tract:total=5", "--toml", "same-total")
    tables = tomllib.loads(said("plan", *options))
    assert sum(map(Fraction, tables["budget"]["levels"].values())) == 1
    tree = tomllib.loads(CONFIG.read_text(encoding="utf-8")) | {"budget": tables["budget"]}
    spec = parse(tomli_w.dumps(tree), where="c", overrides=["geography.spine=optimized"])
    assert len(spec.persons.plan.paths) == 32
    assert spec.persons.plan.cost == Fraction(tables["budget"]["rho"])
