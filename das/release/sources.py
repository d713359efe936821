"""Which source of replicates a release is. Like ``das.release.post``, nothing here can see the
truth.
"""

from __future__ import annotations

from pathlib import Path

from das.release.publications import publication_of, require
from das.release.replicate_source import ReleaseSource


def source_of(release: Path) -> ReleaseSource:
    """The tables of a release, and what intervals ask of it. Raises :class:`UserError` where its
    publication has no such tables, :class:`ReleaseError` or :class:`SpecError` where the folder is
    no complete release."""
    half = publication_of(release)
    require(half, "tables", release)
    return half.source(release)
