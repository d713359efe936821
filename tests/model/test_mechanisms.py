"""What each mechanism says of its noise, against the distribution itself: what it costs, how wide
it is.
"""

from __future__ import annotations

import pickle
from fractions import Fraction
from math import sqrt

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf

from das.model.mechanisms import DISCRETE_GAUSSIAN, EPSILON, GEOMETRIC, MECHANISMS, RHO, Mechanism
from das.noise import discrete_gaussian, entropy
from das.noise.samplers import SAMPLERS
from tests.oracles import as_mpf, gaussian_pmf, laplace_pmf
from tests.strategies import fractions

EVERY = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=str)

# --- what it costs
# -------------------------------------------------------------------------------------------


@EVERY
@given(fractions(), st.integers(1, 9))
def test_a_cost_buys_a_parameter_that_has_this_cost_exactly(
    mechanism: Mechanism, cost: Fraction, answers: int
) -> None:
    parameter = mechanism.parameter(cost, answers)
    assert mechanism.cost(parameter, answers) == cost
    assert mechanism.cost(parameter, 1) * answers == cost  # what paths add up by
    assert isinstance(parameter, Fraction)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(1280, 27)])
def test_geometric_noise_costs_the_largest_log_ratio(scale: Fraction) -> None:
    """Between the noise and the same moved by one, at any value; two answers have the sum."""
    p = laplace_pmf(scale, int(20 * scale) + 5)
    loss = np.log(p[1:] / p[:-1])
    assert np.abs(loss).max() == pytest.approx(float(GEOMETRIC.cost(scale, 1)), rel=1e-9)
    assert 2 * np.abs(loss).max() == pytest.approx(float(GEOMETRIC.cost(scale, 2)), rel=1e-9)


@pytest.mark.parametrize("sigma_sq", [Fraction(1, 2), Fraction(3), Fraction(500, 99)])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_discrete_gaussian_noise_costs_its_divergence(sigma_sq: Fraction, order: int) -> None:
    """The Renyi divergence of order alpha from the noise moved by one is alpha rho, at whole orders
    just that.
    """
    with mpmath.workdps(50):
        p = {x: mpmath.exp(-as_mpf(Fraction(x * x) / (2 * sigma_sq))) for x in range(-200, 201)}
        moment = mpmath.fsum(
            p[x] ** order * p[x - 1] ** (1 - order) for x in range(-199, 201)
        ) / mpmath.fsum(p.values())
        divergence = float(mpmath.log(moment) / (order - 1))
    assert divergence == pytest.approx(
        order * float(DISCRETE_GAUSSIAN.cost(sigma_sq, 1)), rel=1e-12
    )


def test_names() -> None:
    assert {name: (m.currency, m.symbol, m.pure) for name, m in MECHANISMS.items()} == {
        "discrete-gaussian": (RHO, "sigma_sq", False),
        "geometric": (EPSILON, "scale", True),
    }
    assert len({m.symbol for m in MECHANISMS.values()}) == len(
        MECHANISMS
    )  # a line of a ledger says which it is
    for m in MECHANISMS.values():
        assert pickle.loads(pickle.dumps(m)) == m  # in a worker it is the same
        assert {m: 1}[pickle.loads(pickle.dumps(m))] == 1
    assert DISCRETE_GAUSSIAN != GEOMETRIC


# --- its noise
# -----------------------------------------------------------------------------------------------


def test_each_mechanism_has_a_sampler_and_each_sampler_a_mechanism() -> None:
    assert SAMPLERS.keys() == MECHANISMS.keys()


@EVERY
@pytest.mark.parametrize("parameter", [Fraction(1, 4), Fraction(3), Fraction(60)])
def test_its_sampler_draws_the_noise_that_it_tells_of(
    mechanism: Mechanism, parameter: Fraction
) -> None:
    """Noise four percent wider, or that of another mechanism with this variance, is told apart."""
    n = 200_000
    drawn = SAMPLERS[mechanism.name].sample(parameter, n, entropy.seeded(8)).astype(float)
    square, absolute = float((drawn**2).mean()), float(np.abs(drawn).mean())
    error = float((drawn**2).std()) / sqrt(n)
    variance = mechanism.variance(parameter)
    assert abs(square - variance) < 4 * error
    assert abs(square * 1.04 - variance) > 4 * error
    near = float(np.abs(drawn).std()) / sqrt(n)
    assert abs(absolute - mechanism.mean_abs(variance)) < 4 * near
    if variance > 1:
        (other,) = (m for m in MECHANISMS.values() if m != mechanism)
        assert abs(absolute - other.mean_abs(variance)) > 4 * near


NAMES = {"ids": lambda x: f"{float(x):.4g}"}


@pytest.mark.parametrize(
    "sigma_sq", [Fraction(1, 30), Fraction(1, 2), Fraction(2), Fraction(99), Fraction(101)], **NAMES
)
def test_the_published_variance_is_that_of_the_distribution(sigma_sq: Fraction) -> None:
    top = int(15 * sqrt(sigma_sq)) + 15
    exact = (gaussian_pmf(sigma_sq, top) * np.arange(-top, top + 1) ** 2).sum()
    assert DISCRETE_GAUSSIAN.variance(sigma_sq) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    "scale", [Fraction(1, 30), Fraction(1, 2), Fraction(1280, 27), Fraction(10**4)], **NAMES
)
def test_the_published_variance_of_the_geometric_is_that_of_the_distribution(
    scale: Fraction,
) -> None:
    top = int(50 * scale) + 50
    exact = (laplace_pmf(scale, top) * np.arange(-top, top + 1.0) ** 2).sum()
    assert GEOMETRIC.variance(scale) == pytest.approx(exact, rel=1e-7)


@EVERY
def test_of_wide_noise_the_variance_is_that_of_the_continuous(mechanism: Mechanism) -> None:
    for parameter in (Fraction(10**4), Fraction(10**9), Fraction(2**50)):
        assert mechanism.variance(parameter) == pytest.approx(
            float(mechanism.continuous_variance(parameter)), rel=1e-7
        )
    for variance in (3.0, 40.0, 1e6):
        assert mechanism.variance(mechanism.with_variance(variance)) == pytest.approx(
            variance, rel=1e-6
        )


# --- margins of error
# ----------------------------------------------------------------------------------------


def smallest(weight, coverage: str, most: int) -> int:  # type: ignore[no-untyped-def]
    """The smallest m with P[|X| <= m] >= coverage, X with weights ``weight(|x|)``, to 50 digits."""
    with mpmath.workdps(50):
        w = [weight(k) for k in range(most)]
        whole = w[0] + 2 * mpmath.fsum(w[1:])
        held, m = w[0], 0
        while held < mpf(coverage) * whole:
            m += 1
            held += 2 * w[m]
        return m


@pytest.mark.parametrize("coverage", ["0.5", "0.9", "0.95", "0.999"])
@pytest.mark.parametrize(
    "sigma_sq",
    ["1/100", "1/4", "1/2", "214437516707/177339451520", "500/99", "100", "7963", "12345"],
)
def test_gaussian_margins(sigma_sq: str, coverage: str) -> None:
    s = Fraction(sigma_sq)
    expected = smallest(
        lambda k: mpmath.exp(-as_mpf(Fraction(k * k) / (2 * s))),
        coverage,
        int(12 * float(s) ** 0.5) + 20,
    )
    assert DISCRETE_GAUSSIAN.margin(s, float(coverage)) == expected


@pytest.mark.parametrize("coverage", ["0.5", "0.9", "0.95", "0.999"])
@pytest.mark.parametrize("scale", ["1/100", "1/4", "1/2", "1280/27", "1280/9", "320", "640"])
def test_geometric_margins(scale: str, coverage: str) -> None:
    b = Fraction(scale)
    expected = smallest(lambda k: mpmath.exp(-as_mpf(k / b)), coverage, int(40 * b) + 60)
    assert GEOMETRIC.margin(b, float(coverage)) == expected


def test_the_margins_of_very_much_noise_join_on() -> None:
    """Either side of the variance where the sum gives way to the continuous quantile."""
    below = DISCRETE_GAUSSIAN.margin(Fraction(10**6))
    above = DISCRETE_GAUSSIAN.margin(Fraction(10**6 + 1))
    assert below == 1960 == above


@EVERY
@pytest.mark.parametrize("parameter", [Fraction(1, 2000), Fraction(1, 10**9), Fraction(1, 10**400)])
def test_where_there_is_no_noise_the_margin_is_zero(
    mechanism: Mechanism, parameter: Fraction
) -> None:
    assert mechanism.margin(parameter) == 0


def test_draws_fall_within_their_margin_as_often_as_it_says() -> None:
    sigma_sq = Fraction(500, 99)
    m = DISCRETE_GAUSSIAN.margin(sigma_sq)
    drawn = abs(discrete_gaussian.sample(sigma_sq, 10**6, entropy.seeded(1)))
    assert (drawn <= m).mean() > 0.9502  # 0.9586 expected
    assert (drawn <= m - 1).mean() < 0.9498
