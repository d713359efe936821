r"""The trade-off function of f-differential privacy: the least type II error of a test of neighbours, at each level.

.. math:: f(\alpha) = \max_{\varepsilon \in \mathbb{R}} \; 1 - \delta(\varepsilon) - e^{\varepsilon} \alpha
                    = \max_{w > 0} G(w), \qquad w = e^{\varepsilon},

the convex dual of the profile (Dong, Roth and Su 2022, proposition 2.12), with
:math:`\delta(-\varepsilon) = 1 - e^{-\varepsilon}(1 - \delta(\varepsilon))` as P and Q are mirror images. Every
epsilon gives a lower bound. As a function of w, delta is convex, so G is concave: from three points
:math:`w_1 < w_2 < w_3` of which the middle one is certainly highest,

.. math:: f(\alpha) \le G_2 + \max\Bigl((G_2 - G_1) \frac{w_3 - w_2}{w_2 - w_1}, (G_2 - G_3) \frac{w_2 - w_1}{w_3 - w_2}\Bigr),

the chords prolonged. On a lattice G is linear between the losses, so the highest of those between
:math:`w_1` and :math:`w_3` is the maximum itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import exp, sqrt

from scipy.optimize import minimize_scalar
from scipy.special import ndtri

from das.accounting.contour import UNIT
from das.accounting.draws import Composition, Draws, Exact, exact
from das.accounting.profile import Profile

#: Losses listed on either side of the highest point, at most.
SIDE = 8


def tradeoff(draws: Draws | Composition, alphas: Iterable[Exact]) -> list[tuple[float, float]]:
    """Intervals that hold f(alpha), for alphas in [0, 1]; some 1e-13 wide (absolute).

    >>> [(low, high)] = tradeoff([(Fraction(50), 10)], ["0.05"])
    >>> round(low, 6), high - low < 1e-11
    (0.884482, True)
    """
    composition = Composition.of(draws)
    levels = [exact(a, "alpha") for a in alphas]
    if wrong := [a for a in levels if not 0 <= a <= 1]:
        raise ValueError(f"alpha is {wrong[0]}, not between 0 and 1")
    profile = Profile(composition)
    return [_bounds(profile, a) for a in levels]


@dataclass(frozen=True)
class _Dual:
    """G at one alpha: bounds (low, middle, high) at an epsilon of either sign."""

    profile: Profile
    alpha: Fraction

    def __call__(self, eps: Fraction) -> tuple[float, float, float]:
        at = self.profile.log_delta(abs(eps))
        low, middle, high = (self._value(eps, exp(x)) for x in (at.high, at.middle, at.low))
        slack = 8 * UNIT * (1 + abs(float(eps))) * (exp(float(eps)) * float(self.alpha) + 1)
        return low - slack, middle, high + slack

    def _value(self, eps: Fraction, delta: float) -> float:
        if eps >= 0:
            return 1 - delta - exp(float(eps)) * float(self.alpha)
        return exp(float(eps)) * (float(1 - self.alpha) - delta)


def _bounds(profile: Profile, alpha: Fraction) -> tuple[float, float]:
    if alpha in (0, 1) or not profile.composition.parts:
        return (float(1 - alpha),) * 2
    dual = _Dual(profile, alpha)
    top = _top(dual)
    low, _, high = dual(top)
    unit = _unit(dual, top)
    for k in (2**i for i in range(64)):
        left, right = dual(top - k * unit), dual(top + k * unit)
        if left[2] <= low and right[2] <= low:
            break
    else:
        return max(0.0, low), 1.0
    if profile.on_lattice(top) and k <= SIDE:
        return max(0.0, low), max(dual(top + i * unit)[2] for i in range(1 - k, k))
    width = float(k * unit)
    rise = max((high - left[0]) * exp(width), (high - right[0]) * exp(-width))
    return max(0.0, low), high + max(0.0, rise)


def _top(dual: _Dual) -> Fraction:
    """About where G is highest: from the continuous Gaussian's, by Brent's method; on a lattice, the best loss near."""
    rho = float(dual.profile.composition.rho)
    width, a = sqrt(2 * rho), dual.alpha
    guess = -rho + width * float(-ndtri(float(a)) if a < Fraction(1, 2) else ndtri(float(1 - a)))
    found = minimize_scalar(lambda e: -dual(Fraction(e))[1], bracket=(guess - width / 8, guess + width / 8))
    eps = Fraction(float(found.x))
    if not dual.profile.on_lattice(eps):
        return eps
    h, base = dual.profile.composition.step, dual.profile.composition.rho
    s = round((eps - base) / h)
    return max((base + h * i for i in (s - 1, s, s + 1)), key=lambda e: dual(e)[1])


def _unit(dual: _Dual, top: Fraction) -> Fraction:
    """The first distance to look left and right: one step of the lattice, or a small part of the width."""
    if dual.profile.on_lattice(top):
        return dual.profile.composition.step
    return Fraction(1e-9 * sqrt(2 * float(dual.profile.composition.rho)))
