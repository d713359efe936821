"""A map of one number for each unit, in classes: as a page, or as a picture alone."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.path import Path as Outline
from numpy.typing import NDArray

from das.model.not_private import COLUMN, Private
from das.report.ink import INK
from das.report.printed import STYLE, titled
from das.report.template import render, whole

#: ColorBrewer's Blues and PuOr, which everybody can tell apart; and what has no number.
BLUES = ("#eff3ff", "#bdd7e7", "#6baed6", "#3182bd", "#08519c")
BOTH = ("#e66101", "#fdb863", "#f7f7f7", "#b2abd2", "#5e3c99")
NONE = "#d9d9d9"
#: How the numbers are printed: whole numbers, per cent, or a density per square mile.
Form = Literal["whole", "percent", "density"]
#: How many units the page lists with their numbers.
LISTED = 1000


@dataclass(frozen=True, eq=False)
class Choropleth:
    """``values[i]`` is the number of unit ``i``, NaN if it has none; ``shapes[i]`` has its rings,
    none if it has no boundary.

    ``signed``: numbers are differences, and zero is the middle. ``lacks`` says in words what has no
    number or no boundary."""

    title: str
    says: Sequence[str]
    units: Sequence[str]
    shapes: Sequence[Sequence[NDArray[np.float64]]]
    values: NDArray[np.float64]
    signed: bool
    lacks: Sequence[str]
    confidential: bool
    private: Private
    form: Form = "whole"

    def text(self, value: float) -> str:
        """One of the numbers, as it is printed."""
        if self.form == "percent":
            return f"{value:.1f} %"
        if self.form == "whole" or value >= 100:
            return whole(value)
        return f"{value:.1f}" if value >= 1 or value == 0 else f"{value:.2g}"

    def tooltip(self, unit: int) -> str:
        """A unit and its number, as its area on the map says when it is pointed at."""
        value = self.values[unit]
        return f"{self.units[unit]}: {'no number' if np.isnan(value) else self.text(value)}"


def classes(values: NDArray[np.float64], signed: bool) -> list[tuple[float, float, str]]:
    """Lowest and highest value, both included, and the color of each class that occurs, from the
    lowest. There is no gap between classes. For whole numbers a class ends one below the next;
    otherwise it ends where the next begins. For ``signed`` whole numbers zero is a class by itself.

    >>> [c[:2] for c in classes(np.array([0.0, 1, 2, 3, 4, 5, 60, 70, 80, 90]), False)]
    [(0.0, 1.0), (2.0, 3.0), (4.0, 59.0), (60.0, 79.0), (80.0, 90.0)]
    >>> [c[:2] for c in classes(np.array([-9.0, -1, 0, 2, 3]), True)]
    [(-9.0, -3.0), (-2.0, -1.0), (0.0, 0.0), (1.0, 2.0), (3.0, 3.0)]
    """
    known = np.sort(values[~np.isnan(values)])
    if not len(known):
        return []
    if signed:
        return _about_zero(known)
    cuts = np.unique(np.quantile(known, [0.2, 0.4, 0.6, 0.8], method="higher"))
    at = np.searchsorted(cuts, known, side="right")
    lows = [float(known[at == k].min()) for k in np.unique(at)]
    unit = 1.0 if (known % 1 == 0).all() else 0.0
    highs = [low - unit for low in lows[1:]] + [float(known[-1])]
    shades = BLUES[-len(lows) :] if len(lows) > 1 else BLUES[2:3]
    return list(zip(lows, highs, shades, strict=True))


def _about_zero(known: NDArray[np.float64]) -> list[tuple[float, float, str]]:
    """Classes of whole numbers, sorted: small and large ones to either side of zero."""
    middle = float(np.floor(np.median(np.abs(known[known != 0])))) if known.any() else 1.0
    least, most = float(known[0]), float(known[-1])
    ranges = (
        (least, -middle - 1),
        (max(least, -middle), -1.0),
        (0.0, 0.0),
        (1.0, min(most, middle)),
        (middle + 1, most),
    )
    return [
        (low, high, colour)
        for (low, high), colour in zip(ranges, BOTH, strict=True)
        if ((known >= low) & (known <= high)).any()
    ]


def _drawn(data: Choropleth, *, alone: bool) -> tuple[Figure, list[list[int]]]:
    """The map with its legend, and the units of each of its collections; ``alone``: with its title
    and its notes above."""
    fig = Figure(figsize=(5.4, 5.0), layout="constrained")
    ax = fig.add_subplot()
    legend: list[Patch] = []
    drawn: list[list[int]] = []
    for words, colour, units in _classed(data):
        legend.append(Patch(facecolor=colour, edgecolor=INK, linewidth=0.4, label=words))
        if units:
            _fill(ax, [data.shapes[u] for u in units], colour, _group(len(drawn)))
            drawn.append(units)
    ax.set_aspect("equal")
    ax.autoscale_view()
    ax.set_axis_off()
    marks = [COLUMN] * (not data.private) + ["Confidential"] * data.confidential
    if alone:
        words = "\n".join([*marks, *textwrap.wrap(data.title, 60)])
        fig.suptitle(words, fontsize=10, fontweight="bold", x=0.01, ha="left")
    fig.legend(handles=legend, loc="outside lower left", ncols=2, frameon=False, fontsize=10)
    return fig, drawn


def _classed(data: Choropleth) -> list[tuple[str, str, list[int]]]:
    """For each class: the text of the legend, its color, and its units with a boundary; units
    without a number come last."""
    found, out = classes(data.values, data.signed), []
    there = np.array([bool(len(s)) for s in data.shapes], dtype=bool)
    for low, high, colour in found:
        last = high == found[-1][1] or data.form == "whole"
        inside = (data.values >= low) & (data.values <= high if last else data.values < high)
        units = np.flatnonzero(inside & there).tolist()
        between = "to" if last else "to below"
        words = data.text(low) if low == high else f"{data.text(low)} {between} {data.text(high)}"
        out.append((f"{words} ({len(units):,})", colour, units))
    if blank := np.flatnonzero(np.isnan(data.values) & there).tolist():
        out.append((f"no number ({len(blank):,})", NONE, blank))
    return out


def _group(k: int) -> str:
    """The identifier of the units of a class in the drawing."""
    return f"units-{k}"


def _fill(
    ax: mpl.axes.Axes, shapes: Sequence[Sequence[NDArray[np.float64]]], colour: str, gid: str
) -> None:
    outlines = [
        Outline.make_compound_path(*(Outline(ring, closed=True) for ring in rings))
        for rings in shapes
    ]
    held = PathCollection(outlines, facecolor=colour, edgecolor=INK, linewidth=0.3, gid=gid)
    ax.add_collection(held)
    ax.update_datalim(np.concatenate([ring for rings in shapes for ring in rings]))


def _svg(data: Choropleth, *, alone: bool) -> str:
    """The drawing, with a ``<title>`` in the area of each unit: its name and number, which a
    browser shows at the pointer."""
    fig, drawn = _drawn(data, alone=alone)
    return titled(
        fig,
        "map",
        data.title,
        {_group(k): [data.tooltip(u) for u in us] for k, us in enumerate(drawn)},
    )


@mpl.rc_context(STYLE)
def picture(data: Choropleth, form: str) -> bytes:
    """The map alone, as ``svg`` or ``png``."""
    if form == "svg":
        return (_svg(data, alone=True) + "\n").encode()
    out = io.BytesIO()
    _drawn(data, alone=True)[0].savefig(out, format=form, dpi=200, facecolor="white")
    return out.getvalue()


@mpl.rc_context(STYLE)
def map_page(data: Choropleth) -> str:
    """The map with its numbers, on one page that needs no network."""
    order = np.argsort(-np.abs(np.nan_to_num(data.values, nan=-1)), kind="stable")[:LISTED].tolist()
    rows = [(data.units[i], None if np.isnan(data.values[i]) else data.values[i]) for i in order]
    return render(
        "map.html",
        data=data,
        private=data.private,
        rows=rows,
        more=len(data.units) - len(rows),
        figure=Markup(_svg(data, alone=False)),
    )
