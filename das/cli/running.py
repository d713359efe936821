"""Run a configuration, of whatever publication."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from das.cli.kit import redundant
from das.cli.kit.console import CommandAnswer, print_answer, shows_errors
from das.cli.kit.interruption import STOPPED, of_engine, optional, repeated, resumable
from das.cli.kit.lazy import LateCommands, OrSubcommand
from das.cli.kit.options import (
    PATH,
    ResumeOptions,
    Stores,
    again_in,
    config_argument,
    engine_options,
    guarded,
    json_option,
    load_any,
    register_options,
    resume_options,
    say_notes,
    show_errors_option,
    store_options,
    warn,
    whole_run_options,
)
from das.engine.choice import EngineChoice
from das.engine.display import Live
from das.files.run.run_directory import read_json
from das.model.not_private import CELL, COLUMN, WITHOUT, marked
from das.register.entering import RegisterOptions
from das.release import estimating
from das.release.outcome import Outcome
from das.release.publications import publication
from das.report.privacy import cause, remedy
from das.runs import pipeline
from das.spec import Specification

#: Of a run for which nothing is given.
SIMULATED = (
    "no data are named: this run is over simulated records, of nobody, made for it in {made.linked}"
)
#: Of one that rests on an earlier release.
RESTS = (
    ", and rests on a redistricting release of the same blocks, run for it in {made.redistricting}."
    " For data of your own: --data LINKED --set {key}=RELEASE (docs/dhc.md)"
)
READ = ". For data of your own: --data FOLDER"


TASKS = {
    "status": "Show a run's progress: stages, speed, expected end, workers.",
    "tasks": "List the remaining tasks of a run, for jobs of your own.",
    "task": "Do one task of a run.",
}


@click.command(
    cls=OrSubcommand, late=LateCommands(dict.fromkeys(TASKS, "das.cli.tasks")), lines=TASKS
)
@config_argument
@click.option(
    "--out", type=PATH, help="The run's folder (new or empty). Default: runs/<name>-<time>."
)
@click.option(
    "--data", "paths", type=PATH, multiple=True, help="A file or folder; replaces data.path."
)
@resume_options
@click.option(
    "--ignore-memory",
    is_flag=True,
    help="Run even if this machine seems to have too little memory.",
)
@engine_options
@store_options
@register_options
@whole_run_options
@show_errors_option
@json_option
@guarded
def run(
    config: Path,
    changes: tuple[str, ...],
    out: Path | None,
    paths: tuple[Path, ...],
    going: ResumeOptions,
    ignore_memory: bool,
    choice: EngineChoice,
    stores: Stores,
    register: RegisterOptions | None,
    quiet: bool,
    show_errors: bool,
    as_json: bool,
) -> None:
    """Run the pipeline for redistricting counts, the DHC, Detailed DHC, S-DHC, or your own records.

    The errors reveal the true counts: they print only to a terminal, or with --show-errors."""
    spec = load_any(config, changes)
    going.check(out, "das run")
    out = out or _new_folder(spec)
    if spec.lacks_input(paths):
        paths, changes = _simulated(spec, config, changes, out, choice.workers, quiet)
        spec = load_any(config, changes)
    show_errors = shows_errors(show_errors, quiet=quiet, as_json=as_json)
    again = [*_again(config, changes, out), *_options(paths, choice, stores, register)]
    with resumable(out, again), Live(quiet) as progress:
        outcome = pipeline.run(
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
            register=register,
        )
    show(spec, outcome, stores, show_errors=show_errors, as_json=as_json)


def _simulated(
    spec: Specification,
    config: Path,
    changes: tuple[str, ...],
    out: Path,
    workers: int,
    quiet: bool,
) -> tuple[tuple[Path], tuple[str, ...]]:
    """Records that are made next to ``out``, and ``changes`` that also name what they rest on. If
    making them stops, the message names the command to continue."""
    from das.publications.dhc.simulation.packaged import SimulatedInput  # slow to load

    made = SimulatedInput.beside(out)
    says = RESTS.format(made=made, key=spec.rests_on) if spec.rests_on else READ
    say_notes([f"{SIMULATED.format(made=made)}{says}"])
    try:
        with Live(quiet) as progress:
            made.make(spec.run.seed, workers, progress, release=bool(spec.rests_on))
    except tuple(STOPPED) as stopped:
        again = shlex.join(map(str, _again(config, changes, out)))
        stopped.add_note(f"to continue: {again}")
        raise
    rests = (f"{spec.rests_on}={made.release}",) if spec.rests_on else ()
    return (made.linked,), (*changes, *rests)


def _new_folder(spec: Specification) -> Path:
    return Path("runs") / f"{_file_name(spec.run.name)}-{datetime.now():%Y%m%d-%H%M%S}"


def _again(config: Path, changes: Sequence[str], out: Path) -> list[object]:
    """The words of the same command."""
    return ["das", "run", config, *repeated("--set", changes), "--out", out]


def _options(
    paths: Sequence[Path], choice: EngineChoice, stores: Stores, register: RegisterOptions | None
) -> list[object]:
    """Those that were given."""
    kept = optional("--store", stores.release)
    kept += optional("--confidential-store", stores.confidential)
    return [*repeated("--data", paths), *of_engine(choice), *kept, *again_in(register)]


def show(
    spec: Specification, outcome: Outcome, stores: Stores, *, show_errors: bool, as_json: bool
) -> None:
    """Print what a run has written."""
    if outcome.was_finished:
        root = outcome.directory.root
        say_notes([f"{root} is finished: there is nothing to resume, and nothing was changed"])
    say_notes(outcome.notes)
    answer = CommandAnswer(
        marked(_as_data(outcome), spec.run.private),
        lambda: _print_outcome(spec, outcome, stores, show_errors),
    )
    print_answer(answer, as_json)


def _print_outcome(
    spec: Specification, outcome: Outcome, stores: Stores, show_errors: bool
) -> None:
    warn(spec.run.private)
    if show_errors:
        from das.cli.kit.shown import print_errors  # slow to load

        print_errors(outcome)
    say_notes(
        redundant.redundancy_notes(publication(spec.publication()), spec, outcome.directory.release)
    )
    _show_files(spec, outcome, stores, show_errors)
    print_cost(outcome, private=spec.run.private)


def print_cost(outcome: Outcome, *, private: bool) -> None:
    """What changes of several records cost, one to a line."""
    if outcome.cost:
        click.echo(f"what a change costs{'' if private else f' ({WITHOUT})'}:")
    for sentence in outcome.cost:
        click.echo(f"  {sentence}")


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
    if directory.report.is_file():
        click.echo(f"  report   {directory.report}   (confidential: the errors)")
    if outcome.rows and not show_errors:
        click.echo(f"  errors   {directory.errors}   (confidential; `das evaluate` prints them)")
    _show_next(spec, outcome)


def _show_next(spec: Specification, outcome: Outcome) -> None:
    """Where the page is, what was not met and why, and which command comes next."""
    directory, of = outcome.directory, publication(spec.publication())
    if directory.page.is_file():
        looked_up = "" if "look-up" in of.cannot else "   (look up every place)"
        click.echo(f"  page     {directory.page}{looked_up}")
    if directory.linked.is_dir():
        click.echo(f"  linked   {directory.linked}   (persons in households: experimental)")
    click.echo(f"  not met  {_not_met(worse(outcome), outcome.settled)}")
    if "intervals" not in of.cannot:
        click.echo(
            f"  next     das intervals {directory.release}   (intervals of published counts)"
        )


def _not_met(unmet: Sequence[dict[str, Any]], settled: Mapping[str, str]) -> str:
    """Which queries are published worse than they were measured, why, and what avoids it."""
    if not unmet:
        return "nothing: noise explains how far published counts are from measured ones"
    first = unmet[0]
    named = ", ".join(f"{m['query']} of {m['universe']} at {m['level']}" for m in unmet[:3])
    more = f" and {len(unmet) - 3} more" if len(unmet) > 3 else ""
    above = settled.get(first["level"])
    return (
        f"published worse than measured: {named}{more}. Why"
        f" ({first['level']}): {cause(first['level'], above)}. What to do: {remedy(above)}"
    )


def _as_data(outcome: Outcome) -> dict[str, Any]:
    pages = {"report": outcome.directory.report, "page": outcome.directory.page}
    written = {name: str(path) if path.is_file() else None for name, path in pages.items()}
    return summary(outcome) | written | {"was_finished": outcome.was_finished}


def summary(outcome: Outcome) -> dict[str, Any]:
    """What a script needs to know about a run, or about a release that was estimated again."""
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


def _file_name(text: str) -> str:
    """A name that stays in its folder."""
    return re.sub(r"[^\w.-]+", "-", text).lstrip(".") or "run"
