r"""The total of a group from both stages, although the first has decided the size of its table.

Noise of the first stage has variance :math:`v_1`. The sum S of the k answers of the second has the
variance :math:`v_S = k v_2`. Together they give

.. math:: T = w X + (1 - w) S, \quad w = \frac{v_S}{v_1 + v_S}, \quad v = \frac{v_1 v_S}{v_1 + v_S}.

*Given the size of the table*, the first answer X is known to lie between two thresholds, :math:`a
\le X < b`. With noise that falls as :math:`e^{-x^2/2v_1}`, the conditional distributions are an
exponential family. T is sufficient and complete for the true total N, and has the density

.. math:: f_N(t) \propto \varphi_v(t - N)\, g(t), \quad g(t) = P[a \le X < b \mid T = t], \quad X \mid T = t \sim N(t, v_1 - v).

S does not depend on the thresholds, and is unbiased. So its mean given T is *the* unbiased estimate
with least variance, given the size of the table (Lehmann and Scheffé). Its variance lies between v
and :math:`v_S`, and also has an unbiased estimate:

.. math:: \delta(t) = t + \frac{v_S}{v_1}\bigl(t - E[X \mid t, a \le X < b]\bigr), \qquad
          \hat V(t) = v_S - \Bigl(\frac{v_S}{v_1}\Bigr)^2 \mathrm{Var}[X \mid t, a \le X < b].

Far from a threshold these equal T and v, to the last digit, so no rule is needed for where to
switch. Intervals at 95 % come from inverting :math:`f_N`: :math:`\{N : 0.025 \le F_N(t) \le
0.975\}`.

The thresholds are moved down by a half, because X is a whole number, and windows of few whole
numbers are summed over. The sum of cells is assumed to be normal. Laplacian noise does not give an
exponential family: there only the second stage is used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from das.model.frozen import Frozen

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: Standard deviations from a threshold beyond which it changes nothing in sixteen digits.
FAR = 9.0
#: Windows of at most so many whole numbers are summed over.
NARROW = 64
#: A threshold *matters* where it changes the estimate by more than this share of the standard
#: error, or the variance by as much.
MATTERS = 0.01
#: Standard errors of a 95 % interval.
Z = 1.959963984540054
LOG_ROOT = 0.9189385332046727  # of 2 pi, half of it


@dataclass(frozen=True, eq=False)
class CombinedEstimate(Frozen):
    """The estimates of groups. ``value`` is unbiased. ``work`` is its variance far from thresholds,
    which depends only on the size of the table and serves as weight. ``true`` is the unbiased
    estimate of its variance. ``matters``: whether a threshold matters."""

    value: Floats
    work: Floats
    true: Floats
    matters: Mask


def combined(
    first: ArrayLike, sums: ArrayLike, low: ArrayLike, high: ArrayLike, v1: ArrayLike, vs: ArrayLike
) -> CombinedEstimate:
    """Combines the answers of both stages, ``first`` and ``sums``. The first stage of each group is
    known to be ``low`` or more and below ``high`` (infinite if there is no threshold). ``v1`` is
    infinite if there is no first stage."""
    first, sums, low, high, v1, vs = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(x, dtype=np.float64)) for x in (first, sums, low, high, v1, vs))
    )
    w = vs / (v1 + vs)
    pooled, work = sums + w * (first - sums), vs * (1 - w)
    value, true = pooled.copy(), work.copy()
    spread = np.sqrt(np.where(np.isinf(v1), 1.0, v1) * (1 - w))  # v1 - v = v1 (1 - w)
    near = ~np.isinf(v1) & ((pooled - low < FAR * spread + 1) | (high - pooled < FAR * spread + 1))
    at = np.nonzero(near)
    if len(at[0]):
        off, left = _moments(pooled[at], spread[at], low[at], high[at])
        ratio = vs[at] / v1[at]
        value[at] = pooled[at] - ratio * off
        true[at] = np.clip(vs[at] - ratio**2 * left, work[at], vs[at])
    matters = (np.abs(value - pooled) > MATTERS * np.sqrt(true)) | (true > (1 + MATTERS) * work)
    return CombinedEstimate(value, work, true, matters)


def interval(
    pooled: Floats, v: Floats, v1: Floats, low: Floats, high: Floats, chance: float = 0.95
) -> tuple[Floats, Floats]:
    """The exact interval of groups given their tables, ``(groups,)`` each, from T, its variance v,
    and the window of X; more that is known of a total, independent of X, is part of the sum that T
    was made of."""
    lower, upper = np.empty_like(pooled), np.empty_like(pooled)
    for start in range(0, len(pooled), 1024):
        part = slice(start, start + 1024)
        lower[part], upper[part] = _inverted(
            pooled[part], v[part], v1[part], low[part], high[part], chance
        )
    return lower, upper


def _inverted(
    t: Floats, v: Floats, v1: Floats, low: Floats, high: Floats, chance: float
) -> tuple[Floats, Floats]:
    """By halving, on 181 points of :math:`f_N` that are 9 standard deviations of T about t."""
    y = np.linspace(-9, 9, 181)
    sd, spread = np.sqrt(v)[:, None], np.sqrt(v1 - v)[:, None]
    u = t[:, None] + sd * y
    log_g = _log_between((low[:, None] - 0.5 - u) / spread, (high[:, None] - 0.5 - u) / spread)
    half = np.where(y < 0, 1.0, np.where(y == 0, 0.5, 0.0))
    reach = 40 * np.sqrt(v * v1 / (v1 - v))  # of what else is known, without X
    out = []
    for share in ((1 + chance) / 2, (1 - chance) / 2):
        a, b = t - reach, t + reach
        for _ in range(24):
            middle = (a + b) / 2
            log_f = log_g - (u - middle[:, None]) ** 2 / (2 * v[:, None])
            f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
            more = (f @ half) / f.sum(axis=1) > share  # F falls in N
            a, b = np.where(more, middle, a), np.where(more, b, middle)
        out.append((a + b) / 2)
    return out[0], out[1]


def _moments(t: Floats, spread: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The mean of X given T and its window, less t, and its variance."""
    a, b = (low - 0.5 - t) / spread, (high - 0.5 - t) / spread
    log_z = _log_between(a, b)
    at_a, at_b = (
        np.exp(np.where(np.isinf(x), -np.inf, -(x**2) / 2 - LOG_ROOT - log_z)) for x in (a, b)
    )
    mean = at_a - at_b
    left = 1 + np.where(np.isinf(a), 0.0, a) * at_a - np.where(np.isinf(b), 0.0, b) * at_b - mean**2
    mean, left = spread * mean, spread**2 * np.maximum(left, 0.0)
    for i in np.flatnonzero(high - low <= NARROW):
        x = np.arange(low[i], high[i]) - t[i]
        p = np.exp(-(x**2 - (x**2).min()) / (2 * spread[i] ** 2))
        p /= p.sum()
        mean[i] = p @ x
        left[i] = p @ (x - mean[i]) ** 2
    return mean, left


def _log_between(a: Floats, b: Floats) -> Floats:
    """log P[a < Z < b] of a normal Z, as exact far from 0 as near it."""
    flip = a > 0
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    log_b = log_ndtr(b)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(log_b + np.log1p(-np.exp(np.minimum(log_ndtr(a) - log_b, -1e-300))))
