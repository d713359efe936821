"""What is published of the Detailed DHC, as the programs of 2020 publish it: sums of the noisy
cells, without small totals.

The total of a group with a table is the sum of its noisy cells; the first stage is not used. Below
the states, a group with a total alone is published only if its total is large enough. Noise on a
group of nobody exceeds that threshold with probability ``chance``. The measurements have
everything, including groups left out here; :mod:`das.publications.detailed.estimation` makes better totals from them.

Source: Haney et al. (2024), *SafeTab-P*, section 5.3."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from das.accounting.document import OwnStatement
from das.files import atomic
from das.files.release import own_bytes
from das.model.names import Codes, encoded
from das.publications.detailed.files import output
from das.publications.detailed.files.output import GroupRows, sized
from das.publications.detailed.model.records import UNMEASURED, GroupMeasurement
from das.publications.detailed.model.tables import FIRST, ONLY, AdaptiveTable, LevelPlan, Parameters
from das.publications.detailed.planning.margins import LevelOutlook, outlooks, suppression
from das.publications.detailed.release import OpenedGroups
from das.report.chart import Chart
from das.report.facts import decimal, group_facts
from das.report.panel import RULE, MarkStyle
from das.report.template import PublicFrame, public_page
from das.version import __version__

Ints = NDArray[np.int64]
#: The folder of a release that has its tables, and the name of that of totals.
TABLES, TOTALS_TABLE = "tables", "t1"


@dataclass(frozen=True, eq=False)
class PublishedTotals:
    """The ``count`` of each of some groups, ``(groups,)``."""

    group: Ints
    count: Ints


@dataclass(frozen=True, eq=False)
class PublishedCells:
    """For groups with tables of one ``size``: the ``count`` of each of the ``cells``,
    ``(groups, cells)``."""

    size: int
    cells: tuple[tuple[str, ...], ...]
    group: Ints
    count: Ints


def totals(m: GroupMeasurement, plan: LevelPlan, parameters: Parameters) -> PublishedTotals:
    """The total of every group that is published."""
    group = np.flatnonzero(m.size != UNMEASURED)
    values = m.values if parameters.negative else np.maximum(m.values, 0)
    count = np.add.reduceat(values, m.indptr[group]) if len(group) else values[:0]
    if (most := suppression(plan, parameters.chance)) is not None:
        kept = (m.size[group] > 0) | (count > most)
        group, count = group[kept], count[kept]
    return PublishedTotals(group, count)


def cells(m: GroupMeasurement, plan: LevelPlan, parameters: Parameters) -> Iterator[PublishedCells]:
    """The cells of every group with a table, one size after another."""
    table = plan.table
    for size in range(1 if plan.first else 0, len(table.sizes)):
        group, values = m.of_size(size, table.answers[size])
        if len(group):
            labels, member = rows_of(table, size)
            values = values if parameters.negative else np.maximum(values, 0)
            yield PublishedCells(size, labels, group, values @ member.T)


def rows_of(table: AdaptiveTable, size: int) -> tuple[tuple[tuple[str, ...], ...], Ints]:
    """The published cells of a table of a size, and which answers each cell sums,
    ``(cells, answers)``.

    The cells are the table's answers, and every sum of ``table.sums`` that is a sum of answers."""
    answers, of = table.answers[size], table.sizes[size]
    labels, member = list(table.cells[size]), [*np.eye(answers, dtype=np.int64)]
    for label, leaves in table.sums:
        inside = np.bincount(of[leaves], minlength=answers)
        whole = np.bincount(of, minlength=answers)
        if label not in labels and ((inside == 0) | (inside == whole)).all():
            labels.append(label)
            member.append((inside > 0).astype(np.int64))
    return tuple(labels), np.stack(member)


@dataclass(eq=False)
class FoundGroups:
    """For a level: how many groups have a table of each size, ``(sizes,)``, and how many are
    published."""

    sizes: Ints
    published: int = 0


@dataclass(frozen=True, eq=False)
class PublishedGroups:
    """How many ``rows`` each table has, and by level what was ``found``."""

    rows: dict[str, int]
    found: dict[str, FoundGroups]


def rows(opened: OpenedGroups, groups: dict[str, FoundGroups]) -> Iterator[GroupRows]:
    """All that is published, level after level, of any number of states no more at a time than one
    part of the measurements. What was found is counted on the way."""
    parameters = opened.spec.parameters
    for plan in opened.spec.plans:
        codes = encoded(opened.codes[plan.level])
        of = groups.setdefault(
            plan.level, FoundGroups(np.zeros(len(plan.table.sizes), dtype=np.int64))
        )
        for m in opened.measured(plan):
            there = m.size[m.size != UNMEASURED]
            of.sizes += np.bincount(there, minlength=len(of.sizes))
            if plan.first:
                kept = totals(m, plan, parameters)
                of.published += len(kept.group)
                yield _rows(TOTALS_TABLE, plan, m, codes, kept.group, kept.count, {})
            else:
                of.published += len(there)
            for part in cells(m, plan, parameters):
                name = plan.table.name if plan.first else sized(plan.table, part.size)
                group = np.repeat(part.group, len(part.cells))
                labels = np.array(part.cells, dtype="S")
                words = {
                    c: np.tile(labels[:, i], len(part.group))
                    for i, c in enumerate(plan.table.columns)
                }
                yield _rows(name, plan, m, codes, group, part.count.ravel(), words)


def _rows(
    table: str,
    plan: LevelPlan,
    m: GroupMeasurement,
    codes: Codes,
    group: Ints,
    count: Ints,
    cells: dict[str, Codes],
) -> GroupRows:
    return GroupRows(
        table,
        plan.at.region,
        m.regions[group // m.iterations],
        codes[group % m.iterations],
        count,
        cells,
    )


def publish(opened: OpenedGroups) -> PublishedGroups:
    """Write the tables of a release."""
    p, found = opened.spec.parameters, dict[str, FoundGroups]()
    written = output.write(
        opened.folder / TABLES,
        p.product,
        p.runs,
        rows(opened, found),
        private=opened.spec.run.private,
    )
    return PublishedGroups(written, found)


# ``release/report.html`` of the Detailed DHC, from the public files of a release: what is
# guaranteed, what was measured, and which tables came from it. Nothing here can see the truth.

#: How groups come out that have no table.
ABSENT, TOTAL = "left out", "total only"


@dataclass(frozen=True)
class ListedLevel:
    """A level as the page lists it, of the table ``table``. ``cost`` is its budget as text;
    ``margins`` are those at 95 % of one answer, by what is asked; ``above``: what a total alone has
    to exceed to be published, where anything has; ``found`` are numbers of groups, by how they come
    out."""

    level: str
    table: str
    regions: int
    iterations: int
    cost: str
    stability: int
    margins: dict[str, int]
    above: int | None
    found: dict[str, int]

    @property
    def measured(self) -> int:
        return sum(self.found.values())

    @property
    def published(self) -> int:
        return self.measured - self.found.get(ABSENT, 0)


#: By how groups come out: left out, with a total only, and with a table of each size.
_LOOKS = (
    ("#222222", "x"),
    ("#777777", "o"),
    ("#0072B2", "s"),
    ("#009E73", "^"),
    ("#D55E00", "D"),
    ("#CC79A7", "v"),
)


def outcomes(levels: Sequence[ListedLevel], table: str) -> str:
    """A line for each level: how many groups come out in which way, on a log scale."""
    unit_classes = list(dict.fromkeys(way for lv in levels for way in lv.found))
    most = max([1, *(n for lv in levels for n in lv.found.values())])
    chart = Chart(6.4, 1.0 + 0.24 * len(levels))
    chart.x.log, chart.x.low = True, 0.7
    chart.x.high = 10.0 ** math.ceil(math.log10(most * 1.2))
    for y in range(len(levels)):
        chart.rule(y, color=RULE, width=0.6, z=1)
    for number, way in enumerate(unit_classes):
        color, mark = _LOOKS[(number + (ABSENT not in unit_classes)) % len(_LOOKS)]
        at = [(lv.found[way], y) for y, lv in enumerate(levels) if lv.found.get(way)]
        if at:
            xs, ys = zip(*at, strict=True)
            chart.plot(xs, ys, MarkStyle(color, mark=mark), way, clip=False)
    chart.rows([lv.level for lv in levels])
    chart.ends_at("groups (log scale)")
    chart.finish(f"How groups came out: table {table}")
    return chart.svg(
        f"groups-{table}", f"Numbers of groups by level and by the size of their table {table}"
    )


NAME = "report.html"
#: What the page calls the answers of the last stage.
CELL = "a cell"
SERIES = "Detailed DHC"
#: What the page leads to.
FILES = {
    "tables": "the published tables",
    "nmf": "every noisy measurement, of groups that are left out too",
    "parameters": "code tables, budgets and thresholds, as they were given",
    "regions.parquet": "the blocks, and the regions that each is in",
    "ledger.jsonl": "every draw of noise: das account verify computes its cost again",
}


def write(opened: OpenedGroups, privacy: OwnStatement, published: PublishedGroups) -> None:
    """Write the page into the folder of the tables; ``published`` is what these contain."""
    p = opened.spec.parameters
    levels = [_listed(opened, o, published) for run in p.runs for o in outlooks(p, run)]
    what = (
        f"{p.product.name} by population group ({len(p.iterations.tabulated):,} iterations,"
        f" {len(opened.regions.block):,} blocks)"
    )
    name = opened.spec.run.name
    title = f"{p.product.name} of race and ethnic groups ({SERIES})"
    frame = PublicFrame(name, title, name, __version__, (), own_bytes.listed(opened.folder, FILES))
    tables = {
        t: [lv for lv in levels if lv.table == t] for t in dict.fromkeys(lv.table for lv in levels)
    }
    page = public_page(
        "groups.html",
        group_facts(name, what, privacy),
        frame,
        levels=[],
        listed=levels,
        rows=published.rows,
        privacy_page=True,
        asked=list(dict.fromkeys(q for lv in levels for q in lv.margins)),
        tables=tables,
        figures=[Markup(outcomes(of, table)) for table, of in tables.items()],
        all_groups=sum(lv.measured for lv in levels),
        all_published=sum(lv.published for lv in levels),
        absent=ABSENT,
    )
    atomic.write_text(opened.folder / NAME, page)


def _listed(opened: OpenedGroups, outlook: LevelOutlook, published: PublishedGroups) -> ListedLevel:
    plan = outlook.plan
    words = {ONLY: TOTAL, FIRST: FIRST, plan.table.name: CELL}
    regions = len(opened.regions.ids[plan.at.region])
    iterations = len(opened.spec.parameters.iterations.measured_at(plan.at))
    return ListedLevel(
        plan.at.name,
        plan.table.name,
        regions,
        iterations,
        decimal(plan.cost),
        plan.stability,
        {words[q]: s.margin for q, s in outlook.stages.items()},
        outlook.suppression,
        _found(outlook, published),
    )


def _found(outlook: LevelOutlook, published: PublishedGroups) -> dict[str, int]:
    """How many groups came out in which way."""
    plan = outlook.plan
    found = published.found[plan.level]
    sizes = {
        (f"{cells} cells" if size else TOTAL): int(n)
        for size, (cells, n) in enumerate(zip(plan.table.answers, found.sizes, strict=True))
    }
    if not plan.first:
        return sizes
    left_out = int(found.sizes.sum()) - found.published
    return {ABSENT: left_out} | sizes | {TOTAL: sizes[TOTAL] - left_out}
