"""``release/report.html`` of the Detailed DHC, from the public files of a release: what is
guaranteed, what was measured, and which tables came from it. Nothing here can see the truth."""

from __future__ import annotations

from markupsafe import Markup

from das.accounting.document import OwnStatement
from das.detailed.planning import LevelOutlook, outlooks
from das.files import atomic
from das.files.release import listing
from das.model.adaptive import FIRST, ONLY
from das.release.group_tables import PublishedGroups
from das.release.groups import OpenedGroups
from das.report.facts import decimal, group_facts
from das.report.group_figures import ABSENT, TOTAL, ListedLevel, outcomes
from das.report.public import PublicFrame
from das.report.template import public_page
from das.version import __version__

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
    frame = PublicFrame(name, title, name, __version__, (), listing.listed(opened.folder, FILES))
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
