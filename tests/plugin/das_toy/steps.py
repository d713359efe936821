"""A toy protection method: each count is printed as the range of equal width that it falls in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from das.protect.method import ProtectionMethod
from das.protect.published import LevelLines, ProtectedTables
from das.protect.study_records import StudyRecords
from das.protect.table_set import TableSet
from das.protect.unprotected import exact_lines


@dataclass(frozen=True)
class Steps(ProtectionMethod):
    width: int = 10

    name: ClassVar[str] = "toy-steps"
    random: ClassVar[bool] = False

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        levels = {}
        for level, exact in exact_lines(records.histogram(), records.spine, tables).items():
            start = exact.value - exact.value % self.width
            levels[level] = LevelLines(start, start + self.width - 1, start)
        return ProtectedTables(records.spine, tables, levels)
