"""The samplers by rejection: their distributions, told apart from others, and where they take over
from the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import exp, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, chi2

from das.noise import discrete_gaussian, discrete_laplace, rejection
from das.noise.entropy import Entropy, seeded, system
from tests.oracles import chi_square_p, gaussian_pmf, laplace_pmf, tally

N = 40_000
WRONG = N // 2  #: so few draws of a law whose parameter is a tenth off are told apart
LEAST_P = 1e-4  #: seeds are fixed, so a right sampler passes always


def draws(
    sample: Callable[[Fraction, Entropy], int], parameter: Fraction, seed: int, n: int = N
) -> NDArray[np.int64]:
    source = seeded(seed)
    return np.array([sample(parameter, source) for _ in range(n)], dtype=np.int64)


def gaussian_p(x: NDArray[np.int64], sigma_sq: Fraction) -> float:
    top = int(8 * sqrt(sigma_sq)) + 2
    return chi_square_p(tally(x, top), gaussian_pmf(sigma_sq, top), len(x))


def laplace_p(x: NDArray[np.int64], scale: Fraction) -> float:
    top = int(25 * scale) + 5
    return chi_square_p(tally(x, top), laplace_pmf(scale, top), len(x))


class Scripted(Entropy):
    """Gives the bytes that it was made with, and no others."""

    name, private = "scripted", False

    def __init__(self, content: bytes) -> None:
        self.content, self.given = content, 0

    def bytes(self, n: int) -> bytes:
        self.given += n
        assert self.given <= len(self.content), "asked for more than is scripted"
        return self.content[self.given - n : self.given]


# --- its parts
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64, 255, 256, 257, 1000])
def test_uniform_integers(n: int) -> None:
    source = seeded(n)
    counts = np.bincount([rejection.uniform(n, source) for _ in range(20 * n + 5000)], minlength=n)
    assert len(counts) == n
    mean = counts.sum() / n
    assert n == 1 or chi2.sf(((counts - mean) ** 2 / mean).sum(), n - 1) > LEAST_P


def test_uniform_integers_use_the_bits_that_they_need_and_reject_the_rest() -> None:
    """Below 5 three bits are needed: 7, 6 and 5 are drawn again, 4 is kept. Below 1 there is
    nothing to draw.
    """
    source = Scripted(bytes(x << 5 for x in (7, 6, 5, 4, 0)))
    assert rejection.uniform(5, source) == 4
    assert source.given == 4
    assert rejection.uniform(5, source) == 0
    assert rejection.uniform(1, Scripted(b"")) == 0
    assert rejection.uniform(1 << 16, Scripted(b"\x01\x02")) == 0x0201
    with pytest.raises(ValueError, match="no integer"):
        rejection.uniform(0, source)


@pytest.mark.parametrize(
    "gamma",
    [
        Fraction(0),
        Fraction(1, 10**30),
        Fraction(1, 7),
        Fraction(1),
        Fraction(17, 10),
        Fraction(4),
        Fraction(10**20, 10**20 - 1),
    ],
)
def test_bernoulli_of_an_exponential(gamma: Fraction) -> None:
    source = seeded(11)
    successes = sum(rejection.bernoulli_exp(gamma, source) for _ in range(N))
    assert binomtest(successes, N, min(1.0, exp(-gamma))).pvalue > LEAST_P
    if 0 < gamma < 10 and gamma > Fraction(1, 100):
        for factor in (0.9, 1.1):
            assert binomtest(successes, N, exp(-gamma * factor)).pvalue < LEAST_P


# --- the distributions
# ---------------------------------------------------------------------------------------

SIGMA_SQ = [
    Fraction(1, 100),
    Fraction(1, 2),
    Fraction(1),
    Fraction(500, 99),
    Fraction(214437516707, 177339451520),
    Fraction(100),
]
SCALES = [Fraction(1, 3), Fraction(1), Fraction(3, 2), Fraction(7, 5), Fraction(1280, 27)]
NAMES: dict[str, Any] = {"ids": lambda s: f"{float(s):.4g}"}


@pytest.mark.parametrize("sigma_sq", SIGMA_SQ, **NAMES)
def test_gaussian_draws_have_their_distribution_and_no_other(sigma_sq: Fraction) -> None:
    x = draws(rejection.discrete_gaussian, sigma_sq, 1)
    assert gaussian_p(x, sigma_sq) > LEAST_P
    if sigma_sq >= Fraction(1, 2):
        for factor in (Fraction(9, 10), Fraction(11, 10)):
            assert gaussian_p(x, sigma_sq * factor) < 1e-6
            assert (
                gaussian_p(
                    draws(rejection.discrete_gaussian, sigma_sq * factor, 2, WRONG), sigma_sq
                )
                < 1e-6
            )


@pytest.mark.parametrize("scale", SCALES, **NAMES)
def test_laplace_draws_have_their_distribution_and_no_other(scale: Fraction) -> None:
    x = draws(rejection.discrete_laplace, scale, 3)
    assert laplace_p(x, scale) > LEAST_P
    for factor in (Fraction(9, 10), Fraction(11, 10)):
        assert laplace_p(x, scale * factor) < 1e-6
        assert laplace_p(draws(rejection.discrete_laplace, scale * factor, 4, WRONG), scale) < 1e-6


def test_draws_do_not_depend_on_each_other() -> None:
    x = draws(rejection.discrete_gaussian, Fraction(100), 5).astype(float)
    for lag in (1, 2):
        assert abs(np.corrcoef(x[lag:], x[:-lag])[0, 1]) < 4.5 / sqrt(N)
    assert abs(np.corrcoef(x[1:] + 0.1 * x[:-1], x[:-1])[0, 1]) > 4.5 / sqrt(N)


# --- where they take over
# ------------------------------------------------------------------------------------


def moments_fit(x: NDArray[np.int64], variance: float, kurtosis: float) -> bool:
    """Mean, variance and fourth moment within 4.5 of their standard deviations (those of a normal
    or Laplace sample).
    """
    z = x / sqrt(variance)
    spread = sqrt((kurtosis - 1) / len(x))
    fourth = {3: sqrt(96 / len(x)), 6: sqrt((2520 - 36) / len(x))}[
        int(kurtosis)
    ]  # sd of z^4: E z^8 - (E z^4)^2
    return bool(
        abs(z.mean()) < 4.5 / sqrt(len(x))
        and abs((z**2).mean() - 1) < 4.5 * spread
        and abs((z**4).mean() - kurtosis) < 4.5 * fourth
    )


def test_a_variance_of_ten_to_the_fourteen() -> None:
    sigma_sq = Fraction(10**14)
    x = discrete_gaussian.sample(sigma_sq, N, seeded(6))
    assert x.dtype == np.int64
    assert moments_fit(x, 1e14, 3)
    assert not moments_fit(x, 1.1e14, 3)
    assert not moments_fit(x, 0.9e14, 3)
    assert len(np.unique(x)) > 0.99 * N  # 10^7 values are likely
    assert abs((x % 2 == 0).mean() - 0.5) < 2.5 / sqrt(N)  # the lowest bit is noise too


def test_a_scale_of_ten_to_the_nine() -> None:
    x = discrete_laplace.sample(Fraction(10**9), N, seeded(7))
    assert x.dtype == np.int64
    assert moments_fit(x, 2e18, 6)
    assert not moments_fit(x, 2.4e18, 6)


@pytest.mark.parametrize(
    "module, name",
    [(discrete_gaussian, "discrete_gaussian"), (discrete_laplace, "discrete_laplace")],
)
def test_the_tables_end_where_they_no_longer_pay(
    module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Fraction] = []

    def recorded(parameter: Fraction, entropy: Entropy) -> int:
        asked.append(parameter)
        return 7

    monkeypatch.setattr(rejection, name, recorded)
    beyond = module.LARGEST + Fraction(1, 10)
    assert module.sample(beyond, 3, system()).tolist() == [7, 7, 7]
    assert asked == [beyond] * 3
    module._sampler.cache_clear()
    assert len(module.sample(module.LARGEST, 3, system())) == 3
    assert len(asked) == 3
    assert module._sampler(module.LARGEST)._lo.nbytes < 5_000_000
    module._sampler.cache_clear()


def test_beyond_the_tables_a_seed_repeats_and_the_system_does_not() -> None:
    for module in (discrete_gaussian, discrete_laplace):
        huge = module.LARGEST * 3
        a, b = (module.sample(huge, 50, seeded(1)).tolist() for _ in range(2))
        assert a == b != module.sample(huge, 50, seeded(2)).tolist()
        assert (
            module.sample(huge, 50, system()).tolist() != module.sample(huge, 50, system()).tolist()
        )
        assert module.sample(huge, 0, system()).shape == (0,)


# --- what is refused
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sample", [rejection.discrete_gaussian, rejection.discrete_laplace, rejection.bernoulli_exp]
)
@pytest.mark.parametrize("parameter", [1.0, 1e15, 1, "1/2", np.float64(2), None])
def test_what_is_not_a_fraction_is_refused(sample: Callable[..., int], parameter: object) -> None:
    with pytest.raises(TypeError, match=f"must be a Fraction, not {type(parameter).__name__}"):
        sample(parameter, seeded(1))


@pytest.mark.parametrize("sample", [rejection.discrete_gaussian, rejection.discrete_laplace])
def test_what_is_not_positive_is_refused(sample: Callable[..., int]) -> None:
    for parameter in (Fraction(0), Fraction(-1, 2)):
        with pytest.raises(ValueError, match="must be positive"):
            sample(parameter, seeded(1))
    with pytest.raises(ValueError, match="no probability"):
        rejection.bernoulli_exp(Fraction(-1, 2), seeded(1))
