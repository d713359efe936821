"""``confidential/compare.html``: noisy measurements and published counts side by side, by query and
by size of the true count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from markupsafe import Markup

from das.model.error_rows import CLASSES, Comparison
from das.model.names import level_words
from das.model.not_private import Private
from das.report.chart import Chart
from das.report.figures import BETWEEN, PUBLISHED, SERIES, class_ticks, height_of
from das.report.panel import Look, Words, short
from das.report.template import render


def compare_page(
    rows: Sequence[Comparison], name: str, private: Private, titles: Mapping[str, str]
) -> str:
    """One self-contained page: for each level a panel of ratios and a panel of biases, then the
    table. ``titles`` are words for queries."""
    levels = list(dict.fromkeys(r.level for r in rows))
    panels = []
    for i, level in enumerate(levels):
        here = [r for r in rows if r.level == level and r.ratio is not None]
        if here:
            ratios, biases = (
                _ratios(here, level, f"r{i}", titles),
                _biases(here, level, f"b{i}", titles),
            )
            panels.append((level, Markup(ratios), Markup(biases)))
    table = [r for r in rows if r.bin == "all"]
    return render(
        "compare.html", name=name, private=private, panels=panels, rows=table, titles=titles
    )


def _ratios(rows: Sequence[Comparison], level: str, name: str, titles: Mapping[str, str]) -> str:
    """MAE of the published counts over that of the measurements: a mark for each query, coarse to
    fine.
    """
    every = [r for r in rows if r.bin == "all"]
    words = [short(titles.get(r.query, r.query)) for r in every]
    chart = Chart(4.6, 0.95 + height_of(words, 0.14))
    chart.x.log = True
    chart.rule(1, upright=True)
    for y, r in enumerate(every):
        x = max(r.ratio or 0, 1e-4)
        if r.ratio:
            chart.plot([1, x], [y, y], Look(BETWEEN, "-", width=1.2), z=1)
        else:
            chart.say(Words("no error", x, y, 8))
        chart.plot([x], [y], Look(PUBLISHED, mark="s"))
    chart.rows(words)
    chart.ends_at("MAE published / MAE noisy (log scale)")
    chart.finish(level_words(level), 0)
    return chart.svg(name, f"Ratio of mean absolute errors by query: {level}")


def _biases(rows: Sequence[Comparison], level: str, name: str, titles: Mapping[str, str]) -> str:
    """Mean error by class of the true count, with its interval, for the coarsest and the finest
    query.
    """
    queries = list(dict.fromkeys(r.query for r in rows))
    queries = list(dict.fromkeys([queries[0], queries[-1]]))
    classes = [c for c in CLASSES if any(r.bin == c for r in rows)]
    chart = Chart(4.6, 2.9)
    chart.rule(0)
    for k, (query, (colour, marker, _)) in enumerate(zip(queries, SERIES, strict=False)):
        at = {r.bin: r for r in rows if r.query == query}
        here = [(i + 0.12 * k, at[c]) for i, c in enumerate(classes) if c in at]
        x, y = [x for x, _ in here], [r.bias_published for _, r in here]
        low = [r.bias_published if r.bias_low is None else r.bias_low for _, r in here]
        high = [r.bias_published if r.bias_high is None else r.bias_high for _, r in here]
        title, noisy = titles.get(query, query), [r.bias_noisy or 0.0 for _, r in here]
        chart.errors(x, y, low, high, Look(colour))
        chart.plot(x, y, Look(colour, mark=marker, size=5), f"{title}, published")
        chart.plot(x, noisy, Look(colour, mark=marker, face="#fff", size=5), f"{title}, noisy", z=1)
    chart.y.threshold, chart.y.margin = 0.1, 0.1
    class_ticks(chart, classes)
    chart.ends_at("true count")
    chart.y.label = "mean of count − true count"
    chart.finish(level_words(level), 2)
    return chart.svg(name, f"Bias by size of the true count: {level}")


# Rows of a comparison of published counts with what measurements say about the same places.


@dataclass(frozen=True)
class PublishedCountRow:
    """One count of one place: as ``published``, and the unbiased ``estimate`` from all
    measurements, its ``standard_error``, and the interval ``low`` to ``high``. ``outside`` is 1
    where the published count is not in it. A place that nothing tells has no row."""

    level: str
    code: str
    geoid: str
    name: str
    field: str
    label: str
    published: int
    estimate: float
    standard_error: float
    low: int
    high: int
    outside: int


@dataclass(frozen=True)
class PublishedShareRow:
    """One count over all places of a level, or of a kind of area.

    ``share_outside``: how many of the ``places``, in percent, have a published count that is not in
    their interval. ``exact`` of them are known exactly, and left out of what follows.
    ``difference`` is the mean absolute difference of published count and estimate. ``error`` is the
    mean standard error. ``z_square`` is the mean of squared differences in standard errors; for the
    truth itself it is 1 on average."""

    level: str
    field: str
    label: str
    places: int
    exact: int
    share_outside: float
    difference: float | None
    error: float | None
    z_square: float | None


# The page of published counts next to what the measurements say: "the count of your town, and how
# sure it is".
#
# A function of published values alone, so it is as public as they are.

#: Places that a page lists, level by level from the upper ones: those of a level that has no room
#: are in the file of all.
ROOM = 4000


@dataclass(frozen=True)
class ListedPlace:
    """One place of the list: its level, title and GEOID, and its first counts."""

    level: str
    title: str
    geoid: str
    counts: tuple[PublishedCountRow, ...]


@dataclass(frozen=True)
class PublishedPage:
    """What the page shows. ``lines`` are places with room for them, and ``left_out`` the levels
    without; ``fields`` are the counts of a line."""

    name: str
    source: str
    coverage: float
    shares: tuple[PublishedShareRow, ...]
    fields: tuple[tuple[str, str], ...]
    lines: tuple[ListedPlace, ...]
    left_out: tuple[str, ...]
    elsewhere: int
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(
        name: str,
        source: str,
        coverage: float,
        rows: Sequence[PublishedCountRow],
        shares: Sequence[PublishedShareRow],
        elsewhere: int,
        notes: Sequence[str],
        most: int = 3,
    ) -> PublishedPage:
        """With the first ``most`` counts of each place."""
        fields = list(dict.fromkeys((r.field, r.label) for r in rows))[:most]
        shown = [r for r in rows if (r.field, r.label) in fields]
        lines: list[ListedPlace] = []
        left_out = []
        for level, group in groupby(shown, key=attrgetter("level")):
            places = [
                ListedPlace(
                    level,
                    f"{first.name} ({first.code})" if first.name else first.code,
                    first.geoid,
                    counts,
                )
                for _, of in groupby(group, key=attrgetter("code"))
                for counts in [tuple(of)]
                for first in [counts[0]]
            ]
            if len(lines) + len(places) > ROOM:
                left_out.append(level)
            else:
                lines += places
        return PublishedPage(
            name, source, coverage, tuple(shares), tuple(fields), tuple(lines), tuple(left_out),
            elsewhere, tuple(notes),
        )  # fmt: skip

    def html(self, private: Private) -> str:
        """The page. The same values give the same page."""
        return render(
            "published.html", page=self, percent=f"{100 * self.coverage:g}", private=private
        )
