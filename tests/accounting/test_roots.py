"""Roots: what is returned is next to a change of sign, and few values are asked for."""

from __future__ import annotations

from math import atan, copysign, exp, inf, nextafter
from statistics import median

import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from das.accounting import zcdp
from das.accounting.roots import crossing

numbers = st.floats(-1e6, 1e6)


@given(
    numbers,
    st.floats(1e-6, 1e6),
    st.floats(1e-6, 1e6),
    st.floats(1e-3, 1e3),
    st.sampled_from([1, -1]),
)
def test_it_ends_next_to_a_change_of_sign(
    root: float, left: float, right: float, steep: float, sign: int
) -> None:
    def f(x: float) -> float:
        return sign * (atan(steep * (x - root)) + (x - root) / 7)

    ends = (root - left, f(root - left)), (root + right, f(root + right))
    for a, b in (ends, ends[::-1]):
        found = crossing(f, a, b, absolute=1e-9)
        near = 1e-9 + 2.0**-51 * abs(found)
        assert f(found - near) * f(found + near) <= 0
        assert abs(found - root) <= near + 2.0**-52 * abs(root)


@given(numbers, st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.floats(1e-30, 1e30))
def test_a_jump_is_halved_down_to(where: float, left: float, right: float, high: float) -> None:
    def f(x: float) -> float:
        return high if x >= where else -1.0

    found = crossing(f, (where - left, -1.0), (where + right, high), absolute=1e-9)
    assert abs(found - where) <= 1e-9 + 2.0**-50 * abs(where)


def test_it_never_leaves_what_it_is_given() -> None:
    asked: list[float] = []

    def f(x: float) -> float:
        asked.append(x)
        return copysign(abs(x - 0.3) ** 0.2, x - 0.3)

    crossing(f, (0.0, f(0.0)), (1.0, f(1.0)))
    assert min(asked) >= 0
    assert max(asked) <= 1


def test_ends_of_one_sign_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the signs at 1\.0 and 2\.0 are the same"):
        crossing(lambda x: x, (1.0, 1.0), (2.0, 2.0))


class Bent:
    """A function that curves, and how many of its values were asked for."""

    def __init__(self, root: int) -> None:
        self.root, self.times = root, 0

    def __call__(self, x: float) -> float:
        self.times += 1
        return exp(x / 7) - self.root - x * x / 90


def test_it_asks_for_no_more_values_than_brent() -> None:
    ours, theirs = [Bent(i) for i in range(1, 60)], [Bent(i) for i in range(1, 60)]
    for our, their in zip(ours, theirs, strict=True):
        found = crossing(our, (-30.0, our(-30.0)), (60.0, our(60.0)), absolute=1e-12)
        assert found == pytest.approx(
            float(scipy.optimize.brentq(their, -30.0, 60.0, xtol=1e-12)), rel=1e-12
        )
    assert median(f.times for f in ours) <= median(f.times for f in theirs)


@given(st.floats(-300, 8))
def test_the_normal_distribution_is_that_of_scipy(x: float) -> None:
    from scipy.special import log_ndtr

    assert zcdp._log_phi(x) == pytest.approx(float(log_ndtr(x)), rel=1e-12)
    assert zcdp._log_phi(nextafter(x, inf)) >= zcdp._log_phi(x) - 1e-12 * abs(zcdp._log_phi(x))
