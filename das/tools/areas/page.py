"""The page of some areas of a release: counts with the estimates from the measurements, and a plan's
ideal population and deviations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import isfinite

import numpy as np

from das.model.areas import Areas
from das.release.area_counts import VOTING_AGE, AreaColumn, AreaCounts
from das.release.replicate_source import ReleaseSource
from das.report.template import render

#: An interval is called wide where half its width is more than this of the estimate.
WIDE = 0.1


@dataclass(frozen=True)
class AreaCell:
    """One count of one area: the interval of the ``published`` count from replicates, ``lower`` to
    ``upper``; the unbiased ``estimate`` and its own, ``low`` to ``high``. ``None`` where there is
    none."""

    published: int
    estimate: int | None = None
    low: int | None = None
    high: int | None = None
    lower: int | None = None
    upper: int | None = None

    @property
    def exact(self) -> bool:
        return self.low is not None and self.low == self.high

    @property
    def outside(self) -> bool:
        return (
            self.low is not None
            and self.high is not None
            and not self.low <= self.published <= self.high
        )

    @property
    def wide(self) -> bool:
        if self.low is None or self.high is None or self.estimate is None:
            return False
        return self.high - self.low > 2 * WIDE * abs(self.estimate)


@dataclass(frozen=True)
class AreaSection:
    """One table of the page: ``rows`` are areas by their titles, with a cell for each of
    ``columns``. ``shares``: each cell is part of the first of its row, whose share is shown."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[AreaCell, ...]], ...]
    shares: bool = False

    @property
    def wide(self) -> int:
        return sum(c.wide for _, cells in self.rows for c in cells)

    @property
    def intervals(self) -> int:
        return sum(c.low is not None for _, cells in self.rows for c in cells)


@dataclass(frozen=True)
class ComputedLine:
    """What is computed of one area, or of all together: the published value, and the ends of its
    interval where there is one.
    """

    area: str
    what: str
    published: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True)
class PlanSummary:
    """Districts by their titles with their populations. ``exact``: the population of all of them
    together is not an estimate.
    """

    districts: tuple[tuple[str, AreaCell], ...]
    exact: bool

    @property
    def ideal(self) -> float:
        return sum(c.published for _, c in self.districts) / len(self.districts)

    @property
    def least(self) -> tuple[str, AreaCell]:
        return min(self.districts, key=lambda d: d[1].published)

    @property
    def most(self) -> tuple[str, AreaCell]:
        return max(self.districts, key=lambda d: d[1].published)

    @property
    def range(self) -> int:
        return self.most[1].published - self.least[1].published


def page(source: ReleaseSource, found: AreaCounts) -> str:
    """The page as HTML."""
    sections = []
    for (records, table), group in groupby(
        found.columns, key=lambda c: (c.statistic.universe.records, _table(c))
    ):
        columns = list(group)
        part = columns[0].statistic.cells
        whole = all((c.statistic.cells <= part).all() for c in columns) and len(columns) > 1
        title = f"{records.capitalize()}{f', {table}' if table else ''}"
        labels = tuple(c.statistic.label for c in columns)
        rows = tuple(
            (found.areas.title(i), tuple(_cell(c, i) for c in columns))
            for i in range(len(found.areas))
        )
        sections.append(AreaSection(title, labels, rows, shares=whole))
    return render(
        "areas.html",
        name=source.name,
        kind=found.areas.kind,
        areas=len(found.areas),
        coverage=100 * found.coverage,
        sections=sections,
        plan=_plan(source, found),
        computed=_computed(found),
        private=source.private,
        replicates=found.replicates,
        wide=100 * WIDE,
    )


def _computed(found: AreaCounts) -> list[ComputedLine]:
    fields = {c.computed.field for c in found.computed}
    return [
        ComputedLine(
            f"{r.name} ({r.area})" if r.name and r.area else r.name or r.area,
            r.label,
            r.value if isfinite(r.value) else None,
            r.lower,
            r.upper,
        )
        for r in found.rows()
        if r.field in fields
    ]


def _table(column: AreaColumn) -> str:
    """What the page calls the table of a statistic."""
    field = column.statistic.field
    if field in VOTING_AGE:
        return "18 years and over, by Hispanic origin and, of those not Hispanic, race (P4)"
    return "" if field == "total" else field.partition("[")[0] if "[" in field else field[:-4]


def _plan(source: ReleaseSource, found: AreaCounts) -> PlanSummary | None:
    """Where areas of persons do not overlap and have in them every unit in which somebody is
    published.
    """
    persons = source.universes[0]
    total = next(
        (
            c
            for c in found.columns
            if c.statistic.universe.name == persons.name and c.statistic.cells.all()
        ),
        None,
    )
    if (
        total is None
        or len(found.areas) < 2
        or _overlap(found.areas)
        or int(total.value.sum()) != found.published[persons.name]
    ):
        return None
    districts = tuple((found.areas.title(i), _cell(total, i)) for i in range(len(found.areas)))
    return PlanSummary(districts, persons.exact.total is not None)


def _overlap(areas: Areas) -> bool:
    return len(np.unique(areas.unit)) < len(areas.unit)


def _cell(c: AreaColumn, i: int) -> AreaCell:
    told = c.replicated.row(i) if c.replicated else {}
    ends = {end: int(told[end]) for end in ("lower", "upper") if end in told}
    if not c.known[i]:
        return AreaCell(int(c.value[i]), **ends)
    about = round(float(c.estimate[i])), int(c.low[i]), int(c.high[i])
    return AreaCell(int(c.value[i]), *about, **ends)
