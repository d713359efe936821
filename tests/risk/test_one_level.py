"""One count: the published tables, brute force, and what must not matter."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf

from das import risk
from das.errors import InputError
from das.model.budget import Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC
from das.risk.recursion import FAR, Noise
from tests.risk import oracle
from tests.risk.oracle import RHO1

PRIORS = (Fraction(1, 2), Fraction(1, 5), Fraction(1, 10), Fraction(1, 50))
#: Kazan and Reiter (2022), table 3; the probabilities of x = 1..5 are those of the row above in the
#: paper.
TABLE_3 = {
    1: ("0.178", "0.525 0.216 0.109 0.022", "1.05 1.08 1.09 1.10"),
    2: ("0.161", "0.574 0.252 0.130 0.027", "1.15 1.26 1.30 1.34"),
    3: ("0.119", "0.622 0.291 0.154 0.032", "1.24 1.46 1.54 1.62"),
    4: ("0.073", "0.667 0.334 0.182 0.039", "1.33 1.67 1.82 1.96"),
    5: ("0.036", "0.710 0.379 0.213 0.047", "1.42 1.90 2.13 2.37"),
}
PRINTED_MASS = ("0.161", "0.119", "0.073", "0.036", "0.015")


@pytest.mark.parametrize("x", TABLE_3)
def test_table_3(x: int) -> None:
    mass, posteriors, ratios = TABLE_3[x]
    assert f"{risk.release_probability(x, rho=RHO1):.3f}" == mass
    assert [f"{risk.posterior(x, rho=RHO1, prior=p):.3f}" for p in PRIORS] == posteriors.split()
    assert [f"{risk.ratio(x, rho=RHO1, prior=p):.2f}" for p in PRIORS] == ratios.split()


def test_the_printed_probabilities_are_one_row_off() -> None:
    assert [f"{risk.release_probability(x + 1, rho=RHO1):.3f}" for x in TABLE_3] == list(
        PRINTED_MASS
    )
    assert [f"{risk.release_probability(x, rho=RHO1):.3f}" for x in TABLE_3] != list(PRINTED_MASS)


@pytest.mark.parametrize(
    ("prior", "after", "ratio"),
    [
        (PRIORS[0], "0.5237", "1.047"),
        (PRIORS[1], "0.2254", "1.127"),
        (PRIORS[2], "0.1168", "1.168"),
        (PRIORS[3], "0.0242", "1.208"),
    ],
)
def test_table_4(prior: Fraction, after: str, ratio: str) -> None:
    assert f"{risk.marginal_posterior(rho=RHO1, prior=prior):.4f}" == after
    assert f"{risk.marginal_ratio(rho=RHO1, prior=prior):.3f}" == ratio


@pytest.mark.parametrize(
    ("prior", "probability"),
    [
        (PRIORS[0], "0.588860"),
        (PRIORS[1], "0.00175"),
        (PRIORS[2], "1.2e-06"),
        (PRIORS[3], "1.0e-18"),
    ],
)
def test_decision_probability(prior: Fraction, probability: str) -> None:
    value = risk.decision_probability(rho=RHO1, prior=prior)
    digits = len(probability.split("e")[0].replace(".", "").lstrip("0"))
    assert float(f"{value:.{digits - 1}e}") == float(probability)


def test_the_jagged_curve_of_section_4_2_3() -> None:
    """The threshold is 2 at rho = 0.5 and at 0.6, so that less noise makes the decision rarer:
    0.30, then 0.28.
    """
    values = risk.decision_probability(rho=np.array([0.5, 0.6]), prior=0.2)
    assert [f"{v:.2f}" for v in values] == ["0.30", "0.28"]


costs = st.floats(0.02, 8)
priors = st.floats(0.001, 0.999)
bounded = st.sampled_from(list(Neighbours))


@given(costs, priors, st.integers(-30, 30), st.integers(-50, 50), bounded, st.booleans())
def test_bayes(
    cost: float, prior: float, u: int, known: int, neighbours: Neighbours, pure: bool
) -> None:
    """Against equation (10), for both mechanisms and conventions; only x - known matters."""
    kind = {"epsilon" if pure else "rho": cost}
    rate = mpf(cost) / (2 if neighbours is Neighbours.BOUNDED else 1)
    with mpmath.workdps(40):
        expected = oracle.posterior(
            u, mpf(prior), rate, oracle.geometric if pure else oracle.gaussian
        )
    value = risk.posterior(u + known, prior=prior, known=known, neighbours=neighbours, **kind)
    assert value == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(
    "kind", [{"rho": Fraction(1, 10)}, {"rho": 2}, {"epsilon": Fraction(1, 2)}, {"epsilon": 3}]
)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_marginals_against_a_longer_sum(
    prior: Fraction, kind: dict[str, Fraction], neighbours: Neighbours
) -> None:
    """Relative precision, also of decisions that hardly ever happen."""
    ((name, cost),) = kind.items()
    rate = oracle.num(Fraction(cost)) / neighbours.sensitivity
    weight = oracle.gaussian if name == "rho" else oracle.geometric
    with mpmath.workdps(40):
        p, law = oracle.num(prior), oracle.pmf(rate, weight, 600)
        after = {z: oracle.posterior(1 + z, p, rate, weight) for z in law}
        marginal = mpmath.fsum(law[z] * after[z] for z in law)
        decided = mpmath.fsum(law[z] for z in law if after[z] > mpf("0.5"))
    given_ = {"prior": prior, "neighbours": neighbours, **kind}
    assert risk.marginal_posterior(**given_) == pytest.approx(float(marginal), rel=1e-12)
    assert risk.decision_probability(**given_) == pytest.approx(
        float(decided), rel=1e-11, abs=1e-300
    )


def test_bounded_neighbours_halve_the_rate() -> None:
    """The 2020 system: sigma^2 = 1 / rho, as much noise as half the budget buys in the convention
    of the paper.
    """
    here = risk.marginal_posterior(rho=0.2, prior=0.3, neighbours=Neighbours.BOUNDED)
    assert here == risk.marginal_posterior(rho=0.1, prior=0.3)
    assert here < risk.marginal_posterior(rho=0.2, prior=0.3)


def test_arrays_broadcast() -> None:
    rho, prior = np.array([0.1, 0.5, 2.0])[:, None], np.array([0.5, 0.1])
    for f in (risk.marginal_posterior, risk.decision_probability):
        table = f(rho=rho, prior=prior)
        assert table.shape == (3, 2)
        assert table[2, 1] == f(rho=2.0, prior=0.1)
    grid = risk.posterior(np.arange(5)[:, None, None], rho=rho, prior=prior, known=1)
    assert grid.shape == (5, 3, 2)
    assert grid[4, 1, 0] == risk.posterior(4, rho=0.5, prior=0.5, known=1)


def test_an_intruder_who_is_certain_learns_nothing() -> None:
    for p in (0, 1):
        assert risk.posterior(5, rho=1, prior=p) == p
        assert risk.marginal_posterior(rho=1, prior=p) == p


@given(costs, priors)
def test_the_posterior_averages_to_the_prior(rho: float, prior: float) -> None:
    """Over both hypotheses: p E[posterior | there] + (1-p) E[posterior | not there] = p."""
    there = risk.marginal_posterior(rho=rho, prior=prior)
    not_there = 1 - risk.marginal_posterior(rho=rho, prior=1 - prior)  # by symmetry u -> 1 - u
    assert prior * there + (1 - prior) * not_there == pytest.approx(prior, rel=1e-9)


@pytest.mark.parametrize("rate", [0.05, 3.0])
def test_what_the_sum_leaves_out(rate: float) -> None:
    """Nothing above e^-FAR of the largest value; the values on the edge are still there."""
    for mechanism, power in ((DISCRETE_GAUSSIAN, 2), (GEOMETRIC, 1)):
        z, p = Noise(mechanism, rate).pmf()
        assert rate * (z[-1] + 1.0) ** power > FAR >= rate * float(z[-1]) ** power
        assert p.sum() == pytest.approx(1, abs=1e-13)
        survival = Noise(mechanism, rate).survival
        assert survival(np.array([-(10**6), z[-1] + 1])).tolist() == [
            pytest.approx(1, abs=1e-13),
            0,
        ]
        assert survival(3) == pytest.approx(p[z >= 3].sum(), rel=1e-12)


@pytest.mark.parametrize(
    "given_",
    [
        {"rho": 0},
        {"rho": -1},
        {"rho": float("inf")},
        {"epsilon": float("nan")},
        {},
        {"rho": 1, "epsilon": 1},
        {"rho": 1, "prior": 1.5},
        {"rho": 1, "prior": -0.1},
    ],
)
def test_numbers_that_mean_nothing_are_refused(given_: dict[str, float]) -> None:
    with pytest.raises(InputError):
        risk.posterior(1, **{"prior": 0.5, **given_})


def test_noise_that_is_too_wide_to_sum_is_refused() -> None:
    with pytest.raises(InputError, match="not summed"):
        risk.marginal_posterior(rho=1e-13, prior=0.5)
