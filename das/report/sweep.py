"""The page of a sweep: error against budget, noisy measurements and their theory beside published
counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from das.accounting.zcdp import tight
from das.model.budget import Plan
from das.model.error_rows import SummaryRow
from das.model.labels import level_words
from das.model.mechanism import RHO
from das.model.post_processing import METHODS
from das.report import figures
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
    return tuple(q for q in QUERIES if q in present)[: len(figures.SERIES)] or ("total",)


@mpl.rc_context(figures.STYLE)
def _panel(
    rows: Sequence[SummaryRow], plan: Plan, epsilon: Mapping[Fraction, float], name: str
) -> str:
    level = rows[0].level
    fig, ax = figures.figure(4.6, 3.9)
    for query, (colour, marker, _) in zip(drawn(rows), figures.SERIES, strict=False):
        _theory(
            ax, [r for r in rows if r.query == query and r.source == "nmf"], colour, marker, query
        )
        for method in dict.fromkeys(r.method for r in rows):
            here = [
                r
                for r in rows
                if (r.query, r.method, r.source) == (query, method, "postprocessed") and r.mae > 0
            ]
            _line(ax, here, colour, marker, f"{query}, {method}", LINES[method])
    if ax.has_data():
        ax.axvline(float(plan.cost), color=figures.INK, linewidth=0.8, linestyle="-.")
        for axis, scale in ((ax.xaxis, ax.set_xscale), (ax.yaxis, ax.set_yscale)):
            scale("log")
            figures.log_ticks(axis)
        _privacy(ax, epsilon)
    ax.set_xlabel(f"{plan.mechanism.currency} (dash-dotted: this configuration)")
    ax.set_ylabel("mean absolute error")
    figures.finish(fig, ax, level_words(level), columns=2, legend=ax.has_data())
    return figures.svg(fig, name, f"Mean absolute error against {plan.mechanism.currency}: {level}")


def _theory(ax: Axes, noisy: Sequence[SummaryRow], colour: str, marker: str, query: str) -> None:
    """Open marks: measured; dotted: what the noise alone must give."""
    at = sorted((float(r.budget), r.mae) for r in noisy if r.mae > 0)
    if at:
        ax.plot(
            *zip(*at, strict=True),
            marker,
            color=colour,
            markerfacecolor="white",
            label=f"{query}, noisy",
            markersize=5,
        )
    known = sorted({(float(r.budget), r.expected_mae) for r in noisy if r.expected_mae})
    if known:
        ax.plot(*zip(*known, strict=True), ":", color=colour, linewidth=1.1)


def _line(
    ax: Axes, rows: Sequence[SummaryRow], colour: str, marker: str, label: str, line: str
) -> None:
    if not rows:
        return
    rows = sorted(rows, key=lambda r: r.budget)
    mae = [r.mae for r in rows]
    low = [r.mae - max(r.mae_low, r.mae / 10) if r.mae_low is not None else 0.0 for r in rows]
    high = [r.mae_high - r.mae if r.mae_high is not None else 0.0 for r in rows]
    ax.errorbar(
        [float(r.budget) for r in rows],
        mae,
        yerr=[[max(0.0, x) for x in low], high],
        color=colour,
        linestyle=line,
        marker=marker,
        label=label,
        linewidth=1.3,
        markersize=5,
        capsize=2,
    )


def _privacy(ax: Axes, epsilon: Mapping[Fraction, float]) -> None:
    """A second axis, above: epsilon at delta = 1e-10 of the budgets that were run."""
    if not epsilon:
        return
    top = ax.secondary_xaxis("top")
    ticks = [float(b) for b in epsilon]
    top.xaxis.set_major_locator(FixedLocator(ticks))
    top.xaxis.set_minor_locator(NullLocator())
    top.set_xticks(ticks, [f"{e:.3g}" for e in epsilon.values()])
    top.set_xlabel("epsilon at delta = 1e-10")
