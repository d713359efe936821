"""No protection: every line as it is. The attack's upper end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from das.model.histogram import Histogram
from das.model.spine import Spine
from das.protect.method import ProtectionMethod
from das.protect.published import LevelLines, ProtectedTables
from das.protect.study_records import StudyRecords
from das.protect.table_set import TableSet


@dataclass(frozen=True)
class Unprotected(ProtectionMethod):
    """Exact tables of the records."""

    name: ClassVar[str] = "none"
    random: ClassVar[bool] = False

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        spine = records.spine
        return ProtectedTables(spine, tables, exact_lines(records.histogram(), spine, tables))


def exact_lines(lowest: Histogram, spine: Spine, tables: TableSet) -> dict[str, LevelLines]:
    """The exact lines of each level that has tables, from a histogram of the lowest level."""
    every = lowest.upward(spine)
    return {
        level: LevelLines.exact(tables.lines(level).counts(every[level])) for level in tables.tables
    }
