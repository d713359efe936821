"""The levels above: the published example, brute force at two levels and at more, the bound, and
the sampler.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

from das import risk
from das.errors import InputError
from das.model.budget import Neighbours
from das.risk import Point, Uniform, WeightedPrior, recursion
from das.risk.hierarchy import METHODS, PosteriorMethod
from das.risk.recursion import Levels
from tests.risk import oracle
from tests.risk.oracle import RHO1, RHO2

GIBBS = "gibbs-unconstrained"
CENSUS: dict[str, Any] = {"rho1": RHO1, "rho2": RHO2, "d": 27, "prior": 0.5}
TABLE_5 = (2, 1, -1)


def upper_law(**more: Any) -> dict[int, float]:
    values, p = risk.upper_posterior(*TABLE_5, **CENSUS, **more)
    return dict(zip(values.tolist(), p.tolist(), strict=True))


# --- the published example
# ------------------------------------------------------------------------------------------


def test_the_exact_posterior_of_table_5() -> None:
    assert f"{risk.hierarchical_posterior(*TABLE_5, **CENSUS):.5f}" == "0.50329"
    assert [f"{upper_law()[j]:.4f}" for j in range(5)] == [
        "0.1294",
        "0.3866",
        "0.2979",
        "0.1392",
        "0.0394",
    ]


def test_the_law_of_the_sampler_for_table_5() -> None:
    assert f"{risk.hierarchical_posterior(*TABLE_5, **CENSUS, method=GIBBS):.5f}" == "0.57770"
    law = upper_law(method=GIBBS)
    assert [f"{law[j]:.3f}" for j in range(5)] == ["0.110", "0.395", "0.305", "0.142", "0.040"]


def test_the_printed_law_of_the_upper_count_is_that_of_the_sampler() -> None:
    """Table 7, shares of 10,000 draws: chi-squared on 5 classes (1 % and 1e-9 have 13.3 and 48)."""
    printed = [0.1071, 0.4018, 0.2974, 0.1393, 0.0544]
    chi_squared = {}
    for method in ("exact", GIBBS):
        law = upper_law(method=method)
        p = [law[j] for j in range(4)]
        p.append(1 - sum(p))
        chi_squared[method] = sum(
            (10_000 * (a - b)) ** 2 / (10_000 * b) for a, b in zip(printed, p, strict=True)
        )
    assert chi_squared[GIBBS] < 13.3
    assert chi_squared["exact"] > 48


def test_without_the_upper_level() -> None:
    assert f"{risk.posterior(2, rho=RHO1, prior=0.5):.4f}" == "0.5739"


# --- exact
# ----------------------------------------------------------------------------------------------------------

small = st.integers(-8, 12)
rate = st.floats(0.05, 3)
Rates = st.tuples(rate, rate)


def as_weight(prior: risk.UpperPrior) -> oracle.Weight:
    """The same prior, written down again."""
    if isinstance(prior, Point):
        return lambda x, upper: mpf(upper == prior.at)
    if isinstance(prior, WeightedPrior):
        w = [mpf(v) for v in prior.weights]
        return lambda x, upper: w[upper] / mpmath.fsum(w[x:]) if x <= upper < len(w) else mpf(0)
    assert isinstance(prior, Uniform)
    if prior.high is None:
        return oracle.uniform
    high = prior.high
    return lambda x, upper: mpf(1) / (high - x + 1) if upper <= high else mpf(0)


UPPERS = [
    Uniform(),
    Uniform(10),
    Uniform(3),
    Point(3),
    Point(25),
    WeightedPrior([0.5, 3, 0, 1, 0.1]),
    WeightedPrior([0.0] * 40 + [1]),
]


@settings(max_examples=40)
@given(
    small,
    small,
    st.integers(-40, 40),
    Rates,
    st.integers(1, 40),
    st.floats(0.01, 0.99),
    st.sampled_from(UPPERS),
    st.integers(0, 2),
)
def test_two_levels_by_enumeration(
    x1: int,
    x2: int,
    y1: int,
    rates: tuple[float, float],
    d: int,
    p: float,
    upper: risk.UpperPrior,
    known: int,
) -> None:
    with mpmath.workdps(60):
        joint = oracle.two_levels(
            x1, x2, y1, mpf(rates[0]), mpf(rates[1]), d, mpf(p), known, as_weight(upper), 120
        )
        expected = mpmath.fsum(v for (a, _), v in joint.items() if a > known)
        law = {
            j: mpmath.fsum(v for (_, b), v in joint.items() if b == j)
            for j in range(known, known + 60)
        }
    given_: dict[str, Any] = {
        "rho1": rates[0],
        "rho2": rates[1],
        "d": d,
        "prior": p,
        "known": known,
        "upper": upper,
    }
    value = risk.hierarchical_posterior(x1, x2, y1, **given_)
    assert abs(value - float(expected)) < 1e-11
    found = dict(
        zip(*(a.tolist() for a in risk.upper_posterior(x1, x2, y1, **given_)), strict=True)
    )
    assert all(abs(found.get(j, 0.0) - float(v)) < 1e-11 for j, v in law.items())


@settings(max_examples=15)
@given(
    st.lists(st.integers(-2, 6), min_size=5, max_size=5), st.floats(0.05, 0.95), st.integers(0, 1)
)
def test_three_levels_by_enumeration(data: list[int], p: float, known: int) -> None:
    rates, others, uppers = [0.4, 0.9, 0.7], [5, 3], [Uniform(), Uniform(9)]
    with mpmath.workdps(30):
        expected = oracle.levels(
            data[:3],
            data[3:],
            [mpf(r) for r in rates],
            others,
            mpf(p),
            [as_weight(u) for u in uppers],
            16,
            known,
        )
    value = risk.levels_posterior(
        data[:3], data[3:], rho=rates, others=others, prior=p, known=known, uppers=uppers
    )
    assert abs(value - float(expected)) < 1e-10


def test_four_levels_by_enumeration() -> None:
    rates, others = [0.5, 1.5, 2.0, 1.2], [4, 3, 2]
    with mpmath.workdps(30):
        expected = oracle.levels(
            [1, 2, 2, 4],
            [0, 1, 1],
            [mpf(r) for r in rates],
            others,
            mpf("0.3"),
            [oracle.uniform] * 3,
            13,
        )
    value = risk.levels_posterior([1, 2, 2, 4], [0, 1, 1], rho=rates, others=others, prior=0.3)
    assert abs(value - float(expected)) < 1e-11


def test_two_levels_are_levels() -> None:
    several = risk.levels_posterior([2, 1], [-1], rho=[RHO1, RHO2], others=[27], prior=0.5)
    assert several == risk.hierarchical_posterior(*TABLE_5, **CENSUS)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40)
@given(small, small, st.integers(-40, 40), st.integers(1, 50))
def test_a_target_who_is_not_unique_is_as_exposed(
    method: PosteriorMethod, x1: int, x2: int, y1: int, known: int
) -> None:
    """S1.1: everything moves by ``known``, and the posterior stays."""
    moved = risk.hierarchical_posterior(
        x1 + known, x2 + known, y1, **CENSUS, known=known, method=method
    )
    assert moved == pytest.approx(
        risk.hierarchical_posterior(x1, x2, y1, **CENSUS, method=method), rel=1e-12
    )


@given(small, small, st.integers(-40, 40), st.floats(0.05, 1))
def test_a_level_that_says_nothing_changes_nothing(x1: int, x2: int, y1: int, rho: float) -> None:
    """Upper counts far above: the constraint does not bind, and only the sum of three noises is
    left; with many other units even that says nothing."""
    value = risk.hierarchical_posterior(
        x1, x2 + 10**5, y1 + 10**5, rho1=rho, rho2=0.2, d=10**7, prior=0.3
    )
    assert value == pytest.approx(risk.posterior(x1, rho=rho, prior=0.3), abs=1e-4)


def test_bounded_neighbours_halve_every_rate() -> None:
    here = risk.hierarchical_posterior(*TABLE_5, **CENSUS, neighbours=Neighbours.BOUNDED)
    half = CENSUS | {"rho1": RHO1 / 2, "rho2": RHO2 / 2}
    assert here == risk.hierarchical_posterior(*TABLE_5, **half)
    given_: dict[str, Any] = {"others": [27], "prior": 0.5, "neighbours": Neighbours.BOUNDED}
    assert here == risk.levels_posterior([2, 1], [-1], rho=[RHO1, RHO2], **given_)


def test_data_broadcast() -> None:
    grid = risk.hierarchical_posterior(np.arange(3)[:, None], np.arange(4), -1, **CENSUS)
    assert grid.shape == (3, 4)
    assert grid[2, 1] == risk.hierarchical_posterior(*TABLE_5, **CENSUS)


# --- how much is left out
# -------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.lists(st.integers(-30, 40), min_size=5, max_size=5),
    st.lists(rate, min_size=3, max_size=3),
    st.lists(st.integers(1, 30), min_size=2, max_size=2),
    st.sampled_from([Uniform(), Uniform(12), Point(8)]),
)
def test_the_stated_bound_holds(
    data: list[int], rates: list[float], others: list[int], upper: risk.UpperPrior
) -> None:
    """Against windows four times as wide: each sum grows by less than the bound says, which is
    itself below 1e-12.
    """
    levels = Levels(rates, others, [upper, Uniform()])
    x, y = [np.array([v]) for v in data[1:3]], [np.array([v]) for v in data[3:]]
    short = recursion.log_weights(levels, x, y, 0)
    assert short.bound <= recursion.BOUND < 1e-12
    reach = [4 * n for n in (short.log.shape[2], 60)]
    first, size = zip(
        *(recursion._window(levels, i, x[i], 0, w) for i, w in enumerate(reach)), strict=True
    )
    long = recursion._log_sum(recursion._downwards(levels, x, y, 0, first, size))
    possible = np.isfinite(long)
    difference = (long - short.totals())[possible]
    assert (difference >= -1e-12).all()
    assert (difference <= 1e-12).all()


def test_a_window_that_is_too_narrow_is_found_out() -> None:
    """The bound is no formality: cut at 3, it is far above what is allowed, and so is the error."""
    levels = Levels([0.1, 0.25], [27], [Uniform()])
    x, y = [np.array([4])], [np.array([3])]
    first, size = recursion._window(levels, 0, x[0], 0, 3)
    totals = recursion._log_sum(recursion._downwards(levels, x, y, 0, [first], [size]))
    error = (recursion.log_weights(levels, x, y, 0).totals() - totals).max()
    bound = recursion._left_out(levels, x, 0, [3], [size], totals)
    assert 1e-3 < error < bound


def test_counts_far_below_what_is_possible_need_no_window_as_wide() -> None:
    """The sum and what is left out of it fall by the same factor, so a count of -1000 needs no
    window of 1000.
    """
    levels = Levels([0.1, 0.25], [27], [Uniform()])
    far = recursion.log_weights(levels, [np.array([-1000])], [np.array([0])], 0)
    assert far.bound <= recursion.BOUND
    assert far.log.shape[2] < 200


# --- the sampler
# ----------------------------------------------------------------------------------------------------


def transitions(
    x1: int, x2: int, y1: int, rate1: float, rate2: float, d: int, p: float
) -> np.ndarray:
    """The whole chain of the published sampler on (X1, X2), cell by cell from equations (30) and
    (35).
    """
    upper = np.arange(60)
    matrix = np.zeros((2, 60, 2, 60))
    center = [(rate2 * x2 + rate1 / d * (y1 + a)) / (rate2 + rate1 / d) for a in (0, 1)]
    given_ = np.array(
        [
            np.where(upper >= a, np.exp(-(rate2 + rate1 / d) * (upper - c) ** 2), 0)
            for a, c in zip((0, 1), center)
        ]
    )
    given_ /= given_.sum(axis=1, keepdims=True)
    for b in upper:
        mean = d / (d + 1) * (x1 + (b - y1) / d)
        w = np.array([1 - p, p]) * np.exp(-(d + 1) / d * rate1 * (np.array([0, 1]) - mean) ** 2)
        for a in (0, 1):
            matrix[:, b, a, :] = w[a] / w.sum() * given_[a]
    return matrix.reshape(120, 120)


@pytest.mark.parametrize("data", [TABLE_5, (0, 0, 0), (1, -2, 30), (0, 4, -20)])
def test_the_law_of_the_sampler_is_stationary_for_the_whole_chain(
    data: tuple[int, int, int],
) -> None:
    """The stationary vector of the chain on (X1, X2) by linear algebra, without our reduction to
    two states.
    """
    matrix = transitions(*data, float(RHO1), float(RHO2), 27, 0.5)
    value, vectors = np.linalg.eig(matrix.T)
    law = np.real(vectors[:, np.argmin(abs(value - 1))])
    law = (law / law.sum()).reshape(2, 60)
    assert risk.hierarchical_posterior(*data, **CENSUS, method=GIBBS) == pytest.approx(
        law[1].sum(), abs=1e-10
    )
    values, p = risk.upper_posterior(*data, **CENSUS, method=GIBBS)
    assert np.abs(np.bincount(values, weights=p, minlength=60)[:60] - law.sum(axis=0)).max() < 1e-10


def test_the_posterior_is_not_stationary_for_it() -> None:
    """One step of the published sampler from the exact posterior leaves it: slip 2."""
    law = np.zeros((2, 60))
    with mpmath.workdps(30):
        for (a, b), v in oracle.two_levels(
            *TABLE_5, oracle.num(RHO1), oracle.num(RHO2), 27, mpf("0.5")
        ).items():
            if b < 60:
                law[a, b] = float(v)
    moved = law.ravel() @ transitions(*TABLE_5, float(RHO1), float(RHO2), 27, 0.5)
    assert np.abs(moved - law.ravel()).sum() > 0.05


def test_where_the_constraint_cannot_bind_both_methods_agree() -> None:
    for upper in (Point(1), Point(25)):
        both = [
            risk.hierarchical_posterior(*TABLE_5, **CENSUS, upper=upper, method=m)
            for m in ("exact", GIBBS)
        ]
        assert both[0] == pytest.approx(both[1], rel=1e-12)


@pytest.mark.parametrize(("rho1", "rho2", "d"), [(0.3, 0.3, 29), (1.0, 0.1, 5), (0.05, 1.0, 2)])
def test_that_no_count_is_below_zero_only_lowers_the_posterior(
    rho1: float, rho2: float, d: int
) -> None:
    """Of any data. Without that bound they say as much as v = x2* - y1*, which is the bit and two
    noises: so does the page for choosing have it, and nobody ends higher."""
    x2, y1 = np.arange(-15, 60)[:, None], np.arange(-40, 60)[None, :]
    found = risk.hierarchical_posterior(0, x2, y1, rho1=rho1, rho2=rho2, d=d, prior=0.05)
    z = np.arange(-300, 301)
    noise = np.exp(-rho2 * z**2) @ np.exp(
        -rho1 / d * (np.arange(-160, 161)[None, :] - z[:, None]) ** 2
    )
    v = x2 - y1 + 160
    odds = np.log(noise[v - 1] / noise[v]) + np.log(0.05 / 0.95) - rho1
    free = 1 / (1 + np.exp(-odds))
    assert (found <= free * (1 + 1e-9)).all()
    assert (found < 0.9 * free).any()
    assert found[45:, 60:] == pytest.approx(free[45:, 60:], rel=1e-3)


# --- refusals
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "mcmc"}, "no method"),
        ({"d": 0}, "at least one"),
        ({"prior": 2}, "between 0 and 1"),
        ({"rho2": 0}, "positive"),
        ({"upper": Point(-1)}, "ends at"),
        ({"upper": Point(0), "method": GIBBS}, "allows both"),
    ],
)
def test_refusals(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        risk.hierarchical_posterior(*TABLE_5, **{**CENSUS, **change})


def test_more_refusals() -> None:
    with pytest.raises(InputError, match="integers"):
        risk.hierarchical_posterior(1.5, 1, 1, **CENSUS)
    with pytest.raises(InputError, match="h levels"):
        risk.levels_posterior([1, 2], [1], rho=[1, 1, 1], others=[2, 2], prior=0.5)
    with pytest.raises(InputError, match="h levels"):
        Levels([1.0], [], [])
    with pytest.raises(InputError, match="contradict"):
        risk.hierarchical_posterior(0, 0, 10**7, rho1=5, rho2=5, d=1, prior=0.5)
    with pytest.raises(InputError, match="no value possible"):
        risk.hierarchical_posterior(0, 0, 0, **CENSUS, upper=Nothing())
    for weights in ([], [-1.0, 2.0], [0.0, 0.0], [float("nan")]):
        with pytest.raises(InputError, match="weights"):
            WeightedPrior(weights)


class Nothing:
    """A user's prior that forbids everything."""

    low, high = 0, 5

    def log_weight(self, x: np.ndarray, upper: np.ndarray) -> np.ndarray:
        return np.full(np.broadcast(x, upper).shape, -np.inf)


def test_certain_of_nobody_above() -> None:
    """X2 = 0 leaves no room for the target."""
    assert risk.hierarchical_posterior(*TABLE_5, **CENSUS, upper=Point(0)) == 0
