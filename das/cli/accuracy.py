"""Errors of a run, and of the same data at other budgets."""

from __future__ import annotations

import json
from pathlib import Path

import click

from das import pipeline
from das.cli.options import PATH, config_argument, guarded, json_option, load, run_options
from das.console import Live, compare_table, console, headline_table
from das.errors import UserError
from das.evaluate import headline
from das.files import errors_csv
from das.files.run_directory import RunDirectory
from das.spec.exact import exact
from das.sweep import sweep as run_sweep


@click.command()
@click.argument("run_dir", type=PATH)
@json_option
@guarded
def evaluate(run_dir: Path, as_json: bool) -> None:
    """Compute the errors of a finished run again (needs its confidential part)."""
    rows = pipeline.evaluate_run(run_dir)
    if as_json:
        click.echo(json.dumps({u: [vars(r) for r in rs] for u, rs in rows.items()}))
    else:
        console().print(headline_table(headline(rows["persons"])))
        click.echo(f"written: {RunDirectory(run_dir).errors}")


@click.command()
@click.argument("run_dir", type=PATH)
@json_option
@guarded
def compare(run_dir: Path, as_json: bool) -> None:
    """Errors of the noisy measurements against those after post-processing, by level and query."""
    rows = [r for r in errors_csv.read(RunDirectory(run_dir).errors) if r.bin == "all"]
    if as_json:
        click.echo(json.dumps([vars(r) for r in rows]))
    else:
        console().print(compare_table(rows))


@click.command()
@config_argument
@click.option("--rho", "budgets", required=True, metavar="R1,R2,...", help="Budgets, exact: 1/10,1,293764/114921.")
@click.option("--repeats", type=click.IntRange(1), default=1, show_default=True, help="Runs at each budget.")
@click.option("--out", type=PATH, required=True, help="A new or empty folder.")
@click.option("--data", "paths", type=PATH, multiple=True, help="A file or folder; replaces data.path.")
@run_options
@guarded
def sweep(
    config: Path, changes: tuple[str, ...], budgets: str, repeats: int, out: Path, paths: tuple[Path, ...],
    workers: int, quiet: bool,
) -> None:  # fmt: skip
    """Run a configuration at several budgets and draw the curves of accuracy against privacy."""
    spec = load(config, changes)
    try:
        grid = [exact(b) for b in budgets.split(",")]
    except ValueError as error:
        raise UserError(str(error), where="--rho", remedy="write budgets as 1/10,1,10") from None
    with Live(quiet) as progress:
        swept = run_sweep(spec, grid, out, repeats=repeats, paths=paths, workers=workers, progress=progress)
    click.echo(f"written: {swept.table}\n         {swept.page}")
