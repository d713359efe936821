"""The seal of a release: the files are exactly those in the statement, each with the digest that it
gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from das.accounting.codec import identity, own_digest
from das.accounting.document import ALTERED, INTERVALS_LIST, NAME, PAGE, Stated, Statement
from das.errors import ReleaseError
from das.files.release import replicates
from das.files.release import statement as privacy_statement
from das.files.release.plain import require_plain
from das.files.run import run_directory
from das.files.run.ledger import INTERVALS, LedgerFile, digests, measured_files
from das.release.verify.place import place


def check_seal(release: Path, said: Statement) -> None:
    """Check that every file of the release exists and has the digest that the statement gives.

    The same holds for measurements and the ledger. No other file, hidden or not, can be there."""
    parts = {
        name: run_directory.file_digest(path) for name, path in measured_files(release).items()
    }
    check_digests(release, said, parts)
    _check_parts(release, parts)
    if not privacy_statement.as_written(release, said):
        raise ReleaseError(
            "has the right content, but not the exact text that das writes",
            where=release / NAME,
            remedy=ALTERED,
        )


def _check_intervals(release: Path, said: Stated) -> None:
    """Those that are there are of this release."""
    if (release / INTERVALS).exists():
        replicates.check(release / INTERVALS)
        if run_directory.read_json(release / INTERVALS_LIST).get("release") != identity(said):
            raise ReleaseError(
                "these are intervals of another release", where=release / INTERVALS, remedy=ALTERED
            )


def check_digests(release: Path, said: Stated, parts: Mapping[str, str] | None = None) -> None:
    """The same, of a statement of any publisher's measurements, without the ledger; ``parts`` are
    digests of files that are known.
    """
    require_plain(release)
    _check_intervals(release, said)
    found = digests(release, parts) | {NAME: own_digest(said)}
    if (release / PAGE).is_file():
        found[PAGE] = run_directory.file_digest(release / PAGE)
    for name in sorted({*said.digests, *found}):
        listed, here = said.digests.get(name), found.get(name)
        if here is None:
            raise ReleaseError(
                f"there is no {name}, although the statement has its digest",
                where=release,
                remedy=ALTERED,
            )
        if listed is None:
            raise ReleaseError(
                f"{name} is in the release, but not in its statement",
                where=release,
                remedy=(
                    "remove the folder, and make the intervals with `das intervals`, which seals"
                    " them"
                    if name == INTERVALS_LIST
                    else (
                        f"finish an interrupted run with --resume; remove added files; or {ALTERED}"
                    )
                ),
            )
        if listed != here:
            raise ReleaseError(
                f"digests.{name} is {listed}, and computed again {here}",
                where=place(release / NAME, ("digests", name)),
                remedy=ALTERED,
            )


def _check_parts(release: Path, here: Mapping[str, str]) -> None:
    """The files of measurements, with these digests, are those that the ledger says were
    written.
    """
    told = LedgerFile(release / "ledger.jsonl").entries.files()
    for name in sorted({*told, *here}):
        if here.get(name) != told.get(name):
            raise ReleaseError(
                f"the digest is {here.get(name, 'of no file')}, and in ledger.jsonl"
                f" {told.get(name, 'there is none')}",
                where=release / name,
                remedy=ALTERED,
            )
