"""The page of a sweep: error against budget, noisy measurements beside published counts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from statistics import mean

import jinja2
import matplotlib as mpl
from markupsafe import Markup
from matplotlib.ticker import FuncFormatter, NullFormatter

from das.accounting.zcdp import tight
from das.model.budget import Mechanism, Plan
from das.model.result import SweepRow
from das.report import figures
from das.report.page import upward

#: Drawn where they were measured, one panel for each level.
QUERIES = ("total", "votingage", "hispanic * cenrace", "votingage * hispanic * race", "detailed")


def sweep_page(rows: Sequence[SweepRow], name: str, plan: Plan) -> str:
    """One self-contained page. ``plan`` is that of the configuration as it stands; its budget is marked."""
    currency = plan.mechanism.currency
    levels = list(dict.fromkeys(r.error.level for r in rows))
    panels = [Markup(_panel(rows, level, float(plan.cost), currency, i)) for i, level in enumerate(levels)]
    budgets = sorted({r.budget for r in rows})
    gaussian = plan.mechanism is Mechanism.DISCRETE_GAUSSIAN
    epsilon = {b: upward(tight(b, Fraction(1, 10**10))) for b in budgets} if gaussian else {}
    environment = jinja2.Environment(loader=jinja2.PackageLoader("das.report", ""), autoescape=True)
    return environment.get_template("sweep.html").render(
        name=name, currency=currency, panels=panels, budgets=budgets, epsilon=epsilon,
        repeats=1 + max(r.repeat for r in rows),
    )  # fmt: skip


@mpl.rc_context(figures.STYLE)
def _panel(rows: Sequence[SweepRow], level: str, marked: float, currency: str, number: int) -> str:
    here = [r for r in rows if r.error.level == level and r.error.bin == "all"]
    present = [q for q in QUERIES if any(r.error.query == q for r in here)] or ["total"]
    present = present[: len(figures.SERIES)]
    fig, ax = figures.figure(4.6, 3.4)
    for query, (colour, marker, _) in zip(present, figures.SERIES, strict=False):
        for source, line, face in (("nmf", ":", "white"), ("postprocessed", "-", colour)):
            at: dict[float, list[float]] = {}
            for r in here:
                if (r.error.query, r.error.source) == (query, source) and r.error.mae > 0:
                    at.setdefault(float(r.budget), []).append(r.error.mae)
            x = sorted(at)
            label = f"{query}, {'noisy' if source == 'nmf' else 'published'}"
            if x:
                ax.plot(x, [mean(at[b]) for b in x], line, color=colour, marker=marker, markerfacecolor=face,
                        label=label, linewidth=1.3, markersize=5)  # fmt: skip
    if ax.lines:
        for axis, scale in ((ax.xaxis, ax.set_xscale), (ax.yaxis, ax.set_yscale)):
            scale("log")
            axis.set_major_formatter(FuncFormatter(figures.format_plain))
            axis.set_minor_formatter(NullFormatter())
        ax.axvline(marked, color=figures.INK, linewidth=0.8, linestyle="-.")
    ax.set_xlabel(f"{currency} (dash-dotted: this configuration)")
    ax.set_ylabel("mean absolute error")
    figures.finish(fig, ax, level.replace("_", " "), columns=2)
    return figures.svg(fig, f"s{number}", f"Mean absolute error against {currency}: {level}")
