"""What an allocation gives to the units of each class, what a step does to it, and what bounds it:
over chains, too.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.design.model import Choices
from das.model import tabulation
from das.model.budget import Allocation, Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.plan import Plan

LEVELS = ("A", "B", "C")
PAIRS = (
    ("A", "total"),
    ("A", "detailed"),
    ("B", "x"),
    ("B", "total"),
    ("C", "detailed"),
    ("C", "total"),
)
EVERY = {
    place: held
    for place, held in tabulation.classes(LEVELS, tabulation.conceivable(LEVELS)).items()
    if held
}
some_classes = st.sets(st.sampled_from(list(EVERY)), min_size=1).map(
    lambda s: {p: EVERY[p] for p in EVERY if p in s}
)
seeds = st.integers(0, 10**6)


def allocation(measurements: Choices, rng: np.random.Generator) -> NDArray[np.float64]:
    """Anything, with zeros and next to nothing here and there."""
    rho = rng.dirichlet(np.full(len(measurements.pairs), rng.choice([0.2, 1.0, 5.0]))) * 3
    rho[rng.random(len(rho)) < 0.2] = 0.0
    return rho + (rho.sum() == 0)


def test_precisions_are_those_of_the_plan_with_every_class() -> None:
    share = {
        ("A", "total"): "1/7",
        ("A", "detailed"): "1/14",
        ("B", "x"): "1/6",
        ("B", "total"): "1/12",
    }
    share |= {("C", "detailed"): "1/4", ("C", "total"): "2/7"}

    cost = {pair: Fraction(s) for pair, s in share.items()}
    level = {lv: sum((c for (at, _), c in cost.items() if at == lv), Fraction(0)) for lv in LEVELS}
    split = Allocation(
        level, {lv: {q: c / level[lv] for (at, q), c in cost.items() if at == lv} for lv in LEVELS}
    )
    paths = tabulation.conceivable(LEVELS)
    plan = Plan.from_allocation(
        Fraction(5),
        DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        split,
        tabulation.classes(LEVELS, paths),
        paths,
    )
    measurements = Choices(PAIRS, EVERY)
    found = measurements.precision(np.array([float(5 * cost[pair]) for pair in PAIRS]))
    said = {(d.level, d.unit_class, d.query): 1 / float(d.parameter) for d in plan.measurements}
    assert len(found) == len(said) == len(measurements.members)
    for (k, query), p in zip(measurements.members, found, strict=True):
        assert p == pytest.approx(said[(*measurements.places[k], query)], rel=1e-12)


def test_without_only_children_precisions_are_the_costs() -> None:
    measurements = Choices.alike(PAIRS, "all")
    rho = np.arange(1.0, 7.0)
    assert measurements.precision(rho) == pytest.approx(rho)
    assert measurements.most(rho) == pytest.approx(rho)
    assert measurements.multiplier(rho, rho[::-1]) == pytest.approx(rho[::-1])


@given(classes=some_classes, seed=seeds)
def test_a_step_gives_what_precisions_are_worth(classes: dict, seed: int) -> None:
    """sum rho m = sum p h: by Euler's identity the allocation stays what it is in all."""
    rng = np.random.default_rng(seed)
    measurements = Choices(PAIRS, classes)
    rho, h = allocation(measurements, rng), rng.exponential(size=len(measurements.members)) ** 3
    p = measurements.precision(rho)
    assert rho @ measurements.multiplier(rho, h) == pytest.approx(p @ h, rel=1e-10, abs=1e-14)


@given(classes=some_classes, seed=seeds)
def test_no_allocation_is_worth_more_than_its_bound(classes: dict, seed: int) -> None:
    """h'p' <= c'rho', and for some allocation of one level's draws alone as much."""
    rng = np.random.default_rng(seed)
    measurements = Choices(PAIRS, classes)
    h = rng.exponential(size=len(measurements.members)) ** 3
    most = measurements.most(h)
    for _ in range(20):
        rho = allocation(measurements, rng)
        assert h @ measurements.precision(rho) <= most @ rho + 1e-9 * (1 + most @ rho)


@given(seed=seeds)
def test_the_step_follows_the_slope_of_the_worth(seed: int) -> None:
    """rho_j (m_j - mean) has the sign of moving worth to draw j: to the first order a small step
    never loses.
    """
    rng = np.random.default_rng(seed)
    measurements = Choices(PAIRS, EVERY)
    rho, h = (
        rng.dirichlet(np.ones(len(PAIRS))) + 1e-3,
        rng.exponential(size=len(measurements.members)),
    )
    m = measurements.multiplier(rho, h)
    moved = rho * m**1e-4
    moved *= rho.sum() / moved.sum()
    assert h @ measurements.precision(moved) >= h @ measurements.precision(rho) - 1e-12


@given(classes=some_classes, seed=seeds)
def test_slopes_of_precisions_are_those_of_differences(classes: dict, seed: int) -> None:
    rng = np.random.default_rng(seed)
    measurements = Choices(PAIRS, classes, each=2.0)
    rho = rng.uniform(0.1, 1, len(PAIRS))
    slope = measurements.slope(rho)
    for j in range(len(PAIRS)):
        step = np.where(np.arange(len(PAIRS)) == j, 1e-6, 0.0)
        assert slope[:, j] == pytest.approx(
            (measurements.precision(rho + step) - measurements.precision(rho - step)) / 2e-6,
            abs=1e-6,
        )
