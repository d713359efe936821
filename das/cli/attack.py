"""Reconstruction of everybody's record from the published tables of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from das.cli.answer import CommandAnswer, answering
from das.cli.console import console, records_table
from das.cli.options import PATH, warn
from das.errors import UserError
from das.files import atomic
from das.files.atomic import write_json
from das.files.provenance import privacy_of
from das.files.run.run_directory import RunDirectory, create_private, refuse_inside_release
from das.jobs.attack_figure import attack_figure
from das.jobs.attacking import attacked
from das.model.not_private import marked, marked_rows, weakest
from das.risk.score import Report, Score


@click.command()
@click.argument("runs", type=PATH, nargs=-1, required=True)
@click.option("--figure", type=PATH, help="Draw all runs into this file, in .svg (confidential).")
@answering
def attack(runs: Sequence[Path], figure: Path | None) -> CommandAnswer:
    """Reconstruct everybody's record from the published tables of finished runs, and compare it
    with the truth.
    """
    if figure is not None:
        if figure.suffix != ".svg":
            raise UserError("figures are SVG", where=figure, remedy="end its name in .svg")
        refuse_inside_release(figure)
    reports, private = [], {run: privacy_of(run) for run in runs}
    for run in runs:
        reports.append(attacked(run))
        confidential = RunDirectory(run).confidential
        create_private(confidential)
        write_json(confidential / "risk" / "attack.json", marked(asdict(reports[-1]), private[run]))
    if figure is not None:
        try:
            atomic.write_bytes(figure, f"{attack_figure(reports)}\n".encode(), 0o600)
        except OSError as error:
            raise UserError(
                f"cannot be written ({error.strerror})",
                where=figure,
                remedy="choose another --figure",
            ) from None
    every = zip(runs, reports, strict=True)
    data = [row for run, r in every for row in marked_rows([asdict(r)], private[run])]

    def show() -> None:
        warn(weakest(private.values()))
        title = "Records recovered from the published tables (confidential)"
        console().print(records_table(title, [line for r in reports for line in _lines(r)]))
        for run in runs:
            click.echo(f"written: {RunDirectory(run).confidential / 'risk' / 'attack.json'}")

    return CommandAnswer(data, show)


def _lines(r: Report) -> list[dict[str, Any]]:
    kinds: Sequence[tuple[str, Score]] = (
        ("attack", r.attack),
        ("face value", r.face_value),
        ("baseline", r.baseline),
    )
    return [
        {
            "run": r.run,
            r.currency: f"{r.cost:.4g}",
            "intruder": name,
            "agreement": s.agreement,
            "expected": s.expected,
            "allowed": r.allowed if name == "attack" else "",
            "surest 10%": s.precision[2],
            "surest 50%": s.precision[4],
            "uniques": s.uniques,
            "found": s.uniques_found,
            "claims": s.claims,
            "right": s.claims_right,
        }
        for name, s in kinds
    ]
