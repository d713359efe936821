"""After post-processing: the paper's closed form, and an intruder who learns from runs."""

from __future__ import annotations

import numpy as np
import pytest

from das import risk
from das.errors import InputError
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.risk.recursion import Noise
from studies.kazan_reiter.post_processing import (
    learned,
    published_law,
    published_marginal,
    published_posterior,
)
from tests.risk.oracle import RHO1


def by_hand(upper: int, x1: int, x2: int, rho: float, d: int) -> list[float]:
    """Equation (S6.6), value by value, the rounding in integers: 2 N = odd multiple of d + 1 is a
    tie, to even.
    """
    out = [0.0] * (upper + 1)
    for a, p in zip(*Noise(DISCRETE_GAUSSIAN, rho).pmf(40.0)):
        for b, q in zip(*Noise(DISCRETE_GAUSSIAN, rho / d).pmf(40.0)):
            top = int(d * (x1 + a) + upper - (x2 - x1 + b))
            whole, rest = divmod(top, d + 1)
            if 2 * rest > d + 1 or (2 * rest == d + 1 and whole % 2):
                whole += 1
            out[min(max(whole, 0), upper)] += p * q
    return out


@pytest.mark.parametrize(
    ("upper", "x1", "x2", "d"), [(0, 0, 0, 3), (1, 1, 1, 27), (4, 0, 1, 5), (9, 1, 4, 2)]
)
def test_the_law_of_the_published_count(upper: int, x1: int, x2: int, d: int) -> None:
    law = published_law(upper, x1, x2=x2, rho1=0.3, d=d)
    assert law == pytest.approx(by_hand(upper, x1, x2, 0.3, d), abs=1e-13)
    assert law.sum() == pytest.approx(1)


def test_posterior_and_marginal() -> None:
    here, gone = (np.array(by_hand(3, k, 1, 0.3, 6)) for k in (1, 0))
    after = 0.2 * here / (0.2 * here + 0.8 * gone)
    assert published_posterior(3, rho1=0.3, d=6, prior=0.2) == pytest.approx(after)
    assert published_marginal(3, rho1=0.3, d=6, prior=0.2) == pytest.approx(here @ after)


def test_an_upper_count_of_0_says_nothing() -> None:
    assert published_marginal(0, rho1=RHO1, d=27, prior=0.3) == pytest.approx(0.3)


def test_the_true_bound_is_that_of_both_noisy_counts() -> None:
    """Supplement, figure 6: what is published depends on y1* too, so the risk can exceed that of
    x1* alone, which the paper draws as the bound; it cannot exceed that of the pair."""
    alone = risk.marginal_posterior(rho=RHO1, prior=0.5)
    both = risk.joint_marginal_posterior(rho=[RHO1, RHO1 / 27], prior=0.5)
    values = [
        published_marginal(k, rho1=RHO1, d=27, prior=0.5) for k in (1, 2, 5, 10, 50, 100, 140)
    ]
    assert values == sorted(values)
    assert values[3] < alone < values[5] < both
    assert all(v < both for v in values)


def test_refused() -> None:
    for wrong in (
        {"upper": -1, "x1": 0, "d": 1, "x2": 1},
        {"upper": 1, "x1": 0, "d": 0, "x2": 1},
        {"upper": 1, "x1": 2, "d": 1, "x2": 1},
    ):
        with pytest.raises(InputError):
            published_law(wrong["upper"], wrong["x1"], x2=wrong["x2"], rho1=1, d=wrong["d"])


# --- learned
# --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [0.5, 0.2])
def test_what_is_learned_from_noisy_counts_is_the_one_level_risk(prior: float) -> None:
    """On plain noisy counts the answer is known; the same runs must also reject half and twice the
    budget.
    """
    rng, n = np.random.default_rng(11), 60_000
    z, p = Noise(DISCRETE_GAUSSIAN, 0.5).pmf(40.0)
    found = learned(1 + rng.choice(z, (n, 1), p=p), rng.choice(z, (n, 1), p=p), prior)
    assert (
        abs(found.marginal - risk.marginal_posterior(rho=0.5, prior=prior))
        < 5 * found.marginal_error
    )
    for other in (0.25, 1.0):
        assert (
            abs(found.marginal - risk.marginal_posterior(rho=other, prior=prior))
            > 5 * found.marginal_error
        )
    right = prior * risk.decision_probability(rho=0.5, prior=prior)
    right += (1 - prior) * (1 - p[z >= 1 + (prior < 0.5)].sum())
    assert abs(found.correct - right) < 5 * found.correct_error


def test_nothing_is_learned_where_there_is_nothing_to_learn() -> None:
    """The halves keep the intruder from finding in the runs what he has put there."""
    rng = np.random.default_rng(3)
    here, gone = rng.integers(0, 200, (2, 2000, 2))
    found = learned(here, gone, 0.5)
    assert abs(found.marginal - 0.5) < 5 * found.marginal_error
    assert abs(found.correct - 0.5) < 5 * found.correct_error


def test_runs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="runs, counts"):
        learned(np.zeros((9, 2), dtype=int), np.zeros((9, 1), dtype=int), 0.5)
    with pytest.raises(InputError, match="four runs"):
        learned(np.zeros((9, 1), dtype=int), np.zeros((3, 1), dtype=int), 0.5)
