"""``confidential/report.html``: the errors of a run and its description, on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from das.model.error_rows import ErrorRow, SizeRow
from das.model.frozen import NoRepr
from das.model.names import level_inside, level_words
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import kind_of
from das.report import answers as lookup
from das.report import facts as figures
from das.report.answers import AnswerKey, Answers, LookUp
from das.report.chart import Chart
from das.report.facts import (
    BIAS_QUERIES,
    CLASSES,
    NOISY,
    PUBLISHED,
    SERIES,
    Facts,
    class_ticks,
    titles,
)
from das.report.panel import INK, MarkStyle, decades, plain, short
from das.report.privacy import cause, remedy
from das.report.template import render

# Confidential figures: how errors spread, and what post-processing trades for variance.

Ints = NDArray[np.int64]
#: The fewest units for a histogram, and its most bars.
FEWEST, BARS = 20, 31
TRADE_LEVELS = 3


def spread_of_totals(shown: LookUp, true: Mapping[AnswerKey, Ints]) -> list[str]:
    """Errors of the total of persons: a box for each level and source, and a histogram of every
    larger level."""
    errors = {level: _errors(shown, true, level) for level in shown.spine.levels}
    panels = [_boxes(errors)]
    for i, (level, sides) in enumerate(errors.items()):
        if max(len(e) for e in sides.values()) >= FEWEST and any(e.any() for e in sides.values()):
            panels.append(_histogram(sides, level, f"e{i}"))
    return panels


def _errors(shown: LookUp, true: Mapping[AnswerKey, Ints], level: str) -> dict[str, Ints]:
    total = shown.total(shown.universes[0], level)
    truth = true[total.key][:, 0]
    out = {"published": total.published[:, 0] - truth}
    if total.noisy is not None and total.measured.any():
        out["noisy measurements"] = (total.noisy[:, 0] - truth)[total.measured]
    return out


def _boxes(errors: Mapping[str, Mapping[str, Ints]]) -> str:
    chart = Chart(4.6, 1.1 + 0.42 * len(errors))
    chart.rule(0, upright=True, z=0)
    drawn: set[str] = set()
    for y, sides in enumerate(errors.values()):
        for source, color, shift in (
            ("noisy measurements", NOISY, -0.2),
            ("published", PUBLISHED, 0.2),
        ):
            if source in sides:
                label = source if source not in drawn else ""
                _box(chart, sides[source], y + shift, color, label, open_=source != "published")
                drawn.add(source)
    widest = max(
        (int(np.abs(e).max()) for sides in errors.values() for e in sides.values()), default=1
    )
    chart.x.threshold = 1.0
    chart.x.ticks = list(plain(sorted([s * t for s in (-1, 1) for t in decades(widest, 3)] + [0])))
    chart.rows([short(level_words(level)) for level in errors])
    chart.ends_at("count − true count, persons (symmetric log scale)")
    chart.finish("All levels")
    return chart.svg("boxes", "Boxes of the error of the total population at every level")


def _box(chart: Chart, errors: Ints, y: float, color: str, label: str, *, open_: bool) -> None:
    """From 5 to 95 of 100 a line, from 25 to 75 a box, and a line in the middle."""
    low, q1, middle, q3, high = np.quantile(
        errors, [0.05, 0.25, 0.5, 0.75, 0.95], method="inverted_cdf"
    ).tolist()
    look = MarkStyle(color, "-", "o" if open_ else "s", "#fff" if open_ else color, width=1.2)
    chart.plot([low, high], [y, y], MarkStyle(color, "-", width=1.2), z=1)
    chart.bars([(q1, q3, y - 0.14, y + 0.14)], look, label, z=2)
    line = MarkStyle(INK if open_ else "#fff", "-", width=1.6)
    chart.plot([middle, middle], [y - 0.14, y + 0.14], line, z=3)
    if low == high:
        chart.plot([middle], [y], look, z=4)


def _histogram(sides: Mapping[str, Ints], level: str, name: str) -> str:
    chart = Chart(4.6, 2.5)
    reach = max(
        1, *(int(np.quantile(np.abs(e), 0.995, method="inverted_cdf")) for e in sides.values())
    )
    width = -(-(2 * reach + 1) // BARS)
    half = (-(-(2 * reach + 1) // width) // 2 + 1) * width
    edges = np.arange(-half, half + 1, width) - width // 2 - 0.5
    outside = 0
    chart.rule(0, upright=True, z=0)
    for source, color, line in (("noisy measurements", NOISY, "--"), ("published", PUBLISHED, "-")):
        if source in sides:
            e = sides[source]
            share = 100 * np.histogram(e, edges)[0] / len(e)
            outside = max(outside, int(((e < edges[0]) | (e > edges[-1])).sum()))
            steps = np.concatenate([[0.0], np.repeat(share, 2), [0.0]]).tolist()
            chart.plot(
                np.repeat(edges, 2).tolist(), steps, MarkStyle(color, line, width=1.5), source
            )
    chart.y.words, chart.y.low = (lambda v: f"{v:g}%"), 0.0
    chart.ends_at(
        "count − true count, persons" + (f" ({outside:,} further out)" if outside else "")
    )
    chart.y.label = "share of units"
    chart.finish(level_words(level))
    return chart.svg(
        name, f"Distribution of the error of the total population: {level_words(level)}"
    )


def variance_and_bias(rows: Sequence[ErrorRow], titles: Mapping[str, str]) -> list[str]:
    """At the lowest levels: standard deviation of the error of noisy and published counts, and bias
    of the published.

    By class of the true count, for the finest query of a few dozen answers that was measured; from
    sd^2 = RMSE^2 - bias^2."""
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
    chart = Chart(4.6, 2.9)
    occurring = [c for c in CLASSES if any(r.bin == c for r in rows)]
    lines = (
        ("nmf", "noisy: standard deviation", SERIES[1], lambda r: _sd(r)),
        ("postprocessed", "published: standard deviation", SERIES[0], lambda r: _sd(r)),
        ("postprocessed", "published: bias, without sign", SERIES[2], lambda r: abs(r.bias)),
    )
    for source, label, (color, marker, line), measure in lines:
        at = {r.bin: measure(r) for r in rows if r.source == source}
        x = [i for i, c in enumerate(occurring) if c in at]
        look = MarkStyle(color, line, marker, "#fff" if source == "nmf" else None, size=5)
        chart.plot(x, [at[occurring[i]] for i in x], look, label)
    top = max([1.0, *(_sd(r) for r in rows), *(abs(r.bias) for r in rows)])
    ticks = [0.0, *(10.0**k for k in range(-1, 8))]
    chart.y.threshold, chart.y.low = 0.1, 0.0
    chart.y.high = next(b for a, b in pairwise([*ticks, top * 10]) if b >= top)
    chart.y.ticks = list(plain(t for t in ticks if t <= chart.y.high))
    chart.y.label = "persons"
    class_ticks(chart, occurring)
    chart.ends_at("true count, persons")
    chart.finish(f"{level_words(level)}: {title}", 1)
    return chart.svg(
        name, f"Variance and bias by size of the true count: {title}, {level_words(level)}"
    )


def _sd(r: ErrorRow) -> float:
    return max(0.0, r.rmse**2 - r.bias**2) ** 0.5


#: Places listed in one table.
LISTED = 8


@dataclass(frozen=True, repr=False)
class Place(NoRepr):
    """One count of one unit, whose name comes before its code in ``title``; ``noisy`` is ``None``
    where it was not measured."""

    code: str
    title: str
    what: str
    true: int
    noisy: int | None
    published: int

    @property
    def error(self) -> int:
        return self.published - self.true


def places(
    shown: LookUp, true: Mapping[AnswerKey, NDArray[np.int64]]
) -> dict[str, list[tuple[str, list[Place]]]]:
    """By level, lowest first, the tables of the units whose published counts are furthest from the
    truth, with their captions. Levels without an error have none."""
    out = {}
    for level in reversed(shown.spine.levels):
        totals = [a for a in shown.at(level) if a.query == "total"]
        others = [a for a in shown.at(level) if a.query != "total"]
        found = [
            (caption, _worst(chosen, true, shown.spine))
            for caption, chosen in (("Totals", totals), ("Any other count", others))
        ]
        if tables := [(caption, rows) for caption, rows in found if rows]:
            out[level] = tables
    return out


def _worst(
    chosen: Sequence[Answers], true: Mapping[AnswerKey, NDArray[np.int64]], spine: Spine
) -> list[Place]:
    """The largest errors, the worst one of each unit; ties in the order of the queries and
    units."""
    found = []
    for a in chosen:
        error = np.abs(a.published - true[a.key])
        for at in np.argsort(-error, axis=None, kind="stable")[:LISTED]:
            unit, i = divmod(int(at), error.shape[1])
            if error[unit, i]:
                noisy = int(a.noisy[unit, i]) if a.noisy is not None and a.measured[unit] else None
                what = (
                    a.records if a.query == "total" else f"{a.labels[i]} ({a.title}, {a.records})"
                )
                found.append(
                    Place(
                        spine.code(a.level, unit),
                        spine.title(a.level, unit),
                        what,
                        int(true[a.key][unit, i]),
                        noisy,
                        int(a.published[unit, i]),
                    )
                )
    found.sort(key=lambda p: -abs(p.error))
    by_unit = {p.code: p for p in reversed(found)}
    return [p for p in found if by_unit[p.code] is p][:LISTED]


#: The least units that a sentence on a class speaks of.
ENOUGH = 10


def size_chart(rows: Sequence[SizeRow], width: float, height: float) -> Chart:
    """Bias and mean absolute error of the lowest units by size, and the bias that is expected of
    least squares without a correction."""
    chart = Chart(width, height)
    at, (level, *_) = list(range(len(rows))), [r.level for r in rows]
    (blue, green, orange) = (color for color, _, _ in (SERIES[0], SERIES[2], SERIES[1]))
    chart.rule(0)
    lows, highs = [r.bias_low for r in rows], [r.bias_high for r in rows]
    chart.errors(at, [r.bias for r in rows], lows, highs, MarkStyle(blue, width=1), cap=2)
    chart.plot(at, [r.bias for r in rows], MarkStyle(blue, "-", "s", size=5), "bias, as published")
    known = [(x, r.predicted) for x, r in zip(at, rows, strict=True) if r.predicted is not None]
    if known:
        xs, ys = zip(*known, strict=True)
        look = MarkStyle(orange, "--", "o", "#fff", size=6)
        chart.plot(xs, ys, look, "bias predicted without correction")
    look = MarkStyle(green, ":", "^", size=5)
    chart.plot(at, [r.mae for r in rows], look, "mean absolute error")
    class_ticks(chart, [r.size for r in rows])
    chart.ends_at(f"true persons of the {level_inside(level)}")
    chart.y.label = "persons"
    chart.finish("", 3 if width > 6 else 1)
    return chart


def size_says(rows: Sequence[SizeRow]) -> str:
    """What the errors by size say: of the largest units and of the smallest that hold anybody."""
    some = [r for r in rows if r.n >= ENOUGH and r.size != "0"]
    if not some:
        return "There are too few units of any size to speak of their bias."
    chosen = list(dict.fromkeys([some[-1], some[0]]))
    sizes = [r.size.replace("-", " to ").replace("+", " or more") for r in chosen]
    off = [
        "right"
        if r.bias_low <= 0 <= r.bias_high
        else f"{abs(r.bias):.1f} persons too {_way(r.bias)}"
        for r in chosen
    ]
    said = f"On average, the published total of a {level_inside(some[0].level)} of {sizes[0]} is {off[0]}"
    said += f", and that of one of {sizes[1]} is {off[1]}." if len(chosen) > 1 else "."
    if all(r.predicted is not None for r in chosen):
        each = [f"{abs(r.predicted or 0.0):.1f} too {_way(r.predicted or 0.0)}" for r in chosen]
        said += f" Predicted without a correction: {' and '.join(each)}."
    return said


def _way(bias: float) -> str:
    return "high" if bias > 0 else "low"


@dataclass(frozen=True, repr=False)
class OffSpineErrors(NoRepr):
    """Errors of the total over all areas of a kind, and the area where it is largest."""

    kind: str
    records: str
    n: int
    mae: float
    p50: int
    p95: int
    max: int
    bias: float
    worst: str


def off_spine_errors(
    shown: LookUp, true: Mapping[AnswerKey, NDArray[np.int64]]
) -> list[OffSpineErrors]:
    """A row for each kind of areas and universe."""
    out = []
    for areas in shown.areas:
        for universe in shown.universes:
            a = shown.total(universe, areas.kind)
            error = (a.published - true[a.key])[:, 0]
            size = np.abs(error)
            half, most = (int(np.quantile(size, q, method="inverted_cdf")) for q in (0.5, 0.95))
            largest = int(size.argmax())
            out.append(
                OffSpineErrors(
                    areas.kind,
                    a.records,
                    len(error),
                    float(size.mean()),
                    half,
                    most,
                    int(size[largest]),
                    float(error.mean()),
                    areas.title(largest),
                )
            )
    return out


@dataclass(frozen=True, repr=False)
class ByPlace(NoRepr):
    """What the page has of single places, laid out: the distributions of errors, the worst places,
    areas off the spine and the look-up. A tenth of the memory of the answers that it is made
    from."""

    spread_figures: list[Markup]
    worst: Mapping[str, list[tuple[str, list[Place]]]]
    across: list[OffSpineErrors]
    lookup: Markup
    left_out: list[str]
    sizes: Sequence[SizeRow]


def by_place(
    shown: LookUp, true: Mapping[AnswerKey, NDArray[np.int64]], sizes: Sequence[SizeRow] = ()
) -> ByPlace:
    """From what is shown of a release and the true answers for each of its keys, and the errors of
    its lowest units by size."""
    return ByPlace(
        _all(spread_of_totals(shown, true)),
        places(shown, true),
        off_spine_errors(shown, true),
        Markup(lookup.data(shown, true)),
        [lv for lv in shown.spine.levels if lv not in shown.whole],
        sizes,
    )


def html(
    rows: Sequence[ErrorRow],
    facts: Facts,
    others: Mapping[str, Sequence[ErrorRow]] | None = None,
    of_places: ByPlace | None = None,
    schemas: Mapping[str, Schema] | None = None,
    settled: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The page. ``rows`` are the errors of persons, ``others`` those of other universes, by name.
    ``schemas``, if given, names the queries, by universe, persons first; ``settled`` is as in
    :class:`das.release.outcome.Outcome`.

    It needs neither network nor other files. The same arguments give the same page."""
    persons = [r for r in rows if r.bin == "all"]
    totals = _pairs(r for r in persons if r.query == "total")
    words = {
        u: titles(s, {r.query for r in (others or {}).get(u, rows)})
        for u, s in (schemas or {}).items()
    }
    said = next(iter(words.values()), {})
    return render(
        "page.html",
        confidential=True,
        private=facts["private"],
        facts=facts,
        levels=[(r.level, r.n) for r, _ in totals],
        rows=rows,
        totals=totals,
        worse=[
            (r, noisy, cause(r.level, settled.get(r.level)), remedy(settled.get(r.level)))
            for r, noisy in _pairs(persons)
            if noisy is not None and r.rmse > noisy.rmse
        ],
        detailed={
            r.level: r for r in persons if r.query == "detailed" and r.source == "postprocessed"
        },
        titles=said,
        others=[
            (kind_of(u).records, words.get(u, {}), _pairs(r for r in rs if r.bin == "all"))
            for u, rs in (others or {}).items()
        ],
        total_figure=Markup(figures.total_by_level(persons)),
        query_figures=_all(figures.queries_by_level(persons, said)),
        trade_figures=_all(variance_and_bias(rows, said)),
        bias_figures=_all(figures.bias_by_class(rows, said)),
        spread_figures=of_places.spread_figures if of_places else [],
        **_single_places(of_places),
    )


def _single_places(of_places: ByPlace | None) -> dict[str, Any]:
    """What the page has of single places, and of the lowest units by size."""
    rows = of_places.sizes if of_places else ()
    return {
        "sizes": rows,
        "size_figure": Markup(size_chart(rows, 6.4, 3.4).svg("sizes", "Errors by size"))
        if rows
        else "",
        "size_says": size_says(rows),
        "worst": of_places.worst if of_places else {},
        "across": of_places.across if of_places else [],
        "lookup": of_places.lookup if of_places else None,
        "left_out": of_places.left_out if of_places else [],
        "release_report": of_places is not None,
        "privacy_page": of_places is not None,
    }


def _all(drawn: Iterable[str]) -> list[Markup]:
    return [Markup(f) for f in drawn]


def _pairs(rows: Iterable[ErrorRow]) -> list[tuple[ErrorRow, ErrorRow | None]]:
    """Each postprocessed row with the row of the noisy measurements, if there is one."""
    by_key = {(r.level, r.query, r.source): r for r in rows}
    return [
        (r, by_key.get((lv, q, "nmf")))
        for (lv, q, source), r in by_key.items()
        if source == "postprocessed"
    ]
