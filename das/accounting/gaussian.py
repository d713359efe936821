r"""The privacy profile of the continuous Gaussian, in floating point. Searches for the discrete
profile start from it.

A composition of :math:`\rho` is one Gaussian with :math:`\mu = \sqrt{2\rho}`, and

.. math:: \delta(\varepsilon) = \Phi(\mu/2 - \varepsilon/\mu) - e^{\varepsilon}\Phi(-\mu/2 - \varepsilon/\mu)

(Balle and Wang 2018, theorem 8). The discrete profile is near it, above or below, so it gives no
bound."""

from __future__ import annotations

from math import erfc, exp, inf, log, log1p, pi, sqrt

from das.accounting.roots import crossing

#: Below this value the tail is computed by its continued fraction.
_FAR = -20.0


def log_delta(rho: float, eps: float) -> float:
    mu = sqrt(2 * rho)
    first, second = _log_phi(mu / 2 - eps / mu), eps + _log_phi(-mu / 2 - eps / mu)
    return first + log1p(-exp(second - first)) if second < first else -inf


def epsilon(rho: float, goal: float, most: float) -> float:
    """The epsilon at which ln delta is ``goal``: 0 if ln delta is lower everywhere, ``most`` if it
    is still higher there.
    """

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
