"""What is measured of each level by each query, at which cost: a budget shared out, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from das.errors import PrivacyError, SpecError
from das.model.budget import (
    ALL,
    Allocation,
    Exactly,
    Neighbours,
    PlannedMeasurement,
    Shares,
    UnitPath,
    _check_once,
    check_covered,
    costliest,
    number,
    seen,
    through,
    total,
)
from das.model.frozen import Frozen
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, Mechanism
from das.model.schema import Schema


@dataclass(frozen=True, repr=False)
class Plan:
    """The measurements to be made and their cost: the measurements of all classes of units, and the
    paths of these classes.

    ``measurements`` are in the order of the levels, root first. ``paths`` can be omitted if each
    level has one class. A class on a path without draws is not measured."""

    neighbours: Neighbours
    measurements: tuple[PlannedMeasurement, ...]
    paths: tuple[UnitPath, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", tuple(self.measurements))
        object.__setattr__(
            self, "paths", tuple(tuple(p) for p in self.paths) or (through(self.measurements),)
        )
        for d in self.measurements:
            if d.cost <= 0 or d.parameter != d.mechanism.parameter(
                d.cost, self.neighbours.sensitivity * d.stability
            ):
                raise PrivacyError(
                    f"noise of {d.mechanism.symbol} {d.parameter} does not cost {d.cost} under "
                    f"{self.neighbours.value} neighbors",
                    where=f"plan, {d.query!r} at {d.level!r}",
                )
        self._check_paths()

    def _check_paths(self) -> None:
        """Paths have one class of each level, the same levels in the same order; every measurement
        is on a path."""
        for path in self.paths:
            _check_once(path)
            if (levels := tuple(level for level, _ in path)) != self.levels:
                raise PrivacyError(
                    f"a path has the levels {', '.join(levels)}, another {', '.join(self.levels)}",
                    where="plan",
                )
        check_covered(self.measurements, self.paths)

    @staticmethod
    def from_allocation(
        budget: Fraction,
        mechanism: Mechanism,
        neighbours: Neighbours,
        allocation: Allocation,
        classes: Mapping[tuple[str, str], Iterable[str]] | None = None,
        paths: Sequence[UnitPath] = (),
    ) -> Plan:
        """Split ``budget`` (in the mechanism's currency) by the allocation; one class to a level.
        Or ``classes``: for each level and class, the levels whose shares its units are measured
        with, split among the queries of their own level; and their ``paths``. The shares on each
        path must sum to 1.

        >>> from das.model.mechanisms import DISCRETE_GAUSSIAN
        >>> half = Fraction(1, 2)
        >>> shares = Allocation(
        ...     {"A": half, "B": half}, {"A": {"total": Fraction(1)}, "B": {"total": Fraction(1)}}
        ... )
        >>> [
        ...     d.parameter
        ...     for d in Plan.from_allocation(
        ...         Fraction(4), DISCRETE_GAUSSIAN, Neighbours.BOUNDED, shares
        ...     ).measurements
        ... ]
        [Fraction(1, 2), Fraction(1, 2)]"""
        if budget <= 0:
            raise SpecError(
                f"the budget is {budget}",
                where=f"budget.{mechanism.currency}",
                remedy="give a positive one",
            )
        measurements = []
        for (level, unit_class), held in (
            classes or {(level, ALL): (level,) for level in allocation.levels}
        ).items():
            share = sum((allocation.levels[other] for other in held), Fraction(0))
            if share:
                measurements += [
                    PlannedMeasurement.priced(
                        level, query, mechanism, neighbours, budget * share * part, unit_class
                    )
                    for query, part in allocation.queries[level].items()
                ]
        plan = Plan(neighbours, tuple(measurements), tuple(paths))
        for path in plan.paths:
            if (cost := total(plan.on(path))) != budget:
                raise PrivacyError(
                    f"the shares on a path ({', '.join(f'{lv}: {c}' for lv, c in path)}) cost"
                    f" {cost}, not the budget of {budget}",
                    where="plan",
                )
        return plan

    @staticmethod
    def of_rho(
        rho: Exactly,
        levels: Shares,
        queries: Shares | Mapping[str, Shares],
        neighbours: str = "bounded",
    ) -> Plan:
        """A plan with discrete Gaussian noise and the total ``rho``: a share for each level, and in
        each level for each query.

        Shares are exact (fractions as texts, or integers; floats are refused) and sum to 1; a list
        of names has equal ones. ``queries`` hold at every level, or are given by level.
        ``neighbours``: ``"bounded"`` if a record is replaced, ``"unbounded"`` if one is added or
        removed. Raises :class:`SpecError`.

        >>> Plan.of_rho("1/2", {"State": "1/4", "County": "3/4"}, ["total", "sex * age"])
        <Plan: rho = 1/2, 4 queries at 2 levels, discrete-gaussian, bounded neighbors>"""
        return _split(DISCRETE_GAUSSIAN, rho, levels, queries, neighbours)

    @staticmethod
    def of_epsilon(
        epsilon: Exactly,
        levels: Shares,
        queries: Shares | Mapping[str, Shares],
        neighbours: str = "bounded",
    ) -> Plan:
        """A plan with two-sided geometric noise and the total ``epsilon`` (pure differential
        privacy); otherwise like ``of_rho``."""
        return _split(GEOMETRIC, epsilon, levels, queries, neighbours)

    def __repr__(self) -> str:
        levels = len({d.level for d in self.measurements})
        noise = dict.fromkeys(d.mechanism for d in self.measurements)
        cost = f"{self.mechanism.currency} = {self.cost}, " if len(noise) == 1 else ""
        return (
            f"<Plan: {cost}{len(self.measurements)} queries at {levels} levels,"
            f" {', '.join(map(str, noise)) or 'no noise'}, {self.neighbours.value} neighbors>"
        )

    @staticmethod
    def priced(
        mechanism: Mechanism, neighbours: Neighbours, costs: Iterable[tuple[str, str, Fraction]]
    ) -> Plan:
        """A plan that measures each ``(level, query, cost)`` with the noise that this cost buys;
        one class to a level."""
        measurements = (
            PlannedMeasurement.priced(level, query, mechanism, neighbours, cost)
            for level, query, cost in costs
        )
        return Plan(neighbours, tuple(measurements))

    def along(self, paths: Sequence[UnitPath]) -> Plan:
        """The plan restricted to some paths: the measurements of their classes."""
        kept = {place for path in paths for place in path}
        return Plan(
            self.neighbours, tuple(d for d in self.measurements if d.place in kept), tuple(paths)
        )

    def scaled(self, budget: Fraction) -> Plan:
        """The plan with the same shares of another total: the cost of every path changes by one
        factor."""
        factor = budget / self.cost
        measurements = (
            PlannedMeasurement.priced(
                d.level,
                d.query,
                d.mechanism,
                self.neighbours,
                d.cost * factor,
                d.unit_class,
                d.stability,
            )
            for d in self.measurements
        )
        return Plan(self.neighbours, tuple(measurements), self.paths)

    @cached_property
    def cost(self) -> Fraction:
        """The cost of the costliest path: that of replacing, or adding or removing, one record
        anywhere."""
        return costliest(self.measurements, self.paths)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of all measurements. Raises ``PrivacyError`` if they have several, or if
        there are none."""
        found = list(dict.fromkeys(d.mechanism for d in self.measurements))
        if len(found) != 1:
            raise PrivacyError(
                f"this plan has {', '.join(map(str, found)) or 'no'} noise, and one kind is"
                " asked for",
                where="plan",
            )
        return found[0]

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of every path, root first."""
        return tuple(level for level, _ in self.paths[0])

    def at(self, level: str) -> tuple[PlannedMeasurement, ...]:
        """The measurements of all classes of a level."""
        return tuple(d for d in self.measurements if d.level == level)

    def classes(self, level: str) -> tuple[str, ...]:
        """The classes of a level, including those without draws; none if the plan does not have
        the level."""
        return tuple(dict.fromkeys(name for path in self.paths for lv, name in path if lv == level))

    def of_class(self, level: str, unit_class: str = ALL) -> tuple[PlannedMeasurement, ...]:
        """The measurements of one class of a level; none if its units are not measured. Raises
        ``KeyError`` if the level has no such class."""
        if unit_class not in self.classes(level):
            raise KeyError(f"{level!r} has no class {unit_class!r}")
        return tuple(d for d in self.at(level) if d.unit_class == unit_class)

    def on(self, path: UnitPath) -> tuple[PlannedMeasurement, ...]:
        """The measurements that a record on one of the paths affects."""
        return tuple(seen(self.measurements, path))

    @property
    def plain(self) -> tuple[PlannedMeasurement, ...]:
        """The measurements on the first of the paths: where there are only children, on that
        without any (:func:`das.model.tabulation.conceivable`)."""
        return self.on(self.paths[0])


def _split(
    mechanism: Mechanism,
    budget: Exactly,
    levels: Shares,
    queries: Shares | Mapping[str, Shares],
    neighbours: str,
) -> Plan:
    if neighbours not in (known := [n.value for n in Neighbours]):
        raise SpecError(
            f"neighbours are {neighbours!r}", where="plan", remedy=f"say {' or '.join(known)}"
        )
    allocation = Allocation.from_shares(levels, queries)
    return Plan.from_allocation(
        number(budget, mechanism.currency), mechanism, Neighbours(neighbours), allocation
    )


# Strategies: what is measured at which cost, and the outer passes in which a level is estimated.
#
# An *outer pass* goes all the way to integers, while the passes of :mod:`das.model.post_processing` are parts
# of one least squares. It estimates its own queries by least squares. It rounds the sums of a chain
# of nested queries together, and *freezes* the finest of these: a later pass only splits the frozen
# counts. Let :math:`F_1, F_2, \dots` be the frozen queries, each a sum of the next, the last being
# the cells themselves. Pass :math:`i` solves
#
# .. math:: \min_{x \ge 0} \sum_{q \in \text{pass } i} \sum_c \rho_q \|Q_q x_c - m_{qc}\|^2
# \quad\text{with}\quad \sum_c x_c = p, \quad F_{i-1} x_c = f_{i-1,c},
#
# and :math:`f_{i,c}` are the integers to which :math:`F_i x_c` is rounded. Once a later pass can
# exchange only cells of the same frozen count, it falls into one small problem for each frozen count.
#
# Source: the Bureau's production code of 2020 (``strategies.py``: ``L2_measure_in_pass``,
# ``rounder``, one inner pass to each).


@dataclass(frozen=True)
class OuterPass:
    """The ``queries`` of its least squares, and the ``chain`` of nested queries, fine to coarse,
    whose sums are rounded together. ``ahead``: queries of a later pass that are used here already,
    for each variable of one cell alone: no later pass can change it, or use them for it."""

    queries: tuple[str, ...]
    chain: tuple[str, ...]
    ahead: tuple[str, ...] = ()

    @property
    def frozen(self) -> str:
        """The query whose answers no later pass changes."""
        return self.chain[0]


@dataclass(frozen=True)
class Strategy(Frozen):
    """A strategy for records with the attributes of ``schema``: ``rho[level][query]`` at each
    level, root first, and the ``outer`` passes, the same at all levels. A level need not measure
    every query of the passes.

    Raises :class:`SpecError` for queries that the schema lacks, a chain that does not nest, and
    passes that do not end with the cells. Also raises it if a query is measured but not in exactly
    one pass, or in a pass but measured nowhere; and for a level that measures nothing."""

    schema: Schema
    rho: Mapping[str, Mapping[str, Fraction]]
    outer: tuple[OuterPass, ...]

    def __post_init__(self) -> None:
        where = f"strategy of schema {self.schema.name!r}"
        self._check_measured(where)
        every = [*(name for p in reversed(self.outer) for name in p.chain)]
        for fine, coarse in pairwise(map(self.schema.query, every)):
            if not coarse.sums(fine):
                raise SpecError(
                    f"{coarse.name!r} is no sum of {fine.name!r}",
                    where=where,
                    remedy="nest the rounded queries, in each pass and from pass to pass",
                )
        if not every or self.schema.query(every[0]).answers != self.schema.cells:
            raise SpecError(
                "the last pass does not end with the cells",
                where=where,
                remedy="round 'detailed' in it",
            )

    def _check_measured(self, where: str) -> None:
        used = [q for p in self.outer for q in p.queries]
        there: dict[str, str] = {}
        for level, queries in self.rho.items():
            there |= {q: level for q in queries if q not in there}
        odd = [q for q in used if used.count(q) > 1] + sorted(set(used) ^ set(there))
        odd += [
            q
            for i, p in enumerate(self.outer)
            for q in p.ahead
            if not self._is_cells(q) or q not in (x for r in self.outer[i + 1 :] for x in r.queries)
        ]
        if odd:
            at = there.get(odd[0], "any level")
            raise SpecError(
                f"{odd[0]!r} is measured at {at!r} or in a pass, and not once in both", where=where
            )
        for level, queries in self.rho.items():
            if not queries or min(queries.values()) <= 0:
                raise SpecError(
                    f"{level!r} measures nothing, or a query with a rho that is not positive",
                    where=where,
                    remedy="leave out what is not to be measured, and measure something",
                )

    def measuring(self, rho: Mapping[str, Mapping[str, Fraction]]) -> Strategy:
        """The same passes with these costs, by level and query.

        A new query joins the first pass whose frozen query tells its answers: a later pass could
        not change them. A query that no level measures leaves its pass. Raises
        :class:`SpecError`."""
        every = dict.fromkeys(q for queries in rho.values() for q in queries)
        placed = [[q for q in p.queries if q in every] for p in self.outer]
        frozen = [self.schema.query(p.frozen) for p in self.outer]
        known = {q for p in self.outer for q in p.queries}
        for name in (q for q in every if q not in known):
            query = self.schema.query(name)
            first = next((i for i, f in enumerate(frozen) if query.sums(f)), len(frozen) - 1)
            placed[first].append(name)
        passes = zip(placed, self.outer, strict=True)
        outer = tuple(replace(p, queries=tuple(names)) for names, p in passes)
        return Strategy(self.schema, rho, outer)

    def cells_first(self) -> Strategy:
        """The same measurements, and the cells' query used by all passes: where a variable is one
        cell, such as a single year of age, its answer counts before it is rounded."""
        cells = tuple(q for q in self.outer[-1].queries if self._is_cells(q))
        outer = tuple(replace(p, ahead=cells) for p in self.outer[:-1])
        return Strategy(self.schema, self.rho, (*outer, self.outer[-1]))

    def _is_cells(self, query: str) -> bool:
        return self.schema.query(query).answers == self.schema.cells

    @property
    def cost(self) -> Fraction:
        """rho of all levels."""
        return sum((r for queries in self.rho.values() for r in queries.values()), Fraction(0))

    @property
    def answers(self) -> int:
        """Numbers that are measured of a unit."""
        return sum(self.schema.query(name).answers for p in self.outer for name in p.queries)

    @property
    def allocation(self) -> Allocation:
        """The shares of :attr:`cost` by level, and in each level by query."""
        of_level = {
            level: sum(queries.values(), Fraction(0)) for level, queries in self.rho.items()
        }
        return Allocation(
            {level: rho / self.cost for level, rho in of_level.items()},
            {
                level: {q: r / of_level[level] for q, r in queries.items()}
                for level, queries in self.rho.items()
            },
        )

    def plan(self) -> Plan:
        """Discrete Gaussian noise of this cost, of bounded neighbors, on a tree where no unit is
        an only child."""
        shares = self.allocation
        return Plan.of_rho(self.cost, shares.levels, shares.queries)
