r"""The intruder who looks at one published count (Kazan and Reiter 2022, section 3.1).

He knows that one cell of one unit has :math:`k` records other than his target's (``known``). The
true count :math:`X` is then :math:`k + 1` if the target is there, which he believes with
probability :math:`p` (``prior``), or :math:`k`. He sees :math:`X^* = X + Z`. With
:math:`u = x^* - k` and the rate :math:`r` of :mod:`das.risk.recursion`,

.. math:: \operatorname{logit} P[X = k + 1 \mid x^*] = \operatorname{logit} p + r(2u - 1)

(equations 10-12). Only :math:`u` matters, so a target who is one of several is as exposed as a
unique one (supplement, S1.1). The same formula answers whether he took part, lied, or has an
attribute, with another meaning of :math:`p` (S1.2). The intruder must look at one cell only: see
:mod:`das.risk.joint` for two.

In every function the cost is ``rho`` (discrete Gaussian) or ``epsilon`` (geometric). ``neighbours``
is the convention of the cost (unbounded: :math:`\sigma^2 = 1/2\rho`). All numbers can be arrays,
which broadcast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from das.model.budget import Neighbours
from das.risk.recursion import TIE, Floats, Noise, Numbers, evidence, floats, log_odds, rates

UNBOUNDED = Neighbours.UNBOUNDED


def posterior(
    x: Numbers,
    *,
    prior: Numbers,
    rho: Numbers | None = None,
    epsilon: Numbers | None = None,
    known: Numbers = 0,
    neighbours: Neighbours = UNBOUNDED,
) -> Floats:
    """``P[X = known + 1 | X* = x]``, equations (10) to (12).

    >>> round(float(posterior(4, rho=0.0992263542, prior=0.2)), 3)
    0.334"""
    mechanism, rate = rates(rho, epsilon, neighbours)
    said = evidence(floats(x) - floats(known), mechanism, rate)
    return expit(log_odds(prior) + said)[()]


def ratio(
    x: Numbers,
    *,
    prior: Numbers,
    rho: Numbers | None = None,
    epsilon: Numbers | None = None,
    known: Numbers = 0,
    neighbours: Neighbours = UNBOUNDED,
) -> Floats:
    """The disclosure risk R' of a published value: posterior over prior, equation (13)."""
    after = posterior(x, prior=prior, rho=rho, epsilon=epsilon, known=known, neighbours=neighbours)
    return after / floats(prior)


def release_probability(
    x: Numbers,
    *,
    rho: float | None = None,
    epsilon: float | None = None,
    known: int = 0,
    neighbours: Neighbours = UNBOUNDED,
) -> Floats:
    """``P[X* = x | X = known + 1]``: how often this value is published when the target is there."""
    mechanism, rate = rates(rho, epsilon, neighbours)
    z, p = Noise(mechanism, float(rate)).pmf()
    at = floats(x).astype(np.int64) - known - 1
    return np.where(np.abs(at) <= z[-1], p[np.clip(at, z[0], z[-1]) - z[0]], 0.0)[()]


def marginal_posterior(
    *,
    prior: Numbers,
    rho: Numbers | None = None,
    epsilon: Numbers | None = None,
    neighbours: Neighbours = UNBOUNDED,
) -> Floats:
    """The posterior of the truth, averaged over what may be published when the target is there:
    equation (14).

    >>> round(float(marginal_posterior(rho=0.0992263542, prior=0.5)), 4)
    0.5237"""

    def average(noise: Noise, odds: float) -> float:
        z, p = noise.pmf()
        return float(p @ expit(odds + evidence(1 + z, noise.mechanism, noise.rate)))

    return _each(average, prior, rho, epsilon, neighbours)


def marginal_ratio(
    *,
    prior: Numbers,
    rho: Numbers | None = None,
    epsilon: Numbers | None = None,
    neighbours: Neighbours = UNBOUNDED,
) -> Floats:
    """The disclosure risk R before anything is published: equation (15)."""
    after = marginal_posterior(prior=prior, rho=rho, epsilon=epsilon, neighbours=neighbours)
    return after / floats(prior)


def decision_probability(
    *,
    prior: Numbers,
    rho: Numbers | None = None,
    epsilon: Numbers | None = None,
    neighbours: Neighbours = UNBOUNDED,
) -> Floats:
    """How often an intruder with 0-1 loss decides for ``known + 1`` when that is the truth:
    equations (18), (19).

    A posterior of exactly 1/2 is decided for ``known``.

    >>> f"{decision_probability(rho=0.0992263542, prior=0.1):.1e}"
    '1.2e-06'"""

    def decided(noise: Noise, odds: float) -> float:
        z, p = noise.pmf()
        return float(p[odds + evidence(1 + z, noise.mechanism, noise.rate) > TIE].sum())

    return _each(decided, prior, rho, epsilon, neighbours)


def _each(
    value: Callable[[Noise, float], float],
    prior: Numbers,
    rho: Numbers | None,
    epsilon: Numbers | None,
    neighbours: Neighbours,
) -> Floats:
    """``value`` at every pair of a broadcast grid of rates and priors."""
    mechanism, rate = rates(rho, epsilon, neighbours)
    rate, odds = np.broadcast_arrays(rate, log_odds(prior))
    out = [
        value(Noise(mechanism, float(r)), float(o))
        for r, o in zip(rate.flat, odds.flat, strict=True)
    ]
    return np.array(out).reshape(rate.shape)[()]
