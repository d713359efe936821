"""The page of some areas of a release: which counts it shows, in which tables, and whether they are
a plan.
"""

from __future__ import annotations

from itertools import groupby
from math import isfinite

import numpy as np

from das.model.areas import Areas
from das.release.area_counts import AreaColumn, AreaCounts
from das.release.area_statistics import VOTING_AGE
from das.release.replicate_source import ReleaseSource
from das.report.area_page import AreaCell, AreaSection, ComputedLine, PlanSummary, area_html


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
    return area_html(
        source.name,
        found.areas.kind,
        len(found.areas),
        found.coverage,
        sections,
        _plan(source, found),
        _computed(found),
        private=source.private,
        replicates=found.replicates,
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
