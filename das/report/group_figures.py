"""The figure of a release of population groups."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np

from das.report.figures import RULE, STYLE, figure, finish, log_ticks, svg, x_label, y_words
from das.report.group_page import ABSENT, ListedLevel

#: By how groups come out: left out, with a total only, and with a table of each size.
_LOOKS = (
    ("#222222", "x"),
    ("#777777", "o"),
    ("#0072B2", "s"),
    ("#009E73", "^"),
    ("#D55E00", "D"),
    ("#CC79A7", "v"),
)


@mpl.rc_context(STYLE)
def outcomes(levels: Sequence[ListedLevel], table: str) -> str:
    """A line for each level: how many groups come out in which way, on a log scale."""
    ways = list(dict.fromkeys(way for lv in levels for way in lv.found))
    most = max([1, *(n for lv in levels for n in lv.found.values())])
    fig, ax = figure(6.4, 1.0 + 0.24 * len(levels))
    for y in range(len(levels)):
        ax.axhline(y, color=RULE, linewidth=0.6, zorder=1)
    for number, way in enumerate(ways):
        colour, mark = _LOOKS[(number + (ABSENT not in ways)) % len(_LOOKS)]
        at = [(lv.found[way], y) for y, lv in enumerate(levels) if lv.found.get(way)]
        if at:
            (points,) = ax.plot(*zip(*at, strict=True), mark, color=colour, markersize=6, label=way)
            points.set(clip_on=False, zorder=3)
    ax.set_xscale("log")
    ax.set_xlim(0.7, 10.0 ** np.ceil(np.log10(most * 1.2)))
    log_ticks(ax.xaxis)
    y_words(ax, [lv.level for lv in levels])
    x_label(ax, "groups (log scale)")
    finish(fig, ax, f"How groups came out: table {table}")
    return svg(
        fig, f"groups-{table}", f"Numbers of groups by level and by the size of their table {table}"
    )
