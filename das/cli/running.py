"""Run the pipeline, check a configuration, estimate from a release."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from das import pipeline
from das.accounting.codec import plain
from das.accounting.document import Promises
from das.accounting.statement import promises
from das.cli import idle
from das.cli.console import CONFIDENTIAL, console, shows_errors
from das.cli.interruption import of_engine, optional, repeated, resumable
from das.cli.options import (
    PATH,
    chosen_engine,
    config_argument,
    engine_options,
    guarded,
    json_option,
    load_any,
    run_options,
    say_notes,
    show_errors_option,
    store_options,
    warn,
    warn_of,
)
from das.cli.shown import class_of, headline_table, plan_table
from das.engine import Silent
from das.engine.choice import EngineChoice
from das.engine.display import Live
from das.errors import UserError
from das.evaluate import headline
from das.files.run.run_directory import read_json, release_of
from das.model.budget import Neighbours, Plan
from das.model.not_private import CELL, COLUMN, PLANNED, Private, marked
from das.release import estimating as from_release
from das.release.dhc import is_dhc_release
from das.release.estimating import AFTERWARDS, Outcome
from das.release.post import open_release
from das.size import Size, sizes
from das.spec import METHODS, DhcSpec, RunSpec
from das.stages import Stages


@click.command()
@config_argument
@click.option(
    "--out", type=PATH, help="Folder of the run (new or empty). Default: runs/<name>-<time>."
)
@click.option(
    "--data", "paths", type=PATH, multiple=True, help="A file or folder; replaces data.path."
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with an interrupted run in --out; refused where there is none.",
)
@click.option(
    "--accept-spent",
    is_flag=True,
    help=(
        "With --resume: draw a second time what cannot be drawn again as it was, and state both"
        " spendings."
    ),
)
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
    resume: bool,
    accept_spent: bool,
    ignore_memory: bool,
    engine: str,
    scheduler: str | None,
    tls: Path | None,
    wait: bool,
    size: int,
    store: str | None,
    confidential_store: str | None,
    workers: int,
    quiet: bool,
    show_errors: bool,
    as_json: bool,
) -> None:
    """Run the whole pipeline: of redistricting counts, of the demographic file, or of records of
    your own.

    Its errors tell of the true counts. They are in confidential/, and printed only to a terminal,
    or with --show-errors."""
    show_errors = shows_errors(show_errors, quiet=quiet, as_json=as_json)
    spec = load_any(config, changes)
    if (accept_spent and not resume) or (resume and out is None):
        raise UserError(
            "--accept-spent goes with --resume, and --resume with --out", where="das run"
        )
    choice = chosen_engine(EngineChoice(engine, workers, scheduler, tls, wait, size))
    out = out or Path("runs") / f"{_file_name(spec.run.name)}-{datetime.now():%Y%m%d-%H%M%S}"
    again = [
        "das",
        "run",
        config,
        *repeated("--set", changes),
        "--out",
        out,
        *repeated("--data", paths),
        *(["--workers", workers] if workers > 1 else []),
        *of_engine(choice),
        *optional("--store", store),
        *optional("--confidential-store", confidential_store),
    ]
    if isinstance(spec, DhcSpec):
        from das.cli import dhc_run

        with resumable(out, again):
            dhc_run.run(
                spec,
                out,
                paths,
                choice,
                (store, confidential_store),
                resume=resume,
                accept_spent=accept_spent,
                quiet=quiet,
                show_errors=show_errors,
                as_json=as_json,
            )
        return
    with resumable(out, again), Live(quiet) as progress:
        outcome = pipeline.run(
            spec,
            out,
            paths=paths,
            engine=choice,
            progress=progress,
            resume=resume,
            accept_spent=accept_spent,
            ignore_memory=ignore_memory,
            store=store,
            confidential_store=confidential_store,
        )
    if outcome.was_finished:
        click.echo(
            f"das: note: {out} is finished: there is nothing to resume, and nothing was changed",
            err=True,
        )
    say_notes(outcome.notes)
    if as_json:
        pages = {"report": outcome.directory.report, "page": outcome.directory.page}
        written = {name: str(path) if path.is_file() else None for name, path in pages.items()}
        more = {
            **written,
            "was_finished": outcome.was_finished,
            "worse_than_measured": _worse(outcome),
        }
        click.echo(json.dumps(marked(_summary(outcome) | more, spec.run.private)))
        return
    screen = console()
    warn(spec.run.private)
    if show_errors:
        screen.print(CONFIDENTIAL, style="bold", highlight=False)
        screen.print(
            headline_table(
                headline(outcome.rows[spec.persons.name]), apart=spec.geography.spine == "optimized"
            )
        )
    _say_worse(outcome)
    _say_idle(spec, outcome)
    when = "before" if outcome.was_finished else f"in {outcome.seconds:.1f} s"
    screen.print(f"written {when}:", highlight=False)
    may = (
        "safe to publish under the guarantee in privacy.json"
        if spec.run.private
        else f"{COLUMN}: {CELL}"
    )
    click.echo(f"  release  {outcome.directory.release}   ({may})")
    for url, who in ((store, ""), (confidential_store, "   (confidential)")):
        if url is not None:
            click.echo(f"  store    {url}{who}")
    if outcome.directory.page.is_file():
        click.echo(f"  page     {outcome.directory.page}   (look up every place)")
    if outcome.directory.report.is_file():
        click.echo(f"  report   {outcome.directory.report}   (confidential: the errors)")
    if not show_errors:
        click.echo(
            f"  errors   {outcome.directory.errors}   (confidential; `das evaluate` prints them)"
        )


def _sized(size: Size, with_data: bool) -> str:
    """One line: cells, memory and time."""
    least = "" if with_data else "at least "
    beside = "" if with_data else " (with --data: for the places and records that there are)"
    return (
        f"{size.universe}: {size.cells:,} cells; a run takes {least}{size.memory / 1e9:.1f} GB of"
        f" memory (at {size.where}) and {least}{_time(size.seconds)} of one core{beside}"
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _worse(outcome: Outcome) -> list[dict[str, Any]]:
    """What is published worse than it was measured, as the release says."""
    path = outcome.directory.release / from_release.MISFITS
    return list(read_json(path)[from_release.WORSE]) if path.is_file() else []


def _say_worse(outcome: Outcome) -> None:
    """One line, where there is something to say."""
    if worse := _worse(outcome):
        some = ", ".join(f"{m['level']}:{m['query']}" for m in worse[:3]) + (
            " ..." if len(worse) > 3 else ""
        )
        click.echo(
            f"das: note: published worse than measured: {some} (see release/{from_release.MISFITS};"
            " estimation.passes can hold them)",
            err=True,
        )


def _say_idle(spec: RunSpec, outcome: Outcome) -> None:
    """A line for each draw that bought nothing, by the trees that were measured."""
    if idle.found(spec):
        opened = open_release(outcome.directory.release)
        for line in idle.lines(idle.found_on(opened.run, opened.trees, opened.spine)):
            click.echo(f"das: note: {line}", err=True)


@click.command()
@config_argument
@click.option(
    "--data",
    "paths",
    type=PATH,
    multiple=True,
    help="Read this file or folder, too, and say what memory and time a run on it takes.",
)
@json_option
@guarded
def check(config: Path, changes: tuple[str, ...], paths: tuple[Path, ...], as_json: bool) -> None:
    """Validate a configuration and print its plan: cost, noise and margin of error of every query,
    and its size.

    It says which draws buy nothing, because what they measure is published exactly, and what share
    of the budget they take. On an optimised spine some may buy something where a state is in two
    units: with --data it is known where."""
    spec = load_any(config, changes)
    if isinstance(spec, DhcSpec):
        _check_dhc(spec, paths, as_json)
        return
    found, spare = sizes(spec), idle.found(spec)
    if paths:
        prepared = pipeline.prepare(spec, paths, Stages(), Silent())
        found = pipeline.sizes_of(spec, prepared)
        spare = idle.found_on(spec, prepared.trees, prepared.spine)
    plans = {u.name: u.plan for u in spec.universes}
    draws = {name: p.draws for name, p in plans.items()}
    promise = promises(spec.terms, draws)
    if not as_json:
        warn_of(spec)
        console().print(plan_table(spec.run.name, plans, promise, spec.run.private))
        for line in (*idle.lines(spare, config), *(_sized(size, bool(paths)) for size in found)):
            click.echo(line)
        return
    out = {"name": spec.run.name, "neighbours": spec.budget.neighbours} | _planned(
        plans, promise, spec.run.private
    )
    out["idle"] = idle.as_data(spare)
    out["sizes"] = [asdict(s) | {"with_data": bool(paths)} for s in found]
    click.echo(json.dumps(out, indent=2))


def _planned(plans: Mapping[str, Plan], promise: Promises, private: Private) -> dict[str, Any]:
    """A plan as data: what it costs, and a line for each of its draws."""
    lines = [
        {
            "universe": u,
            "level": d.level,
            "query": d.query,
            d.mechanism.currency: str(d.cost),
            d.mechanism.symbol: str(d.parameter),
            "margin_95": d.margin(),
        }
        | class_of(d, p)
        for u, p in plans.items()
        for d in p.draws
    ]
    return marked(plain(promise), private, PLANNED) | {"plan": lines}


def _check_dhc(spec: DhcSpec, paths: tuple[Path, ...], as_json: bool) -> None:
    """The plan of the demographic file."""
    if paths:
        raise UserError(
            "of the demographic file the plan alone is checked",
            where="--data",
            remedy="leave it out: das run reads it",
        )
    plans = {u.name: u.plan for u in spec.universes}
    promise = promises(spec.terms, {name: p.draws for name, p in plans.items()})
    if as_json:
        named = {"name": spec.run.name, "neighbours": Neighbours.BOUNDED.value}
        click.echo(json.dumps(named | _planned(plans, promise, spec.run.private), indent=2))
        return
    warn(spec.run.private, PLANNED)
    console().print(plan_table(spec.run.name, plans, promise, spec.run.private))


@click.command()
@click.option(
    "--from",
    "release",
    type=PATH,
    required=True,
    help=(
        "A run, its folder release/, or a folder of <Level>.parquet folders as the Bureau"
        " publishes."
    ),
)
@click.option("--out", type=PATH, required=True, help="A new or empty folder.")
@click.option(
    "--method", type=click.Choice(METHODS), help="How to estimate; default: as the release was."
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help=f"Change a key of {', '.join(AFTERWARDS)}, such as estimation.tolerance=1.",
)
@run_options
@json_option
@guarded
def estimate(
    release: Path,
    out: Path,
    method: str | None,
    changes: tuple[str, ...],
    workers: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Everything after measurement, from a release's noisy measurements alone.

    The release may be one of ours, or noisy measurement files of redistricting persons or housing
    units in the layout of the Bureau's publication (US.parquet/DPQuery/..., State.parquet/...),
    without anything beside them: spine, variances and constraints are then read off the files, and
    written with the result.

    What is written is a whole release again, with the measurements (linked, where the disk can),
    the ledger and the privacy statement of the one that it came from: every command works on it.
    """
    changes = (*changes, *([f"estimation.method={method}"] if method else ()))
    if is_dhc_release(release_of(release)):
        from das.cli import dhc_run

        dhc_run.estimate(
            release_of(release), out, changes, workers=workers, quiet=quiet, as_json=as_json
        )
        return
    with Live(quiet) as progress:
        outcome = from_release.estimate_from(
            release_of(release), out, changes=changes, workers=workers, progress=progress
        )
    private = outcome.private
    say_notes(outcome.notes)
    if as_json:
        click.echo(
            json.dumps(
                marked(
                    _summary(outcome)
                    | {"notes": outcome.notes, "worse_than_measured": _worse(outcome)},
                    private,
                )
            )
        )
    else:
        warn(private is not False)  # what is unknown is among the notes
        click.echo(f"written in {outcome.seconds:.1f} s: {outcome.directory.release}")


def _summary(outcome: Outcome) -> dict[str, object]:
    """What a script wants to know of a run."""
    directory = outcome.directory
    return {
        "out": str(directory.root),
        "release": str(directory.release),
        "seconds": round(outcome.seconds, 3),
    }


def _file_name(text: str) -> str:
    """A name that stays in its folder."""
    return re.sub(r"[^\w.-]+", "-", text).lstrip(".") or "run"
