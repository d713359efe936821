"""``release/privacy.html``: the privacy statement for people. Formats ``privacy.json``; computes
nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from markupsafe import Markup

from das.accounting.document import Epsilons, GaussianStatement, Stated, Statement
from das.accounting.document import decimal as delta
from das.accounting.guarantee import QuotedLoss, quoted
from das.model.mechanisms import MECHANISMS
from das.model.names import level_inside
from das.report import facts
from das.report.facts import METHODS, decimal


def privacy_page(privacy: Stated, name: str) -> str:
    """One self-contained page that can be published with the statement that it shows. Where noisy
    measurements came from another publisher there is no ledger, and the page says so."""
    from das.report.template import environment  # what prints no page does without

    env = environment(approx=approx, bound=bound, parts=parts, decimal=decimal, delta=delta)
    figure = (
        Markup(_curve(_points(privacy.curve))) if isinstance(privacy, GaussianStatement) else ""
    )
    return env.get_template("privacy.html").render(
        name=name,
        privacy=privacy,
        private=privacy.private,
        methods=METHODS,
        quoted=(loss := _quoted(privacy) if isinstance(privacy, Statement) else None),
        certainty=None if loss is None else Certainty.from_loss(loss.epsilon, loss.delta),
        figure=figure,
        drawn=isinstance(privacy, Statement),
        mechanism=MECHANISMS[privacy.mechanism],
    )


@dataclass(frozen=True)
class Certainty:
    r"""How often somebody who tells two equally likely data sets apart can be right, in words: at
    most

    .. math:: (e^\varepsilon + \delta) / (e^\varepsilon + 1)

    of the time, half of one plus the largest total variation of neighbors (Kairouz, Oh and
    Viswanath 2015, theorem 2.1). It is ``weak`` from 99 of 100 on."""

    text: str
    weak: bool

    @staticmethod
    def from_loss(epsilon: float, delta: str) -> Certainty:
        """Rounded up, with two digits of what is left to 100.

        >>> [Certainty.from_loss(e, "1e-10").text for e in (0.0, 1.0, 5.0, 16.75, 60.0)]
        ['50.1', '73.2', '99.34', '99.9999947', '100']"""
        wrong = float((1 - Fraction(delta)) * 100) / (1 + math.exp(min(epsilon, 700.0)))
        digits = min(max(1, 1 - math.floor(math.log10(wrong))), 10) if wrong > 0 else 0
        most = 100 - Fraction(math.floor(Fraction(wrong) * 10**digits), 10**digits)
        text = f"{float(most):.{digits}f}".rstrip("0").rstrip(".") if most < 100 else "100"
        return Certainty(text, wrong < 1)


def _quoted(privacy: Statement) -> QuotedLoss:
    return quoted(privacy, privacy.neighbours, privacy.target.delta if privacy.target else None)


def approx(value: Fraction) -> str:
    """An exact fraction as a reader sees it: itself where it is short, and about how much.

    >>> approx(Fraction(293764, 114921)), approx(Fraction(2))
    ('293764/114921 (about 2.55623)', '2')"""
    return str(value) if value.denominator == 1 else f"{value} (about {float(value):.6g})"


def bound(value: float | Sequence[float]) -> str:
    """A privacy loss, or the upper end of an interval that holds it: four decimals, rounded up.

    >>> bound(17.14361), bound([16.4651, 16.46516])
    ('17.1437', '16.4652')"""
    upper = value if isinstance(value, int | float) else value[1]
    return f"{math.ceil(upper * 10_000) / 10_000:.4f}"


def parts(spending: Mapping[str, Fraction]) -> Iterator[tuple[str, Fraction, str]]:
    """Name, exact cost, and share of the sum, of each part."""
    whole = sum(spending.values())
    return ((name, cost, f"{float(100 * cost / whole):.3g} %") for name, cost in spending.items())


def _points(rows: Sequence[Epsilons]) -> tuple[tuple[tuple[float, float], ...], ...]:
    """For each method, pairs of delta and epsilon."""
    return tuple(
        tuple((float(r.delta), r.pld[1] if key == "pld" else getattr(r, key)) for r in rows)
        for key in METHODS
    )


@lru_cache(maxsize=8)
def _curve(points: tuple[tuple[tuple[float, float], ...], ...]) -> str:
    """Epsilon against delta, by each method. A release is sealed when it is measured, and again
    when it is complete."""
    return facts.epsilon_by_delta(dict(zip(METHODS.values(), points, strict=True)))


# Why a count is published worse than it was measured, and what to do: a line for people each.

#: Of places on the production tree that hold one type of facility: who is in them is settled above.
REMEDY_FACILITIES = 'set estimation.method = "full-information"'
REMEDY = 'hold it in estimation.passes, or set estimation.method = "full-information"'


def cause(level: str, above: str | None) -> str:
    """The cause in words.

    ``above`` is given where a unit of ``level`` in the measured tree has all facilities of one type
    in the unit above it. It is the level above, which is estimated first."""
    if above is not None:
        return (
            f"group-quarters {level_inside(level)}s were fixed from noisier"
            f" {level_inside(above)} counts"
        )
    return "counts must agree with all levels and be 0 or more; over few places, chance adds to it"


def remedy(above: str | None) -> str:
    """What avoids it; ``above`` is as in :func:`cause`."""
    return REMEDY if above is None else REMEDY_FACILITIES
