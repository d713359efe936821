"""A map of one number for each unit, in classes: as a page, or as a picture alone."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

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
from das.report.printed import STYLE, svg
from das.report.template import environment, whole

#: ColorBrewer's Blues and PuOr, which everybody can tell apart; and what has no number.
BLUES = ("#eff3ff", "#bdd7e7", "#6baed6", "#3182bd", "#08519c")
BOTH = ("#e66101", "#fdb863", "#f7f7f7", "#b2abd2", "#5e3c99")
NONE = "#d9d9d9"
#: Units of which the page lists the numbers.
LISTED = 1000


@dataclass(frozen=True, eq=False)
class Choropleth:
    """``values[i]`` is the number of unit ``i``, NaN where it has none; ``shapes[i]`` are its
    rings, none where there is no boundary of it. ``signed``: numbers are differences, and zero is
    the middle. ``lacks`` says in words what has no number or no boundary."""

    title: str
    says: Sequence[str]
    units: Sequence[str]
    shapes: Sequence[Sequence[NDArray[np.float64]]]
    values: NDArray[np.float64]
    signed: bool
    lacks: Sequence[str]
    confidential: bool
    private: Private


def classes(values: NDArray[np.float64], signed: bool) -> list[tuple[float, float, str]]:
    """Lowest and highest value, both included, and colour of each class that occurs, from the
    lowest. Whole numbers.

    >>> [c[:2] for c in classes(np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), False)]
    [(0.0, 1.0), (2.0, 3.0), (4.0, 5.0), (6.0, 7.0), (8.0, 9.0)]
    >>> [c[:2] for c in classes(np.array([-9.0, -1, 0, 2, 3]), True)]
    [(-9.0, -9.0), (-1.0, -1.0), (0.0, 0.0), (2.0, 2.0), (3.0, 3.0)]
    """
    known = np.sort(values[~np.isnan(values)])
    if not len(known):
        return []
    if signed:
        middle = np.median(np.abs(known[known != 0])) if known.any() else 1.0
        group = np.sign(known) * (1 + (np.abs(known) > middle)) * (known != 0)
        return [
            (float(known[group == g].min()), float(known[group == g].max()), BOTH[int(g) + 2])
            for g in (-2, -1, 0, 1, 2)
            if (group == g).any()
        ]
    cuts = np.unique(np.quantile(known, [0.2, 0.4, 0.6, 0.8], method="higher"))
    at = np.searchsorted(cuts, known, side="right")
    found = np.unique(at)
    shades = BLUES[-len(found) :] if len(found) > 1 else BLUES[2:3]
    return [
        (float(known[at == k].min()), float(known[at == k].max()), c)
        for k, c in zip(found, shades, strict=True)
    ]


def _drawn(data: Choropleth, *, alone: bool) -> Figure:
    """The map with its legend; ``alone``, with its title and with what must be said of it above."""
    fig = Figure(figsize=(5.4, 5.0), layout="constrained")
    ax = fig.add_subplot()
    found = classes(data.values, data.signed)
    legend = []
    for low, high, colour in found:
        inside = [
            s for s, v in zip(data.shapes, data.values, strict=True) if low <= v <= high and len(s)
        ]
        _fill(ax, inside, colour)
        words = whole(low) if low == high else f"{whole(low)} to {whole(high)}"
        legend.append(
            Patch(
                facecolor=colour, edgecolor=INK, linewidth=0.4, label=f"{words} ({len(inside):,})"
            )
        )
    if blank := [
        s for s, v in zip(data.shapes, data.values, strict=True) if np.isnan(v) and len(s)
    ]:
        _fill(ax, blank, NONE)
        legend.append(
            Patch(facecolor=NONE, edgecolor=INK, linewidth=0.4, label=f"no number ({len(blank):,})")
        )
    ax.set_aspect("equal")
    ax.autoscale_view()
    ax.set_axis_off()
    marks = [COLUMN] * (not data.private) + ["Confidential"] * data.confidential
    if alone:
        words = "\n".join([*marks, *textwrap.wrap(data.title, 60)])
        fig.suptitle(words, fontsize=10, fontweight="bold", x=0.01, ha="left")
    fig.legend(handles=legend, loc="outside lower left", ncols=3, frameon=False, fontsize=8)
    return fig


def _fill(ax: mpl.axes.Axes, shapes: Sequence[Sequence[NDArray[np.float64]]], colour: str) -> None:
    outlines = [
        Outline.make_compound_path(*(Outline(ring, closed=True) for ring in rings))
        for rings in shapes
    ]
    if outlines:
        ax.add_collection(PathCollection(outlines, facecolor=colour, edgecolor=INK, linewidth=0.3))
        ax.update_datalim(np.concatenate([ring for rings in shapes for ring in rings]))


@mpl.rc_context(STYLE)
def picture(data: Choropleth, form: str) -> bytes:
    """The map alone, as ``svg`` or ``png``."""
    if form == "svg":
        return (svg(_drawn(data, alone=True), "map", data.title) + "\n").encode()
    out = io.BytesIO()
    _drawn(data, alone=True).savefig(out, format=form, dpi=200, facecolor="white")
    return out.getvalue()


@mpl.rc_context(STYLE)
def map_page(data: Choropleth) -> str:
    """The map with its numbers, on one page that needs no network."""
    order = np.argsort(-np.abs(np.nan_to_num(data.values, nan=-1)), kind="stable")[:LISTED].tolist()
    rows = [(data.units[i], None if np.isnan(data.values[i]) else data.values[i]) for i in order]
    return (
        environment()
        .get_template("map.html")
        .render(
            data=data,
            private=data.private,
            rows=rows,
            more=len(data.units) - len(rows),
            figure=Markup(svg(_drawn(data, alone=False), "map", data.title)),
        )
    )
