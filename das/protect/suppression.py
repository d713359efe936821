r"""Suppression: small counts are not shown.

* ``primary``: a count of 1 to threshold - 1 is hidden. The rule is public, so a hidden line lies
  between 1 and threshold - 1. Sums often give it away.
* ``complementary``: more lines are hidden (:mod:`das.protect.complementary`). What is shown leaves
  each small one a range of at least ``width``, which reaches ``side`` below and above its count. All hidden lines look alike: nothing is known of them.
* ``1980``: the rules of the 1980 census (:mod:`das.protect.rules_1980`), which have thresholds of
  their own.

Zeros are shown. What is shown is exact. Nothing is random.

*What is proved.* Of ``complementary``: the ranges, given the tables of one unit. Units are protected
one by one. A line that is hidden in one block alone is its tract's less the other blocks', if these
are published, too. So are the tables of the next product more equations. Of the others: nothing.

Source: L. Willenborg, T. de Waal, Elements of Statistical Disclosure Control (2001), chapters 3, 4;
A. Hundepool and others, Statistical Disclosure Control (2012), chapter 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.protect.complementary import Protection, enough
from das.protect.covering import cheapest
from das.protect.method import ProtectionMethod
from das.protect.published import UNBOUNDED, WITHHELD, LevelLines, ProtectedTables
from das.protect.rules_1980 import by_the_rules, tables_1980
from das.protect.study_records import StudyRecords
from das.protect.table_set import LineMatrix, TableSet
from das.protect.unit_lines import DistinctLines
from das.protect.unprotected import exact_lines
from das.protect.withheld import withheld

RULES = ("primary", "complementary", "1980")
#: Up to this many rows of a unit, what is hidden is the cheapest; above, it is enough.
EXACT = 20


@dataclass(frozen=True)
class Suppression(ProtectionMethod):
    """``rule``: ``primary``, ``complementary`` or ``1980``; ``threshold``: the least positive count
    that is shown, except in 1980; ``side`` and ``width``: of the ranges of complementary
    suppression."""

    rule: str = "primary"
    threshold: int = 3
    side: int = 1
    width: int = 3

    name: ClassVar[str] = "suppression"
    random: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for what, good in (
            (f"rule is {self.rule!r}: it can be {', '.join(RULES)}", self.rule in RULES),
            (f"threshold is {self.threshold!r}: it must be 2 or more", self.threshold >= 2),
            (f"side is {self.side!r}: it must be 1 or more", self.side >= 1),
            (
                f"width is {self.width!r}: it must be twice the side or more",
                self.width >= 2 * self.side,
            ),
        ):
            if not good:
                raise SpecError(what, where="method suppression")

    @property
    def label(self) -> str:
        if self.rule == "1980":
            return "suppressed by the rules of 1980"
        more = f", ranges of {self.width} or more" if self.rule == "complementary" else ""
        return f"counts under {self.threshold} hidden, {self.rule}{more}"

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        shown = tables_1980(tables) if self.rule == "1980" else tables
        levels = exact_lines(records.histogram(), records.spine, shown)
        for level, lines in levels.items():
            levels[level] = self._hidden(lines, shown, level)
        return ProtectedTables(records.spine, shown, levels)

    def _hidden(self, exact: LevelLines, tables: TableSet, level: str) -> LevelLines:
        lines = tables.lines(level)
        if self.rule == "1980":
            return by_the_rules(exact, [tables.tables[level][i].name for i in lines.table])
        if self.rule == "complementary":
            protection = Protection(self.side, self.width)
            return withheld(exact, self.hidden(exact.value, lines, protection))
        small = self._small(exact.value)
        return LevelLines(
            np.where(small, 1, exact.value),
            np.where(small, self.threshold - 1, exact.value),
            np.where(small, WITHHELD, exact.value),
        )

    def _small(self, count: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (count > 0) & (count < self.threshold)

    def hidden(
        self, count: NDArray[np.int64], lines: LineMatrix, wanted: Protection
    ) -> NDArray[np.bool_]:
        """Which lines complementary suppression hides, ``(units, lines)``."""
        out = self._small(count)
        for u in np.flatnonzero(out.any(axis=1)):
            unit = DistinctLines.of(lines.matrix, count[u], count[u], UNBOUNDED)
            here = np.flatnonzero(unit.row >= 0)
            cost = unit.lower * np.bincount(unit.row[here], minlength=len(unit.lower))
            primary = np.flatnonzero(self._small(unit.lower.astype(np.int64)))
            chosen = enough(unit, primary, cost, wanted)
            if chosen.sum() > len(primary) and len(cost) <= EXACT:
                chosen = cheapest(unit, primary, cost, wanted)
            out[u, here] = chosen[unit.row[here]]
        return out
