"""A run's tasks from a shell: what is left, doing it, and how far it is; and the options that say
who does it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from das.cli import tasks as of_tasks
from das.cli.kit.interruption import resumable
from das.cli.kit.options import guarded
from das.engine.choice import EngineChoice
from das.engine.tasks import HandedOver, Task
from das.files.run.run_directory import RunDirectory
from das.files.run.stage_tasks import ArrayEngine, attempt, perform
from das.files.run.task_store import TaskStore
from das.runs import tasks as jobs
from tests.commands import Commands
from tests.engine.stages import SECRET, fail, note, tasks
from tests.told import Told
from tests.worlds import Worlds


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of four tasks one is done, and one is input that is refused; they see the truth."""
    folder = tmp_path / "a run"
    (folder / "release").mkdir(parents=True)
    task_store = TaskStore(folder)
    task_store.plan(tasks(folder, ["a", "b", "input", "d"]), confidential=True)
    attempt(note, task_store.task("dummy", "a"))
    monkeypatch.setattr(jobs, "STAGES", {"dummy": fail})
    return folder


def test_what_is_left_is_a_line_each_and_they_are_done_in_any_order(
    run: Path, commands: Commands
) -> None:
    code, out, err = commands.named("run tasks")(run)
    assert (code, err) == (0, "")
    assert out.splitlines() == ["dummy b", "dummy input", "dummy d"]
    for line in ("dummy d", "dummy b"):
        code, out, err = commands.named("run task")(run, *line.split())
        assert (code, err) == (0, "")
        assert out.startswith(f"{line}: done in ")
    assert commands.named("run tasks")(run, "--stage", "dummy")[1] == "dummy input\n"
    assert TaskStore(run).answers("dummy").keys() == {"a", "b", "d"}


def test_a_task_that_fails_says_so_without_the_truth_and_status_has_its_words(
    run: Path, commands: Commands
) -> None:
    code, out, err = commands.named("run task")(run, "dummy", "input")
    assert (code, out) == (2, "")
    assert "dummy input: InputError in a task that sees the truth" in err
    assert SECRET not in err
    assert json.loads(commands.named("run tasks")(run, "--json")[1]) == [
        {"stage": "dummy", "partition": "b", "subtrees": [2, 2], "weight": 3.0, "failed": False},
        {"stage": "dummy", "partition": "input", "subtrees": [3, 3], "weight": 2.0, "failed": True},
        {"stage": "dummy", "partition": "d", "subtrees": [4, 4], "weight": 1.0, "failed": False},
    ]
    code, out, err = commands.named("run status")(run)
    assert (code, err) == (0, "")
    assert f"failed: dummy input: line 3: the count is {SECRET}" in out


def test_status_says_how_far_it_is_and_who_is_at_work(run: Path, commands: Commands) -> None:
    task_store = TaskStore(run)
    task_store.begin(task_store.task("dummy", "b"))
    code, out, err = commands.named("run status")(run)
    assert (code, err) == (0, "")
    (row,) = [line for line in out.splitlines() if re.match(r"│ dummy", line)]
    assert "1 of 4" in row
    assert "40 %" in row  # by weight
    assert re.search(rf"at work: dummy b for \d s, by process {os.getpid()} on ", out)
    found = json.loads(commands.named("run status")(run, "--json")[1])
    assert found["ended"] is False
    (stage,) = found["stages"]
    assert (
        stage["stage"],
        stage["tasks"],
        stage["done"],
        stage["weight"],
        stage["weight_done"],
    ) == ("dummy", 4, 1, 10.0, 4.0)
    assert [a["partition"] for a in stage["at_work"]] == ["b"]
    assert stage["failed"] == {}


def test_a_run_that_has_ended_has_nothing_left(run: Path, commands: Commands) -> None:
    (run / "manifest.json").write_text("{}")
    assert commands.named("run tasks")(run) == (0, "", "")
    assert commands.named("run status")(run)[1] == f"{run}: has ended\n"
    TaskStore(run).remove()
    before = sorted(run.rglob("*"))
    code, out, err = commands.named("run task")(run, "dummy", "b")
    assert (code, out) == (2, "")
    assert "this run has ended: nothing is left to do" in err
    assert sorted(run.rglob("*")) == before


def test_a_small_run_has_no_tasks(tmp_path: Path, commands: Commands) -> None:
    (tmp_path / "release").mkdir()
    code, out, note = commands.named("run tasks")(tmp_path)
    assert (code, out) == (0, "")
    assert "is not cut into tasks: `das run CONFIG" in note
    (tmp_path / "release" / "spec.toml").write_text("")
    said = commands.named("run status")(tmp_path)[1]
    assert "has not ended, and no process of this machine is at work in it" in said
    spec = tmp_path / "release" / "spec.toml"
    assert f"`das run {spec} --out {tmp_path} --resume` goes on" in said
    assert "measured    nothing yet" in said


def test_a_small_run_says_how_far_it_is(tmp_path: Path, worlds: Worlds, commands: Commands) -> None:
    """While a process holds its folder, and after that process has ended."""
    run = worlds.copy(worlds.run("run.seed=1", data="three thousand"), tmp_path / "run")
    (run / "manifest.json").unlink()
    shutil.rmtree(run / "release" / "tables")
    with RunDirectory(run).lock():
        said = commands.named("run status")(run)[1]
    assert said.splitlines()[0] == f"{run}: a process is at work in it"
    assert "persons: US, persons: State" in said
    assert "microdata   " in said
    assert "tables      not yet" in said
    assert "no process of this machine" in commands.named("run status")(run)[1]


@pytest.mark.parametrize(
    "words, said",
    [
        (["tasks", "elsewhere"], "no run here"),
        (["status", "elsewhere"], "no run here"),
        (["tasks", "RUN", "--stage", "x"], "no stage 'x'"),
        (["task", "elsewhere", "dummy", "a"], "no stage 'dummy' has begun"),
        (["task", "RUN", "dummy", "z"], "no partition 'z'"),
        (["task", "RUN", "later", "a"], "no stage 'later'"),
    ],
)
def test_what_is_not_there_is_said(
    run: Path, commands: Commands, words: list[str], said: str
) -> None:
    """By the old spelling, which names the new one."""
    code, out, err = commands.named(words[0])(*(run if w == "RUN" else w for w in words[1:]))
    assert (code, out) == (2, "")
    assert said in err
    note = f"das: note: `das {words[0]}` is now `das run {words[0]}`\n"
    assert err.startswith(note)
    code, out, err = commands.named(f"run {words[0]}")(
        *(run if w == "RUN" else w for w in words[1:])
    )
    assert (code, out) == (2, "")
    assert err.startswith("das: ")
    assert "note" not in err


def test_a_stage_of_another_version_is_said(
    run: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "STAGES", {})
    code, _, err = commands.named("run task")(run, "dummy", "a")
    assert code == 2
    assert "use the version that began the run" in err


def test_the_loop_that_is_printed_does_all(run: Path, root: Path, tmp_path: Path) -> None:
    """In a shell, with a stage that a program of ours would know; the folder's name has a space."""
    script = tmp_path / "das"
    script.write_text(f"""#!{sys.executable}
import das.runs.tasks as jobs
from das.cli import main
from tests.engine.stages import note
jobs.STAGES = {{"dummy": note}}
main()
""")
    script.chmod(0o755)
    attempt(note, TaskStore(run).task("dummy", "b"))
    with ArrayEngine() as engine, pytest.raises(HandedOver, match="2 tasks") as handed:
        perform(engine, note, tasks(run, ["a", "b", "input", "d"]), Told(), confidential=True)
    loop = str(handed.value).partition("what to do: ")[2]
    assert (
        loop
        == f"das run tasks {shlex.quote(str(run))} | xargs -L 1 das run task {shlex.quote(str(run))}"
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(root)}
    done = subprocess.run(
        loop.replace("-L 1", "-L 1 -P 2"),
        shell=True,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert TaskStore(run).left("dummy") == []
    with ArrayEngine() as engine:
        assert (
            len(
                perform(
                    engine, note, [Task(run, "dummy", "all", (1, 4))], Told(), confidential=True
                )
            )
            == 4
        )


@pytest.fixture
def handed_over(run: Path) -> Iterator[object]:
    """A command that hands its tasks over."""

    @guarded
    def command() -> None:
        with resumable(run, ["das", "run", "c.toml", "--engine", "array"]), ArrayEngine() as engine:
            perform(engine, note, tasks(run, ["a", "b", "input", "d"]), Told(), confidential=True)

    return command  # type: ignore[return-value]


def test_a_run_that_hands_over_ends_well_and_says_how_it_goes_on(
    handed_over, capsys: pytest.CaptureFixture[str]
) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as end:
        handed_over()
    assert end.value.code == 0
    said = capsys.readouterr().err
    assert "3 tasks of the stage 'dummy' are to be done" in said
    assert said.endswith("then go on: das run c.toml --engine array --resume\n")


def test_what_stops_a_run_says_how_much_of_its_stage_is_kept(run: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as stop, resumable(run, ["das"]):
        raise KeyboardInterrupt
    assert "1 of 4 tasks of the stage 'dummy' are done (40 %), and are kept" in stop.value.__notes__


@pytest.mark.parametrize(
    "options, said",
    [
        (["--scheduler", "tls://h:1"], "--scheduler: belongs to --engine dask"),
        (["--engine", "dask"], "an address is missing"),
        (["--engine", "dask", "--scheduler", "tcp://10.0.0.1:8786"], "only for this machine"),
        (["--wait"], "--wait: only a run"),
    ],
)
def test_options_of_engines_are_checked_before_anything_is_read(
    tmp_path: Path, commands: Commands, root: Path, options: list[str], said: str
) -> None:
    code, _, err = commands.named("run")(
        root / "configs" / "1940.toml", "--data", "none", "--out", tmp_path / "out", *options
    )
    assert code == 2
    assert said in err
    assert not (tmp_path / "out").exists()


def test_the_choice_of_an_engine_is_in_the_command_that_goes_on(tmp_path: Path) -> None:
    from das.cli.kit.interruption import of_engine

    assert of_engine(EngineChoice(workers=4)) == ["--workers", 4]
    assert of_engine(EngineChoice(workers=4, automatic=True)) == []
    assert of_engine(EngineChoice("array", wait=True, automatic=True)) == [
        "--engine",
        "array",
        "--wait",
    ]
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).touch(0o600)
    chosen = EngineChoice("dask", scheduler="tls://h:1", tls=tmp_path, automatic=True)
    assert of_engine(chosen) == ["--engine", "dask", "--scheduler", "tls://h:1", "--tls", tmp_path]


def test_no_text_of_the_status_is_cut(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a narrow terminal: a cell goes on in the next line."""
    standings = [TaskStore(run).standing(s) for s in TaskStore(run).stages()]
    file = StringIO()
    Console(width=50, file=file).print(of_tasks._table(standings))
    drawn = file.getvalue()
    assert "…" not in drawn
    cells = "".join(row.split("│")[1].strip() for row in drawn.splitlines() if "│" in row)
    assert all(s.stage in cells for s in standings)
