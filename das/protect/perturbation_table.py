r"""Perturbation tables by maximum entropy: how likely each change of a count is.

For a count :math:`i` the change :math:`v \in \{-D..D\}` has the law with the largest entropy
:math:`-\sum_v p_v \ln p_v` among those with

* :math:`i + v \ge 0`, and :math:`i + v \notin \{1..js\}`: no small count is ever shown;
* :math:`\sum_v v p_v = 0`: unbiased;
* :math:`\sum_v v^2 p_v \le V`;
* where ``mono``, :math:`p` rises from the lowest change towards :math:`v = 0`.

Counts from :math:`D` on (:math:`D + js + 1` where :math:`js > 0`) share one symmetric row.

*Solution.* Let :math:`a` and :math:`b \le 0` be multipliers of the two moments. The best law is
:math:`p_v \propto e^{f_v}` with :math:`f_v = a v + b v^2`. With ``mono``, the isotonic regression
of f takes its place on the changes up to 0. The mean increases in
:math:`a`; at mean 0 the variance increases in :math:`b`. So two nested searches for a zero find
both multipliers.

Source: T. Enderle, S. Giessing, R. Tent, Calculation of risk probabilities for the cell key method,
PSD 2020. The R package ptable makes the same tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from das.errors import SpecError
from das.model.frozen import Frozen

#: How far a moment may be from what it should be.
_TOLERANCE = 1e-9
#: What is less likely than this, compared with the likeliest change, never happens.
NEVER = 1e-15
#: The lowest multiplier of the variance: a law with it has the least variance that there is.
_LOWEST = -60.0


@dataclass(frozen=True, eq=False)
class PerturbationTable(Frozen):
    """``p[i, v + D]``: the probability of change v of count i, ``(rows, 2 D + 1)``. Row 0 changes
    nothing. Counts from the last row on have its law."""

    p: NDArray[np.float64]

    @staticmethod
    @cache
    def of(largest: int, variance: float, hidden: int = 0, mono: bool = True) -> PerturbationTable:
        """The table of maximum entropy: changes up to ``largest`` (D), of at most this ``variance``
        (V); counts 1 to ``hidden`` (js) are never shown. Raises :class:`SpecError` where no law has
        these moments."""
        v = np.arange(-largest, largest + 1)
        rows = [(v == 0).astype(float)]
        for count in range(1, largest + hidden + (1 if hidden else 0) + 1):
            allowed = (count + v >= 0) & ~((count + v >= 1) & (count + v <= hidden))
            rows.append(np.zeros(len(v)))
            rows[-1][allowed] = _law(v[allowed], variance, mono, count)
        return PerturbationTable(np.array(rows))

    @property
    def largest(self) -> int:
        """The largest change, D."""
        return self.p.shape[1] // 2

    def change(self, count: NDArray[np.int64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """The change of each count: the first v whose cumulative probability is above its uniform
        number."""
        row = np.minimum(count, len(self.p) - 1)
        above = np.cumsum(self.p, axis=1)
        out = np.zeros(count.shape, dtype=np.int64)
        for j in range(2 * self.largest):
            out += uniform >= above[row, j]
        return np.where(count > 0, out - self.largest, 0)

    def truths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The least and the largest count that can be printed as y, for y = 0, 1, 2, ...; beyond
        the last, they are y - D and y + D."""
        rows, d = len(self.p), self.largest
        ends = rows + 2 * d
        count = np.arange(ends)
        p = self.p[np.minimum(count, rows - 1)]
        i, j = np.nonzero(p > 0)
        printed = count[i] + j - d
        lower, upper = np.full(ends, ends), np.full(ends, -1)
        np.minimum.at(lower, printed[printed < ends], count[i][printed < ends])
        np.maximum.at(upper, printed[printed < ends], count[i][printed < ends])
        keep = rows + d
        return lower[:keep], upper[:keep]


def _law(v: NDArray[np.int64], variance: float, mono: bool, count: int) -> NDArray[np.float64]:
    """The row of the allowed changes ``v`` of a count."""
    where = f"perturbation of count {count}"
    if not (v < 0).any() or not (v > 0).any():
        raise SpecError(
            "no change of this size leaves it unbiased", where=where, remedy="raise D, or lower js"
        )
    at_most = _balanced(v, 0.0, mono)
    if at_most @ v**2 <= variance + _TOLERANCE:
        return at_most
    least = _balanced(v, _LOWEST, mono)
    if least @ v**2 > variance + _TOLERANCE:
        raise SpecError(
            f"every unbiased law has a variance of {least @ v**2:.4g} or more",
            where=where,
            remedy=f"raise V from {variance:g}, or lower js",
        )
    if least @ v**2 >= variance - _TOLERANCE:
        return least
    b = brentq(lambda b: _balanced(v, b, mono) @ v**2 - variance, _LOWEST, 0.0, xtol=1e-13)
    return _balanced(v, b, mono)


def _balanced(v: NDArray[np.int64], b: float, mono: bool) -> NDArray[np.float64]:
    """The law with multiplier b and mean 0."""
    if (v == -v[::-1]).all():
        return _tilted(v, 0.0, b, mono)
    end = 50.0 + 2 * abs(b) * np.abs(v).max()
    a = brentq(lambda a: _tilted(v, a, b, mono) @ v, -end, end, xtol=1e-13, rtol=1e-15)
    return _tilted(v, a, b, mono)


def _tilted(v: NDArray[np.int64], a: float, b: float, mono: bool) -> NDArray[np.float64]:
    f = a * v + b * v**2
    if mono:
        f[v <= 0] = _rising(f[v <= 0])
    p = np.exp(f - f.max())
    p[p < NEVER] = 0.0
    out: NDArray[np.float64] = p / p.sum()
    return out


def _rising(f: NDArray[np.float64]) -> NDArray[np.float64]:
    """The isotonic regression: the largest of the least means of runs around each value.

    >>> _rising(np.array([2.0, 0.0, 1.0, 5.0])).tolist()
    [1.0, 1.0, 1.0, 5.0]
    """
    n, sums = len(f), np.concatenate([[0.0], np.cumsum(f)])
    return np.array(
        [
            max(
                min((sums[j] - sums[i]) / (j - i) for j in range(k + 1, n + 1))
                for i in range(k + 1)
            )
            for k in range(n)
        ]
    )
