r"""What the errors of noisy measurements must be: the moments of their noise.

A published variance :math:`v` determines the noise, whichever of the two mechanisms drew it, so units of one
query may have different ones.

*Discrete Gaussian*: :math:`E|X| = \sum_x |x| p(x)`, :math:`p(x) \propto e^{-x^2/2\sigma^2}`, which tends to
:math:`\sigma\sqrt{2/\pi}` from below: by Euler and Maclaurin, the kink of \|x\| costs :math:`p(0)/6`. From
:math:`v = 1`, :math:`\sigma^2 = v` to seven digits; below, it solves :math:`v(\sigma^2) = v`. *Two-sided geometric*: :math:`E|X| = 2q/(1 - q^2)` with :math:`v = 2q/(1 - q)^2`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, pi, sqrt

import numpy as np

from das.model.budget import Mechanism

#: From this standard deviation the first two terms of Euler and Maclaurin do: the next is p(0)/(120 sigma^2).
_WIDE = 100.0


@dataclass(frozen=True)
class Moments:
    """E|X| and the variance of one answer's noise."""

    mean_abs: float
    variance: float

    @property
    def deviation_abs(self) -> float:
        """The standard deviation of \\|X\\|: over sqrt(n) it is that of a mean absolute error of n answers."""
        return sqrt(max(0.0, self.variance - self.mean_abs**2))


@lru_cache(maxsize=4096)
def moments(mechanism: Mechanism, variance: float) -> Moments:
    """The noise whose published variance is ``variance`` (finite, > 0).

    >>> m = moments(Mechanism.DISCRETE_GAUSSIAN, 25.0)
    >>> round(m.mean_abs, 4), round(5 * sqrt(2 / pi), 4)
    (3.9761, 3.9894)
    """
    if mechanism is Mechanism.GEOMETRIC:
        q = variance / (variance + 1 + sqrt(2 * variance + 1))  # the root below 1 of v q^2 - (2v + 2) q + v
        return Moments(2 * q / (1 - q * q), variance)
    if variance >= _WIDE**2:
        return Moments(sqrt(2 * variance / pi) - 1 / (6 * sqrt(2 * pi * variance)), variance)
    sigma_sq = variance if variance >= 1 else _solve(variance)
    return Moments(_sums(sigma_sq)[0], variance)


def _sums(sigma_sq: float) -> tuple[float, float]:
    """E|X| and E[X^2] of the discrete Gaussian, term by term: the terms beyond 14 sigma are below 1e-40."""
    x = np.arange(1, ceil(14 * sqrt(sigma_sq)) + 2, dtype=np.float64)
    p = 2 * np.exp(-(x**2) / (2 * sigma_sq))
    whole = 1 + p.sum()
    return float(x @ p / whole), float(x**2 @ p / whole)


def _solve(variance: float) -> float:
    """The parameter of a discrete Gaussian of a small variance, by bisection: the variance grows with it."""
    low, high = 1e-3, 1.1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _sums(middle)[1] < variance else (low, middle)
    return high


def expected(mechanism: Mechanism, units: dict[float, int]) -> Moments:
    """Over units of several variances (``units`` of each): the moments of an answer of a random one of them."""
    n = sum(units.values())
    each = [(moments(mechanism, v), k / n) for v, k in units.items()]
    return Moments(sum(m.mean_abs * w for m, w in each), sum(m.variance * w for m, w in each))
