"""``release/report.html`` of a release of population groups: what is guaranteed, what was measured,
and which tables came of it.

A function of published values alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from das.report.facts import Facts
from das.report.template import environment

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


def groups_html(
    facts: Facts, levels: Sequence[ListedLevel], rows: dict[str, int], says: Sequence[str]
) -> str:
    """``rows`` are how many each table has; ``says`` what a reader of the privacy statement must
    know. The same arguments give the same page."""
    from das.report.group_figures import outcomes  # it imports this module

    tables = list(dict.fromkeys(lv.table for lv in levels))
    return (
        environment()
        .get_template("groups.html")
        .render(
            confidential=False,
            private=facts["private"],
            facts=facts,
            levels=[],
            listed=levels,
            rows=rows,
            says=says,
            asked=list(dict.fromkeys(q for lv in levels for q in lv.margins)),
            tables={t: [lv for lv in levels if lv.table == t] for t in tables},
            figures=[Markup(outcomes([lv for lv in levels if lv.table == t], t)) for t in tables],
            all_groups=sum(lv.measured for lv in levels),
            all_published=sum(lv.published for lv in levels),
            absent=ABSENT,
        )
    )
