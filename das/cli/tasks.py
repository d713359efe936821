"""The tasks of a run, for those who do them by jobs of their own; and how far it is."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import click
from rich.table import Table

from das.cli.console import console
from das.cli.options import PATH, guarded, json_option
from das.engine.progress import duration
from das.errors import UserError
from das.files.run.board import Board, Standing
from das.files.run.carrier import Record
from das.files.run.run_directory import RunDirectory
from das.jobs.tasks import do


def _board(run: Path) -> tuple[Board, bool]:
    """The board of a run, and whether the run has ended. Raises :class:`UserError` where there is
    no run.
    """
    directory = RunDirectory(run)
    if not directory.root.is_dir() or not (directory.release.is_dir() or Board(run).stages()):
        raise UserError(
            "there is no run here",
            where=run,
            remedy="name the folder that --out of `das run` named",
        )
    return Board(run.resolve()), directory.manifest.exists()


@click.command()
@click.argument("run", type=PATH)
@click.argument("stage")
@click.argument("partition")
@guarded
def task(run: Path, stage: str, partition: str) -> None:
    """Do one task of a run, as `das tasks` names it; any machine can that has the folder of the
    run.

    To do it again, or twice at once, does no harm: it has one answer. Exit code 0 when it is done.
    """
    began = perf_counter()
    do(run, stage, partition)
    click.echo(f"{stage} {partition}: done in {duration(perf_counter() - began)}")


@click.command()
@click.argument("run", type=PATH)
@click.option("--stage", help="Of this stage alone.")
@json_option
@guarded
def tasks(run: Path, stage: str | None, as_json: bool) -> None:
    """What is left to do of the stages that have begun: a line `STAGE PARTITION` for each task, the
    largest first.
    """
    board, ended = _board(run)
    stages = [] if ended else board.stages() if stage is None else [stage]
    left = [t for s in stages for t in sorted(board.left(s), key=lambda t: -t.weight)]
    if as_json:
        click.echo(
            json.dumps(
                [
                    {
                        "stage": t.stage,
                        "partition": t.partition,
                        "shards": t.shards,
                        "weight": t.weight,
                        "failed": board.fault(t) is not None,
                    }
                    for t in left
                ]
            )
        )
        return
    for one in left:
        click.echo(str(one))


@click.command()
@click.argument("run", type=PATH)
@json_option
@guarded
def status(run: Path, as_json: bool) -> None:
    """How far a run is: what is done of each stage, how fast it goes, when the stage ends, and who
    is at work.

    Words of errors can tell of the truth, if the stage sees it: they are for the eyes of whoever
    may see confidential/."""
    board, ended = _board(run)
    standings = [board.standing(s) for s in board.stages()]
    carried = Record(RunDirectory(run)).stores()
    if as_json:
        stores = [asdict(c) for c in carried]
        click.echo(
            json.dumps(
                {"ended": ended, "stages": [_as_data(s) for s in standings], "stores": stores}
            )
        )
        return
    for c in carried:
        click.echo(
            f"carried to {c.store}: {c.objects:,} objects, {c.bytes / 1e6:,.1f}"
            f" MB{', the seal among them' if c.sealed else ''}"
        )
    if ended:
        click.echo(f"{run}: has ended")
        return
    if not standings:
        click.echo(
            f"{run}: has not ended, and no stage has begun that is done by tasks. A small run is"
            " done by one process, which shows how far it is; if that was interrupted, `das run"
            " CONFIG --out DIR --resume` goes on"
        )
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
                f"failed: {s.stage} {partition}: {fault.error(board.task(s.stage, partition))}"
            )


def _table(standings: list[Standing]) -> Table:
    table = Table(title="stages", title_justify="left")
    table.add_column("stage", no_wrap=True)
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
        table.add_column(name, justify="right", no_wrap=True)
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
