"""``release/report.html`` of the Detailed DHC: what is guaranteed, what was measured, and which
tables came from it.

A function of published values alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from das.report.facts import Facts
from das.report.group_figures import ABSENT, ListedLevel, outcomes
from das.report.public import PublicFrame
from das.report.template import environment


def groups_html(
    facts: Facts, frame: PublicFrame, levels: Sequence[ListedLevel], rows: dict[str, int]
) -> str:
    """``rows`` are how many each table has. The same arguments give the same page."""
    tables = list(dict.fromkeys(lv.table for lv in levels))
    return (
        environment()
        .get_template("groups.html")
        .render(
            confidential=False,
            private=facts["private"],
            facts=facts,
            frame=frame,
            levels=[],
            listed=levels,
            rows=rows,
            privacy_page=True,
            asked=list(dict.fromkeys(q for lv in levels for q in lv.margins)),
            tables={t: [lv for lv in levels if lv.table == t] for t in tables},
            figures=[Markup(outcomes([lv for lv in levels if lv.table == t], t)) for t in tables],
            all_groups=sum(lv.measured for lv in levels),
            all_published=sum(lv.published for lv in levels),
            absent=ABSENT,
        )
    )
