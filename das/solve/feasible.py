"""Answers that sum to the parent and lie within the bounds, by scaling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.solve.dual_problem import DualProblem

Array = NDArray[np.float64]

FEASIBLE = (
    1e-3  #: the largest violation of a bound by an answer that passes for feasible, in persons
)
_LEAST = 1e-3  # a sum is scaled by this factor at most, or its inverse
_ROUNDS = 5


def repaired(p: DualProblem, x: Array, rounds: int = 0) -> Array:
    """``x`` >= 0 with each cell scaled to the parent exactly, after some rounds of scaling into the
    bounds.
    """
    x = _summed(p, x)
    low, high = (np.nan_to_num(b, posinf=np.inf, neginf=-np.inf) for b in p.bounds())
    groups = p.rows.rows[p.measured :]
    if not groups.shape[0]:
        return x
    back = groups.T.tocsr()
    overlap = np.maximum(np.asarray(groups.sum(axis=0)), 1.0)[:, None]
    for _ in range(rounds):
        sums = groups @ x
        within = np.clip(sums, np.maximum(low, 0.0), high)
        factor = np.divide(within, sums, out=np.ones_like(sums), where=sums > 0)
        x = _summed(p, x * np.exp((back @ np.log(np.clip(factor, _LEAST, 1 / _LEAST))) / overlap))
    return x


def started(p: DualProblem) -> Array:
    """Where to start: what the parent, or else the measurements, give each child evenly, scaled
    into the bounds.
    """
    if p.parent is None:
        x = np.where(p.able, np.maximum(p.rhs, 0.0) / (p.curvature + p.queries.T @ p.weight), 0.0)
        return repaired(p, x + 1e-3 * p.able, _ROUNDS)
    return repaired(p, p.able.astype(float), _ROUNDS)


def _summed(p: DualProblem, x: Array) -> Array:
    if p.parent is None:
        return x
    total = x.sum(axis=1)
    lost = (total <= 0) & (p.parent > 0)
    if lost.any():
        x = np.where(lost[:, None], p.able, x)
        total = x.sum(axis=1)
    return x * np.divide(p.parent, total, out=np.zeros_like(total), where=total > 0)[:, None]
