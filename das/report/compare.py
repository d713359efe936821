"""``confidential/compare.html``: noisy measurements beside published counts, by query and by size
of the true count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.ticker import FuncFormatter

from das.model.error_rows import CLASSES, Comparison
from das.model.labels import level_words
from das.model.not_private import Private
from das.report import figures
from das.report.template import environment


def compare_page(
    rows: Sequence[Comparison], name: str, private: Private, titles: Mapping[str, str]
) -> str:
    """One self-contained page: for each level a panel of ratios and a panel of biases, then the
    table. ``titles`` are words for queries."""
    levels = list(dict.fromkeys(r.level for r in rows))
    panels = []
    for i, level in enumerate(levels):
        here = [r for r in rows if r.level == level and r.ratio is not None]
        if here:
            ratios, biases = (
                _ratios(here, level, f"r{i}", titles),
                _biases(here, level, f"b{i}", titles),
            )
            panels.append((level, Markup(ratios), Markup(biases)))
    table = [r for r in rows if r.bin == "all"]
    return (
        environment()
        .get_template("compare.html")
        .render(name=name, private=private, panels=panels, rows=table, titles=titles)
    )


@mpl.rc_context(figures.STYLE)
def _ratios(rows: Sequence[Comparison], level: str, name: str, titles: Mapping[str, str]) -> str:
    """MAE of the published counts over that of the measurements: a mark for each query, coarse to
    fine.
    """
    every = [r for r in rows if r.bin == "all"]
    words = [figures.short(titles.get(r.query, r.query)) for r in every]
    fig, ax = figures.figure(4.6, 0.95 + sum(0.14 + 0.13 * (1 + w.count("\n")) for w in words))
    values = [max(r.ratio or 0, 1e-4) for r in every]
    for y, (r, x) in enumerate(zip(every, values, strict=True)):
        if r.ratio:
            ax.plot([1, x], [y, y], color="#999999", linewidth=1.2, zorder=1)
        ax.plot([x], [y], "s", color=figures.PUBLISHED, markersize=6)
        if not r.ratio:
            ax.annotate(
                "no error", (x, y), (8, 0), textcoords="offset points", va="center", fontsize=8
            )
    ax.axvline(1, color=figures.INK, linewidth=0.8)
    ax.set_xscale("log")
    figures.log_ticks(ax.xaxis)
    figures.y_words(ax, words)
    figures.x_label(ax, "MAE published / MAE noisy (log scale)")
    figures.finish(fig, ax, level_words(level), legend=False)
    return figures.svg(fig, name, f"Ratio of mean absolute errors by query: {level}")


@mpl.rc_context(figures.STYLE)
def _biases(rows: Sequence[Comparison], level: str, name: str, titles: Mapping[str, str]) -> str:
    """Mean error by class of the true count, with its interval, for the coarsest and the finest
    query.
    """
    queries = list(dict.fromkeys(r.query for r in rows))
    queries = list(dict.fromkeys([queries[0], queries[-1]]))
    classes = [c for c in CLASSES if any(r.bin == c for r in rows)]
    fig, ax = figures.figure(4.6, 2.9)
    for k, (query, (colour, marker, _)) in enumerate(zip(queries, figures.SERIES, strict=False)):
        at = {r.bin: r for r in rows if r.query == query}
        found = [(i + 0.12 * k, at[c]) for i, c in enumerate(classes) if c in at]
        reach = [
            [r.bias_published - r.bias_low if r.bias_low is not None else 0 for _, r in found],
            [r.bias_high - r.bias_published if r.bias_high is not None else 0 for _, r in found],
        ]
        ax.errorbar(
            [x for x, _ in found],
            [r.bias_published for _, r in found],
            yerr=reach,
            fmt=marker,
            color=colour,
            label=f"{titles.get(query, query)}, published",
            capsize=3,
            markersize=5,
        )
        ax.plot(
            [x for x, _ in found],
            [r.bias_noisy or 0.0 for _, r in found],
            marker,
            color=colour,
            markerfacecolor="white",
            markersize=5,
            label=f"{titles.get(query, query)}, noisy",
            zorder=1,
        )
    ax.axhline(0, color=figures.INK, linewidth=0.8)
    ax.set_yscale("symlog", linthresh=0.1)
    ax.margins(x=0.06, y=0.1)
    ax.yaxis.set_major_formatter(FuncFormatter(figures.format_plain))
    figures.class_ticks(ax, classes)
    figures.x_label(ax, "true count")
    ax.set_ylabel("mean of count − true count")
    figures.finish(fig, ax, level_words(level), columns=2)
    return figures.svg(fig, name, f"Bias by size of the true count: {level}")
