r"""The two-sided geometric (discrete Laplace) distribution, exactly, for every rational scale
:math:`b`.

.. math:: P[X = x] = \frac{1 - q}{1 + q} q^{|x|}, \qquad q = e^{-1/b}, \quad x \in \mathbb{Z}.

With :math:`b = s/\varepsilon` it makes an integer query of :math:`L_1` sensitivity :math:`s`
:math:`\varepsilon`-differentially private (Ghosh, Roughgarden and Sundararajan 2009).
:mod:`das.noise.rejection` samples it from brackets of :math:`g_k = q^k`, with tail
:math:`\sum_{k > K} g_k = g_K\, q/(1 - q)`. Beyond scale :data:`LARGEST`,
:mod:`das.noise.rejection` makes one draw at a time, also exact, without a table."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.noise import rejection
from das.noise.entropy import Entropy
from das.noise.rejection import InverseCdf, exp_minus, symmetric

#: Beyond this scale the table of thresholds (about 90 b of them) no longer pays: at this scale it
#: takes a third of a second and 100 MB.
LARGEST = Fraction(5000)
#: Beyond this scale a draw may not fit an int64: 2^62 is 4,096 times this scale.
_HOPELESS = Fraction(2**50)


def weights(scale: Fraction, n: int) -> tuple[list[int], list[int], int]:
    """Brackets of ``exp(-k / scale)`` for k = 0..K, and an upper bound on the sum beyond K, for
    ``n``-bit thresholds."""
    top = -(
        -7 * n * (scale.numerator // scale.denominator + 1) // 10
    )  # exp(-K / b) <= exp(-0.7 n) < 2^-n
    p = n + 64 + 2 * top.bit_length()
    q_lo, q_hi = exp_minus(1 / scale, p)
    g_lo, g_hi = [1 << p], [1 << p]
    for _ in range(top):
        g_lo.append((g_lo[-1] * q_lo) >> p)
        g_hi.append(-((-g_hi[-1] * q_hi) >> p))
    tail = -(-g_hi[-1] * q_hi // ((1 << p) - q_hi))
    return g_lo, g_hi, tail


@lru_cache(maxsize=256)
def _sampler(scale: Fraction) -> InverseCdf:
    return InverseCdf(symmetric(lambda n: weights(scale, n)))


def inverse(scale: Fraction) -> InverseCdf | None:
    """The table that inverts the distribution with this scale, or ``None`` where a table does not
    pay; then use :func:`one`."""
    return None if scale > LARGEST else _sampler(scale)


def one(scale: Fraction, entropy: Entropy) -> int:
    """One draw by rejection; it reads bits until it accepts."""
    return rejection.discrete_laplace(scale, entropy)


def refuse(scale: Fraction) -> None:
    """Raises if noise of this scale cannot be drawn: the scale is not exact, not positive, or too
    large for 64 bits."""
    if not isinstance(scale, Fraction):
        raise TypeError(
            f"scale must be a Fraction, not {type(scale).__name__}: privacy depends on it exactly"
        )
    if scale <= 0:
        raise ValueError(f"scale must be positive, not {scale}")
    if scale > _HOPELESS:
        raise SpecError(
            f"noise of scale {float(scale):.3g} is beyond {float(_HOPELESS):.0e}",
            where="budget",
            remedy="give this query a larger share, or leave it out",
        )


def sample(scale: Fraction, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """``size`` independent draws with P[X = x] proportional to exp(-|x| / scale), int64. A float
    raises ``TypeError``."""
    refuse(scale)
    if (table := inverse(scale)) is None:
        return np.fromiter((one(scale, entropy) for _ in range(size)), np.int64, count=size)
    return table.sample(size, entropy)
