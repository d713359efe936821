"""Brute force with mpmath at 40 digits: every formula of the paper as it is printed, summed over
windows far too wide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise, product

import mpmath
from mpmath import mpf

Weight = Callable[[int, int], mpf]
#: The application of the paper (its section 2.3).
RHO1 = Fraction("2.56") * Fraction(165, 4099) * Fraction(3945, 4097)
RHO2 = Fraction("2.56") * Fraction(1256, 4099) * Fraction(1288, 4099)


def num(x: Fraction | float) -> mpf:
    return mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else mpf(x)


def gaussian(z: int, rate: mpf) -> mpf:
    return mpmath.exp(-rate * z * z)


def geometric(z: int, rate: mpf) -> mpf:
    return mpmath.exp(-rate * abs(z))


def posterior(u: int, p: mpf, rate: mpf, weight: Callable[[int, mpf], mpf] = gaussian) -> mpf:
    """Bayes' theorem, equation (10)."""
    here, gone = p * weight(u - 1, rate), (1 - p) * weight(u, rate)
    return here / (here + gone)


def pmf(rate: mpf, weight: Callable[[int, mpf], mpf], wide: int) -> dict[int, mpf]:
    w = {z: weight(z, rate) for z in range(-wide, wide + 1)}
    total = mpmath.fsum(w.values())
    return {z: v / total for z, v in w.items()}


def uniform(x: int, upper: int) -> mpf:
    return mpf(1)


def two_levels(
    x1: int,
    x2: int,
    y1: int,
    rate1: mpf,
    rate2: mpf,
    d: int,
    p: mpf,
    known: int = 0,
    weight: Weight = uniform,
    wide: int = 200,
) -> dict[tuple[int, int], mpf]:
    """The joint posterior of equation (25), normalized, by (X1, X2)."""
    joint = {
        (a, b): (p if a > known else 1 - p)
        * gaussian(x1 - a, rate1)
        * gaussian(x2 - b, rate2)
        * gaussian(y1 - (b - a), rate1 / d)
        * weight(a, b)
        for a in (known, known + 1)
        for b in range(a, a + wide)
    }
    total = mpmath.fsum(joint.values())
    return {k: v / total for k, v in joint.items()}


def levels(
    x: Sequence[int],
    y: Sequence[int],
    rate: Sequence[mpf],
    others: Sequence[int],
    p: mpf,
    weights: Sequence[Weight],
    wide: int,
    known: int = 0,
) -> mpf:
    """P[X1 = known + 1 | D] by enumeration of every combination of true counts."""
    total = {known: mpf(0), known + 1: mpf(0)}
    for true in product((known, known + 1), *(range(known, known + wide) for _ in x[1:])):
        if any(b < a for a, b in pairwise(true)):
            continue
        w = p if true[0] > known else 1 - p
        for i, t in enumerate(true):
            w *= gaussian(x[i] - t, rate[i])
        for i, (a, b) in enumerate(pairwise(true)):
            w *= gaussian(y[i] - (b - a), rate[i] / others[i]) * weights[i](a, b)
        total[true[0]] += w
    return total[known + 1] / mpmath.fsum(total.values())
