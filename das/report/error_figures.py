"""Confidential figures: how errors spread, and what post-processing trades for variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das.model.error_rows import ErrorRow
from das.model.labels import level_words
from das.report.answers import AnswerKey, Shown
from das.report.axis import decades, plain
from das.report.chart import Chart
from das.report.figures import BIAS_QUERIES, CLASSES, NOISY, PUBLISHED, SERIES, class_ticks
from das.report.ink import INK, Look, short

Ints = NDArray[np.int64]
#: The fewest units for a histogram, and its most bars.
FEWEST, BARS = 20, 31
TRADE_LEVELS = 3


def spread_of_totals(shown: Shown, true: Mapping[AnswerKey, Ints]) -> list[str]:
    """Errors of the total of persons: a box for each level and source, and a histogram of every
    larger level.
    """
    errors = {level: _errors(shown, true, level) for level in shown.spine.levels}
    panels = [_boxes(errors)]
    for i, (level, sides) in enumerate(errors.items()):
        if max(len(e) for e in sides.values()) >= FEWEST and any(e.any() for e in sides.values()):
            panels.append(_histogram(sides, level, f"e{i}"))
    return panels


def _errors(shown: Shown, true: Mapping[AnswerKey, Ints], level: str) -> dict[str, Ints]:
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
        for source, colour, shift in (
            ("noisy measurements", NOISY, -0.2),
            ("published", PUBLISHED, 0.2),
        ):
            if source in sides:
                label = source if source not in drawn else ""
                _box(chart, sides[source], y + shift, colour, label, open_=source != "published")
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


def _box(chart: Chart, errors: Ints, y: float, colour: str, label: str, *, open_: bool) -> None:
    """From 5 to 95 of 100 a line, from 25 to 75 a box, and a line in the middle."""
    low, q1, middle, q3, high = np.quantile(
        errors, [0.05, 0.25, 0.5, 0.75, 0.95], method="inverted_cdf"
    ).tolist()
    look = Look(colour, "-", "o" if open_ else "s", "#fff" if open_ else colour, width=1.2)
    chart.plot([low, high], [y, y], Look(colour, "-", width=1.2), z=1)
    chart.bars([(q1, q3, y - 0.14, y + 0.14)], look, label, z=2)
    line = Look(INK if open_ else "#fff", "-", width=1.6)
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
    for source, colour, line in (
        ("noisy measurements", NOISY, "--"),
        ("published", PUBLISHED, "-"),
    ):
        if source in sides:
            e = sides[source]
            share = 100 * np.histogram(e, edges)[0] / len(e)
            outside = max(outside, int(((e < edges[0]) | (e > edges[-1])).sum()))
            steps = np.concatenate([[0.0], np.repeat(share, 2), [0.0]]).tolist()
            chart.plot(np.repeat(edges, 2).tolist(), steps, Look(colour, line, width=1.5), source)
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
    sd^2 = RMSE^2 - bias^2.
    """
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
    for source, label, (colour, marker, line), measure in lines:
        at = {r.bin: measure(r) for r in rows if r.source == source}
        x = [i for i, c in enumerate(occurring) if c in at]
        look = Look(colour, line, marker, "#fff" if source == "nmf" else None, size=5)
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
