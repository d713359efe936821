r"""The intruder who also looks one level up, or several (Kazan and Reiter 2022, sections 3.2 and
4.3; S4).

Given everything but :math:`x_1^*`, the two hypotheses have weights :math:`S(k)` and :math:`S(k+1)`
(:mod:`das.risk.recursion`), and :math:`x_1^*` multiplies their odds by :math:`e^{r_1(2u-1)}`. So

.. math:: \operatorname{logit} P[X_1 = k + 1 \mid D] =
          \operatorname{logit} p + r_1(2u - 1) + \log \frac{S(k+1)}{S(k)} :

The whole hierarchy enters through one number, the Bayes factor :math:`S(k+1)/S(k)`.

``method = "gibbs-unconstrained"`` is the stationary distribution of the sampler that made the
published figures. It draws :math:`X_2` given :math:`X_1` from the exact conditional, which obeys
:math:`X_2 \ge X_1`. It draws :math:`X_1` given :math:`X_2` from equation (30) for every
:math:`X_2`, including :math:`X_2 = k`, which leaves no room for :math:`X_1 = k + 1`. The two are
then not the conditionals of one joint distribution, and the stationary distribution is not the
posterior of equation (25). :math:`X_1` alone is a chain with two states; with :math:`q(x_2) =
\operatorname{expit}(\operatorname{logit} p + r_1(2u - 1) - (r_1/d)(2(y^* - x_2 + k) + 1))`

.. math:: P_{01} = E[q(X_2) \mid X_1 = k], \quad P_{10} = E[1 - q(X_2) \mid X_1 = k + 1], \quad
          \pi_1 = \frac{P_{01}}{P_{01} + P_{10}}."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from das.errors import InputError
from das.model.budget import Neighbours
from das.risk.recursion import (
    Floats,
    Ints,
    Levels,
    LogWeights,
    Number,
    Uniform,
    UpperPrior,
    log_odds,
    log_weights,
    rates,
)

PosteriorMethod = Literal["exact", "gibbs-unconstrained"]
METHODS: tuple[PosteriorMethod, ...] = ("exact", "gibbs-unconstrained")
UNBOUNDED = Neighbours.UNBOUNDED
#: Log-odds of X_1 = k + 1 by u = x1* - k, for data whose rest is fixed: ``u`` of shape ``(data,)``
#: to ``(data,)``.
LogOdds = Callable[[Floats], Floats]


def hierarchical_posterior(
    x1: ArrayLike,
    x2: ArrayLike,
    y1: ArrayLike,
    *,
    rho1: Number,
    rho2: Number,
    d: int,
    prior: Number,
    method: PosteriorMethod = "exact",
    known: int = 0,
    upper: UpperPrior | None = None,
    neighbours: Neighbours = UNBOUNDED,
) -> Floats:
    """``P[X1 = known + 1 | D]`` for D = (x1*, x2*, y1*), arrays that broadcast: equation (25).

    ``d``: the other units; ``prior``: P[X1 = known + 1]; ``upper``: the prior on X2 given X1
    (default: uniform, without end).

    >>> data = dict(x1=2, x2=1, y1=-1, rho1=0.0992263542, rho2=0.2464845096, d=27, prior=0.5)
    >>> round(float(hierarchical_posterior(**data)), 4)
    0.5033
    >>> round(float(hierarchical_posterior(**data, method="gibbs-unconstrained")), 4)
    0.5777"""
    u, x2, y1 = np.broadcast_arrays(_counts(x1) - known, _counts(x2), _counts(y1))
    levels = two_levels(rho1, rho2, d, upper, neighbours)
    odds = log_odds_given(levels, [x2.ravel()], [y1.ravel()], prior, known, method)
    return expit(odds(u.ravel().astype(np.float64))).reshape(u.shape)[()]


def levels_posterior(
    x: Sequence[ArrayLike],
    y: Sequence[ArrayLike],
    *,
    rho: Sequence[Number],
    others: Sequence[int],
    prior: Number,
    known: int = 0,
    uppers: Sequence[UpperPrior] | None = None,
    neighbours: Neighbours = UNBOUNDED,
) -> Floats:
    """The same at any number h of levels, lowest first: ``x`` has h noisy counts, ``y`` the h - 1
    of the other units at levels 1 to h - 1 together, ``others`` how many these are. Exact."""
    if not len(x) == len(rho) or not len(y) == len(others) == len(rho) - 1:
        raise InputError(
            "h levels need h counts and costs, and h - 1 counts and numbers of other units",
            where="risk",
        )
    data = np.broadcast_arrays(*(_counts(a) for a in (*x, *y)))
    flat = [a.ravel() for a in data]
    levels = Levels(
        list(rates(rho, None, neighbours)[1]), others, uppers or [Uniform()] * len(others)
    )
    odds = log_odds_given(levels, flat[1 : len(x)], flat[len(x) :], prior, known, "exact")
    return expit(odds(flat[0] - float(known))).reshape(data[0].shape)[()]


def upper_posterior(
    x1: int,
    x2: int,
    y1: int,
    *,
    rho1: Number,
    rho2: Number,
    d: int,
    prior: Number,
    method: PosteriorMethod = "exact",
    known: int = 0,
    upper: UpperPrior | None = None,
    neighbours: Neighbours = UNBOUNDED,
) -> tuple[Ints, Floats]:
    """The values of X2 that were summed over, and ``P[X2 = value | D]`` (the paper's Table 7)."""
    levels = two_levels(rho1, rho2, d, upper, neighbours)
    summed = log_weights(levels, [np.array([x2])], [np.array([y1])], known)
    pi = expit(
        _log_odds(summed, levels, [np.array([y1])], prior, known, method)(
            np.array([x1 - float(known)])
        )
    )
    given = _conditional(summed)
    return summed.values[0], ((1 - pi)[:, None] * given[:, 0] + pi[:, None] * given[:, 1])[0]


def two_levels(
    rho1: Number, rho2: Number, d: int, upper: UpperPrior | None, neighbours: Neighbours
) -> Levels:
    return Levels(list(rates([rho1, rho2], None, neighbours)[1]), [d], [upper or Uniform()])


def log_odds_given(
    levels: Levels,
    x: Sequence[Ints],
    y: Sequence[Ints],
    prior: Number,
    known: int,
    method: PosteriorMethod,
) -> LogOdds:
    """The log-odds as a function of u, for the rest of the data (arrays of shape ``(data,)``)."""
    return _log_odds(log_weights(levels, x, y, known), levels, y, prior, known, method)


def _log_odds(
    summed: LogWeights,
    levels: Levels,
    y: Sequence[Ints],
    prior: Number,
    known: int,
    method: PosteriorMethod,
) -> LogOdds:
    if method not in METHODS:
        raise InputError(
            f"there is no method {method!r}", where="risk", remedy=f"use {' or '.join(METHODS)}"
        )
    odds, rate, totals = float(log_odds(prior)), levels.rates[0], summed.totals()
    if not np.isfinite(totals).any(axis=1).all():
        raise InputError("the prior of the upper count leaves no value possible", where="risk")
    if method == "exact":
        with np.errstate(invalid="ignore"):
            factor = totals[:, 1] - totals[:, 0]
        return lambda u: odds + rate * (2 * u - 1) + factor
    if len(levels.rates) != 2 or not np.isfinite(totals).all():
        raise InputError(
            "the sampler is for two levels, and a prior of the upper count that allows both values",
            where="risk",
            remedy='use the method "exact"',
        )
    given = _conditional(summed)
    room = y[0][:, None] - summed.values + known
    base = odds - rate / levels.others[0] * (2 * room + 1)

    def stationary(upper: Floats) -> Floats:
        q = base + (rate * (2 * upper - 1))[:, None]
        rise, fall = ((given[:, a] * expit(s * q)).sum(axis=1) for a, s in ((0, 1), (1, -1)))
        with np.errstate(divide="ignore"):
            return np.log(rise) - np.log(fall)

    return stationary


def _conditional(summed: LogWeights) -> Floats:
    """``P[X2 | X1]``, shape ``(data, 2, window)``; zeros where X1 is impossible."""
    totals = summed.totals()[..., None]
    return np.exp(summed.log - np.where(np.isfinite(totals), totals, 0.0))


def _counts(x: ArrayLike) -> Ints:
    out = np.asarray(x)
    if not np.issubdtype(out.dtype, np.integer):
        raise InputError("noisy counts are integers", where="risk")
    return out.astype(np.int64)
