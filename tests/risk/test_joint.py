"""Several counts that turn on the same bit."""

from __future__ import annotations

from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from das import risk
from das.errors import InputError
from das.model.budget import Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.risk.recursion import Noise
from studies.kazan_reiter.figures import RHO
from tests.risk import oracle

RATES = [float(r) for r in RHO]


def brute(
    rates: list[float], p: float, weight=oracle.gaussian, wide: int = 30
) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    """Marginal posterior and decision probability, by enumeration of every combination."""
    with mpmath.workdps(30):
        laws = [list(oracle.pmf(mpf(r), weight, wide).items()) for r in rates]
        ratio = [
            {z: weight(z, mpf(r)) / weight(z + 1, mpf(r)) for z, _ in law}
            for r, law in zip(rates, laws)
        ]
        marginal, decided = mpf(0), mpf(0)
        for combination in product(*laws):
            w, odds = mpf(1), mpf(p) / (1 - mpf(p))
            for (z, q), r in zip(combination, ratio):
                w, odds = w * q, odds * r[z]
            marginal += w * odds / (1 + odds)
            decided += w * (odds > 1 + mpf("1e-20"))
    return float(marginal), float(decided)


@pytest.mark.parametrize("prior", [0.5, 0.1])
@pytest.mark.parametrize("rates", [[0.8, 0.2], [2.0, 0.7]])
def test_two_counts_by_enumeration(rates: list[float], prior: float) -> None:
    marginal, decided = brute(rates, prior)
    assert risk.joint_marginal_posterior(rho=rates, prior=prior) == pytest.approx(
        marginal, abs=1e-12
    )
    assert risk.joint_decision_probability(rho=rates, prior=prior) == pytest.approx(
        decided, abs=1e-12
    )


def test_three_geometric_counts_by_enumeration() -> None:
    marginal, decided = brute([2.0, 2.5, 3.1], 0.2, oracle.geometric, wide=14)
    given_ = {"epsilon": [2.0, 2.5, 3.1], "prior": 0.2}
    assert risk.joint_marginal_posterior(**given_) == pytest.approx(marginal, abs=1e-12)
    assert risk.joint_decision_probability(**given_) == pytest.approx(decided, abs=1e-12)


@settings(max_examples=50)
@given(
    st.floats(0.003, 40),
    st.floats(1e-6, 1 - 1e-6),
    st.sampled_from(list(Neighbours)),
    st.booleans(),
)
def test_one_count_is_the_one_level_intruder(
    cost: float, prior: float, neighbours: Neighbours, pure: bool
) -> None:
    """Two ways of summing, one on the lattice and one over frequencies: the stated bound is
    1e-12.
    """
    name = "epsilon" if pure else "rho"
    several = risk.joint_marginal_posterior(prior=prior, neighbours=neighbours, **{name: [cost]})
    one = risk.marginal_posterior(prior=prior, neighbours=neighbours, **{name: cost})
    assert abs(several - one) < 1e-12
    several = risk.joint_decision_probability(prior=prior, neighbours=neighbours, **{name: [cost]})
    one = risk.decision_probability(prior=prior, neighbours=neighbours, **{name: cost})
    assert abs(several - one) < 1e-12


def test_six_levels_against_simulation() -> None:
    """Noise drawn by NumPy: the average must agree, and must not agree with five levels."""
    rng = np.random.default_rng(5)
    n = 400_000
    laws = [Noise(DISCRETE_GAUSSIAN, r).pmf(40.0) for r in RATES]
    x = [1 + rng.choice(z, size=n, p=p) for z, p in laws]
    after = risk.joint_posterior(np.stack(x, axis=1), rho=RATES, prior=0.1)
    error = 5 * after.std() / n**0.5
    assert abs(after.mean() - risk.joint_marginal_posterior(rho=RATES, prior=0.1)) < error
    assert abs(after.mean() - risk.joint_marginal_posterior(rho=RATES[:5], prior=0.1)) > error
    decided = (after > 0.5).mean()
    error = 5 * (decided / n) ** 0.5
    assert abs(decided - risk.joint_decision_probability(rho=RATES, prior=0.1)) < error
    assert abs(decided - risk.joint_decision_probability(rho=RATES[:5], prior=0.1)) > error


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(-3, 4), st.floats(0.01, 0.8)), min_size=1, max_size=4),
    st.floats(0.01, 0.99),
)
def test_releases_compose(releases: list[tuple[int, float]], prior: float) -> None:
    """S5.8: each release begins with the posterior of the one before, and their risks multiply."""
    belief, product_ = prior, 1.0
    for x, rho in releases:
        product_ *= risk.ratio(x, rho=rho, prior=belief)
        belief = risk.posterior(x, rho=rho, prior=belief)
    together = risk.joint_posterior(
        [x for x, _ in releases], rho=[r for _, r in releases], prior=prior
    )
    assert together == pytest.approx(belief, rel=1e-7)  # 1 - belief, passed on, has lost digits
    assert together / prior == pytest.approx(product_, rel=1e-7)


def test_risk_grows_with_the_levels_and_most_at_the_second() -> None:
    """Supplement, figure 1: its statement in words."""
    p = np.array([0.5, 0.2, 0.1, 0.02])
    steps = np.diff(
        [risk.joint_marginal_posterior(rho=RHO[:n], prior=p) for n in range(1, 7)], axis=0
    )
    assert (steps > 0).all()
    assert (steps.argmax(axis=0) == 0).all()


@pytest.mark.parametrize(("here", "there"), [(3, 0), (1, 2), (-2, 4)])
def test_an_unknown_attribute_is_in_one_cell_or_the_other(here: int, there: int) -> None:
    """The intruder looks at both cells: by Bayes' theorem on the pair, the other cell's count c
    enters as 1 - c.
    """
    with mpmath.workdps(30):
        r, p = mpf("0.1"), mpf("0.3")
        this = p * oracle.gaussian(here - 1, r) * oracle.gaussian(there, r)
        other = (1 - p) * oracle.gaussian(here, r) * oracle.gaussian(there - 1, r)
        expected = this / (this + other)
    assert risk.joint_posterior([here, 1 - there], rho=[0.1, 0.1], prior=0.3) == pytest.approx(
        float(expected)
    )


def test_shapes_and_refusals() -> None:
    assert risk.joint_posterior(np.zeros((4, 3, 2), dtype=int), rho=[1, 2], prior=0.5).shape == (
        4,
        3,
    )
    assert risk.joint_marginal_posterior(rho=[1, 2], prior=np.array([[0.5, 0.0, 1.0]])).tolist()[0][
        1:
    ] == [0, 1]
    with pytest.raises(InputError, match="counts and"):
        risk.joint_posterior([1, 2, 3], rho=[1, 2], prior=0.5)
    for costs in ([], 0.5):
        with pytest.raises(InputError, match="list of costs"):
            risk.joint_posterior([1], rho=costs, prior=0.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="too many"):
        risk.joint_decision_probability(rho=[0.001] * 12, prior=0.5)


@pytest.mark.parametrize("rho", [1e-12, 1e8])
def test_an_average_that_would_not_end_is_refused(rho: float) -> None:
    with pytest.raises(InputError):
        risk.joint_marginal_posterior(rho=[rho], prior=0.5)
