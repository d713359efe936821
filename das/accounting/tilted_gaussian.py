r"""One discrete Gaussian under an exponential tilt: its characteristic function and bounds of it.

With :math:`p = 1/\sigma^2`, a tilt :math:`c` and :math:`t = p y`,

.. math:: \varphi(t) = \frac{E\, e^{(c + iy) p X}}{E\, e^{c p X}}
    = \frac{\sum_k \exp(-\sigma^2 (t + 2\pi k)^2 / 2 + i c (t + 2\pi k))}{\sum_k
    \exp(-2\pi^2\sigma^2 k^2 + 2\pi i k c)}

by Poisson's formula: a train of Gaussian bumps of period :math:`2\pi`. The modulus of the numerator
is at most

.. math:: W(t) = \sum_k \exp(-\sigma^2 (t + 2\pi k)^2/2),

which falls on :math:`[0, \pi]` (each factor of Jacobi's triple product does). Below a variance of
1/4 the first form is summed instead, over x near c.

An answer that differs by k has :math:`k p X` in the loss: the same with the tilt :math:`k c` and
:math:`t = k p y`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import cos, exp, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Below this variance sums run over x, not over its dual.
SMALL = Fraction(1, 4)


@dataclass(frozen=True)
class TiltedGaussian:
    """``n`` draws of precision ``p`` on the line at ``c``, each of whose answers differs by
    ``k``."""

    p: Fraction
    n: int
    line: float
    k: int = 1

    @property
    def c(self) -> float:
        """The tilt."""
        return self.k * self.line

    @property
    def rate(self) -> Fraction:
        """The angle t for each unit of y."""
        return self.k * self.p

    @cached_property
    def sigma_sq(self) -> float:
        return float(1 / self.p)

    @cached_property
    def small(self) -> bool:
        return 1 / self.p < SMALL

    @cached_property
    def _terms(self) -> range:
        """The k to sum over. The first term left out is below e^-45 of the whole, for |t| <= pi."""
        most = 1
        while 2 * pi * pi * self.sigma_sq * most * (most + 1) < 45:
            most += 1
        return range(-most, most + 1)

    @cached_property
    def _near(self) -> range:
        """The x to sum over where the variance is small: p >= 4, so e^{-p (6.5^2 - 1/4) / 2} <
        e^-80 is left out."""
        return range(round(self.c) - 7, round(self.c) + 8)

    def _dual(self, c: float) -> float:
        """The denominator, sum_k exp(-2 pi^2 sigma^2 k^2) cos(2 pi k c)."""
        turn = c % 1.0
        return sum(
            exp(-2 * pi * pi * self.sigma_sq * k * k) * cos(2 * pi * k * turn) for k in self._terms
        )

    @cached_property
    def log_denominator(self) -> float:
        return log(self._dual(self.c))

    @cached_property
    def log_moment(self) -> float:
        r"""n times :math:`\ln(\theta(c)/\theta(0))`, with :math:`\theta(c) = \sum_x e^{-p (x -
        c)^2/2}`: the difference of ln E e^{cL} from the continuous Gaussian's."""
        if not self.small:
            return self.n * (self.log_denominator - log(self._dual(0.0)))
        return self.n * (self._log_theta(self.c) - self._log_theta(0.0))

    def _log_theta(self, c: float) -> float:
        p, middle = float(self.p), round(c)
        peak = -p * (middle - c) ** 2 / 2
        return peak + log(
            sum(exp(-p * (x - c) ** 2 / 2 - peak) for x in range(middle - 7, middle + 8))
        )

    def _felt(self, most: float) -> list[int]:
        """The terms that matter: those that exceed e^-45 for some |t| <= ``most``, without the
        first (k = 0, which is 1)."""
        s = self.sigma_sq
        return [k for k in self._terms if k and 2 * pi * s * abs(k) * (pi * abs(k) - most) < 45]

    def log_phi(self, t: Array) -> NDArray[np.complex128]:
        """n ln phi, for |t| <= pi; -inf where phi is 0."""
        with np.errstate(divide="ignore"):
            if self.small:
                w = [-float(self.p) * (x - self.c) ** 2 / 2 for x in self._near]
                weights = np.exp(np.array(w) - max(w))
                total = sum(
                    g * np.exp(1j * x * t) for x, g in zip(self._near, weights, strict=True)
                )
                return self.n * np.log(total / weights.sum())
            s, turn = self.sigma_sq, self.c % 1.0
            first = np.asarray(
                -s * t * t / 2 + 1j * self.c * t - self.log_denominator, dtype=np.complex128
            )
            if felt := self._felt(float(np.abs(t).max(initial=0.0))):
                others = sum(
                    np.exp(-2 * pi * s * k * (t + pi * k) + 2j * pi * k * turn) for k in felt
                )
                first += np.log(1 + others)
            return np.asarray(self.n * first)

    def log_bound(self, t: Array) -> Array:
        """n ln of a bound of |phi|, for |t| <= pi: W(t) over the denominator, or 1."""
        if self.small:
            return np.zeros_like(t)
        s = self.sigma_sq
        first = -s * t * t / 2 - self.log_denominator
        if felt := self._felt(float(np.abs(t).max(initial=0.0))):
            first += np.log1p(sum(np.exp(-2 * pi * s * k * (t + pi * k)) for k in felt))
        return self.n * np.minimum(0.0, first)

    @property
    def recurrence(self) -> float:
        """The period in y."""
        return 2 * pi * self.sigma_sq / self.k

    def reach_in_y(self, tau: float) -> float:
        """The |y| within which t is within its reach of 0."""
        return self.reach(tau) * self.sigma_sq / self.k

    @cached_property
    def _reaches(self) -> dict[float, float]:
        """Reaches computed so far, by tau."""
        return {}

    def reach(self, tau: float) -> float:
        """The |t| beyond which the bound is at most e^-tau; pi where it never is. Rounded
        upwards."""
        if tau not in self._reaches:
            self._reaches[tau] = self._reach(tau)
        return self._reaches[tau]

    def _reach(self, tau: float) -> float:
        r"""The bound is :math:`e^{-\tau}` where :math:`\sigma^2 t^2/2 = \tau/n + \ln(S(t)/D)`. Here
        D is the denominator, and S(t) is the sum of W's terms over its first, which rises with |t|.
        Iterating this from t = pi, t falls to the reach and stays above it."""
        at = pi
        if self.small:
            return at
        while True:
            square = 2 * (tau / self.n + log(self._rest(at)) - self.log_denominator) / self.sigma_sq
            new = sqrt(max(square, 0.0))
            if new >= at * (1 - 1e-6):
                return min(at, pi)
            at = new

    def _rest(self, t: float) -> float:
        """W(t) over its first term."""
        return 1 + sum(exp(-2 * pi * self.sigma_sq * k * (t + pi * k)) for k in self._felt(t))

    @cached_property
    def mass(self) -> float:
        """An upper bound of the integral of the bound over one period, in y. If the other terms do
        not matter, it is that of a Gaussian. Otherwise it sums the bound's values at the nearer
        ends of 2,000 steps, over which the bound falls."""
        end = self.reach(40.0)
        if self.small or self._felt(end):
            held = float(np.exp(self.log_bound(np.linspace(0, end, 2001)[:-1])).sum()) * end / 2000
        else:
            held = exp(-self.n * self.log_denominator) * sqrt(pi / (2 * self.n * self.sigma_sq))
        return 2 * self.sigma_sq / self.k * (held + (pi - end) * exp(-40.0)) * (1 + 1e-9)

    def roundings(self, t: Array) -> Array:
        """The error of phi^n at ``t``, to first order, in units of 2^-53 of the bound."""
        wide = self.n * (8 + 2 * self.sigma_sq * t * t + 4 * self.c * np.abs(t))
        return wide + self.n * (
            (self.sigma_sq * np.abs(t) + self.c) / 64 + (float(self.p) if self.small else 0.0)
        )
