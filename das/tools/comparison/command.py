"""A run compared with itself, with another, or with what was published of the same places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from das.cli.kit.console import (
    CONFIDENTIAL,
    CommandAnswer,
    answering,
    console,
    records_table,
    say_kept,
    shows_errors,
)
from das.cli.kit.options import OUT, PATH, coverage_option, show_errors_option, warn
from das.cli.kit.terminal_tables import compare_table, two_table
from das.engine.display import Live
from das.errors import UserError
from das.evaluate.comparison import compared
from das.files.atomic import write_text
from das.files.messages import privacy_of
from das.files.run import tallies
from das.files.run.run_directory import RunDirectory, release_of
from das.model.error_rows import Comparison
from das.model.not_private import Private, marked, marked_rows
from das.model.universe import kind_of
from das.release.publications import source_of
from das.report.facts import titles
from das.report.privacy import bound
from das.tools.comparison.page import (
    COUNTS,
    PAGE,
    SHARES,
    PublishedComparison,
    PublishedShareRow,
    Two,
    TwoLosses,
    compare_page,
    compare_published,
    compare_two,
)


def published_answer(
    run: Path,
    published: Sequence[Path],
    out: Path | None,
    levels: Sequence[str],
    fields: Sequence[str],
    coverage: float,
) -> CommandAnswer:
    """Compare, and print a line for each level and count."""
    release = release_of(run)
    folder = out or (run if run != release else release.parent) / "published"
    with Live(False) as progress:
        found = compare_published(
            release,
            published,
            folder,
            levels=levels,
            fields=fields,
            coverage=coverage,
            progress=progress,
        )
    private = privacy_of(release)
    data = {"coverage": coverage, "shares": [vars(r) for r in found.shares()]}
    return CommandAnswer(marked(data, private), lambda: _print(found, folder, coverage, private))


def _print(
    comparison: PublishedComparison, folder: Path, coverage: float, private: Private
) -> None:
    warn(private)
    title = f"Published counts and their intervals at {100 * coverage:g} %"
    console().print(records_table(title, [_line(r) for r in comparison.shares()]))
    if comparison.elsewhere:
        click.echo(
            f"das: note: {comparison.elsewhere:,} are published in blocks that were not measured",
            err=True,
        )
    for name in (COUNTS, SHARES, PAGE):
        click.echo(f"written: {folder / name}")


def _line(r: PublishedShareRow) -> dict[str, Any]:
    return {
        "level": r.level,
        "count": f"{r.label} ({r.field})",
        "places": f"{r.places:,}",
        "exact": f"{r.exact:,}",
        "outside": f"{r.share_outside:.1f} %",
        "difference": _number(r.difference),
        "standard error": _number(r.error),
        "mean z²": _number(r.z_square, 2),
    }


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


@click.command()
@click.argument("run_dir", metavar="A", type=PATH)
@click.argument("other", metavar="[B]", type=PATH, required=False)
@click.option(
    "--truth",
    type=PATH,
    help="With B: the run that has the truth. Default: A or B, if it is a run.",
)
@click.option(
    "--published",
    type=PATH,
    multiple=True,
    help=(
        "Redistricting files (P.L. 94-171) of the same states: each published count against the"
        " estimate from A's measurements, and its interval; repeatable."
    ),
)
@click.option(
    "--level",
    "levels",
    multiple=True,
    help="With --published: a level, or a kind of areas such as Place; repeatable.",
)
@click.option(
    "--statistics",
    "fields",
    multiple=True,
    metavar="COLUMN",
    help="With --published: a column of the tables, such as P0020002; repeatable.",
)
@coverage_option
@click.option("--out", type=OUT, help="With --published: the folder.  [default: published in A]")
@show_errors_option
@answering
def compare(
    run_dir: Path,
    other: Path | None,
    truth: Path | None,
    published: tuple[Path, ...],
    levels: tuple[str, ...],
    fields: tuple[str, ...],
    coverage: float,
    out: Path | None,
    show_errors: bool,
) -> CommandAnswer:
    """For one run: errors of the noisy measurements and of the published counts, by level, query
    and size of the count. Also drawn in confidential/compare.html; for other universes than the
    first in compare-<universe>.html. For the DHC, whose answers are measured on demand, published
    counts are compared with what the noise must give.

    For two runs, releases or estimates A and B: the errors of both, by level and query, if the
    truth is available. They are written with the other errors of the run that has it. Otherwise:
    how their published counts differ. Also epsilon of both, by who is compared and what changes.

    With --published: how far published redistricting counts are from the estimates of A's noisy
    measurements, by level and for cities. Also how many are outside their intervals. Writes
    published.csv, shares.csv and index.html, a page to look up a town.

    Errors print only to a terminal, or with --show-errors."""
    if published:
        if other is not None or truth is not None:
            raise UserError("is for one release, A", where="--published", remedy="leave out B")
        return published_answer(run_dir, published, out, levels, fields, coverage)
    if levels or fields or out is not None:
        raise UserError(
            "goes with --published",
            where="--level, --statistics, --out",
            remedy="name redistricting files with --published",
        )
    if other is not None:
        return _compare_two(run_dir, other, truth, show_errors)
    if truth is not None:
        raise UserError("goes with two estimates, A and B", where="--truth")
    return _compare_one(run_dir, show_errors)


def _compare_two(a: Path, b: Path, truth: Path | None, show_errors: bool) -> CommandAnswer:
    two = compare_two(a, b, truth)
    said = {
        "a": str(a),
        "b": str(b),
        "one_noise": two.one_noise,
        "truth": str(two.truth) if two.truth else None,
        "epsilon": [vars(r) for r in two.losses],
        "rows": {u: [vars(r) for r in rows] for u, rows in two.rows.items()},
    }
    return CommandAnswer(marked(said, two.private), lambda: _print_two(a, b, two, show_errors))


def _print_two(a: Path, b: Path, two: Two, show_errors: bool) -> None:
    warn(two.private)
    click.echo(
        f"A is {a}, B is {b}: estimates of {'the same' if two.one_noise else 'different'} noisy"
        " measurements."
    )
    shown = not two.truth or shows_errors(show_errors)
    if two.truth and shown:
        console().print(CONFIDENTIAL, style="bold", highlight=False)
    elif two.truth:
        say_kept()
    what = "errors" if two.truth else "published counts, B against A"
    for u, rows in two.rows.items() if shown else ():
        console().print(two_table(rows, f"{kind_of(u).records.capitalize()}: {what}"))
    if two.losses:
        title = "Epsilon: a smaller one protects better"
        console().print(records_table(title, [_two_losses(r) for r in two.losses]))
    for path in two.written:
        click.echo(f"written: {path}")


def _two_losses(r: TwoLosses) -> dict[str, str]:
    return {"between": r.between, "of": r.what, "A": bound(r.a), "B": bound(r.b)}


def _compare_one(run_dir: Path, show_errors: bool) -> CommandAnswer:
    directory = RunDirectory(run_dir)
    directory.require_truth()
    source, private = source_of(directory.release, "compare"), privacy_of(run_dir)
    every = {
        u.name: compared(tallies.read_errors(directory.errors_of(u.name))) for u in source.universes
    }
    called, pages = str(directory.read_manifest()["name"]), []
    for u in source.universes:
        pages.append(directory.confidential / f"{u.kind.file('compare')}.html")
        words = titles(u.schema, {r.query for r in every[u.name]})
        write_text(pages[-1], compare_page(every[u.name], called, private, words))
    data = {u: marked_rows(map(vars, rs), private) for u, rs in every.items()}
    return CommandAnswer(data, lambda: _print_one(every, private, pages, shows_errors(show_errors)))


def _print_one(
    every: Mapping[str, list[Comparison]], private: Private, pages: Sequence[Path], shown: bool
) -> None:
    warn(private)
    if shown:
        _print_errors(every)
    else:
        say_kept(pages[0].parent)
    click.echo("written: " + "\n         ".join(map(str, pages)))


def _print_errors(every: Mapping[str, list[Comparison]]) -> None:
    console().print(CONFIDENTIAL, style="bold", highlight=False)
    first = next(iter(every.values()))
    for name, rows in every.items():
        title = (
            "Noisy measurements against published counts"
            if rows is first
            else kind_of(name).records.capitalize()
        )
        console().print(compare_table([r for r in rows if r.bin == "all"], title))
    console().print(
        compare_table(_by_size(first), "By size of the true count: coarsest and finest query")
    )


def _by_size(rows: list[Comparison]) -> list[Comparison]:
    """Every class of the true count, of the first and the last query of each level."""
    out = []
    for level in dict.fromkeys(r.level for r in rows):
        here = [r for r in rows if r.level == level and r.bin != "all"]
        ends = {here[0].query, here[-1].query}
        out += [r for r in here if r.query in ends]
    return out
