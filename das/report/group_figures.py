"""The figure of a release of the Detailed DHC."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from das.report.chart import Chart
from das.report.ink import RULE, Look

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
