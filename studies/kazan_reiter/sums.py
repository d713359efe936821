r"""The sum of n discrete Gaussians, exactly, and how near to it one discrete Gaussian is
(supplement, S2).

The intruder takes the noise of :math:`Y_1^*` for :math:`N_Z(0, n\sigma^2)` (equation 21). By
Poisson summation the two differ by a relative :math:`O(e^{-\pi^2\sigma^2})` only: nothing that a
float can show above :math:`\sigma^2 = 4`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.budget import Neighbours
from das.model.mechanisms import Mechanism
from das.risk.recursion import NEAR, Floats, Noise, Number, rates


def sum_pmf(
    n: int, *, rho: Number, neighbours: Neighbours = Neighbours.UNBOUNDED
) -> tuple[NDArray[np.int64], Floats]:
    """Values ``-K..K`` and the probabilities of a sum of ``n`` independent draws of cost ``rho``
    each.

    By convolution of probabilities, all positive, so that small ones stay precise. Each draw is cut
    where it is below e^-40 of its largest."""
    if n < 1:
        raise InputError(f"a sum of {n} draws", where="risk", remedy="n is at least 1")
    _, p = Noise(*_gaussian(rho, neighbours)).pmf(NEAR)
    total, power, left = np.ones(1), p, n
    while True:  # binary powers
        if left & 1:
            total = np.convolve(total, power)
        left >>= 1
        if not left:
            break
        power = np.convolve(power, power)
    k = len(total) // 2
    return np.arange(-k, k + 1), total


def total_variation(n: int, *, rho: Number, neighbours: Neighbours = Neighbours.UNBOUNDED) -> float:
    """Half the L1 distance between that sum and the one discrete Gaussian of ``n`` times the
    variance parameter.

    >>> f"{total_variation(5, rho=1):.1e}"
    '1.1e-03'
    >>> total_variation(27, rho=0.0992263542) < 1e-14  # nothing but rounding
    True
    """
    z, p = sum_pmf(n, rho=rho, neighbours=neighbours)
    mechanism, rate = _gaussian(rho, neighbours)
    one_z, one = Noise(mechanism, rate / n).pmf(NEAR)
    k = max(z[-1], one_z[-1])
    wide = [np.pad(q, k - v[-1]) for v, q in ((z, p), (one_z, one))]
    return float(np.abs(wide[0] - wide[1]).sum() / 2)


def variance(*, rho: Number, neighbours: Neighbours = Neighbours.UNBOUNDED) -> float:
    """The variance of one draw: just below the variance parameter, the more so the smaller it is
    (supplement, figure 2).
    """
    z, p = Noise(*_gaussian(rho, neighbours)).pmf()
    return float(p @ z.astype(np.float64) ** 2)


def _gaussian(rho: Number, neighbours: Neighbours) -> tuple[Mechanism, float]:
    mechanism, rate = rates(rho, None, neighbours)
    return mechanism, float(rate)
