"""Which source of replicates a release is. Like ``das.release.post_processing``, nothing here can see the
truth.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from das.release.publications import TabulatedHalf, publication_of, require
from das.release.replicate_source import ReleaseSource


def source_of(release: Path, feature: str = "tables") -> ReleaseSource:
    """The tables and counts of a release, as intervals need them. Raises :class:`UserError` if its
    publication has no such ``feature``. Raises :class:`ReleaseError` or :class:`SpecError` if the
    folder is not a complete release."""
    half = publication_of(release)
    require(half, feature, release)
    return cast(TabulatedHalf, half).source(release)
