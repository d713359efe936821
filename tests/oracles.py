"""Independent answers: the same quantities by other means, slow and plain."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import exp, sqrt

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import chi2

from das.model.query import Query
from das.model.schema import Schema

DIGITS = 130  #: decimal digits of the noise oracles: 2^256 has 78

# --- queries
# -------------------------------------------------------------------------------------------------


def dense(schema: Schema, query: Query) -> NDArray[np.int64]:
    """The 0/1 matrix of a query, ``(answers, cells)``, by looking up each cell's labels one at a
    time.
    """
    answer_of = {
        labels: i
        for i, labels in enumerate(product(*(range(len(g.groups)) for g in query.groupings)))
    }
    out = np.zeros((len(answer_of), schema.cells), dtype=np.int64)
    for cell, levels in enumerate(product(*(range(len(a.levels)) for a in schema.attributes))):
        out[
            answer_of[tuple(g.index[i] for g, i in zip(query.groupings, levels, strict=True))], cell
        ] = 1
    return out


# --- noise
# ---------------------------------------------------------------------------------------------------


def as_mpf(x: Fraction | int) -> mpf:
    return mpf(Fraction(x).numerator) / mpf(Fraction(x).denominator)


def gaussian_distribution(sigma_sq: Fraction, top: int) -> dict[int, mpf]:
    """F(k) of N_Z(0, sigma_sq) for k = -top..top-1, each from its definition, to ``DIGITS``
    digits.
    """
    with mpmath.workdps(DIGITS):
        far = max(top, int(25 * sqrt(sigma_sq)) + 30)
        g = [mpmath.exp(-as_mpf(Fraction(k * k) / (2 * sigma_sq))) for k in range(far + 1)]
        return _distribution(g, top)


def laplace_distribution(scale: Fraction, top: int) -> dict[int, mpf]:
    """F(k) of the two-sided geometric distribution for k = -top..top-1, in closed form."""
    with mpmath.workdps(DIGITS):
        q = mpmath.exp(-as_mpf(1 / scale))
        below = [mpf(0), *(q**k / (1 + q) for k in range(1, top + 1))]
        return {-k: below[k] for k in range(1, top + 1)} | {
            k - 1: 1 - below[k] for k in range(1, top + 1)
        }


def _distribution(g: list[mpf], top: int) -> dict[int, mpf]:
    above = [mpf(0)] * (len(g) + 1)
    for k in range(len(g) - 1, -1, -1):
        above[k] = above[k + 1] + g[k]
    whole = g[0] + 2 * above[1]
    below = [above[k] / whole for k in range(top + 1)]
    return {-k: below[k] for k in range(1, top + 1)} | {
        k - 1: 1 - below[k] for k in range(1, top + 1)
    }


class ReferenceInverse:
    """min{k: U < F(k)} for U given by 256 bits, from F to 130 digits: the sampler's answer, one U
    at a time.
    """

    bits = 256

    def __init__(self, distribution: dict[int, mpf]) -> None:
        values = sorted(distribution)
        with mpmath.workdps(DIGITS):
            floors = [int(mpmath.floor(distribution[k] * mpf(2) ** self.bits)) for k in values]
        # Thresholds closer to 0 or 1 than 2^-256 are no use here.
        inside = [i for i, t in enumerate(floors) if 0 < t < (1 << self.bits) - 1]
        self.first, self.thresholds = values[inside[0]], [floors[i] for i in inside]

    def __call__(self, word: int) -> int:
        at = bisect_right(self.thresholds, word)
        assert 0 < at < len(self.thresholds), "beyond the table of this oracle"
        assert self.thresholds[at - 1] != word  # 256 bits would not decide it
        return self.first + at


@lru_cache(maxsize=64)
def gaussian_reference(sigma_sq: Fraction) -> ReferenceInverse:
    return ReferenceInverse(gaussian_distribution(sigma_sq, int(25 * sqrt(sigma_sq)) + 30))


@lru_cache(maxsize=64)
def laplace_reference(scale: Fraction) -> ReferenceInverse:
    return ReferenceInverse(laplace_distribution(scale, int(185 * scale) + 185))


def gaussian_pmf(sigma_sq: Fraction | float, top: int) -> NDArray[np.float64]:
    """P[X = k] for k = -top..top, summed to ten standard deviations past ``top``."""
    s = float(sigma_sq)
    far = top + int(10 * sqrt(s)) + 10
    g = np.exp(-(np.arange(-far, far + 1) ** 2) / (2 * s))
    return (g / g.sum())[far - top : far + top + 1]


def laplace_pmf(scale: Fraction | float, top: int) -> NDArray[np.float64]:
    q = exp(-1 / float(scale))
    return (1 - q) / (1 + q) * q ** np.abs(np.arange(-top, top + 1.0))


def chi_square_p(counts: NDArray[np.int64], pmf: NDArray[np.float64], size: int) -> float:
    """The p-value of Pearson's test that ``counts`` of the values of ``pmf`` (and whatever is
    outside them) come from ``size`` independent draws. Values expected less than ten times are
    pooled."""
    expected = pmf * size
    common = expected >= 10
    observed = np.append(counts[common], size - counts[common].sum())
    wanted = np.append(expected[common], size - expected[common].sum())
    if (
        wanted[-1] < 10
    ):  # too few outside for the chi-square approximation: pool them with the rarest value
        rarest = int(np.argmin(wanted[:-1]))
        observed[rarest], wanted[rarest] = (
            observed[rarest] + observed[-1],
            wanted[rarest] + wanted[-1],
        )
        observed, wanted = observed[:-1], wanted[:-1]
    if len(wanted) == 1:
        return 1.0
    return float(chi2.sf(((observed - wanted) ** 2 / wanted).sum(), len(wanted) - 1))


def tally(draws: NDArray[np.int64], top: int) -> NDArray[np.int64]:
    """How often each of -top..top occurs."""
    inside = draws[np.abs(draws) <= top]
    return np.bincount(inside + top, minlength=2 * top + 1).astype(np.int64)


def independent_p(x: NDArray[np.int64], y: NDArray[np.int64], most: int = 3) -> float:
    """The p-value of Pearson's test of independence on the values cut to -most..most."""
    x, y = np.clip(x, -most, most) + most, np.clip(y, -most, most) + most
    side = 2 * most + 1
    table = np.bincount(x * side + y, minlength=side * side).reshape(side, side)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / table.sum()
    return float(chi2.sf(((table - expected) ** 2 / expected).sum(), (side - 1) ** 2))


# --- constraints
# ---------------------------------------------------------------------------------------------


def can_be_shared_out(
    held: Sequence[int],
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    total: NDArray[np.int64],
    part: NDArray[np.intp] | None = None,
) -> bool:
    """Is there an x >= 0 with ``lower <= x <= upper``, descendants' totals ``total`` and group sums
    ``held``?

    ``lower``, ``upper``: ``(descendants, groups)``. With ``part`` ``(descendants,)``, totals are
    those of parts. A linear program; a transport problem has an integer solution whenever it has
    any."""
    places, groups = lower.shape
    one = (
        np.eye(places)
        if part is None
        else (part[None, :] == np.arange(len(total))[:, None]).astype(float)
    )
    rows = [np.kron(one, np.ones(groups)), np.kron(np.ones(places), np.eye(groups))]
    equal = np.concatenate([total, np.asarray(held)])
    box = list(zip(lower.ravel(), upper.ravel(), strict=True))
    if (lower > upper).any():
        return False
    answer = linprog(
        np.zeros(places * groups), A_eq=np.concatenate(rows), b_eq=equal, bounds=box, method="highs"
    )
    return bool(answer.status == 0)
