"""Errors of a run, and of the same data at other budgets."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from das.cli.kit.console import (
    CommandAnswer,
    answering,
    console,
    records_table,
    say_kept,
    shows_errors,
)
from das.cli.kit.interruption import optional, repeated, resumable
from das.cli.kit.options import (
    OUT,
    PATH,
    again_in,
    config_argument,
    load_any,
    picture_option,
    register_options,
    run_options,
    show_errors_option,
    warn,
    write_picture,
)
from das.cli.kit.terminal_tables import print_errors
from das.engine.display import Live
from das.errors import UserError
from das.files import rows_csv
from das.files.messages import privacy_of
from das.files.run.run_directory import RunDirectory, release_of
from das.model.error_rows import CoverageRow, SizeRow, TableRow
from das.model.exact import exact
from das.model.not_private import marked, marked_rows
from das.model.post_processing import METHODS
from das.publications.dhc.agreement.identities import AgreementRow
from das.publications.dhc.agreement.tables import agreement_of
from das.register.entering import RegisterOptions
from das.release.outcome import Outcome
from das.release.publications import publication, publication_of, require
from das.report.chart import HIGH, WIDE, Picture
from das.runs.protocol import RunInput, evaluating, series_of
from das.spec import Specification
from das.tools.sweep.runs import SweepResult
from das.tools.sweep.runs import sweep as run_sweep
from das.truth.assessment import INTERVALS, SIZES


def agreement_answer(path: Path) -> CommandAnswer:
    """A table for each level, or all rows. Raises as
    :func:`das.publications.dhc.agreement.tables.agreement_of` does."""
    rows, private = agreement_of(release_of(path)), privacy_of(path)

    def show() -> None:
        warn(private)
        for level in dict.fromkeys(r.level for r in rows):
            of = [r for r in rows if r.level == level]
            title = f"{level}: persons and households of {max(r.units for r in of):,} units"
            console().print(records_table(title, [_shown(r) for r in of]))

    return CommandAnswer(marked_rows(map(vars, rows), private), show)


def _shown(row: AgreementRow) -> dict[str, Any]:
    return {
        "identity": row.identity,
        "what must hold": row.says,
        "violated in": f"{row.violated:,}",
        "share": f"{100 * row.share:.1f} %",
        "mean difference": None if row.difference is None else f"{row.difference:.2f}",
    }


@click.command()
@click.argument("run_dir", metavar="RUN", type=PATH)
@click.option(
    "--areas",
    type=PATH,
    help=(
        "Areas of your own: a CSV file area,block, or a block-assignment file of the "
        "Bureau. Shows their errors and adds them to tables.csv."
    ),
)
@click.option(
    "--agreement",
    is_flag=True,
    help=(
        "Do the persons and households of a DHC agree? From published files alone: a run, a "
        "release, or a folder of tables such as P17_Block.csv."
    ),
)
@picture_option
@show_errors_option
@answering
def evaluate(
    run_dir: Path, areas: Path | None, agreement: bool, picture: Path | None, show_errors: bool
) -> CommandAnswer:
    """Recompute the errors of a finished run (needs its confidential part). They print only to a
    terminal, or with --show-errors.

    Writes errors.csv, tables.csv and impossible.csv to confidential/evaluation; of counts over a
    tree sizes.csv, whose figure --picture draws, and intervals.csv if the release has intervals. docs/explanation/evaluation.md explains their columns."""
    if agreement:
        if areas is not None:
            raise UserError(
                "cannot be combined with --agreement",
                where="--areas",
                remedy="leave one of them out",
            )
        return agreement_answer(run_dir)
    directory = RunDirectory(run_dir)
    require(publication_of(directory.release), "evaluate", run_dir)
    directory.require_truth()
    made, private = evaluating(directory).evaluated(directory, areas), privacy_of(run_dir)
    outcome = Outcome(directory, private=private, **made)
    if picture is not None:
        drawn = write_picture(picture, _of_sizes(outcome))
        click.echo(f"written: {drawn} (confidential)", err=True)
    rows = {u: marked_rows(map(vars, rs), private) for u, rs in outcome.rows.items()}
    return CommandAnswer(rows, lambda: _print_evaluated(outcome, areas, shows_errors(show_errors)))


def _of_sizes(outcome: Outcome) -> Picture | None:
    """The errors of the lowest units by size, where they were written."""
    path = outcome.directory.errors.parent / SIZES
    if not path.is_file():
        return None
    from das.publications.counts import report  # figures take time to load

    rows = rows_csv.read_rows(path, SizeRow, "errors by size")
    note = f"Intervals at 95 % over the units of a class: {outcome.directory.root.name}."
    chart = report.size_chart(rows, WIDE, HIGH)
    return Picture(chart, report.size_says(rows), note, outcome.private, confidential=True)


def _print_evaluated(outcome: Outcome, areas: Path | None, shown: bool) -> None:
    warn(outcome.private)
    folder = outcome.directory.errors.parent
    if shown:
        _print_errors(outcome, areas, folder)
    else:
        say_kept(folder)
    click.echo(f"written: {folder} ({', '.join(p.name for p in sorted(folder.glob('*.csv')))})")


def _print_errors(outcome: Outcome, areas: Path | None, folder: Path) -> None:
    print_errors(outcome)
    screen = console()
    if areas is not None:
        title = f"Errors of areas: {areas.stem} (confidential)"
        screen.print(records_table(title, _of_areas(folder, areas.stem)))
    if (held := folder / INTERVALS).is_file():
        title = "How often intervals hold the truth, by the published count (confidential)"
        screen.print(records_table(title, _of_intervals(held)))


def _of_intervals(path: Path) -> list[dict[str, Any]]:
    """Over all tables, by size of the published count."""
    rows = rows_csv.read_rows(path, CoverageRow, "coverage of intervals")
    return [
        {
            "level": r.level,
            "published": r.size,
            "counts": f"{r.n:,}",
            "coverage": f"{100 * r.coverage:.1f} %",
            "mean width": f"{r.width:.1f}",
        }
        for r in rows
        if (r.table, r.by) == ("all", "published")
    ]


def _of_areas(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The first column of each published table over the areas of a kind; every other is in
    ``tables.csv``."""
    firsts: dict[str, TableRow] = {}
    for r in rows_csv.read_rows(folder / "tables.csv", TableRow, "errors of tables"):
        if r.geography == kind and r.size == "all":
            firsts.setdefault(r.table, r)
    return [
        {
            "table": r.table,
            "column": r.label,
            "areas": r.n,
            "MAE": r.mae,
            "RMSE": r.rmse,
            "MAPE (%)": r.mape,
            "bias": r.me,
        }
        for r in firsts.values()
    ]


@click.command()
@config_argument
@click.option("--rho", "budgets", metavar="R1,R2,...", help="Budgets, exact: 1/10,1,293764/114921.")
@click.option(
    "--times",
    "multiples",
    metavar="T1,T2,...",
    help="Instead of --rho: multiples of the configuration's budgets, such as 1/2,1,2.",
)
@click.option(
    "--method",
    "methods",
    metavar="M1,M2",
    help=f"Methods: {', '.join(METHODS)}. Default: that of the configuration.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Runs at each budget and method; each repeat has its own noise.",
)
@click.option(
    "--out",
    type=OUT,
    required=True,
    help="A new or empty folder; with --resume, that of the sweep.",
)
@click.option(
    "--data", "paths", type=PATH, multiple=True, help="A file or folder; replaces data.path."
)
@click.option(
    "--resume",
    is_flag=True,
    help="Keep the finished runs of the sweep in --out, and make the others.",
)
@picture_option
@register_options
@run_options
@answering
def sweep(
    config: Path,
    changes: tuple[str, ...],
    budgets: str | None,
    multiples: str | None,
    methods: str | None,
    repeats: int,
    out: Path,
    paths: tuple[Path, ...],
    resume: bool,
    picture: Path | None,
    register: RegisterOptions | None,
    workers: int,
    quiet: bool,
) -> CommandAnswer:
    """Run a configuration at several budgets and draw curves of accuracy against privacy.

    Give the budgets by --rho or, for any publication, by --times.

    Every budget and repeat measures the records anew, once for all methods. privacy.json in the
    folder gives the total cost, and paired.csv the differences between methods on the same
    noise."""
    spec = load_any(config, changes)
    require(publication(spec.publication()), "sweep", config)
    grid = _budgets(spec, budgets, multiples)
    chosen = methods.split(",") if methods is not None else ()
    again = [
        *("das", "sweep", config, *repeated("--set", changes)),
        *(*optional("--rho", budgets), *optional("--times", multiples)),
        *(*optional("--method", methods), "--repeats", repeats, "--out", out),
        *(*repeated("--data", paths), "--workers", workers),
        *again_in(register),
    ]
    with resumable(out, again), Live(quiet) as progress:
        swept = run_sweep(
            spec,
            grid,
            out,
            methods=chosen,
            repeats=repeats,
            paths=paths,
            workers=workers,
            progress=progress,
            resume=resume,
            register=register,
        )
    written = _written(swept, picture)

    def show() -> None:
        warn(spec.run.private)
        click.echo("written: " + "\n         ".join(written.values()))

    return CommandAnswer(marked(written, spec.run.private), show)


def _written(swept: SweepResult, picture: Path | None) -> dict[str, str]:
    """The files of a sweep, by what they are, with the picture that is asked for."""
    files = {
        **{path.name: path for path in swept.others},
        "table": swept.table,
        "summary": swept.summary,
        "paired": swept.paired,
        "page": swept.page,
        "statement": swept.statement,
    }
    if picture is not None:
        write_picture(picture, swept.picture)
    return {name: str(path) for name, path in (files | {"picture": picture}).items() if path}


def _budgets(spec: Specification, budgets: str | None, multiples: str | None) -> list[Fraction]:
    """The budgets of a sweep, on the axis of its publication."""
    axis = series_of(spec, RunInput()).axis
    if (budgets is None) == (multiples is None):
        raise UserError(
            "a sweep needs several budgets, by one of these options",
            where="--rho, --times",
            remedy="give one of the two, such as --times 1/2,1,2",
        )
    if budgets is not None and axis.is_multiple:
        raise UserError(
            f"{spec.title} has several budgets, and no one rho",
            where="--rho",
            remedy="sweep over multiples of them: --times 1/2,1,2",
        )
    where, said = ("--rho", budgets) if multiples is None else ("--times", multiples)
    try:
        grid = [exact(b) for b in (said or "").split(",")]
    except ValueError as error:
        raise UserError(str(error), where=where, remedy="write numbers as 1/10,1,10") from None
    return [b * axis.here for b in grid] if multiples is not None else grid
