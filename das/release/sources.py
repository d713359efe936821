"""Which source of replicates a release is. Like ``das.release.post``, nothing here can see the
truth.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from das.release.publications import TabulatedHalf, publication_of, require
from das.release.replicate_source import ReleaseSource


def source_of(release: Path, feature: str = "tables") -> ReleaseSource:
    """The tables and counts of a release, and what intervals ask of it. Raises :class:`UserError`
    where its publication has no such ``feature``, :class:`ReleaseError` or :class:`SpecError` where
    the folder is no complete release."""
    half = publication_of(release)
    require(half, feature, release)
    return cast(TabulatedHalf, half).source(release)
