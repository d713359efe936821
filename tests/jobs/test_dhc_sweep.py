"""A sweep of the DHC: multiples of its budgets, on records that are read once."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from das.errors import SpecError
from das.files.run.run_directory import RunDirectory
from das.publications.dhc.files import linked
from das.release import verify
from das.spec import load
from das.tools.sweep.runs import SweepResult, sweep
from tests.commands import Commands
from tests.worlds import ROOT, Worlds

TEXT = (ROOT / "configs" / "dhc-2020.toml").read_text(encoding="utf-8")
LEVELS = ["State", "County", "Tract", "Block_Group", "Block"]
TIMES = [Fraction(1, 2), Fraction(4)]


def changes(worlds: Worlds) -> list[str]:
    earlier = worlds.run("run.seed=1", data="one thousand")
    levels = json.dumps(LEVELS)
    return [f"constraints.from={earlier}", "run.seed=1", f"geography.levels={levels}"]


def swept_at(
    worlds: Worlds, out: Path, times: list[Fraction], *, resume: bool = False, method: str = ""
) -> SweepResult:
    spec = load(TEXT, where="c", overrides=changes(worlds))
    methods = method.split(",") if method else ()
    return sweep(spec, times, out, paths=[worlds.linked()], resume=resume, methods=methods)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dhc sweep") / "sweep"


@pytest.fixture(scope="module")
def swept(worlds: Worlds, out: Path) -> SweepResult:
    read = []
    with pytest.MonkeyPatch.context() as patch:
        once = linked.read
        patch.setattr(linked, "read", lambda *a, **k: read.append(a) or once(*a, **k))
        found = swept_at(worlds, out, TIMES)
    assert len(read) == 1
    return found


def test_it_has_the_errors_of_every_universe_and_what_all_cost(
    swept: SweepResult, out: Path
) -> None:
    runs = sorted((out / "runs").iterdir())
    assert [r.name for r in runs] == ["times-1_2-topdown-0", "times-4-topdown-0"]
    for universe in ("", "-units", "-households"):
        table = pd.read_csv(out / f"sweep{universe}.csv")
        assert sorted(set(table["budget"])) == [0.5, 4.0]
        assert set(table["level"]) == set(LEVELS)
        own = pd.read_csv(runs[1] / "confidential" / "evaluation" / f"errors{universe}.csv")
        assert table.query("budget == 4")["mae"].tolist() == own["mae"].tolist()
        mean = pd.read_csv(out / f"summary{universe}.csv")
        noise = mean.query("bin == 'all'").pivot_table(
            index=["level", "query"], columns="budget", values="expected_mae"
        )
        assert (noise[0.5] > noise[4.0]).all()
    statements = [json.loads((r / "release" / "privacy.json").read_text()) for r in runs]
    said = json.loads(swept.statement.read_text())
    assert [Fraction(r["rho"]) for r in said["runs"]] == [
        Fraction(s["rho"]["total"]) for s in statements
    ]
    assert Fraction(said["rho"]["total"]) == sum(Fraction(r["rho"]) for r in said["runs"])
    page = swept.page.read_text()
    for words in ("multiple of the budget", "Households", "Confidential", "epsilon at delta"):
        assert words in page
    verify.statement(runs[0] / "release")


def test_it_goes_on_with_what_there_is(worlds: Worlds, swept: SweepResult, out: Path) -> None:
    before = (out / "runs" / "times-4-topdown-0" / "manifest.json").read_bytes()
    (half := RunDirectory(out / "runs" / "times-1_2-topdown-0")).manifest.unlink()
    table = (out / "sweep.csv").read_bytes()
    swept_at(worlds, out, TIMES, resume=True)
    assert half.manifest.exists()
    assert (out / "runs" / "times-4-topdown-0" / "manifest.json").read_bytes() == before
    assert (out / "sweep.csv").read_bytes() == table


def test_methods_share_no_noise(worlds: Worlds, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="they share no noise"):
        swept_at(worlds, tmp_path / "s", TIMES, method="topdown,full-information")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--rho", "1,2"), "--times 1/2,1,2"),
        ((), "give one of the two"),
        (("--times", "1", "--rho", "1"), "give one of the two"),
        (("--times", "1,x"), "--times"),
        (("--times", "0,1"), "positive"),
    ],
)
def test_budgets_that_are_none(
    worlds: Worlds, tmp_path: Path, commands: Commands, arguments: tuple[str, ...], says: str
) -> None:
    every = [x for c in changes(worlds) for x in ("--set", c)]
    code, _, err = commands.named("sweep")(
        "dhc-2020", *every, *arguments, "--data", worlds.linked(), "--out", tmp_path / "s"
    )
    assert (code, says in err) == (2, True), err
    assert "Traceback" not in err
