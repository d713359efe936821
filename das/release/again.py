"""Everything after measurement, from the files of a release alone: `das estimate --from`.

Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from das.engine import Progress, Silent, refuse_within_import
from das.errors import ReleaseError, UserError
from das.files.measurements import published_layout
from das.files.measurements.outside import NOTHING, Outside
from das.files.measurements.published_files import first
from das.files.measurements.published_together import check_redistricting
from das.files.run.run_directory import RunDirectory
from das.model.not_private import marked
from das.model.schemas import SCHEMAS
from das.release.outcome import Outcome
from das.release.public_counts import PublicCounts
from das.release.public_published_dhc import PublicPublishedDhc
from das.release.publications import PublicHalf, Rerun, publication_of
from das.stages import Stages
from das.version import __version__


def estimate_from(
    release: Path,
    out: Path,
    *,
    changes: Sequence[str] = (),
    workers: int = 1,
    progress: Progress | None = None,
    outside: Outside = NOTHING,
) -> Outcome:
    """Estimate again from a release of ours, or from measurements in the Bureau's layout.

    ``out/release`` is a complete release with the same measurements, ledger and statement.
    ``changes`` (``dotted.key=value``) change how it is made, if its publication allows.
    ``outside``: totals, names and areas that measurements in the Bureau's layout do not hold. An
    interruption leaves nothing in ``out``; files that another process has begun there stay."""
    refuse_within_import()
    progress, directory, stages = progress or Silent(), RunDirectory(out), Stages()
    directory.refuse_if_taken()
    if not published_layout.is_published(release) and not (release / "spec.toml").is_file():
        raise ReleaseError(
            "this is no release: it has no spec.toml, and no folders <Level>.parquet",
            where=release,
            remedy="give the folder release/ of a run, or noisy measurement files in the Bureau's"
            " layout",
        )
    of = _half(release, outside)
    _refuse(changes, of)
    directory.create(confidential=False)  # ours from here on: nobody else's is ever deleted
    with directory.whole_or_nothing():
        made = of.again(Rerun(release, directory, changes, workers, stages, progress))
        said: dict[str, object] = {
            "name": made.name,
            "release": str(release.resolve()),
            "spec_digest": made.digest,
            "changes": list(changes),
            "version": __version__,
            "stages": stages.done,
            **made.said,
            "outputs": directory.digests(),
        }
        directory.write_manifest(marked(said, made.private))
    return Outcome(
        directory,
        stages.seconds,
        (*made.notes, *stages.notes),
        private=made.private,
        tables=made.tables,
        cost=made.cost,
    )


def _half(release: Path, outside: Outside) -> PublicHalf:
    """The public half for a release, or for files in the Bureau's layout by their schema; what is
    known outside of it is for files without our own."""
    if published_layout.is_published(release):
        found = first(release)
        if outside.dhc is not None and found is not None:
            check_redistricting(found[0].name, release)
        if found is not None and found[0].name == SCHEMAS["dhcp"].name:
            return PublicPublishedDhc(outside)
        return PublicCounts(outside)
    if outside != NOTHING:
        raise UserError(
            "totals, names or other measurements are given, but this is a release, which has its"
            " own",
            where=release,
            remedy="leave out --totals, --published and --with",
        )
    return publication_of(release)


def _refuse(changes: Sequence[str], of: PublicHalf) -> None:
    """Raises :class:`UserError` for changes of a release whose estimates have none."""
    if changes and "estimate --set" in of.cannot:
        raise UserError(
            f"{changes[0].partition('=')[0]} of a release of {of.title} does not change",
            where="--set, --method",
            remedy=of.cannot["estimate --set"],
        )
