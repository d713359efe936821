r"""Guards on epsilon for the optimizer: what a change of one record may cost, by relation and change.

A guard names a line of a privacy statement: a guarantee (between any data sets, or between those
that agree on what is published exactly; of one universe or of all together), or a change of one
record. On the way the search needs no epsilon. What a change sees is a sum of costs. So a guard is
a limit on the :math:`\rho` of some measurements (:class:`das.design.target_set.LossLimit`). The
limit is their present :math:`\rho`, or the one that costs the guard's epsilon. Epsilon also
depends a little on how that :math:`\rho` is divided. So the exact accountant checks the plan in
fractions, and its free measurements are lowered until each guard holds. A guard that says "now" is
the lower end of the present epsilon's interval. It is compared with the upper end of the new one.
So it holds wherever in these intervals the true numbers are.

Each guard holds twice. One is for every tree that the configuration allows. The other is for a tree
whose places are whole units and where nobody is an only child, so that units have exact totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import floor

import numpy as np

from das.accounting.calibration import calibrate
from das.accounting.draws import Composition, Differing
from das.accounting.guarantee import combine, cost, exact_epsilon
from das.accounting.invariant_neighbours import INVARIANT_NEIGHBOURS
from das.accounting.planning import repriced
from das.accounting.statement import Terms
from das.design.model import LevelQuery
from das.design.target_set import LossLimit
from das.errors import SpecError
from das.model.budget import PlannedMeasurement
from das.model.mechanisms import RHO
from das.model.plan import Plan
from das.model.spelling import named
from das.publications.dhc.spec import DhcSpec
from das.spec import RunSpec
from das.tools.planning.target_file import CHANGES, EpsilonGuard

PairCosts = Mapping[LevelQuery, Fraction]
PairLimits = Mapping[frozenset[LevelQuery], Fraction]
#: What is lowered becomes a multiple of 1/GRAIN, and it is lowered so many times at most.
GRAIN, TRIES = 10**12, 60
#: At most this part of what is free goes at once.
_MOST = Fraction(1, 8)


@dataclass(frozen=True, eq=False)
class TreeAccount:
    """Who can see what of the measurements of ``universe`` over some trees, which ``over`` names;
    ``others``: the plans of the other universes, which stay. ``whole``: nobody is an only child."""

    over: str
    terms: Terms
    universe: str
    others: Mapping[str, Plan]
    whole: bool

    def draws(self, plan: Plan) -> Sequence[PlannedMeasurement]:
        return plan.plain if self.whole else plan.measurements

    def differing(self, guard: EpsilonGuard, draws: Sequence[PlannedMeasurement]) -> Differing:
        """What differs between the neighbours that a guard is about, as a statement has it."""
        if guard.relation == CHANGES:
            found = self.terms.changes(self.universe, draws)
            return next(c.differing for c in found if c.what == guard.name)
        every = {u: self.draws(plan) for u, plan in self.others.items()} | {self.universe: draws}
        if guard.relation == INVARIANT_NEIGHBOURS:
            every = {u: self.terms.free(u, ds, self.terms.exact[u]) for u, ds in every.items()}
        parts = self.terms.differing(every)
        return parts[guard.name] if guard.name in parts else combine(parts.values())

    @property
    def plain(self) -> TreeAccount:
        """The same without only children."""
        return replace(self, terms=replace(self.terms, paths={}), whole=True)

    def names(self, relation: str, draws: Sequence[PlannedMeasurement]) -> list[str]:
        """What guards of a relation can be about."""
        if relation == CHANGES:
            return [c.what for c in self.terms.changes(self.universe, draws)]
        return [self.universe, *(["total"] if self.others else [])]


@dataclass(frozen=True, eq=False)
class GuardedLoss:
    """One guard over some trees: ``most`` is the largest epsilon that it allows at ``delta``;
    ``now`` what the ``present`` plan has."""

    guard: EpsilonGuard
    account: TreeAccount
    present: Plan

    @property
    def says(self) -> str:
        return f"{self.guard.relation}, {self.guard.name}"

    @cached_property
    def now(self) -> tuple[float, float]:
        return self.epsilon(self.present)

    @property
    def most(self) -> float:
        return self.now[0] if self.guard.most is None else float(self.guard.most)

    def epsilon(self, plan: Plan) -> tuple[float, float]:
        """An interval that holds the exact epsilon of a plan."""
        found = self.account.differing(self.guard, self.account.draws(plan))
        return exact_epsilon(found, self.account.terms.delta)

    def holds(self, plan: Plan) -> bool:
        """What nobody has changed has the present epsilon, whatever is known of it."""
        if self.guard.most is None:
            now, then = (
                self.account.differing(self.guard, self.account.draws(p))
                for p in (self.present, plan)
            )
            if now == then:
                return True
        return self.epsilon(plan)[1] <= self.most

    def seen(self, plan: Plan) -> Fraction:
        """The rho of what the change sees on a path without only children."""
        return cost(RHO, self.account.plain.differing(self.guard, plan.plain))

    @cached_property
    def touched(self) -> dict[LevelQuery, Fraction]:
        """How much of the rho of each measurement the change sees there: what is more if that is
        doubled. Measurements that it does not see are left out."""
        draws, now = self.present.plain, self.seen(self.present)
        out = {}
        for i, d in enumerate(draws):
            more = replace(d, parameter=d.parameter / 2, cost=2 * d.cost)
            twice = self.account.plain.differing(self.guard, [*draws[:i], more, *draws[i + 1 :]])
            if part := (cost(RHO, twice) - now) / d.cost:
                out[d.level, d.query] = part
        return out

    def limit(self, pairs: Sequence[LevelQuery]) -> LossLimit:
        """For the search: of the sum that the guard is about, what is not the other universes'."""
        costs = {(d.level, d.query): d.cost for d in self.present.plain}
        mine = sum((part * costs[pair] for pair, part in self.touched.items()), Fraction(0))
        most = self.seen(self.present)
        fixed = most - mine
        if self.guard.most is not None:
            found = self.account.plain.differing(self.guard, self.present.plain)
            whole = sum((p.composition(p.moves[0]) for p in found), Composition(()))
            most /= calibrate(whole, self.guard.most, self.account.terms.delta)
        row = np.array([float(self.touched.get(pair, 0)) for pair in pairs])
        return LossLimit(f"guard.epsilon.{self.says}", row, float(most - fixed))


def guarded_losses(
    guards: Sequence[EpsilonGuard],
    spec: RunSpec | DhcSpec,
    universe: str,
    where: str,
    plan: Plan | None = None,
) -> tuple[GuardedLoss, ...]:
    """Each guard over every tree that the configuration allows, and over whole units. ``plan``:
    the universe's, if it is not the configuration's.

    Raises:
        UserError: a guard on what no statement has."""
    if not guards:
        return ()
    plan = plan or spec.universe(universe).plan
    accounts = list(_accounts(spec, universe))
    known = {r: accounts[0].names(r, plan.plain) for r in {g.relation for g in guards}}
    named_guards = [
        replace(g, name=named(g.name, known[g.relation], "change", f"{where}, guard.epsilon"))
        for g in guards
    ]
    return tuple(GuardedLoss(g, account, plan) for account in accounts for g in named_guards)


def _accounts(spec: RunSpec | DhcSpec, universe: str) -> Iterator[TreeAccount]:
    terms, others = spec.terms, {u.name: u.plan for u in spec.universes if u.name != universe}
    if spec.geography.spine != "tabulation":
        yield TreeAccount("every tree", terms, universe, others, whole=False)
    whole = replace(terms, paths={}, places={}, split={})
    yield TreeAccount("whole units", whole, universe, others, whole=True)


def scaled_down(limits: PairLimits, chosen: PairCosts, kept: PairCosts) -> PairCosts:
    """The costs of a plan, with what is free of them lowered by one factor until no pair of records
    costs more than its limit. Raises :class:`SpecError` where what is kept alone does."""

    def cost(costs: PairCosts, changed: frozenset[LevelQuery]) -> Fraction:
        return sum((costs.get(pair, Fraction(0)) for pair in changed), Fraction(0))

    part = Fraction(1)
    for changed, most in limits.items():
        if (all_ := cost(chosen, changed)) > most:
            if (fixed := cost(kept, changed)) > most:
                raise SpecError(
                    "what is held or kept alone costs two records more than their limit",
                    where="guard.epsilon.pairs",
                    remedy="hold and keep less",
                )
            part = min(part, (most - fixed) / (all_ - fixed))
    if part == 1:
        return chosen
    free = {pair: x - kept.get(pair, 0) for pair, x in chosen.items()}
    return {p: chosen[p] - x + Fraction(floor(x * part * GRAIN), GRAIN) for p, x in free.items()}


def lowered(
    chosen: PairCosts, kept: PairCosts, losses: Sequence[GuardedLoss], present: Plan
) -> dict[LevelQuery, Fraction]:
    """The costs of a plan, with what is free of them lowered until every guard holds by the exact
    accountant.

    Raises:
        SpecError: what is held and kept alone exceeds a guard."""
    out = dict(chosen)
    for _ in range(TRIES):
        plan = repriced(present, out)
        over = [loss for loss in losses if not loss.holds(plan)]
        if not over:
            return out
        parts: dict[LevelQuery, Fraction] = {}
        for loss in over:
            part = _part(out, kept, loss, plan)
            parts |= {pair: min(part, parts.get(pair, part)) for pair in loss.touched}
        for pair in parts.keys() & out.keys():
            fixed = kept.get(pair, Fraction(0))
            out[pair] = fixed + Fraction(floor((out[pair] - fixed) * parts[pair] * GRAIN), GRAIN)
    raise SpecError(
        f"no plan was found with an epsilon of {over[0].most:.6g} or less",
        where=f"guard.epsilon.{over[0].says}",
        remedy="hold and keep less, or allow a larger epsilon",
    )


def _part(out: PairCosts, kept: PairCosts, loss: GuardedLoss, plan: Plan) -> Fraction:
    """The part of the free costs that a guard leaves, of the measurements that it is about. Epsilon
    rises by more than epsilon/(2 rho) with each rho, so this is enough but where chains of only
    children share it; and then there is a next time."""
    high = loss.epsilon(plan)[1]
    free = {pair: out[pair] - kept.get(pair, 0) for pair in loss.touched if pair in out}
    there = sum((loss.touched[pair] * x for pair, x in free.items()), Fraction(0))
    if there <= 0:
        raise SpecError(
            f"what is held or kept alone has an epsilon of {high:.6g}, above {loss.most:.6g}",
            where=f"guard.epsilon.{loss.says}",
            remedy="hold and keep less, or allow a larger epsilon",
        )
    wanted = Fraction((high - loss.most) / high) * 2 * loss.seen(plan) / there
    return 1 - min(wanted, _MOST) - Fraction(1, GRAIN)
