r"""The Bureau's method of 2020 for noisy answers: means and quantiles of truncated normal
distributions, for each region and iteration by itself.

*Counts.* The count Y has a flat prior on :math:`Y \ge 0`, and the measurement Z is normal. The mean
is :math:`Z + \sigma\varphi(a)/(1 - \Phi(a))`, :math:`a = -Z/\sigma`. Sums have the sums of rounded
means, and quantiles of sums of draws. *Ratios.* Numerators and denominator have a flat prior on a
cone, :math:`l D \le \sum N \le 10 D`, :math:`N \ge 0`, :math:`D \ge 1`. The mean of the ratio and
its quantiles come from draws of a Gibbs sampler, many problems in parallel.

It is here for comparison: it publishes a true 0 as 0.9 sigma on average, and no interval contains
it. Draws follow from the measurements by a fixed seed, so that they can be repeated. They are not
noise of the release: no privacy depends on them.

Source: ``SDHC_Model_Based_Estimates`` (R) of the production code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

Array = NDArray[np.float64]
SEED = 777
QUANTILES = (0.05, 0.95)
#: The largest average that the model allows.
MOST = 10
DRAWS, CHAINS, BURN = 10_000, 200, 50


def means(z: Array, sigma: Array) -> Array:
    """The means of counts that are not negative, not rounded."""
    a = -z / sigma
    out: Array = z + sigma * np.exp(-a * a / 2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-a))
    return out


def above(z: Array, sigma: Array, log_tail: Array, least: Array | float = 0.0) -> Array:
    """The value that such a count exceeds with probability exp(``log_tail``)."""
    out: Array = z - sigma * ndtri_exp(log_tail + log_ndtr((z - least) / sigma))
    return np.maximum(out, least)


def quantiles(z: Array, sigma: Array) -> tuple[Array, Array]:
    """The quantiles of single counts, exactly."""
    low, high = (above(z, sigma, np.full(z.shape, np.log1p(-q))) for q in QUANTILES)
    return low, high


def sum_quantiles(z: Array, sigma: Array) -> tuple[Array, Array]:
    """The quantiles of sums of counts along the last axis ``(..., cells)``, from draws."""
    rng = np.random.default_rng(SEED)
    total = np.zeros((DRAWS, *z.shape[:-1]))
    for c in range(z.shape[-1]):
        tail = np.log1p(-rng.random((DRAWS, *z.shape[:-1])))
        total += above(z[..., c], np.broadcast_to(sigma[..., c], z.shape[:-1]), tail)
    low, high = np.quantile(total, QUANTILES, axis=0)
    return low, high


def _between(rng: np.random.Generator, mean: Array, sigma: Array, low: Array, high: Array) -> Array:
    """A draw of the normal law between two values, in the tail that is farther from its middle."""
    flip = mean < low  # then all of it is an upper tail
    a, b = np.where(flip, mean - high, low - mean), np.where(flip, mean - low, high - mean)
    left, right = log_ndtr(a / sigma), log_ndtr(b / sigma)
    u = rng.random(mean.shape)
    part = left + np.log1p(u * np.expm1(np.clip(right - left, 0.0, 700.0)))
    far = right - left > 700  # expm1 would overflow: the left end does not matter
    part = np.where(far, right + np.log(u), part)
    x = ndtri_exp(np.minimum(part, -1e-300)) * sigma
    return np.clip(np.where(flip, mean - x, mean + x), low, high)


def ratio_draws(
    n: Array, d: Array, sigma_n: Array, sigma_d: Array, least: float
) -> tuple[Array, Array]:
    """Draws of numerators ``(draws, problems, parts)`` and denominators ``(draws, problems)``, of
    measured ``n`` ``(problems, parts)`` and ``d`` ``(problems,)`` with as many standard deviations.
    ``least`` is l."""
    rng, parts = np.random.default_rng(SEED), n.shape[1]
    mean_n = np.repeat(n[None], CHAINS, axis=0)
    mean_d = np.repeat(d[None], CHAINS, axis=0)
    now_d = np.maximum(mean_d, 1.0)
    total = np.clip(np.maximum(mean_n, 0).sum(axis=2), least * now_d, MOST * now_d)
    now_n = np.repeat(total[..., None] / parts, parts, axis=2)
    kept_n, kept_d = [], []
    for sweep in range(BURN + DRAWS // CHAINS):
        for p in range(parts):
            others = now_n.sum(axis=2) - now_n[..., p]
            low = np.maximum(0.0, least * now_d - others)
            now_n[..., p] = _between(
                rng, mean_n[..., p], sigma_n[:, p], low, np.maximum(low, MOST * now_d - others)
            )
        total = now_n.sum(axis=2)
        low = np.maximum(1.0, total / MOST)
        now_d = _between(rng, mean_d, sigma_d, low, np.maximum(low, total / least))
        if sweep >= BURN:
            kept_n.append(now_n.copy())
            kept_d.append(now_d.copy())
    return np.concatenate(kept_n), np.concatenate(kept_d)
