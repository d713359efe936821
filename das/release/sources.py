"""Which source of replicates a release is: the one place of its family that asks which publication
it has. Like ``das.release.post``, nothing here can see the truth."""

from __future__ import annotations

from pathlib import Path

from das.release.dhc import is_dhc_release, open_dhc
from das.release.dhc_replicates import DhcReplicates
from das.release.own_replicates import OwnReplicates
from das.release.post import open_release
from das.release.replicate_source import ReleaseSource


def source_of(release: Path) -> ReleaseSource:
    """The tables of a release of any publication, and what intervals ask of it. Raises
    :class:`ReleaseError` or :class:`SpecError` where the folder is no complete one."""
    if is_dhc_release(release):
        return DhcReplicates.of(open_dhc(release))
    return OwnReplicates.of(open_release(release))
