r"""The intruder who sees the same bit in several published counts (Kazan and Reiter 2022,
supplement S1.3 and S5).

Each count :math:`X_i^*` is :math:`k_i` or :math:`k_i + 1` plus independent noise of rate
:math:`r_i`. Three attacks have this form:

* the target is known to be unique at several levels, so every level's count depends on the same bit
  (S1.3);
* several releases come from the same records (S5): each starts from the posterior of the one
  before, and the product of their risks telescopes to the risk of all;
* an attribute is unknown, and the intruder looks at *both* cells that can contain the target. The
  other cell's count has :math:`k' + 1` or :math:`k'` in reverse, and by symmetry carries the same
  information. Two counts of cost :math:`\rho` are what the bounded neighbor relation charges
  :math:`\rho` for when each has :math:`\sigma^2 = 1/\rho`.

The evidence :math:`\Lambda = \operatorname{logit} p + \sum_i r_i (2 u_i - 1)` adds up. Its average
over what may be published is an :math:`\ell`-fold sum. We evaluate it through

.. math:: \operatorname{expit}(x) = \tfrac12 + \tfrac12 \tanh(x/2), \qquad
          \tanh(x) = \int_0^\infty \frac{\sin(\omega x)}{\sinh(\pi\omega/2)} d\omega,

so that, the noise being independent, with :math:`\varphi_i(\omega) = E[e^{i\omega r_i(2u_i - 1)}]`

.. math:: E[\operatorname{expit}\Lambda] = \tfrac12 + \tfrac12 \int_0^\infty \operatorname{Im}\Big(
          e^{i\omega \operatorname{logit}(p)/2} \prod_i \varphi_i(\omega/2)\Big)
          \frac{d\omega}{\sinh(\pi\omega/2)} .

*Error.* The midpoint rule with step :math:`h` replaces tanh by its antiperiodic sum of period
:math:`2\pi/h`: where :math:`|\Lambda/2| \le M` that is off by less than :math:`5 e^{-2(2\pi/h -
M)}`; h is chosen to make it below 1e-15. The integral beyond :math:`\Omega` is below :math:`2
e^{-\pi\Omega/2}`: below 1e-14 at :math:`\Omega = 22`. Noise beyond :data:`das.risk.recursion.NEAR` adds
at most 1e-15 a count. All together below 1e-12."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from das.errors import InputError
from das.model.budget import Neighbours
from das.model.mechanisms import Mechanism
from das.risk.recursion import (
    NEAR,
    TIE,
    Floats,
    Noise,
    Number,
    Numbers,
    evidence,
    floats,
    log_odds,
    rates,
)

_OMEGA = 22.0
_MOST_ATOMS = 1 << 23
_MOST_TERMS = 1 << 25  # of the average over releases


def joint_posterior(
    x: Numbers,
    *,
    prior: Numbers,
    rho: Sequence[Number] | None = None,
    epsilon: Sequence[Number] | None = None,
    known: Numbers = 0,
    neighbours: Neighbours = Neighbours.UNBOUNDED,
) -> Floats:
    """``P[X = known + 1 | x]`` for counts ``x`` of shape ``(..., counts)`` with one cost each:
    equation (S1.1).

    ``known`` may differ by count (shape ``(counts,)``)."""
    mechanism, rate = _costs(rho, epsilon, neighbours)
    above = floats(x) - floats(known)
    if above.shape[-1:] != rate.shape:
        raise InputError(f"{above.shape[-1:]} counts and {len(rate)} costs", where="risk")
    return expit(log_odds(prior) + evidence(above, mechanism, rate).sum(axis=-1))[()]


def joint_marginal_posterior(
    *,
    prior: Numbers,
    rho: Sequence[Number] | None = None,
    epsilon: Sequence[Number] | None = None,
    neighbours: Neighbours = Neighbours.UNBOUNDED,
) -> Floats:
    """The posterior of the truth, averaged over all that may be published. ``prior`` may be an
    array.

    >>> one = joint_marginal_posterior(rho=[0.1], prior=0.5)
    >>> bool(one < joint_marginal_posterior(rho=[0.1, 0.25], prior=0.5))
    True"""
    atoms = _atoms(*_costs(rho, epsilon, neighbours))
    odds = log_odds(prior)
    finite = np.where(np.isfinite(odds), odds, 0.0)
    largest = (np.abs(finite).max() + sum(np.abs(said).max() for said, _ in atoms)) / 2
    h = 2 * np.pi / (largest + 20)
    if _OMEGA / h * max(len(said) for said, _ in atoms) > _MOST_TERMS:
        raise InputError(
            "noise as wide, or counts as sure, as these are not averaged",
            where="risk",
            remedy="the first say next to nothing, the second everything: leave them out",
        )
    omega = (np.arange(int(_OMEGA / h) + 1) + 0.5) * h
    phi = np.ones(len(omega), dtype=np.complex128)
    for said, p in atoms:
        phi *= np.exp(0.5j * omega[:, None] * said) @ p
    rotated = np.exp(0.5j * finite[..., None] * omega) * phi
    average = 0.5 + 0.5 * h * (rotated.imag / np.sinh(np.pi * omega / 2)).sum(axis=-1)
    return np.where(np.isfinite(odds), average, floats(prior))[()]


def joint_decision_probability(
    *,
    prior: Number,
    rho: Sequence[Number] | None = None,
    epsilon: Sequence[Number] | None = None,
    neighbours: Neighbours = Neighbours.UNBOUNDED,
) -> float:
    """How often 0-1 loss decides for the truth ``known + 1``.

    The counts are split into two halves; the evidence of each half is enumerated, one half sorted,
    and every value of the other meets its threshold in it: exact, for six counts in a fraction of a
    second."""
    atoms = _atoms(*_costs(rho, epsilon, neighbours))
    (first, p), (second, q) = _sum(atoms[::2]), _sum(atoms[1::2])
    order = np.argsort(second)
    above = np.append(np.cumsum(q[order][::-1])[::-1], 0.0)
    threshold: Floats = TIE - float(log_odds(prior)) - first
    at = np.searchsorted(second[order], threshold, side="right")
    return float(p @ above[at])


def _costs(
    rho: Sequence[Number] | None, epsilon: Sequence[Number] | None, neighbours: Neighbours
) -> tuple[Mechanism, Floats]:
    mechanism, rate = rates(rho, epsilon, neighbours)
    if rate.ndim != 1 or not len(rate):
        raise InputError("give a list of costs, one for each published count", where="risk")
    return mechanism, rate


def _atoms(mechanism: Mechanism, rate: Floats) -> list[tuple[Floats, Floats]]:
    """For each count the values of its evidence, and their probabilities when the target is
    there."""
    out = []
    for r in rate:
        noise = Noise(mechanism, float(r))
        z, p = noise.pmf(NEAR)
        values, at = np.unique(evidence(1 + z, noise.mechanism, noise.rate), return_inverse=True)
        out.append((values, np.bincount(at, weights=p).astype(np.float64)))
    return out


def _sum(atoms: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, NDArray[np.float64]]:
    total, weight = np.zeros(1), np.ones(1)
    for said, p in atoms:
        if len(total) * len(said) > _MOST_ATOMS:
            raise InputError(
                "too many counts with too wide a noise to enumerate",
                where="risk",
                remedy="leave out those with the least cost: they say the least",
            )
        total, weight = np.add.outer(total, said).ravel(), np.multiply.outer(weight, p).ravel()
    return total, weight
