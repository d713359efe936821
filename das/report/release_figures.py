"""Figures of the public page: functions of published values alone."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from das.model.codes import text
from das.model.labels import level_words
from das.report.answers import Answers, Shown
from das.report.facts import ListedDraw
from das.report.figures import (
    INK,
    NOISY,
    PUBLISHED,
    RULE,
    SERIES,
    STYLE,
    decades,
    figure,
    finish,
    format_plain,
    log_ticks,
    short,
    svg,
    x_label,
    y_words,
)

#: Units of a figure with a line for each, and points of one with a point for each.
LINES, POINTS = 24, 400
#: A share of the budget from which the bar has its number.
_SAID = 0.005
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


@mpl.rc_context(STYLE)
def bought(draws: Sequence[ListedDraw]) -> str:
    """A row for each query, a column for each level: its share of the budget as a bar, and under it
    how well its answers are known. Empty where that is not known."""
    if not any(d.deviation is not None for d in draws):
        return ""
    queries = list(dict.fromkeys(d.query for d in _ordered(draws)))
    levels = list(dict.fromkeys(d.level for d in draws))
    words = [short(w) for w in _titles(draws, queries)]
    fig, ax = figure(1.9 + 1.02 * len(levels), 0.95 + 0.37 * len(queries))
    for y in range(1, len(queries)):
        ax.axhline(y - 0.5, color=RULE, linewidth=0.5, zorder=1)
    for x, level in enumerate(levels):
        ax.axvline(x, color=RULE, linewidth=0.8, zorder=1)
        ax.annotate(
            level_words(level),
            (x, 1),
            (1, 4),
            xycoords=ax.get_xaxis_transform(),
            textcoords="offset points",
            fontweight="bold",
            annotation_clip=False,
        )
    for d in draws:
        _cell(
            ax,
            d,
            levels.index(d.level),
            queries.index(d.query),
            d.share / max(x.share for x in draws),
        )
    y_words(ax, words)
    ax.set_xlim(0, len(levels))
    ax.set_xticks([])
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    x_label(
        ax,
        "bar: share of the budget; number: standard deviation of one answer, from all measurements"
        " together",
    )
    return svg(
        fig,
        "bought",
        "By level and query: the share of the budget, and the standard deviation of one answer",
    )


def _cell(ax: Axes, d: ListedDraw, x: int, y: int, length: float) -> None:
    """One draw, its bar a part ``length`` of the longest there is."""
    colour, face = (NOISY, "white") if d.nothing else (PUBLISHED, PUBLISHED)
    ax.barh(
        y - 0.2,
        0.72 * length,
        0.3,
        left=x,
        facecolor=face,
        edgecolor=colour,
        linewidth=0.6,
        zorder=2,
        hatch="/////" if d.nothing else None,
    )
    if d.share >= _SAID:
        ax.annotate(
            f"{100 * d.share:.0f}%",
            (x + 0.72 * length, y - 0.2),
            (3, 0),
            textcoords="offset points",
            va="center_baseline",
            fontsize=7.5,
        )
    says = "buys nothing" if d.nothing else "–" if d.deviation is None else _figure(d.deviation)
    ax.annotate(
        says,
        (x, y + 0.21),
        (2, 0),
        textcoords="offset points",
        va="center_baseline",
        fontsize=8.5,
        color=NOISY if d.nothing else INK,
    )


def _figure(deviation: float) -> str:
    return (
        "exact" if deviation == 0 else f"{deviation:.2f}" if deviation < 10 else f"{deviation:,.0f}"
    )


@mpl.rc_context(STYLE)
def budget(draws: Sequence[ListedDraw]) -> list[str]:
    """Two panels: the share of each query in the budget, and that of each level."""
    out = []
    for by, name in (("query", "bq"), ("level", "bl")):
        keys = list(
            dict.fromkeys(getattr(d, by) for d in (draws if by == "level" else _ordered(draws)))
        )
        share = [100 * sum(d.share for d in draws if getattr(d, by) == k) for k in keys]
        words = [
            short(w) for w in (map(level_words, keys) if by == "level" else _titles(draws, keys))
        ]
        fig, ax = figure(4.6, 0.9 + _rows(words))
        ax.barh(
            range(len(keys)), share, height=0.65, facecolor=PUBLISHED, edgecolor=INK, linewidth=0.6
        )
        for y, value in enumerate(share):
            ax.annotate(
                f"{value:.3g}%",
                (value, y),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
        ax.set_xlim(0, max(share) * 1.2)
        y_words(ax, words)
        x_label(ax, "share of the budget, %")
        finish(fig, ax, f"By {by}", legend=False)
        out.append(svg(fig, name, f"Share of the budget by {by}"))
    return out


@mpl.rc_context(STYLE)
def scales(draws: Sequence[ListedDraw]) -> str:
    """The margin of every measurement: a row for each query, a mark for each level."""
    queries = list(dict.fromkeys(d.query for d in _ordered(draws)))
    levels = list(dict.fromkeys(d.level for d in draws))
    words = [short(w) for w in _titles(draws, queries)]
    fig, ax = figure(4.6, 1.5 + 0.1 * len(queries) + _rows(words))
    for i, level in enumerate(levels):
        here = [d for d in draws if d.level == level]
        colour, beside = SERIES[i % len(SERIES)][0], 0.12 * (i - (len(levels) - 1) / 2)
        ax.plot(
            [max(d.margin, 0.5) for d in here],
            [queries.index(d.query) + beside for d in here],
            _MARKS[i % len(_MARKS)],
            color=colour,
            markerfacecolor="white" if i % 2 else colour,
            markersize=5,
            label=level_words(level),
            clip_on=False,
        )
    ax.set_xscale("log")
    log_ticks(ax.xaxis)
    y_words(ax, words)
    ax.grid(axis="y", visible=True)
    x_label(ax, "95% margin of one answer, persons (log scale)")
    finish(fig, ax, "Noise of every measurement")
    return svg(fig, "scales", "Margin of error of every measured query, by level")


def _titles(draws: Sequence[ListedDraw], queries: Sequence[str]) -> list[str]:
    title = {d.query: d.title for d in draws}
    return [title[q] for q in queries]


def _rows(words: Sequence[str]) -> float:
    """Inches for a row each, of as many lines as it has."""
    return sum(0.13 + 0.13 * (1 + w.count("\n")) for w in words)


def _ordered(draws: Sequence[ListedDraw]) -> list[ListedDraw]:
    """Queries of few answers first."""
    return sorted(draws, key=lambda d: d.answers)


@mpl.rc_context(STYLE)
def beside(shown: Shown) -> list[str]:
    """Totals of persons: noisy minus published, unit by unit where they are few, and against size
    elsewhere.
    """
    out = []
    for i, level in enumerate(shown.spine.levels):
        total = shown.total(shown.universes[0], level)
        at = np.flatnonzero(total.measured)
        if len(at) > 1:
            draw = _intervals if len(at) <= LINES else _cloud
            out.append(draw(total, text(shown.spine.codes[i]).tolist(), at, f"n{i}"))
    return out


def _intervals(total: Answers, codes: Sequence[str], at: np.ndarray, name: str) -> str:
    published, noisy, margin = _sides(total, at)
    fig, ax = figure(4.6, 1.3 + 0.26 * len(at))
    y = np.arange(len(at))
    ax.plot(np.zeros(len(at)), y, "s", color=PUBLISHED, markersize=9, label="published")
    ax.errorbar(
        noisy - published,
        y,
        xerr=margin,
        fmt="o",
        color=NOISY,
        markerfacecolor="white",
        markersize=5,
        capsize=3,
        linewidth=1.2,
        label="noisy, with its 95% interval",
    )
    y_words(
        ax,
        [short(f"{codes[u]}: {p:,}") for u, p in zip(at.tolist(), published.tolist(), strict=True)],
    )
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(format_plain))
    x_label(ax, "difference from the published total, persons")
    finish(fig, ax, level_words(total.level))
    return svg(fig, name, f"Noisy and published totals: {level_words(total.level)}")


def _cloud(total: Answers, codes: Sequence[str], at: np.ndarray, name: str) -> str:
    """Of many units every so-manieth by size, so that the figure stays small and the same."""
    del codes
    order = at[np.argsort(total.published[at, 0], kind="stable")]
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), POINTS)).astype(int))]
    published, noisy, margin = _sides(total, chosen)
    fig, ax = figure(4.6, 2.9)
    ax.plot(
        published,
        noisy - published,
        "o",
        color=NOISY,
        markerfacecolor="none",
        markersize=3.5,
        markeredgewidth=0.7,
        label=f"noisy − published ({len(chosen):,} of {len(at):,} units)",
    )
    for sign in (-1, 1):
        ax.plot(
            published,
            sign * margin,
            "--",
            color=PUBLISHED,
            linewidth=1.3,
            label="95% margin of the noise" if sign > 0 else None,
        )
    ax.axhline(0, color=INK, linewidth=0.8)
    ax.set_xscale("symlog", linthresh=10)
    largest = int(published.max(initial=1))
    ax.set_xticks([0, *(t for t in decades(3 * largest) if t > 1)])
    ax.set_xlim(-1, largest * 1.3 + 1)
    ax.xaxis.set_minor_locator(NullLocator())
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(format_plain))
    x_label(ax, "published total, persons (log scale above 10)")
    ax.set_ylabel("noisy − published, persons")
    finish(fig, ax, level_words(total.level))
    return svg(
        fig, name, f"Noisy minus published totals by size of the unit: {level_words(total.level)}"
    )


def _sides(total: Answers, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert total.noisy is not None
    assert total.margin is not None
    return total.published[at, 0], total.noisy[at, 0], total.margin[at]
