r"""The width of an interval if the error is mostly one draw of whole numbers.

One draw of noise with :math:`\sigma = 1.45` is within 2 with probability 92 %, and within 3 with 98
%: no interval around it has exactly 95 %. An estimate has the error :math:`c\,(e + \rho Z)`. Here e
is one such draw, with the most weight. Everything else is many draws, and normal. The least margin
with 95 % is :math:`c\,H(\rho)`, with H computed by sums over e, once for each kind of noise. At
:math:`\rho = 0` it is the margin of the draw. Where other draws blur it (half a person is enough),
it is 1.96 standard errors."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from das.detailed.combine import Z
from das.model.budget import QueryNoise
from das.model.mechanism import Mechanism

Floats = NDArray[np.float64]
#: Draws that are wider are as good as normal, whole or not.
WIDE = 2500.0
CHANCE = 0.95


def half_widths(noise: QueryNoise, error: ArrayLike, lean: ArrayLike) -> Floats:
    """The margins of estimates with the standard ``error``, in which one draw of ``noise`` has the
    coefficient ``lean``.
    """
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
        low, high = np.where(held < CHANCE, h, low), np.where(held < CHANCE, high, h)
    return ratios, np.concatenate([[float(mechanism.margin(parameter, CHANCE))], high])
