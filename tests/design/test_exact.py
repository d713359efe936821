"""Fractions in place of floating-point numbers: they sum to 1 to the last digit, and lose next to
nothing.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.design.optimize import DENOMINATOR, DIGITS, FLOOR, rounded_up, shares

values = st.lists(
    st.one_of(st.floats(1e-12, 1e-3), st.floats(1e-3, 1e6), st.just(0.0)), min_size=1, max_size=40
).filter(lambda x: sum(x) > 0)


@given(x=values, data=st.data())
def test_shares_sum_to_one_and_are_near(x: list[float], data: st.DataObject) -> None:
    pairs = [("L", str(i)) for i in range(len(x))]
    kept = data.draw(st.sets(st.sampled_from(pairs)))
    found = shares(dict(zip(pairs, x, strict=True)), kept)
    assert sum(found.values()) == 1
    assert kept <= set(found)
    floor, unit = Fraction(FLOOR, DENOMINATOR), Fraction(1, DENOMINATOR)
    lost = sum(x[i] for i, pair in enumerate(pairs) if pair not in found) / sum(x) + len(
        kept
    ) * float(floor)
    for pair, value in zip(pairs, x, strict=True):
        ideal = value / sum(x)
        if pair in found:
            assert found[pair] >= (floor if pair in kept else unit)
            assert abs(found[pair] - ideal) <= ideal * 2 * lost + 2 * unit + (
                floor if pair in kept else 0
            )
        else:
            assert ideal < floor


def test_what_is_too_small_is_dropped_and_what_must_stay_stays() -> None:
    x = {("A", "total"): 1.0, ("A", "small"): 9e-5, ("B", "detailed"): 0.0}
    assert shares(x, []) == {("A", "total"): 1}
    assert shares(x, [("B", "detailed")]) == {
        ("A", "total"): Fraction(9999, 10000),
        ("B", "detailed"): Fraction(1, 10000),
    }


@given(value=st.fractions(Fraction(1, 10**9), Fraction(10**9)))
def test_a_total_is_rounded_up_by_next_to_nothing(value: Fraction) -> None:
    found = rounded_up(value)
    assert value <= found <= value * (1 + Fraction(10) ** (1 - DIGITS))
    assert rounded_up(found) == found


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(1.0, 1), (0.1234567, Fraction("0.123457")), (999999.5, 1000000), (10**7, 10**7)],
)
def test_six_digits_are_kept(value: float, rounded: Fraction | int) -> None:
    assert rounded_up(value) == rounded
