"""How well the published persons and households of a DHC release agree, from its files alone: its
microdata if they are there, otherwise its tables of persons and of households, which can be another
publisher's (:mod:`das.files.release.table_lines`).

Like :mod:`das.release.post`, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from das.errors import UserError
from das.files.release import table_lines
from das.link.agreement import agreement
from das.link.counted import AgreementCounts
from das.link.table_agreement import CHECKED_TABLES, table_agreement
from das.model.agreement_rows import AgreementRow
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.release import dhc_files
from das.release.dhc import SPEC, open_dhc
from das.release.dhc_files import DhcCounts


def agreement_of(folder: Path) -> list[AgreementRow]:
    """The identities of a release, or of a folder of tables, level by level, the lowest first.

    Raises :class:`UserError` where there is neither, and :class:`InputError` for damaged files."""
    if (folder / SPEC).is_file():
        opened = open_dhc(folder)
        lowest = dhc_files.read_counts(folder, opened.spine)
        return agreement_of_counts(
            opened.spine, {name: h.upward(opened.spine) for name, h in lowest.items()}
        )
    tables = folder / "tables" if (folder / "tables").is_dir() else folder
    if not (levels := table_lines.levels(tables, CHECKED_TABLES)):
        raise UserError(
            "holds neither a release of the DHC nor tables of one",
            where=folder,
            remedy="give a run, a release, or a folder with tables such as P17_Block.csv and"
            " H9_Block.csv",
        )
    return [
        row
        for level in levels
        for row in table_agreement(table_lines.lines(tables, level, CHECKED_TABLES), level)
    ]


def agreement_of_counts(spine: Spine, counts: DhcCounts) -> list[AgreementRow]:
    """As :func:`agreement_of`, from counts by universe and level."""
    return [
        row
        for level in reversed(spine.levels)
        for row in agreement(agreement_counts({u: h[level] for u, h in counts.items()}), level)
    ]


def agreement_counts(counts: Mapping[str, Histogram]) -> AgreementCounts:
    """The counts of one level, by universe."""
    return AgreementCounts(counts["persons"], counts["households"], counts["units"])
