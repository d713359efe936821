"""The plan as a table: cost, scale and margin of error of each draw."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, log

from scipy.special import ndtri

from das.model.budget import Draw, Mechanism, Plan


@dataclass(frozen=True)
class PlanRow:
    """One draw. ``margin`` is the smallest integer m with P[|noise| <= m] >= 0.95 for one answer."""

    level: str
    query: str
    cost: Fraction
    scale: Fraction
    margin: int


def table(plan: Plan) -> list[PlanRow]:
    """Every draw of the plan, root first."""
    return [PlanRow(d.level, d.query, d.cost, d.scale, margin(plan.mechanism, d)) for d in plan.draws]


def margin(mechanism: Mechanism, draw: Draw, coverage: float = 0.95) -> int:
    """The smallest m with P[|X| <= m] >= ``coverage``.

    Discrete Gaussian: summed term by term (beyond a variance of 10^6 the continuous quantile, rounded up: the
    two agree there to less than one). Geometric: P[|X| > m] = 2 q^(m+1) / (1 + q).
    """
    if mechanism is Mechanism.GEOMETRIC:
        q = exp(-1 / float(max(draw.scale, Fraction(1, 500))))
        return max(0, ceil(log((1 - coverage) * (1 + q) / 2) / log(q) - 1 - 1e-12))
    s = float(max(draw.scale, Fraction(1, 1000)))
    if s > 1e6:
        return ceil(float(ndtri((1 + coverage) / 2)) * s**0.5)
    weights = [exp(-k * k / (2 * s)) for k in range(int(10 * s**0.5) + 10)]
    whole = weights[0] + 2 * sum(weights[1:])
    held, m = weights[0], 0
    while held < coverage * whole:
        m += 1
        held += 2 * weights[m]
    return m
