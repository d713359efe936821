r"""Suppression: small counts are not shown.

* ``primary``: a count of 1 to threshold - 1 is hidden. The rule is public, so a hidden line lies
  between 1 and threshold - 1. Sums often give it away.
* ``complementary``: more lines are hidden (:mod:`das.tools.protection.truth.methods.complementary`). What is shown leaves
  each small one a range of at least ``width``, which reaches ``side`` below and above its count. All hidden lines look alike: nothing is known of them.
* ``1980``: the rules of the 1980 census (:mod:`das.tools.protection.truth.methods.suppression`), which have thresholds of
  their own.

Zeros are shown. What is shown is exact. Nothing is random.

*What is proved.* Of ``complementary``: the ranges, given the tables of one unit. Where units of two
levels have the same line, none is hidden alone in its family (:mod:`das.tools.protection.truth.methods.complementary`). All
equations between levels together can still narrow ranges: :mod:`benchmarks.family_audit` finds by
how much. So can those of the next product. Of the other rules: nothing.

Source: L. Willenborg, T. de Waal, Elements of Statistical Disclosure Control (2001), chapters 3, 4;
A. Hundepool and others, Statistical Disclosure Control (2012), chapter 4."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.query import Grouping
from das.model.redistricting import CENRACE
from das.model.schema import RACES, Schema
from das.model.spine import Spine
from das.model.tabulation import LabeledWhere, Tabulation, Where
from das.tables import Table, table
from das.tools.protection.published import (
    UNBOUNDED,
    WITHHELD,
    LevelLines,
    LineMatrix,
    ProtectedTables,
    TableSet,
    withheld,
)
from das.tools.protection.truth.method import ProtectionMethod, StudyRecords, exact_lines
from das.tools.protection.truth.methods.complementary import (
    DistinctLines,
    Hidden,
    LineCounts,
    Protection,
    cheapest,
    enough,
    partners,
)

# The suppression rules of the 1980 census, for the tables of 2010.
#
# Races are first the seven groups: White; Black, American Indian and Alaska Native, Asian, Native
# Hawaiian and Other Pacific Islander, some other race, each alone or with White only; all others. The
# tables by race of the set are replaced by four of these groups: race and origin by race, of all
# persons and of the adults. Then, for each place,
#
# * (a) a count of 1 or 2 persons of a race, or of an origin and race, is printed as 0;
# * (b) the table of adults by race is withheld where a race has 1 to 14 persons; the one by origin
# and race, where an origin and race has;
# * (c) every other table of persons is withheld where the place has 1 to 14 persons.
#
# Totals, and persons of Hispanic origin, are always shown. There is no complementary suppression.
#
# Source: U.S. Census Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S.
# Census: Full Technical Report (2025), appendix D. Its table 18 C repeats table 19 A: the rate there
# is one of whole tables.

#: The tables by race, all persons and adults, of each schema that has them.
_BY_RACE = {"sf1": ("P8", "P9", "P10", "P11"), "pl94": ("P1", "P2", "P3", "P4")}
#: Counts of a race up to FEW are printed as 0; places of up to SMALL persons have no other table.
FEW, SMALL = 2, 14
_ADULT: Where = {"votingage": ("18-and-over",)}


def races() -> Grouping:
    """The seven groups."""
    white = RACES[0]
    groups = {white: [white], **{r: [r, f"{white}+{r}"] for r in RACES[1:]}}
    listed = [c for members in groups.values() for c in members]
    groups["others"] = [c for c in CENRACE if c not in listed]
    return Grouping.from_levels("race1980", "cenrace", CENRACE, groups, "races of 1980")


def tables_1980(tables: TableSet) -> TableSet:
    """The set with its tables by race in the seven groups. Raises :class:`SpecError` for a schema
    without these tables."""
    schema = tables.schema
    if schema.name not in _BY_RACE:
        raise SpecError(
            f"the rules of 1980 are about tables by race, and schema {schema.name!r} has others",
            where="method suppression",
            remedy=f"use the tables of {' or '.join(_BY_RACE)}, or another rule",
        )
    old, new = _BY_RACE[schema.name], _by_race(schema)
    return TableSet(
        f"{tables.name}, races of 1980",
        schema,
        {
            level: (*new, *(t for t in here if t.name not in old))
            for level, here in tables.tables.items()
        },
    )


def _by_race(schema: Schema) -> tuple[Table, ...]:
    """The total and those of Hispanic origin; race, and origin by race, of all and of adults."""
    grouped = replace(schema, recodes=(*schema.recodes, races()))
    hispanic: LabeledWhere = ("Hispanic or Latino", {"hispanic": ("hispanic",)})
    asked = (
        Tabulation("A0", "Total and origin", columns=(("Total", {}), hispanic)),
        Tabulation("A1", "Race", "race1980", total=False),
        Tabulation("A2", "Origin and race", "hispanic * race1980", total=False),
        Tabulation("A3", "Race, 18 years and over", "race1980", where=_ADULT),
        Tabulation("A4", "Origin and race, 18 years and over", "hispanic * race1980", where=_ADULT),
    )
    return tuple(table(t, grouped) for t in asked)


def by_the_rules(lines: LevelLines, names: list[str]) -> LevelLines:
    """Exact lines of :func:`tables_1980` under the rules. ``names``: the table of each line."""
    t, name = lines.value, np.array(names)
    few = np.isin(name, ("A1", "A2")) & (t <= FEW)
    shown = LevelLines(np.where(few, 0, t), np.where(few, FEW, t), np.where(few, 0, t))
    hidden = np.zeros(t.shape, dtype=bool)
    for adults, everybody in (("A3", "A1"), ("A4", "A2")):
        groups = _small(t[:, name == everybody])
        hidden[:, name == adults] = groups.any(axis=1, keepdims=True)
    others = ~np.isin(name, ("A0", "A1", "A2", "A3", "A4"))
    hidden[:, others] = _small(t[:, [0]])
    return withheld(shown, hidden)


def _small(t: NDArray[np.int64]) -> NDArray[np.bool_]:
    out: NDArray[np.bool_] = (t > 0) & (t <= SMALL)
    return out


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
        unit = DistinctLines.from_bounds(lines.matrix, count, count, UNBOUNDED)
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
