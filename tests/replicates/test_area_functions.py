"""Statistics of areas from replicates: where their intervals can lie, and of what plans they
hold.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.release.area_counts import FUNCTIONS, deviation, for_all_at_once
from das.replicates import ReplicateErrors, interval

SIMULATIONS, REPLICATES = 2000, 25
COUNT = st.integers(0, 1000)


@given(
    st.lists(st.tuples(COUNT, COUNT), min_size=2, max_size=6),
    st.lists(st.tuples(COUNT, COUNT), min_size=2, max_size=6),
)
def test_a_statistic_is_nowhere_beyond_its_bounds(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    """Neither its values nor the ends of its intervals; and one of a value within bounds has it."""
    several = [
        np.array(pairs, dtype=float)
        for pairs in (first, second[: len(first)])
        if len(pairs) == len(first)
    ]
    for f in FUNCTIONS.values():
        drawn = []
        for counts in several:
            part = np.sort(counts, axis=1).T[: f.counts]  # a part, and the whole of it
            drawn.append(f.function(*part))
        value = drawn[0]
        assert (value[np.isfinite(value)] >= f.least).all()
        assert (value[np.isfinite(value)] <= f.most).all()
        made = interval(
            value, ReplicateErrors.from_replicates(value, np.array([drawn[-1], drawn[0]])), 0.9
        ).clipped(f.least, f.most)
        known = np.isfinite(made.margin)
        assert (made.lower[known] >= f.least).all()
        assert (made.upper[known] <= f.most).all()
        assert (made.lower[known] <= value[known] + 1e-12).all()
        assert (made.upper[known] >= value[known] - 1e-12).all()


@pytest.mark.parametrize("districts", [6, 75])
def test_of_a_plan_that_was_balanced_on_these_counts_the_replicates_say_more_than_the_interval(
    districts: int,
) -> None:
    """The errors of districts are normal and alike, the published counts equal. The documented
    figures: two of three intervals hold the true deviation, and nearly nine of ten of those from
    the 5th to the 95th percentile of the replicates."""
    rng, least = np.random.default_rng(districts), 0.0
    published = np.full(districts, 1000.0)
    held = np.zeros(2)
    for _ in range(SIMULATIONS):
        (true,) = deviation(published + rng.normal(size=districts))
        drawn = np.array(
            [deviation(published + e) for e in rng.normal(size=(REPLICATES, districts))]
        )
        value = deviation(published)
        made = interval(
            value, ReplicateErrors.from_replicates(value, drawn), 0.9, raised=True
        ).clipped(least, np.inf)
        low, high = np.quantile(drawn, [0.05, 0.95])
        held += [made.lower[0] <= true <= made.upper[0], low <= true <= high]
    by_rule, by_replicates = held / SIMULATIONS
    assert 0.58 < by_rule < 0.72
    assert 0.80 < by_replicates < 0.92


@pytest.mark.parametrize(("replicates", "coverage"), [(9, 0.9), (25, 0.9), (25, 0.95)])
def test_intervals_of_all_areas_hold_at_once_whatever_the_number_of_replicates(
    replicates: int, coverage: float
) -> None:
    """Forty areas with normal errors: the quantile of scores that have a part in their own errors
    held .28 of nine replicates and .68 of 25.
    """
    rng, held = np.random.default_rng(replicates), 0
    value = np.zeros(40)
    for _ in range(1500):
        true, *errors = rng.normal(size=(replicates + 1, 40))
        drawn = np.array(errors)
        reach = for_all_at_once(value, drawn, coverage) * np.sqrt((drawn**2).mean(axis=0))
        held += bool((np.abs(true) <= reach).all())
    assert held / 1500 >= coverage - 0.015
