r"""Conversions of :math:`\rho`-zCDP to :math:`(\varepsilon, \delta)`.

Two upper bounds on the true :math:`\varepsilon(\delta)`, both computed in floating point and good
to about twelve digits, with their inverses:

* :func:`bun_steinke`: :math:`\rho + 2\sqrt{\rho \ln(1/\delta)}` (Bun and Steinke 2016, proposition
  1.3);
* :func:`tight`: :math:`\inf_{\alpha > 1} \alpha\rho + \frac{\ln(1/\delta) + \alpha\ln(1 - 1/\alpha)
  - \ln(\alpha - 1)}{\alpha - 1}` (Canonne, Kamath and Steinke 2020, corollary 13; Kazan and Reiter
  2022, equation 7), which is the one behind the Bureau's published 17.14 at :math:`\rho =
  293764/114921`, :math:`\delta = 10^{-10}`.

The function to minimize is convex in neither case, but its derivative has one sign on either side
of one :math:`\alpha`, where

.. math:: (\alpha - 1)^2 \rho + \ln \alpha = \ln(1/\delta), \qquad (2\alpha - 1)\rho - \ln\frac{\alpha}{\alpha - 1} = \varepsilon

(the first for epsilon, the second for delta; the left sides increase). Any other :math:`\alpha`
gives a bound as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import erfc, exp, inf, log, log1p, log10, pi, sqrt
from typing import TypeGuard

from das.accounting.roots import crossing
from das.errors import PrivacyError, SpecError
from das.model.budget import PlannedMeasurement, total
from das.model.ledger import Event, Ledger
from das.model.plan import Plan

Rational = Fraction | int
#: Beyond this number, and below its inverse, floats do not carry the sums of an account.
LARGEST = Fraction(10**100)


def countable(value: Rational, name: str) -> float:
    """``value`` as a float: 0, or between 1e-100 and 1e100. Raises :class:`SpecError` for others."""
    if value != 0 and not 1 / LARGEST <= value <= LARGEST:
        said = str(value)
        if isinstance(value, Fraction | int) and value > 0:
            above, below = Fraction(value).as_integer_ratio()
            said = f"about 1e{round(log10(above) - log10(below))}"
        raise SpecError(f"this is {said}, not between 1e-100 and 1e100", where=name)
    return float(value)


def _checked(rho: Rational, delta: Rational) -> tuple[float, float]:
    if rho < 0:
        raise ValueError(f"rho is {rho}, not >= 0")
    r = countable(rho, "rho")
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}, not between 0 and 1")
    d = Fraction(delta)
    if d > Fraction(1, 2):  # the difference of two logarithms would be rounding error near 1
        return r, -log1p(-float(1 - d))
    return r, log(d.denominator) - log(d.numerator)


def bun_steinke(rho: Rational, delta: Rational) -> float:
    """Epsilon at ``delta``, by the simple conversion.

    >>> round(bun_steinke(Fraction(293764, 114921), Fraction(1, 10**10)), 4)
    17.9002"""
    r, log_inverse = _checked(rho, delta)
    return r + 2 * sqrt(r * log_inverse)


def tight(rho: Rational, delta: Rational) -> float:
    """Epsilon at ``delta``, by the tight conversion.

    >>> round(tight(Fraction(293764, 114921), Fraction(1, 10**10)), 4)
    17.1436"""
    r, log_inverse = _checked(rho, delta)
    if r == 0:
        return 0.0

    most = sqrt(log_inverse / r)
    beta = _zero(lambda b: b * b * r + log1p(b) - log_inverse, most * 1e-12, most)  # alpha - 1
    return max(0.0, (1 + beta) * r + (log_inverse - (1 + beta) * log1p(beta)) / beta + log(beta))


def no_more(rho: Rational, delta: Rational) -> float:
    """:func:`tight`, raised by more than the error of floating point."""
    return tight(rho, delta) * (1 + 1e-9)


def bun_steinke_delta(rho: Rational, epsilon: Rational) -> float:
    """The inverse of :func:`bun_steinke`: exp(-(epsilon - rho)^2 / 4 rho), and 1 up to epsilon =
    rho."""
    if (r := countable(rho, "rho")) == 0:
        return 0.0
    return exp(-(max(0.0, countable(epsilon, "epsilon") - r) ** 2) / (4 * r))


def tight_delta(rho: Rational, epsilon: Rational) -> float:
    r"""Delta at ``epsilon``: :math:`\inf_{\alpha > 1} e^{(\alpha - 1)(\alpha\rho - \varepsilon)} (1
    - 1/\alpha)^\alpha/(\alpha - 1)`, the inverse of :func:`tight` (Canonne, Kamath and Steinke
    2020, corollary 13)."""
    if (r := countable(rho, "rho")) == 0:
        return 0.0
    e = countable(epsilon, "epsilon")
    near = max(e - r, 0.0) / (2 * r) + 1 / sqrt(2 * r)
    beta = _zero(lambda b: (1 + 2 * b) * r - e - log1p(1 / b), near * 1e-6, near * 1e6)  # alpha - 1
    return exp(min(0.0, beta * ((1 + beta) * r - e) - (1 + beta) * log1p(1 / beta) - log(beta)))


def _zero(increasing: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function passes 0 between two positive numbers, to the last digits. If it
    does not, the end that is nearer to 0."""
    for _ in range(120):
        middle = sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
    return high


def implied(rho: Rational) -> float:
    """sqrt(2 rho): the epsilon of a pure mechanism with the same rho (Kazan and Reiter 2022,
    section 2)."""
    return sqrt(2 * countable(rho, "rho"))


# The privacy profile of the continuous Gaussian, in floating point. Searches for the discrete
# profile start from it.
#
# A composition of :math:`\rho` is one Gaussian with :math:`\mu = \sqrt{2\rho}`, and
#
# .. math:: \delta(\varepsilon) = \Phi(\mu/2 - \varepsilon/\mu) - e^{\varepsilon}\Phi(-\mu/2 - \varepsilon/\mu)
#
# (Balle and Wang 2018, theorem 8). The discrete profile is near it, above or below, so it gives no
# bound.

#: Below this value the tail is computed by its continued fraction.
_FAR = -20.0


def log_delta(rho: float, eps: float) -> float:
    mu = sqrt(2 * rho)
    first, second = _log_phi(mu / 2 - eps / mu), eps + _log_phi(-mu / 2 - eps / mu)
    return first + log1p(-exp(second - first)) if second < first else -inf


def epsilon(rho: float, goal: float, most: float) -> float:
    """The epsilon at which ln delta is ``goal``: 0 if ln delta is lower everywhere, ``most`` if it
    is still higher there."""

    def excess(eps: float) -> float:
        return max(log_delta(rho, eps), -1e9) - goal

    if (least := excess(0.0)) <= 0:
        return 0.0
    if (greatest := excess(most)) >= 0:
        return most
    return crossing(excess, (0.0, least), (most, greatest), relative=1e-9)


def rho(eps: float, goal: float) -> float:
    """The rho with which ln delta(eps) is ``goal``."""

    def excess(r: float) -> float:
        return max(log_delta(r, eps), -1e9) - goal

    low, high = 1e-12 * eps**2, 1.0 + eps
    while excess(high) < 0:
        high *= 2
    while excess(low) > 0:
        low /= 1e3
    return crossing(excess, (low, excess(low)), (high, excess(high)), relative=1e-9)


def _log_phi(x: float) -> float:
    r"""ln Phi(x). Far out :math:`\Phi(x) = \varphi(x) / (|x| + 1/(|x| + 2/(|x| + \dots)))`."""
    if x > 0:
        return log1p(-erfc(x / sqrt(2)) / 2)
    if x > _FAR:
        return log(erfc(-x / sqrt(2)) / 2)
    below = -x
    for k in range(20, 0, -1):
        below = -x + k / below
    return -x * x / 2 - log(below) - log(2 * pi) / 2


# Draws whose privacy needs no delta: their epsilons add up.


def pure(draws: Plan | Ledger | Iterable[Event]) -> Fraction:
    """Epsilon of draws under pure differential privacy: the exact sum of their costs, on the
    costliest path. Raises :class:`PrivacyError` for noise that is private with a delta above 0 only,
    whose costs are no epsilon.

    >>> pure(Plan.of_epsilon("1/2", ["State"], ["total"]))
    Fraction(1, 2)"""
    every = (
        draws.measurements
        if isinstance(draws, Plan)
        else draws.events
        if isinstance(draws, Ledger)
        else tuple(draws)
    )
    cost = draws.cost if isinstance(draws, Plan | Ledger) else total(every)
    if other := [d.mechanism for d in every if not d.mechanism.pure]:
        raise PrivacyError(
            f"{other[0]} noise has no epsilon without a delta: it is paid for in"
            f" {other[0].currency}",
            where="account",
            remedy="ask das.epsilon(plan, delta)",
        )
    return cost


def all_pure(draws: object) -> TypeGuard[Plan | Ledger | tuple[Event, ...]]:
    """Whether these are draws, and all of them are differentially private with a delta of 0."""
    every = (
        draws.measurements
        if isinstance(draws, Plan)
        else draws.events
        if isinstance(draws, Ledger)
        else draws
    )
    return (
        isinstance(every, tuple)
        and bool(every)
        and all(isinstance(d, PlannedMeasurement) and d.mechanism.pure for d in every)
    )
