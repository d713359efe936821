"""Arguments to pipeline to exit code."""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any

import click

from das import pipeline
from das import spec as specification
from das.accounting import margins
from das.accounting.statement import guarantees
from das.console import Live, compare_table, console, headline_table, plan_table, records_table
from das.errors import DasError, UserError
from das.evaluate import headline
from das.files import errors_csv, fetch, nmf_frame, run_directory, simulate_1940, simulate_2010
from das.files.run_directory import RunDirectory
from das.spec import RunSpec
from das.spec.exact import exact
from das.sweep import sweep as run_sweep
from das.verify import check as check_files

PATH = click.Path(path_type=Path)


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Errors become one message on stderr and an exit code: 2 what the user can mend, 3 the rest."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except DasError as error:
            click.echo(f"das: {error}", err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("das: interrupted", err=True)
            sys.exit(130)
        except (click.ClickException, click.exceptions.Exit, SystemExit):
            raise
        except Exception:
            traceback.print_exc()
            click.echo("das: this should not have happened; please report it with the lines above", err=True)
            sys.exit(3)

    return guarded


def _config(function: Callable[..., None]) -> Callable[..., None]:
    function = click.option("--set", "changes", multiple=True, metavar="KEY=VALUE",
                            help="Change a key of the configuration, such as budget.rho=1/2.")(function)  # fmt: skip
    return click.argument("config", type=PATH)(function)


def _run_options(function: Callable[..., None]) -> Callable[..., None]:
    function = click.option("--workers", type=click.IntRange(1), default=1, show_default=True,
                            help="Processes that estimate and round.")(function)  # fmt: skip
    return click.option("--quiet", is_flag=True, help="No progress display.")(function)


def _load(config: Path, changes: tuple[str, ...]) -> RunSpec:
    text = run_directory.read_text(config, "configuration")
    return specification.parse(text, where=str(config), overrides=changes)


def _file_name(text: str) -> str:
    """A name that stays in its folder."""
    return re.sub(r"[^\w.-]+", "-", text).lstrip(".") or "run"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="topdown-das")
def main() -> None:
    """The TopDown disclosure-avoidance system: census records to noisy measurements and synthetic microdata."""


@main.command()
@_config
@click.option("--out", type=PATH, help="Folder of the run (new or empty). Default: runs/<name>-<time>.")
@click.option("--data", "paths", type=PATH, multiple=True, help="A file or folder; replaces data.path.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted run in --out.")
@click.option("--accept-spent", is_flag=True,
              help="With --resume: measure again what was interrupted, and state both spendings.")  # fmt: skip
@_run_options
@_guarded
def run(
    config: Path,
    changes: tuple[str, ...],
    out: Path | None,
    paths: tuple[Path, ...],
    resume: bool,
    accept_spent: bool,
    workers: int,
    quiet: bool,
) -> None:
    """Run the whole pipeline."""
    spec = _load(config, changes)
    if (accept_spent and not resume) or (resume and out is None):
        raise UserError("--accept-spent goes with --resume, and --resume with --out", where="das run")
    out = out or Path("runs") / f"{_file_name(spec.run.name)}-{datetime.now():%Y%m%d-%H%M%S}"
    with Live(quiet) as progress:
        outcome = pipeline.run(
            spec, out, paths=paths, workers=workers, progress=progress, resume=resume, accept_spent=accept_spent
        )
    screen = console()
    if spec.run.seed is not None:
        screen.print("[bold red]NOT PRIVATE: this run was seeded.[/]")
    screen.print(headline_table(headline(outcome.rows["persons"])))
    screen.print(f"written in {outcome.seconds:.1f} s:", highlight=False)
    click.echo(f"  release  {outcome.directory.release}   (safe to publish under the guarantee in privacy.json)")
    click.echo(f"  report   {outcome.directory.report}   (confidential)")


@main.command()
@_config
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_guarded
def check(config: Path, changes: tuple[str, ...], as_json: bool) -> None:
    """Validate a configuration and print its plan: cost, noise and margin of error of every query."""
    spec = _load(config, changes)
    plans = {u.name: u.plan for u in spec.universes}
    costs = {name: p.cost for name, p in plans.items()}
    promise = guarantees(spec.persons.plan.mechanism, costs, spec.budget.delta)
    rows = {name: margins.table(p) for name, p in plans.items()}
    if not as_json:
        console().print(plan_table(spec.run.name, plans, rows, promise))
        return
    scale = "sigma_sq" if spec.persons.plan.mechanism.currency == "rho" else "scale"
    lines = [
        {"universe": u, "level": r.level, "query": r.query, spec.persons.plan.mechanism.currency: str(r.cost),
         scale: str(r.scale), "margin_95": r.margin}
        for u, rs in rows.items() for r in rs
    ]  # fmt: skip
    click.echo(json.dumps({"name": spec.run.name, "neighbours": spec.budget.neighbours, "guarantee": promise,
                           "plan": lines}, indent=2))  # fmt: skip


@main.command()
@click.option(
    "--from",
    "release",
    type=PATH,
    required=True,
    help="The folder release/ of a run, or a folder of <Level>.parquet folders as the Bureau publishes.",
)
@click.option("--out", type=PATH, required=True, help="A new or empty folder.")
@_run_options
@_guarded
def estimate(release: Path, out: Path, workers: int, quiet: bool) -> None:
    """Everything after measurement, from a release's noisy measurements alone.

    The release may be one of ours, or noisy measurement files of redistricting persons or housing units in the
    layout of the Bureau's publication (US.parquet/DPQuery/..., State.parquet/...), without anything beside them:
    spine, variances and constraints are then read off the files, and written with the result.
    """
    with Live(quiet) as progress:
        outcome = pipeline.estimate_from(release, out, workers=workers, progress=progress)
    for note in outcome.notes:
        click.echo(f"das: note: {note}", err=True)
    click.echo(f"written in {outcome.seconds:.1f} s: {outcome.directory.release}")


@main.command()
@click.argument("run_dir", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_guarded
def evaluate(run_dir: Path, as_json: bool) -> None:
    """Compute the errors of a finished run again (needs its confidential part)."""
    rows = pipeline.evaluate_run(run_dir)
    if as_json:
        click.echo(json.dumps({u: [vars(r) for r in rs] for u, rs in rows.items()}))
    else:
        console().print(headline_table(headline(rows["persons"])))
        click.echo(f"written: {RunDirectory(run_dir).errors}")


@main.command()
@click.argument("run_dir", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_guarded
def compare(run_dir: Path, as_json: bool) -> None:
    """Errors of the noisy measurements against those after post-processing, by level and query."""
    rows = [r for r in errors_csv.read(RunDirectory(run_dir).errors) if r.bin == "all"]
    if as_json:
        click.echo(json.dumps([vars(r) for r in rows]))
    else:
        console().print(compare_table(rows))


@main.command()
@_config
@click.option("--rho", "budgets", required=True, metavar="R1,R2,...", help="Budgets, exact: 1/10,1,293764/114921.")
@click.option("--repeats", type=click.IntRange(1), default=1, show_default=True, help="Runs at each budget.")
@click.option("--out", type=PATH, required=True, help="A new or empty folder.")
@click.option("--data", "paths", type=PATH, multiple=True, help="A file or folder; replaces data.path.")
@_run_options
@_guarded
def sweep(
    config: Path, changes: tuple[str, ...], budgets: str, repeats: int, out: Path, paths: tuple[Path, ...],
    workers: int, quiet: bool,
) -> None:  # fmt: skip
    """Run a configuration at several budgets and draw the curves of accuracy against privacy."""
    spec = _load(config, changes)
    try:
        grid = [exact(b) for b in budgets.split(",")]
    except ValueError as error:
        raise UserError(str(error), where="--rho", remedy="write budgets as 1/10,1,10") from None
    with Live(quiet) as progress:
        swept = run_sweep(spec, grid, out, repeats=repeats, paths=paths, workers=workers, progress=progress)
    click.echo(f"written: {swept.table}\n         {swept.page}")


@main.group()
def data() -> None:
    """Simulated extracts, and official files."""


@data.command()
@click.argument("year", type=click.Choice(["2010", "1940"]))
@click.option("--out", type=PATH, required=True, help="Folder to write to.")
@click.option("--seed", type=int, required=True, help="The same seed gives the same files.")
@click.option("--states", type=click.IntRange(1, 51), default=3, show_default=True)
@click.option("--persons", type=click.IntRange(1), default=12_000, show_default=True)
@click.option("--sf1", is_flag=True, help="2010 only: write group quarters by type (SF1 segment 06) too.")
@_guarded
def simulate(year: str, out: Path, seed: int, states: int, persons: int, sf1: bool) -> None:
    """Write a simulated extract in the true format of 2010 (P.L. 94-171) or 1940 (EXT1940USCB)."""
    if sf1 and year == "1940":
        raise UserError("there is no SF1 for 1940", where="--sf1")
    if year == "2010":
        written = simulate_2010.write(out, seed=seed, states=states, persons=persons, sf1=sf1)
    else:
        written = simulate_1940.write(out, seed=seed, states=states, persons=persons)
    for path in written:
        click.echo(path)


@data.command("list")
@_guarded
def list_() -> None:
    """The official files that `das data fetch` knows."""
    for entry in fetch.catalog():
        click.echo(f"{entry.name:20}  {entry.url}")


@data.command("fetch")
@click.argument("names", nargs=-1, required=True)
@click.option("--out", type=PATH, required=True, help="Folder to write to; files already there are kept.")
@_guarded
def fetch_(names: tuple[str, ...], out: Path) -> None:
    """Download official files by name (see `das data list`), check and keep them."""
    for path in fetch.fetch(names, out):
        click.echo(path)


@main.group()
def nmf() -> None:
    """Noisy measurement files: what they hold, rows of them, and whether they are whole."""


@nmf.command()
@click.argument("path", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_guarded
def summary(path: Path, as_json: bool) -> None:
    """Levels and queries, with units, answers, variance and the spread of the values. PATH is a run, a release,
    or a folder in the Bureau's layout."""
    rows = nmf_frame.summary(path)
    if as_json:
        click.echo(json.dumps(rows))
    else:
        console().print(records_table("Noisy measurements", rows))


@nmf.command()
@click.argument("path", type=PATH)
@click.option("--level", required=True)
@click.option("--query", help="Such as 'hispanic * cenrace'.")
@click.option("--geocode", multiple=True)
@click.option("--constraints", is_flag=True, help="Constraint rows in place of measurements.")
@_guarded
def show(path: Path, level: str, query: str | None, geocode: tuple[str, ...], constraints: bool) -> None:
    """Rows as CSV, one for each answer, with labels."""
    frame = nmf_frame.read_nmf(path, level, query, geocode or None, kind="Constraint" if constraints else "DPQuery")
    click.echo(frame.to_csv(index=False), nl=False)


@nmf.command()
@click.argument("release", type=PATH)
@_guarded
def verify(release: Path) -> None:
    """Check the files of a release against its privacy statement, draw by draw."""
    folder = release / "release" if (release / "release").is_dir() else release
    lines = check_files(folder)
    click.echo(f"{len(lines)} draws: files and ledger agree")
