r"""Privacy-loss budgets, exactly.

Queries partition the cells, so between neighbours one query's answers differ in at most s places,
by 1 each: s is 1 when neighbours differ by one record added or removed, 2 when one record is
replaced. What that costs is the mechanism's (:mod:`das.model.mechanisms`); it adds up over draws in
one currency. All of it is in ``Fraction``.

**Paths, not levels, are what adds up.** A record lies in one unit of each level, on a path from the
root to a leaf. Units of a level that are measured alike are a *class* of it; those of a class
without draws are not measured. A record sees the draws of the classes on its path, and of no other
unit. Let :math:`c_i` be the sum of their costs on path i.

* *Added or removed*: the loss is :math:`c_i` at most.
* *Replaced*, from path i to path j: in a unit on both, two answers of each query change by 1, which
  costs what the draw says; in a unit on one of them one answer does, which costs half of it, as
  costs are proportional to the number of answers. Together at most :math:`\tfrac12 c_i + \tfrac12
  c_j`.

Either way no more than :math:`\max_i c_i`, the cost of the dearest path: that is what a plan costs.
With one class to a level there is one path, and its cost is the sum of all draws; shares that sum
to 1, over levels and within each, make it the budget exactly.

*Units that overlap.* Where a record may be in several units of a class at once, such as groups of a
population, no more than its ``stability`` z, each answer of a draw that changes does so z times:
the draw costs z times as much, or has as much more noise. (A record that is replaced leaves z units
and comes to z others.) So z stands beside s wherever a cost is reckoned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from das.errors import PrivacyError, SpecError
from das.model.allocation import Allocation, Exactly, Shares, number
from das.model.mechanism import Mechanism
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC


class Neighbours(Enum):
    """Which data sets count as neighbours."""

    BOUNDED = "bounded"  #: one record is replaced by another
    UNBOUNDED = "unbounded"  #: one record is added or removed

    @property
    def sensitivity(self) -> int:
        """Answers that change by 1 between neighbours: the L1 and the squared L2 sensitivity of a
        query.
        """
        return 2 if self is Neighbours.BOUNDED else 1


#: The class of the units of a level that are all measured alike.
ALL = "all"
#: The classes that the units above a leaf, and the leaf, belong to: pairs of level and class, root
#: first.
UnitPath = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class QueryNoise:
    """The noise that every unit of one class of ``level`` answers ``query`` with; ``parameter`` is
    sigma^2 or the Laplace scale."""

    level: str
    query: str
    mechanism: Mechanism
    parameter: Fraction
    unit_class: str = field(default=ALL, kw_only=True)

    @property
    def variance(self) -> float:
        """Of one answer's noise, as published beside it. Public, and not part of the guarantee."""
        return self.mechanism.variance(self.parameter)

    def margin(self, coverage: float = 0.95) -> int:
        """The smallest integer m with P[|noise| <= m] >= ``coverage``, for one answer."""
        return self.mechanism.margin(self.parameter, coverage)


@dataclass(frozen=True)
class Draw(QueryNoise):
    """One measurement to be made, and its ``cost`` in the mechanism's currency: the parameter
    follows from it and the neighbour relation, and it from these. ``stability``: in how many of its
    units a record can be."""

    cost: Fraction
    stability: int = field(default=1, kw_only=True)

    @staticmethod
    def priced(
        level: str,
        query: str,
        mechanism: Mechanism,
        neighbours: Neighbours,
        cost: Fraction,
        unit_class: str = ALL,
        stability: int = 1,
    ) -> Draw:
        """With the noise that ``cost`` allows."""
        if cost <= 0:
            raise PrivacyError(f"{query!r} at {level!r} costs {cost}, not positive", where="plan")
        parameter = mechanism.parameter(cost, neighbours.sensitivity * stability)
        return Draw(
            level, query, mechanism, parameter, cost, unit_class=unit_class, stability=stability
        )

    @property
    def place(self) -> tuple[str, str]:
        """Level and class of the units that it measures."""
        return self.level, self.unit_class


def total(draws: Iterable[Draw]) -> Fraction:
    """The sum of the costs of draws that one record sees. Raises :class:`PrivacyError` for two
    currencies.
    """
    every = tuple(draws)
    _check_currency(every)
    return sum((d.cost for d in every), Fraction(0))


def _check_currency(draws: Iterable[Draw]) -> None:
    by_currency = {d.mechanism.currency: d.mechanism for d in draws}
    if len(by_currency) > 1:
        raise PrivacyError(
            f"the costs of {' and '.join(f'{m} noise ({c})' for c, m in by_currency.items())} do"
            " not add up",
            where="budget",
            remedy="measure all of it with mechanisms of one currency",
        )


def seen(draws: Iterable[Draw], path: UnitPath) -> Iterator[Draw]:
    """The draws of the classes on a path."""
    places = set(path)
    return (d for d in draws if d.place in places)


def check_covered(draws: Iterable[Draw], paths: Iterable[UnitPath]) -> None:
    """Raises :class:`PrivacyError` for a draw on none of the paths: its cost would be counted
    nowhere.
    """
    known = {place for path in paths for place in path}
    for d in draws:
        if d.place not in known:
            raise PrivacyError(
                f"{d.query!r} of class {d.unit_class!r} at {d.level!r} is on no path: its cost"
                " would be counted nowhere",
                where="budget",
            )


def dearest(draws: Sequence[Draw], paths: Sequence[UnitPath]) -> Fraction:
    """The cost of the dearest path. Raises :class:`PrivacyError` for a draw on none, and for two
    currencies.
    """
    check_covered(draws, paths)
    _check_currency(draws)
    return max((total(seen(draws, path)) for path in paths), default=Fraction(0))


def through(draws: Iterable[Draw]) -> UnitPath:
    """The one path that draws of one class to a level lie on. Raises :class:`PrivacyError` where a
    level has several classes: which of them one record sees is not in the draws."""
    path = tuple(dict.fromkeys(d.place for d in draws))
    _check_once(path)
    return path


def _check_once(path: UnitPath) -> None:
    classes: dict[str, str] = {}
    for level, unit_class in path:
        if level in classes:
            raise PrivacyError(
                f"a path has two classes of {level!r}, {classes[level]!r} and {unit_class!r}",
                where="plan",
                remedy=(
                    "where units of a level are measured differently, give the paths that there are"
                ),
            )
        classes[level] = unit_class


@dataclass(frozen=True, repr=False)
class Plan:
    """What will be measured and what it costs: the draws of all classes of units, and the paths
    that these lie on.

    ``draws`` are in the order of the levels, root first. ``paths`` may be left out where each level
    has one class. A class that is on a path and has no draws is not measured."""

    neighbours: Neighbours
    draws: tuple[Draw, ...]
    paths: tuple[UnitPath, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", tuple(self.draws))
        object.__setattr__(
            self, "paths", tuple(tuple(p) for p in self.paths) or (through(self.draws),)
        )
        for d in self.draws:
            if d.cost <= 0 or d.parameter != d.mechanism.parameter(
                d.cost, self.neighbours.sensitivity * d.stability
            ):
                raise PrivacyError(
                    f"noise of {d.mechanism.symbol} {d.parameter} does not cost {d.cost} under "
                    f"{self.neighbours.value} neighbours",
                    where=f"plan, {d.query!r} at {d.level!r}",
                )
        self._check_paths()

    def _check_paths(self) -> None:
        """Paths have one class of each level, the same levels in the same order; every draw is on a
        path.
        """
        for path in self.paths:
            _check_once(path)
            if (levels := tuple(level for level, _ in path)) != self.levels:
                raise PrivacyError(
                    f"a path has the levels {', '.join(levels)}, another {', '.join(self.levels)}",
                    where="plan",
                )
        check_covered(self.draws, self.paths)

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
        Or ``classes``: for each level and class of it the levels whose shares its units are
        measured with, split among the queries of their own level; and the ``paths`` that they lie
        on, of each of which the shares must sum to 1.

        >>> from das.model.mechanisms import DISCRETE_GAUSSIAN
        >>> half = Fraction(1, 2)
        >>> shares = Allocation(
        ...     {"A": half, "B": half}, {"A": {"total": Fraction(1)}, "B": {"total": Fraction(1)}}
        ... )
        >>> [
        ...     d.parameter
        ...     for d in Plan.of(Fraction(4), DISCRETE_GAUSSIAN, Neighbours.BOUNDED, shares).draws
        ... ]
        [Fraction(1, 2), Fraction(1, 2)]
        """
        if budget <= 0:
            raise SpecError(
                f"the budget is {budget}",
                where=f"budget.{mechanism.currency}",
                remedy="give a positive one",
            )
        draws = []
        for (level, unit_class), held in (
            classes or {(level, ALL): (level,) for level in allocation.levels}
        ).items():
            share = sum((allocation.levels[other] for other in held), Fraction(0))
            if share:
                draws += [
                    Draw.priced(
                        level, query, mechanism, neighbours, budget * share * part, unit_class
                    )
                    for query, part in allocation.queries[level].items()
                ]
        plan = Plan(neighbours, tuple(draws), tuple(paths))
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
        """Discrete Gaussian noise of ``rho`` in all: a share of it for each level, and in each
        level for each query.

        Shares are exact (fractions as texts, or integers; floats are refused) and sum to 1; a list
        of names has equal ones. ``queries`` hold at every level, or are given by level.
        ``neighbours``: ``"bounded"`` if a record is replaced, ``"unbounded"`` if one is added or
        removed. Raises :class:`SpecError`.

        >>> Plan.of_rho("1/2", {"State": "1/4", "County": "3/4"}, ["total", "sex * age"])
        <Plan: rho = 1/2, 4 queries at 2 levels, discrete-gaussian, bounded neighbours>
        """
        return _split(DISCRETE_GAUSSIAN, rho, levels, queries, neighbours)

    @staticmethod
    def of_epsilon(
        epsilon: Exactly,
        levels: Shares,
        queries: Shares | Mapping[str, Shares],
        neighbours: str = "bounded",
    ) -> Plan:
        """Two-sided geometric noise of ``epsilon`` in all (pure differential privacy); the rest as
        in :meth:`of_rho`.
        """
        return _split(GEOMETRIC, epsilon, levels, queries, neighbours)

    def __repr__(self) -> str:
        levels, noise = (
            len({d.level for d in self.draws}),
            dict.fromkeys(d.mechanism for d in self.draws),
        )
        cost = f"{self.mechanism.currency} = {self.cost}, " if len(noise) == 1 else ""
        return (
            f"<Plan: {cost}{len(self.draws)} queries at {levels} levels,"
            f" {', '.join(map(str, noise)) or 'no noise'}, {self.neighbours.value} neighbours>"
        )

    @staticmethod
    def priced(
        mechanism: Mechanism, neighbours: Neighbours, costs: Iterable[tuple[str, str, Fraction]]
    ) -> Plan:
        """The plan that measures each ``(level, query, cost)`` with the noise that this cost
        allows; one class to a level.
        """
        draws = (
            Draw.priced(level, query, mechanism, neighbours, cost) for level, query, cost in costs
        )
        return Plan(neighbours, tuple(draws))

    def along(self, paths: Sequence[UnitPath]) -> Plan:
        """The same of some paths alone: the draws of the classes that lie on them."""
        kept = {place for path in paths for place in path}
        return Plan(self.neighbours, tuple(d for d in self.draws if d.place in kept), tuple(paths))

    def scaled(self, budget: Fraction) -> Plan:
        """The same shares of another total: every path costs the same multiple of what it did."""
        factor = budget / self.cost
        draws = (
            Draw.priced(
                d.level,
                d.query,
                d.mechanism,
                self.neighbours,
                d.cost * factor,
                d.unit_class,
                d.stability,
            )
            for d in self.draws
        )
        return Plan(self.neighbours, tuple(draws), self.paths)

    @property
    def cost(self) -> Fraction:
        """Of the dearest path: what it costs to replace, or to add or remove, one record
        anywhere.
        """
        return dearest(self.draws, self.paths)

    @property
    def mechanism(self) -> Mechanism:
        """That of all draws. Raises :class:`PrivacyError` where they have several, or there are
        none.
        """
        found = list(dict.fromkeys(d.mechanism for d in self.draws))
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

    def at(self, level: str) -> tuple[Draw, ...]:
        """The draws of all classes of a level."""
        return tuple(d for d in self.draws if d.level == level)

    def classes(self, level: str) -> tuple[str, ...]:
        """The classes of a level, those without draws among them; none where the plan does not have
        the level.
        """
        return tuple(dict.fromkeys(name for path in self.paths for lv, name in path if lv == level))

    def of_class(self, level: str, unit_class: str = ALL) -> tuple[Draw, ...]:
        """The draws of one class of a level: none where its units are not measured. Raises
        ``KeyError`` where the level has no such class."""
        if unit_class not in self.classes(level):
            raise KeyError(f"{level!r} has no class {unit_class!r}")
        return tuple(d for d in self.at(level) if d.unit_class == unit_class)

    def on(self, path: UnitPath) -> tuple[Draw, ...]:
        """The draws that a record on one of the paths sees."""
        return tuple(seen(self.draws, path))

    @property
    def plain(self) -> tuple[Draw, ...]:
        """The draws on the first of the paths: where there are only children, on that without any
        (:func:`das.model.chains.conceivable`)."""
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
