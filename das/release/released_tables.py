"""The published tables of a release of any kind: which there are, and of which places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from das import tables
from das.model.areas import Areas
from das.model.not_private import Private
from das.model.spine import Spine
from das.model.universe import Universe
from das.release import dhc_files
from das.release.dhc import OpenedDhc, open_dhc
from das.release.post import Opened, open_release
from das.release.publications import publication_of
from das.tables import Table


@dataclass(frozen=True, eq=False)
class ReleasedTables:
    """``tables`` by name. Of a release whose measurements were drawn whole also what was
    ``opened``, by table the ``universe`` that it counts, and ``areas`` across the levels."""

    folder: Path
    spine: Spine
    tables: Mapping[str, Table]
    private: Private
    areas: tuple[Areas, ...] = ()
    opened: Opened | None = None
    universe: Mapping[str, Universe] = field(default_factory=dict)

    @staticmethod
    def of(release: Path) -> ReleasedTables:
        """Raises :class:`ReleaseError` or :class:`SpecError` where the folder is no complete
        release.
        """
        if isinstance(publication_of(release).opened(release), OpenedDhc):
            dhc = open_dhc(release)
            every = {t.name: t for u in dhc.spec.universes for t in dhc_files.tables_of(u.name)}
            return ReleasedTables(release, dhc.spine, every, dhc.spec.run.private)
        return ReleasedTables.of_opened(open_release(release))

    @staticmethod
    def of_opened(opened: Opened) -> ReleasedTables:
        each = [
            (u, t) for u in opened.after.universes for t in tables.of(u, opened.assigned(u.name))
        ]
        return ReleasedTables(
            opened.folder,
            opened.spine,
            {t.name: t for _, t in each},
            opened.after.private,
            opened.areas(),
            opened,
            {t.name: u for u, t in each},
        )
