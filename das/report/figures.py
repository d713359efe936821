"""Figures of the report as inline SVG: text stays text, colours of Okabe and Ito, shapes tell the
same as colours.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import LayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from das.model.error_rows import ErrorRow
from das.model.labels import level_words

NOISY, PUBLISHED = "#D55E00", "#0072B2"
SERIES = (("#0072B2", "s", "-"), ("#D55E00", "o", "--"), ("#009E73", "^", ":"))
INK, RULE = "#222222", "#d4d4d4"
#: Queries of the bias figure, as far as they were measured, coarse to fine; three of them are
#: drawn.
BIAS_QUERIES = ("total", "hispanic * cenrace", "h1", "votingage * hispanic * race", "detailed")
BIAS_LEVELS = 3
CLASSES = ("0", "1-9", "10-99", "100-999", "1000-9999", "10000+")

#: The room at the edges of a figure, in inches.
EDGE = 0.04

#: Characters of a line beside an axis or below a figure, and lines there; more is left out. The
#: axis keeps its room.
LINE, LINES = 24, 2

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": ["sans-serif"],
    "font.size": 9.0,
    "text.parse_math": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
}


@mpl.rc_context(STYLE)
def total_by_level(rows: Sequence[ErrorRow]) -> str:
    """Mean absolute error of the total population by level, measured and published, on a log
    scale.
    """
    return _dumbbells(
        [r for r in rows if r.query == "total"], "level", "total population", "totals"
    )


@mpl.rc_context(STYLE)
def queries_by_level(rows: Sequence[ErrorRow], titles: Mapping[str, str]) -> list[str]:
    """One panel for each level: mean absolute error of every query but the total. ``titles`` are
    words for queries.
    """
    levels = list(dict.fromkeys(r.level for r in rows if r.query != "total"))
    return [
        _dumbbells(
            [r for r in rows if r.level == level and r.query != "total"],
            "query",
            level_words(level),
            f"q{i}",
            titles,
        )
        for i, level in enumerate(levels)
    ]


@mpl.rc_context(STYLE)
def bias_by_class(rows: Sequence[ErrorRow], titles: Mapping[str, str]) -> list[str]:
    """One panel for each of the lowest levels: mean signed error of the published counts by true
    count.
    """
    rows = [r for r in rows if r.source == "postprocessed" and r.bin != "all"]
    levels = list(dict.fromkeys(r.level for r in rows))[-BIAS_LEVELS:]
    present = {r.query for r in rows}
    queries = [q for q in BIAS_QUERIES if q in present] or sorted(present)
    queries = queries[:1] + queries[1:][-2:]
    words = {q: titles.get(q, q) for q in queries}
    return [
        _bias([r for r in rows if r.level == lv], words, level_words(lv), f"b{i}")
        for i, lv in enumerate(levels)
    ]


@mpl.rc_context(STYLE)
def epsilon_by_delta(methods: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """A line for each method, by its name: pairs of delta and epsilon."""
    fig, ax = figure(6.4, 3.6)
    for (label, at), (colour, _, line) in zip(methods.items(), SERIES, strict=True):
        ax.plot(*zip(*at, strict=True), line, color=colour, label=label, linewidth=1.6)
    ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    ax.set_xticks([10.0**-k for k in (30, 25, 20, 15, 10, 5)])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"1e{math.log10(x):.0f}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("δ")
    ax.set_ylabel("ε")
    finish(fig, ax, "ε at each δ, for one record of each kind")
    return svg(fig, "curve", "Epsilon against delta")


def short(text: str, lines: int = LINES) -> str:
    """Words in lines of 24 characters; what does not fit into ``lines`` of them is left out.

    >>> short("Voting age by Hispanic origin by Race").splitlines()
    ['Voting age by Hispanic', 'origin by Race']
    """
    return "\n".join(textwrap.wrap(text, LINE, max_lines=lines, placeholder=" …")) or text[:LINE]


def _dumbbells(
    rows: list[ErrorRow], by: str, title: str, name: str, titles: Mapping[str, str] | None = None
) -> str:
    """A line for each level or query, from the error of the measurement to the error as
    published.
    """
    keys = list(dict.fromkeys(getattr(r, by) for r in rows))
    if not keys:
        return ""
    value = {(getattr(r, by), r.source): r.mae for r in rows}
    low, high = _decades([v for v in value.values() if v > 0])
    words = [short(level_words(k) if by == "level" else (titles or {}).get(k, k)) for k in keys]
    fig, ax = figure(4.6, 0.95 + sum(0.14 + 0.13 * (1 + w.count("\n")) for w in words))
    for y, key in enumerate(keys):
        ends = [v for s in ("nmf", "postprocessed") if (v := value.get((key, s)))]
        ax.plot(ends, [y] * len(ends), color="#999999", linewidth=1.2, zorder=1)
    for source, colour, marker, label in (
        ("nmf", NOISY, "o", "noisy measurements"),
        ("postprocessed", PUBLISHED, "s", "published"),
    ):
        at = [(y, value[key, source]) for y, key in enumerate(keys) if (key, source) in value]
        if at:
            y_at, x_at = zip(*((y, max(v, low)) for y, v in at), strict=True)
            face = "white" if source == "nmf" else colour
            (points,) = ax.plot(
                x_at, y_at, marker, color=colour, markerfacecolor=face, markersize=6, label=label
            )
            points.set(clip_on=False, zorder=3)
        for y, v in at:
            if v == 0:
                ax.annotate(
                    "no error",
                    (low, y),
                    (8, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=8,
                )
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    log_ticks(ax.xaxis)
    y_words(ax, words)
    x_label(ax, "mean absolute error, persons (log scale)")
    finish(fig, ax, title)
    return svg(fig, name, f"Mean absolute error by {by}: {title}")


def _decades(values: list[float]) -> tuple[float, float]:
    """Powers of ten around the values, with room on both sides."""
    low = math.floor(math.log10(min(values, default=1.0) * 0.8))
    high = math.ceil(math.log10(max(values, default=1.0) * 1.2))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _decade(values: list[float]) -> float:
    """The power of ten, 0.1 at least, above all values."""
    return 10.0 ** math.ceil(math.log10(max([0.1, *values]) * 1.1))


def log_ticks(axis: Axis) -> None:
    """Ticks of a logarithmic axis whose limits stand: powers of ten, and where these are few, 2 and
    5 between them, or even steps; at least two have their number. None without a number: they take
    a third of the time to draw."""
    low, high = axis.get_view_interval()
    if high < 100 * low:
        axis.set_major_locator(
            MaxNLocator(5, steps=[1, 2, 5, 10])
            if high < 5 * low
            else LogLocator(subs=(1.0, 2.0, 5.0))
        )
    axis.set_major_formatter(FuncFormatter(format_plain))
    axis.set_minor_locator(NullLocator())


def class_ticks(ax: Axes, classes: Sequence[str]) -> None:
    """Classes of the true count along the horizontal axis, so small that six of them fit."""
    ax.set_xticks(range(len(classes)), [c.replace("-", "–") for c in classes], fontsize=8)


def decades(largest: float, most: int = 5) -> list[float]:
    """Powers of ten from 1 to ``largest``, no more than ``most`` of them.

    >>> decades(2000), decades(3_000_000)
    ([1.0, 10.0, 100.0, 1000.0], [1.0, 100.0, 10000.0, 1000000.0])
    """
    n = len(str(int(max(largest, 1))))
    return [10.0**k for k in range(0, n, -(-n // most))]


def format_plain(value: float, _: object = None) -> str:
    """A tick as a reader writes it: 0.01, 1.5, 10,000."""
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}").replace("-", "−")


def _bias(rows: list[ErrorRow], queries: Mapping[str, str], title: str, name: str) -> str:
    """Lines over the classes of the true count; above zero the published count is too high."""
    fig, ax = figure(4.6, 2.9)
    occurring = [c for c in CLASSES if any(r.bin == c and r.query in queries for r in rows)]
    for query, (colour, marker, line) in zip(queries, SERIES, strict=False):
        at = {r.bin: r.bias for r in rows if r.query == query}
        x = [i for i, c in enumerate(occurring) if c in at]
        y = [at[occurring[i]] for i in x]
        ax.plot(
            x,
            y,
            line,
            marker=marker,
            color=colour,
            label=queries[query],
            linewidth=1.3,
            markersize=5,
        )
        for r in rows:
            if r.query == query and r.bias_low is not None and r.bias_high is not None:
                ax.vlines(
                    occurring.index(r.bin), r.bias_low, r.bias_high, color=colour, linewidth=1
                )
    ax.axhline(0, color=INK, linewidth=0.8)
    shown = [
        v
        for r in rows
        if r.query in queries
        for v in (r.bias, r.bias_low, r.bias_high)
        if v is not None
    ]
    ax.set_yscale("symlog", linthresh=0.1)
    ax.set_ylim(-_decade([-b for b in shown]), _decade(shown))
    ax.yaxis.set_major_formatter(FuncFormatter(format_plain))
    class_ticks(ax, occurring)
    ax.set_xlim(-0.4, max(len(occurring), 2) - 0.6)
    x_label(ax, "true count, persons")
    ax.set_ylabel("mean of published − true, persons")
    finish(fig, ax, title)
    return svg(fig, name, f"Bias by size of the true count: {title}")


class OneLook(LayoutEngine):
    """The axes take the room that their words, and a legend below them, leave. Matplotlib's
    constrained layout finds the same for any number of axes, and looks twice: that takes as long as
    drawing."""

    _adjust_compatible = False
    _colorbar_gridspec = False

    def execute(self, fig: Figure) -> None:
        (ax,) = fig.axes
        inner, width, height = ax.get_window_extent(), fig.bbox.width, fig.bbox.height
        outer = ax.get_tightbbox() or inner
        edge, legend = (
            EDGE * fig.dpi,
            max((x.get_window_extent().y1 for x in fig.legends), default=0.0),
        )
        left, low = edge + inner.x0 - outer.x0, legend + edge + inner.y0 - outer.y0
        right, high = width - edge - (outer.x1 - inner.x1), height - edge - (outer.y1 - inner.y1)
        ax.set_position((left / width, low / height, (right - left) / width, (high - low) / height))


def figure(width: float, height: float) -> tuple[Figure, Axes]:
    fig = Figure(figsize=(width, height), layout=OneLook())
    return fig, fig.add_subplot()


def y_words(ax: Axes, words: Sequence[str]) -> None:
    """Words at 0, 1, 2, ... of the vertical axis, from the top, each line set by itself: it ends at
    the axis whatever the font of the reader."""
    ax.set_yticks(range(len(words)), [""] * len(words))
    ax.set_ylim(len(words) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    for y, word in enumerate(words):
        lines = word.splitlines()
        for i, line in enumerate(lines):
            ax.annotate(
                line,
                (0, y),
                (-6, 10 * ((len(lines) - 1) / 2 - i)),
                xycoords=ax.get_yaxis_transform(),
                textcoords="offset points",
                ha="right",
                va="center_baseline",
                annotation_clip=False,
            )


def x_label(ax: Axes, text: str) -> None:
    """Ends where the axis ends: what is longer than the axis reaches below the words at its left,
    and is not cut.
    """
    ax.set_xlabel(text, loc="right")


def finish(fig: Figure, ax: Axes, title: str, columns: int = 3, *, legend: bool = True) -> None:
    ax.set_title(
        "\n".join(textwrap.wrap(title, 2 * LINE, max_lines=2, placeholder=" …")),
        loc="left",
        fontsize=10,
        fontweight="bold",
    )
    if legend:
        handles, labels = ax.get_legend_handles_labels()
        longest = max(map(len, labels), default=0)
        fig.legend(
            handles,
            [textwrap.shorten(x, 3 * LINE, placeholder=" …") for x in labels],
            loc="outside lower left",
            ncols=min(columns, max(1, 3 * LINE // (longest + 6))),
            frameon=False,
            fontsize=8,
        )


@contextmanager
def any_glyph() -> Iterator[None]:
    """Text stays text, which the browser has a font for; that ours has no glyph for it only makes
    its width a guess.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=r"Glyph \d+ .* missing from", category=UserWarning
        )
        yield


def svg(fig: Figure, name: str, description: str) -> str:
    """The figure as an ``<svg>`` element: same figure, same text; identifiers unique on the
    page.
    """
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}), any_glyph():
        # as savefig does, but that it draws everything twice where the layout depends on what is
        # drawn
        FigureCanvasSVG(fig).print_svg(
            out, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = out.getvalue()
    text = text[text.index("<svg") :]
    used = set(re.findall(r"#([\w.-]+)", text))
    text = re.sub(
        r' id="([\w.-]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", text
    )
    text = re.sub(r"(url\(|href=\")#([\w.-]+)", lambda m: f"{m[1]}#{name}-{m[2]}", text)
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)  # the page's own
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)
