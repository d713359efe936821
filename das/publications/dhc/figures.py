"""Figures of the page of the DHC: pyramids of age, and shares of households."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.model.spine import Spine
from das.report import answers as lookup
from das.report.answers import Answers, LookUp
from das.report.chart import Chart
from das.report.panel import INCH, INK, RULE, MarkStyle, Words, element, even_steps, moved, short

# The look-up of the DHC's page: headline counts of every place, of all that its tables have.
#
# A function of published values alone.

#: Units of the largest level that is looked up.
MOST_UNITS = 100_000

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HeadlineCounts:
    """Counts of one level: of a ``universe`` in classes that have ``labels``, ``(units, classes)``.
    A total has the query ``total``."""

    universe: str
    query: str
    title: str
    labels: tuple[str, ...]
    counts: Ints


def looked_up(spine: Spine) -> tuple[str, ...]:
    """The levels that are looked up, from the root down."""
    small = [spine.units(level) <= MOST_UNITS for level in spine.levels]
    return spine.levels[: small.index(False) if False in small else len(small)]


def dhc_lookup(
    spine: Spine, counts: Mapping[str, list[HeadlineCounts]], example: str
) -> tuple[str, list[str]]:
    """The data of the look-up, opened at the largest unit of the level ``example``, and the levels
    that it leaves out. ``counts`` are those of each level of :func:`looked_up`."""
    n = len(counts)
    part = Spine(spine.levels[:n], spine.codes[:n], spine.parent[:n], spine.names[:n])
    answers = tuple(
        Answers(h.universe, level, h.query, h.title, h.labels, h.counts, None, None, False)
        for level, of in counts.items()
        for h in of
    )
    shown = LookUp(part, answers, part.levels)
    first = example if example in part.levels else part.levels[0]
    most = int(shown.total(shown.universes[0], first).published[:, 0].argmax())
    data, left_out = lookup.brief(shown, (first, most))
    return data, [*left_out, *spine.levels[n:]]


# What the page of the DHC shows of some units, as numbers.


@dataclass(frozen=True, eq=False)
class PlaceProfiles(Frozen):
    """What the page shows of some units, the root first and then those of a ``level``, the largest
    first.

    ``ages`` are persons by sex (male first) and year of age, ``(units, 2, ages)``; ``away`` those
    of them in group quarters, ``(units,)``; ``tenure`` and ``types`` households, ``(units,
    classes)``, by classes that have ``*_labels``; ``vacant`` units and ``facilities`` of group
    quarters, ``(units,)``."""

    level: str
    names: tuple[str, ...]
    ages: Ints
    away: Ints
    tenure: Ints
    tenure_labels: tuple[str, ...]
    types: Ints
    type_labels: tuple[str, ...]
    vacant: Ints
    facilities: Ints

    @property
    def persons(self) -> Ints:
        return self.ages.sum(axis=(1, 2))

    @property
    def households(self) -> Ints:
        return self.tenure.sum(axis=1)

    def first(self, units: int) -> PlaceProfiles:
        """The root and the first ``units`` units."""
        n = units + 1
        return PlaceProfiles(
            self.level,
            self.names[:n],
            self.ages[:n],
            self.away[:n],
            self.tenure[:n],
            self.tenure_labels,
            self.types[:n],
            self.type_labels,
            self.vacant[:n],
            self.facilities[:n],
        )


def median_age(by_age: Ints) -> float | None:
    """Of persons by year of age ``(ages,)``, the ages of a year spread evenly over it: half are
    younger. Of nobody, none.

    >>> (
    ...     median_age(np.array([0, 2, 2])),
    ...     median_age(np.array([0, 0, 4])),
    ...     median_age(np.zeros(3, dtype=int)),
    ... )
    (2.0, 2.5, None)"""
    total = int(by_age.sum())
    if not total:
        return None
    upto = np.cumsum(by_age)
    year = int(np.searchsorted(2 * upto, total))
    return float(year + (total / 2 - (upto[year] - by_age[year])) / by_age[year])


MALE, FEMALE = "#0072B2", "#D55E00"
#: Older than the last year are one class.
LAST = 100
_EDGES = (*range(0, 90, 5),)
#: Face, and what can be read on it; in the order of the classes.
_FACES = (
    ("#0072B2", "white"),
    ("#8CC4E8", INK),
    ("#009E73", "white"),
    ("#F0C35A", INK),
    ("#D55E00", "white"),
    ("#D0D0D0", INK),
)
#: From which share on a part has its number in it.
_SAID = 0.07


def pyramid(places: PlaceProfiles) -> str:
    """The age pyramid of the root, by year of age; three stages of life are marked at its side."""
    men, women = _to(places.ages[0], LAST)
    chart = Chart(4.9, 6.1)
    for values, color in ((-men, MALE), (women, FEMALE)):
        chart.area(*steps(values, np.arange(LAST + 2)), color)
    most = max(1, int(men.max(initial=0)), int(women.max(initial=0)))
    chart.x.low, chart.x.high = -1.5 * most, 1.5 * most
    chart.y.low, chart.y.high = 0.0, LAST + 1.0
    chart.rule(0, upright=True, color="#fff")
    for sign, word, of, color in ((-1, "men", men, MALE), (1, "women", women, FEMALE)):
        anchor = "start" if sign < 0 else "end"
        for i, line in enumerate((word, f"{int(of.sum()):,}")):
            chart.say(
                Words(
                    line,
                    sign * 1.48 * most,
                    LAST - 1,
                    dy=11 * i,
                    anchor=anchor,
                    rise=0.75,
                    size=9,
                    bold=True,
                    color=color,
                )
            )
    _ages_of_life(chart, men + women, 1.48 * most)
    symmetric(chart, 1.5 * most, lambda x: f"{abs(x):,.0f}")
    chart.y.ticks = [(float(a), f"{a}" + "+" * (a == LAST)) for a in range(0, LAST + 1, 10)]
    chart.y.label, chart.x.label = "age", "persons of each year of age"
    middle = median_age(places.ages[0].sum(axis=0))
    half = "" if middle is None else f": half are younger than {middle:.1f}"
    chart.finish(places.names[0] + half, 0)
    return chart.svg("pyramid", f"Age pyramid of {places.names[0]}")


def steps(
    values: NDArray[np.floating | np.integer], edges: NDArray[np.floating | np.integer]
) -> tuple[list[float], list[float]]:
    """The outline, across and upwards, of a box for each value between two edges, from zero."""
    across = np.concatenate([[0.0], np.repeat(values, 2), [0.0]])
    return across.tolist(), np.repeat(edges, 2).tolist()


def _ages_of_life(chart: Chart, by_age: Ints, x: float) -> None:
    total = int(by_age.sum())
    for first, stop, word in (
        (0, 18, "under 18"),
        (18, 65, "18 to 64"),
        (65, len(by_age), "65 and over"),
    ):
        if first:
            chart.rule(first, width=0.6, dash=":")
        if total:
            share = f"{100 * int(by_age[first:stop].sum()) / total:.1f} %"
            for line, dy in ((word, -5), (share, 5)):
                chart.say(Words(line, x, (first + min(stop, 85)) / 2, dy=dy, anchor="end"))


def pyramids(places: PlaceProfiles) -> str:
    """Age pyramids of units, in classes of five years as shares of their persons; the outline is
    the root."""
    n = len(places.names) - 1
    columns = n if n <= 5 else 4
    rows = -(-n // columns)
    width, height = 9.6 / columns, 2.15
    share = np.stack([_five_years(a) for a in places.ages])
    most = 1.1 * max(share.max(initial=0.0), 0.01)
    parts = []
    for i in range(n):
        titles = [*short(places.names[i + 1]).splitlines(), f"{int(places.persons[i + 1]):,}"]
        last = i + columns >= n
        chart = _small(share[i + 1], share[0], most, width, height)
        symmetric(chart, most, lambda x: f"{abs(100 * x):.3g} %" if last else "")  # noqa: B023
        ages = [(float(a), str(a) if i % columns == 0 else "") for a in (0, 20, 40, 60, 80)]
        chart.y.ticks, chart.left, chart.below, chart.title_size = ages, 24.0, 20.0, 9.0
        chart.finish("\n".join(titles), 0)
        row, column = divmod(i, columns)
        parts.append(moved(chart.drawn(f"pyramids{i}"), INCH * width * column, INCH * height * row))
    return element(
        "pyramids",
        f"Age pyramids in five years; outline: {places.names[0]}",
        INCH * 9.6,
        INCH * height * rows,
        "\n".join(parts),
    )


def _small(
    place: NDArray[np.float64], root: NDArray[np.float64], most: float, width: float, height: float
) -> Chart:
    """One of many, without the words at its axes."""
    chart, edges = Chart(width, height), np.array([*_EDGES, 90])
    for sign, sex, color in ((-1, 0, MALE), (1, 1, FEMALE)):
        chart.area(*steps(sign * place[sex], edges), color, opacity=0.75)
        chart.area(*steps(sign * root[sex], edges), "none", INK)
    chart.x.low, chart.x.high, chart.y.low, chart.y.high = -most, most, 0.0, 94.5
    return chart


def _five_years(ages: Ints) -> NDArray[np.float64]:
    """Shares by sex of all persons, ``(2, 18)``, the last of 85 and over."""
    return np.add.reduceat(ages, _EDGES, axis=1) / max(1, int(ages.sum()))


def _to(ages: Ints, last: int) -> Ints:
    return np.concatenate([ages[:, :last], ages[:, last:].sum(axis=1, keepdims=True)], axis=1)


def symmetric(chart: Chart, most: float, words: Callable[[float], str]) -> None:
    """Ticks alike on both sides of zero."""
    side = [v for v in even_steps(0, most, 2) if v > 0]
    chart.x.ticks = [(v, words(v)) for v in (*(-v for v in reversed(side)), 0.0, *side)]
    chart.y.grid = False


def shares(names: Sequence[str], counts: Ints, labels: Sequence[str], title: str, name: str) -> str:
    """A bar for each unit, of the shares of its households in classes, with their number at its
    end."""
    total = counts.sum(axis=1)
    share = counts / np.maximum(total, 1)[:, None]
    left = np.cumsum(share, axis=1) - share
    chart = Chart(4.9, 1.15 + 0.26 * len(names) + 0.16 * -(-len(labels) // 2))
    for j, (label, (face, ink)) in enumerate(zip(labels, _FACES, strict=False)):
        ends = zip(left[:, j].tolist(), (left + share)[:, j].tolist(), strict=True)
        rows = [(a, b, y - 0.37, y + 0.37) for y, (a, b) in enumerate(ends)]
        chart.bars(rows, MarkStyle("#fff", face=face, width=0.5), label)
        for y in np.flatnonzero(share[:, j] >= _SAID).tolist():
            middle = float(left[y, j] + share[y, j] / 2)
            part = f"{100 * share[y, j]:.0f}"
            chart.say(Words(part, middle, y, anchor="middle", color=ink))
    for y, households in enumerate(total.tolist()):
        chart.say(Words(f"{households:,}", 1.01, y))
    if len(names) > 1:
        chart.rule(0.5, color=RULE)
    chart.x.low, chart.x.high, chart.x.ticks = 0.0, 1.0, []
    chart.x.line = chart.y.line = False
    chart.rows([short(n) for n in names])
    chart.finish(f"{title}, % of households", 2)
    return chart.svg(name, f"{title} by place, shares of households")


# The ages of places on a page of the DHC: lines of its table, and pyramids.

#: Units with a pyramid of their own, and in the table, the largest first.
PYRAMIDS, LISTED = 8, 120


@dataclass(frozen=True)
class AgedPlace:
    """A unit in the table; shares are of 1, and there is none of nothing."""

    name: str
    persons: int
    median: float | None
    young: float | None
    old: float | None
    away: int


def aged(p: PlaceProfiles) -> list[AgedPlace]:
    """One for each unit."""
    out = []
    for name, ages, away in zip(p.names, p.ages.sum(axis=1), p.away.tolist(), strict=True):
        persons = int(ages.sum())
        young, old = (share(x.sum(), persons) for x in (ages[:18], ages[65:]))
        out.append(AgedPlace(name, persons, median_age(ages), young, old, away))
    return out


def share(part: float, whole: int) -> float | None:
    """A share of 1, where there is something to share."""
    return float(part) / whole if whole else None


def drawn(places: PlaceProfiles) -> dict[str, Any]:
    """What ``pyramids.html`` and the table of the places need, besides the lines of the table."""
    some = places.first(PYRAMIDS)
    return {
        "left_out_places": max(0, len(places.names) - 1 - LISTED),
        "level": places.level,
        "pyramid": Markup(pyramid(places)),
        "pyramids": Markup(pyramids(some)) if len(places.names) > 1 else "",
        "pyramids_drawn": len(some.names) - 1,
    }
