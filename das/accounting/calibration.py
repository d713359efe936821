"""How much noise reaches a given (epsilon, delta): one factor on the variances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, floor, log, log2, log10
from typing import Literal

from das.accounting import zcdp
from das.accounting.draws import Composition, Differing, Draws, Exactly, changed, exact
from das.accounting.guarantee import exact_epsilon
from das.accounting.profile import PrivacyProfile, checked_delta, log_of, worst_epsilon
from das.accounting.roots import crossing
from das.accounting.zcdp import tight
from das.errors import SpecError
from das.model.plan import Plan

Calibration = Literal["exact", "zcdp-tight"]

#: Factors are rounded up to this many bits.
BITS = 40


def calibrate(
    draws: Draws | Composition, epsilon: Exactly, delta: Exactly, method: Calibration = "exact"
) -> Fraction:
    """A factor f such that draws with every variance times f just reach ``epsilon`` at ``delta``.

    ``method`` is ``exact`` (the upper end of :func:`das.accounting.epsilon`) or ``zcdp-tight``. The
    factor is rounded up, to 40 bits. It meets the target by the same function that states epsilon.
    It exceeds the factor for equality by a few parts in 10^12 (in 10^11 with ``zcdp-tight``, which
    minimizes in floating point). It is the least factor wherever epsilon falls as the noise grows.
    The exact epsilon of very few draws of little noise does not (``docs/explanation/accounting.md``, "Limits");
    there smaller factors may also meet the target. As one rational scales all variances, losses on
    a lattice stay on one.

    Raises ``ValueError`` for an epsilon that is not positive, or without draws.

    >>> f = calibrate([(Fraction(10), 10)], 5, "1e-10")
    >>> from das.accounting import epsilon
    >>> 4.999999 < epsilon([(10 * f, 10)], "1e-10")[1] <= 5
    True"""
    every = changed(draws)
    target, d = exact(epsilon, "epsilon"), checked_delta(delta)
    if target <= 0:
        raise ValueError(f"epsilon is {epsilon}, not positive")
    if not any(path for part in every for path in part.paths):
        raise ValueError("there are no draws to calibrate")
    if method not in ("exact", "zcdp-tight"):
        raise ValueError(f"there is no calibration {method!r}: exact, zcdp-tight")
    factor = _worst_factor(every, target, d, method)
    step = Fraction(2) ** (floor(log2(factor)) - BITS)
    found = ceil(Fraction(factor) / step) * step
    while _reached(_scaled(every, found), d, method) > target:
        found, step = found + step, 2 * step
    return found


def _scaled(every: Differing, factor: Fraction) -> Differing:
    return tuple(part.scaled(factor) for part in every)


def _reached(every: Differing, delta: Fraction, method: Calibration) -> float:
    if method == "exact":
        return worst_epsilon(every, delta).high
    return tight(sum((part.rho for part in every), Fraction(0)), delta)


def _worst_factor(
    every: Differing, target: Fraction, delta: Fraction, method: Calibration
) -> float:
    """About the factor with which the worst of all compositions reaches the target. It takes the
    factor of one composition, until no other is worse."""
    (part,), factor, asked = every, 0.0, set()
    at = max(range(len(part.moves)), key=lambda i: part.composition(part.moves[i]).rho)
    while at not in asked:
        asked.add(at)
        factor = max(factor, _factor(part.composition(part.moves[at]), target, delta, method))
        if method == "exact" and len(part.moves) > 1:
            at = worst_epsilon(_scaled(every, Fraction(factor)), delta).at[0]
    return factor


def _factor(whole: Composition, target: Fraction, delta: Fraction, method: Calibration) -> float:
    """About the factor of one composition."""

    def excess(log_factor: float) -> float:
        scaled = whole.scaled(Fraction(exp(log_factor)))
        if method == "zcdp-tight":
            return tight(scaled.rho, delta) - float(target)
        return max(PrivacyProfile(scaled).log_delta(target).middle, -1e5) - log_of(delta)

    return exp(_root(excess, log(float(whole.rho) / zcdp.rho(float(target), log_of(delta)))))


def _root(excess: Callable[[float], float], start: float) -> float:
    """A root of a function that falls, though perhaps not everywhere. The search for a bracket goes
    outwards from ``start``, the root for continuous noise."""
    near, step = (start, excess(start)), 1e-3
    side = 1 if near[1] > 0 else -1
    far = (start + side * step, excess(start + side * step))
    while far[1] * side > 0:
        step *= 2
        at = far[0] + side * step
        near, far = far, (at, excess(at))
    return crossing(excess, near, far, absolute=1e-13, relative=1e-14)


# A budget by target: the largest :math:`\rho` with which a plan of given shape meets a target
# :math:`(\varepsilon, \delta)`.
#
# The shape of a plan is its shares. Scaling every variance by :math:`f` divides every draw's cost,
# and so :math:`\rho`, by :math:`f`. To choose a common factor on the noise is to choose :math:`\rho`.

#: Significant digits of a computed rho: a person can read them, and they lose less than one part
#: in 10^9.
DIGITS = 10


@dataclass(frozen=True)
class Target:
    """``epsilon`` at ``delta`` for the persons' plan. ``calibration`` is ``exact`` (exact
    composition) or ``zcdp-tight``, the tight conversion of zCDP: more noise, and a bound that needs
    only ``rho``."""

    epsilon: Fraction
    delta: Fraction
    calibration: Calibration

    def reached(self, plan: Plan) -> float:
        """An upper bound on the epsilon of ``plan`` at ``delta``, by the method of the target."""
        if self.calibration == "zcdp-tight":
            return tight(plan.cost, self.delta)
        return exact_epsilon(changed(plan), self.delta)[1]

    def rho(self, shape: Plan) -> Fraction:
        """The budget at which a plan with the shares of ``shape`` meets the target, rounded down to
        ``DIGITS`` digits, that is, towards more noise. A check confirms that the rounded budget
        meets the target."""
        found = shape.cost / calibrate(shape, self.epsilon, self.delta, self.calibration)
        for rho in (_rounded_down(found), found):
            if self.reached(shape.scaled(rho)) <= self.epsilon:
                return rho
        raise AssertionError(f"calibration gave rho = {found}, which does not meet {self}")

    def check(self, plan: Plan) -> None:
        """Raises :class:`SpecError` if ``plan`` does not meet the target."""
        if (reached := self.reached(plan)) > self.epsilon:
            raise SpecError(
                f"rho = {plan.cost} gives epsilon = {reached:.10g} at delta = {self.delta}, above"
                f" the target of {self.epsilon}",
                where="budget.rho",
                remedy=(
                    "delete rho, and das finds it from epsilon and delta; or delete epsilon and"
                    " calibration, and keep rho"
                ),
            )


def _rounded_down(value: Fraction) -> Fraction:
    unit = Fraction(10) ** (floor(log10(value)) + 1 - DIGITS)
    return floor(value / unit) * unit
