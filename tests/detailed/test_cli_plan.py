"""``das detailed plan``, on parameters in memory."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from das.model.mechanisms import GEOMETRIC
from das.publications.detailed.model.tables import PRODUCTS, Parameters, Product
from das.publications.detailed.planning import command
from tests.detailed import worlds
from tests.files.detailed import folders


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(folder: object, product: str | None) -> Parameters:
        return (
            worlds.persons(GEOMETRIC)
            if str(folder) == "pure"
            else {"persons": worlds.persons, "households": worlds.households}[
                product or "persons"
            ]()
        )

    monkeypatch.setattr(command, "read", read)


def plan(*args: str, exit_code: int = 0) -> str:
    done = CliRunner().invoke(command.plan, list(args))
    assert done.exit_code == exit_code, done.output
    return done.output


def test_what_is_there_is_priced_in_words() -> None:
    said = plan("folder")
    assert "persons, us: rho = 618/125 (4.944), margins at 95 %" in said
    assert (
        "us, a record added or removed: rho = 4.944, epsilon = 24.4020 exactly at delta = 1e-10"
        in said
    )
    assert "us, a record replaced by another: rho = 9.888, epsilon = 37.5576 exactly" in said
    assert (
        "pr, of one code of race, and of no ethnicity that counts, a record added or removed: rho ="
        " 0.587333" in said
    )
    assert "USA, STATE detailed" in said  # what says the same is one line


def test_margins_are_turned_into_budgets() -> None:
    found: dict[str, Any] = json.loads(
        plan(
            "folder",
            "--margin",
            "detailed=11",
            "--margin",
            "regional=50",
            "--margin",
            "usa detailed=3",
            "--margin",
            "STATE_detailed=3",
            "--json",
        )
    )
    now, wished = found["options"]["now"], found["options"]["as-wished"]
    rhos = [
        next(loss for loss in o["losses"] if loss["runs"] == ["us"])["cost"] for o in (now, wished)
    ]
    assert [Fraction(r) for r in rhos] == [Fraction("4.944"), Fraction("3.675255")]
    margins = {row["level"]: row["noise"]["t2"]["margin"] for row in wished["levels"]["us"]}
    assert margins == {
        n: 50 if "regional" in n else 3 if n.startswith(("USA", "STATE")) else 11 for n in margins
    }
    assert "AIANNH regional" not in margins  # not tabulated, and not asked for by its own name
    assert "AIANNH regional" in plan("folder", "--margin", "AIANNH regional=50")


def test_a_region_is_less_exact_than_a_level_and_more_than_a_word() -> None:
    found = json.loads(
        plan(
            "folder",
            "--margin",
            "tract regional=60",
            "--margin",
            "TRACT=20",
            "--margin",
            "detailed=5",
            "--json",
        )
    )
    margins = {
        row["level"]: row["noise"]["t2"]["margin"]
        for row in found["options"]["as-wished"]["levels"]["us"]
    }
    assert (margins["TRACT regional"], margins["TRACT detailed"], margins["PLACE detailed"]) == (
        60,
        20,
        5,
    )


def test_other_questions() -> None:
    said = plan("folder", "--population", "500", "--population", "0", "--error", "0.02")
    for words in ("as-wished, us", "How groups come out"):
        assert words in said
    found = json.loads(plan("folder", "--population", "500", "--json"))
    fine = next(row for row in found["population"] if row["level"] == "USA detailed")
    assert fine["size 1"] > 0.999


def test_households() -> None:
    said = plan("folder", "--product", "households", "--population", "971")
    assert "households, us: rho = 4447651/500000 (8.8953)" in said
    assert "epsilon = 35.1185 exactly" in said


def test_pure_differential_privacy() -> None:
    assert "us, a record added or removed: epsilon = 4.944, delta = 0" in plan("pure")


@pytest.mark.parametrize(
    "args, says",
    [
        (("--margin", "detal=3"), "did you mean detailed"),
        (("--margin", "detailed"), "LEVEL=M"),
        (("--margin", "detailed=x"), "LEVEL=M"),
        (("--margin", "detailed=3", "--margin", "detailed=4"), "there twice"),
        (("--delta", "2"), "not between 0 and 1"),
        (("--error", "0"), "not above 0"),
        (("--error", "x"), "not a number"),
    ],
)
def test_what_is_refused(args: tuple[str, ...], says: str) -> None:
    assert says in plan("folder", *args, exit_code=2)


@pytest.mark.parametrize("product", list(PRODUCTS.values()), ids=lambda p: p.name)
def test_a_folder_on_disk(
    product: Product, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    folder = folders.written(tmp_path, folders.texts(product))
    found = json.loads(plan(str(folder), "--product", product.name, "--json"))["options"]["now"]
    costs = [Fraction(loss["cost"]) for loss in found["losses"] if loss["runs"] == ["us"]]
    assert costs == [12 * Fraction(1, 4) * len(product.tables)]
    assert {row["table"] for row in found["levels"]["us"]} == {
        table.name for table in product.tables
    }


def test_a_folder_that_is_not_there_is_one_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    assert "config.json" in plan(str(tmp_path / "none"), exit_code=2)
