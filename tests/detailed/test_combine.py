"""Totals from both stages, held against the exact law of both given the size of the table, summed
over whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from das.model.mechanisms import GEOMETRIC
from das.publications.detailed.estimation.combine import NARROW, Z, combined, interval
from das.publications.detailed.model.iterations import GroupLevel
from das.publications.detailed.model.tables import FIRST, LevelPlan
from tests.detailed.estimation_worlds import noise
from tests.detailed.worlds import persons

Floats = NDArray[np.float64]
NATION = GroupLevel("USA", 2)
COUNTY, REGIONAL = GroupLevel("COUNTY", 2), GroupLevel("TRACT", 1)


def plan_of(at: GroupLevel, **changes: object) -> LevelPlan:
    run = "pr" if at.region.startswith("PR") else "us"
    return next(p for p in persons(**changes).plans(run) if p.at == at)  # type: ignore[arg-type]


def sd(plan: LevelPlan, query: str) -> float:
    return float(plan.measurement(query).variance) ** 0.5


@dataclass(frozen=True, eq=False)
class Law:
    """The law of both stages of a group of ``people``, given the ``size`` of its table."""

    plan: LevelPlan
    people: int
    size: int
    scale: float = 1.0

    @property
    def v1(self) -> float:
        return self.plan.measurement(FIRST).variance

    @property
    def vs(self) -> float:
        return self.plan.table.answers[self.size] * self.plan.measurement("t2").variance

    @property
    def window(self) -> tuple[float, float]:
        ends = [-np.inf, *self.plan.thresholds, np.inf]
        return ends[self.size], ends[self.size + 1]

    def points(self) -> tuple[Floats, Floats, Floats, float]:
        """Numbers of both stages, the probability of each pair given the size, and that of the
        size.
        """
        low, high = self.window
        x, p = law(self.v1 * self.scale**2, self.people)
        kept = (x >= low) & (x < high)
        s, q = law(self.vs * self.scale**2, self.people)
        share = float(p[kept].sum())
        pairs = np.stack(np.meshgrid(x[kept], s, indexing="ij"))
        return pairs[0].ravel(), pairs[1].ravel(), np.outer(p[kept] / share, q).ravel(), share

    def coverage(self, naive: bool = False) -> float:
        """How often an interval holds the truth. Intervals move with T, so it is found where their
        ends cross the truth.
        """
        x, s, p, _ = self.points()
        w = self.vs / (self.v1 + self.vs)
        v, (low, high) = self.vs * (1 - w), self.window
        t = s + w * (x - s)
        grid = self.people + np.linspace(-12, 12, 241) * np.sqrt(v) * self.scale
        if naive:
            lower, upper = grid - Z * np.sqrt(v), grid + Z * np.sqrt(v)
        else:
            every = np.ones(len(grid))
            lower, upper = interval(grid, v * every, self.v1 * every, low * every, high * every)
        assert (np.diff(lower) > 0).all()
        assert (np.diff(upper) > 0).all()
        first, last = np.interp(self.people, upper, grid), np.interp(self.people, lower, grid)
        return float(p[(t >= first) & (t <= last)].sum())


def law(variance: float, mean: int) -> tuple[Floats, Floats]:
    far = int(9 * variance**0.5) + 2
    x = np.arange(-far, far + 1)
    p = np.exp(-(x**2) / (2 * variance))
    return x + float(mean), p / p.sum()


#: A level, a size of its tables, and one of the thresholds that it lies between.
NEAR = [
    (NATION, 0, 0),
    (NATION, 1, 0),
    (NATION, 2, 1),
    (COUNTY, 0, 0),
    (COUNTY, 1, 0),
    (REGIONAL, 1, 0),
    (COUNTY, 1, 1),
]


def laws(at: GroupLevel, size: int, threshold: int) -> list[Law]:
    """At a threshold, and one standard deviation of the first stage around it."""
    plan = plan_of(at)
    return [
        Law(plan, round(plan.thresholds[threshold] + d * sd(plan, FIRST)), size) for d in (-1, 0, 1)
    ]


@pytest.mark.parametrize("size, ratio", [(1, 0.529), (2, 0.333), (3, 0.164)])
def test_totals_from_both_stages_have_the_variance_of_both(size: int, ratio: float) -> None:
    """SafeTab-P has k cells' variance; with the first stage it is 9/(9 + k) of that."""
    plan, rng, n = plan_of(COUNTY), np.random.default_rng(size), 100_000
    k = plan.table.answers[size]
    sums = sum(noise(plan, "t2", n, rng) for _ in range(k))
    found = combined(
        noise(plan, FIRST, n, rng),
        sums,
        -1e6,
        1e6,
        plan.measurement(FIRST).variance,
        k * plan.measurement("t2").variance,
    )
    theirs = k * plan.measurement("t2").variance
    assert float(np.var(found.value)) / theirs == pytest.approx(ratio, rel=0.02)
    assert float(found.true[0]) / theirs == pytest.approx(9 / (9 + k), rel=1e-3)
    assert not found.matters.any()


@pytest.mark.parametrize("at, size, threshold", NEAR)
def test_given_the_table_estimates_and_their_variances_are_unbiased(
    at: GroupLevel, size: int, threshold: int
) -> None:
    pooled_is_biased = []
    for one in laws(at, size, threshold):
        x, s, p, _ = one.points()
        found = combined(x, s, *one.window, one.v1, one.vs)
        mean = float(p @ found.value)
        error = float(p @ (found.value - one.people) ** 2) ** 0.5
        assert abs(mean - one.people) < 0.01 * error
        assert float(p @ found.true) == pytest.approx(error**2, rel=0.01)
        pooled = s + one.vs / (one.v1 + one.vs) * (x - s)
        pooled_is_biased.append(abs(float(p @ pooled) - one.people) > 0.1 * error)
    assert any(pooled_is_biased), "a test that would notice nothing"


@pytest.mark.parametrize("at, size, threshold", NEAR)
def test_intervals_hold_given_the_table(at: GroupLevel, size: int, threshold: int) -> None:
    for one in laws(at, size, threshold):
        assert 0.94 <= one.coverage() <= 0.96


def test_intervals_that_ignore_the_truncation_do_not_hold() -> None:
    """The power of the test above: at one standard deviation from a threshold they hold 88 %."""
    for at, size, threshold in NEAR:
        if size:
            assert not all(
                0.94 <= one.coverage(naive=True) <= 0.96 for one in laws(at, size, threshold)
            )


def test_intervals_of_a_wrong_variance_do_not_hold() -> None:
    plan = plan_of(COUNTY)
    for scale in (0.7, 1.3):
        assert not 0.94 <= Law(plan, plan.thresholds[0], 1, scale).coverage() <= 0.96


@pytest.mark.parametrize("d", [-1.0, 0.0, 1.0, 4.0])
def test_over_all_tables_intervals_hold_as_well(d: float) -> None:
    plan = plan_of(COUNTY)
    people = round(plan.thresholds[0] + d * sd(plan, FIRST))
    every = [Law(plan, people, size) for size in (0, 1)]
    held = sum(one.coverage() * one.points()[3] for one in every)
    assert 0.94 <= held <= 0.96
    assert sum(one.points()[3] for one in every) == pytest.approx(1, abs=1e-12)


def test_a_narrow_window_tells_nothing_beyond_itself() -> None:
    """A first stage that is known exactly given the size adds nothing to the second."""
    found = combined(7, 12.5, 7, 8, 20.0, 11.0)
    assert float(found.value[0]) == pytest.approx(12.5, abs=1e-9)
    assert float(found.true[0]) == pytest.approx(11.0, abs=1e-9)
    wide, narrow = (combined(30, 28.0, 0, end, 400.0, 90.0) for end in (NARROW + 1, NARROW))
    assert float(wide.value[0]) == pytest.approx(float(narrow.value[0]), abs=0.05)


@pytest.mark.parametrize("far", [3.0, 30.0, 300.0])
def test_far_outside_of_its_window_an_estimate_is_that_of_the_second_stage(far: float) -> None:
    """T is where the first stage cannot have been: all that is left of it is where the window
    begins.
    """
    v1, vs, low = 283.0, 251.0, 971.0
    sums = low - far * 30
    found = combined(low, sums, low, np.inf, v1, vs)
    assert np.isfinite([found.value, found.true]).all()
    assert float(found.true[0]) <= vs
    assert float(found.value[0]) == pytest.approx(sums, abs=3 * v1 / far)


def test_laplacian_noise_leaves_the_first_stage_aside() -> None:
    parameters = persons(mechanism=GEOMETRIC)
    plan = next(p for p in parameters.plans("us") if p.at == COUNTY)
    assert plan.measurement(FIRST).parameter > Fraction(0)
    found = combined(3.0, 10.0, 0, 20, np.inf, 8.0)
    assert (float(found.value[0]), float(found.work[0]), float(found.true[0])) == (10.0, 8.0, 8.0)
