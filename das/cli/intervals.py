"""``das intervals``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from das.cli.options import PATH, guarded, json_option, run_options, warn
from das.engine.display import Live
from das.files.release.replicates import MANIFEST
from das.files.run.ledger import INTERVALS
from das.files.run.run_directory import read_json, release_of
from das.jobs.intervals import SEED
from das.jobs.intervals import intervals as made
from das.model.not_private import marked
from das.release.area_counts import COVERAGE
from das.release.replicate_source import COUNT_RULES, ENOUGH, ENOUGH_FOR_COUNTS, PAGE


@click.command()
@click.argument("release", type=PATH, required=False)
@click.option(
    "--replicates-from",
    "published",
    type=PATH,
    metavar="DIR",
    help=(
        "In place of a release: a folder of published microdata, number 0, and their replicates, 1"
        " to N, in the Census Bureau's layout: files or folders whose names are alike but for that"
        " number."
    ),
)
@click.option(
    "--replicates",
    "count",
    type=click.IntRange(2),
    show_default=f"{ENOUGH}, or all that are in DIR",
    help="25 do for counts; shares, extremes and simultaneous intervals want 50.",
)
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=COVERAGE,
    show_default=True,
    help="How often an interval holds the true count.",
)
@click.option(
    "--rule",
    type=click.Choice(COUNT_RULES),
    default="ct",
    show_default=True,
    help=(
        "How replicates become an interval; ct is the Bureau's, pratt holds small counts nearly as"
        " often by true value."
    ),
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Of this table alone, such as P1; repeatable.",
)
@click.option(
    "--level",
    "levels",
    multiple=True,
    metavar="NAME",
    help="Of this level alone, such as Tract; repeatable.",
)
@click.option(
    "--out",
    type=PATH,
    help=(
        "Folder of the intervals. Default: intervals/ of the release. Needed with"
        " --replicates-from."
    ),
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    show_default=str(SEED),
    help="Of the replicates' noise. It is public, and no secret of the release.",
)
@click.option(
    "--resume", is_flag=True, help="Go on with what was interrupted; refused where nothing was."
)
@run_options
@json_option
@guarded
def intervals(
    release: Path | None,
    published: Path | None,
    count: int | None,
    coverage: float,
    rule: str,
    tables: tuple[str, ...],
    levels: tuple[str, ...],
    out: Path | None,
    seed: int | None,
    resume: bool,
    workers: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """An interval for every published count of a RUN or release, from the release alone.

    The algorithm is run again on what was published, with fresh public noise: that costs no budget.
    Intervals are of disclosure avoidance alone. With --replicates-from nothing is run: somebody
    else has, and published it."""
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
            workers=workers,
            resume=resume,
            progress=progress,
        )
    _show(out or release_of(release or Path()) / INTERVALS, rows, as_json)


def _show(out: Path, rows: dict[str, int], as_json: bool) -> None:
    manifest = read_json(out / MANIFEST)
    page = {"page": str(out / PAGE)} if (out / PAGE).is_file() else {}
    if as_json:
        keys = ("replicates", "coverage", "rule", "seed")
        said = {key: manifest[key] for key in keys if key in manifest}
        told = {"out": str(out)} | said | {"rows": rows} | page
        click.echo(json.dumps(marked(told, manifest["private"])))
        return
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
