"""The best shares of a budget for a user's targets, and the assumptions behind them
(:mod:`das.design`).

Three things can be known of the tree: how many units its levels have; its real units and
structures; and, of an earlier release, which cells its units were published with. Records are never
read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from das.accounting.planning import repriced
from das.design import optimize as exact
from das.design.model import Choices, Estimand, LevelQuery, Model
from das.design.optimize import enlarged, optimize
from das.design.problem import MET, CertifiedAllocation, Problem
from das.design.recursion import Recursion
from das.design.target_set import AccuracyTarget, LossLimit, TargetSet, redundant
from das.engine import Progress
from das.engine.tasks import SILENT
from das.errors import UserError
from das.model.plan import Plan
from das.model.spelling import near
from das.release.replicate_source import PlannedUniverse
from das.tools.planning.epsilon_guards import GuardedLoss, PairLimits, lowered, scaled_down
from das.tools.planning.ground import TreeKnowledge

Array = NDArray[np.float64]
#: How close to the best a search comes, and how many steps it takes at most: in closed form, over a
#: real tree.
GAPS = {"numbers": (2e-4, 3000), "tree": (1e-3, 1500)}
#: Of a class of population fewer areas than this say nothing.
_FEW = 1


@dataclass(frozen=True)
class TargetRow:
    """Standard deviations of one answer: as it is, at the optimum, the limit if there is one;
    ``price``, its share of the budget. ``predicted``: of published counts, now and then, where an
    earlier release was given."""

    estimand: Estimand
    weight: float
    now: float
    then: float
    limit: float | None
    price: float
    predicted: tuple[float, float] | None


@dataclass(frozen=True)
class LossRow:
    """A guard on epsilon over some trees (``over``): the present epsilon, the most that the guard
    allows, and that of the plan, each an upper end but ``most``."""

    relation: str
    name: str
    over: str
    now: float
    then: float
    most: float

    @staticmethod
    def from_loss(loss: GuardedLoss, plan: Plan) -> LossRow:
        g, then = loss.guard, loss.epsilon(plan)[1]
        return LossRow(g.relation, g.name, loss.account.over, loss.now[1], then, loss.most)


@dataclass(frozen=True, eq=False)
class Optimum:
    """``plan`` costs exactly ``rho``; ``now`` is the plan as it was.

    ``value`` is the objective, and ``bound`` a limit that no allocation goes below. The objective
    is the total for ``least``; otherwise it is the geometric mean of the targets' variances,
    relative to those of now. ``redundant``: draws of the earlier plan that improve nothing.
    ``over``: the relative amount by which the worst standard deviation exceeds its limit."""

    target_set: TargetSet
    ground: TreeKnowledge
    now: Plan
    plan: Plan
    rows: tuple[TargetRow, ...]
    guarded: tuple[TargetRow, ...]
    value: float
    bound: float
    over: float
    steps: int
    redundant: tuple[LevelQuery, ...]
    losses: tuple[LossRow, ...] = ()
    pairs: int = 0
    """How many sets of measurements the pairs of records change that a guard is about."""

    @property
    def gap(self) -> float:
        """By how much the objective could be less at most, relatively."""
        return 1 - self.bound / self.value

    @property
    def certificate(self) -> str:
        """What is proved, in a sentence."""
        if self.target_set.objective == "least":
            return (
                f"{self.value:.4f} of the present rho meets every limit, and no allocation needs"
                f" less than {self.bound:.4f} of it."
            )
        kind = "that keeps the other measurements " if self.target_set.objective == "spare" else ""
        return (
            f"The targets' variances are {self.value:.4f} of what they are now, in geometric mean,"
            f" and no allocation of this rho {kind}brings them below {self.bound:.4f}."
        )


# --- the search


def optimum(
    universe: PlannedUniverse,
    target_set: TargetSet,
    ground: TreeKnowledge,
    rho: Fraction | None = None,
    progress: Progress = SILENT,
    losses: Sequence[GuardedLoss] = (),
    pairs_cost: PairLimits = MappingProxyType({}),
) -> Optimum:
    """The best shares for the plan of ``universe`` as the configuration has it, before it fits a tree;
    ``rho``: a total other than its own. With ``losses`` the plan stays within them, even if it
    then costs less; and so with ``pairs_cost`` (:func:`das.accounting.changes.pair_limits`).

    Raises:
        UserError: a target that nothing reaches, limits that contradict the total, an unknown kind
            of areas."""
    plan, total = universe.plan, universe.plan.cost if rho is None else rho
    _check_detailed(universe, ground.measurements)
    if losses or pairs_cost:
        _check_objective(target_set)
    targets = tuple(_with_areas(w, ground) for w in target_set.targets)
    target_set = replace(target_set, targets=targets)
    progress.stage("matrices of the tree" if ground.kind == "tree" else "closed form", None)
    pairs = ground.measurements.pairs
    model = ground.model(target_set.estimands(pairs))
    costs = {(d.level, d.query): d.cost for d in plan.plain}
    now = _precisions(costs, ground.measurements)
    limits = [*(loss.limit(pairs) for loss in losses), *_of_pairs(pairs_cost, pairs)]
    problem = target_set.problem(model, now, now * float(total / plan.cost), limits)
    gap, steps = GAPS[ground.kind]
    found = optimize(problem, gap, steps, _SearchProgress(progress, model))
    chosen = _chosen(universe, problem, found, costs, total, gap)
    kept = {pair: costs[pair] for pair, k in zip(pairs, problem.kept, strict=True) if k > 0}
    made = repriced(plan, lowered(scaled_down(pairs_cost, chosen, kept), kept, losses, plan))
    described = _described(target_set, ground, problem, found, plan, made)
    said = tuple(LossRow.from_loss(loss, made) for loss in losses)
    return replace(described, losses=said, pairs=len(pairs_cost))


def _check_objective(target_set: TargetSet) -> None:
    if target_set.objective == "least":
        raise UserError(
            "guards on epsilon go without the least total, whose limits they could contradict",
            where="guard.epsilon",
            remedy='take the objective "best" or "spare"',
        )


def _of_pairs(limits: PairLimits, pairs: Sequence[LevelQuery]) -> Iterator[LossLimit]:
    for changed, most in limits.items():
        row = np.array([pair in changed for pair in pairs], dtype=float)
        yield LossLimit("guard.epsilon.pairs", row, float(most))


class _SearchProgress:
    """A stage for each power of ten of the gap, and for each gradient a unit of its work."""

    def __init__(self, progress: Progress, model: Model) -> None:
        self._progress, self._reached = progress, 1
        takes = model.tree.bytes(model.modes_at_once) if isinstance(model, Recursion) else 0.0
        progress.stage("search" if takes < 1e8 else f"search, {takes / 1e9:.1f} GB", None)

    def __call__(self, allocation: CertifiedAllocation) -> None:
        gap = allocation.missing
        while 0 < gap < 10.0**-self._reached:
            self._progress.stage(f"search, gap below {10.0**-self._reached:g}", None)
            self._reached += 1
        self._progress.advance()


def _check_detailed(universe: PlannedUniverse, measurements: Choices) -> None:
    for level in measurements.lowest:
        if not any(at == level for at, _ in _detailed_pairs(universe, measurements)):
            raise UserError(
                "no query tells every cell apart",
                where=f"budget.queries.{level}",
                remedy="measure 'detailed' there: without it nothing tells some cells of any level",
            )


def _detailed_pairs(universe: PlannedUniverse, measurements: Choices) -> list[LevelQuery]:
    """What tells every cell of the lowest units apart, of all levels that these are measured at."""
    return [
        (level, q)
        for level, q in measurements.pairs
        if level in measurements.lowest
        and universe.schema.query(q).answers == universe.schema.cells
    ]


def _precisions(costs: Mapping[LevelQuery, Fraction], measurements: Choices) -> Array:
    return np.array([float(costs.get(pair, Fraction(0))) for pair in measurements.pairs])


def _with_areas(target: AccuracyTarget, ground: TreeKnowledge) -> AccuracyTarget:
    """The target with the numbers of the areas that it names."""
    estimand = target.estimand
    if not estimand.areas:
        return target
    if ground.kind != "numbers" and estimand.place not in ground.areas:
        raise UserError(
            f"no areas {estimand.place!r}",
            where="area.kind",
            remedy=near(estimand.place, sorted(ground.areas), "kinds of areas"),
        )
    if not estimand.says:
        return target
    if ground.population is None:
        raise UserError(
            "how many persons areas have is not known before they are counted",
            where="area.population",
            remedy="give --like with an earlier release, or leave population out",
        )
    low, high = (
        int(t.replace(",", "")) for t in estimand.says.removesuffix(" persons").split(" to ")
    )
    people = ground.population[estimand.place]
    some = np.flatnonzero((people >= low) & (people <= high))
    if len(some) < _FEW:
        raise UserError(
            f"no area of {estimand.place} has {estimand.says}",
            where="area.population",
            remedy="give a wider class",
        )
    return replace(target, estimand=replace(estimand, some=tuple(some.tolist())))


def _chosen(
    universe: PlannedUniverse,
    problem: Problem,
    allocation: CertifiedAllocation,
    now: Mapping[LevelQuery, Fraction],
    total: Fraction,
    gap: float,
) -> dict[LevelQuery, Fraction]:
    """Exact costs of the allocation that was found: with the given total, or with one that just
    meets the limits. Draws too small for a share of their own are dropped; fewer are, if the limits
    need small draws."""
    for floor in (exact.FLOOR, exact.FLOOR // 10, exact.FLOOR // 100, 1):
        chosen = _rounded(universe, problem, allocation, now, total, floor)
        rho = _precisions(chosen, problem.model.measurements)
        f = problem.variances(rho)
        value = problem.value(rho, f)
        loss = value / allocation.value - 1 if problem.least else value - allocation.value
        if problem.over(f).max() <= MET and loss <= gap:
            break
    return chosen


def _rounded(
    universe: PlannedUniverse,
    problem: Problem,
    allocation: CertifiedAllocation,
    now: Mapping[LevelQuery, Fraction],
    total: Fraction,
    floor: int,
) -> dict[LevelQuery, Fraction]:
    """Without shares below ``floor``."""
    pairs = problem.model.measurements.pairs
    kept = {pair: now[pair] for pair, k in zip(pairs, problem.kept, strict=True) if k > 0}
    x = {pair: float(r - k) for pair, r, k in zip(pairs, allocation.rho, problem.kept, strict=True)}
    split = exact.shares(x, _never_dropped(universe, problem.model.measurements, x, kept), floor)
    free = total - sum(kept.values(), Fraction(0))
    if not problem.spends_all or problem.room < (1 - 1e-12) * float(free):
        some = exact.rounded_up(sum(x.values()))
        free = some if problem.least else min(free, some)
    for i in range(30):
        chosen = {
            pair: kept.get(pair, Fraction(0)) + free * split.get(pair, Fraction(0))
            for pair in pairs
        }
        over = float(
            problem.over(problem.variances(_precisions(chosen, problem.model.measurements))).max()
        )
        if not problem.least or over <= 0:
            break
        free = exact.rounded_up(float(free) * enlarged(over, i))
    if (
        problem.least
        and sum(chosen.values()) > sum(now.values())
        and problem.over(problem.variances(problem.start)).max() <= 0
    ):
        return dict(now)  # as it is, it is better
    return {pair: cost for pair, cost in chosen.items() if cost}


def _never_dropped(
    universe: PlannedUniverse,
    measurements: Choices,
    x: Mapping[LevelQuery, float],
    kept: Mapping[LevelQuery, Fraction],
) -> list[LevelQuery]:
    """What tells every cell of the lowest units apart; and of each level the largest draw, so that
    it has one."""
    out = _detailed_pairs(universe, measurements)
    for level in measurements.levels:
        here = [pair for pair in measurements.pairs if pair[0] == level]
        if not any(pair in kept for pair in here):
            out.append(max(here, key=lambda pair: x[pair]))
    return [pair for pair in dict.fromkeys(out) if pair not in kept]


def _rows(
    target_set: TargetSet,
    ground: TreeKnowledge,
    problem: Problem,
    allocation: CertifiedAllocation,
    before: Array,
    after: Array,
) -> tuple[TargetRow, ...]:
    """Each estimand under the allocations ``before`` and ``after``."""
    model, weights = problem.model, [w.weight for w in target_set.targets]
    f, g = problem.variances(before), problem.variances(after)
    predicted = None
    if ground.predicted is not None:
        other, precision = ground.predicted(model.estimands), model.measurements.precision
        predicted = [np.sqrt(other.variances(precision(rho))) for rho in (before, after)]
    return tuple(
        TargetRow(
            a,
            weights[i] if i < len(weights) else 0.0,
            float(np.sqrt(f[i])),
            float(np.sqrt(g[i])),
            float(np.sqrt(problem.limit[i])) if problem.limited[i] else None,
            float(allocation.price[i]),
            None if predicted is None else (float(predicted[0][i]), float(predicted[1][i])),
        )
        for i, a in enumerate(model.estimands)
    )


def _described(
    target_set: TargetSet,
    ground: TreeKnowledge,
    problem: Problem,
    allocation: CertifiedAllocation,
    now: Plan,
    plan: Plan,
) -> Optimum:
    model, measurements = problem.model, problem.model.measurements
    before, after = (
        _precisions({(d.level, d.query): d.cost for d in p.plain}, measurements)
        for p in (now, plan)
    )
    f, g = problem.variances(before), problem.variances(after)
    rows = _rows(target_set, ground, problem, allocation, before, after)
    over = max(float(problem.over(g).max()), 0.0)
    if problem.least:
        value, bound = float(plan.cost / now.cost), allocation.bound / float(now.cost)
    else:
        first = problem.value(before, f)
        value = float(np.exp(problem.value(after, g) - first))
        bound = float(np.exp(allocation.bound - first))
    nothing = tuple(
        pair
        for pair, is_ in zip(measurements.pairs, redundant(model, before, f), strict=True)
        if is_
    )
    n = len(target_set.targets)
    return Optimum(
        target_set,
        ground,
        now,
        plan,
        rows[:n],
        rows[n:],
        value,
        bound,
        float(np.expm1(over / 2)) if over > MET else 0.0,
        allocation.steps,
        nothing,
    )
