r"""A billion draws against the distribution that they should have, and against one that they should
not.

.. math:: X^2 = \sum_k (O_k - nP_k)^2 / nP_k

over the integers, both tails pooled where fewer than 25 draws are expected. A test that only ever
accepts says nothing: noise whose scale is 1% too large, on a tenth as many draws, has to be
rejected by the same code."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fractions import Fraction
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from benchmarks.common import Figures
from das.noise import discrete_gaussian, entropy

VARIANCES = (Fraction(500, 99), Fraction(100))
WRONG = Fraction(101, 100) ** 2
BLOCK = 1 << 22
ACCEPT, REJECT = 1e-4, 1e-12


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chi_square", description=__doc__)
    parser.add_argument("--draws", type=float, default=1e9)
    draws = int(parser.parse_args(arguments).measurements)
    figures = Figures("chi_square")
    for s in VARIANCES:
        began = perf_counter()
        statistic, cells, p = fit(counted(s, draws), s)
        figures(
            f"p-value, sigma^2 = {s}",
            p,
            "probability",
            at_least=ACCEPT,
            draws=draws,
            statistic=statistic,
            degrees_of_freedom=cells - 1,
            seconds=perf_counter() - began,
        )
        statistic, cells, p = fit(counted(s * WRONG, draws // 10), s)
        figures(
            f"p-value of a scale 1% too large, sigma^2 = {s}",
            p,
            "probability",
            at_most=REJECT,
            draws=draws // 10,
            statistic=statistic,
            degrees_of_freedom=cells - 1,
        )


def counted(sigma_sq: Fraction, draws: int) -> NDArray[np.int64]:
    """How often each of ``-reach..reach`` was drawn; what lies beyond counts as the end. ``(2 reach
    + 1,)``.
    """
    reach = _reach(sigma_sq)
    source, out = entropy.system(), np.zeros(2 * reach + 1, dtype=np.int64)
    for start in range(0, draws, BLOCK):
        x = discrete_gaussian.sample(sigma_sq, min(BLOCK, draws - start), source)
        out += np.bincount(np.clip(x, -reach, reach) + reach, minlength=len(out))
    return out


def fit(
    observed: NDArray[np.int64], sigma_sq: Fraction, least: float = 25.0
) -> tuple[float, int, float]:
    """The statistic, the number of cells after pooling, and the p-value, of counts over
    ``-reach..reach``.
    """
    k = np.arange(len(observed)) - len(observed) // 2
    weight = np.exp(-(k**2) / (2 * float(sigma_sq)))
    expected = observed.sum() * weight / weight.sum()
    inside = np.flatnonzero(expected >= least)
    edges = np.concatenate([[0], np.arange(inside[0] + 1, inside[-1] + 1)])
    o, e = np.add.reduceat(observed, edges), np.add.reduceat(expected, edges)
    statistic = float(((o - e) ** 2 / e).sum())
    return statistic, len(e), float(chi2.sf(statistic, len(e) - 1))


def _reach(sigma_sq: Fraction) -> int:
    """Twelve standard deviations: beyond lies less than 1e-32."""
    return int(12 * float(sigma_sq) ** 0.5) + 2


if __name__ == "__main__":
    main()
