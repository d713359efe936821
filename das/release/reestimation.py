"""Everything after measurement, from the files of a release alone, by its publication.

Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from das.engine import Progress, Silent, refuse_within_import
from das.errors import UserError
from das.files.run.run_directory import RunDirectory
from das.model.not_private import marked
from das.release.outcome import Outcome
from das.release.publications import PublicHalf, Rerun
from das.stages import Stages
from das.version import __version__


def estimate_again(
    release: Path,
    out: Path,
    of: PublicHalf,
    *,
    changes: Sequence[str] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> Outcome:
    """Estimate again from a ``release`` of this publication.

    ``out/release`` is a complete release with the same measurements, ledger and statement.
    ``changes`` (``dotted.key=value``) change how it is made, if its publication allows. An
    interruption leaves nothing in ``out``; files that another process has begun there stay."""
    refuse_within_import()
    progress, directory, stages = progress or Silent(), RunDirectory(out), Stages()
    directory.refuse_if_taken()
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


def _refuse(changes: Sequence[str], of: PublicHalf) -> None:
    """Raises :class:`UserError` for changes of a release whose estimates have none."""
    if changes and "estimate --set" in of.cannot:
        raise UserError(
            f"{changes[0].partition('=')[0]} of a release of {of.title} does not change",
            where="--set, --method",
            remedy=of.cannot["estimate --set"],
        )
