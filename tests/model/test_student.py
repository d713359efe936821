"""Quantiles of Student's t, beside SciPy's and beside the tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from das.evaluate.comparison import MANY, student


@given(st.integers(1, 3 * MANY), st.floats(0.01, 0.9999))
def test_it_is_the_quantile_that_scipy_gives(degrees: int, coverage: float) -> None:
    assert student(degrees, coverage) == pytest.approx(
        stdtrit(degrees, (1 + coverage) / 2), rel=1e-11
    )


@pytest.mark.parametrize(
    ("degrees", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (30, 2.042), (10**9, 1.960)]
)
def test_the_table_of_a_textbook(degrees: int, expected: float) -> None:
    assert student(degrees, 0.95) == pytest.approx(expected, abs=5e-4)


def test_the_sum_and_the_expansion_meet() -> None:
    steps = [student(n, 0.95) - student(n + 1, 0.95) for n in range(MANY - 2, MANY + 3)]
    assert steps == pytest.approx([steps[0]] * 5, rel=0.02)


@pytest.mark.parametrize(("degrees", "coverage"), [(0, 0.95), (3, 0.0), (3, 1.0)])
def test_what_has_no_quantile_is_refused(degrees: int, coverage: float) -> None:
    with pytest.raises(ValueError, match="no t of"):
        student(degrees, coverage)
