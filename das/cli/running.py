"""Run a configuration, of whatever publication."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from das.accounting.document import NAME, Line, Statement
from das.accounting.guarantee import quoted
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
from das.engine.tasks import duration
from das.files.release import statement
from das.files.run.run_directory import RunDirectory, read_json
from das.model.mechanisms import MECHANISMS
from das.model.not_private import CELL, COLUMN, WITHOUT, marked
from das.register.entering import RegisterOptions
from das.release import estimating
from das.release.outcome import Outcome
from das.release.publications import PublicHalf, publication
from das.release.replicate_source import ENOUGH
from das.report.privacy import bound, cause
from das.runs import pipeline
from das.spec import Specification

#: Of a run for which nothing is given.
SIMULATED = (
    "no data are named: this run is over simulated records, of nobody, made for it in {made.linked}"
)
#: Of one that rests on an earlier release.
RESTS = (
    ", and rests on a redistricting release of the same blocks, run for it in {made.redistricting}."
    " For data of your own: --data LINKED --set {key}=RELEASE (docs/how-to/dhc.md)"
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
    half = publication(spec.publication())
    spare = redundant.spare_after(half, spec, outcome.directory.release)
    lines = [
        *_first(spec, outcome, half),
        *_files(outcome, stores, show_errors),
        *_settings(outcome, spare),
    ]
    for name, says in lines:
        click.echo(f"{name:9} {says}")
    if show_errors:
        from das.cli.kit.terminal_tables import print_errors  # slow to load

        print_errors(outcome)


def _first(spec: Specification, outcome: Outcome, half: PublicHalf) -> Iterator[tuple[str, str]]:
    """What was made, where to look, one number on accuracy, one on privacy, and the next command."""
    directory = outcome.directory
    when = "made before" if outcome.was_finished else f"written in {outcome.seconds:.1f} s"
    may = (
        "safe to publish under the guarantee in privacy.json"
        f"{spec.condition and f', {spec.condition}'}"
        if spec.run.private
        else f"{COLUMN}: {CELL}"
    )
    yield "release", f"{directory.release}   ({when}; {may})"
    if directory.page.is_file():
        looked_up = "" if "look-up" in half.cannot else "   (look up every place)"
        yield "page", f"{directory.page}{looked_up}"
    if (directory.release / NAME).is_file():
        said = statement.read_ours(directory.release)
        if (line := _typical(said)) is not None:
            margin = MECHANISMS[said.mechanism].margin(line.parameter)
            yield (
                "accuracy",
                f"{line.query} by {line.level} was measured to within ±{margin:,} (95 %)",
            )
        loss = quoted(said, said.neighbours, said.target.delta if said.target else None)
        void = "" if spec.run.private else f" ({WITHOUT})"
        yield (
            "privacy",
            f"epsilon {bound(loss.epsilon)} at delta = {loss.delta}{void}, for {loss.change}"
            f"   (privacy.html explains it{', and what a household costs' if outcome.cost else ''})",
        )
    if "intervals" in half.cannot:
        yield "next", f"das account verify {directory.release}   (checks it from its own files)"
    else:
        last = lasts(directory)
        yield "next", f"das intervals {directory.release}   (intervals of published counts{last})"


def lasts(directory: RunDirectory) -> str:
    """About how long `das intervals` takes, where the run says how long its estimation took: each
    replicate is measured and estimated like it."""
    if not directory.manifest.is_file():
        return ""
    stages = read_json(directory.manifest).get("stages", ())
    seconds = sum(s["seconds"] for s in stages if s["name"].startswith(("estimate", "measure")))
    about = duration(ENOUGH * seconds)
    return f"; {ENOUGH} replicates take about {about}, --replicates 2 is a try" if seconds else ""


def _typical(said: Statement) -> Line | None:
    """The measurement that stands for a release: of the highest level that is no single unit and
    not published exactly; the total, where it was measured."""
    records = said.ledger[0].universe
    ledger = [line for line in said.ledger if line.universe == records]
    levels = list(dict.fromkeys(line.level for line in ledger))
    exact = [
        (c.query, levels.index(c.level))
        for c in said.outside
        if c.universe == records and c.sign == "=" and c.level in levels
    ]
    free = [
        line
        for line in ledger
        if line.units > 1
        and all(q != line.query or levels.index(line.level) > at for q, at in exact)
    ]
    first = next((line for line in free if line.query == "total"), next(iter(free), None))
    return max(
        (line for line in free if first and (line.level, line.query) == (first.level, first.query)),
        key=lambda line: line.units,
        default=None,
    )


def _files(outcome: Outcome, stores: Stores, show_errors: bool) -> Iterator[tuple[str, str]]:
    """The other files, and where they are carried."""
    directory = outcome.directory
    for table, rows in outcome.tables.items():
        yield "table", f"{table}: {rows:,} rows"
    for url, who in ((stores.release, ""), (stores.confidential, "   (confidential)")):
        if url is not None:
            yield "store", f"{url}{who}"
    if directory.linked.is_dir():
        yield "linked", f"{directory.linked}   (persons in households: experimental)"
    if directory.report.is_file():
        yield "report", f"{directory.report}   (confidential: the errors)"
    if outcome.rows and not show_errors:
        yield "errors", f"{directory.errors}   (confidential; `das evaluate` prints them)"


def _settings(outcome: Outcome, spare: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What other settings would do better, in one line."""
    facilities = [m["level"] for m in worse(outcome) if m["level"] in outcome.settled]
    says = [*spare]
    if facilities:
        says.append(
            f"{cause(facilities[0], outcome.settled[facilities[0]])}"
            " (estimation.method = full-information avoids it)"
        )
    if says:
        yield "settings", f"{'; '.join(says)}: see docs/explanation/limits.md"


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
