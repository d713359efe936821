"""Sums of discrete Gaussians against mpmath, and the approximation by one."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from das.errors import InputError
from das.model.budget import Neighbours
from studies.kazan_reiter.sums import sum_pmf, total_variation, variance
from tests.risk import oracle
from tests.risk.oracle import RHO1


def convolved(rate: mpf, n: int, wide: int) -> dict[int, mpf]:
    one = oracle.pmf(rate, oracle.gaussian, wide)
    total = {0: mpf(1)}
    for _ in range(n):
        out: dict[int, mpf] = {}
        for a, p in total.items():
            for b, q in one.items():
                out[a + b] = out.get(a + b, mpf(0)) + p * q
        total = out
    return total


@pytest.mark.parametrize(("rho", "n"), [(1.0, 5), (0.5, 3), (3.0, 7)])
def test_against_mpmath(rho: float, n: int) -> None:
    with mpmath.workdps(30):
        exact = convolved(mpf(rho), n, 14)
        one = oracle.pmf(mpf(rho) / n, oracle.gaussian, 14 * n)
        distance = (
            mpmath.fsum(
                abs(exact.get(z, mpf(0)) - one.get(z, mpf(0))) for z in range(-14 * n, 14 * n + 1)
            )
            / 2
        )
    values, p = sum_pmf(n, rho=rho)
    assert p == pytest.approx(
        [float(exact.get(int(z), mpf(0))) for z in values], rel=1e-9, abs=1e-17
    )
    assert total_variation(n, rho=rho) == pytest.approx(float(distance), rel=1e-9)


def test_the_approximation_of_the_application_is_beyond_floats() -> None:
    """27 districts at rho_1: a float shows its own rounding. Of two, in 60 digits, it is about
    e^(-pi^2 sigma^2).
    """
    assert total_variation(27, rho=RHO1) < 1e-14
    with mpmath.workdps(60):
        exact = convolved(oracle.num(RHO1), 2, 50)
        one = oracle.pmf(oracle.num(RHO1) / 2, oracle.gaussian, 100)
        distance = mpmath.fsum(abs(exact[z] - one[z]) for z in range(-60, 61)) / 2
        assert mpf("0.5") < distance / mpmath.exp(-(mpmath.pi**2) / (2 * oracle.num(RHO1))) < 2


def test_variances_of_the_supplement() -> None:
    """|variance - s| is below 0.002 for all s > 0.5, and below 1e-6 for all s > 1 (rho < 1 and rho
    < 1/2).
    """
    s = np.geomspace(0.5, 20, 60)
    off = np.array([abs(variance(rho=1 / (2 * v)) - v) for v in s])
    assert off.max() < 0.002
    assert off[s > 1].max() < 1e-6
    assert off[0] > 0.001
    assert abs(variance(rho=5) - 0.1) > 0.08
    assert variance(rho=1, neighbours=Neighbours.BOUNDED) == variance(rho=0.5)


def test_refused() -> None:
    with pytest.raises(InputError, match="at least 1"):
        sum_pmf(0, rho=1)
