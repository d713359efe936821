"""A map of one number for each unit, in classes: as a page, or as a drawing alone."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from das.errors import UserError
from das.model.histogram import Histogram
from das.model.names import NOT_COUNTED
from das.model.not_private import COLUMN, Private
from das.model.query import Query
from das.model.spelling import named
from das.model.spelling import query as spelt
from das.model.universe import Universe
from das.release.replicate_source import ReleaseSource
from das.report.answers import titled
from das.report.panel import EDGE, INK, MarkStyle, element, key, pt, text
from das.report.template import render, whole
from das.tables import Table

#: ColorBrewer's Blues and PuOr, which everybody can tell apart; and what has no number.
BLUES = ("#eff3ff", "#bdd7e7", "#6baed6", "#3182bd", "#08519c")
BOTH = ("#e66101", "#fdb863", "#f7f7f7", "#b2abd2", "#5e3c99")
NONE = "#d9d9d9"
#: How the numbers are printed: whole numbers, per cent, or a density per square mile.
Form = Literal["whole", "percent", "density"]
#: The most points across and upwards that the areas of a map take.
_ROOM = np.array([389.0, 300.0])
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
    [(-9.0, -3.0), (-2.0, -1.0), (0.0, 0.0), (1.0, 2.0), (3.0, 3.0)]"""
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
        (low, high, color)
        for (low, high), color in zip(ranges, BOTH, strict=True)
        if ((known >= low) & (known <= high)).any()
    ]


def _classed(data: Choropleth) -> list[tuple[str, str, list[int]]]:
    """For each class: the text of the legend, its color, and its units with a boundary; units
    without a number come last."""
    found, out = classes(data.values, data.signed), []
    there = np.array([bool(len(s)) for s in data.shapes], dtype=bool)
    for low, high, color in found:
        last = high == found[-1][1] or data.form == "whole"
        inside = (data.values >= low) & (data.values <= high if last else data.values < high)
        units = np.flatnonzero(inside & there).tolist()
        between = "to" if last else "to below"
        words = data.text(low) if low == high else f"{data.text(low)} {between} {data.text(high)}"
        out.append((f"{words} ({len(units):,})", color, units))
    if blank := np.flatnonzero(np.isnan(data.values) & there).tolist():
        out.append((f"no number ({len(blank):,})", NONE, blank))
    return out


def drawing(data: Choropleth, *, alone: bool) -> str:
    """The map as an ``<svg>`` element: areas, each with its :meth:`~Choropleth.tooltip`, above the
    legend; ``alone``: below its title and its marks. One unit of the boundaries is as long across
    as upwards."""
    groups = _classed(data)
    rings = [ring for rings in data.shapes for ring in rings]
    low, high = (
        (end([end(ring, axis=0) for ring in rings], axis=0) if rings else np.zeros(2))
        for end in (np.min, np.max)
    )
    marks = [COLUMN] * (not data.private) + ["Confidential"] * data.confidential
    head = [*marks, *textwrap.wrap(data.title, 60)] if alone else []
    out = [text(line, EDGE, EDGE + 10 + 12 * i, 10, bold=True) for i, line in enumerate(head)]
    scale = float(np.min((_ROOM - 2 * EDGE) / np.maximum(high - low, 1e-12))) if rings else 0.0
    corner = np.array([EDGE, EDGE + 12 * len(head) + 6 * bool(head)])
    for _, color, units in groups:
        out.append(f'<g fill="{color}" stroke="{INK}" stroke-width="0.3" fill-rule="evenodd">')
        out += [_area(data, u, low[0], high[1], scale, corner) for u in units]
        out.append("</g>")
    bottom = float(corner[1] + scale * (high - low)[1]) + 12
    rows = -(-len(groups) // 2)
    for i, (words, color, _) in enumerate(groups):
        column, row = divmod(i, rows)
        x, y = EDGE + 3 + column * _ROOM[0] / 2, bottom + 14 * row
        out.append(key(x, y, MarkStyle(INK, face=color, width=0.4), box=True))
        out.append(text(words, x + 22, y + 3.5, 10))
    return element("map", data.title, _ROOM[0], bottom + 14 * rows, "\n".join(out))


def _area(
    data: Choropleth,
    unit: int,
    west: float,
    north: float,
    scale: float,
    corner: NDArray[np.float64],
) -> str:
    """The boundary of a unit, with its name and number for the pointer."""
    rings = [corner + scale * (ring - (west, north)) * (1, -1) for ring in data.shapes[unit]]
    path = "".join(
        "M" + "L".join(f"{pt(x)} {pt(y)}" for x, y in ring.tolist()) + "z" for ring in rings
    )
    return f'<path d="{path}"><title>{escape(data.tooltip(unit))}</title></path>'


def map_page(data: Choropleth) -> str:
    """The map with its numbers, on one page that needs no network."""
    order = np.argsort(-np.abs(np.nan_to_num(data.values, nan=-1)), kind="stable")[:LISTED].tolist()
    rows = [(data.units[i], None if np.isnan(data.values[i]) else data.values[i]) for i in order]
    return render(
        "map.html",
        confidential=data.confidential,
        data=data,
        private=data.private,
        rows=rows,
        more=len(data.units) - len(rows),
        figure=Markup(drawing(data, alone=False)),
    )


# One number of each place of a release, of whatever publication: an answer to a query, or a line
# of a published table.
#
# Like ``das.release.post_processing``, nothing here can see the truth.

#: Answers or lines that a message lists.
LISTED_COUNTS = 20


@dataclass(frozen=True, eq=False)
class OneCount:
    """A count of records of one universe: the sum of the answers to ``query``, each taken ``times``
    over, ``(answers,)``.

    ``of`` is the request as it was written; ``says`` what is counted, in words. ``line`` is the
    table and its column, where it is one."""

    universe: Universe
    query: Query
    times: NDArray[np.int64]
    of: str
    says: str
    line: tuple[Table, int] | None = None

    @property
    def cells(self) -> NDArray[np.bool_]:
        """The cells that are counted, ``(cells,)``."""
        return (self.times > 0)[self.query.index]

    def values(self, h: Histogram) -> NDArray[np.int64]:
        """The count in each unit, ``(units,)``."""
        counted = self.times[self.query.at(h.cell)] * h.count
        return np.diff(np.concatenate([[0], np.cumsum(counted)])[h.indptr])


def chosen(
    source: ReleaseSource, universe: str | None, query: str, table: str | None, answer: str | None
) -> OneCount:
    """The count that a person asks for.

    It is a ``query`` of a ``universe`` (persons, where none is named), or a ``table``, and one
    ``answer`` or line of it. That is given by its words, its number from 1, or the field of a line.
    Raises :class:`UserError` for anything that does not exist."""
    every = {u.name: u for u in source.universes}
    name = None if universe is None else named(universe, [*every], "universe", "--universe")
    if table is not None:
        return _line(source, name, table, answer)
    u = every[name or next(iter(every))]
    q = u.schema.query(spelt(query, u.schema, (), "--query"))
    labels, title = q.captions(), titled(q, source.assigned(u))
    i = _which(q.name, labels, (), answer)
    what = labels[i] if len(labels) > 1 else u.schema.words.total
    said = f"{what} of {title}" if NOT_COUNTED in title else what
    times = np.zeros(q.answers, dtype=np.int64)
    times[i] = 1
    return OneCount(u, q, times, q.name, said)


def _line(source: ReleaseSource, universe: str | None, table: str, answer: str | None) -> OneCount:
    every = [t for u, t in source.tables if universe is None or u.name == universe]
    name = named(table, [t.name for t in every], "table", "--table")
    t = next(t for t in every if t.name == name)
    j = _which(t.name, t.labels, t.columns, answer)
    says = f"{t.full_label(j)} ({t.columns[j]}, {t.title})"
    return OneCount(source.universe(t), t.query, t.times(j), t.name, says, (t, j))


def _which(shown: str, labels: Sequence[str], fields: Sequence[str], answer: str | None) -> int:
    """Which of the answers to a query, or of the lines of a table, is meant."""
    if answer is None and len(labels) == 1:
        return 0
    listed = "; ".join(f"{k}: {x}" for k, x in enumerate(labels[:LISTED_COUNTS], 1))
    listed += f"; and {len(labels) - LISTED_COUNTS:,} more" if len(labels) > LISTED_COUNTS else ""
    if answer is None:
        raise UserError(
            f"{shown!r} has {len(labels):,} answers, and a map shows one",
            where="--answer",
            remedy=f"choose by number or name, of {listed}",
        )
    if answer.isdigit() and 1 <= int(answer) <= len(labels):
        return int(answer) - 1
    meant = answer.strip().casefold()
    same = [k for k, x in enumerate(labels) if x.casefold() == meant]
    same = [k for k, x in enumerate(fields) if x.casefold() == meant] or same
    if len(same) != 1:
        lines = " and ".join(str(k + 1) for k in same)
        raise UserError(
            f"no answer {answer!r} to {shown!r}"
            if not same
            else f"{answer!r} is {lines} of {shown!r}",
            where="--answer",
            remedy=f"choose of {listed}" if not same else "choose one by its number",
        )
    return same[0]
