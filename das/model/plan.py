"""What is measured of each level by each query, at which cost: a budget shared out, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from das.errors import PrivacyError, SpecError
from das.model.allocation import Allocation, Exactly, Shares, number
from das.model.budget import (
    ALL,
    Neighbours,
    PlannedMeasurement,
    UnitPath,
    _check_once,
    check_covered,
    dearest,
    seen,
    through,
    total,
)
from das.model.mechanism import Mechanism
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC


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
    def of(
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
        ...     for d in Plan.of(
        ...         Fraction(4), DISCRETE_GAUSSIAN, Neighbours.BOUNDED, shares
        ...     ).measurements
        ... ]
        [Fraction(1, 2), Fraction(1, 2)]
        """
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
        <Plan: rho = 1/2, 4 queries at 2 levels, discrete-gaussian, bounded neighbors>
        """
        return _split(DISCRETE_GAUSSIAN, rho, levels, queries, neighbours)

    @staticmethod
    def of_epsilon(
        epsilon: Exactly,
        levels: Shares,
        queries: Shares | Mapping[str, Shares],
        neighbours: str = "bounded",
    ) -> Plan:
        """A plan with two-sided geometric noise and the total ``epsilon`` (pure differential
        privacy); otherwise like ``of_rho``.
        """
        return _split(GEOMETRIC, epsilon, levels, queries, neighbours)

    def __repr__(self) -> str:
        levels, noise = (
            len({d.level for d in self.measurements}),
            dict.fromkeys(d.mechanism for d in self.measurements),
        )
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
        one class to a level.
        """
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
        """The cost of the dearest path: that of replacing, or adding or removing, one record
        anywhere.
        """
        return dearest(self.measurements, self.paths)

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
        the level.
        """
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
        without any (:func:`das.model.chains.conceivable`)."""
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
    allocation = Allocation.of(levels, queries)
    return Plan.of(
        number(budget, mechanism.currency), mechanism, Neighbours(neighbours), allocation
    )
