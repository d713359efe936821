"""The seal of a release: the files are exactly those in the statement, each with the digest that it
gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from das.accounting.codec import identity, own_digest
from das.accounting.document import ALTERED, INTERVALS_LIST, NAME, PAGE, Stated, Statement
from das.errors import DasError, ReleaseError, UserError
from das.files.parquet import LOST
from das.files.release import replicates
from das.files.release import statement as privacy_statement
from das.files.release.plain import require_plain
from das.files.run import run_directory
from das.files.run.ledger import INTERVALS, LedgerFile, digests, measured_files
from das.release.verify.place import place

#: What a release has as soon as anything is estimated.
_DERIVED = ("microdata/", "tables/")
#: Of a file that das cannot read back, although nobody changed it.
INTACT = (
    "the files are as they were sealed: unless somebody altered digests too, this is a defect of"
    " das; please report this message"
)


def check_seal(release: Path, said: Statement) -> None:
    """Check that every file of the release exists and has the digest that the statement gives.

    The same holds for measurements and the ledger. No other file, hidden or not, can be there."""
    check_digests(release, said, check_measured(release))
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
    _check_ended(release, said, found)
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


def _check_ended(release: Path, said: Stated, found: Mapping[str, str]) -> None:
    """What a run makes after measuring is under the seal, if there is any."""
    late = next((name for name in found if name.startswith(_DERIVED)), None)
    if late is not None and not any(name.startswith(_DERIVED) for name in said.digests):
        raise ReleaseError(
            f"the run has measured, and has not ended: {late} is not under the seal yet",
            where=release,
            remedy="`das status RUN` shows its stages; finish it with `das run ... --resume`",
        )


def check_measured(release: Path) -> dict[str, str]:
    """Check that the files of measurements are those that the ledger says were written. Returns
    their digests."""
    here = {name: run_directory.file_digest(path) for name, path in measured_files(release).items()}
    told = LedgerFile(release / "ledger.jsonl").entries.files()
    for name in sorted({*told, *here}):
        if here.get(name) != told.get(name):
            raise ReleaseError(
                f"the digest is {here.get(name, 'of no file')}, and in ledger.jsonl"
                f" {told.get(name, 'there is none')}",
                where=release / name,
                remedy=ALTERED,
            )
    return here


def fault_of(error: ReleaseError) -> DasError:
    """The same error, unless the release that it names is exactly as das wrote it: then no file was
    damaged, and to get it again is no help."""
    where = Path(str(error.where))
    inside = (p for p in (where, *where.parents) if (p / "ledger.jsonl").is_file())
    if error.remedy != LOST or (release := next(inside, None)) is None:
        return error
    try:
        if (release / NAME).is_file():
            check_seal(release, privacy_statement.read_ours(release))
        else:  # a run that is not at its end: what it derives has no digests yet
            check_measured(release)
    except UserError:
        return error
    return DasError(error.what, where=error.where, remedy=INTACT)
