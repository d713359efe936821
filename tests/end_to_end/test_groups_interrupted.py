"""A release of the Detailed DHC that stops goes on with its own folders alone, and with nothing
that was torn or altered; that it may stop at every step, and what that costs, is in
tests/contract/test_interruption.py and tests/truth/test_interruptions.py."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from das.engine.choice import EngineChoice
from das.engine.tasks import HandedOver
from das.errors import DasError, PrivacyError, ReleaseError, UserError
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from das.files.run.task_store import TaskStore
from das.publications.detailed.release import open_groups
from das.publications.detailed.truth import run
from das.publications.detailed.truth import run as measure
from das.runs.tasks import do
from tests.commands import Commands
from tests.detailed import runs
from tests.detailed.runs import run_groups
from tests.files.detailed import folders
from tests.stopped import Killed, Step


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return runs.given(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """A chunk has a few groups."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "MOST_GROUPS", 12)
        yield


def stopped(given: tuple[Path, Path], out: Path, step: Step, **how: Any) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        step.arm(patch)
        with pytest.raises(Killed):
            runs.go(*given, out, **how)
    return out


def released(out: Path) -> dict[str, bytes]:
    return {k: v for k, v in runs.contents(out, "release").items() if not k.endswith(".html")}


@pytest.fixture(scope="module")
def whole(given: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A seeded run that nothing stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    runs.go(*given, out, seed=5)
    return out


def test_two_workers_have_the_same_release(
    given: tuple[Path, Path], whole: Path, tmp_path: Path
) -> None:
    runs.go(*given, tmp_path / "run", seed=5, workers=2)
    assert released(tmp_path / "run") == released(whole)
    again = runs.go(*given, tmp_path / "run", seed=5, resume=True)
    assert again.was_finished
    assert again.tables == RunDirectory(tmp_path / "run").read_manifest()["rows"]


def test_two_keyed_runs_differ(given: tuple[Path, Path], tmp_path: Path) -> None:
    for name in ("a", "b"):
        runs.go(*given, tmp_path / name)
    a, b = (
        {k: v for k, v in runs.contents(tmp_path / n, "release").items() if "/DPQuery/" in k}
        for n in ("a", "b")
    )
    assert a.keys() == b.keys()
    same = [k for k in a if a[k] == b[k]]
    assert len(same) < len(a) / 4  # one of few groups and little noise may be the same


def test_noise_that_differs_between_two_attempts_stops_the_run(
    given: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go(**how: Any) -> None:
        run_groups(
            *given,
            "persons",
            tmp_path / "run",
            run={"name": "persons"},
            engine=EngineChoice("array"),
            **how,
        )

    with pytest.raises(HandedOver):
        go()
    (first, *_) = TaskStore(tmp_path / "run").tasks("groups")
    do(tmp_path / "run", "groups", first.partition)
    real = measure._noise
    monkeypatch.setattr(measure, "_noise", lambda *args: real(*args) + 1)
    with pytest.raises(PrivacyError):
        do(tmp_path / "run", "groups", first.partition)
    monkeypatch.undo()
    with pytest.raises(PrivacyError, match="two attempts of a task gave different answers"):
        go(resume=True)
    assert not (tmp_path / "run" / "release" / "privacy.json").exists()


def test_records_that_are_gone_stop_the_run(given: tuple[Path, Path], tmp_path: Path) -> None:
    out = stopped(given, tmp_path / "run", Step(run, "measure", 9))
    (path,) = (out / "confidential").rglob("part-01.parquet")
    path.unlink()
    with pytest.raises(DasError):
        runs.go(*given, out, resume=True)


def test_records_that_are_altered_while_tasks_are_done_are_not_measured(
    given: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(HandedOver):
        run_groups(*given, "persons", out, run={"name": "persons"}, engine=EngineChoice("array"))
    (path,) = (out / "confidential").rglob("part-02.parquet")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ReleaseError):
        do(out, "groups", "02")
    assert (
        "not those that this run began with"
        in TaskStore(out).fault(TaskStore(out).task("groups", "02")).what
    )  # type: ignore[union-attr]


def test_torn_messages_are_made_again(
    given: tuple[Path, Path], whole: Path, tmp_path: Path
) -> None:
    out = stopped(given, tmp_path / "run", Step(LedgerFile, "acknowledge"), seed=5)
    for path in (out / "confidential" / "work" / "sums").glob("*.npz"):
        path.write_bytes(path.read_bytes()[:-20])
    runs.go(*given, out, seed=5, resume=True)
    assert released(out) == released(whole)


def test_tables_that_were_being_written_are_no_part_of_a_release(
    given: tuple[Path, Path], whole: Path, tmp_path: Path
) -> None:
    """A killed attempt leaves a file that does not say yet that the run is seeded."""
    out = Path(shutil.copytree(whole, tmp_path / "run"))
    (out / "manifest.json").unlink()
    draft = out / "release" / ".tables.tmp" / "t1" / "part-00000-pr.csv"
    draft.parent.mkdir(parents=True)
    draft.write_text("", encoding="utf-8")
    runs.go(*given, out, seed=5, resume=True)
    assert released(out) == released(whole)


def test_what_was_acknowledged_and_is_gone_stops_the_run(
    given: tuple[Path, Path], tmp_path: Path
) -> None:
    out = stopped(given, tmp_path / "run", Step(run, "_sums"))
    min((out / "release" / "nmf").rglob("part-*.parquet")).unlink()
    with pytest.raises(ReleaseError, match="not those that the ledger says"):
        runs.go(*given, out, resume=True)


def test_a_run_that_is_stopped_while_it_begins_leaves_nothing(
    given: tuple[Path, Path], tmp_path: Path
) -> None:
    for step in (Step(run, "write_public"), Step(run, "write_people"), Step(run, "_digests")):
        stopped(given, tmp_path / "run", step)
        assert not (tmp_path / "run").exists()


# --- what it goes on with
# --------------------------------------------------------------------------------------------


def altered(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("which", "name", "old", "new"),
    [
        (0, "config.json", '"allow_negative_counts": true', '"allow_negative_counts": false'),
        (0, "config.json", "0.25", "0.5"),
        (0, "race-characteristic-iterations.txt", "Albanian alone", "Albanians alone"),
        (0, "race-and-ethnicity-code-to-iteration.txt", "2001|1020\n", ""),
        (1, "person-records.txt", "028|1", "029|1"),
        (1, "GRF-C.txt", "|00100|", "|00200|"),
    ],
)
def test_other_folders_are_refused(
    tmp_path: Path, which: int, name: str, old: str, new: str
) -> None:
    """Also by a run that has ended: it is not the one that is asked for."""
    own = runs.given(tmp_path / "given")
    out = stopped(own, tmp_path / "run", Step(run, "measure", 9))
    before = (own[which] / name).read_bytes()
    altered(own[which], name, old, new)
    for _ in range(2):
        with pytest.raises(UserError, match=f"{name} is not the one that this run began with"):
            runs.go(*own, out, resume=True)
        now = (own[which] / name).read_bytes()
        (own[which] / name).write_bytes(before)
        runs.go(*own, out, resume=True)
        (own[which] / name).write_bytes(now)


def test_another_seed_delta_name_or_product_is_refused(
    given: tuple[Path, Path], tmp_path: Path
) -> None:
    out = stopped(given, tmp_path / "run", Step(run, "measure", 9), seed=4)
    others: list[dict[str, Any]] = [
        {"seed": 5},
        {"seed": None},
        {"seed": 4, "delta": Fraction(1, 10**6)},
    ]
    for other in others:
        with pytest.raises(UserError, match="not the one that this run began with"):
            runs.go(*given, out, resume=True, **other)
    with pytest.raises(UserError, match="not the one that this run began with"):
        run_groups(*given, "persons", out, run={"name": "another", "seed": 4}, resume=True)
    with pytest.raises(UserError):
        runs.go(*given, out, "households", seed=4, resume=True)
    runs.go(*given, out, seed=4, resume=True)


def test_other_totals_are_refused(tmp_path: Path) -> None:
    own = runs.given(tmp_path / "given", "households")
    out = stopped(own, tmp_path / "run", Step(run, "measure", 3), product="households")
    totals = tmp_path / "totals.txt"
    totals.write_text(folders.TOTALS.replace("|12", "|500"), encoding="utf-8")
    with pytest.raises(UserError, match=r"totals\.txt is not the one that this run began with"):
        runs.go(*own, out, "households", totals=totals, resume=True)
    runs.go(*own, out, "households", resume=True)


# --- from a shell
# --------------------------------------------------------------------------------------------------


def test_tasks_of_a_run_from_a_shell(
    given: tuple[Path, Path], whole: Path, tmp_path: Path, commands: Commands
) -> None:
    """The run hands its tasks over; others do them; and it goes on to the same release."""
    out = tmp_path / "run"
    changes = ("--set", "run.seed=5", "--set", "run.name=persons")
    options = ("detailed-dhc", *runs.named(*given), *changes, "--out", out, "--engine", "array")
    code, _, err = commands.named("run")(*options, "--quiet")
    assert code == 0
    assert "--resume" in err
    assert str(given[0]) in err
    assert "--set run.seed=5" in err
    code, said, err = commands.named("run tasks")(out)
    assert (code, err, sorted(said.splitlines())) == (
        0,
        "",
        ["groups 01", "groups 02", "groups 72"],
    )
    for line in said.splitlines():
        assert commands.named("run task")(out, *line.split())[0] == 0
    code, said, _ = commands.named("run status")(out, "--json")
    (stage,) = json.loads(said)["stages"]
    assert (code, stage["stage"], stage["tasks"], stage["done"]) == (0, "groups", 3, 3)
    assert commands.named("run status")(out)[0] == 0
    code, said, err = commands.named("run")(*options, "--quiet", "--resume", "--json")
    assert code == 0, err
    assert json.loads(said)["rows"] == RunDirectory(whole).read_manifest()["rows"]
    assert released(out) == released(whole)
    assert commands.named("run tasks")(out)[:2] == (0, "")
    assert "has ended" in commands.named("run status")(out)[1]


def test_account_of_a_run_from_a_shell(
    given: tuple[Path, Path], tmp_path: Path, commands: Commands
) -> None:
    out = tmp_path / "run"
    done = runs.go(*given, out)
    code, said, err = commands.named("account")("verify", out)
    assert (code, err) == (0, "")
    assert "the privacy statement is right" in said
    code, said, err = commands.named("account")(out, "--json")
    assert (code, err) == (0, "")
    assert (
        Fraction(json.loads(said)["rho"]["total"])
        == open_groups(done.directory.release).spec.universes[0].plan.cost
    )
    assert commands.named("account")(out)[0] == 0
    assert commands.named("account")(out, "--delta", "1e-6")[0] == 0
