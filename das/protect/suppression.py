r"""Suppression: small counts are not shown.

* ``primary``: a count of 1 to threshold - 1 is hidden. The rule is public, so a hidden line lies
  between 1 and threshold - 1. Sums often give it away.
* ``complementary``: more lines are hidden (:mod:`das.protect.complementary`). What is shown leaves
  each small one a range of at least ``width``, which reaches ``side`` below and above its count. All hidden lines look alike: nothing is known of them.
* ``1980``: the rules of the 1980 census (:mod:`das.protect.rules_1980`), which have thresholds of
  their own.

Zeros are shown. What is shown is exact. Nothing is random.

*What is proved.* Of ``complementary``: the ranges, given the tables of one unit. Where units of two
levels have the same line, none is hidden alone in its family (:mod:`das.protect.differencing`). All
equations between levels together can still narrow ranges: :mod:`benchmarks.family_audit` finds by
how much. So can those of the next product. Of the other rules: nothing.

Source: L. Willenborg, T. de Waal, Elements of Statistical Disclosure Control (2001), chapters 3, 4;
A. Hundepool and others, Statistical Disclosure Control (2012), chapter 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.spine import Spine
from das.protect.complementary import Protection, enough
from das.protect.covering import cheapest
from das.protect.differencing import Hidden, LineCounts, partners
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
        spine, shown = records.spine, tables_1980(tables) if self.rule == "1980" else tables
        levels = exact_lines(records.histogram(), spine, shown)
        if self.rule == "complementary":
            hidden = self.hidden({lv: x.value for lv, x in levels.items()}, spine, tables)
            levels = {level: withheld(x, hidden[level]) for level, x in levels.items()}
        for level, lines in levels.items():
            if self.rule == "1980":
                names = [shown.tables[level][i].name for i in shown.lines(level).table]
                levels[level] = by_the_rules(lines, names)
            elif self.rule == "primary":
                levels[level] = self._primary(lines)
        return ProtectedTables(spine, shown, levels)

    def _primary(self, exact: LevelLines) -> LevelLines:
        small = self._small(exact.value)
        return LevelLines(
            np.where(small, 1, exact.value),
            np.where(small, self.threshold - 1, exact.value),
            np.where(small, WITHHELD, exact.value),
        )

    def _small(self, count: NDArray[Any]) -> NDArray[np.bool_]:
        out: NDArray[np.bool_] = (count > 0) & (count < self.threshold)
        return out

    def hidden(self, counts: LineCounts, spine: Spine, tables: TableSet) -> Hidden:
        """Which lines complementary suppression hides, by level, ``(units, lines)``. Where a line
        is hidden alone in its family, another member is forced to hide it, and is protected
        again."""
        forced = {level: np.zeros(t.shape, dtype=bool) for level, t in counts.items()}
        out = {level: self._small(t) for level, t in counts.items()}
        todo = {level: np.flatnonzero(h.any(axis=1)) for level, h in out.items()}
        while any(len(units) for units in todo.values()):
            for level, units in todo.items():
                lines = tables.lines(level)
                for u in units:
                    out[level][u] = self.hidden_in(counts[level][u], lines, forced[level][u])
            more = partners(out, counts, spine, tables)
            for level in forced:
                forced[level] |= more[level]
            todo = {level: np.flatnonzero(h.any(axis=1)) for level, h in more.items()}
        return out

    def hidden_in(
        self, count: NDArray[np.int64], lines: LineMatrix, forced: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which lines are hidden in one unit, ``(lines,)``, with those ``forced``."""
        unit = DistinctLines.of(lines.matrix, count, count, UNBOUNDED)
        here = np.flatnonzero(unit.row >= 0)
        cost = unit.lower * np.bincount(unit.row[here], minlength=len(unit.lower))
        primary = np.flatnonzero(self._small(unit.lower))
        must = np.unique(unit.row[here[forced[here]]])
        wanted = Protection(self.side, self.width)
        chosen = enough(unit, primary, cost, wanted, must)
        if chosen.sum() > len(np.union1d(primary, must)) and len(cost) <= EXACT:
            chosen = cheapest(unit, primary, cost, wanted, must)
        out = np.zeros(len(count), dtype=bool)
        out[here] = chosen[unit.row[here]]
        return out
