"""The templates of the pages, and how numbers are written on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import jinja2

from das.model.kinds import kind_of
from das.model.labels import level_inside, level_words
from das.model.not_private import WARNING, WITHOUT
from das.report.public import in_bytes


@cache
def environment(**more: Callable[..., object]) -> jinja2.Environment:
    """An environment that escapes all text given to a template, unless it is ``Markup``; a missing
    name is an error.

    ``more`` are filters added to ours. There is one environment in a process, so each template is
    compiled once."""
    out = jinja2.Environment(
        loader=jinja2.PackageLoader("das.report", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (figure, upward, whole, signed, clock, in_bytes)
    out.filters |= {f.__name__: f for f in filters} | more
    out.filters |= {
        "words": level_words,
        "inside": level_inside,
        "called": lambda name: kind_of(name).records,
    }
    out.globals |= {"warning": WARNING, "without": WITHOUT}
    return out


def figure(value: float | None) -> str:
    """Three significant digits, a separator for thousands, and no exponent for common numbers.

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
    return f"{value:,.0f}".replace("-", "−")


def signed(value: float) -> str:
    """A whole number with its sign."""
    return f"{value:+,.0f}".replace("-", "−")


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
