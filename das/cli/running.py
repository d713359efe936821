"""Run a configuration, of whatever publication."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from das import pipeline
from das.cli import idle
from das.cli.console import CONFIDENTIAL, console, records_table, shows_errors
from das.cli.interruption import of_engine, optional, repeated, resumable
from das.cli.options import (
    PATH,
    Going,
    Stores,
    config_argument,
    engine_options,
    guarded,
    json_option,
    load_any,
    resume_options,
    run_options,
    say_notes,
    show_errors_option,
    store_options,
    warn,
)
from das.cli.shown import headline_table
from das.engine.choice import EngineChoice
from das.engine.display import Live
from das.evaluate import headline
from das.files.run.run_directory import read_json
from das.model.not_private import CELL, COLUMN, WITHOUT, marked
from das.release import estimating
from das.release.outcome import Outcome
from das.release.publications import publication
from das.spec import Specification


@click.command()
@config_argument
@click.option(
    "--out", type=PATH, help="Folder of the run (new or empty). Default: runs/<name>-<time>."
)
@click.option(
    "--data", "paths", type=PATH, multiple=True, help="A file or folder; replaces data.path."
)
@resume_options
@click.option(
    "--ignore-memory",
    is_flag=True,
    help="Run even if this machine seems to have too little memory for it.",
)
@engine_options
@store_options
@run_options
@show_errors_option
@json_option
@guarded
def run(
    config: Path,
    changes: tuple[str, ...],
    out: Path | None,
    paths: tuple[Path, ...],
    going: Going,
    ignore_memory: bool,
    choice: EngineChoice,
    stores: Stores,
    quiet: bool,
    show_errors: bool,
    as_json: bool,
) -> None:
    """Run the whole pipeline: of redistricting counts, the demographic file, the Detailed DHC, or of
    records of your own.

    Its errors tell of the true counts. They are in confidential/, and printed only to a terminal,
    or with --show-errors."""
    spec = load_any(config, changes)
    again = [config, *repeated("--set", changes)]
    show_errors = shows_errors(show_errors, quiet=quiet, as_json=as_json)
    outcome = performed(
        spec, ["run", *again], out, paths, going, ignore_memory, choice, stores, quiet
    )
    show(spec, outcome, stores, show_errors=show_errors, as_json=as_json)


def performed(
    spec: Specification,
    command: Sequence[object],
    out: Path | None,
    paths: Sequence[Path],
    going: Going,
    ignore_memory: bool,
    choice: EngineChoice,
    stores: Stores,
    quiet: bool,
) -> Outcome:
    """The run of a specification; what stops it names the ``command`` by which it goes on."""
    going.check(out, f"das {command[0]}")
    out = out or Path("runs") / f"{_file_name(spec.run.name)}-{datetime.now():%Y%m%d-%H%M%S}"
    again = [
        "das",
        *command,
        "--out",
        out,
        *repeated("--data", paths),
        *(["--workers", choice.workers] if choice.workers > 1 else []),
        *of_engine(choice),
        *optional("--store", stores.release),
        *optional("--confidential-store", stores.confidential),
    ]
    with resumable(out, again), Live(quiet) as progress:
        return pipeline.run(
            spec,
            out,
            paths=paths,
            engine=choice,
            progress=progress,
            resume=going.resume,
            accept_spent=going.accept_spent,
            ignore_memory=ignore_memory,
            store=stores.release,
            confidential_store=stores.confidential,
        )


def show(
    spec: Specification, outcome: Outcome, stores: Stores, *, show_errors: bool, as_json: bool
) -> None:
    """Print what a run has written."""
    if outcome.was_finished:
        root = outcome.directory.root
        say_notes([f"{root} is finished: there is nothing to resume, and nothing was changed"])
    say_notes(outcome.notes)
    if as_json:
        click.echo(json.dumps(marked(_as_data(outcome), spec.run.private)))
        return
    warn(spec.run.private)
    if show_errors:
        print_errors(outcome)
    say_worse(outcome)
    say_notes(idle.bought_nothing(publication(spec.publication()), spec, outcome.directory.release))
    _show_files(spec, outcome, stores, show_errors)
    if outcome.cost:
        private = "" if spec.run.private else f" ({WITHOUT})"
        click.echo(f"what a change costs{private}:")
    for sentence in outcome.cost:
        click.echo(f"  {sentence}")


def print_errors(outcome: Outcome) -> None:
    """The errors are confidential."""
    screen = console()
    if outcome.rows or outcome.beside:
        screen.print(CONFIDENTIAL, style="bold", highlight=False)
    for rows in list(outcome.rows.values())[:1] if not outcome.beside else ():
        screen.print(headline_table(headline(rows), apart=outcome.apart))
    if outcome.beside:
        screen.print(records_table(outcome.beside_title, list(outcome.beside)))


def _show_files(spec: Specification, outcome: Outcome, stores: Stores, show_errors: bool) -> None:
    directory = outcome.directory
    for table, rows in outcome.tables.items():
        click.echo(f"  {table}: {rows:,} rows")
    when = "before" if outcome.was_finished else f"in {outcome.seconds:.1f} s"
    click.echo(f"written {when}:")
    may = (
        "safe to publish under the guarantee in privacy.json"
        if spec.run.private
        else f"{COLUMN}: {CELL}"
    )
    click.echo(f"  release  {directory.release}   ({may})")
    for url, who in ((stores.release, ""), (stores.confidential, "   (confidential)")):
        if url is not None:
            click.echo(f"  store    {url}{who}")
    if directory.page.is_file():
        looked_up = (
            ""
            if "look-up" in publication(spec.publication()).cannot
            else "   (look up every place)"
        )
        click.echo(f"  page     {directory.page}{looked_up}")
    if directory.report.is_file():
        click.echo(f"  report   {directory.report}   (confidential: the errors)")
    if outcome.rows and not show_errors:
        click.echo(f"  errors   {directory.errors}   (confidential; `das evaluate` prints them)")


def _as_data(outcome: Outcome) -> dict[str, Any]:
    pages = {"report": outcome.directory.report, "page": outcome.directory.page}
    written = {name: str(path) if path.is_file() else None for name, path in pages.items()}
    return summary(outcome) | written | {"was_finished": outcome.was_finished}


def summary(outcome: Outcome) -> dict[str, Any]:
    """What a script wants to know of a run, or of a release estimated again."""
    directory = outcome.directory
    out: dict[str, Any] = {
        "out": str(directory.root),
        "release": str(directory.release),
        "seconds": round(outcome.seconds, 3),
        "worse_than_measured": worse(outcome),
    }
    more = {"rows": dict(outcome.tables), "cost": list(outcome.cost)}
    return out | {name: value for name, value in more.items() if value}


def worse(outcome: Outcome) -> list[dict[str, Any]]:
    """What is published worse than it was measured, as the release says."""
    path = outcome.directory.release / estimating.MISFITS
    return list(read_json(path)[estimating.WORSE]) if path.is_file() else []


def say_worse(outcome: Outcome) -> None:
    """One line, where there is something to say."""
    if found := worse(outcome):
        named = ", ".join(f"{m['level']}:{m['query']}" for m in found[:3])
        some = named + (" ..." if len(found) > 3 else "")
        say_notes(
            [
                f"published worse than measured: {some} (see release/{estimating.MISFITS};"
                " estimation.passes can hold them)"
            ]
        )


def _file_name(text: str) -> str:
    """A name that stays in its folder."""
    return re.sub(r"[^\w.-]+", "-", text).lstrip(".") or "run"
