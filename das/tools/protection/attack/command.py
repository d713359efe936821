"""Everybody's record from a folder of published tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from das.cli.kit.console import CommandAnswer, answering, console, records_table
from das.cli.kit.options import OUT, PATH, quiet_option, warn
from das.engine.choice import cores
from das.engine.display import Live
from das.errors import UserError
from das.files.messages import privacy_of
from das.files.run.run_directory import refuse_inside_release
from das.model.not_private import Private, marked
from das.tools.protection.attack import AttackOptions
from das.tools.protection.attack.reidentification import ReidentificationScores
from das.tools.protection.truth.reconstructing import (
    AttackSource,
    attack_folder,
    is_release,
    score_rows,
    scored_release,
)


@click.command()
@click.argument("folder", type=PATH)
@click.option("--out", type=OUT, help="A folder for the guess; only you can read it.")
@click.option("--truth", type=PATH, help="A folder of linked records: score the guess against it.")
@click.option(
    "--tables", metavar="P8,P9,...", default="", help="Attack these tables alone. Default: all."
)
@click.option("--rounding", default="", help="How counts are rounded: random:3, nearest:5.")
@click.option("--around", help="The level whose tables are the prior, such as Tract.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=AttackOptions.seconds,
    show_default=True,
    help="The limit of each integer program.",
)
@click.option("--no-variability", is_flag=True, help="Do not measure how far solutions can differ.")
@click.option("--workers", type=click.IntRange(1), help="Processes. Default: all processors.")
@quiet_option
@answering
def reconstruct(
    folder: Path,
    out: Path | None,
    truth: Path | None,
    workers: int | None,
    quiet: bool,
    **given: Any,
) -> CommandAnswer:
    """Reconstruct everybody's record from a folder of published tables: CSV files with a row a
    place and columns such as P0080003. An interrupted attack continues with the same command.

    FOLDER can have the tables of `das frontier protect`, too. It can be a run or a release: its published
    records are taken at face value, and compared with the truth."""
    if is_release(folder):
        if out is not None:
            raise UserError(
                "a release publishes records, and there is no guess to write",
                where="--out",
                remedy="leave it out, or name a folder of tables",
            )
        return _scored(scored_release(folder, truth), privacy_of(folder))
    if out is None:
        raise UserError("name a folder for the guess", where="--out", remedy="such as --out guess")
    refuse_inside_release(out)
    with Live(quiet) as progress:
        result = attack_folder(
            *_asked(folder, out, **given),
            truth=truth,
            workers=workers or cores(),
            progress=progress,
        )
    summary: dict[str, Any] = result.summary()
    scores = [] if result.scores is None else list(score_rows(result.scores))
    data = {"summary": summary, "scores": plain_rows(scores)}
    return CommandAnswer(data, lambda: _print(summary, result.scores, out))


def _print(summary: Mapping[str, Any], scores: ReidentificationScores | None, out: Path) -> None:
    rows = [{"what": name, "value": _shown(value)} for name, value in summary.items()]
    console().print(records_table("Records reconstructed from the published tables", rows))
    if scores is not None:
        _scored(scores).show()
    click.echo(f"written: {out / 'units.csv'}, {out / 'records.csv'}")


def _asked(
    folder: Path,
    out: Path,
    tables: str,
    rounding: str,
    around: str | None,
    seconds: float,
    no_variability: bool,
) -> tuple[AttackSource, Path, AttackOptions]:
    only = tuple(t.strip().upper() for t in tables.split(",") if t.strip())
    options = AttackOptions(seconds=seconds, variability=not no_variability, around=around)
    return AttackSource(folder, only, rounding), out, options


def _scored(scores: ReidentificationScores, private: Private = True) -> CommandAnswer:
    rows = list(score_rows(scores))

    def for_a_reader() -> None:
        warn(private)
        every = [
            {k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items() if k != "size"}
            for row in rows
            if row["size"] == "all"
        ]
        console().print(records_table("Compared with the truth (confidential)", every))

    return CommandAnswer(marked({"scores": plain_rows(rows)}, private), for_a_reader)


def plain_rows(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Rows whose numbers JSON knows: none instead of nan."""
    return [{k: None if v != v else v for k, v in row.items()} for row in rows]


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
