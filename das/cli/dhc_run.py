"""The demographic file in ``das run``, ``das check`` and ``das estimate --from``, which take it as
they take any run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from das.cli.console import CONFIDENTIAL, console, records_table
from das.cli.options import say_notes, warn
from das.engine.choice import LOCAL, EngineChoice
from das.engine.display import Live
from das.errors import UserError
from das.jobs.dhc import DhcOutcome, estimate_dhc_from, run_dhc
from das.model.not_private import CELL, COLUMN, WITHOUT, marked
from das.spec import DhcSpec


def run(
    spec: DhcSpec,
    out: Path,
    paths: Sequence[Path],
    engine: EngineChoice,
    stores: Sequence[str | None],
    *,
    resume: bool,
    accept_spent: bool,
    quiet: bool,
    show_errors: bool,
    as_json: bool,
) -> None:
    """``das run``."""
    if engine.name != LOCAL or any(stores):
        raise UserError(
            "the demographic file is made by this machine, on its own disk",
            where="das run",
            remedy="leave --engine, --store and --confidential-store out",
        )
    with Live(quiet) as progress:
        outcome = run_dhc(
            spec,
            out,
            paths=paths,
            workers=engine.workers,
            progress=progress,
            resume=resume,
            accept_spent=accept_spent,
        )
    if outcome.was_finished:
        click.echo(
            f"das: note: {out} is finished: there is nothing to resume, and nothing was changed",
            err=True,
        )
    _say(outcome, as_json, show_errors)


def estimate(
    release: Path, out: Path, changes: Sequence[str], *, workers: int, quiet: bool, as_json: bool
) -> None:
    """``das estimate --from``."""
    if changes:
        raise UserError(
            f"{changes[0].partition('=')[0]} of a release of the demographic file does not change",
            where="--set, --method",
            remedy="only what was revealed for its outer passes can be known: leave it out",
        )
    with Live(quiet) as progress:
        outcome = estimate_dhc_from(release, out, workers=workers, progress=progress)
    _say(outcome, as_json)


def _say(outcome: DhcOutcome, as_json: bool, show_errors: bool = False) -> None:
    directory, private = outcome.directory, outcome.spec.run.private
    say_notes(outcome.notes)
    if as_json:
        said = {
            "out": str(directory.root),
            "release": str(directory.release),
            "seconds": round(outcome.seconds, 3),
            "was_finished": outcome.was_finished,
            "cost": list(outcome.cost),
        }
        click.echo(json.dumps(marked(said, private)))
        return
    warn(private)
    screen = console()
    if outcome.beside and show_errors:
        rows = [
            {"level": b.level, "units": b.n, "lines": b.lines, "our error / its": f"{b.ratio:.2f}"}
            for b in outcome.beside
        ]
        screen.print(CONFIDENTIAL, style="bold", highlight=False)
        screen.print(
            records_table("Mean absolute errors beside those of the Bureau's run, medians", rows)
        )
    screen.print(
        "written before:" if outcome.was_finished else f"written in {outcome.seconds:.1f} s:",
        highlight=False,
    )
    may = "safe to publish under the guarantee in privacy.json" if private else f"{COLUMN}: {CELL}"
    click.echo(f"  release  {directory.release}   ({may})")
    if directory.page.is_file():
        click.echo(f"  page     {directory.page}")
    if directory.report.is_file():
        click.echo(f"  report   {directory.report}   (confidential: the errors)")
    if outcome.cost:
        screen.print(f"what a change costs{'' if private else f' ({WITHOUT})'}:", highlight=False)
    for sentence in outcome.cost:
        screen.print(f"  {sentence}", highlight=False, markup=False)
