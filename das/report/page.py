"""``confidential/report.html``: rows of errors and facts of the run, laid out on one page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NotRequired, TypedDict

import jinja2
from markupsafe import Markup

from das.model.result import ErrorRow
from das.model.solution import Certificate
from das.report import figures


class Stage(TypedDict):
    """A stage of the run; ``peak_mb`` is the most memory that the process had held by its end."""

    name: str
    seconds: float
    peak_mb: NotRequired[float]


class Epsilon(TypedDict):
    """An (epsilon, delta) statement of the same guarantee. A number is shown rounded up, text as it is."""

    method: str
    delta: str
    epsilon: str | float


class Facts(TypedDict):
    """What the page says beside the errors. ``rho`` (discrete Gaussian) or ``pure_epsilon`` (geometric) is
    the budget; exact fractions are given as text."""

    name: str
    schema: str
    private: bool
    neighbours: str
    seed: NotRequired[int | None]
    data: NotRequired[str]
    mechanism: NotRequired[str]
    rho: NotRequired[str]
    pure_epsilon: NotRequired[str]
    epsilon: NotRequired[Sequence[Epsilon]]
    invariants: NotRequired[Sequence[str]]
    structural: NotRequired[Sequence[str]]
    stages: NotRequired[Sequence[Stage]]
    certificates: NotRequired[Mapping[str, Certificate]]
    version: NotRequired[str]
    digest: NotRequired[str]
    finished: NotRequired[str]


def html(rows: Sequence[ErrorRow], facts: Facts, units: Sequence[ErrorRow] = ()) -> str:
    """The page. ``rows`` are the errors of persons, ``units`` those of housing units where the run had them.

    It needs no network and no other file. The same arguments give the same page.
    """
    persons = [r for r in rows if r.bin == "all"]
    page = _environment().get_template("page.html")
    return page.render(
        facts=facts,
        rows=rows,
        totals=_pairs(r for r in persons if r.query == "total"),
        detailed={r.level: r for r in persons if r.query == "detailed" and r.source == "postprocessed"},
        units=_pairs(r for r in units if r.bin == "all"),
        total_figure=Markup(figures.total_by_level(persons)),
        query_figures=[Markup(f) for f in figures.queries_by_level(persons)],
        bias_figures=[Markup(f) for f in figures.bias_by_class(rows)],
    )


def _pairs(rows: Iterable[ErrorRow]) -> list[tuple[ErrorRow, ErrorRow | None]]:
    """Each postprocessed row with the row of the noisy measurements, if there is one."""
    by_key = {(r.level, r.query, r.source): r for r in rows}
    return [(r, by_key.get((lv, q, "nmf"))) for (lv, q, source), r in by_key.items() if source == "postprocessed"]


def _environment() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("das.report", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"figure": figure, "upward": upward, "whole": whole, "words": words, "clock": clock}
    return env


def figure(value: float | None) -> str:
    """Three significant digits, thousands apart, no exponent for what a reader meets.

    >>> [figure(x) for x in (0, 1234.5, 0.04567, 2.5, None)]
    ['0', '1,234', '0.0457', '2.50', '–']
    """
    if value is None:
        return "–"
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    digits = 2 - math.floor(math.log10(abs(value)))
    if digits > 8:
        return f"{value:.1e}"
    return f"{value:,.{max(0, digits)}f}".replace("-", "−")


def upward(value: float) -> str:
    """Two decimals, rounded up: what a privacy loss may be rounded to.

    >>> upward(17.1431)
    '17.15'
    """
    return f"{math.ceil(value * 100) / 100:.2f}"


def whole(value: float) -> str:
    """A whole number, thousands apart."""
    return f"{value:,.0f}"


def words(level: str) -> str:
    """``Block_Group`` as a reader writes it."""
    return level.replace("_", " ")


def clock(seconds: float) -> str:
    """Seconds, or minutes and seconds, or hours and minutes.

    >>> clock(3.21), clock(75), clock(7322)
    ('3.2 s', '1 min 15 s', '2 h 02 min')
    """
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
