"""``release/privacy.html``: the privacy statement for people. Formats ``privacy.json``; computes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.ticker import FuncFormatter, NullFormatter

from das.model.mechanisms import MECHANISMS
from das.report import figures
from das.report.facts import METHODS, decimal
from das.report.template import environment


def privacy_page(privacy: Mapping[str, Any], name: str) -> str:
    """One self-contained page, safe to publish beside the statement that it shows. Where noisy measurements came
    from another publisher there is no ledger, and the page says so."""
    env = environment()
    env.filters |= {"approx": approx, "bound": bound, "parts": parts, "fraction": lambda x: float(Fraction(x)),
                    "decimal": lambda x: decimal(Fraction(x))}  # fmt: skip

    curve = privacy.get("curve", ())
    return env.get_template("privacy.html").render(
        name=name, privacy=privacy, methods=METHODS, figure=Markup(_curve(curve)) if curve else "",
        private=privacy["private"], mechanism=MECHANISMS[privacy["mechanism"]],
    )  # fmt: skip


def approx(value: str) -> str:
    """An exact fraction as a reader sees it: itself where it is short, and about how much.

    >>> approx("293764/114921"), approx("2")
    ('293764/114921 (about 2.55623)', '2')
    """
    number = Fraction(value)
    return value if number.denominator == 1 else f"{value} (about {float(number):.6g})"


def bound(value: float | Sequence[float]) -> str:
    """A privacy loss, or the upper end of an interval that holds it: four decimals, rounded up.

    >>> bound(17.14361), bound([16.4651, 16.46516])
    ('17.1437', '16.4652')
    """
    upper = value if isinstance(value, int | float) else value[1]
    return f"{math.ceil(upper * 10_000) / 10_000:.4f}"


def percent(part: str, whole: str) -> str:
    return f"{float(100 * Fraction(part) / Fraction(whole)):.3g} %"


def parts(spending: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Name, exact cost, and share of the sum, of each part."""
    whole = str(sum(map(Fraction, spending.values())))
    return ((name, cost, percent(cost, whole)) for name, cost in spending.items())


@mpl.rc_context(figures.STYLE)
def _curve(rows: Sequence[Mapping[str, Any]]) -> str:
    """Epsilon against delta, by each method."""
    fig, ax = figures.figure(6.4, 3.6)
    for (key, label), (colour, _, line) in zip(METHODS.items(), figures.SERIES, strict=True):
        at = [(float(Fraction(r["delta"])), r[key][1] if key == "pld" else r[key]) for r in rows]
        ax.plot(*zip(*at, strict=True), line, color=colour, label=label, linewidth=1.6)
    ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    ax.set_xticks([10.0**-k for k in (30, 25, 20, 15, 10, 5)])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"1e{math.log10(x):.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("δ")
    ax.set_ylabel("ε")
    figures.finish(fig, ax, "ε at each δ, for one record of each kind")
    return figures.svg(fig, "curve", "Epsilon against delta")
