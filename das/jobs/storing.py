"""A finished run carried to a store, and a release fetched from one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from das.accounting.document import NAME, Statement
from das.engine import Progress
from das.errors import ReleaseError, UserError
from das.files import atomic
from das.files.release import statement
from das.files.run.run_directory import RunDirectory, refuse_full
from das.files.run.store_sync import AT_ONCE, StoreSync
from das.files.store import Store
from das.release.verify import sealed


def push(run: Path, url: str, confidential_url: str | None, progress: Progress) -> None:
    """Raises :class:`UserError` where the run has not ended, or its release is not what was sealed,
    or the store cannot be used.
    """
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
    with StoreSync.of(directory, url, confidential_url) as sync, directory.lock():
        sync.finish(progress)


def pull(url: str, folder: Path, progress: Progress) -> None:
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
    :class:`ReleaseError`.
    """
    said = statement.read(release)
    if isinstance(said, Statement):
        sealed.check_seal(release, said)
    else:
        sealed.check_digests(release, said)
