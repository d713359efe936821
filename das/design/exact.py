"""Exact shares: fractions of a common denominator in place of floating-point numbers.

Nothing about the loss is guessed: variances and certificate are those of the fractions
(:mod:`das.jobs.optimising`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

from das.design.choices import LevelQuery

#: Shares of what is free are multiples of 1/DENOMINATOR.
DENOMINATOR = 10**7
#: A share below this many of them is dropped: less noise to draw, and nothing is lost.
FLOOR = 1000
#: Significant digits of a total that was found.
DIGITS = 6


def shares(
    x: Mapping[LevelQuery, float], never_dropped: Collection[LevelQuery], floor: int = FLOOR
) -> dict[LevelQuery, Fraction]:
    """Shares that sum to exactly 1, by largest remainders; of measurements ``never_dropped`` at
    least ``floor`` units.

    >>> found = shares(
    ...     {("A", "total"): 2.0, ("A", "detailed"): 1.0, ("B", "detailed"): 1e-9},
    ...     [("B", "detailed")],
    ... )
    >>> for (level, query), share in found.items():
    ...     print(level, query, share)
    A total 3333/5000
    A detailed 3333/10000
    B detailed 1/10000"""
    total = sum(x.values())
    kept = {
        pair: v
        for pair, v in x.items()
        if v >= total * floor / DENOMINATOR or pair in never_dropped
    }
    least = {pair: floor if pair in never_dropped else 0 for pair in kept}
    free = DENOMINATOR - sum(least.values())
    above: NDArray[np.float64] = np.array(
        [max(v / total * DENOMINATOR - least[pair], 0.0) for pair, v in kept.items()]
    )
    above *= free / above.sum()
    units = np.floor(above).astype(int)
    units[np.argsort(units - above, kind="stable")[: free - int(units.sum())]] += 1
    return {
        pair: Fraction(int(n) + least[pair], DENOMINATOR)
        for pair, n in zip(kept, units, strict=True)
        if n + least[pair]
    }


def rounded_up(value: float | Fraction) -> Fraction:
    """To ``DIGITS`` significant digits, towards more budget.

    >>> rounded_up(1.65432189)
    Fraction(165433, 100000)
    """
    exact = Fraction(value)
    unit = Fraction(10) ** (floor(log10(exact)) + 1 - DIGITS)
    return ceil(exact / unit) * unit
