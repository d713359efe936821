"""``release/report.html``: a look-up of every place, how sure its numbers are, what protects
people, and where the files are; for specialists, what was measured.

A function of published values alone, and so as public as they are: no argument of it knows the
truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from das.model.names import level_words, text
from das.model.post_processing import BiasCorrection
from das.model.universe import kind_of
from das.report import answers
from das.report.answers import Answers, LookUp
from das.report.chart import Chart
from das.report.facts import NOISY, PUBLISHED, SERIES, Facts, ListedMeasurement, height_of
from das.report.panel import INK, RULE, MarkStyle, Words, decades, plain, short
from das.report.template import PublicFrame, public_page

# Figures of the public page: functions of published values alone.

#: Units of a figure with a line for each, and points of one with a point for each.
LINES, POINTS = 24, 400
#: A share of the budget from which the bar has its number.
_SAID = 0.005
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


def achieved_precision(measurements: Sequence[ListedMeasurement]) -> str:
    """A row for each query, a column for each level: its share of the budget as a bar, and under it
    how well its answers are known. Empty where that is not known."""
    if not any(d.deviation is not None for d in measurements):
        return ""
    queries = list(dict.fromkeys(d.query for d in _ordered(measurements)))
    levels = list(dict.fromkeys(d.level for d in measurements))
    chart = Chart(1.9 + 1.02 * len(levels), 0.95 + 0.37 * len(queries))
    for y in range(1, len(queries)):
        chart.rule(y - 0.5, color=RULE, width=0.5, z=0)
    for x, level in enumerate(levels):
        chart.rule(x, upright=True, color=RULE, z=0)
        chart.say(Words(level_words(level), x, 1, 1, -4, rise=0, size=9, bold=True, of_y=True))
    longest = max(d.share for d in measurements)
    for d in measurements:
        _cell(chart, d, levels.index(d.level), queries.index(d.query), d.share / longest)
    chart.x.low, chart.x.high, chart.x.ticks = 0.0, float(len(levels)), []
    chart.x.line = chart.y.line = False
    chart.rows([short(w) for w in _titles(measurements, queries)])
    chart.ends_at(
        "bar: share of the budget; number: standard deviation of one answer, from all measurements"
        " together"
    )
    return chart.svg(
        "bought",
        "By level and query: the share of the budget, and the standard deviation of one answer",
    )


def _cell(chart: Chart, d: ListedMeasurement, x: int, y: int, length: float) -> None:
    """One draw, its bar a part ``length`` of the longest there is."""
    look = MarkStyle(NOISY if d.nothing else PUBLISHED, width=0.6)
    end = x + 0.72 * length
    chart.bars([(x, end, y - 0.35, y - 0.05)], look, hatched=d.nothing)
    if d.share >= _SAID:
        chart.say(Words(f"{100 * d.share:.0f}%", end, y - 0.2, 3, size=7.5))
    says = "adds nothing" if d.nothing else "–" if d.deviation is None else _figure(d.deviation)
    chart.say(Words(says, x, y + 0.21, 2, size=8.5, color=NOISY if d.nothing else INK))


def _figure(deviation: float) -> str:
    return (
        "exact" if deviation == 0 else f"{deviation:.2f}" if deviation < 10 else f"{deviation:,.0f}"
    )


def budget(measurements: Sequence[ListedMeasurement]) -> list[str]:
    """Two panels: the share of each query in the budget, and that of each level."""
    out = []
    for by, name in (("query", "bq"), ("level", "bl")):
        keys = list(
            dict.fromkeys(
                getattr(d, by) for d in (measurements if by == "level" else _ordered(measurements))
            )
        )
        share = [100 * sum(d.share for d in measurements if getattr(d, by) == k) for k in keys]
        words = [
            short(w)
            for w in (map(level_words, keys) if by == "level" else _titles(measurements, keys))
        ]
        chart = Chart(4.6, 0.9 + height_of(words, 0.13))
        rows = [(0.0, v, y - 0.325, y + 0.325) for y, v in enumerate(share)]
        chart.bars(rows, MarkStyle(INK, face=PUBLISHED, width=0.6))
        for y, value in enumerate(share):
            chart.say(Words(f"{value:.3g}%", value, y, 4))
        chart.x.low, chart.x.high = 0.0, max(share) * 1.2
        chart.rows(words)
        chart.ends_at("share of the budget, %")
        chart.finish(f"By {by}", 0)
        out.append(chart.svg(name, f"Share of the budget by {by}"))
    return out


def scales(measurements: Sequence[ListedMeasurement]) -> str:
    """The margin of every measurement: a row for each query, a mark for each level."""
    queries = list(dict.fromkeys(d.query for d in _ordered(measurements)))
    levels = list(dict.fromkeys(d.level for d in measurements))
    words = [short(w) for w in _titles(measurements, queries)]
    chart = Chart(4.6, 1.5 + 0.1 * len(queries) + height_of(words, 0.13))
    chart.x.log = True
    for i, level in enumerate(levels):
        here = [d for d in measurements if d.level == level]
        color, beside = SERIES[i % len(SERIES)][0], 0.12 * (i - (len(levels) - 1) / 2)
        look = MarkStyle(
            color, mark=_MARKS[i % len(_MARKS)], face="#fff" if i % 2 else color, size=5
        )
        chart.plot(
            [max(d.margin, 0.5) for d in here],
            [queries.index(d.query) + beside for d in here],
            look,
            level_words(level),
            clip=False,
        )
    chart.rows(words, grid=True)
    chart.ends_at("95% margin of one answer, persons (log scale)")
    chart.finish("Noise of every measurement")
    return chart.svg("scales", "Margin of error of every measured query, by level")


def _titles(measurements: Sequence[ListedMeasurement], queries: Sequence[str]) -> list[str]:
    title = {d.query: d.title for d in measurements}
    return [title[q] for q in queries]


def _ordered(measurements: Sequence[ListedMeasurement]) -> list[ListedMeasurement]:
    """Queries of few answers first."""
    return sorted(measurements, key=lambda d: d.answers)


def beside(shown: LookUp) -> list[str]:
    """Totals of persons: noisy minus published, unit by unit where they are few, and against size
    elsewhere."""
    out = []
    for i, level in enumerate(shown.spine.levels):
        total = shown.total(shown.universes[0], level)
        at = np.flatnonzero(total.measured)
        if len(at) > LINES:
            out.append(_cloud(total, at, f"n{i}"))
        elif len(at) > 1:
            out.append(_intervals(total, text(shown.spine.codes[i]).tolist(), at, f"n{i}"))
    return out


def _intervals(total: Answers, codes: Sequence[str], at: np.ndarray, name: str) -> str:
    published, noisy, margin = _sides(total, at)
    chart = Chart(4.6, 1.3 + 0.26 * len(at))
    y, off = range(len(at)), (noisy - published).tolist()
    chart.plot([0.0] * len(at), y, MarkStyle(PUBLISHED, mark="s", size=9), "published")
    look = MarkStyle(NOISY, mark="o", face="#fff", size=5, width=1.2)
    low, high = (noisy - published - margin).tolist(), (noisy - published + margin).tolist()
    chart.errors(off, y, low, high, look, across=True)
    chart.plot(off, y, look, "noisy, with its 95% interval")
    chart.rows(
        [short(f"{codes[u]}: {p:,}") for u, p in zip(at.tolist(), published.tolist(), strict=True)]
    )
    chart.x.whole = True
    chart.ends_at("difference from the published total, persons")
    chart.finish(level_words(total.level))
    return chart.svg(name, f"Noisy and published totals: {level_words(total.level)}")


def _cloud(total: Answers, at: np.ndarray, name: str) -> str:
    """A sample of many units: every k-th by size, so that the figure stays small and
    reproducible."""
    order = at[np.argsort(total.published[at, 0], kind="stable")]
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), POINTS)).astype(int))]
    published, noisy, margin = _sides(total, chosen)
    chart = Chart(4.6, 2.9)
    chart.rule(0, z=1)
    chart.plot(
        published.tolist(),
        (noisy - published).tolist(),
        MarkStyle(NOISY, mark="o", face="none", size=3.5, edge=0.7),
        f"noisy − published ({len(chosen):,} of {len(at):,} units)",
    )
    for sign in (-1, 1):
        label = "95% margin of the noise" if sign > 0 else ""
        chart.plot(published.tolist(), (sign * margin).tolist(), MarkStyle(PUBLISHED, "--"), label)
    largest = int(published.max(initial=1))
    chart.x.threshold, chart.x.low, chart.x.high = 10.0, -1.0, largest * 1.3 + 1
    chart.x.ticks = list(plain([0, *(t for t in decades(3 * largest) if t > 1)]))
    chart.ends_at("published total, persons (log scale above 10)")
    chart.y.label = "noisy − published, persons"
    chart.finish(level_words(total.level))
    return chart.svg(
        name, f"Noisy minus published totals by size of the unit: {level_words(total.level)}"
    )


def _sides(total: Answers, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert total.noisy is not None
    assert total.margin is not None
    return total.published[at, 0], total.noisy[at, 0], total.margin[at]


#: Places that the page draws, the largest first.
DRAWN = 10
#: Before an interval that the published count lies outside of, and after it on the page for the
#: public; ``lookup.js`` has the same.
OUTSIDE, BESIDE = "\u2691 outside ", "\u00a0*"


def release_html(
    shown: LookUp,
    facts: Facts,
    measurements: Mapping[str, Sequence[ListedMeasurement]],
    frame: PublicFrame,
    *,
    assigned: Sequence[str] = (),
    privacy_page: bool = False,
    worse: Sequence[Any] = (),
    correction: BiasCorrection | None = None,
) -> str:
    """``measurements`` are the measurements by universe, persons first; ``assigned`` says which
    attributes were made up by a rule; ``worse`` the queries that are published worse than they were
    measured; ``correction`` how the lowest units were corrected. The same arguments give the
    same page."""
    level = _below(shown)
    brief, left_out = answers.brief(shown, example=(level, _largest(shown, level)))
    return public_page(
        "release.html",
        facts,
        frame,
        records=[kind_of(u).records for u in shown.universes],
        levels=[(lv, shown.spine.units(lv)) for lv in shown.spine.levels],
        assigned=assigned,
        privacy_page=privacy_page,
        worse=worse,
        correction=correction,
        largest=_bars(shown, level),
        sure=[_sure(shown.total(shown.universes[0], lv)) for lv in shown.spine.levels],
        **_measured(measurements),
        beside_figures=[Markup(f) for f in beside(shown)],
        lookup=Markup(brief),
        left_out=left_out,
    )


def _measured(measurements: Mapping[str, Sequence[ListedMeasurement]]) -> dict[str, Any]:
    """What specialists read of the measurements."""
    persons = next(iter(measurements.values()))
    return {
        "plans": {
            kind_of(universe).records: _grid(rows) for universe, rows in measurements.items()
        },
        "precision_figure": Markup(achieved_precision(persons)),
        "nothing": [(d.level, d.title, d.share) for d in persons if d.nothing],
        "budget_figures": [Markup(f) for f in budget(persons)],
        "scale_figure": Markup(scales(persons)),
    }


def _below(shown: LookUp) -> str:
    """The first level of several units; the lowest where there is none."""
    levels = shown.spine.levels
    return next((lv for lv in levels if shown.spine.units(lv) > 1), levels[-1])


def _largest(shown: LookUp, level: str) -> int:
    """The unit with the most persons; of several the first."""
    return int(shown.total(shown.universes[0], level).published[:, 0].argmax())


def _bars(shown: LookUp, level: str) -> dict[str, Any]:
    """The largest units of a level, with a bar as wide as each is large, in percent."""
    total = shown.total(shown.universes[0], level)
    counts = total.published[:, 0]
    first = np.argsort(-counts, kind="stable")[:DRAWN].tolist()
    most = max(int(counts.max(initial=0)), 1)
    rows = [
        (
            str(shown.spine.names[shown.spine.index(level)][u]) or shown.spine.title(level, u),
            counts[u],
            "exact" if total.exact else _starred(_interval(total, u, 0)),
            round(100 * max(int(counts[u]), 0) / most, 1),
        )
        for u in first
    ]
    return {"level": level, "rows": rows, "more": len(counts) - len(rows)}


def _starred(interval: str) -> str:
    """An interval with the mark of the page for the public."""
    inside = interval.removeprefix(OUTSIDE)
    return inside if inside == interval else inside + BESIDE


def _sure(a: Answers) -> dict[str, Any]:
    """How large the margin of a total is, and what share of a unit of median size."""
    counts = a.published[:, 0]
    middle = int(np.quantile(counts, 0.5, method="inverted_cdf"))
    known = np.zeros(0, dtype=np.int64) if a.within is None else a.within[a.within >= 0]
    out = {"level": a.level, "units": len(counts), "middle": middle}
    if a.exact or not known.size or not middle:
        return out | {"says": "exact" if a.exact else _margin(a), "share": "–", "width": 0}
    share = 100 * float(np.median(known)) / middle
    text = "over 100%" if share > 100 else f"{share:.2g}%" if share >= 0.01 else "under 0.01%"
    return out | {"says": _margin(a), "share": text, "width": round(min(share, 100.0), 1)}


def _grid(measurements: Sequence[ListedMeasurement]) -> dict[str, Any]:
    """Queries down, those of few answers first, levels across."""
    levels = list(dict.fromkeys(d.level for d in measurements))
    queries = {d.query: d.answers for d in sorted(measurements, key=lambda d: d.answers)}
    titles = {d.query: d.title for d in measurements}
    return {
        "levels": levels,
        "queries": queries,
        "titles": titles,
        "at": {(d.query, d.level): d for d in measurements},
    }


def _margin(a: Answers) -> str:
    """In words: one margin, or the range of those of the units that have one."""
    known = np.zeros(0, dtype=np.int64) if a.within is None else a.within[a.within >= 0]
    if not known.size:
        return "unknown"
    low, high = known.min(), known.max()
    return f"±{low:,}" if low == high else f"±{low:,} to ±{high:,}"


def _interval(a: Answers, unit: int, answer: int) -> str:
    published = int(a.published[unit, answer])
    if a.exact:
        return _number(published)
    ends = a.interval(unit, answer)
    if ends is None:
        return "–"
    low, high = ends
    mark = "" if low <= published <= high else OUTSIDE
    return f"{mark}{_number(low)} to {_number(high)}" if low < high else f"{mark}{_number(low)}"


def _number(value: int) -> str:
    return f"{value:,}".replace("-", "−")
