"""The model of 2020: its bias and coverage as tabulated, and its draws against rejection."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from das.publications.sdhc import modelled as model


@pytest.mark.parametrize(
    ("true", "bias", "inside"),
    [(0.0, 0.903, 0.0), (0.5, 0.632, 0.925), (1.0, 0.415, 0.945), (3.0, 0.034, 0.905)],
)
def test_small_counts_are_published_too_large(true: float, bias: float, inside: float) -> None:
    """With a sigma of 1,000, at quantiles of the noise."""
    sigma = np.full(20_000, 1000.0)
    z = 1000 * (true + ndtri((np.arange(20_000) + 0.5) / 20_000))
    assert (model.means(z, sigma).mean() / 1000 - true) == pytest.approx(bias, abs=0.002)
    low, high = model.quantiles(z, sigma)
    assert ((low <= 1000 * true) & (1000 * true <= high)).mean() == pytest.approx(inside, abs=0.005)


def test_sums_have_the_quantiles_of_draws() -> None:
    z, sigma = np.array([[30.0, -20.0, 5.0]]), np.array([12.0, 12.0, 12.0])
    rng = np.random.default_rng(1)
    drawn = rng.normal(z[0], sigma, (400_000, 3))
    total = drawn[(drawn >= 0).all(axis=1)].sum(axis=1)
    wanted = np.quantile(total, (0.05, 0.95))
    low, high = model.sum_quantiles(z, sigma)
    assert [low[0], high[0]] == pytest.approx(wanted, abs=0.8)


@pytest.mark.parametrize(
    ("n", "d"), [((60.0, 150.0), 90.0), ((-30.0, 20.0), 40.0), ((900.0, 2000.0), 100.0)]
)
def test_ratios_are_drawn_from_the_cone(n: tuple[float, float], d: float) -> None:
    """As by rejection, with two problems at once."""
    sigma, least = 40.0, 1.0
    both = np.array([n, n])
    drawn_n, drawn_d = model.ratio_draws(
        both, np.array([d, d]), np.full((2, 2), sigma), np.full(2, sigma), least
    )
    total = drawn_n.sum(axis=2)
    assert (drawn_n >= 0).all()
    assert (drawn_d >= 1 - 1e-9).all()
    assert (total >= least * drawn_d - 1e-6).all()
    assert (total <= 10 * drawn_d + 1e-6).all()
    rng = np.random.default_rng(2)
    x = rng.normal([*n, d], sigma, (3_000_000, 3))
    s = x[:, 0] + x[:, 1]
    kept = x[(x >= [0, 0, 1]).all(axis=1) & (s >= least * x[:, 2]) & (s <= 10 * x[:, 2])]
    if len(kept) < 500:
        return
    wanted = np.median((kept[:, 0] + kept[:, 1]) / kept[:, 2])
    assert np.median(total / drawn_d) == pytest.approx(wanted, rel=0.06)
