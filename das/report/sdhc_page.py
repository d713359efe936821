"""``release/report.html`` of a release of the S-DHC: average household sizes of the nation, with
their intervals, and what stands behind them. A function of published values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from das.report.chart import Chart
from das.report.facts import Facts
from das.report.ink import RULE, Look
from das.report.public import PublicFrame
from das.report.template import environment


@dataclass(frozen=True)
class ShownCell:
    """A cell of the nation: ``value`` with its interval, as numbers."""

    iteration: str
    label: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ShownNoise:
    """A query: how many answers of a region it has, and their noise."""

    level: str
    query: str
    answers: int
    cost: str
    sigma: float
    margin: int


def sdhc_html(
    facts: Facts,
    frame: PublicFrame,
    tables: Mapping[str, Sequence[ShownCell]],
    noise: Sequence[ShownNoise],
    thresholds: str,
    rows: Mapping[str, int],
) -> str:
    """``tables``: by title, cells of the nation. The same arguments give the same page."""
    figure = averages(next(iter(tables.values()))) if tables else None
    return (
        environment()
        .get_template("sdhc.html")
        .render(
            confidential=False,
            private=facts["private"],
            facts=facts,
            frame=frame,
            levels=[],
            tables=tables,
            noise=noise,
            thresholds=thresholds,
            rows=rows,
            figure=None if figure is None else Markup(figure),
            privacy_page=True,
        )
    )


def averages(cells: Sequence[ShownCell]) -> str:
    """Average sizes of households by iteration, with their intervals."""
    shown = [
        (c.iteration, c.value, c.low, c.high)
        for c in cells
        if c.value is not None and c.low is not None and c.high is not None
    ]
    chart = Chart(6.4, 1.0 + 0.26 * max(1, len(shown)))
    for y, (_, value, low, high) in enumerate(shown):
        chart.rule(y, colour=RULE, width=0.6, z=1)
        chart.plot((low, high), (y, y), Look("#0072B2", line="-"), "" if y else "90 % interval")
        chart.plot((value,), (y,), Look("#D55E00", mark="o"), "" if y else "estimate")
    chart.rows([name for name, *_ in shown])
    chart.ends_at("persons of a household")
    chart.finish("Average household size")
    return chart.svg("averages", "Average household size by race and origin, with 90 % intervals")
