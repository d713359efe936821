"""``das intervals``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from das.api.intervals import SEED
from das.api.intervals import intervals as made
from das.cli.kit.console import CommandAnswer, answering
from das.cli.kit.options import PATH, coverage_option, run_options, warn
from das.engine.display import Live
from das.files.release.replicates import MANIFEST
from das.files.run.ledger import INTERVALS
from das.files.run.run_directory import read_json, release_of
from das.model.not_private import marked
from das.release.replicate_source import COUNT_RULES, ENOUGH, ENOUGH_FOR_COUNTS, PAGE


@click.command()
@click.argument("release", metavar="[RUN]", type=PATH, required=False)
@click.option(
    "--replicates-from",
    "published",
    type=PATH,
    metavar="DIR",
    help=(
        "Instead of a release: a folder of published microdata, number 0, and their "
        "replicates, 1 to N, in the Census Bureau's layout. File or folder names must "
        "differ only in that number."
    ),
)
@click.option(
    "--replicates",
    "count",
    type=click.IntRange(2),
    show_default=f"{ENOUGH}, or all that are in DIR",
    help="25 are enough for counts; use 50 for shares, extremes and simultaneous intervals.",
)
@coverage_option
@click.option(
    "--rule",
    type=click.Choice(COUNT_RULES),
    show_default="pratt; for the DHC table",
    help=(
        "How replicates become an interval. pratt holds by true value, small or large; ct is "
        "the Bureau's, and holds by published value; table adds the bias that the whole table "
        "shows."
    ),
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Only this table, such as P1; repeatable.",
)
@click.option(
    "--level",
    "levels",
    multiple=True,
    metavar="NAME",
    help="Only this level, such as Tract; repeatable.",
)
@click.option(
    "--out",
    type=PATH,
    help=(
        "Folder of the intervals. Default: intervals/ of the release. Required with "
        "--replicates-from."
    ),
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    show_default=str(SEED),
    help="Seed of the replicates' noise. It is public, and unrelated to the release's noise.",
)
@click.option(
    "--earlier",
    type=PATH,
    metavar="RUN",
    help=(
        "For the DHC: the redistricting RUN or release whose counts it keeps. The intervals then "
        "cover the errors of these counts, too."
    ),
)
@click.option(
    "--resume", is_flag=True, help="Continue an interrupted command; refused if there is none."
)
@run_options
@answering
def intervals(
    release: Path | None,
    published: Path | None,
    count: int | None,
    coverage: float,
    rule: str | None,
    tables: tuple[str, ...],
    levels: tuple[str, ...],
    out: Path | None,
    seed: int | None,
    earlier: Path | None,
    resume: bool,
    workers: int,
    quiet: bool,
) -> CommandAnswer:
    """An interval for every published count of a RUN or release, from the release alone.

    Runs the algorithm again on the published counts, with fresh public noise; this costs no
    budget. Intervals cover disclosure avoidance alone. With --replicates-from nothing is run:
    the replicates are already published."""
    with Live(quiet) as progress:
        rows = made(
            release,
            out,
            replicates_from=published,
            replicates=count,
            coverage=coverage,
            rule=rule,
            tables=tables,
            levels=levels,
            seed=seed,
            earlier=earlier,
            workers=workers,
            resume=resume,
            progress=progress,
        )
    return _made(out or release_of(release or Path()) / INTERVALS, rows)


def _made(out: Path, rows: dict[str, int]) -> CommandAnswer:
    manifest = read_json(out / MANIFEST)
    page = {"page": str(out / PAGE)} if (out / PAGE).is_file() else {}
    keys = ("replicates", "coverage", "rule", "seed")
    said = {key: manifest[key] for key in keys if key in manifest}
    told = {"out": str(out)} | said | {"rows": rows} | page
    data = marked(told, manifest["private"])
    return CommandAnswer(data, lambda: _show(out, rows, manifest, page))


def _show(
    out: Path, rows: Mapping[str, int], manifest: Mapping[str, Any], page: Mapping[str, str]
) -> None:
    warn(manifest["private"])
    for name, n in rows.items():
        click.echo(f"  {name}: {n:,} intervals")
    looked_up = f"; to look a place up: {page['page']}" if page else ""
    click.echo(f"written: {out}{looked_up}")
    for line in manifest["says"]:
        click.echo(f"  {line}")
    if manifest["replicates"] < ENOUGH_FOR_COUNTS:
        click.echo(
            f"  Of {manifest['replicates']} replicates, which is for trying out:"
            f" {ENOUGH_FOR_COUNTS} do for counts."
        )
