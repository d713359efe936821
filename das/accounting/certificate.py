r"""The sum of :mod:`das.accounting.contour` in ball arithmetic: it proves bounds on rounding
instead of allowing for it.

Each draw under the tilt is a theta function, whatever its variance: with :math:`\tau = 2\pi
i\sigma^2`,

.. math:: \varphi(t) = e^{-\sigma^2 t^2/2 + i c t} \, \frac{\vartheta_3(c + i\sigma^2 t \mid \tau)}{\vartheta_3(c \mid \tau)},

:math:`t/2\pi` the exact rational angle, reduced to [-1/2, 1/2]. Arb (python-flint, the extra
``certify``) encloses each value in a ball. The kept nodes, and the bounds on the terms left out,
are those of the contour."""

from __future__ import annotations

from fractions import Fraction
from math import exp, expm1, inf, log, nextafter, sinh, sqrt
from typing import Any, Protocol

import numpy as np

from das.accounting.contour import UNIT, Contour, LogDelta
from das.accounting.draws import Composition
from das.accounting.peaks import short
from das.errors import UserError

#: Bits of the balls: forty digits more than the result needs.
BITS = 192


def log_delta(contour: Contour, eps: Fraction) -> LogDelta:
    """Proved bounds of ln delta(eps). Raises :class:`UserError` if python-flint is missing."""
    flint = _flint()
    before, flint.ctx.prec = flint.ctx.prec, BITS
    try:
        return _enclosed(flint, contour, eps)
    finally:
        flint.ctx.prec = before


def _enclosed(flint: Any, contour: Contour, eps: Fraction) -> LogDelta:
    c, period, gap = Fraction(contour.c), contour.period, contour.gap(eps)
    scale = _arb(flint, contour.exponent(eps)).exp()
    draws = []
    for theta in contour.thetas:
        sigma_sq = _arb(flint, 1 / theta.p)
        tau = flint.acb(0, 2 * flint.arb.pi() * sigma_sq)
        tilt = theta.k * c
        at_c, at_0 = (_theta3(flint, flint.acb(_arb(flint, x)), tau) for x in (tilt, Fraction(0)))
        scale *= (at_c.real / at_0.real) ** theta.n
        draws.append((theta.rate / period, theta.n, sigma_sq, tau, at_c, _arb(flint, tilt)))
    total = flint.arb(0)
    rate = (contour.composition.rho - eps - gap) / period
    for j, weight in zip(
        contour.kept.j.tolist(), contour.weights(contour.kept.j).tolist(), strict=True
    ):
        term = _kernel(flint, contour, gap, j) * _turn(flint, j * rate).exp()
        for per_step, n, sigma_sq, tau, at_c, tilt in draws:
            t = _turn(flint, j * per_step).imag
            z = flint.acb(tilt, sigma_sq * t)
            phi = flint.acb(-sigma_sq * t * t / 2, tilt * t).exp() * _theta3(flint, z, tau) / at_c
            term *= phi**n
        total += int(weight) * term.real
    total /= _arb(flint, period)
    outside = flint.arb(contour.dropped + contour.beyond)
    alias = 2 * flint.arb(contour.log_alias(eps)).exp()  # twice: its logarithm is a float
    low, high = scale * (total - outside) - alias, scale * (total + outside)
    return LogDelta(
        *(_log(x, side) for x, side in ((low, -inf), (scale * total, 0.0), (high, inf)))
    )


def _kernel(flint: Any, contour: Contour, gap: Fraction, j: int) -> Any:
    angle = 2 * flint.arb.pi() * _arb(flint, j / contour.period)
    z = flint.acb(_arb(flint, Fraction(contour.c)), angle)
    if not contour.lattice:
        return 1 / (z * (z + 1))
    h = _arb(flint, contour.composition.step)
    return h * (1 / (1 - (-z * h).exp()) - (-_arb(flint, gap)).exp() / (1 - (-(z + 1) * h).exp()))


def _theta3(flint: Any, z: Any, tau: Any) -> Any:
    return flint.acb.modular_theta(z, tau)[2]


def _turn(flint: Any, turns: Fraction) -> Any:
    """2 pi i times the angle, reduced to half a turn at most, exactly."""
    return flint.acb(0, 2 * flint.arb.pi() * _arb(flint, turns - round(turns)))


def _arb(flint: Any, x: Fraction) -> Any:
    return flint.arb(flint.fmpq(x.numerator, x.denominator))


def _log(ball: Any, side: float) -> float:
    """The logarithm of one end of a ball (or its middle), outwards."""
    end = ball.mid() if side == 0 else ball.upper() if side > 0 else ball.lower()
    if not end > 0:
        return -inf
    value = end.log()
    return (
        float(value.mid())
        if side == 0
        else nextafter(float((value.upper() if side > 0 else value.lower()).mid()), side)
    )


def _flint() -> Any:
    try:
        import flint
    except ImportError:
        raise UserError(
            "proved bounds need python-flint, which is not installed",
            where="certify",
            remedy="pip install 'topdown-das[certify]', or leave the certificate out",
        ) from None
    return flint


# Bounds for draws with so small a share that the sum along the line takes too many recurrences.
#
# Let A be the other draws, B the negligible ones, and :math:`l` the loss of B. Let :math:`f(w) =
# \delta_A(\ln w) = \sup_S P_A(S) - w Q_A(S)`; it is convex, falls, and is at most 1. With :math:`w =
# e^{\varepsilon}`,
#
# .. math:: \delta_{AB}(\varepsilon) = E_B\, f(w e^{-l}) \ge \delta_A(\varepsilon),
#
# the second because leaving B out is post-processing. For a > 0 let :math:`\tau \ge P_B[l > a]`. The
# mirror image has :math:`E_B\, e^{-l} 1[l < -a] = Q_B[l < -a] = P_B[l > a]`, and :math:`E_B\, e^{-l}
# = 1`. On :math:`|l| \le a` the chord from :math:`w_- = w e^{-a}` to :math:`w_+ = w e^{a}` lies above
# f. It falls, and :math:`E_B (w e^{-l} - w_-) 1[|l| \le a] \ge w - w_- - w \tau`: the part left out
# on the right is at most :math:`w\tau`, and the part on the left is negative. Beyond, f is at most 1
# where l > a, and :math:`f(w_-)` where l < -a. Together
#
# .. math:: \delta_{AB}(\varepsilon) \le (1 - \theta) f(w_-) + \theta f(w_+) + \tau, \qquad
# \theta = \frac{1}{1 + e^{a}} - \frac{\tau}{2 \sinh a},
#
# and the same holds with any smaller :math:`\theta \ge 0`. As :math:`P_B[l > a] \le e^{-(a -
# \rho_B)^2/4\rho_B}`, a is some :math:`\sqrt{\rho_B}`. Where f is smooth at this distance, the bound
# exceeds the truth only in the order of :math:`a^2`.

#: Draws that together cost at most this part of rho count as negligible.
SHARE = Fraction(1, 10**6)
#: ln of tau, relative to delta.
OUTSIDE = -25.0


class Bounded(Protocol):
    def log_delta(self, eps: Fraction) -> LogDelta: ...


def split(composition: Composition) -> tuple[Composition, Composition]:
    """The other draws, and the negligible ones: as many of the least precise draws as together cost
    at most :data:`SHARE`."""
    spent, k = Fraction(0), 0
    for p, n in composition.parts:
        spent += n * p / 2
        if spent > SHARE * composition.rho:
            break
        k += 1
    return Composition(composition.parts[k:], composition.shifted), Composition(
        composition.parts[:k]
    )


class WithNegligible:
    """The profile where ``contour``, of all draws, was cut. Its interval contains delta, and so
    does that of ``others``, widened for the ``negligible`` draws. So their intersection contains
    delta."""

    lattice = False

    def __init__(self, contour: Contour, others: Bounded, negligible: Composition) -> None:
        self._contour, self._others, self._rho = contour, others, negligible.rho
        self.center, self.c, self.width = contour.center, contour.c, contour.width

    def covers(self, eps: Fraction) -> bool:
        return self._contour.covers(eps)

    def log_delta(self, eps: Fraction) -> LogDelta:
        whole, others = self._contour.log_delta(eps), self._others.log_delta(eps)
        log_tau = max(others.middle, -1e5) + OUTSIDE
        rho = float(self._rho)
        a = Fraction(short((rho + 2 * sqrt(-rho * log_tau)) * (1 + 1e-9)))
        theta = max(0.0, 1 / (1 + exp(a)) - exp(log_tau) / (2 * sinh(a)) - 4 * UNIT)
        near, far = self._high(eps - a), self._high(eps + a)
        high = float(
            np.logaddexp.reduce(
                [np.log1p(-theta) + near, (log(theta) if theta else -inf) + far, log_tau]
            )
        )
        high = min(0.0, whole.high, high + 16 * UNIT * (1 + abs(high)))
        low = max(whole.low, others.low)
        return LogDelta(low, min(max(others.middle, low), high), high)

    def _high(self, eps: Fraction) -> float:
        """An upper bound of ln of the others' delta. At negative epsilons it uses delta(-x) = 1 -
        e^-x (1 - delta(x))."""
        at = self._others.log_delta(abs(eps)).high
        return (
            at if eps >= 0 else log(min(1.0, (-expm1(eps) + exp(float(eps) + at)) * (1 + 8 * UNIT)))
        )
