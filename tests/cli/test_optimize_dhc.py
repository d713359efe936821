"""``das plan --optimize`` for the DHC: from the cells of a release, with new queries, guards and a
certificate; the tables that it writes make the plan.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from das.publications.dhc.model import strategy
from das.publications.dhc.spec import HOUSEHOLDS
from das.spec import load
from tests.commands import Commands, Das
from tests.worlds import Worlds

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "dhc-2020.toml"
TARGETS = """
objective = "best"
measure = ["Tract:elderly"]

[guard.epsilon.changes]
elderly = "{most}"

[[target]]
level = "Tract"
query = "elderly"

[[target]]
level = "Tract"
table = "H4"
ratio = 1.0
"""


@pytest.fixture
def call(commands: Commands) -> Das:
    return commands.named("plan")


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("targets") / "elderly.toml"
    out.write_text(TARGETS.format(most="9.5"), encoding="utf-8")
    return out


def args(targets: Path, *more: Any) -> tuple[Any, ...]:
    return ("dhc-2020", "--optimize", targets, "--universe", "households", *more)


def test_it_finds_better_shares_of_the_levels_with_targets_and_proves_them(
    call: Das, targets: Path, worlds: Worlds
) -> None:
    code, out, err = call(*args(targets, "--like", worlds.dhc(), "--json"))
    assert code == 0, err
    said = json.loads(out)
    assert said["gap"] <= 2e-3
    elderly, tenure = said["targets"]
    assert elderly["best"] < 0.8 * elderly["now"]
    assert tenure["best"] <= 1.001 * tenure["now"] or tenure["now"] == 0
    (guard,) = said["guards"]
    assert guard["then"] <= 9.5
    rho, now = Fraction(said["rho"]), Fraction(said["rho_now"])
    for share in said["shares"]:
        if share["level"] != "Tract":
            assert Fraction(share["now"]) * now == Fraction(share["best"]) * rho
    assert {t["level"] for t in said["others"]} <= {"Tract"}


def test_its_tables_make_the_plan_and_say_what_it_was_made_from(
    call: Das, targets: Path, worlds: Worlds
) -> None:
    code, out, err = call(*args(targets, "--like", worlds.dhc(), "--toml"))
    assert code == 0, err
    text = CONFIG.read_text(encoding="utf-8").replace("[budget]", "[before]")
    head = text[: text.index("[before]")]
    spec = load(head + out, where="found")
    rho = spec.universe(HOUSEHOLDS).strategy.rho
    assert rho["Tract"]["elderly"] > Fraction(1, 100)
    assert rho["Block"] == strategy.households().rho["Block"]
    assert "targets elderly.toml" in spec.notes[-1]
    assert "'dhc-2020' of the DHC" in spec.notes[-1]


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        ("", (), "name a release of the DHC with --like"),
        ("Tract:elderly", ("--universe", "persons"), "elderly"),
        ('"H4"|"P12"', (), "no table 'P12'"),
        ('"Tract:elderly"|"Tract:detailed"', (), "is measured already"),
    ],
)
def test_what_does_not_fit_is_refused(
    call: Das, worlds: Worlds, tmp_path: Path, change: str, options: tuple[str, ...], says: str
) -> None:
    text = TARGETS.format(most="9.5")
    old, _, new = change.partition("|")
    file = tmp_path / "t.toml"
    file.write_text(text.replace(old, new) if new else text, encoding="utf-8")
    like = ("--like", worlds.dhc()) if change else ()
    code, _, err = call(*args(file, *like, *options))
    assert code == 2
    assert says in err
