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
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from das.model.budget import QueryNoise
from das.model.frozen import Frozen
from das.model.mechanisms import COVERAGE, Mechanism

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
    pooled: Floats, v: Floats, v1: Floats, low: Floats, high: Floats, chance: float = COVERAGE
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


# Whole numbers that are not negative and add up, near given estimates.
#
# From the top down: the children of a region get the whole numbers with its sum that are nearest to
# their estimates, :math:`\max(0, x_c - \lambda)` rounded by the largest remainders; a regional group
# that is a sum is added up. Then cells, to the totals. Where a family adds up in cells, children are
# served one after the other: each gets what is nearest to its estimate and its share of what rounding
# has left in each cell so far, within what is left; any such numbers leave enough for the others, so
# that no search is needed.

Ints = NDArray[np.int64]


def nearest(values: Floats, total: Ints) -> Ints:
    """Whole numbers ``(n, columns)`` of 0 or more whose columns sum to ``total``, the nearest to
    ``values`` in the sum of squares.

    >>> nearest(np.array([[2.4, 0.0], [-3.0, 1.5], [2.4, 1.5]]), np.array([5, 3])).T.tolist()
    [[3, 0, 2], [0, 2, 1]]"""
    n, columns = values.shape
    if not n or not columns:
        return np.zeros((n, columns), dtype=np.int64)
    falling = -np.sort(-values, axis=0)
    over = (np.cumsum(falling, axis=0) - total) / np.arange(1, n + 1)[:, None]
    last = np.maximum((falling > over).sum(axis=0) - 1, 0)
    real = np.maximum(values - over[last, np.arange(columns)], 0.0) * (total > 0)
    out = np.floor(real + 1e-9).astype(np.int64)
    short = total - out.sum(axis=0)
    rank = np.empty((n, columns), dtype=np.int64)
    np.put_along_axis(
        rank, np.argsort(out - real, axis=0, kind="stable"), np.arange(n)[:, None], axis=0
    )
    return out + (rank < short)


def capped_integers(values: Floats, most: Ints, total: int) -> Ints:
    """Whole numbers with the sum ``total`` for one column, none above ``most``. The sum of ``most``
    must be at least ``total``."""
    low, high = float((values - most).min()) - 1, float(values.max()) + 1
    for _ in range(60):
        middle = (low + high) / 2
        held = np.clip(values - middle, 0, most).sum()
        low, high = (middle, high) if held > total else (low, middle)
    real = np.clip(values - high, 0, most)
    out = np.minimum(np.floor(real + 1e-9).astype(np.int64), most)
    while (short := total - int(out.sum())) != 0:
        room = np.flatnonzero(out < most) if short > 0 else np.flatnonzero(out > 0)
        order = room[np.argsort((out - real)[room] * np.sign(short), kind="stable")]
        out[order[: abs(short)]] += int(np.sign(short))
    return out


def families(values: Floats, totals: Ints, cells: Ints) -> Ints:
    """Whole numbers ``(children, cells)`` near ``values``, whose rows sum to ``totals`` and whose
    columns to ``cells``: these sum to the same."""
    out, left = np.zeros(values.shape, dtype=np.int64), cells.copy()
    for i in range(len(values)):
        rest = len(values) - i
        wanted = values[i] + (left - values[i:].sum(axis=0)) / rest
        out[i] = capped_integers(wanted, left, int(totals[i]))
        left = left - out[i]
    return out


def refined(values: Floats, parent: NDArray[np.int64], coarse: Ints) -> Ints:
    """Whole numbers near ``values``, of cells whose ``parent`` cells have known counts, ``coarse``."""
    out = np.zeros(len(values), dtype=np.int64)
    for c, total in enumerate(coarse.tolist()):
        here = parent == c
        out[here] = nearest(values[here][:, None], np.array([total]))[:, 0]
    return out


# The width of an interval if the error is mostly one draw of whole numbers.
#
# One draw of noise with :math:`\sigma = 1.45` is within 2 with probability 92 %, and within 3 with 98
# %: no interval around it has exactly 95 %. An estimate has the error :math:`c\,(e + \rho Z)`. Here e
# is one such draw, with the most weight. Everything else is many draws, and normal. The least margin
# with 95 % is :math:`c\,H(\rho)`, with H computed by sums over e, once for each kind of noise. At
# :math:`\rho = 0` it is the margin of the draw. Where other draws blur it (half a person is enough),
# it is 1.96 standard errors.

#: Draws that are wider are as good as normal, whole or not.
WIDE = 2500.0


def half_widths(noise: QueryNoise, error: ArrayLike, lean: ArrayLike) -> Floats:
    """The margins of estimates with the standard ``error``, in which one draw of ``noise`` has the
    coefficient ``lean``."""
    error, lean = np.asarray(error, dtype=np.float64), np.asarray(lean, dtype=np.float64)
    if noise.variance > WIDE:
        return Z * error
    ratios, widths = _table(noise.mechanism, noise.parameter)
    rest = np.maximum(error**2 - lean**2 * noise.variance, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(lean > 0, np.sqrt(rest) / lean, np.inf)
    return np.where(ratio < ratios[-1], lean * np.interp(ratio, ratios, widths), Z * error)


@lru_cache(maxsize=256)
def _table(mechanism: Mechanism, parameter: Fraction) -> tuple[Floats, Floats]:
    cost, sd = float(mechanism.cost(parameter, 1)), mechanism.variance(parameter) ** 0.5
    last = ceil((40 / cost) ** (1 / mechanism.power)) + 1
    k = np.arange(-last, last + 1)
    p = np.exp(-cost * np.abs(k).astype(np.float64) ** mechanism.power)
    p /= p.sum()
    widest = 1.5 if mechanism.power == 2 else max(1.5, 4 * sd)
    ratios = widest * np.linspace(0, 1, 301) ** 2
    low, high = np.zeros(300), np.full(300, 8 * (sd + widest) + last)
    for _ in range(50):
        h = (low + high) / 2
        blur = ratios[1:, None]
        held = (ndtr((h[:, None] - k) / blur) - ndtr((-h[:, None] - k) / blur)) @ p
        low, high = np.where(held < COVERAGE, h, low), np.where(held < COVERAGE, high, h)
    return ratios, np.concatenate([[float(mechanism.margin(parameter, COVERAGE))], high])
