"""Confidential figures: how errors spread, and what post-processing trades for variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from das.model.error_rows import ErrorRow
from das.model.labels import level_words
from das.report.answers import AnswerKey, Shown
from das.report.figures import (
    BIAS_QUERIES,
    CLASSES,
    INK,
    NOISY,
    PUBLISHED,
    SERIES,
    STYLE,
    class_ticks,
    decades,
    figure,
    finish,
    format_plain,
    short,
    svg,
    x_label,
    y_words,
)

Ints = NDArray[np.int64]
#: The fewest units of which a histogram is drawn, and the most bars of it.
FEWEST, BARS = 20, 31
TRADE_LEVELS = 3


@mpl.rc_context(STYLE)
def spread_of_totals(shown: Shown, true: Mapping[AnswerKey, Ints]) -> list[str]:
    """Errors of the total of persons: a box for each level and source, and a histogram of every
    larger level.
    """
    errors = {level: _errors(shown, true, level) for level in shown.spine.levels}
    panels = [_boxes(errors)]
    for i, (level, sides) in enumerate(errors.items()):
        if max(len(e) for e in sides.values()) >= FEWEST and any(e.any() for e in sides.values()):
            panels.append(_histogram(sides, level, f"e{i}"))
    return panels


def _errors(shown: Shown, true: Mapping[AnswerKey, Ints], level: str) -> dict[str, Ints]:
    total = shown.total(shown.universes[0], level)
    truth = true[total.key][:, 0]
    out = {"published": total.published[:, 0] - truth}
    if total.noisy is not None and total.measured.any():
        out["noisy measurements"] = (total.noisy[:, 0] - truth)[total.measured]
    return out


def _boxes(errors: Mapping[str, Mapping[str, Ints]]) -> str:
    fig, ax = figure(4.6, 1.1 + 0.42 * len(errors))
    drawn: set[str] = set()
    for y, sides in enumerate(errors.values()):
        for source, colour, shift in (
            ("noisy measurements", NOISY, -0.2),
            ("published", PUBLISHED, 0.2),
        ):
            if source not in sides:
                continue
            low, q1, middle, q3, high = np.quantile(
                sides[source], [0.05, 0.25, 0.5, 0.75, 0.95], method="inverted_cdf"
            )
            face = "white" if source != "published" else colour
            ax.plot([low, high], [y + shift] * 2, color=colour, linewidth=1.2, zorder=1)
            ax.barh(
                y + shift,
                q3 - q1,
                left=q1,
                height=0.28,
                edgecolor=colour,
                facecolor=face,
                linewidth=1.2,
                zorder=2,
                label=source if source not in drawn else None,
            )
            line = INK if face == "white" else "white"
            ax.plot(
                [middle] * 2,
                [y + shift - 0.14, y + shift + 0.14],
                color=line,
                linewidth=1.6,
                zorder=3,
            )
            if low == high:
                ax.plot(
                    middle,
                    y + shift,
                    "s" if face != "white" else "o",
                    color=colour,
                    markerfacecolor=face,
                    zorder=4,
                )
            drawn.add(source)
    ax.axvline(0, color=INK, linewidth=0.8, zorder=0)
    ax.set_xscale("symlog", linthresh=1)
    ax.xaxis.set_major_formatter(FuncFormatter(format_plain))
    widest = max(
        (int(np.abs(e).max()) for sides in errors.values() for e in sides.values()), default=1
    )
    ax.set_xticks([s * t for s in (-1, 1) for t in decades(widest, 3)] + [0])
    y_words(ax, [short(level_words(level)) for level in errors])
    x_label(ax, "count − true count, persons (symmetric log scale)")
    finish(fig, ax, "All levels")
    return svg(fig, "boxes", "Boxes of the error of the total population at every level")


def _histogram(sides: Mapping[str, Ints], level: str, name: str) -> str:
    fig, ax = figure(4.6, 2.5)
    reach = max(
        1, *(int(np.quantile(np.abs(e), 0.995, method="inverted_cdf")) for e in sides.values())
    )
    width = -(-(2 * reach + 1) // BARS)
    half = (-(-(2 * reach + 1) // width) // 2 + 1) * width
    edges = np.arange(-half, half + 1, width) - width // 2 - 0.5
    outside = 0
    for source, colour, line in (
        ("noisy measurements", NOISY, "--"),
        ("published", PUBLISHED, "-"),
    ):
        if source in sides:
            e = sides[source]
            share = 100 * np.histogram(e, edges)[0] / len(e)
            outside = max(outside, int(((e < edges[0]) | (e > edges[-1])).sum()))
            ax.stairs(share, edges, color=colour, linestyle=line, linewidth=1.5, label=source)
    ax.axvline(0, color=INK, linewidth=0.8, zorder=0)
    ax.xaxis.set_major_formatter(FuncFormatter(format_plain))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}%"))
    ax.set_ylim(bottom=0)
    x_label(ax, "count − true count, persons" + (f" ({outside:,} further out)" if outside else ""))
    ax.set_ylabel("share of units")
    finish(fig, ax, level_words(level))
    return svg(
        fig, name, f"Distribution of the error of the total population: {level_words(level)}"
    )


@mpl.rc_context(STYLE)
def variance_and_bias(rows: Sequence[ErrorRow], titles: Mapping[str, str]) -> list[str]:
    """At the lowest levels: standard deviation of the error of noisy and published counts, and bias
    of the published.

    By class of the true count, for the finest query of a few dozen answers that was measured; from
    sd^2 = RMSE^2 - bias^2.
    """
    rows = [r for r in rows if r.bin != "all"]
    levels = list(dict.fromkeys(r.level for r in rows))[-TRADE_LEVELS:]
    panels = []
    for i, level in enumerate(levels):
        here = [r for r in rows if r.level == level]
        both = [
            q
            for q in BIAS_QUERIES[1:]
            if {r.source for r in here if r.query == q} >= {"nmf", "postprocessed"}
        ]
        if both:
            title = titles.get(both[0], both[0])
            panels.append(_trade([r for r in here if r.query == both[0]], title, level, f"v{i}"))
    return panels


def _trade(rows: Sequence[ErrorRow], title: str, level: str, name: str) -> str:
    fig, ax = figure(4.6, 2.9)
    classes = [c for c in CLASSES if any(r.bin == c for r in rows)]
    lines = (
        ("nmf", "noisy: standard deviation", SERIES[1], lambda r: _sd(r)),
        ("postprocessed", "published: standard deviation", SERIES[0], lambda r: _sd(r)),
        ("postprocessed", "published: bias, without sign", SERIES[2], lambda r: abs(r.bias)),
    )
    for source, label, (colour, marker, line), measure in lines:
        at = {r.bin: measure(r) for r in rows if r.source == source}
        x = [i for i, c in enumerate(classes) if c in at]
        face = "white" if source == "nmf" else colour
        ax.plot(
            x,
            [at[classes[i]] for i in x],
            line,
            marker=marker,
            color=colour,
            markerfacecolor=face,
            linewidth=1.3,
            markersize=5,
            label=label,
        )
    _symlog(ax, [_sd(r) for r in rows] + [abs(r.bias) for r in rows])
    class_ticks(ax, classes)
    ax.set_xlim(-0.4, max(len(classes), 2) - 0.6)
    x_label(ax, "true count, persons")
    ax.set_ylabel("persons")
    finish(fig, ax, f"{level_words(level)}: {title}", columns=1)
    return svg(
        fig, name, f"Variance and bias by size of the true count: {title}, {level_words(level)}"
    )


def _sd(r: ErrorRow) -> float:
    return max(0.0, r.rmse**2 - r.bias**2) ** 0.5


def _symlog(ax: Axes, values: Sequence[float]) -> None:
    """From zero up, logarithmic above 0.1."""
    top = max([1.0, *values])
    ticks = [0.0, *(10.0**k for k in range(-1, 8))]
    ax.set_yscale("symlog", linthresh=0.1)
    ax.set_ylim(0, next(b for a, b in pairwise([*ticks, top * 10]) if b >= top))
    ax.set_yticks([t for t in ticks if t <= ax.get_ylim()[1]])
    ax.yaxis.set_major_formatter(FuncFormatter(format_plain))
