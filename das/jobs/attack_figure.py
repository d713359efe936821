"""Attacks on runs as a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from das.report.chart import Chart
from das.report.ink import INCH, Look, element, moved
from das.risk.score import PARTS, Report

#: Of a panel, in inches.
_WIDTH, _HEIGHT = 3.9, 3.6
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKS = ("o", "s", "^", "D", "v", "P")


def attack_figure(reports: Sequence[Report]) -> str:
    """Agreement against the budget, and precision against confidence, as an ``<svg>`` element."""
    reports = sorted(reports, key=lambda r: r.cost)
    kinds: dict[str, Callable[[Report], float]] = {
        "attack": lambda r: r.attack.agreement,
        "tables at face value": lambda r: r.face_value.agreement,
        "baseline, without the block's traits": lambda r: r.baseline.agreement,
        "what the guarantee allows from that baseline": lambda r: r.allowed,
    }
    found: dict[str, Callable[[Report], float]] = {
        "attack": lambda r: r.attack.uniques_found,
        "baseline": lambda r: r.baseline.uniques_found,
    }
    shown = [reports[0], *reports[1:-1][-4:], reports[-1]] if len(reports) > 6 else reports
    sure = {f"{r.currency} = {r.cost:.4g}": list(r.attack.precision) for r in shown}
    cost, currency = [r.cost for r in reports], reports[0].currency
    charts = [
        _curves(
            title, currency, label, cost, {n: [of(r) for r in reports] for n, of in kind.items()}
        )
        for title, label, kind in (
            ("Records recovered", "fraction of persons", kinds),
            ("Unique in their block", "fraction recovered", found),
        )
    ]
    part = [100 * p for p in PARTS]
    charts.append(
        _curves("The surest guesses", "surest % of the guesses", "fraction right", part, sure)
    )
    drawn = [
        moved(chart.drawn(f"attack{i}"), INCH * _WIDTH * i, 0) for i, chart in enumerate(charts)
    ]
    width = INCH * _WIDTH * len(charts)
    return element("attack", "Attacks on runs", width, INCH * _HEIGHT, "\n".join(drawn))


def _curves(
    title: str, x: str, y: str, at: Sequence[float], curves: Mapping[str, Sequence[float]]
) -> Chart:
    """A panel of curves over a logarithmic axis."""
    chart = Chart(_WIDTH, _HEIGHT)
    chart.x.label, chart.y.label, chart.x.log = x, y, True
    for (name, values), color, mark in zip(curves.items(), _COLORS, _MARKS, strict=False):
        chart.plot(at, values, Look(color, "-", mark), name)
    chart.finish(title, 1)
    return chart
