"""The page of a sweep: error against budget, noisy measurements and their theory beside published
counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from markupsafe import Markup

from das.accounting.zcdp import tight
from das.model.budget import Plan
from das.model.error_rows import SummaryRow
from das.model.labels import level_words
from das.model.mechanism import RHO
from das.model.post_processing import METHODS
from das.report.chart import Chart
from das.report.figures import SERIES
from das.report.ink import Look
from das.report.template import environment, upward

#: Drawn where they were measured, one panel for each level.
QUERIES = ("total", "votingage", "hispanic * cenrace", "votingage * hispanic * race", "detailed")
DELTA = Fraction(1, 10**10)
#: How each method is drawn.
LINES = dict(zip(METHODS, ("-", "--", "-.", ":"), strict=False))


def sweep_page(
    rows: Sequence[SummaryRow], name: str, plan: Plan, statement: Mapping[str, Any]
) -> str:
    """One self-contained page. ``plan`` is that of the configuration as it stands; its budget is
    marked. ``statement`` says what all runs together cost."""
    currency = plan.mechanism.currency
    every = [r for r in rows if r.bin == "all"]
    levels = list(dict.fromkeys(r.level for r in every))
    budgets = sorted({r.budget for r in rows})
    epsilon = {b: tight(b, DELTA) for b in budgets} if currency == RHO else {}
    panels = [
        Markup(_panel([r for r in every if r.level == level], plan, epsilon, f"s{i}"))
        for i, level in enumerate(levels)
    ]
    noisy = {(r.budget, r.method, r.level, r.query): r for r in every if r.source == "nmf"}
    published = [
        (r, noisy.get((r.budget, r.method, r.level, r.query)))
        for r in every
        if r.source == "postprocessed"
    ]
    return (
        environment()
        .get_template("sweep.html")
        .render(
            name=name,
            private=statement["private"],
            currency=currency,
            panels=panels,
            epsilon={b: upward(e) for b, e in epsilon.items()},
            budgets=budgets,
            repeats=max(r.repeats for r in rows),
            statement=statement,
            rows=[(r, n) for r, n in published if r.query in drawn(every)],
            together=upward(statement["epsilon"]["zcdp-tight"]) if currency == RHO else None,
        )
    )


def drawn(rows: Sequence[SummaryRow]) -> tuple[str, ...]:
    """The queries of the panels: at most as many as there are colours."""
    present = {r.query for r in rows}
    return tuple(q for q in QUERIES if q in present)[: len(SERIES)] or ("total",)


def _panel(
    rows: Sequence[SummaryRow], plan: Plan, epsilon: Mapping[Fraction, float], name: str
) -> str:
    level = rows[0].level
    chart = Chart(4.6, 3.9)
    chart.x.log = chart.y.log = True
    for query, (colour, marker, _) in zip(drawn(rows), SERIES, strict=False):
        noisy = [r for r in rows if r.query == query and r.source == "nmf"]
        _theory(chart, noisy, colour, marker, query)
        for method in dict.fromkeys(r.method for r in rows):
            here = [
                r
                for r in rows
                if (r.query, r.method, r.source) == (query, method, "postprocessed") and r.mae > 0
            ]
            _line(chart, here, Look(colour, LINES[method], marker, size=5), f"{query}, {method}")
    if chart.has_data():
        chart.rule(float(plan.cost), upright=True, dash="-.")
        chart.x.above = [(float(b), f"{e:.3g}") for b, e in epsilon.items()]
        chart.x.above_label = "epsilon at delta = 1e-10" if epsilon else ""
    chart.x.label = f"{plan.mechanism.currency} (dash-dotted: this configuration)"
    chart.y.label = "mean absolute error"
    chart.finish(level_words(level), 2)
    return chart.svg(name, f"Mean absolute error against {plan.mechanism.currency}: {level}")


def _theory(
    chart: Chart, noisy: Sequence[SummaryRow], colour: str, marker: str, query: str
) -> None:
    """Open marks: measured; dotted: what the noise alone must give."""
    at = sorted((float(r.budget), r.mae) for r in noisy if r.mae > 0)
    if at:
        xs, ys = zip(*at, strict=True)
        chart.plot(xs, ys, Look(colour, mark=marker, face="#fff", size=5), f"{query}, noisy")
    known = sorted({(float(r.budget), r.expected_mae) for r in noisy if r.expected_mae})
    if known:
        xs, ys = zip(*known, strict=True)
        chart.plot(xs, ys, Look(colour, ":", width=1.1))


def _line(chart: Chart, rows: Sequence[SummaryRow], look: Look, label: str) -> None:
    if not rows:
        return
    rows = sorted(rows, key=lambda r: r.budget)
    x, mae = [float(r.budget) for r in rows], [r.mae for r in rows]
    lows = [r.mae if r.mae_low is None else max(r.mae_low, r.mae / 10) for r in rows]
    low = [min(pair) for pair in zip(mae, lows, strict=True)]
    high = [r.mae if r.mae_high is None else r.mae_high for r in rows]
    chart.errors(x, mae, low, high, look, cap=2)
    chart.plot(x, mae, look, label)
