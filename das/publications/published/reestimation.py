"""Everything after measurement, from the files of a release alone: `das estimate --from`.

Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from das.engine import Progress
from das.errors import ReleaseError, UserError
from das.files.run.run_directory import RunDirectory
from das.model.redistricting import SCHEMAS
from das.publications.published.files import layout
from das.publications.published.files.listing import first
from das.publications.published.files.outside import NOTHING, Outside
from das.publications.published.files.pooling import check_redistricting
from das.publications.published.public import PublicPublished, PublicPublishedDhc
from das.release.outcome import Outcome
from das.release.publications import PublicHalf, estimate_again, publication_of


def estimate_from(
    release: Path,
    out: Path,
    *,
    changes: Sequence[str] = (),
    workers: int = 1,
    progress: Progress | None = None,
    outside: Outside = NOTHING,
) -> Outcome:
    """Estimate again from a release of ours, or from measurements in the Bureau's layout, as
    :func:`das.release.publications.estimate_again`. ``outside``: totals, names and areas that
    measurements in the Bureau's layout do not hold."""
    RunDirectory(out).refuse_if_taken()
    if not layout.is_published(release) and not (release / "spec.toml").is_file():
        raise ReleaseError(
            "this is no release: it has no spec.toml, and no folders <Level>.parquet",
            where=release,
            remedy="give the folder release/ of a run, or noisy measurement files in the Bureau's"
            " layout",
        )
    half = _half(release, outside)
    return estimate_again(release, out, half, changes=changes, workers=workers, progress=progress)


def _half(release: Path, outside: Outside) -> PublicHalf:
    """The public half for a release, or for files in the Bureau's layout by their schema; what is
    known outside of it is for files without our own."""
    if layout.is_published(release):
        found = first(release)
        if outside.dhc is not None and found is not None:
            check_redistricting(found[0].name, release)
        if found is not None and found[0].name == SCHEMAS["dhcp"].name:
            return PublicPublishedDhc(outside)
        return PublicPublished(outside)
    if outside != NOTHING:
        raise UserError(
            "totals, names or other measurements are given, but this is a release, which has its"
            " own",
            where=release,
            remedy="leave out --totals, --published and --with",
        )
    return publication_of(release)
