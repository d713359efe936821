"""Noisy measurement files."""

from __future__ import annotations

import io
from itertools import chain
from pathlib import Path

import click

from das.accounting.codec import plain
from das.accounting.document import ForeignLine
from das.cli.kit.console import CommandAnswer, answering, console, records_table
from das.cli.kit.options import PATH, warn
from das.files import csv_text
from das.files.messages import privacy_of
from das.files.run.run_directory import release_above, release_of
from das.model.not_private import marked, marked_rows
from das.release.publications import DRAWN, STATED, RowOptions, publication_of, require


@click.group()
def nmf() -> None:
    """Noisy measurement files: what they hold, rows of them, and whether they are whole."""


universe_option = click.option(
    "--universe", help="Such as housing, units or households.  [default: persons]"
)


@nmf.command()
@click.argument("path", type=PATH)
@universe_option
@answering
def summary(path: Path, universe: str | None) -> CommandAnswer:
    """List levels and queries, with units, answers, variance and the spread of the values. PATH is
    a run, a release, or a folder in the Bureau's layout.

    For the DHC, which is measured on demand: also how many answers were measured, and how many
    exist, in all universes. For the Detailed DHC: the number of groups in each measurement."""
    of = publication_of(release_above(path) or release_of(path))
    require(of, "nmf", path)
    rows, private = of.measured_summary(path, RowOptions(universe=universe)), privacy_of(path)

    def for_a_reader() -> None:
        warn(private)
        console().print(records_table("Noisy measurements", rows))

    return CommandAnswer(marked_rows(rows, private), for_a_reader)


@nmf.command()
@click.argument("path", type=PATH)
@click.option("--level", required=True)
@click.option("--query", help="Such as 'hispanic * cenrace'.")
@click.option("--geocode", multiple=True, help="Only this unit, or region; repeatable.")
@universe_option
@click.option("--constraints", is_flag=True, help="Constraint rows instead of measurements.")
@answering
def show(
    path: Path,
    level: str,
    query: str | None,
    geocode: tuple[str, ...],
    universe: str | None,
    constraints: bool,
) -> CommandAnswer:
    """Print rows as CSV, one for each answer, with codes and labels. Rows of a seeded run have
    one more column, which says so."""
    from das.api.reading import read_nmf  # with pandas

    frame = read_nmf(
        path,
        level,
        query,
        geocode or None,
        kind=STATED if constraints else DRAWN,
        universe=universe,
    )
    cells = frame.astype(object).where(frame.notna(), None)

    def for_a_reader() -> None:
        out = io.StringIO()
        rows = cells.itertuples(index=False, name=None)
        csv_text.write_rows(out, chain([tuple(frame.columns)], rows))
        click.echo(out.getvalue(), nl=False)

    return CommandAnswer(cells.to_dict("records"), for_a_reader)


@nmf.command()
@click.argument("release", metavar="RUN", type=PATH)
@answering
def verify(release: Path) -> CommandAnswer:
    """Compare the measurement files of a release with its ledger, line by line. Measurements by
    another publisher are compared with what was read from them. `das account verify` checks the
    whole privacy statement, including this."""
    from das.release.verify import check as check_files  # a summary does without

    lines, private = check_files(release_of(release)), privacy_of(release)
    foreign = any(isinstance(d, ForeignLine) for d in lines)
    what = (
        "queries by level: files and statement agree (no ledger: another publisher's)"
        if foreign
        else ("draws: files and ledger agree")
    )

    def for_a_reader() -> None:
        warn(private)
        click.echo(f"{len(lines)} {what}")

    data = {"agree": True, "ledger": [plain(d) for d in lines]}
    return CommandAnswer(marked(data, private), for_a_reader)
