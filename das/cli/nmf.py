"""Noisy measurement files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from das.cli.options import PATH, guarded, json_option
from das.console import console, records_table
from das.files import nmf_frame
from das.verify import check as check_files


@click.group()
def nmf() -> None:
    """Noisy measurement files: what they hold, rows of them, and whether they are whole."""


@nmf.command()
@click.argument("path", type=PATH)
@json_option
@guarded
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
@guarded
def show(path: Path, level: str, query: str | None, geocode: tuple[str, ...], constraints: bool) -> None:
    """Rows as CSV, one for each answer, with labels."""
    frame = nmf_frame.read_nmf(path, level, query, geocode or None, kind="Constraint" if constraints else "DPQuery")
    click.echo(frame.to_csv(index=False), nl=False)


@nmf.command()
@click.argument("release", type=PATH)
@guarded
def verify(release: Path) -> None:
    """Check the files of a release against its privacy statement, draw by draw."""
    folder = release / "release" if (release / "release").is_dir() else release
    lines = check_files(folder)
    click.echo(f"{len(lines)} draws: files and ledger agree")
