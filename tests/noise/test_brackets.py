"""Every bracket holds the true value, known to 130 digits, and is tight; so is every table made
from them.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mpf

from das.noise import discrete_gaussian, discrete_laplace
from das.noise.rejection import Brackets, InverseCdf, exp_minus, symmetric
from tests.oracles import (
    DIGITS,
    as_mpf,
    gaussian_distribution,
    gaussian_reference,
    laplace_distribution,
    laplace_reference,
)

#: The variances of the field, from almost no noise to a block's total; with some that are no one's
#: friends.
SIGMA_SQ = [
    Fraction(1, 10**6),
    Fraction(1, 100),
    Fraction(1, 2),
    Fraction(1),
    Fraction(2),
    Fraction(500, 99),
    Fraction(100),
    Fraction(10**4),
    Fraction(214437516707, 177339451520),
    Fraction(1929937650363, 794337856),
    Fraction(2**89 - 1, 2**87 + 3),
    Fraction(3**80 + 2, 5**52),
    Fraction(10**40 + 7, 10**38 + 9),
]
#: The scales of the 1940 test, and others.
SCALES = [
    Fraction(1, 1000),
    Fraction(1, 10),
    Fraction(1, 2),
    Fraction(1),
    Fraction(1280, 27),
    Fraction(320),
    Fraction(2**61 - 1, 2**55 + 5),
    Fraction(3**40, 7**21),
]


def gaussian(sigma_sq: Fraction) -> Brackets:
    return symmetric(lambda n: discrete_gaussian.weights(sigma_sq, n))


def laplace(scale: Fraction) -> Brackets:
    return symmetric(lambda n: discrete_laplace.weights(scale, n))


def check_brackets(
    brackets: Brackets, bits: int, distribution: Callable[[int], dict[int, mpf]]
) -> None:
    first, lo, hi = brackets(bits)
    assert len(lo) == len(hi) == -2 * first
    truth = distribution(-first)
    with mpmath.workdps(DIGITS):
        unit = mpf(2) ** bits
        for i, (a, b) in enumerate(zip(lo, hi, strict=True)):
            assert a <= unit * truth[first + i] <= b, f"F({first + i}) is outside its bracket"
            assert b - a <= 3, f"the bracket of F({first + i}) is {b - a} units wide"
    assert lo == sorted(lo)
    assert hi == sorted(hi)
    assert lo[0] <= 1  # the table reaches as far as the bits do
    assert hi[-1] >= (1 << bits) - 1


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("sigma_sq", SIGMA_SQ, ids=lambda s: f"{float(s):.4g}")
def test_gaussian_brackets_hold_the_truth(sigma_sq: Fraction, bits: int) -> None:
    check_brackets(gaussian(sigma_sq), bits, lambda top: gaussian_distribution(sigma_sq, top))


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("scale", SCALES, ids=lambda s: f"{float(s):.4g}")
def test_laplace_brackets_hold_the_truth(scale: Fraction, bits: int) -> None:
    if bits == 128 and scale > 100:
        bits = 96
    check_brackets(laplace(scale), bits, lambda top: laplace_distribution(scale, top))


@settings(max_examples=30)
@given(
    st.fractions(Fraction(1, 1000), 50, max_denominator=10**30), st.sampled_from([16, 64, 100, 192])
)
def test_gaussian_brackets_of_any_fraction(sigma_sq: Fraction, bits: int) -> None:
    check_brackets(gaussian(sigma_sq), bits, lambda top: gaussian_distribution(sigma_sq, top))


def test_the_bracket_check_can_fail() -> None:
    """A distribution whose variance is off by one part in 10^18 is told apart."""
    near = Fraction(500, 99) * (1 + Fraction(1, 10**18))
    with pytest.raises(AssertionError, match="outside its bracket"):
        check_brackets(
            gaussian(near), 64, lambda top: gaussian_distribution(Fraction(500, 99), top)
        )


def test_the_tail_is_bounded() -> None:
    """What lies beyond the last weight is at most ``tail``, and more than nothing."""
    for sigma_sq in (Fraction(1, 2), Fraction(500, 99), Fraction(300)):
        g_lo, g_hi, tail = discrete_gaussian.weights(sigma_sq, 64)
        top = len(g_lo) - 1
        with mpmath.workdps(DIGITS):
            rest = mpmath.fsum(
                mpmath.exp(-as_mpf(Fraction(k * k) / (2 * sigma_sq)))
                for k in range(top + 1, 3 * top + 50)
            )
            assert rest * g_lo[0] <= tail
        assert g_lo[0] == g_hi[0]
    scale = Fraction(1280, 27)
    g_lo, _, tail = discrete_laplace.weights(scale, 64)
    with mpmath.workdps(DIGITS):
        q = mpmath.exp(-as_mpf(1 / scale))
        assert q ** len(g_lo) / (1 - q) * g_lo[0] <= tail


@pytest.mark.parametrize("bits", [8, 16, 64])
@pytest.mark.parametrize("top", [1, 2, 3, 10])
def test_a_coarse_bound_of_the_tail_gives_wide_brackets_not_wrong_ones(bits: int, top: int) -> None:
    """Weights 2^-|k|, cut off after ``top``, their tail bounded by up to twice what it is: F(-k) =
    2^(1-k) / 3.
    """
    for slack in (1, 2):
        weights = [1 << (64 - k) for k in range(top + 1)]
        first, lo, hi = symmetric(lambda n: (weights, weights, slack << (64 - top)))(bits)  # noqa: B023
        assert (first, len(lo), len(hi)) == (-top, 2 * top, 2 * top)
        for i, (a, b) in enumerate(zip(lo, hi, strict=True)):
            k = first + i
            below = Fraction(2, 3 << -k) if k < 0 else 1 - Fraction(1, 3 << k)
            assert a <= below * (1 << bits) <= b


# --- the exponential
# -----------------------------------------------------------------------------------------


@given(
    st.one_of(
        st.fractions(0, 4, max_denominator=10**40),
        st.fractions(0, 2000, max_denominator=10**6),
        st.builds(Fraction, st.just(1), st.integers(1, 10**30)),
    ),
    st.integers(1, 400),
)
@example(Fraction(0), 64)
@example(Fraction(1, 2), 64)
@example(Fraction(1), 1)
@example(Fraction(10**6), 64)
def test_exp_minus_holds_the_truth(x: Fraction, bits: int) -> None:
    lo, hi = exp_minus(x, bits)
    with mpmath.workdps(200 + bits // 3):
        assert lo <= mpmath.exp(-as_mpf(x)) * mpf(2) ** bits <= hi
    assert lo >= 0
    assert hi - lo <= 3


# --- the first level
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "brackets, reference",
    [
        *(
            (gaussian(s), gaussian_reference(s))
            for s in (Fraction(1, 100), Fraction(1, 2), Fraction(500, 99), Fraction(10**4))
        ),
        *((laplace(b), laplace_reference(b)) for b in (Fraction(1, 10), Fraction(1280, 27))),
    ],
    ids=["N 1/100", "N 1/2", "N 500/99", "N 10^4", "L 1/10", "L 1280/27"],
)
def test_the_first_level_decides_every_prefix_that_can_be_and_no_other(brackets, reference) -> None:  # type: ignore[no-untyped-def]
    """All 65,536 prefixes of 16 bits: F^-1 is constant on those with a value, and only on those."""
    sampler = InverseCdf(brackets)
    table = sampler._table.astype(np.int64)
    assert table.shape == (1 << 16,)
    shift = reference.bits - 16
    cell = np.array(
        [t >> shift for t in reference.thresholds]
    )  # the prefix that each threshold lies in
    assert cell[0] == 0
    assert cell[-1] == (1 << 16) - 1
    # the value of the first and last U of each prefix: thresholds at or below it
    value_at_last = reference.first + np.searchsorted(cell, np.arange(1 << 16), side="right")
    value_at_first = reference.first + np.searchsorted(cell, np.arange(1 << 16), side="left")
    constant = value_at_first == value_at_last
    decided = table != sampler._undecided
    np.testing.assert_array_equal(decided, constant)
    np.testing.assert_array_equal(table[decided], value_at_first[decided])
    assert not decided[0]
    assert not decided[-1]
