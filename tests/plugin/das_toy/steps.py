"""A toy protection method: each count is printed as the range of equal width that it falls in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from das.tools.protection.published import LevelLines, ProtectedTables, TableSet
from das.tools.protection.truth.method import ProtectionMethod, StudyRecords, exact_lines


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
