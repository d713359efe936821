r"""Quantiles of Student's t with a whole number of degrees of freedom.

With :math:`t = \sqrt\nu \tan\theta` and :math:`C = \cos^2\theta`,

.. math:: P(|T| \le t) = \sin\theta \Big(1 + \tfrac12 C + \tfrac{1 \cdot 3}{2 \cdot 4} C^2 + \dots\Big)
          \quad (\nu \text{ even}), \qquad
          \tfrac2\pi \Big(\theta + \sin\theta \cos\theta
          \big(1 + \tfrac23 C + \tfrac{2 \cdot 4}{3 \cdot 5} C^2 + \dots\big)\Big)
          \quad (\nu \text{ odd}),

with :math:`\lfloor\nu/2\rfloor` terms in the brackets (Abramowitz and Stegun, 26.7.3 and 26.7.4).
It is concave in the angle, so Newton's method rises to the quantile from that of the normal. Beyond
:data:`MANY` degrees the expansion about the normal quantile (26.7.5) is as exact. SciPy has all of
this, and takes longer to load than a small run takes to estimate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import atan, cos, exp, lgamma, pi, sin, sqrt, tan
from statistics import NormalDist, fmean, stdev

import numpy as np

#: The most degrees of freedom whose sum is taken.
MANY = 1000


@lru_cache(maxsize=4096)
def student(degrees: int, coverage: float) -> float:
    """The t that is exceeded in size with probability 1 - ``coverage``.

    >>> round(student(10, 0.95), 3)
    2.228
    """
    if degrees < 1 or not 0 < coverage < 1:
        raise ValueError(f"there is no t of {degrees} degrees of freedom that covers {coverage}")
    z = NormalDist().inv_cdf((1 + coverage) / 2)
    if degrees > MANY:
        return _expansion(z, degrees)
    angle, step = atan(z / sqrt(degrees)), 1.0
    peak = 2 / sqrt(pi) * exp(lgamma((degrees + 1) / 2) - lgamma(degrees / 2))
    while step > 1e-15 * angle:
        step = (coverage - _covered(angle, degrees)) / (peak * cos(angle) ** (degrees - 1))
        angle += step
    return sqrt(degrees) * tan(angle)


def _covered(angle: float, degrees: int) -> float:
    odd = degrees % 2
    k = 2.0 * np.arange(1, degrees // 2) + odd
    terms = 1 + float(np.cumprod((k - 1) / k * cos(angle) ** 2).sum())
    if not odd:
        return sin(angle) * terms
    return 2 / pi * (angle + (sin(angle) * cos(angle) * terms if degrees > 1 else 0.0))


def _expansion(z: float, degrees: int) -> float:
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return sum(term / degrees**i for i, term in enumerate(terms))


def interval(values: Sequence[float], coverage: float = 0.95) -> tuple[float, float]:
    """The interval of the mean of two or more independent values.

    >>> [round(end, 3) for end in interval([1.0, 2.0, 3.0])]
    [-0.484, 4.484]
    """
    if len(values) < 2:
        raise ValueError("an interval needs two values")
    half = student(len(values) - 1, coverage) * stdev(values) / sqrt(len(values))
    return fmean(values) - half, fmean(values) + half
