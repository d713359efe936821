"""Moments of the noise against mpmath, and errors of samples against them: right scales pass, wrong
ones do not.
"""

from fractions import Fraction
from math import pi, sqrt

import mpmath
import numpy as np
import pytest

from das.evaluate.errors import expected, moments
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC
from das.noise import discrete_gaussian, discrete_laplace
from das.noise.entropy import seeded

GAUSSIAN = DISCRETE_GAUSSIAN


def by_sums(weight, top):
    """E|X| and E[X^2] of a symmetric law, to 40 digits."""
    with mpmath.workdps(40):
        w = [weight(k) for k in range(top)]
        whole = w[0] + 2 * sum(w[1:])
        return tuple(
            float(2 * sum(mpmath.mpf(k) ** p * w[k] for k in range(top)) / whole) for p in (1, 2)
        )


@pytest.mark.parametrize(
    "sigma_sq", ["1/100", "1/20", "1/7", "2/5", "9/10", "1", "3/2", "7", "99", "9999", "10001"]
)
def test_discrete_gaussian(sigma_sq):
    """From the variance as it is published, which below 1 is not sigma squared, in float32 too."""
    s = Fraction(sigma_sq)
    first, second = by_sums(
        lambda k: mpmath.exp(-mpmath.mpf(k * k) * s.denominator / (2 * s.numerator)),
        16 * int(s**0.5 + 3),
    )
    published = GAUSSIAN.variance(s)
    assert published == pytest.approx(second, rel=1e-6)
    got = moments(GAUSSIAN, published)
    assert got.mean_abs == pytest.approx(first, rel=2e-6)
    assert moments(GAUSSIAN, float(np.float32(published))).mean_abs == pytest.approx(
        first, rel=2e-6
    )
    assert got.deviation_abs == pytest.approx(sqrt(second - first**2), rel=1e-5)


def test_large_variances_are_those_of_the_continuous_law():
    assert moments(GAUSSIAN, 1e8).mean_abs == pytest.approx(1e4 * sqrt(2 / pi), rel=1e-8)


@pytest.mark.parametrize("scale", ["1/5", "1/2", "1", "4", "50"])
def test_two_sided_geometric(scale):
    s = Fraction(scale)
    first, second = by_sums(
        lambda k: mpmath.exp(-mpmath.mpf(k) * s.denominator / s.numerator), 40 * int(s + 3)
    )
    got = moments(GEOMETRIC, GEOMETRIC.variance(s))
    assert (got.mean_abs, got.variance) == pytest.approx((first, second), rel=1e-9)


def test_a_random_unit_of_several():
    mixed = expected(GAUSSIAN, {4.0: 30, 400.0: 10})
    one, other = moments(GAUSSIAN, 4.0), moments(GAUSSIAN, 400.0)
    assert mixed.mean_abs == pytest.approx((3 * one.mean_abs + other.mean_abs) / 4)
    assert mixed.variance == pytest.approx((3 * 4 + 400) / 4)


@pytest.mark.parametrize(
    ("mechanism", "draw"), [(GAUSSIAN, discrete_gaussian), (GEOMETRIC, discrete_laplace)]
)
@pytest.mark.parametrize("scale", ["1/4", "3", "60"])
def test_samples_agree_and_a_scale_three_percent_off_does_not(mechanism, draw, scale):
    """40,000 draws have the mean absolute error to 0.4-0.9 percent; the wrong ones are 3 percent
    and more away.
    """
    n, s = 60_000, Fraction(scale)
    mae = float(np.abs(draw.sample(s, n, seeded(11))).mean())

    def z(scale_):
        m = moments(mechanism, mechanism.variance(scale_))
        return (mae - m.mean_abs) / (m.deviation_abs / sqrt(n))

    squared = 2 if mechanism is GAUSSIAN else 1  # the scale of a Gaussian is a variance
    assert abs(z(s)) < 4
    for wrong in (Fraction(97, 100), Fraction(103, 100)):
        assert abs(z(s * wrong**squared)) > 4
