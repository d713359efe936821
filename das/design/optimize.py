"""The search for the best allocation: cheap steps first, steps of second order where these stall,
and the end made to meet limits.

What is searched for, and how it is proved, is in :mod:`das.design.problem`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, log10

import numpy as np
from numpy.typing import NDArray

from das.design.model import LevelQuery
from das.design.problem import MET, Array, CertifiedAllocation, Incumbent, Problem, View
from das.errors import SpecError

# The steps that reach the best allocation where limits bind: a primal-dual interior point in the
# shares.
#
# With slacks s of the limits, :math:`\varphi_a = \log(f_a/t_a)` and a barrier :math:`\mu`, solve
#
# .. math:: \min_x\; F(x) - \mu \sum_j \log x_j - \mu \sum_a \log s_a \quad\text{subject to}\quad \varphi(x) + s = 0,\; 1'x = X
#
# for :math:`\mu \to 0`, where F is the objective (for the least total :math:`1'x/X`, and :math:`1'x`
# is free). Limits on privacy loss have :math:`\varphi_g = R_g x/r_g - 1`; with them :math:`1'x` is
# free, too, because the total is one of them. Let g be the gradient of F, A the Jacobian of :math:`\varphi`, H the second derivatives of
# :math:`F + \lambda'\varphi`, and z the multipliers of
# :math:`x \ge 0`. A Newton step for the optimality conditions
# :math:`g + A'\lambda + \nu 1 - z = 0`, :math:`\lambda_a s_a = \mu`, :math:`z_j x_j = \mu` is
#
# .. math:: \bigl(H + \tfrac{z}{x} + A' \tfrac{\lambda}{s} A\bigr)\,dx + 1\,d\nu
#           = -g + \tfrac{\mu}{x} - A'\bigl(\tfrac{\mu}{s} + \tfrac{\lambda}{s}(\varphi + s)\bigr),
#           \qquad 1'dx = 0 .
#
# All is scaled by x, so a share of a millionth is as good as one of a third. A is one adjoint for
# each limit; H comes from differences of gradients, one for each free draw. A line search on the
# objective with barriers and an exact penalty controls the steps; the problem is convex, so nothing
# else is needed. Where only children share their parents' budget it is not convex; there the negative
# curvature of H is left out.
#
# Source: Nocedal and Wright, Numerical Optimization, chapter 19; the logs of variances behave as
# :math:`-\log x`, the barrier for which Newton's method was made.

#: How much of the free part is even over all measurements at the start, at least and at most.
_LEAST, _MOST = 1e-3, 0.1
#: How far towards 0 a step takes a variable at most.
_CLOSE = 0.95
#: What is left of the barrier after a step that was long, shorter, and short: these grow it again.
_SHRINK = ((0.5, 0.2), (0.1, 0.5), (0.0, 1.5))
#: How many times the barrier a product of a variable and its multiplier is at most, and one by it
#: at least.
_CENTERED = 10.0
#: The relative step of the differences that second derivatives are taken from.
_DIFFERENCE = 1e-5
#: Take a step with a barrier below the gap and limits exceeded by at most ``_NEAR``. It stalls if
#: it brings less than this part of the gap. After this many stalled steps the search ends.
_NEAR, _STALLED, _TRIES = 1e-6, 0.1, 3
#: Halvings of a step.
_HALVINGS = 20


def newton_steps(
    problem: Problem, incumbent: Incumbent, gap: float, most: int, dear: float = np.inf
) -> None:
    """From the best that is known until ``gap`` is reached, until steps no longer help, or ``most``
    of them; or until multipliers sum to more than ``dear`` and no limits have been met: it looks as
    if nothing met them."""
    point = _Point.near_allocation(problem, incumbent.best)
    before, stalled = np.inf, 0
    for _ in range(most):
        view, slopes = point.evaluate(incumbent)
        found = incumbent.see(view)
        if incumbent.done(gap) or (found.over > MET and point.dual.sum() > dear):
            return
        near = point.barrier * point.terms < gap and problem.exceeded(view.rho, view.f) < _NEAR
        stalled = stalled + 1 if near and found.missing > before - _STALLED * gap else 0
        before = min(before, found.missing)
        if stalled > _TRIES or not point.step(view, slopes, incumbent):
            return


@dataclass
class _Point:
    """``x`` ``(free,)`` and z; ``slack`` and ``dual`` ``(limits,)``, s and lambda, of the estimands
    ``some`` that have a limit, then of limits on privacy loss.

    ``last``: the length of the last step; ``penalty``, on the excess over limits."""

    problem: Problem
    some: np.ndarray
    x: Array
    z: Array
    slack: Array
    dual: Array
    barrier: float
    last: float = 1.0
    penalty: float = 0.0

    @staticmethod
    def near_allocation(problem: Problem, allocation: CertifiedAllocation) -> _Point:
        part = float(np.clip(allocation.missing, _LEAST, _MOST))
        total = max(float((allocation.rho - problem.kept).sum()), _LEAST * problem.room)
        free = ~problem.held
        x = np.maximum((allocation.rho - problem.kept)[free], 0.0)
        x = (1 - part) * x + part * total / free.sum()
        if problem.least:
            x *= 1 + part
        some = np.flatnonzero(problem.limited & (allocation.variances > 0))
        many = len(some) + (0 if problem.loss is None else len(problem.loss.room))
        point = _Point(problem, some, x, x, np.ones(many), np.ones(many), 0.0)
        point.barrier = part / point.terms
        excess = point.excess(x, problem.variances(point.rho(x)))
        point.slack = np.maximum(-excess, part)
        scale = (
            total / problem.room
            if problem.least
            else 1 / max(1 - float(allocation.price[some].sum()), part)
        )
        point.z = point.barrier / x
        point.dual[: len(some)] = np.maximum(allocation.price - problem.weight, 0.0)[some] * scale
        return point._centered()

    @property
    def terms(self) -> int:
        return len(self.x) + len(self.slack)

    def rho(self, x: Array) -> Array:
        out = self.problem.kept.copy()
        out[~self.problem.held] += x
        return out

    def excess(self, x: Array, f: Array) -> Array:
        """phi of the limits."""
        out = np.log(f[self.some] / self.problem.limit[self.some])
        loss = self.problem.loss
        if loss is None:
            return out
        return np.append(out, loss.rows[:, ~self.problem.held] @ x / loss.room - 1)

    def _weights(self) -> Array:
        out = self.problem.weight.copy()
        out[self.some] += self.dual[: len(self.some)]
        return out

    def evaluate(self, incumbent: Incumbent) -> tuple[View, Array]:
        """What there is at x, and the derivatives of the objective and of each phi by log x, ``(1 +
        limits, free)``."""
        problem, rho = self.problem, self.rho(self.x)
        measurements = problem.model.measurements
        p = measurements.precision(rho)
        weights = np.zeros((1 + len(self.some), len(problem.weight)))
        weights[0] = problem.weight
        weights[np.arange(1, len(weights)), self.some] = 1.0
        f, rows = problem.model.gradients(p, weights, incumbent.tick)
        rows = np.maximum(rows, 0.0)
        multiplier = np.zeros(len(problem.weight))
        dual, of_loss = np.split(self.dual, [len(self.some)])
        multiplier[self.some] = dual
        view = View(rho, f, problem.over(f), p, rows[0] + dual @ rows[1:], multiplier, of_loss)
        slopes = -(rows @ measurements.slope(rho))[:, ~problem.held] * self.x
        if problem.least:
            slopes[0] = self.x / problem.room
        if problem.loss is not None:
            linear = problem.loss.rows[:, ~problem.held] / problem.loss.room[:, None]
            slopes = np.vstack([slopes, linear * self.x])
        return view, slopes

    def _curvature(self, incumbent: Incumbent) -> Array:
        """H by log x, without what is negative of it."""
        problem, weights = self.problem, self._weights()
        measurements = problem.model.measurements

        def gradient(x: Array) -> Array:
            rho = self.rho(x)
            _, h = problem.model.gradient(measurements.precision(rho), weights)
            incumbent.tick()
            return -(h @ measurements.slope(rho))[~problem.held]

        first = gradient(self.x)
        moved = np.repeat(self.x[None], len(self.x), axis=0)
        np.fill_diagonal(moved, self.x * (1 + _DIFFERENCE))
        out = np.array([(gradient(x) - first) / _DIFFERENCE * self.x for x in moved])
        value, vector = np.linalg.eigh((out + out.T) / 2)
        return np.asarray((vector * np.maximum(value, 0.0)) @ vector.T)

    def step(self, view: View, slopes: Array, incumbent: Incumbent) -> bool:
        """To the next point; False where no step makes it better."""
        x, s, z, dual = self.x, self.slack, self.z, self.dual
        phi = self.excess(x, view.f)
        self.slack = s = np.where(phi < 0, np.maximum(s, -phi), s)
        shrink = next(to for at, to in _SHRINK if self.last > at or not at)
        mu = self.barrier = max(shrink * float(dual @ s + z @ x) / self.terms, 1e-14)
        g, a, rest = slopes[0], slopes[1:], phi + s
        left = self._curvature(incumbent) + np.diag(z * x) + a.T @ ((dual / s)[:, None] * a)
        right = -g + mu - a.T @ (mu / s + dual / s * rest)
        u = _solved(left, right, x if self.problem.spends_all else None)
        ds = -rest - a @ u
        d_dual, dz = mu / s - dual - dual / s * ds, mu / x - z - z * u
        self.penalty = max(self.penalty, 2 * float(np.abs(dual + d_dual).max(initial=0.0)))
        before = self._merit(x, s, view.f)
        slope = (
            float(g @ u)
            - mu * float(u.sum())
            - mu * float((ds / s).sum())
            - self.penalty * float(np.abs(rest).sum())
        )
        part = min(_most(x, x * u), _most(s, ds))
        for _ in range(_HALVINGS):
            there, slack, merit = self._trial(x * (1 + part * u), s, part * ds)
            if merit <= before + 1e-4 * part * min(slope, 0.0) + 1e-10:
                break
            part /= 2
        else:
            return False
        other = min(_most(dual, d_dual), _most(z, dz))
        self.x, self.slack, self.last = there, slack, min(part, other)
        self.dual, self.z = dual + other * d_dual, z + other * dz
        self._centered()
        return True

    def _centered(self) -> _Point:
        """With multipliers that are not far from the barrier's."""
        mu, k = self.barrier, _CENTERED
        self.z = np.clip(self.z, mu / k / self.x, mu * k / self.x)
        self.dual = np.clip(self.dual, mu / k / self.slack, mu * k / self.slack)
        return self

    def _trial(self, x: Array, s: Array, ds: Array) -> tuple[Array, Array, float]:
        """Where a limit is met with room the slack is just that room."""
        if self.problem.spends_all:
            x = x * (self.problem.room / x.sum())
        f = self.problem.variances(self.rho(x))
        room = -self.excess(x, f)
        slack = np.where(room >= (1 - _CLOSE) * s, room, s + ds)
        return x, slack, self._merit(x, slack, f)

    def _merit(self, x: Array, s: Array, f: Array) -> float:
        problem = self.problem
        value = float(x.sum()) / problem.room if problem.least else problem.value(problem.kept, f)
        barrier = self.barrier * float(np.log(x).sum() + np.log(s).sum())
        return value - barrier + self.penalty * float(np.abs(self.excess(x, f) + s).sum())


def _solved(left: Array, right: Array, x: Array | None) -> Array:
    """The step by log x; with ``x`` the one that leaves the sum as it is."""
    n = len(right)
    scale = float(np.trace(left)) / n
    if x is None:
        return np.asarray(np.linalg.solve(left + 1e-14 * scale * np.eye(n), right))
    bordered = np.zeros((n + 1, n + 1))
    bordered[:n, :n] = left + 1e-14 * scale * np.eye(n)
    bordered[:n, n] = bordered[n, :n] = x / x.sum()
    return np.asarray(np.linalg.solve(bordered, np.append(right, 0.0))[:n])


def _most(value: Array, move: Array) -> float:
    """How much of a move leaves what is positive positive, 1 at most."""
    falls = move < 0
    return min(1.0, _CLOSE * float((-value[falls] / move[falls]).min())) if falls.any() else 1.0


# The first steps towards the best allocation. Each costs one gradient, and most problems need no
# others.
#
# Let :math:`\lambda_a` be multipliers of the limits. A step multiplies :math:`x_j` by what a little
# more of draw j is worth (:meth:`das.design.model.Choices.multiplier`), and brings x back to its
# sum. It multiplies :math:`\lambda_a` by :math:`f_a/t_a`. Where limits bind on many draws at once
# such steps stall; then those of second order go on.
#
# Source: multiplicative steps of optimal design, Titterington 1976 and Yu 2010. For these criteria
# they were monotone in every trial; that is not proved.

#: What the multipliers of limits sum to at first, next to weights that sum to 1; and at most.
_FIRST, _COSTLIEST = 1e-2, 1e6
#: How much of the free part all measurements have alike at first.
_SPREAD = 0.01
#: What the least share of a measurement is on the way, which may yet grow.
_NEGLIGIBLE = 1e-8
#: The steps in which what is missing has to fall to half.
_PATIENCE = 25
#: The multipliers move half as fast as the allocation: together they would circle.
_DUAL = 0.5


def multiplicative_steps(problem: Problem, incumbent: Incumbent, gap: float, most: int) -> None:
    """Until ``gap`` is reached, until they stall, or ``most`` of them."""
    search = _Search.for_problem(problem)
    before = np.inf
    for number in range(1, most + 1):
        view = search.evaluate()
        found = incumbent.see(view)
        if incumbent.done(gap) or not search.x.any():
            return
        if number % _PATIENCE == 0:
            if found.missing > before / 2 or not np.isfinite(found.missing):
                return
            before = found.missing
        search.move(view)


@dataclass
class _Search:
    """The free part ``x`` and the multipliers of the limits."""

    problem: Problem
    x: Array
    multiplier: Array

    @staticmethod
    def for_problem(problem: Problem) -> _Search:
        limited = problem.limited / max(problem.limited.sum(), 1)
        return _Search(
            problem, problem.spread(_SPREAD), limited * (1.0 if problem.least else _FIRST)
        )

    def evaluate(self) -> View:
        problem = self.problem
        rho = problem.kept + self.x
        p = problem.model.measurements.precision(rho)
        f, h = problem.model.gradient(p, problem.weight + self.multiplier)
        return View(
            rho, f, problem.over(f), p, np.maximum(h, 0.0), self.multiplier.copy()
        )  # h is no less, except for rounding

    def move(self, view: View) -> None:
        total, some = self.problem.room, self.multiplier > 0
        if self.problem.least:  # towards limits that are met on the average
            total = float(self.x.sum() * np.exp(self.multiplier[some] @ view.over[some]))
        least = np.where(self.x > 0, _NEGLIGIBLE * total, 0.0)
        self.x = self.x * self.problem.model.measurements.multiplier(view.rho, view.h)
        self.x = np.maximum(self.x * (total / self.x.sum()), least)
        self.multiplier[some] *= np.exp(np.clip(view.over[some], -1.0, 1.0) * _DUAL)
        most = 1.0 if self.problem.least else _COSTLIEST
        if self.problem.least or self.multiplier.sum() > most:
            self.multiplier *= most / self.multiplier.sum()


#: What is as good as an unlimited budget, as a multiple of the present one.
_PLENTY = 1e4
#: What the multipliers sum to where limits look as if nothing met them.
_DEAR = 1e2


def optimize(
    problem: Problem,
    gap: float = 1e-3,
    steps: int = 2000,
    progress: Callable[[CertifiedAllocation], None] | None = None,
) -> CertifiedAllocation:
    """Optimize to a certified relative gap of ``gap``, or for ``steps`` steps; the result has its
    gap. ``progress`` is called at every step, and within long ones.

    Raises:
        SpecError: nothing that is drawn tells some cells apart, or no allocation of this total
            meets the limits."""
    if problem.least and problem.held.any():
        _check_held(problem)
    incumbent = Incumbent(problem, progress)
    multiplicative_steps(problem, incumbent, gap, steps if problem.loss is None else 1)
    if not incumbent.done(gap) and not problem.held.all():
        newton_steps(
            problem, incumbent, gap, steps - incumbent.looks, np.inf if problem.least else _DEAR
        )
    if incumbent.best.over > MET and not problem.least:
        _check_possible(problem, steps)
        newton_steps(problem, incumbent, gap, steps - incumbent.looks)
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
    precision without being shared out."""
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
    draws get."""
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
    least = optimize(replace(problem, weight=np.zeros_like(problem.weight), loss=None), 1e-3, steps)
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
    Fraction(165433, 100000)"""
    exact = Fraction(value)
    unit = Fraction(10) ** (floor(log10(exact)) + 1 - DIGITS)
    return ceil(exact / unit) * unit
