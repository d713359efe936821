"""Draws in bulk: the right distribution, told apart from one whose scale is off by one per cent."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from das.errors import SpecError
from das.noise import discrete_gaussian, discrete_laplace, entropy
from tests.oracles import chi_square_p, gaussian_pmf, independent_p, laplace_pmf, tally

N = 10_000_000
# : seeds are fixed, so a right sampler passes always; a wrong scale gives far less than this
LEAST_P = 1e-4
OFF = [Fraction(99, 100), Fraction(101, 100)]
SIGMA_SQ = [
    Fraction(1, 2),
    Fraction(500, 99),
    Fraction(214437516707, 177339451520),
    Fraction(10**4),
]
SCALES = [Fraction(1, 2), Fraction(1280, 27)]
NAMES = {"ids": lambda s: f"{float(s):.4g}"}


def gaussian_p(draws: NDArray[np.int64], sigma_sq: Fraction) -> float:
    top = int(8 * sqrt(sigma_sq)) + 2
    return chi_square_p(tally(draws, top), gaussian_pmf(sigma_sq, top), len(draws))


def laplace_p(draws: NDArray[np.int64], scale: Fraction) -> float:
    top = int(25 * scale) + 5
    return chi_square_p(tally(draws, top), laplace_pmf(scale, top), len(draws))


@pytest.mark.parametrize("sigma_sq", SIGMA_SQ, **NAMES)
def test_gaussian_draws_have_their_distribution_and_no_other(sigma_sq: Fraction) -> None:
    draws = discrete_gaussian.sample(sigma_sq, N, entropy.seeded(1))
    assert draws.dtype == np.int64
    assert draws.shape == (N,)
    assert gaussian_p(draws, sigma_sq) > LEAST_P
    for factor in OFF:
        assert gaussian_p(draws, sigma_sq * factor**2) < 1e-20
        assert (
            gaussian_p(
                discrete_gaussian.sample(sigma_sq * factor**2, N // 2, entropy.seeded(2)), sigma_sq
            )
            < 1e-20
        )


@pytest.mark.parametrize("scale", SCALES, **NAMES)
def test_laplace_draws_have_their_distribution_and_no_other(scale: Fraction) -> None:
    draws = discrete_laplace.sample(scale, N, entropy.seeded(3))
    assert draws.dtype == np.int64
    assert laplace_p(draws, scale) > LEAST_P
    for factor in OFF:
        assert laplace_p(draws, scale * factor) < 1e-20
        assert (
            laplace_p(discrete_laplace.sample(scale * factor, N // 2, entropy.seeded(4)), scale)
            < 1e-20
        )


@pytest.mark.parametrize("sigma_sq", [Fraction(500, 99), Fraction(10**4)], **NAMES)
def test_tails(sigma_sq: Fraction) -> None:
    """How many draws are beyond 3, 4 and 5 sigma on each side: those that the first 16 bits leave
    open.
    """
    draws = discrete_gaussian.sample(sigma_sq, N, entropy.seeded(5))
    pmf = gaussian_pmf(sigma_sq, int(20 * sqrt(sigma_sq)))
    for width in (3, 4, 5):
        least = int(width * sqrt(sigma_sq)) + 1
        expected = N * pmf[: len(pmf) // 2 - least + 1].sum()
        for beyond in ((draws >= least).sum(), (draws <= -least).sum()):
            assert abs(beyond - expected) < 4.5 * sqrt(expected) + 1
    # The same count tells a scale that is 1 % too large.
    wide = discrete_gaussian.sample(sigma_sq * OFF[1] ** 2, N, entropy.seeded(6))
    least = int(3 * sqrt(sigma_sq)) + 1
    expected = 2 * N * pmf[: len(pmf) // 2 - least + 1].sum()
    assert (np.abs(wide) >= least).sum() > expected + 4.5 * sqrt(expected)


@pytest.mark.parametrize("sigma_sq", SIGMA_SQ, **NAMES)
def test_symmetry(sigma_sq: Fraction) -> None:
    draws = discrete_gaussian.sample(sigma_sq, N // 2, entropy.seeded(7))
    top = int(3 * sqrt(sigma_sq)) + 1
    counts = tally(draws, top).astype(float)
    right, left = counts[top + 1 :], counts[:top][::-1]
    statistic = ((right - left) ** 2 / (right + left)).sum()
    assert chi2.sf(statistic, top) > LEAST_P
    assert abs(draws.mean()) < 4.5 * sqrt(sigma_sq / len(draws))


@pytest.mark.parametrize("lag", [1, 2, 3, 8, 1 << 17])
def test_draws_do_not_depend_on_each_other(lag: int) -> None:
    draws = discrete_gaussian.sample(Fraction(500, 99), N // 4, entropy.seeded(8))
    assert independent_p(draws[:-lag], draws[lag:]) > LEAST_P
    echo = (
        draws[lag:] + (np.arange(len(draws) - lag) % 100 == 0) * draws[:-lag]
    )  # 1 in 100 echoes another
    assert independent_p(draws[:-lag], echo) < 1e-20


@pytest.mark.parametrize("sigma_sq", SIGMA_SQ, **NAMES)
def test_a_size_is_only_a_size(sigma_sq: Fraction) -> None:
    for size in (0, 1, 3, (1 << 17) + 1):
        assert discrete_gaussian.sample(sigma_sq, size, entropy.system()).shape == (size,)


def test_a_seed_repeats_and_another_does_not() -> None:
    def draw(seed: int) -> list[int]:
        return discrete_gaussian.sample(Fraction(100), 200_000, entropy.seeded(seed)).tolist()

    assert draw(1) == draw(1) != draw(2)


def test_system_draws_never_repeat() -> None:
    a, b = (discrete_gaussian.sample(Fraction(100), 1000, entropy.system()) for _ in range(2))
    assert (a != b).sum() > 900


@pytest.mark.parametrize("sigma_sq", [Fraction(1, 100), Fraction(1, 10**6), Fraction(1, 10**400)])
def test_almost_no_noise(sigma_sq: Fraction) -> None:
    assert not discrete_gaussian.sample(sigma_sq, 10**6, entropy.seeded(9)).any()


def test_very_much_noise() -> None:
    sigma_sq = discrete_gaussian.LARGEST
    draws = discrete_gaussian.sample(sigma_sq, N // 10, entropy.seeded(10))
    spread = float((draws.astype(float) ** 2).mean() / sigma_sq)
    assert abs(spread - 1) < 4.5 * sqrt(2 / len(draws))


# --- what is refused
# -----------------------------------------------------------------------------------------

SAMPLERS = [discrete_gaussian.sample, discrete_laplace.sample]
Sampler = Callable[[Any, int, entropy.Entropy], NDArray[np.int64]]


@pytest.mark.parametrize("sample", SAMPLERS)
@pytest.mark.parametrize(
    "parameter", [1.0, 0.5, 1, "1/2", np.float64(2), np.int64(2), Decimal("0.5"), None]
)
def test_what_is_not_a_fraction_is_refused(sample: Sampler, parameter: object) -> None:
    with pytest.raises(TypeError, match=f"must be a Fraction, not {type(parameter).__name__}"):
        sample(parameter, 1, entropy.seeded(1))


@pytest.mark.parametrize("sample", SAMPLERS)
@pytest.mark.parametrize("parameter", [Fraction(0), Fraction(-1, 2)])
def test_what_is_not_positive_is_refused(sample: Sampler, parameter: Fraction) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        sample(parameter, 1, entropy.seeded(1))


@pytest.mark.parametrize("module", [discrete_gaussian, discrete_laplace])
def test_noise_beyond_reason_is_refused_with_a_remedy(module: Any) -> None:
    """Only where a draw might not fit its 64 bits; what is merely beyond the tables is drawn
    without them.
    """
    with pytest.raises(SpecError, match="larger share"):
        module.sample(Fraction(2**101), 1, entropy.seeded(1))
    assert module.sample(Fraction(2**50), 3, entropy.seeded(1)).shape == (3,)
