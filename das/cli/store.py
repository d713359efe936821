"""Carry a finished run to a store, and fetch a release from one."""

from __future__ import annotations

from pathlib import Path

import click

from das.cli.options import PATH, confidential_store_option, guarded, quiet_option, warn
from das.engine.display import Live
from das.files.provenance import privacy_of
from das.jobs import storing


@click.group()
def store() -> None:
    """Releases in S3, Google Cloud Storage and other stores."""


@store.command()
@click.argument("run", type=PATH)
@click.argument("url")
@confidential_store_option
@quiet_option
@guarded
def push(run: Path, url: str, confidential_store: str | None, quiet: bool) -> None:
    """Copy the release of a finished run to URL (s3://BUCKET/PREFIX, gs://BUCKET/PREFIX,
    file:///FOLDER, ...). Files that are there already stay. The seal, privacy.json, comes last:
    if it is there, the copy is complete."""
    with Live(quiet) as progress:
        storing.push(run, url, confidential_store, progress)
    warn(privacy_of(run))
    click.echo(f"carried: {url}")


@store.command()
@click.argument("url")
@click.argument("folder", type=PATH, metavar="DIR")
@quiet_option
@guarded
def pull(url: str, folder: Path, quiet: bool) -> None:
    """Fetch a release from URL into DIR, new or empty, and compare every file with the digests
    in privacy.json. If anything is missing or altered, DIR stays empty."""
    with Live(quiet) as progress:
        storing.pull(url, folder, progress)
    warn(privacy_of(folder))
    click.echo(f"fetched, as sealed: {folder}")
