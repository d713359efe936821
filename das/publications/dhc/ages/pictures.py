"""Ages of places as pictures with intervals: pyramids of five years, single years, median ages.

A function of published values and of the intervals that replicates give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.model.not_private import Private
from das.publications.dhc.figures import FEMALE, MALE, steps, symmetric
from das.report.chart import Chart
from das.report.panel import INK, Look, Words, short
from das.report.template import render

AgeValues = NDArray[np.int64] | NDArray[np.float64]
#: The first years of classes of five years; the last has no end. Single years up to the last.
FIVE = (*range(0, 90, 5),)
LAST = 100
#: Classes of the table, by their first years and those of the next.
LISTED = {"under 5": (0, 5), "5-17": (5, 18), "18-64": (18, 65), "65 and over": (65, 999)}
_WHISKER = Look(INK, width=0.9)


@dataclass(frozen=True, eq=False)
class AgeCounts(Frozen):
    """Published values and the ends of their intervals, arrays of one shape; ``None``: there are
    no intervals."""

    value: AgeValues
    low: AgeValues | None = None
    high: AgeValues | None = None

    def of(self, unit: int) -> AgeCounts:
        """Those of one place."""
        if self.low is None or self.high is None:
            return AgeCounts(self.value[unit])
        return AgeCounts(self.value[unit], self.low[unit], self.high[unit])

    def ends(self) -> tuple[AgeValues, AgeValues]:
        """The ends, or twice the values."""
        if self.low is None or self.high is None:
            return self.value, self.value
        return self.low, self.high


@dataclass(frozen=True, eq=False)
class AgePictures(Frozen):
    """Places of a ``level``. By sex (male first): ``five`` ``(places, 2, 18)`` and ``single``
    ``(places, 2, 101)``; ``listed`` ``(places, classes)``; ``median`` ``(places,)`` in years.
    Intervals have the ``coverage``, from ``replicates``, with what they ``say``. ``left_out``:
    places that were asked for and are not shown."""

    level: str
    names: tuple[str, ...]
    five: AgeCounts
    single: AgeCounts
    listed: AgeCounts
    median: AgeCounts
    coverage: float | None
    replicates: int
    says: tuple[str, ...]
    left_out: int


def pyramid(five: AgeCounts, name: str) -> str:
    """Classes of five years, with intervals at the ends of their bars."""
    chart, edges = Chart(4.4, 3.7), np.array([*FIVE, 90])
    middle = (np.array(FIVE) + 2.5).tolist()
    low, high = five.ends()
    for sign, sex, colour, word in ((-1, 0, MALE, "men"), (1, 1, FEMALE, "women")):
        chart.area(*steps(sign * five.value[sex], edges), colour, opacity=0.75)
        if five.low is not None:
            ends = (sign * low[sex]).tolist(), (sign * high[sex]).tolist()
            at = (sign * five.value[sex]).tolist()
            chart.errors(at, middle, *ends, _WHISKER, cap=2.0, across=True)
        _word(chart, word, sign, colour, float(high.max(initial=1)))
    _axes(chart, float(high.max(initial=1)), 92.0, "persons in five years of age")
    return chart.svg(f"five-{name}", f"Age pyramid of {name}, classes of five years")


def single_years(single: AgeCounts, name: str) -> str:
    """Single years, with the band of their intervals."""
    chart, edges = Chart(4.4, 3.7), np.arange(LAST + 2)
    low, high = single.ends()
    for sign, sex, colour in ((-1, 0, MALE), (1, 1, FEMALE)):
        chart.area(*_band(sign * low[sex], sign * high[sex], edges), colour, opacity=0.3)
        chart.area(*steps(sign * single.value[sex], edges), "none", colour)
    most = float(high.max(initial=1))
    _axes(chart, most, LAST + 3.0, "persons of each year of age")
    return chart.svg(f"single-{name}", f"Age pyramid of {name}, single years")


def medians(pictures: AgePictures) -> str:
    """The median age of each place."""
    value, (low, high) = pictures.median.value, pictures.median.ends()
    chart = Chart(6.4, 0.9 + 0.32 * len(pictures.names))
    rows = np.arange(len(value), dtype=float).tolist()
    chart.plot(value.tolist(), rows, Look(INK, mark="o", size=5))
    there = np.isfinite(low) & np.isfinite(high)  # somebody is in all replicates
    if pictures.median.low is not None and there.any():
        at, row, one, other = (x[there].tolist() for x in (value, np.array(rows), low, high))
        chart.errors(at, row, one, other, _WHISKER, cap=2.5, across=True)
    chart.rows([short(n) for n in pictures.names], grid=True)
    chart.x.label = "median age, years"
    chart.finish("", 0)
    return chart.svg("medians", "Median age by place")


def ages_html(pictures: AgePictures, title: str, *, private: Private) -> str:
    """The page. The same arguments give the same page."""
    places = range(len(pictures.names))
    drawn = [
        (
            pictures.names[i],
            Markup(pyramid(pictures.five.of(i), pictures.names[i])),
            Markup(single_years(pictures.single.of(i), pictures.names[i])),
        )
        for i in places
    ]
    return render(
        "ages.html",
        private=private,
        title=title,
        pictures=pictures,
        percent="" if pictures.coverage is None else f"{100 * pictures.coverage:g}",
        medians=Markup(medians(pictures)),
        drawn=drawn,
        classes=tuple(LISTED),
        lines=[(pictures.names[i], pictures.listed.of(i), pictures.median.of(i)) for i in places],
    )


def _word(chart: Chart, word: str, sign: int, colour: str, most: float) -> None:
    anchor = "start" if sign < 0 else "end"
    chart.say(Words(word, sign * 1.02 * most, 88, anchor=anchor, bold=True, colour=colour))


def _axes(chart: Chart, most: float, top: float, label: str) -> None:
    chart.x.low, chart.x.high = -1.06 * most, 1.06 * most
    chart.y.low, chart.y.high = 0.0, top
    chart.rule(0, upright=True, colour="#fff")
    symmetric(chart, most, lambda x: f"{abs(x):,.0f}")
    chart.y.ticks = [(float(a), str(a)) for a in range(0, int(top), 20)]
    chart.x.label, chart.y.label = label, "age"
    chart.finish("", 0)


def _band(
    low: AgeValues, high: AgeValues, edges: NDArray[np.int64]
) -> tuple[Sequence[float], Sequence[float]]:
    """Between two outlines."""
    (x, y), (back, down) = steps(low, edges), steps(high, edges)
    return [*x[1:-1], *reversed(back[1:-1])], [*y[1:-1], *reversed(down[1:-1])]
