"""``release/intervals/index.html``: the look-up of a release, with an interval for every published
count.

A function of published values alone, so it is as public as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from das.model.not_private import Private
from das.report import lookup
from das.report.answers import Shown
from das.report.template import environment


def interval_html(
    shown: Shown,
    name: str,
    coverage: float,
    replicates: int,
    enough: int,
    says: Sequence[str],
    *,
    private: Private,
) -> str:
    """The page. ``shown`` has intervals at ``coverage`` from ``replicates``; ``enough`` would do
    for everything that is computed from them. The page prints ``says`` with the intervals.

    The same arguments give the same page: it holds no time and no name of a machine.
    """
    return (
        environment()
        .get_template("intervals.html")
        .render(
            confidential=False,
            to_release="../",
            private=private,
            name=name,
            percent=f"{100 * coverage:g}",
            replicates=replicates,
            enough=enough,
            says=says,
            areas=[a.kind for a in shown.areas],
            lookup=Markup(lookup.data(shown, coverage=coverage)),
            left_out=[lv for lv in shown.spine.levels if lv not in shown.whole],
        )
    )
