"""Budgets of the S-DHC from margins of error, before and after least squares."""

from __future__ import annotations

import json
import tomllib
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import pytest
import tomli_w

from das.accounting.planning import normal_cost, options
from das.model.budget import Neighbours, PlannedMeasurement
from das.model.plan import Plan
from das.publications.sdhc.public import PublicSdhc
from das.publications.sdhc.spec import SdhcSpec
from das.spec import load, of_kind
from tests.commands import Commands
from tests.sdhc.test_known_answers import packaged
from tests.worlds import ROOT

CONFIG = ROOT / "configs" / "sdhc-2020.toml"
WISH = {("State", "PH3 A-G"): 20, ("State", "PH7 *"): 100}
Z = NormalDist().inv_cdf(0.95)


def drawn(plan: Plan) -> dict[tuple[str, str], PlannedMeasurement]:
    return {(d.level, d.query): d for d in plan.measurements}


def test_production_had_margins_of_500_200_68_and_20() -> None:
    """With its own sensitivities; it took 1.645 for the quantile, and six decimals."""
    seen = []
    for d in packaged("sdhc-2020-phsafe").measurements:
        races = d.query.endswith("A-G")
        state = (20 if d.query.startswith("PH3") else 68) if races else 200
        most = state if d.level == "State" else 500
        wanted = normal_cost(Neighbours.UNBOUNDED, most, 0.9) * d.stability
        assert float(d.cost) == pytest.approx(wanted, rel=3e-4, abs=6e-7)
        seen.append(most)
    assert {*seen} == {500, 200, 68, 20}


def test_margins_hold_before_and_after_least_squares() -> None:
    """And with a little less budget they do not."""
    choice = PublicSdhc().choices(packaged("sdhc-2020"), None).repricing
    found = {o.name: o.plan for o in options(choice, WISH, {}, 0.9)}
    assert list(found) == ["now", "others-unchanged", "same-total", "all-scaled", "estimated"]
    assert found["same-total"].cost == found["now"].cost
    before, after = drawn(found["others-unchanged"]), drawn(found["estimated"])
    now = drawn(found["now"])
    for place, most in WISH.items():
        assert before[place].margin(0.9) == most
        assert (
            before[place].mechanism.margin(before[place].parameter * Fraction(103, 100), 0.9) > most
        )
    for place in now.keys() - WISH.keys():
        assert before[place] == after[place] == now[place]
    assert holds(choice.errors(found["estimated"]))
    for place in WISH:
        costs = {p: d.cost * (Fraction(97, 100) if p == place else 1) for p, d in after.items()}
        assert not holds(choice.errors(choice.repriced(costs)))
    assert after["State", "PH7 *"].cost < before["State", "PH7 *"].cost / 2


def holds(errors: Any) -> bool:
    return all(Z * errors[place] <= most for place, most in WISH.items())


def test_the_tables_that_are_printed_make_the_plan(commands: Commands) -> None:
    asked = ("--margin", "state:ph3 a-g=20", "--coverage", "0.9")
    code, out, err = commands.named("plan")(CONFIG, *asked, "--toml", "estimated")
    assert (code, err) == (0, "")
    tree = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    tree["sdhc"]["budget"] = tomllib.loads(out)["sdhc"]["budget"]
    spec = of_kind(SdhcSpec, load(tomli_w.dumps(tree), where="c"), "c")
    said = json.loads(commands.named("plan")(CONFIG, *asked, "--json")[1])
    wanted = said["options"][-1]
    assert (wanted["name"], Fraction(wanted["rho"])) == ("estimated", spec.universes[0].plan.cost)
    by_place = {(r["level"], r["query"]): r for r in wanted["plan"]}
    assert by_place["State", "PH3 A-G"]["estimated"] == {"0.9": 20}


@pytest.mark.parametrize(
    ("name", "asked", "says"),
    [
        ("sdhc-2020", ("--margin", "State:PH9 *=1"), "no query 'PH9 *'"),
        ("sdhc-2020", ("--margin", "County:PH7 *=1"), "no level 'County'"),
        ("sdhc-2020", ("--margin", "State:PH7 *=1.5"), "whole number"),
        ("sdhc-2020", ("--margin", "State:PH7 *=9", "--toml", "x"), "there is no plan 'x'"),
        ("sdhc-2020-phsafe", ("--margin", "State:PH7 *=9", "--toml", "estimated"), "no plan 'est"),
    ],
)
def test_what_is_wrong_is_refused(
    name: str, asked: tuple[str, ...], says: str, commands: Commands
) -> None:
    code, out, err = commands.named("plan")(ROOT / "configs" / f"{name}.toml", *asked)
    assert (code, out) == (2, "")
    assert says in err


def test_a_plan_states_margins_after_estimation(commands: Commands) -> None:
    code, out, err = commands.named("plan")(CONFIG, "--json", "--coverage", "0.9")
    assert (code, err) == (0, "")
    rows = json.loads(out)["universes"][0]["plan"]
    assert len(rows) == 50
    assert all(r["estimated"]["0.9"] <= r["margins"]["0.9"] + 1 for r in rows)
    phsafe = ROOT / "configs" / "sdhc-2020-phsafe.toml"
    said = json.loads(commands.named("plan")(phsafe, "--json")[1])
    assert not any("estimated" in r for r in said["universes"][0]["plan"])
