"""``release/report.html`` of the Detailed DHC, from the public files of a release: what is
guaranteed, what was measured, and which tables came from it. Nothing here can see the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from das.accounting.document import OwnStatement
from das.files import atomic
from das.files.release import plain
from das.publications.detailed.model.tables import FIRST, ONLY
from das.publications.detailed.planning.margins import LevelOutlook, outlooks
from das.publications.detailed.release import OpenedGroups
from das.publications.detailed.tables import PublishedGroups
from das.report.chart import Chart
from das.report.facts import decimal, group_facts
from das.report.panel import RULE, Look
from das.report.template import PublicFrame, public_page
from das.version import __version__

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
        chart.rule(y, colour=RULE, width=0.6, z=1)
    for number, way in enumerate(unit_classes):
        colour, mark = _LOOKS[(number + (ABSENT not in unit_classes)) % len(_LOOKS)]
        at = [(lv.found[way], y) for y, lv in enumerate(levels) if lv.found.get(way)]
        if at:
            xs, ys = zip(*at, strict=True)
            chart.plot(xs, ys, Look(colour, mark=mark), way, clip=False)
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
    frame = PublicFrame(name, title, name, __version__, (), plain.listed(opened.folder, FILES))
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
    iterations = len(opened.spec.parameters.iterations.of(plan.at))
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
