"""``release/report.html`` of population groups, from what a release is known by. Nothing here can
see the truth.
"""

from __future__ import annotations

from das.accounting.document import OwnStatement
from das.detailed.planning import LevelOutlook, outlooks
from das.files import atomic
from das.model.adaptive import FIRST, ONLY
from das.release.group_tables import PublishedGroups
from das.release.groups import OpenedGroups
from das.report.facts import decimal, group_facts
from das.report.group_figures import ABSENT, TOTAL, ListedLevel
from das.report.group_page import groups_html

NAME = "report.html"
#: What the page calls the answers of the last stage.
CELL = "a cell"


def write(opened: OpenedGroups, privacy: OwnStatement, published: PublishedGroups) -> None:
    """Write the page beside the tables; ``published`` is what these have."""
    p = opened.spec.parameters
    rows = [_listed(opened, o, published) for run in p.runs for o in outlooks(p, run)]
    what = (
        f"{p.product.name} by population group ({len(p.iterations.tabulated):,} iterations,"
        f" {len(opened.regions.block):,} blocks)"
    )
    page = groups_html(
        group_facts(opened.spec.run.name, what, privacy), rows, published.rows, privacy.says
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
