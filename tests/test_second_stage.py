"""The second stage of a search: what is short, what tells it, and who pays."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.second_stage import GRAIN, MeasuredGroup, missing, next_shares, raised, told_by
from das.model.redistricting import PL94

NAMES = ("total", "hispanic", "cenrace", "hispanic * cenrace", "votingage", "detailed")
MEASURED = {"Tract": [PL94.query(n) for n in ("hispanic * cenrace", "cenrace", "detailed")]}


def group(name: str, ratio: float, error: float = 0.01) -> MeasuredGroup:
    return MeasuredGroup("Tract", name, PL94.query(name), ratio, error)


@pytest.mark.parametrize(
    ("lines", "query"),
    [
        ("hispanic", "hispanic * cenrace"),
        ("cenrace", "cenrace"),
        ("total", "cenrace"),
        ("votingage", "detailed"),
    ],
)
def test_the_query_with_the_fewest_answers_tells_a_group(lines: str, query: str) -> None:
    found = told_by(PL94.query(lines), MEASURED["Tract"])
    assert found is not None
    assert found.name == query
    assert told_by(PL94.query("detailed"), MEASURED["Tract"][:2]) is None


@pytest.mark.parametrize(
    ("ratio", "error", "short"),
    [(1.2, 0.05, True), (1.2, 0.11, False), (1.04, 0.001, False), (0.5, 0.01, False)],
)
def test_short_is_what_is_above_the_bar_and_not_by_chance(
    ratio: float, error: float, short: bool
) -> None:
    assert group("hispanic", ratio, error).short(1.05) == short


def test_noise_is_bought_off_and_bias_is_named() -> None:
    """The detailed query has 2,016 answers: age is told by many cells alone."""
    groups = [group("hispanic", 1.2), group("cenrace", 0.9), group("votingage", 1.3)]
    assert raised(groups, MEASURED, 1.05) == {("Tract", "hispanic * cenrace"): pytest.approx(1.44)}
    assert missing(groups, MEASURED, 1.05) == (groups[2],)
    assert raised([group("hispanic", 3.0)], MEASURED, 1.05) == {
        ("Tract", "hispanic * cenrace"): 2.0
    }


shares = st.dictionaries(
    st.sampled_from(NAMES), st.integers(0, 5000).map(lambda n: n * GRAIN), min_size=1
)


@given(shares, shares, st.dictionaries(st.sampled_from(NAMES), st.floats(1, 2)))
def test_a_level_costs_what_it_did_and_nothing_falls_below_its_floor(
    rho: dict[str, Fraction], floor: dict[str, Fraction], rise: dict[str, float]
) -> None:
    rise = {q: factor for q, factor in rise.items() if q in rho}
    found = next_shares(rho, floor, rise)
    assert sum(found.values()) == sum(rho.values())
    assert found.keys() == rho.keys()
    for q, r in found.items():
        assert r >= min(rho[q], floor.get(q, Fraction(0)))
        assert (r >= rho[q]) if q in rise else (r <= rho[q])
        assert r <= rho[q] * Fraction(rise.get(q, 1.0))
