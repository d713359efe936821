r"""Bounds for draws with so small a share that the sum along the line takes too many recurrences.

Let A be the other draws, B the negligible ones, and :math:`l` the loss of B. Let :math:`f(w) =
\delta_A(\ln w) = \sup_S P_A(S) - w Q_A(S)`; it is convex, falls, and is at most 1. With :math:`w =
e^{\varepsilon}`,

.. math:: \delta_{AB}(\varepsilon) = E_B\, f(w e^{-l}) \ge \delta_A(\varepsilon),

the second because leaving B out is post-processing. For a > 0 let :math:`\tau \ge P_B[l > a]`. The
mirror image has :math:`E_B\, e^{-l} 1[l < -a] = Q_B[l < -a] = P_B[l > a]`, and :math:`E_B\, e^{-l}
= 1`. On :math:`|l| \le a` the chord from :math:`w_- = w e^{-a}` to :math:`w_+ = w e^{a}` lies above
f. It falls, and :math:`E_B (w e^{-l} - w_-) 1[|l| \le a] \ge w - w_- - w \tau`: the part left out
on the right is at most :math:`w\tau`, and the part on the left is negative. Beyond, f is at most 1
where l > a, and :math:`f(w_-)` where l < -a. Together

.. math:: \delta_{AB}(\varepsilon) \le (1 - \theta) f(w_-) + \theta f(w_+) + \tau, \qquad
          \theta = \frac{1}{1 + e^{a}} - \frac{\tau}{2 \sinh a},

and the same holds with any smaller :math:`\theta \ge 0`. As :math:`P_B[l > a] \le e^{-(a -
\rho_B)^2/4\rho_B}`, a is some :math:`\sqrt{\rho_B}`. Where f is smooth at this distance, the bound
exceeds the truth only in the order of :math:`a^2`."""

from __future__ import annotations

from fractions import Fraction
from math import exp, expm1, inf, log, sinh, sqrt
from typing import Protocol

import numpy as np

from das.accounting.contour import UNIT, Contour, LogDelta
from das.accounting.draws import Composition
from das.accounting.saddle import short

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
        self.centre, self.c, self.width = contour.centre, contour.c, contour.width

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
        e^-x (1 - delta(x)).
        """
        at = self._others.log_delta(abs(eps)).high
        return (
            at if eps >= 0 else log(min(1.0, (-expm1(eps) + exp(float(eps) + at)) * (1 + 8 * UNIT)))
        )
