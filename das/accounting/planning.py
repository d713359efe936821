r"""A data steward's questions about a plan: what a margin of error costs, what another query costs,
and what is then left.

Noise :math:`X` keeps a margin of error :math:`m` at coverage :math:`c` if :math:`P[|X| \le m] \ge
c`. That probability falls as the noise grows. So the cheapest draw that keeps the margin has the
widest noise that does; :func:`least_cost` finds it on the exact distribution. SafeTab-P (section
6.1) uses a bound by the continuous normal distribution: :math:`m = \lfloor 1.96\,\sigma \rfloor`,
and so :math:`\rho = 1.9208\, s/m^2` at 95 %. That needs two fifths more budget at a margin
of 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log10
from statistics import NormalDist

from das.errors import SpecError
from das.model import chains
from das.model.allocation import Allocation
from das.model.budget import ALL, Neighbours, PlannedMeasurement
from das.model.mechanism import Mechanism
from das.model.plan import Plan
from das.model.schema import Schema

#: Significant digits of a computed cost.
DIGITS = 4

LevelQuery = tuple[str, str]  #: level and query


@dataclass(frozen=True)
class Option:
    """A plan to choose from, with its name and description."""

    name: str
    says: str
    plan: Plan


def options(
    plan: Plan,
    schema: Schema,
    margins: Mapping[LevelQuery, int],
    added: Mapping[LevelQuery, Fraction],
    coverage: float,
) -> list[Option]:
    """The plan as it is, and its alternatives, in terms of the draws for units without only
    children. In the first alternative each draw of ``margins`` is as cheap as its margin allows,
    and the draws of ``added`` have their costs. (If a query is already measured, the added cost is
    on top.) The second squeezes this into the present total. For margins, the third scales the
    present shares until each margin holds.

    Raises :class:`SpecError` for a level or query that does not exist.
    """
    out = [Option("now", "as the configuration has it", plan)]
    wished = {
        _draw(plan, schema, *place): least_cost(plan.mechanism, plan.neighbours, m, coverage)
        for place, m in margins.items()
    }
    more = _added(plan, schema, added)
    costs = _sum({(d.level, d.query): wished.get(d, d.cost) for d in plan.plain}, more)
    if margins or added:
        changed = repriced(plan, costs)
        out.append(Option("others-unchanged", "as wished, the other draws as they are", changed))
        out.append(
            Option(
                "same-total",
                "the same, all squeezed into the present total",
                changed.scaled(plan.cost),
            )
        )
    if margins:
        factor = max(cost / d.cost for d, cost in wished.items())
        base = repriced(plan, _sum({(d.level, d.query): d.cost for d in plan.plain}, more))
        out.append(
            Option(
                "all-scaled",
                "every draw scaled alike until the margins hold",
                base.scaled(base.cost * factor),
            )
        )
    return out


def least_cost(
    mechanism: Mechanism, neighbours: Neighbours, most: int, coverage: float
) -> Fraction:
    """The least rho (or epsilon) of a draw whose noise is within ``most`` with probability
    ``coverage``, rounded up to ``DIGITS`` digits. People can read these, and they keep the losses
    of a plan on a coarse lattice.

    >>> from das.model.mechanisms import DISCRETE_GAUSSIAN
    >>> rho = least_cost(DISCRETE_GAUSSIAN, Neighbours.UNBOUNDED, 3, 0.95)
    >>> round(float(rho), 3), round(1.9208 / 3**2, 3)  # SafeTab-P's convention asks for more
    (0.153, 0.213)
    """

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
    Fraction(1667, 5000)
    """
    unit = Fraction(10) ** (floor(log10(cost)) + 1 - DIGITS)
    return ceil(cost / unit) * unit


def normal_cost(neighbours: Neighbours, most: int, coverage: float) -> float:
    """rho by the convention of SafeTab-P (section 6.1), z^2 s / (2 m^2) with z the normal quantile.

    >>> round(
    ...     normal_cost(Neighbours.BOUNDED, 3, 0.95), 3
    ... )  # Table 7: 3.842 for a sensitivity 9 times as large
    0.427
    """
    return NormalDist().inv_cdf((1 + coverage) / 2) ** 2 * neighbours.sensitivity / (2 * most**2)


def _draw(plan: Plan, schema: Schema, level: str, query: str) -> PlannedMeasurement:
    """The draw of the plan that measures this query at this level, in any spelling of the query."""
    groupings = schema.query(query).groupings
    for d in (d for d in plan.plain if d.level == level):
        if schema.query(d.query).groupings == groupings:
            return d
    levels = dict.fromkeys(d.level for d in plan.measurements)
    known = (
        f"it measures {', '.join(d.query for d in plan.plain if d.level == level)}"
        if level in levels
        else (f"the levels are {', '.join(levels)}")
    )
    raise SpecError("the plan has no such draw", where=f"{level}:{query}", remedy=known)


def _added(
    plan: Plan, schema: Schema, added: Mapping[LevelQuery, Fraction]
) -> dict[LevelQuery, Fraction]:
    """The costs to add, each at a level of the plan. A query that is already measured there gets
    the plan's spelling.
    """
    out: dict[LevelQuery, Fraction] = {}
    for (level, query), cost in added.items():
        where, groupings = f"{level}:{query}", schema.query(query).groupings
        if not plan.at(level):
            raise SpecError(
                f"{level!r} is not a level",
                where=where,
                remedy=f"the levels are {', '.join(dict.fromkeys(d.level for d in plan.measurements))}",
            )
        if cost <= 0:
            raise SpecError(f"the cost is {cost}, not positive", where=where)
        same = (
            d.query
            for d in plan.plain
            if d.level == level and schema.query(d.query).groupings == groupings
        )
        out = _sum(out, {(level, next(same, query)): cost})
    return out


def _sum(
    costs: Mapping[LevelQuery, Fraction], more: Mapping[LevelQuery, Fraction]
) -> dict[LevelQuery, Fraction]:
    return {
        place: costs.get(place, Fraction(0)) + more.get(place, Fraction(0))
        for place in {**costs, **more}
    }


def repriced(like: Plan, costs: Mapping[LevelQuery, Fraction]) -> Plan:
    """A plan with these costs, level by level, and with the classes and paths of ``like`` where
    units of a level have classes.
    """
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
    classes = None if alike else chains.classes(like.levels, like.paths)
    return Plan.of(total, like.mechanism, like.neighbours, allocation, classes, like.paths)
