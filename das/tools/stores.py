"""Carry a finished run to a store, and fetch a release from one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import click

from das.accounting.document import NAME, Statement
from das.cli.kit.options import PATH, confidential_store_option, guarded, quiet_option, warn
from das.engine import Progress
from das.engine.display import Live
from das.errors import ReleaseError, UserError
from das.files import atomic
from das.files.messages import privacy_of
from das.files.release import statement
from das.files.run.run_directory import RunDirectory, refuse_full
from das.files.run.store_sync import AT_ONCE, StoreSync
from das.files.store import Store
from das.release.verify import sealed

# A finished run carried to a store, and a release fetched from one.


def push_run(run: Path, url: str, confidential_url: str | None, progress: Progress) -> None:
    """Raises :class:`UserError` where the run has not ended, or its release is not what was sealed,
    or the store cannot be used."""
    directory = RunDirectory(run)
    if not directory.manifest.exists():
        raise UserError(
            "this is no run that has ended",
            where=run,
            remedy=(
                "name the folder that --out named; one that was interrupted goes on with das run"
                " ... --resume --store"
            ),
        )
    if confidential_url is not None and not directory.confidential.exists():
        raise UserError(
            "there is nothing confidential here", where=run, remedy="leave out --confidential-store"
        )
    check(directory.release)
    with StoreSync.for_stores(directory, url, confidential_url) as sync, directory.lock():
        sync.finish(progress)


def pull_release(url: str, folder: Path, progress: Progress) -> None:
    """Download a release. Raises :class:`UserError` if the store has no whole release, or
    ``folder`` is not empty."""
    refuse_full(folder)
    store = Store.at(url)
    names = sorted(store.sizes())
    if NAME not in names:
        raise ReleaseError(
            f"there is no {NAME}: no release, or one that is not all there yet",
            where=url,
            remedy="look at the URL; or wait until the run that carries it has ended",
        )
    progress.stage(f"fetch from {url}", len(names))
    with atomic.folder(folder.absolute()) as draft, ThreadPoolExecutor(AT_ONCE, "fetch") as pool:
        for done in as_completed([pool.submit(store.get, name, draft / name) for name in names]):
            done.result()
            progress.advance()
        check(draft)


def check(release: Path) -> None:
    """Check that the release has exactly the files of its seal, with their digests. Raises
    :class:`ReleaseError`."""
    said = statement.read(release)
    if isinstance(said, Statement):
        sealed.check_seal(release, said)
    else:
        sealed.check_digests(release, said)


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
    file:///FOLDER, ...). Files that are there already stay. privacy.json, with the digests of
    the others, comes last: if it is there, the copy is complete."""
    with Live(quiet) as progress:
        push_run(run, url, confidential_store, progress)
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
        pull_release(url, folder, progress)
    warn(privacy_of(folder))
    click.echo(f"fetched, as sealed: {folder}")
