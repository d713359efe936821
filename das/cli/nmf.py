"""Noisy measurement files."""

from __future__ import annotations

import io
import json
from itertools import chain
from pathlib import Path

import click

from das.accounting.codec import plain
from das.accounting.document import ForeignLine
from das.cli.console import console, records_table
from das.cli.options import PATH, guarded, json_option, warn
from das.files import csv_text
from das.files.measurements import frame as nmf_frame
from das.files.provenance import privacy_of
from das.files.run.run_directory import release_of
from das.model.not_private import marked, marked_rows
from das.reading import read_nmf
from das.release.publications import publication_of, require
from das.release.verify import check as check_files


@click.group()
def nmf() -> None:
    """Noisy measurement files: what they hold, rows of them, and whether they are whole."""


@nmf.command()
@click.argument("path", type=PATH)
@json_option
@guarded
def summary(path: Path, as_json: bool) -> None:
    """Levels and queries, with units, answers, variance and the spread of the values. PATH is a
    run, a release, or a folder in the Bureau's layout."""
    require(publication_of(release_of(path)), "nmf", path)
    rows, private = nmf_frame.summary(path), privacy_of(path)
    if as_json:
        click.echo(json.dumps(marked_rows(rows, private)))
    else:
        warn(private)
        console().print(records_table("Noisy measurements", rows))


@nmf.command()
@click.argument("path", type=PATH)
@click.option("--level", required=True)
@click.option("--query", help="Such as 'hispanic * cenrace'.")
@click.option("--geocode", multiple=True)
@click.option("--constraints", is_flag=True, help="Constraint rows in place of measurements.")
@json_option
@guarded
def show(
    path: Path,
    level: str,
    query: str | None,
    geocode: tuple[str, ...],
    constraints: bool,
    as_json: bool,
) -> None:
    """Rows as CSV, one for each answer, with codes and labels. Those of a seeded run have a column
    more, which says so.
    """
    require(publication_of(release_of(path)), "nmf", path)
    frame = read_nmf(
        path, level, query, geocode or None, kind="Constraint" if constraints else "DPQuery"
    )
    if as_json:
        click.echo(frame.to_json(orient="records", force_ascii=False))
        return
    out = io.StringIO()
    cells = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    csv_text.write_rows(out, chain([tuple(frame.columns)], cells))
    click.echo(out.getvalue(), nl=False)


@nmf.command()
@click.argument("release", type=PATH)
@json_option
@guarded
def verify(release: Path, as_json: bool) -> None:
    """Check the files of a release against its ledger, draw by draw. Of measurements that another
    publisher drew, against what was read off them. `das account verify` checks the whole privacy
    statement, this included."""
    lines, private = check_files(release_of(release)), privacy_of(release)
    if as_json:
        click.echo(
            json.dumps(marked({"agree": True, "ledger": [plain(d) for d in lines]}, private))
        )
        return
    warn(private)
    foreign = any(isinstance(d, ForeignLine) for d in lines)
    what = (
        "queries by level: files and statement agree (no ledger: another publisher's)"
        if foreign
        else ("draws: files and ledger agree")
    )
    click.echo(f"{len(lines)} {what}")
