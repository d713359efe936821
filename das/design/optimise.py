r"""The best allocation for some aims, and the proof of how good any other could be.

Precisions p are those of the class draws, :math:`f_a(p)` the variances of the aims (:mod:`das.design.model`).
:math:`f_a = c'X(p)^{-1}c` with X linear in p. On a line, with :math:`X = LL'` and a step of eigenvalues d,
:math:`f = \sum_i y_i^2/(1 + t d_i)`: every term is log-convex in t, and so are sums of such terms. Hence every
:math:`\log f_a` is convex in p. And :math:`f(cp) = f(p)/c`.

*The problems.* With weights w that sum to 1, limits :math:`t_a` (infinite where there is none) and a part k of the
allocation that stays as it is (and all of some draws that are held), over :math:`\rho = k + x`, :math:`x \ge 0`:

* *best*: :math:`\min \sum_a w_a \log f_a` subject to :math:`f_a \le t_a` and :math:`\sum x = X`;
* *least*: :math:`\min \sum \rho` subject to :math:`f_a \le t_a`.

*Steps.* With multipliers :math:`\lambda_a` of the limits and :math:`h = -\partial/\partial p \sum_a (w_a + \lambda_a) \log f_a`:
:math:`x_j` is multiplied by what a little more of draw j is worth (:meth:`das.design.choices.Choices.multiplier`) and x brought
back to its sum, :math:`\lambda_a` by :math:`f_a/t_a`. Where the certificate does not get better the steps are halved.

*Certificate.* Let :math:`\rho'` be any allocation that meets the limits, p' its precisions, and c as in
:mod:`das.design.choices`. By convexity, then by :math:`\lambda \ge 0` and :math:`h'p' \le c'\rho'`,

.. math:: \sum w \log f(p') \;\ge\; \sum_a w_a \log f_a + \sum_a \lambda_a \log(f_a/t_a) + h'p - h'p'
          \;\ge\; L + h'p - c'k - X \max_j c_j

with L the first two sums. For the least total, with the multipliers scaled so that :math:`\max c = 1`,

.. math:: \sum \rho' \;\ge\; \sum \rho' + \sum_a \lambda_a \log(f_a/t_a) + h'p - c'\rho'
          \;\ge\; \sum_a \lambda_a \log(f_a/t_a) + h'p + \sum_j (1 - c_j)\,k_j .

Both hold at every step, so the best of all steps counts.

*Prices.* f is homogeneous, so the multipliers say which share of the allocation each aim costs: :math:`\sum_j \rho_j
\sum_i h^{(a)}_i = w_a + \lambda_a`.

Source: multiplicative steps of optimal design, Titterington 1976 and Yu 2010; for these criteria monotone in all that was
tried and not proved, which is why the certificate stops them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das.design.model import Model
from das.errors import SpecError

Array = NDArray[np.float64]

#: What the multipliers of limits sum to at first, beside weights that sum to 1.
_FIRST = 1e-2
#: Steps without a better certificate before the next ones are halved; and how short they become before the search ends.
_PATIENCE, _SHORTEST = 100, 1 / 8
#: How much wider than the gap the worths of draws may differ where they are what ends a search.
_LEVEL = 5
#: How much of the free part all draws have alike at first.
_SPREAD = 0.01
#: What the least share of a draw is on the way, which may yet grow.
_FAINT = 1e-8
#: By how much, in logs, a limit may be exceeded before exact shares are made, which are brought within it.
MET = 1e-3
#: What the multipliers sum to where limits look as if nothing met them; and at most.
_DEAR, _DEAREST = 1e2, 1e6
#: Logs of what is no number any more are cut off here.
_MANY = 500.0
#: What is as good as an unlimited budget, as a multiple of the present one.
_PLENTY = 1e4
#: The multipliers move half as fast as the allocation: together they would circle.
_DUAL = 0.5


@dataclass(frozen=True, eq=False)
class Problem:
    """``weight`` ``(aims,)`` sums to 1, or is 0 for the least total; ``limit`` ``(aims,)`` variances, infinite where there is
    none; ``kept`` ``(draws,)`` stays, and of those that are ``held`` it is all; ``start`` ``(draws,)``, at least that, is where the
    search begins and, but for the least total, how much there is in all."""

    model: Model
    weight: Array
    limit: Array
    kept: Array
    held: NDArray[np.bool_]
    start: Array

    @property
    def least(self) -> bool:
        return not self.weight.any()

    @property
    def limited(self) -> NDArray[np.bool_]:
        return np.isfinite(self.limit)

    def variances(self, rho: Array) -> Array:
        return self.model.variances(self.model.draws.precision(rho))

    def value(self, rho: Array, f: Array) -> float:
        """What is minimised."""
        if self.least:
            return float(rho.sum())
        some = self.weight > 0
        return float(self.weight[some] @ np.log(f[some]))

    def over(self, f: Array) -> Array:
        """Of each aim log(f/t), minus infinity where it has no limit or is known exactly."""
        out = np.full(len(f), -np.inf)
        some = self.limited & (f > 0)
        out[some] = np.log(f[some] / self.limit[some])
        return out


@dataclass(frozen=True, eq=False)
class Certified:
    """``rho`` of each draw; ``variances`` of each aim; ``price``: the share of the allocation that each aim costs. ``value``
    is what was minimised, and nothing is less than ``bound``; ``over``: by how much, in logs, a limit is exceeded."""

    rho: Array
    variances: Array
    price: Array
    value: float
    bound: float
    over: float
    steps: int
    least: bool

    @property
    def gap(self) -> float:
        """By how much the geometric mean of the variances, or the total, could be less at most, relatively."""
        return 1 - self.bound / self.value if self.least else float(-np.expm1(min(self.bound - self.value, _MANY)))

    @property
    def rank(self) -> tuple[float, float]:
        """The less, the better: of two that meet the limits what is minimised. For the least total it is what is minimised with
        what it takes to meet them, which is made up for in the end: of such none is worse for having started further off."""
        if self.least:
            return 0.0, self.value * float(np.exp(self.over))
        return max(self.over, MET), self.value


@dataclass(frozen=True, eq=False)
class _View:
    """One allocation: variances and what exceeds the limits, precisions and what they are worth, and the bound c."""

    rho: Array
    f: Array
    over: Array
    p: Array
    h: Array
    c: Array
    m: Array

    @property
    def exceeded(self) -> float:
        return max(float(self.over.max()), 0.0)


def optimise(
    problem: Problem, gap: float = 1e-3, steps: int = 2000, progress: Callable[[Certified], None] | None = None
) -> Certified:
    """To a certified relative gap of ``gap``, or for ``steps`` steps: what was found is said with its gap. ``progress`` is
    told at every step.

    Raises:
        SpecError: nothing that is drawn tells some cells apart, or no allocation of this total meets the limits.
    """
    if problem.least and problem.held.any():
        _check_held(problem)
    search = _Search.of(problem)
    best: Certified | None = None
    bound, possible = -np.inf, problem.least
    for number in range(1, steps + 1):
        view = search.look()
        bound = max(bound, search.bound(view))
        here = search.reached(view)
        if best is None or here.rank < best.rank:
            best = here
        best = replace(best, bound=bound, steps=number)
        if progress is not None:
            progress(best)
        missed = best.over if problem.least else 0.0  # it is yet to be made up for
        if (best.over <= MET and (best.gap + missed <= gap or search.level(view) <= _LEVEL * gap)) or search.ended:
            break
        search.move(view, best)
        if not possible and search.multiplier.sum() > _DEAR:
            _check_possible(problem, steps)
            possible = True
    assert best is not None
    best = _within(problem, best) if problem.least else _between(problem, best)
    f = problem.variances(problem.start)
    if problem.over(f).max() <= 0 and problem.value(problem.start, f) < best.value:  # as it is, it is better
        best = replace(best, rho=problem.start, variances=f, value=problem.value(problem.start, f), over=0.0)
    if best.over > MET and not possible:
        _check_possible(problem, steps)
    return best


def _within(problem: Problem, found: Certified) -> Certified:
    """For the least total: just as much more as the limits need."""
    for i in range(20):
        if found.over <= 1e-9:
            break
        rho = problem.kept + (found.rho - problem.kept) * enlarged(found.over, i)
        f = problem.variances(rho)
        found = replace(
            found, rho=rho, variances=f, value=float(rho.sum()), over=max(float(problem.over(f).max()), 0.0)
        )
    return found


def _between(problem: Problem, found: Certified) -> Certified:
    """Of a given total, where limits are exceeded that the start meets: as far from the start towards what was found as they
    allow. Logs of variances are convex, so a part of the way brings as much of what was found, or more."""
    start = max(float(problem.over(problem.variances(problem.start)).max()), 0.0)
    if found.over <= MET or start > MET:
        return found
    low, high = 0.0, 1.0
    for _ in range(12):
        part = (low + high) / 2
        over = problem.over(problem.variances(problem.start + part * (found.rho - problem.start))).max()
        low, high = (part, high) if over <= MET else (low, part)
    rho = problem.start + low * (found.rho - problem.start)
    f = problem.variances(rho)
    return replace(
        found, rho=rho, variances=f, value=problem.value(rho, f), over=max(float(problem.over(f).max()), 0.0)
    )


def enlarged(over: float, tries: int) -> float:
    """How much more of a free part brings what is ``over`` within its limit: as much, where all of it is free, and twice as
    much at every try."""
    return float(np.exp(min(over * 2**tries, 1.0)))


def _check_held(problem: Problem) -> None:
    """Raises where limits hang on draws that are held, so that they are exceeded however much there is of the others."""
    plenty = problem.kept + np.where(problem.held, 0.0, _PLENTY * problem.start.sum())
    over = problem.over(problem.variances(plenty))
    if over.max() > MET:
        worst = problem.model.aims[int(np.argmax(over))]
        raise SpecError(f"no rho meets these limits: {worst} hangs on draws that are held", where="hold",
                        remedy="loosen its limit or guard, or hold less")  # fmt: skip


def _check_possible(problem: Problem, steps: int) -> None:
    """Raises where the limits alone need more than there is."""
    total = float(problem.start.sum())
    least = optimise(replace(problem, weight=np.zeros_like(problem.weight)), 1e-3, steps)
    if least.bound > total * (1 + MET):
        worst = problem.model.aims[int(np.argmax(least.price))]
        raise SpecError(f"no allocation of rho = {total:.4g} meets these limits: they need {least.bound:.4g} at least, most "
                        f"of it for {worst}", where="targets", remedy="loosen them, or allow more rho")  # fmt: skip


@dataclass
class _Search:
    """Where the search is: the free part ``x``, the multipliers of the limits, how long its steps are, and since when the
    certificate has been what it is."""

    problem: Problem
    x: Array
    multiplier: Array
    step: float = 1.0
    stuck: int = 0
    narrowest: float = np.inf

    @staticmethod
    def of(problem: Problem) -> _Search:
        limited = problem.limited / max(problem.limited.sum(), 1)
        x = np.where(problem.held, 0.0, np.maximum(problem.start - problem.kept, 0.0))
        free, total = ~problem.held, float((problem.start - problem.kept).sum())
        if free.any():  # what has nothing could never grow
            x = total * ((1 - _SPREAD) * x / max(x.sum(), 1e-300) + _SPREAD * free / free.sum())
        return _Search(problem, x, limited * (1.0 if problem.least else _FIRST))

    def look(self) -> _View:
        draws = self.problem.model.draws
        rho = self.problem.kept + self.x
        p = draws.precision(rho)
        f, h = self.problem.model.gradient(p, self.problem.weight + self.multiplier)
        h = np.maximum(h, 0.0)  # it is no less, but for rounding
        return _View(rho, f, self.problem.over(f), p, h, draws.most(h), draws.multiplier(rho, h))

    def reached(self, view: _View) -> Certified:
        """What this allocation is; for the least total, made just large enough, where variances fall with the whole: a part
        that stays does not grow with it."""
        rho, f, over = view.rho, view.f, view.exceeded
        if self.problem.least and (not over or not self.problem.kept.any()):
            factor = float(np.exp(view.over.max()))
            rho, f, over = self.problem.kept + self.x * factor, f / factor, 0.0
        price = self.problem.weight + self.multiplier
        return Certified(rho, f, price / price.sum(), self.problem.value(rho, f), -np.inf, over, 0, self.problem.least)

    @property
    def ended(self) -> bool:
        """Whether nothing is free, or steps no longer help."""
        return not self.x.any() or self.step < _SHORTEST

    def level(self, view: _View) -> float:
        """By how much the best draw is worth more than the average one, where only children share their parents' queries:
        the bound need not be reached there, and this is what a best allocation has in its place."""
        if self.problem.least or self.problem.model.draws.apart:
            return np.inf
        return float(view.m[~self.problem.held].max() * self.x.sum() / (view.m @ self.x)) - 1

    def bound(self, view: _View) -> float:
        """What no allocation that meets the limits can be below."""
        kept, some = self.problem.kept, self.multiplier > 0
        limits = float(self.multiplier[some] @ view.over[some])
        worth, most = float(view.h @ view.p), float(view.c[~self.problem.held].max(initial=1e-300))
        if not self.problem.least:
            return (
                self.problem.value(view.rho, view.f)
                + limits
                + worth
                - float(view.c @ kept)
                - float(self.x.sum()) * most
            )
        below = (limits + worth - float(view.c @ kept)) / most + float(kept.sum())
        if kept.any():
            return below
        return max(below, worth / most * float(np.exp(limits / self.multiplier.sum())))  # said at the best multiple

    def move(self, view: _View, best: Certified) -> None:
        """To the next allocation, by shorter steps where the certificate has not become better: once the limits are met, for
        until then it tells of an early allocation that came nearest to them, and not of where the search is."""
        width = max(best.gap, 0.0) + best.over
        self.stuck = 0 if width < self.narrowest or best.rank[0] > MET else self.stuck + 1
        self.narrowest = min(width, self.narrowest)
        if self.stuck > _PATIENCE:
            self.step, self.stuck = self.step / 2, 0
        total = float((self.problem.start - self.problem.kept).sum())
        some = self.multiplier > 0
        if self.problem.least:  # towards limits that are met on the average
            total = float(self.x.sum() * np.exp(self.multiplier[some] @ view.over[some]))
        least = np.where(self.x > 0, _FAINT * total, 0.0)
        self.x = self.x * view.m**self.step
        self.x = np.maximum(self.x * (total / self.x.sum()), least)
        self.multiplier[some] *= np.exp(np.clip(view.over[some], -1.0, 1.0) * self.step * _DUAL)
        most = 1.0 if self.problem.least else _DEAREST
        if self.problem.least or self.multiplier.sum() > most:
            self.multiplier *= most / self.multiplier.sum()
