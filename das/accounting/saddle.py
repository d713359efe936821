r"""Where the line of integration crosses the real axis.

Any c > 0 is correct. At the minimum of :math:`\ln M(c) - \varepsilon c - \ln c (c + 1)` the terms
have the size of the answer. Variances above 1/4 are Gaussian enough for :math:`\ln M(c) = \rho(c^2
+ c)`. Below 1/4, moments are staircases."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, floor, log, log2, pi, sqrt

from das.accounting.draws import Composition
from das.accounting.tilted_gaussian import SMALL, TiltedGaussian


@dataclass(frozen=True)
class Saddle:
    """``c``; ``width``, the square root of the second derivative at c; and ``log_size``, about ln
    delta.
    """

    c: float
    width: float
    log_size: float


def saddle(composition: Composition, eps: float) -> Saddle:
    rho = float(composition.rho)
    small = [(p, k, n) for p, k, n in composition.every if 1 / p < SMALL]

    def log_moment(c: float) -> float:
        return rho * (c * c + c) + sum(TiltedGaussian(p, n, c, k).log_moment for p, k, n in small)

    def exponent(log_c: float) -> float:
        c = exp(log_c)
        return log_moment(c) - eps * c - log(c * (c + 1))

    c = _gaussian(rho, eps)
    bend = 2 * rho
    if small:
        import scipy  # hardly ever needed, and slow to load

        c = exp(
            float(
                scipy.optimize.minimize_scalar(
                    exponent, bounds=(log(c) - 8, log(c) + 8), method="bounded"
                ).x
            )
        )
        d = 1e-2 * c
        bend = max(0.0, (log_moment(c + d) - 2 * log_moment(c) + log_moment(c - d)) / d**2)
    c = short(c)
    width = sqrt(bend + 1 / c**2 + 1 / (c + 1) ** 2)
    return Saddle(c, width, min(0.0, exponent(log(c)) - log(width * sqrt(2 * pi))))


def _gaussian(rho: float, eps: float) -> float:
    """Newton's method. The slope rises and bends down, so steps from the left stay on the left;
    steps from the right are held to half of c."""
    c = max((eps - rho) / (2 * rho), 0.0) + 1 / sqrt(2 * rho)
    for _ in range(60):
        slope = rho * (2 * c + 1) - eps - 1 / c - 1 / (c + 1)
        new = max(c - slope / (2 * rho + 1 / c**2 + 1 / (c + 1) ** 2), c / 2)
        done, c = abs(new - c) < 1e-5 * c, new
        if done:
            break
    return c


def short(x: float, bits: int = 12) -> float:
    """``x`` rounded up to a few bits, so that exact rationals made of it stay small."""
    unit = Fraction(2) ** (floor(log2(x)) + 1 - bits)
    return float(ceil(Fraction(x) / unit) * unit)
