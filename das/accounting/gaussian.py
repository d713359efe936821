r"""The privacy profile of the continuous Gaussian, in floating point: where searches for the discrete one start.

A composition of :math:`\rho` is one Gaussian with :math:`\mu = \sqrt{2\rho}`, and

.. math:: \delta(\varepsilon) = \Phi(\mu/2 - \varepsilon/\mu) - e^{\varepsilon}\Phi(-\mu/2 - \varepsilon/\mu)

(Balle and Wang 2018, theorem 8). The discrete profile is near it, above or below, and no bound follows.
"""

from __future__ import annotations

from math import exp, inf, log1p, sqrt

import scipy
from scipy.special import log_ndtr


def log_delta(rho: float, eps: float) -> float:
    mu = sqrt(2 * rho)
    first, second = float(log_ndtr(mu / 2 - eps / mu)), eps + float(log_ndtr(-mu / 2 - eps / mu))
    return first + log1p(-exp(second - first)) if second < first else -inf


def epsilon(rho: float, goal: float, most: float) -> float:
    """Where ln delta is ``goal``; 0 where it is lower everywhere, ``most`` where that is too little."""
    if log_delta(rho, 0.0) <= goal:
        return 0.0
    if log_delta(rho, most) >= goal:
        return most
    return float(scipy.optimize.brentq(lambda e: log_delta(rho, e) - goal, 0.0, most, rtol=1e-9))


def rho(eps: float, goal: float) -> float:
    """The rho with which ln delta(eps) is ``goal``."""
    low, high = 1e-12 * eps**2, 1.0 + eps
    while log_delta(high, eps) < goal:
        high *= 2
    while log_delta(low, eps) > goal:
        low /= 1e3
    return float(scipy.optimize.brentq(lambda r: max(log_delta(r, eps), -1e9) - goal, low, high, rtol=1e-9))
