"""What ``das run`` prints of a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from das.cli import running
from das.cli.kit.options import Stores
from das.engine import Progress, Silent
from das.engine.choice import EngineChoice, cores
from das.errors import UserError
from das.files.run.run_directory import RunDirectory
from das.publications.dhc.simulation.packaged import SimulatedInput
from das.release.outcome import Outcome
from das.runs import pipeline
from das.spec import RunSpec
from tests.commands import Commands
from tests.worlds import Worlds

SENTENCE = "One person added or removed costs rho = 1 (epsilon 9.61)."


def test_costs_of_changes_are_for_the_statement_and_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The terminal has one line on privacy; privacy.html and --json have the sentences."""
    outcome = Outcome(RunDirectory(tmp_path), 1.0, cost=(SENTENCE,))
    spec = SimpleNamespace(
        run=SimpleNamespace(private=True), publication=lambda: "dhc", universes=(), condition=""
    )
    for as_json in (False, True):
        running.show(spec, outcome, Stores(), show_errors=False, as_json=as_json)  # type: ignore[arg-type]
        assert (SENTENCE in capsys.readouterr().out) == as_json


def test_the_next_step_says_how_long_it_takes(tmp_path: Path) -> None:
    """As long as 50 times what the run measured and estimated; without a manifest nothing."""
    run = RunDirectory(tmp_path)
    assert running.lasts(run) == ""
    stages = [("read", 9), ("measure", 2), ("estimate and round", 10), ("report", 50)]
    said = {"stages": [{"name": name, "seconds": s} for name, s in stages]}
    run.manifest.write_text(json.dumps(said), encoding="utf-8")
    assert "; 50 replicates take about 10 min" in running.lasts(run)


@pytest.mark.parametrize(("more", "workers"), [((), None), (("--workers", "1"), 1)])
def test_all_cores_work_unless_told(
    more: tuple[str, ...],
    workers: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    commands: Commands,
) -> None:
    asked: list[EngineChoice] = []

    def stopped(*_: object, engine: EngineChoice, **__: object) -> None:
        asked.append(engine)
        raise UserError("stopped here", where="a test")

    monkeypatch.setattr(pipeline, "run", stopped)
    code, _, err = commands.named("run")("pl94-2010", "--out", tmp_path / "run", "--quiet", *more)
    assert (code, "stopped here" in err) == (2, True)
    (choice,) = asked
    assert choice.workers == (workers or cores())
    assert cores() == len(os.sched_getaffinity(0))


def test_the_dhc_runs_without_data_of_ones_own(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: Commands
) -> None:
    """Over records that are simulated for it, on a redistricting release that is run for it."""

    def make(
        self: SimulatedInput, seed: int | None, workers: int, progress: Progress, **_: bool
    ) -> None:
        assert (seed, workers) == (1, 1)
        worlds.copy(worlds.run("run.seed=1", data="one thousand"), self.redistricting)
        worlds.copy(worlds.linked(), self.linked)

    monkeypatch.setattr(SimulatedInput, "make", make)
    changes = ("--set", "run.seed=1", "--set", "output.report=false", "--workers", "1", "--quiet")
    code, _, err = commands.named("run")("dhc-2020", "--out", tmp_path / "run", *changes)
    assert code == 0, err
    assert "no data are named: this run is over simulated records, of nobody" in err
    assert f"{tmp_path}/run-redistricting" in err
    assert (tmp_path / "run" / "release" / "privacy.json").is_file()
    there = worlds.dhc() / "release" / "tables"
    names = sorted(p.name for p in there.iterdir())
    assert sorted(p.name for p in (tmp_path / "run/release/tables").iterdir()) == names


def test_how_to_go_on_where_its_input_is_not_there_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: Commands
) -> None:
    """There is nothing to resume in the run's folder: the same command makes what is missing."""

    def make(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SimulatedInput, "make", make)
    code, _, err = commands.named("run")("dhc-2020", "--out", tmp_path / "run", "--quiet")
    assert code == 130
    assert f"to continue: das run dhc-2020 --out {tmp_path / 'run'}\n" in err


def test_what_the_dhc_rests_on_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def run(spec: RunSpec, out: Path, **given: object) -> None:
        asked.append((spec.run.name, spec.run.seed, given["resume"]))
        out.mkdir()
        (out / "manifest.json").write_text("{}")

    monkeypatch.setattr(pipeline, "run", run)
    made = SimulatedInput.beside(tmp_path / "dhc")
    for _ in range(2):
        made.make(5, 1, Silent())
    assert asked == [("pl94-2010", 5, False)]
    persons = sorted(made.linked.glob("persons*"))
    assert persons
    assert made.release == tmp_path / "dhc-redistricting" / "release"


def test_a_file_with_the_name_of_a_command_gets_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: Commands
) -> None:
    """`das run status` is the command; only where a file has that name, it says how to name it."""
    monkeypatch.chdir(tmp_path)
    assert "./status" not in commands.named("run")("status", "nowhere")[2]
    (tmp_path / "status").write_text("", encoding="utf-8")
    code, _, err = commands.named("run")("status", "nowhere")
    assert (code, "for the file or folder of that name write ./status" in err) == (2, True)
