"""The tasks of a run, for those who do them by jobs of their own; and how far it is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import click
from rich.table import Table

from das.cli.kit.console import CommandAnswer, answering, console
from das.cli.kit.options import PATH, guarded, say_notes
from das.engine.tasks import duration
from das.errors import UserError
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from das.files.run.store_sync import StoreContents, SyncRecord
from das.files.run.task_store import Standing, TaskStore
from das.runs.tasks import do


def _task_store(run: Path) -> tuple[TaskStore, bool]:
    """The task store of a run, and whether the run has ended. Raises :class:`UserError` if there is
    no run."""
    directory = RunDirectory(run)
    if not directory.root.is_dir() or not (directory.release.is_dir() or TaskStore(run).stages()):
        raise UserError(
            "there is no run here",
            where=run,
            remedy="name the folder that --out of `das run` named",
        )
    return TaskStore(run.resolve()), directory.manifest.exists()


@click.command()
@click.argument("run", type=PATH)
@click.argument("stage")
@click.argument("partition")
@guarded
def task(run: Path, stage: str, partition: str) -> None:
    """Do one task of a run, as `das run tasks` names it. Any machine with the run's folder can do it.

    You can repeat a task, or do it twice at once: the result is the same. Exit code 0 means that
    it is done."""
    began = perf_counter()
    do(run, stage, partition)
    click.echo(f"{stage} {partition}: done in {duration(perf_counter() - began)}")


@click.command()
@click.argument("run", type=PATH)
@click.option("--stage", help="Only tasks of this stage.")
@answering
def tasks(run: Path, stage: str | None) -> CommandAnswer:
    """List the remaining tasks of the stages that have begun, largest first: a line `STAGE
    PARTITION` for each."""
    task_store, ended = _task_store(run)
    stages = [] if ended else task_store.stages() if stage is None else [stage]
    left = [t for s in stages for t in sorted(task_store.left(s), key=lambda t: -t.weight)]
    rows = [
        {
            "stage": t.stage,
            "partition": t.partition,
            "subtrees": t.subtrees,
            "weight": t.weight,
            "failed": task_store.fault(t) is not None,
        }
        for t in left
    ]

    def show() -> None:
        for one in left:
            click.echo(str(one))
        if not ended and not task_store.stages():
            say_notes([f"{run} is not cut into tasks: `{_resumes(RunDirectory(run))}` goes on"])

    return CommandAnswer(rows, show)


@click.command()
@click.argument("run", type=PATH)
@answering
def status(run: Path) -> CommandAnswer:
    """Show a run's progress: the finished part of each stage, its speed and expected end, and the
    active workers.

    Error messages of a stage with access to the truth can reveal it. Show them only to people
    who have access to confidential/."""
    task_store, ended = _task_store(run)
    standings = [task_store.standing(s) for s in task_store.stages()]
    carried = SyncRecord(RunDirectory(run)).stores()
    data = {
        "ended": ended,
        "stages": [_as_data(s) for s in standings],
        "stores": [asdict(c) for c in carried],
    }
    return CommandAnswer(data, lambda: _print_status(run, task_store, standings, carried, ended))


def _print_status(
    run: Path,
    task_store: TaskStore,
    standings: Sequence[Standing],
    carried: Sequence[StoreContents],
    ended: bool,
) -> None:
    for c in carried:
        click.echo(
            f"carried to {c.store}: {c.objects:,} objects, {c.bytes / 1e6:,.1f}"
            f" MB{', the seal among them' if c.sealed else ''}"
        )
    if ended:
        click.echo(f"{run}: has ended")
        return
    if not standings:
        for line in _in_one_piece(RunDirectory(run)):
            click.echo(line)
        return
    console().print(_table(standings))
    now = datetime.now(UTC)
    for s in standings:
        for a in s.at_work:
            click.echo(
                f"at work: {s.stage} {a.partition} for {duration((now - a.began).total_seconds())},"
                f" by process {a.process} on {a.host}"
            )
        for partition, fault in s.faults.items():
            click.echo(
                f"failed: {s.stage} {partition}: {fault.error(task_store.task(s.stage, partition))}"
            )


def _in_one_piece(run: RunDirectory) -> Iterator[str]:
    """How far a run is that is done by one process, without tasks."""
    yield (
        f"{run.root}: a process is at work in it"
        if run.is_locked()
        else f"{run.root}: has not ended, and no process of this machine is at work in it:"
        f" `{_resumes(run)}` goes on"
    )
    known = LedgerFile(run.ledger).entries
    measured = [s for s in known.last() if known.whole(s)]
    yield f"  measured    {', '.join(f'{u}: {lv}' for u, lv in measured) or 'nothing yet'}"
    for name in ("microdata", "tables"):
        files = [p for p in (run.release / name).rglob("*") if p.is_file()]
        yield f"  {name:11} {f'{len(files):,} files' if files else 'not yet'}"


def _resumes(run: RunDirectory) -> str:
    """The command that goes on with a run: its release has its whole configuration."""
    spec = run.release / "spec.toml"
    return shlex.join(
        [
            "das",
            "run",
            str(spec) if spec.is_file() else "CONFIG",
            "--out",
            str(run.root),
            "--resume",
        ]
    )


def _table(standings: Sequence[Standing]) -> Table:
    table = Table(title="stages", title_justify="left")
    table.add_column("stage", overflow="fold")
    for name in (
        "tasks",
        "done",
        "rate",
        "time left",
        "at work",
        "failed",
        "core time",
        "peak memory",
    ):
        table.add_column(name, justify="right", overflow="fold")
    for s in standings:
        rate, left = s.pace.rate, s.pace.left
        table.add_row(
            s.stage,
            f"{s.done:,} of {s.tasks:,}",
            f"{100 * s.share:.0f} %",
            "–" if rate is None else f"{rate:,.4g}/s",
            "–" if left is None or s.done == s.tasks else duration(left),
            f"{len(s.at_work)}",
            f"{len(s.faults)}",
            duration(s.seconds),
            f"{s.peak_mb / 1000:.2f} GB" if s.done else "–",
        )
    return table


def _as_data(s: Standing) -> dict[str, Any]:
    return {
        "stage": s.stage,
        "tasks": s.tasks,
        "done": s.done,
        "weight": s.weight,
        "weight_done": s.weight_done,
        "rate": s.pace.rate,
        "seconds_left": s.pace.left,
        "core_seconds": s.seconds,
        "peak_mb": s.peak_mb,
        "at_work": [
            {
                "partition": a.partition,
                "host": a.host,
                "process": a.process,
                "began": a.began.isoformat(),
            }
            for a in s.at_work
        ],
        "failed": {partition: fault.kind for partition, fault in s.faults.items()},
    }
