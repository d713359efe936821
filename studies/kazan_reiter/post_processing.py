r"""The intruder who sees post-processed counts only (Kazan and Reiter 2022, supplement S6).

The illustration of the paper: the upper count :math:`\tilde x_2` is published and fixed; the lower
counts are the noisy ones, shifted equally to add up to it,

.. math:: \bar x_1 = \frac{d x_1^* + \tilde x_2 - y_1^*}{d + 1},

cut to :math:`[0, \tilde x_2]` and rounded (ties to even). The intruder knows :math:`x_2`, sees
:math:`\tilde x_1, \tilde x_2`, and inverts the whole procedure (S6.2 to S6.8).

What post-processing does in a real run has no closed form. :func:`learned` takes the published
counts of many runs under both hypotheses and lets an intruder learn from half of them what the
other half tells.

The average posterior of the truth is :math:`\sum_j p f_1(j)^2 / (p f_1(j) + (1-p) f_0(j))`, jointly
convex and homogeneous in the two laws :math:`f_1, f_0` of what he sees: no function of the noisy
counts can make it larger than they do themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.budget import Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.risk.recursion import NEAR, Floats, Ints, Noise, Number, rates

UNBOUNDED = Neighbours.UNBOUNDED


def published_law(
    upper: int, x1: int, *, x2: int, rho1: Number, d: int, neighbours: Neighbours = UNBOUNDED
) -> Floats:
    """``P[published = j | X1 = x1, upper]`` for j = 0..upper, where X2 = ``x2``: equation
    (S6.6).
    """
    if upper < 0 or d < 1 or x2 < x1:
        raise InputError(
            f"an upper count of {upper}, {d} other units, and {x2} of which {x1} in one",
            where="risk",
        )
    rate = float(rates(rho1, None, neighbours)[1])
    z, p = Noise(DISCRETE_GAUSSIAN, rate).pmf(NEAR)
    zy, py = Noise(DISCRETE_GAUSSIAN, rate / d).pmf(NEAR)
    mean = (d * (x1 + z)[:, None] + upper - (x2 - x1 + zy)) / (d + 1)
    out = np.clip(np.rint(mean), 0, upper).astype(np.int64)
    return np.bincount(
        out.ravel(), weights=np.multiply.outer(p, py).ravel(), minlength=upper + 1
    ).astype(float)


def published_posterior(
    upper: int,
    *,
    rho1: Number,
    d: int,
    prior: Number,
    known: int = 0,
    x2: int = 1,
    neighbours: Neighbours = UNBOUNDED,
) -> Floats:
    """``P[X1 = known + 1 | published = j, upper]`` for j = 0..upper: equation (S6.7); the prior
    where j never occurs.
    """
    here, gone = _laws(upper, rho1, d, known, x2, neighbours)
    p = float(prior)
    both = p * here + (1 - p) * gone
    return np.where(both > 0, p * here / np.where(both > 0, both, 1), p)


def published_marginal(
    upper: int,
    *,
    rho1: Number,
    d: int,
    prior: Number,
    known: int = 0,
    x2: int = 1,
    neighbours: Neighbours = UNBOUNDED,
) -> float:
    """Its average when the target is there: equation (S6.8)."""
    after = published_posterior(
        upper, rho1=rho1, d=d, prior=prior, known=known, x2=x2, neighbours=neighbours
    )
    return float(_laws(upper, rho1, d, known, x2, neighbours)[0] @ after)


def _laws(
    upper: int, rho1: Number, d: int, known: int, x2: int, neighbours: Neighbours
) -> tuple[Floats, Floats]:
    here, gone = (
        published_law(upper, x1, x2=x2, rho1=rho1, d=d, neighbours=neighbours)
        for x1 in (known + 1, known)
    )
    return here, gone


@dataclass(frozen=True)
class Learned:
    """``marginal``: the average posterior of the truth where the target is there; ``correct``: how
    often 0-1 loss is right, weighted by the prior; each with its standard error."""

    marginal: float
    marginal_error: float
    correct: float
    correct_error: float


def learned(here: Ints, gone: Ints, prior: float) -> Learned:
    """From what was published in many runs with the target (``here``) and without (``gone``).

    Both have shape ``(runs, counts)``. The intruder takes the share of each outcome in one half of
    the runs for its probability (1/2 added to each), and meets the other half; then the halves
    change places. He is thus one who could be, and cannot be right more often than the best."""
    if here.ndim != 2 or here.shape[1:] != gone.shape[1:] or min(len(here), len(gone)) < 4:
        raise InputError(
            "published counts are (runs, counts), with four runs or more of each kind", where="risk"
        )
    _, code = np.unique(np.concatenate([here, gone]), axis=0, return_inverse=True)
    code = code.ravel()
    kinds = [code[: len(here)], code[len(here) :]]
    size = int(code.max()) + 1
    after: list[list[NDArray[np.float64]]] = [[], []]
    for half in (0, 1):
        laws = [
            (np.bincount(k[half::2], minlength=size) + 0.5) / (len(k[half::2]) + size / 2)
            for k in kinds
        ]
        posterior = prior * laws[0] / (prior * laws[0] + (1 - prior) * laws[1])
        for out, k in zip(after, kinds, strict=True):
            out.append(posterior[k[1 - half :: 2]])
    present, absent = (np.concatenate(a) for a in after)
    right, rejected = present > 0.5, absent <= 0.5
    correct = prior * right.mean() + (1 - prior) * rejected.mean()
    error = np.hypot(prior * _error(right), (1 - prior) * _error(rejected))
    return Learned(float(present.mean()), _error(present), float(correct), float(error))


def _error(values: NDArray[np.bool_] | Floats) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
