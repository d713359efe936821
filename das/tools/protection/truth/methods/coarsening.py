r"""Coarsening: fewer and coarser tables, each of them exact.

Three ways, together or alone:

* ``categories``: other tables instead of those of the set: products of attributes and groupings,
  such as ``"cenrace7 * hispanic"``. What is in two of them is not crossed.
* ``level``: tables down to this level only. Units below show their total alone.
* ``threshold``: units of fewer persons show their total alone.

What is shown is exact, what is not shown is unknown. Nothing is random.

*What is proved.* Nothing. Exact coarsened tables compose badly: the tables of the next product are
more equations about the same records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from das.errors import SpecError
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.tabulation import Tabulation
from das.tables import table
from das.tools.protection.published import LineMatrix, ProtectedTables, TableSet, withheld
from das.tools.protection.truth.method import ProtectionMethod, StudyRecords, exact_lines


@dataclass(frozen=True)
class Coarsening(ProtectionMethod):
    """At least one of ``categories``, ``level`` and ``threshold``, as the module says."""

    categories: tuple[str, ...] = ()
    level: str | None = None
    threshold: int = 0

    name: ClassVar[str] = "coarsening"
    random: ClassVar[bool] = False

    def __post_init__(self) -> None:
        where = "method coarsening"
        if not self.categories and self.level is None and not self.threshold:
            raise SpecError(
                "nothing is made coarser",
                where=where,
                remedy="give categories, a level or a threshold",
            )
        if isinstance(self.categories, str):
            raise SpecError("categories is a text: it must be a list of texts", where=where)
        if not isinstance(self.threshold, int) or self.threshold < 0:
            raise SpecError(
                f"threshold is {self.threshold!r}: it must be an integer from 0 on", where=where
            )

    @property
    def label(self) -> str:
        parts = []
        if self.categories:
            parts.append("tables of " + ", ".join(self.categories))
        if self.level is not None:
            parts.append(f"tables down to {self.level}")
        if self.threshold:
            parts.append(f"totals alone under {self.threshold} persons")
        return "; ".join(parts)

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        spine, shown = records.spine, self.table_set(tables, records.spine)
        levels = exact_lines(records.histogram(), spine, shown)
        for level, lines in levels.items():
            units = np.zeros(spine.units(level), dtype=bool)
            if self.level is not None and spine.index(level) > spine.index(self.level):
                units[:] = True
            if units.all() or self.threshold:
                total = total_line(shown, level)
                units |= lines.value[:, total] < self.threshold
                hidden = np.repeat(units[:, None], lines.value.shape[1], axis=1)
                hidden[:, total] = False
                levels[level] = withheld(lines, hidden)
        return ProtectedTables(spine, shown, levels)

    def table_set(self, tables: TableSet, spine: Spine) -> TableSet:
        """The tables that are shown: those of the categories, and at ``level`` those of the lowest
        level, too."""
        out = dict(tables.tables)
        if self.categories:
            made = tuple(table(t, tables.schema) for t in coarser(self.categories, tables.schema))
            out = dict.fromkeys(out, made)
        if self.level is not None and self.level not in out:
            lowest = max(out, key=spine.index)
            if spine.index(self.level) > spine.index(lowest):
                raise SpecError(
                    f"the tables end at {lowest} already, above {self.level}",
                    where="method coarsening",
                    remedy=f"name {lowest} or a level above it",
                )
            out[self.level] = out[lowest]
        if not self.categories and out.keys() == tables.tables.keys():
            return tables
        ordered = {level: out[level] for level in spine.levels if level in out}
        return TableSet(f"{tables.name}, coarser", tables.schema, ordered)


def coarser(categories: tuple[str, ...], schema: Schema) -> tuple[Tabulation, ...]:
    """The table of each query, without its total."""
    for query in categories:
        schema.query(query)  # refuses what it does not know
    return tuple(
        Tabulation(f"C{i}", "", query, total=False) for i, query in enumerate(categories, 1)
    )


def total_line(tables: TableSet, level: str) -> int:
    """The line of a level that counts every record. Raises :class:`SpecError` where none does."""
    lines: LineMatrix = tables.lines(level)
    every = np.flatnonzero(lines.matrix.sum(axis=1) == tables.schema.cells)
    if not len(every):
        raise SpecError(
            f"no line of level {level!r} is a total, and some units show only that",
            where=f"table set {tables.name!r}",
            remedy='add a table with query = "total"',
        )
    return int(every[0])
