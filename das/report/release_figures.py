"""Figures of the public page: functions of published values alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from das.model.labels import level_words
from das.model.universe import PERSONS
from das.report.answers import Answers, Shown
from das.report.figures import (
    INK,
    NOISY,
    PUBLISHED,
    SERIES,
    STYLE,
    figure,
    finish,
    format_plain,
    log_ticks,
    svg,
)

#: Units of a figure with a line for each, and points of one with a point for each.
LINES, POINTS = 24, 400
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class Measured:
    """One draw as the page lists it. ``share`` is that of the budget of its universe; ``margin`` at 95 %."""

    universe: str
    level: str
    query: str
    units: int
    answers: int
    share: float
    margin: int


@mpl.rc_context(STYLE)
def budget(draws: Sequence[Measured]) -> list[str]:
    """Two panels: the share of each level in the budget, and that of each query."""
    out = []
    for by, name in (("level", "bl"), ("query", "bq")):
        keys = list(dict.fromkeys(getattr(d, by) for d in (draws if by == "level" else _ordered(draws))))
        share = [100 * sum(d.share for d in draws if getattr(d, by) == k) for k in keys]
        fig, ax = figure(4.6, 0.9 + 0.26 * len(keys))
        ax.barh(range(len(keys)), share, height=0.65, facecolor=PUBLISHED, edgecolor=INK, linewidth=0.6)
        for y, value in enumerate(share):
            ax.annotate(f"{value:.3g}%", (value, y), (4, 0), textcoords="offset points", va="center", fontsize=8)
        ax.set_xlim(0, max(share) * 1.2)
        ax.set_yticks(range(len(keys)), [level_words(k) if by == "level" else k for k in keys])
        ax.set_ylim(len(keys) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel("share of the budget, %")
        finish(fig, ax, f"By {by}", legend=False)
        out.append(svg(fig, name, f"Share of the budget by {by}"))
    return out


@mpl.rc_context(STYLE)
def scales(draws: Sequence[Measured]) -> str:
    """The margin of every measurement: a row for each query, a mark for each level."""
    queries = list(dict.fromkeys(d.query for d in _ordered(draws)))
    levels = list(dict.fromkeys(d.level for d in draws))
    fig, ax = figure(4.6, 1.5 + 0.36 * len(queries))
    for i, level in enumerate(levels):
        here = [d for d in draws if d.level == level]
        colour, beside = SERIES[i % len(SERIES)][0], 0.12 * (i - (len(levels) - 1) / 2)
        ax.plot([max(d.margin, 0.5) for d in here], [queries.index(d.query) + beside for d in here],
                _MARKS[i % len(_MARKS)], color=colour, markerfacecolor="white" if i % 2 else colour, markersize=5,
                label=level_words(level), clip_on=False)  # fmt: skip
    ax.set_xscale("log")
    log_ticks(ax.xaxis)
    ax.set_yticks(range(len(queries)), queries)
    ax.set_ylim(len(queries) - 0.4, -0.6)
    ax.set_xlabel("95% margin of one answer, persons (log scale)")
    finish(fig, ax, "Noise of every measurement")
    return svg(fig, "scales", "Margin of error of every measured query, by level")


def _ordered(draws: Sequence[Measured]) -> list[Measured]:
    """Queries of few answers first."""
    return sorted(draws, key=lambda d: d.answers)


@mpl.rc_context(STYLE)
def beside(shown: Shown) -> list[str]:
    """Totals of persons: noisy minus published, unit by unit where they are few, and against size elsewhere."""
    out = []
    for i, level in enumerate(shown.spine.levels):
        total = shown.total(PERSONS, level)
        at = np.flatnonzero(total.measured)
        if len(at) > 1:
            draw = _intervals if len(at) <= LINES else _cloud
            out.append(draw(total, shown.spine.codes[i].tolist(), at, f"n{i}"))
    return out


def _intervals(total: Answers, codes: Sequence[str], at: np.ndarray, name: str) -> str:
    published, noisy, margin = _sides(total, at)
    fig, ax = figure(4.6, 1.3 + 0.26 * len(at))
    y = np.arange(len(at))
    ax.plot(np.zeros(len(at)), y, "s", color=PUBLISHED, markersize=9, label="published")
    ax.errorbar(noisy - published, y, xerr=margin, fmt="o", color=NOISY, markerfacecolor="white", markersize=5, capsize=3,
                linewidth=1.2, label="noisy, with its 95% interval")  # fmt: skip
    ax.set_yticks(y, [f"{codes[u]}: {p:,}" for u, p in zip(at.tolist(), published.tolist(), strict=True)])
    ax.set_ylim(len(at) - 0.4, -0.6)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(format_plain))
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("difference from the published total, persons")
    finish(fig, ax, level_words(total.level))
    return svg(fig, name, f"Noisy and published totals: {level_words(total.level)}")


def _cloud(total: Answers, codes: Sequence[str], at: np.ndarray, name: str) -> str:
    """Of many units every so-manieth by size, so that the figure stays small and the same."""
    del codes
    order = at[np.argsort(total.published[at, 0], kind="stable")]
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), POINTS)).astype(int))]
    published, noisy, margin = _sides(total, chosen)
    fig, ax = figure(4.6, 2.9)
    ax.plot(published, noisy - published, "o", color=NOISY, markerfacecolor="none", markersize=3.5, markeredgewidth=0.7,
            label=f"noisy − published ({len(chosen):,} of {len(at):,} units)")  # fmt: skip
    for sign in (-1, 1):
        ax.plot(published, sign * margin, "--", color=PUBLISHED, linewidth=1.3,
                label="95% margin of the noise" if sign > 0 else None)  # fmt: skip
    ax.axhline(0, color=INK, linewidth=0.8)
    ax.set_xscale("symlog", linthresh=10)
    largest = int(published.max(initial=1))
    ax.set_xticks([0, *(10.0**k for k in range(1, len(str(largest)) + 1) if 10**k <= 3 * largest)])
    ax.set_xlim(-1, largest * 1.3 + 1)
    ax.xaxis.set_minor_formatter(NullFormatter())
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(format_plain))
    ax.set_xlabel("published total, persons (log scale above 10)")
    ax.set_ylabel("noisy − published, persons")
    finish(fig, ax, level_words(total.level))
    return svg(fig, name, f"Noisy minus published totals by size of the unit: {level_words(total.level)}")


def _sides(total: Answers, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert total.noisy is not None
    assert total.margin is not None
    return total.published[at, 0], total.noisy[at, 0], total.margin[at]
