"""Figures of the report as inline SVG. Text stays text. Colors are those of Okabe and Ito; shapes
distinguish the same things as colors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from das.model.error_rows import ErrorRow
from das.model.names import level_words
from das.report.axis import Tick, classes
from das.report.chart import Chart
from das.report.panel import Look, Words, short

NOISY, PUBLISHED, BETWEEN = "#D55E00", "#0072B2", "#999999"
SERIES = (("#0072B2", "s", "-"), ("#D55E00", "o", "--"), ("#009E73", "^", ":"))
#: Queries of the bias figure, as far as they were measured, coarse to fine; three of them are
#: drawn.
BIAS_QUERIES = ("total", "hispanic * cenrace", "h1", "votingage * hispanic * race", "detailed")
BIAS_LEVELS = 3
CLASSES = ("0", "1-9", "10-99", "100-999", "1000-9999", "10000+")


def total_by_level(rows: Sequence[ErrorRow]) -> str:
    """Mean absolute error of the total population by level, measured and published, on a log
    scale.
    """
    return _dumbbells(
        [r for r in rows if r.query == "total"], "level", "total population", "totals"
    )


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


def epsilon_by_delta(methods: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """A line for each method, by its name: pairs of delta and epsilon."""
    chart = Chart(6.4, 3.6)
    for (label, at), (colour, _, line) in zip(methods.items(), SERIES, strict=True):
        xs, ys = zip(*at, strict=True)
        chart.plot(xs, ys, Look(colour, line, width=1.6), label)
    chart.x.log, chart.x.label, chart.y.label, chart.y.low = True, "δ", "ε", 0.0
    chart.x.ticks = [(10.0**-k, f"1e-{k}") for k in (30, 25, 20, 15, 10, 5)]
    chart.finish("ε at each δ, for one record of each kind")
    return chart.svg("curve", "Epsilon against delta")


def height_of(words: Sequence[str], each: float) -> float:
    """Inches for a row of each of them, with as many lines as it has."""
    return sum(each + 0.13 * (1 + w.count("\n")) for w in words)


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
    chart = Chart(4.6, 0.95 + height_of(words, 0.14))
    chart.x.log, chart.x.low, chart.x.high = True, low, high
    for y, key in enumerate(keys):
        ends = [v for s in ("nmf", "postprocessed") if (v := value.get((key, s)))]
        chart.plot(ends, [y] * len(ends), Look(BETWEEN, "-", width=1.2), z=1)
    for source, look, label in (
        ("nmf", Look(NOISY, mark="o", face="#fff"), "noisy measurements"),
        ("postprocessed", Look(PUBLISHED, mark="s"), "published"),
    ):
        at = [(y, value[key, source]) for y, key in enumerate(keys) if (key, source) in value]
        if at:
            chart.plot([max(v, low) for _, v in at], [y for y, _ in at], look, label, clip=False)
        for y in (y for y, v in at if v == 0):
            chart.say(Words("no error", low, y, 8))
    chart.ends_at("mean absolute error, persons (log scale)")
    chart.rows(words)
    chart.finish(title)
    return chart.svg(name, f"Mean absolute error by {by}: {title}")


def _decades(values: list[float]) -> tuple[float, float]:
    """Powers of ten around the values, with room on both sides."""
    low = math.floor(math.log10(min(values, default=1.0) * 0.8))
    high = math.ceil(math.log10(max(values, default=1.0) * 1.2))
    return 10.0**low, 10.0 ** max(high, low + 1)


def _decade(values: list[float]) -> float:
    """The power of ten, 0.1 at least, above all values."""
    return 10.0 ** math.ceil(math.log10(max([0.1, *values]) * 1.1))


def class_ticks(chart: Chart, occurring: Sequence[str]) -> None:
    """Classes of the true count along the horizontal axis, so small that six of them fit."""
    ticks: list[Tick] = classes([c.replace("-", "–") for c in occurring])
    chart.x.ticks, chart.x.size = ticks, 8.0
    chart.x.low, chart.x.high = -0.4, max(len(occurring), 2) - 0.6


def _bias(rows: list[ErrorRow], queries: Mapping[str, str], title: str, name: str) -> str:
    """Lines over the classes of the true count; above zero the published count is too high."""
    chart = Chart(4.6, 2.9)
    occurring = [c for c in CLASSES if any(r.bin == c and r.query in queries for r in rows)]
    chart.rule(0)
    for query, (colour, marker, line) in zip(queries, SERIES, strict=False):
        here = [r for r in rows if r.query == query and r.bin in occurring]
        here.sort(key=lambda r: occurring.index(r.bin))
        x, look = [occurring.index(r.bin) for r in here], Look(colour, line, marker, size=5)
        chart.plot(x, [r.bias for r in here], look, queries[query])
        known = [
            (occurring.index(r.bin), r.bias, r.bias_low, r.bias_high)
            for r in here
            if r.bias_low is not None and r.bias_high is not None
        ]
        if known:
            at, middle, low, high = zip(*known, strict=True)
            chart.errors(at, middle, low, high, Look(colour, width=1), cap=0)
    shown = [
        v
        for r in rows
        if r.query in queries
        for v in (r.bias, r.bias_low, r.bias_high)
        if v is not None
    ]
    chart.y.threshold = 0.1
    chart.y.low, chart.y.high = -_decade([-b for b in shown]), _decade(shown)
    class_ticks(chart, occurring)
    chart.ends_at("true count, persons")
    chart.y.label = "mean of published − true, persons"
    chart.finish(title)
    return chart.svg(name, f"Bias by size of the true count: {title}")
