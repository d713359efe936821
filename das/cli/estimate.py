"""Estimate a release again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from das.cli.kit.console import CommandAnswer, answering
from das.cli.kit.options import PATH, run_options, say_notes, warn
from das.cli.running import summary
from das.engine.display import Live
from das.engine.tasks import Progress
from das.files.readers import published_pl94
from das.files.run.run_directory import release_of
from das.model.not_private import marked
from das.model.post_processing import METHODS
from das.publications.counts.public import AFTERWARDS
from das.publications.published.files import outside
from das.publications.published.files.outside import NOTHING, Outside
from das.publications.published.public import estimate_from
from das.release.outcome import Outcome


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
    "--method", type=click.Choice(METHODS), help="Estimation method. Default: that of the release."
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help=f"Change a key of {', '.join(AFTERWARDS)}, such as estimation.tolerance=1.",
)
@click.option(
    "--totals",
    type=PATH,
    help=(
        "Exact totals of the states, for files in the Bureau's layout, which have none: a table"
        " (CSV or Parquet) with the columns geocode, such as 44, and value."
    ),
)
@click.option(
    "--published",
    type=PATH,
    multiple=True,
    help=(
        "Redistricting files (P.L. 94-171) of the same states: exact totals of states, names of"
        " places, and areas such as cities, for files in the Bureau's layout; repeatable."
    ),
)
@click.option(
    "--with",
    "dhc",
    type=PATH,
    help=(
        "Measurements of the DHC's persons of the same states, in the Bureau's layout, for"
        " redistricting persons in that layout: both are pooled, for states and counties."
    ),
)
@run_options
@answering
def estimate(
    release: Path,
    out: Path,
    method: str | None,
    changes: tuple[str, ...],
    workers: int,
    quiet: bool,
    **beside: Any,
) -> CommandAnswer:
    """Do everything after measurement, from a release's noisy measurements alone.

    The input is a release of ours, or measurement files in the Bureau's layout
    (US.parquet/DPQuery/..., State.parquet/...): redistricting persons or housing units, or persons
    of the DHC, or both together (--with). Such files need nothing else: spine, variances and constraints are read from them, and written with the result. The
    files of some states are enough: levels above parts that are missing are left out, with a note.

    The output is a complete release with the original's measurements (linked, where the disk can),
    ledger and privacy statement. Every command works on it."""
    changes = (*changes, *([f"estimation.method={method}"] if method else ()))
    with Live(quiet) as progress:
        known = _outside(**beside, progress=progress)
        start = partial(estimate_from, release_of(release), out, workers=workers)
        outcome = start(changes=changes, progress=progress, outside=known)
    say_notes(outcome.notes)
    data = marked(summary(outcome) | {"notes": outcome.notes}, outcome.private)
    return CommandAnswer(data, lambda: _print(outcome))


def _print(outcome: Outcome) -> None:
    warn(outcome.private is not False)  # what is unknown is among the notes
    click.echo(f"written in {outcome.seconds:.1f} s: {outcome.directory.release}")


def _outside(
    totals: Path | None, published: tuple[Path, ...], dhc: Path | None, progress: Progress
) -> Outside:
    """What is known of places besides the measurements."""
    given, known = None if totals is None else outside.read(totals), NOTHING
    if published:
        known = Outside.of_published(published_pl94.read(published, progress=progress), given)
    elif given is not None:
        known = Outside(given)
    return known if dhc is None else replace(known, dhc=dhc)
