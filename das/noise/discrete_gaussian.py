r"""The discrete Gaussian :math:`N_Z(0, \sigma^2)`, exactly, for every rational :math:`\sigma^2`.

.. math:: P[X = x] = \frac{e^{-x^2/2\sigma^2}}{\sum_y e^{-y^2/2\sigma^2}}, \qquad x \in \mathbb{Z}.

:mod:`das.noise.rejection` samples it. Its proof needs only integers that bracket
:math:`2^n F(k)`. They come from :math:`q = e^{-1/2\sigma^2}` (bracketed) and the recurrence
:math:`g_{k+1} = g_k q^{2k+1}`, :math:`g_0 = 1`, with every product rounded outwards in fixed point.
Beyond :math:`K` the ratios :math:`g_{k+1}/g_k = q^{2k+1}` are at most :math:`q^{2K+1}`, so

.. math:: \sum_{k > K} g_k \le g_K \frac{q^{2K+1}}{1 - q^{2K+1}}.

Beyond variance :data:`LARGEST`, :mod:`das.noise.rejection` makes one draw at a time. It is also
exact, needs no table, and is some hundreds of times slower.

Source: Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy* (2020), for
the distribution and its privacy. The sampler for large variances is theirs; the sampler of this
module is not."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.noise import rejection
from das.noise.entropy import Entropy
from das.noise.rejection import InverseCdf, exp_minus, symmetric

#: Beyond this variance the table of thresholds (about 30 sigma of them) no longer pays: at this
#: variance it takes a quarter of a second and 60 MB.
LARGEST = Fraction(10**8)
#: Beyond this variance a draw may not fit an int64: sigma is 2^50, and 2^62 is 4,096 sigma.
_HOPELESS = Fraction(2**100)


def weights(sigma_sq: Fraction, n: int) -> tuple[list[int], list[int], int]:
    """Brackets of ``exp(-k^2 / (2 sigma_sq))`` for k = 0..K, and an upper bound on the sum beyond
    K, for ``n``-bit thresholds."""
    root = isqrt(sigma_sq.numerator // sigma_sq.denominator) + 1  # > sigma
    top = root * (isqrt(2 * n) + 3)  # exp(-K^2 / 2 sigma^2) < exp(-n) < 2^-n
    p = n + 64 + 2 * top.bit_length()
    q_lo, q_hi = exp_minus(1 / (2 * sigma_sq), p)
    q2_lo, q2_hi = (q_lo * q_lo) >> p, -((-q_hi * q_hi) >> p)
    g_lo, g_hi = [1 << p], [1 << p]
    r_lo, r_hi = q_lo, q_hi  # q^(2k + 1)
    for _ in range(top):
        g_lo.append((g_lo[-1] * r_lo) >> p)
        g_hi.append(-((-g_hi[-1] * r_hi) >> p))
        r_lo, r_hi = (r_lo * q2_lo) >> p, -((-r_hi * q2_hi) >> p)
    # r is now q^(2K + 1)
    tail = -(-g_hi[-1] * r_hi // ((1 << p) - r_hi))
    return g_lo, g_hi, tail


@lru_cache(maxsize=256)
def _sampler(sigma_sq: Fraction) -> InverseCdf:
    return InverseCdf(symmetric(lambda n: weights(sigma_sq, n)))


def inverse(sigma_sq: Fraction) -> InverseCdf | None:
    """The table that inverts the distribution with this variance, or ``None`` where a table does
    not pay; then use :func:`one`."""
    return None if sigma_sq > LARGEST else _sampler(sigma_sq)


def one(sigma_sq: Fraction, entropy: Entropy) -> int:
    """One draw by rejection; it reads bits until it accepts."""
    return rejection.discrete_gaussian(sigma_sq, entropy)


def refuse(sigma_sq: Fraction) -> None:
    """Raises if noise of this variance cannot be drawn: the variance is not exact, not positive,
    or too large for 64 bits."""
    if not isinstance(sigma_sq, Fraction):
        raise TypeError(
            f"sigma_sq must be a Fraction, not {type(sigma_sq).__name__}: privacy depends on it"
            " exactly"
        )
    if sigma_sq <= 0:
        raise ValueError(f"sigma_sq must be positive, not {sigma_sq}")
    if sigma_sq > _HOPELESS:
        raise SpecError(
            f"noise of variance {float(sigma_sq):.3g} is beyond {float(_HOPELESS):.0e}",
            where="budget",
            remedy="give this query a larger share, or leave it out",
        )


def sample(sigma_sq: Fraction, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """``size`` independent draws of N_Z(0, sigma_sq), int64.

    ``sigma_sq`` is the variance parameter, an exact ``Fraction``. A float raises ``TypeError``,
    because the guarantee depends on the exact number.

    >>> from das.noise.entropy import seeded
    >>> int(abs(sample(Fraction(1, 100), 1000, seeded(1))).max())  # P[X != 0] is about 4e-22
    0"""
    refuse(sigma_sq)
    if (table := inverse(sigma_sq)) is None:
        return np.fromiter((one(sigma_sq, entropy) for _ in range(size)), np.int64, count=size)
    return table.sample(size, entropy)
