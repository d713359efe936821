r"""A data steward's questions about a plan: what a margin of error costs, what another query costs,
and what is then left.

Noise :math:`X` keeps a margin of error :math:`m` at coverage :math:`c` if :math:`P[|X| \le m] \ge
c`. That probability falls as the noise grows. So the cheapest draw that keeps the margin has the
widest noise that does; :func:`least_cost` finds it on the exact distribution. SafeTab-P (section
6.1) uses a bound by the continuous normal distribution: :math:`m = \lfloor 1.96\,\sigma \rfloor`,
and so :math:`\rho = 1.9208\, s/m^2` at 95 %. That needs two fifths more budget at a margin
of 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log10
from statistics import NormalDist

from das.errors import SpecError
from das.model import tabulation
from das.model.budget import ALL, Allocation, Neighbours, PlannedMeasurement
from das.model.mechanisms import Mechanism
from das.model.plan import Plan
from das.model.schema import Schema

#: Significant digits of a computed cost.
DIGITS = 4

LevelQuery = tuple[str, str]  #: level and query
QueryCosts = Mapping[LevelQuery, Fraction]


@dataclass(frozen=True)
class Option:
    """A plan to choose from, with its name and description."""

    name: str
    says: str
    plan: Plan


@dataclass(frozen=True, eq=False)
class Repricing:
    """A plan, and how others are made of it: ``same`` says whether two names mean one query, and
    ``repriced`` gives the plan of some costs. ``errors``: by level and query the largest standard
    error of an answer after estimation; empty where nobody knows it before a run."""

    plan: Plan
    same: Callable[[str, str], bool]
    repriced: Callable[[QueryCosts], Plan]
    errors: Callable[[Plan], Mapping[LevelQuery, float]] = lambda _: {}

    @staticmethod
    def of_schema(plan: Plan, schema: Schema) -> Repricing:
        """Queries are those of a schema, however they are spelt."""
        return Repricing(
            plan,
            lambda a, b: schema.query(a).groupings == schema.query(b).groupings,
            lambda costs: repriced(plan, costs),
        )


def options(
    repricing: Repricing, margins: Mapping[LevelQuery, int], added: QueryCosts, coverage: float
) -> list[Option]:
    """The plan as it is, and its alternatives, in terms of the draws for units without only
    children. In the first alternative each draw of ``margins`` is as cheap as its margin allows,
    and the draws of ``added`` have their costs. (If a query is already measured, the added cost is
    on top.) The second squeezes this into the present total. For margins, the third scales the
    present shares until each margin holds. If errors after estimation are known, a last one has
    draws that are as cheap as margins after estimation allow.

    Raises :class:`SpecError` for a level or query that does not exist."""
    plan = repricing.plan
    out = [Option("now", "as the configuration has it", plan)]
    wished = {d: margin_cost(d, plan, m, coverage) for d, m in _drawn(repricing, margins)}
    more = _added(repricing, added)
    costs = _sum({(d.level, d.query): wished.get(d, d.cost) for d in plan.plain}, more)
    if margins or added:
        changed = repricing.repriced(costs)
        out.append(
            Option("others-unchanged", "as you asked; other measurements unchanged", changed)
        )
        out.append(
            Option(
                "same-total",
                "the same, all squeezed into the present total",
                changed.scaled(plan.cost),
            )
        )
    if margins:
        factor = max(cost / d.cost for d, cost in wished.items())
        base = repricing.repriced(_sum({(d.level, d.query): d.cost for d in plan.plain}, more))
        out.append(
            Option(
                "all-scaled",
                "every draw scaled alike until the margins hold",
                base.scaled(base.cost * factor),
            )
        )
        if repricing.errors(plan):
            most = {(d.level, d.query): m for d, m in _drawn(repricing, margins)}
            out.append(
                Option(
                    "estimated",
                    "meets your margins after estimation",
                    _least(repricing, costs, most, coverage),
                )
            )
    return out


def recommended(
    choice: Sequence[Option],
    wished: Mapping[LevelQuery, int],
    coverage: float,
    command: Callable[[str], str],
) -> tuple[str, list[str]]:
    """The one of the plans that we would take, and why, with the ``command`` that applies it: the
    present one if every margin holds and nothing is added, or else the cheapest that has all."""
    now = choice[0].plan
    margins = {
        (d.level, d.query): d.margin(coverage) for d in now.plain if (d.level, d.query) in wished
    }
    holds = {at: at in margins and margins[at] <= most for at, most in wished.items()}
    lines = [
        f"{level}:{query} is ±{margins[level, query]:,} already; you ask for ±{most:,}"
        for (level, query), most in wished.items()
        if holds[level, query]
    ]
    if len(choice) == 1 or (all(holds.values()) and choice[1].plan.cost <= now.cost):
        spared = 100 * float(1 - choice[1].plan.cost / now.cost)
        lines.append(
            "recommended: now. Keep the plan as it is"
            + (f"; a wider margin would save only {spared:.2g} % of the budget" if spared else "")
        )
        return choice[0].name, lines
    best = min((o for o in choice[1:] if o.name != "same-total"), key=lambda o: o.plan.cost)
    currency = now.mechanism.currency
    lines += [
        f"recommended: {best.name}, the cheapest plan with all that you ask for: {currency} ="
        f" {float(best.plan.cost):.6g} instead of {float(now.cost):.6g}. Write it with",
        f"  {command(best.name)}",
    ]
    return best.name, lines


def margin_cost(draw: PlannedMeasurement, plan: Plan, most: int, coverage: float) -> Fraction:
    """What the cheapest measurement of its query costs whose noise is within ``most``."""
    least = least_cost(draw.mechanism, plan.neighbours, most, coverage)
    return rounded_up(least * draw.stability)


def _least(
    repricing: Repricing, costs: QueryCosts, most: Mapping[LevelQuery, int], coverage: float
) -> Plan:
    """A plan whose margins hold after estimation. None of its measurements can be much cheaper by
    itself. Errors fall as costs grow. So the search starts from costs at which all margins hold,
    and lowers each in turn as far as they still do, to a hundredth."""
    wide, found = NormalDist().inv_cdf((1 + coverage) / 2), dict(costs)

    def holds(costs: QueryCosts) -> bool:
        errors = repricing.errors(repricing.repriced(costs))
        return all(wide * errors[p] <= m for p, m in most.items())

    while not holds(found):
        found |= {p: 2 * found[p] for p in most}
    for place in [*most, *most]:
        low, high = found[place] / 1000, found[place]
        while high - low > high / 100:
            middle = rounded_up((low + high) / 2)
            low, high = (low, middle) if holds(found | {place: middle}) else (middle, high)
        found[place] = high
    return repricing.repriced(found)


def least_cost(
    mechanism: Mechanism, neighbours: Neighbours, most: int, coverage: float
) -> Fraction:
    """The least rho (or epsilon) of a draw whose noise is within ``most`` with probability
    ``coverage``, rounded up to ``DIGITS`` digits. People can read these, and they keep the losses
    of a plan on a coarse lattice.

    >>> from das.model.mechanisms import DISCRETE_GAUSSIAN
    >>> rho = least_cost(DISCRETE_GAUSSIAN, Neighbours.UNBOUNDED, 3, 0.95)
    >>> round(float(rho), 3), round(1.9208 / 3**2, 3)  # SafeTab-P's convention asks for more
    (0.153, 0.213)"""

    def holds(parameter: Fraction) -> bool:
        return mechanism.margin(parameter, coverage) <= most

    low, high = Fraction(1, 1000), Fraction(1)
    while holds(high):
        low, high = high, 2 * high
    while high - low > low / 10 ** (DIGITS + 3):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return rounded_up(mechanism.cost(low, neighbours.sensitivity))


def rounded_up(cost: Fraction) -> Fraction:
    """The least number with ``DIGITS`` digits that is not less than ``cost``.

    >>> rounded_up(Fraction(1, 3))
    Fraction(1667, 5000)"""
    unit = Fraction(10) ** (floor(log10(cost)) + 1 - DIGITS)
    return ceil(cost / unit) * unit


def normal_cost(neighbours: Neighbours, most: int, coverage: float) -> float:
    """rho by the convention of SafeTab-P (section 6.1), z^2 s / (2 m^2) with z the normal quantile.

    >>> round(
    ...     normal_cost(Neighbours.BOUNDED, 3, 0.95), 3
    ... )  # Table 7: 3.842 for a sensitivity 9 times as large
    0.427"""
    return NormalDist().inv_cdf((1 + coverage) / 2) ** 2 * neighbours.sensitivity / (2 * most**2)


def _drawn(
    repricing: Repricing, margins: Mapping[LevelQuery, int]
) -> list[tuple[PlannedMeasurement, int]]:
    return [(_draw(repricing, *place), m) for place, m in margins.items()]


def _draw(repricing: Repricing, level: str, query: str) -> PlannedMeasurement:
    """The draw of the plan that measures this query there, however it is spelt."""
    plan = repricing.plan
    for d in (d for d in plan.plain if d.level == level):
        if repricing.same(d.query, query):
            return d
    levels = dict.fromkeys(d.level for d in plan.measurements)
    known = (
        f"it measures {', '.join(d.query for d in plan.plain if d.level == level)}"
        if level in levels
        else (f"the levels are {', '.join(levels)}")
    )
    raise SpecError("the plan has no such draw", where=f"{level}:{query}", remedy=known)


def _added(repricing: Repricing, added: QueryCosts) -> dict[LevelQuery, Fraction]:
    """The costs to add, each at a level of the plan. A query that is already measured there gets
    the plan's spelling."""
    out, plan = dict[LevelQuery, Fraction](), repricing.plan
    for (level, query), cost in added.items():
        where = f"{level}:{query}"
        if not plan.at(level):
            raise SpecError(
                f"{level!r} is not a level",
                where=where,
                remedy=f"the levels are {', '.join(dict.fromkeys(d.level for d in plan.measurements))}",
            )
        if cost <= 0:
            raise SpecError(f"the cost is {cost}, not positive", where=where)
        same = (d.query for d in plan.plain if d.level == level and repricing.same(d.query, query))
        out = _sum(out, {(level, next(same, query)): cost})
    return out


def _sum(costs: QueryCosts, more: QueryCosts) -> dict[LevelQuery, Fraction]:
    return {
        place: costs.get(place, Fraction(0)) + more.get(place, Fraction(0))
        for place in {**costs, **more}
    }


def repriced(like: Plan, costs: QueryCosts) -> Plan:
    """A plan with these costs, level by level, and with the classes and paths of ``like`` where
    units of a level have classes."""
    levels = dict.fromkeys(d.level for d in like.plain)
    by_level = {
        level: {query: cost for (lv, query), cost in costs.items() if lv == level}
        for level in levels
    }
    shares = {level: sum(queries.values(), Fraction(0)) for level, queries in by_level.items()}
    total = sum(shares.values(), Fraction(0))
    allocation = Allocation(
        {level: share / total for level, share in shares.items()},
        {
            level: {q: c / shares[level] for q, c in queries.items()}
            for level, queries in by_level.items()
        },
    )
    alike = {unit_class for path in like.paths for _, unit_class in path} == {ALL}
    classes = None if alike else tabulation.classes(like.levels, like.paths)
    return Plan.from_allocation(
        total, like.mechanism, like.neighbours, allocation, classes, like.paths
    )
