"""The search for the best allocation: cheap steps first, steps of second order where these stall,
and the end made to meet limits.

What is searched for, and how it is proved, is in :mod:`das.design.problem`; the steps are in
:mod:`das.design.newton` and :mod:`das.design.newton`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

from das.design import newton
from das.design import newton as multiplicative
from das.design.model import LevelQuery
from das.design.problem import MET, CertifiedAllocation, Incumbent, Problem
from das.errors import SpecError

#: What is as good as an unlimited budget, as a multiple of the present one.
_PLENTY = 1e4
#: What the multipliers sum to where limits look as if nothing met them.
_DEAR = 1e2


def optimise(
    problem: Problem,
    gap: float = 1e-3,
    steps: int = 2000,
    progress: Callable[[CertifiedAllocation], None] | None = None,
) -> CertifiedAllocation:
    """Optimize to a certified relative gap of ``gap``, or for ``steps`` steps; the result has its
    gap. ``progress`` is called at every step, and within long ones.

    Raises:
        SpecError: nothing that is drawn tells some cells apart, or no allocation of this total
            meets the limits.
    """
    if problem.least and problem.held.any():
        _check_held(problem)
    incumbent = Incumbent(problem, progress)
    multiplicative.multiplicative_steps(
        problem, incumbent, gap, steps if problem.loss is None else 1
    )
    if not incumbent.done(gap) and not problem.held.all():
        newton.steps(
            problem, incumbent, gap, steps - incumbent.looks, np.inf if problem.least else _DEAR
        )
    if incumbent.best.over > MET and not problem.least:
        _check_possible(problem, steps)
        newton.steps(problem, incumbent, gap, steps - incumbent.looks)
    best = incumbent.best
    if problem.least:
        best = min(
            _scaled(problem, best), _scaled(problem, incumbent.nearest), key=lambda c: c.rank
        )
    else:
        best = _between(problem, best)
    start = problem.start
    f = problem.variances(start)
    if problem.exceeded(start, f) <= 0 and problem.value(start, f) < best.value:
        best = replace(best, rho=start, variances=f, value=problem.value(start, f), over=0.0)
    return _priced(problem, replace(best, variances=problem.variances(best.rho)))


def _priced(problem: Problem, allocation: CertifiedAllocation) -> CertifiedAllocation:
    """Where some of the allocation is kept, prices are shares of the free part: the kept part buys
    precision without being shared out.
    """
    measurements, some = problem.model.measurements, np.flatnonzero(allocation.price > 0)
    if not problem.kept.any() or not len(some):
        return allocation
    one = np.eye(len(allocation.price))[some]
    _, rows = problem.model.gradients(measurements.precision(allocation.rho), one, lambda: None)
    worth = allocation.price[some] * np.maximum(
        rows @ measurements.slope(allocation.rho) @ (allocation.rho - problem.kept), 0.0
    )
    if not worth.any():
        return allocation
    price = np.zeros_like(allocation.price)
    price[some] = worth / worth.sum()
    return replace(allocation, price=price)


def _scaled(problem: Problem, allocation: CertifiedAllocation) -> CertifiedAllocation:
    """For the least total: just as much more as the limits need."""
    for i in range(20):
        if allocation.over <= 1e-9:
            break
        rho = problem.kept + (allocation.rho - problem.kept) * enlarged(allocation.over, i)
        f = problem.variances(rho)
        allocation = replace(
            allocation,
            rho=rho,
            variances=f,
            value=float(rho.sum()),
            over=max(float(problem.over(f).max()), 0.0),
        )
    return allocation


def _between(problem: Problem, allocation: CertifiedAllocation) -> CertifiedAllocation:
    """For a given total, where the result exceeds limits that the start meets: a point between the
    two, as near to the result as the limits allow. Logs of variances are convex, so a part of the
    way brings at least that part of the gain."""

    def part_of_the_way(part: float) -> CertifiedAllocation:
        rho = problem.start + part * (allocation.rho - problem.start)
        f = problem.variances(rho)
        over = problem.exceeded(rho, f)
        return replace(allocation, rho=rho, variances=f, value=problem.value(rho, f), over=over)

    if allocation.over <= MET or part_of_the_way(0.0).over > MET:
        return allocation
    low, high = 0.0, 1.0
    for _ in range(12):
        part = (low + high) / 2
        low, high = (part, high) if part_of_the_way(part).over <= MET else (low, part)
    return part_of_the_way(low)


def enlarged(over: float, tries: int) -> float:
    """How much more of a free part brings what is ``over`` within its limit: as much, where all of
    it is free, and twice as much at every try."""
    return float(np.exp(min(over * 2**tries, 1.0)))


def _check_held(problem: Problem) -> None:
    """Raise if limits depend on draws that are held, so that they are exceeded whatever the other
    draws get.
    """
    plenty = problem.kept + np.where(problem.held, 0.0, _PLENTY * problem.start.sum())
    over = problem.over(problem.variances(plenty))
    if over.max() > MET:
        worst = problem.model.estimands[int(np.argmax(over))]
        raise SpecError(
            f"no rho meets these limits: {worst} hangs on draws that are held",
            where="hold",
            remedy="loosen its limit or guard, or hold less",
        )


def _check_possible(problem: Problem, steps: int) -> None:
    """Raises where the limits alone need more than there is."""
    total = float(problem.start.sum())
    least = optimise(replace(problem, weight=np.zeros_like(problem.weight), loss=None), 1e-3, steps)
    if least.bound > total * (1 + MET):
        worst = problem.model.estimands[int(np.argmax(least.price))]
        raise SpecError(
            f"no allocation of rho = {total:.4g} meets these limits: they need {least.bound:.4g} at"
            f" least, most of it for {worst}",
            where="targets",
            remedy="loosen them, or allow more rho",
        )


# Exact shares: fractions of a common denominator in place of floating-point numbers.
#
# Nothing about the loss is guessed: variances and certificate are those of the fractions
# (:mod:`das.tools.planning.optimizing`).

#: Shares of what is free are multiples of 1/DENOMINATOR.
DENOMINATOR = 10**7
#: A share below this many of them is dropped: less noise to draw, and nothing is lost.
FLOOR = 1000
#: Significant digits of a total that was found.
DIGITS = 6


def shares(
    x: Mapping[LevelQuery, float], never_dropped: Collection[LevelQuery], floor: int = FLOOR
) -> dict[LevelQuery, Fraction]:
    """Shares that sum to exactly 1, by largest remainders; of measurements ``never_dropped`` at
    least ``floor`` units.

    >>> found = shares(
    ...     {("A", "total"): 2.0, ("A", "detailed"): 1.0, ("B", "detailed"): 1e-9},
    ...     [("B", "detailed")],
    ... )
    >>> for (level, query), share in found.items():
    ...     print(level, query, share)
    A total 3333/5000
    A detailed 3333/10000
    B detailed 1/10000"""
    total = sum(x.values())
    kept = {
        pair: v
        for pair, v in x.items()
        if v >= total * floor / DENOMINATOR or pair in never_dropped
    }
    least = {pair: floor if pair in never_dropped else 0 for pair in kept}
    free = DENOMINATOR - sum(least.values())
    above: NDArray[np.float64] = np.array(
        [max(v / total * DENOMINATOR - least[pair], 0.0) for pair, v in kept.items()]
    )
    above *= free / above.sum()
    units = np.floor(above).astype(int)
    units[np.argsort(units - above, kind="stable")[: free - int(units.sum())]] += 1
    return {
        pair: Fraction(int(n) + least[pair], DENOMINATOR)
        for pair, n in zip(kept, units, strict=True)
        if n + least[pair]
    }


def rounded_up(value: float | Fraction) -> Fraction:
    """To ``DIGITS`` significant digits, towards more budget.

    >>> rounded_up(1.65432189)
    Fraction(165433, 100000)
    """
    exact = Fraction(value)
    unit = Fraction(10) ** (floor(log10(exact)) + 1 - DIGITS)
    return ceil(exact / unit) * unit
