"""Panels of curves for print. Colors are those of Okabe and Ito; dashes and markers distinguish the
same series.
"""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from das.report.panel import INK, RULE, format_plain
from studies.figure import Curves, FigureData

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
FORMATS = ("svg", "pdf", "png")
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2)), (0, (1, 1)), (0, (3, 1, 1, 1, 1, 1)))


@mpl.rc_context(STYLE)
def draw(figure: FigureData, kind: str) -> bytes:
    """The figure as an ``svg``, ``pdf`` or ``png`` file; the same figure gives the same bytes."""
    count = len(figure.panels)
    fig = Figure(figsize=(3.6 * count + 1.0, 3.5), layout="constrained")
    for panel, ax in zip(figure.panels, np.atleast_1d(fig.subplots(1, count)), strict=True):
        _curves(ax, panel)
    handles = {
        str(h.get_label()): h
        for ax in fig.axes
        for h in ax.get_lines()
        if not str(h.get_label()).startswith("_")
    }
    fig.legend(
        handles=list(handles.values()),
        loc="outside lower left",
        ncols=2 * count if len(handles) > 4 else 4,
        frameon=False,
        fontsize=8,
        handlelength=3,
    )
    return saved(fig, figure.name, kind)


def saved(fig: Figure, name: str, kind: str) -> bytes:
    """A drawing as a file of that kind, without the time that it was made at."""
    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "pdf.fonttype": 42}):
        clean = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {"Software": None}}
        fig.savefig(out, format=kind, dpi=200, metadata=clean[kind])
    return out.getvalue()


def _curves(ax: Axes, panel: Curves) -> None:
    several = (
        len({c.dashed for c in panel.curves}) > 1
    )  # dashes tell the kinds apart, colors the curves of a kind
    count = {True: 0, False: 0}
    for i, curve in enumerate(panel.curves):
        n = count[curve.dashed] if several else i
        count[curve.dashed] += 1
        dash = ((0, (2, 1.5)) if curve.dashed else "-") if several else _DASHES[n]
        marker = _MARKERS[n] if curve.points or (several and len(panel.curves) > 3) else None
        every = 1 if curve.points else max(len(curve.x) // 8, 1)
        ax.plot(
            curve.x,
            curve.y,
            linestyle=dash,
            color=_COLORS[n],
            marker=marker,
            markevery=every,
            label=curve.label,
            linewidth=1.5,
            markersize=4.5,
            markerfacecolor="white" if curve.dashed else _COLORS[n],
        )
    _marks(ax, panel)
    _axes(ax, panel)
    ax.set_title(panel.title, loc="left", fontsize=9.5, fontweight="bold")
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)


def _marks(ax: Axes, panel: Curves) -> None:
    """Lines across, with words."""
    for axis, value, words in panel.marks:
        (ax.axvline if axis == "x" else ax.axhline)(
            value, color=INK, linewidth=0.9, linestyle=(0, (4, 3))
        )
        where = (value, 0.7) if axis == "x" else (0.98, value)
        ax.annotate(
            words,
            where,
            (2, 0) if axis == "x" else (3, -9),
            textcoords="offset points",
            fontsize=7.5,
            rotation=90 if axis == "x" else 0,
            va="center" if axis == "x" else "baseline",
            xycoords=ax.get_xaxis_transform() if axis == "x" else ax.get_yaxis_transform(),
            ha="left" if axis == "x" else "right",
        )


def _axes(ax: Axes, panel: Curves) -> None:
    """Logarithmic where the panel says so; ticks at whole numbers where all are whole."""
    for scale, is_log, ticks in (
        (ax.set_xscale, panel.log_x, ax.xaxis),
        (ax.set_yscale, panel.log_y, ax.yaxis),
    ):
        if is_log:
            scale("log")
            ticks.set_major_formatter(FuncFormatter(lambda value, _: format_plain(value)))
            ticks.set_minor_locator(NullLocator())
    if panel.ticks:
        ax.set_xticks(range(len(panel.ticks)), panel.ticks, fontsize=7.5)
    elif all(x == int(x) for c in panel.curves for x in c.x):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
