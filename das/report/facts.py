"""What a run says about itself, in the form of the report pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NotRequired, TypedDict

from das.accounting.document import Document, ForeignStatement, GaussianStatement
from das.accounting.guarantee import QuotedLoss, of_invariant_neighbours, quoted
from das.model.error_rows import ErrorRow
from das.model.names import level_words
from das.model.not_private import Private
from das.model.schema import Schema
from das.model.solution import Certificate
from das.report.chart import Chart
from das.report.panel import MarkStyle, Tick, Words, classes, short

#: Methods of the privacy statement, and how the pages call them.
METHODS = {"pld": "exact, upper end", "tight": "from ρ, tight", "simple": "from ρ, simple"}


class Stage(TypedDict):
    """A stage of the run; ``peak_mb`` is the most memory that the process had held by its end."""

    name: str
    seconds: float
    peak_mb: NotRequired[float]


class Facts(TypedDict):
    """What a page says besides the numbers. ``rho`` (discrete Gaussian) or ``pure_epsilon``
    (geometric) is the budget, exact fractions as text; ``guarantee`` is that of another publisher,
    in words."""

    name: str
    schema: str
    private: Private
    own_spine: bool  #: the units that were measured are not the published ones
    shares: NotRequired[bool]  #: the lowest units were assumed to have their parents' shares
    neighbours: NotRequired[str]
    mechanism: NotRequired[str]
    rho: NotRequired[str]
    pure_epsilon: NotRequired[str]
    guarantee: NotRequired[str]
    quoted: NotRequired[QuotedLoss]  #: the one privacy loss to quote
    agree: NotRequired[float]  #: the same between data sets that agree on what is published exactly
    invariants: NotRequired[Sequence[str]]
    stages: NotRequired[Sequence[Stage]]
    certificates: NotRequired[Mapping[str, Certificate]]
    version: NotRequired[str]
    digest: NotRequired[str]


@dataclass(frozen=True)
class ListedMeasurement:
    """One draw as the page lists it.

    ``title`` is the query in words; ``share`` is its share of its universe's budget; ``margin`` is
    at 95 %. ``deviation``: the standard deviation of one answer from all measurements together,
    where it is known. ``nothing``: no estimate would be worse without this draw."""

    universe: str
    level: str
    query: str
    title: str
    units: int
    answers: int
    share: float
    margin: int
    deviation: float | None = None
    nothing: bool = False


def facts(
    name: str,
    schema: Schema,
    privacy: Document,
    stages: Sequence[Mapping[str, Any]] = (),
    certificates: Mapping[str, Certificate] | None = None,
    *,
    own_spine: bool = False,
) -> Facts:
    """From the privacy statement and, for the confidential page, the stages and the certificates by
    level. ``own_spine``: what was measured are other units than those that are published."""
    out: Facts = {
        "name": name,
        "schema": f"{schema.name} ({', '.join(a.title for a in schema.attributes)})",
        "private": privacy.private,
        "mechanism": privacy.mechanism,
        "own_spine": own_spine,
        "invariants": [
            c.says or f"{c.constraint} of {c.universe}, {c.level}" for c in privacy.outside
        ],
    }
    if stages:
        out["stages"] = [
            Stage(name=s["name"], seconds=s["seconds"], peak_mb=s["peak_mb"]) for s in stages
        ]
    if certificates:
        out["certificates"] = certificates
    _promise(out, privacy)
    return out


def group_facts(name: str, what: str, privacy: Document) -> Facts:
    """The facts of a release of the Detailed DHC; ``what`` says in words what is measured."""
    out: Facts = {
        "name": name,
        "schema": what,
        "private": privacy.private,
        "mechanism": privacy.mechanism,
        "own_spine": False,
        "invariants": [],
    }
    _promise(out, privacy)
    return out


def _promise(out: Facts, privacy: Document) -> None:
    """The guarantee: that of all universes together, or another publisher's, in that publisher's
    words."""
    if isinstance(privacy, ForeignStatement):
        out["guarantee"] = privacy.guarantee
        return
    out["neighbours"] = privacy.neighbours
    out["quoted"] = quoted(
        privacy, privacy.neighbours, privacy.target.delta if privacy.target else None
    )
    agree = of_invariant_neighbours(privacy, out["quoted"])
    if agree is not None and agree < out["quoted"].epsilon:
        out["agree"] = agree
    if isinstance(privacy, GaussianStatement):
        out["rho"] = decimal(privacy.total)
    else:
        out["pure_epsilon"] = str(list(privacy.guarantee.values())[-1].cost)


def decimal(value: Fraction) -> str:
    """A budget as a reader meets it: five digits, rounded up. The exact fraction is in the privacy
    statement.

    >>> (
    ...     decimal(Fraction(46066969010197, 17508174012729)),
    ...     decimal(Fraction(2)),
    ...     decimal(Fraction(1, 10**6)),
    ... )
    ('2.6312', '2', '0.000001')"""
    places = 0
    while value and value * 10**places < 10_000 and (value * 10**places).denominator > 1:
        places += 1
    digits = f"{-(-value.numerator * 10**places // value.denominator):0{places + 1}d}"
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


def titles(schema: Schema, queries: Iterable[str]) -> dict[str, str]:
    """Words for queries."""
    return {q: schema.query(q).title for q in queries}


# Figures of the report as inline SVG. Text stays text. Colors are those of Okabe and Ito; shapes
# distinguish the same things as colors.

NOISY, PUBLISHED, BETWEEN = "#D55E00", "#0072B2", "#999999"
SERIES = (("#0072B2", "s", "-"), ("#D55E00", "o", "--"), ("#009E73", "^", ":"))
#: Queries of the bias figure, as far as they were measured, coarse to fine; three of them are
#: drawn.
BIAS_QUERIES = ("total", "hispanic * cenrace", "h1", "votingage * hispanic * race", "detailed")
BIAS_LEVELS = 3
CLASSES = ("0", "1-9", "10-99", "100-999", "1000-9999", "10000+")


def total_by_level(rows: Sequence[ErrorRow]) -> str:
    """Mean absolute error of the total population by level, measured and published, on a log
    scale."""
    return _dumbbells(
        [r for r in rows if r.query == "total"], "level", "total population", "totals"
    )


def queries_by_level(rows: Sequence[ErrorRow], titles: Mapping[str, str]) -> list[str]:
    """One panel for each level: mean absolute error of every query but the total. ``titles`` are
    words for queries."""
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
    count."""
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
    for (label, at), (color, _, line) in zip(methods.items(), SERIES, strict=True):
        xs, ys = zip(*at, strict=True)
        chart.plot(xs, ys, MarkStyle(color, line, width=1.6), label)
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
    published."""
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
        chart.plot(ends, [y] * len(ends), MarkStyle(BETWEEN, "-", width=1.2), z=1)
    for source, look, label in (
        ("nmf", MarkStyle(NOISY, mark="o", face="#fff"), "noisy measurements"),
        ("postprocessed", MarkStyle(PUBLISHED, mark="s"), "published"),
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
    for query, (color, marker, line) in zip(queries, SERIES, strict=False):
        here = [r for r in rows if r.query == query and r.bin in occurring]
        here.sort(key=lambda r: occurring.index(r.bin))
        x, look = [occurring.index(r.bin) for r in here], MarkStyle(color, line, marker, size=5)
        chart.plot(x, [r.bias for r in here], look, queries[query])
        known = [
            (occurring.index(r.bin), r.bias, r.bias_low, r.bias_high)
            for r in here
            if r.bias_low is not None and r.bias_high is not None
        ]
        if known:
            at, middle, low, high = zip(*known, strict=True)
            chart.errors(at, middle, low, high, MarkStyle(color, width=1), cap=0)
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
