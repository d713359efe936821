r"""Privacy-loss budgets, exactly.

Queries partition the cells, so between neighbors one query's answers differ in at most s places,
by 1 each: s is 1 when neighbors differ by one record added or removed, 2 when one record is
replaced. What that costs is the mechanism's (:mod:`das.model.mechanisms`); it adds up over draws in
one currency. All of it is in ``Fraction``.

**Paths, not levels, are what adds up.** A record lies in one unit of each level, on a path from the
root to a leaf. Units of a level that are measured alike are a *class* of it; those of a class
without draws are not measured. A record affects only the measurements of the classes on its path.
Let :math:`c_i` be the sum of their costs on path i.

* *Added or removed*: the loss is :math:`c_i` at most.
* *Replaced*, from path i to path j: in a unit on both, two answers of each query change by 1, which
  costs what the measurement says; in a unit on one of them one answer does, which costs half of it,
  as costs are proportional to the number of answers. Together at most :math:`\tfrac12 c_i +
  \tfrac12 c_j`.

Either way no more than :math:`\max_i c_i`, the cost of the costliest path: that is what a plan costs.
With one class to a level there is one path, and its cost is the sum of all measurements; shares
that sum to 1, over levels and within each, make it the budget exactly.

*Units that overlap.* A record may be in several units of a class at once, such as race and ethnic
groups: at most its ``stability`` z. Then up to z answers of a measurement change instead of one.
The measurement costs z times as much, or has correspondingly more noise. (A record that is replaced
leaves z units and comes to z others.) So z multiplies s in every cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import lcm

from das.errors import PrivacyError, SpecError
from das.model.exact import exact
from das.model.frozen import Frozen
from das.model.mechanisms import COVERAGE, Mechanism


class Neighbours(Enum):
    """The neighbor relation between data sets."""

    BOUNDED = "bounded"  #: one record is replaced by another
    UNBOUNDED = "unbounded"  #: one record is added or removed

    @property
    def sensitivity(self) -> int:
        """Answers that change by 1 between neighbors: the L1 and the squared L2 sensitivity of a
        query."""
        return 2 if self is Neighbours.BOUNDED else 1


#: The class of a level's units if all are measured alike.
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
        """The variance of one answer's noise, published with the answer. It is public, and not part
        of the guarantee."""
        return self.mechanism.variance(self.parameter)

    def margin(self, coverage: float = COVERAGE) -> int:
        """The smallest integer m with P[|noise| <= m] >= ``coverage``, for one answer."""
        return self.mechanism.margin(self.parameter, coverage)


@dataclass(frozen=True)
class PlannedMeasurement(QueryNoise):
    """One measurement to be made, and its ``cost`` in the mechanism's currency. The cost and the
    neighbor relation determine the parameter, and vice versa. ``stability``: the number of its
    units that one record can be in."""

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
    ) -> PlannedMeasurement:
        """With the noise that ``cost`` allows."""
        if cost <= 0:
            raise PrivacyError(f"{query!r} at {level!r} costs {cost}, not positive", where="plan")
        parameter = mechanism.parameter(cost, neighbours.sensitivity * stability)
        return PlannedMeasurement(
            level, query, mechanism, parameter, cost, unit_class=unit_class, stability=stability
        )

    @property
    def place(self) -> tuple[str, str]:
        """Level and class of the units that it measures."""
        return self.level, self.unit_class


def total(measurements: Iterable[PlannedMeasurement]) -> Fraction:
    """The sum of the costs of measurements that one record sees. It is added up over one
    denominator: as exact, and ten times as fast. Raises :class:`PrivacyError` for two currencies.
    """
    every = tuple(measurements)
    check_currency(every)
    below = lcm(*(d.cost.denominator for d in every))
    return Fraction(sum(d.cost.numerator * (below // d.cost.denominator) for d in every), below)


def check_currency(measurements: Iterable[PlannedMeasurement]) -> None:
    """Raises :class:`PrivacyError` for two currencies: their costs do not add up."""
    by_currency = {d.mechanism.currency: d.mechanism for d in measurements}
    if len(by_currency) > 1:
        raise PrivacyError(
            f"the costs of {' and '.join(f'{m} noise ({c})' for c, m in by_currency.items())} do"
            " not add up",
            where="budget",
            remedy="measure all of it with mechanisms of one currency",
        )


def seen(
    measurements: Iterable[PlannedMeasurement], path: UnitPath
) -> Iterator[PlannedMeasurement]:
    """The measurements of the classes on a path."""
    places = set(path)
    return (d for d in measurements if (d.level, d.unit_class) in places)


def check_covered(measurements: Iterable[PlannedMeasurement], paths: Iterable[UnitPath]) -> None:
    """Raises :class:`PrivacyError` for a measurement on none of the paths: its cost would be
    counted nowhere."""
    known = {place for path in paths for place in path}
    for d in measurements:
        if d.place not in known:
            raise PrivacyError(
                f"{d.query!r} of class {d.unit_class!r} at {d.level!r} is on no path: its cost"
                " would be counted nowhere",
                where="budget",
            )


def costliest(measurements: Sequence[PlannedMeasurement], paths: Sequence[UnitPath]) -> Fraction:
    """The cost of the costliest path. Raises :class:`PrivacyError` for a measurement on none, and for
    two currencies."""
    check_covered(measurements, paths)
    check_currency(measurements)
    return max((total(seen(measurements, path)) for path in paths), default=Fraction(0))


def through(measurements: Iterable[PlannedMeasurement]) -> UnitPath:
    """The one path that draws of one class to a level lie on. Raises :class:`PrivacyError` where a
    level has several classes: which of them one record sees is not in the measurements."""
    path = tuple(dict.fromkeys(d.place for d in measurements))
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
                    "where units of a level are measured differently, give the paths of the tree"
                ),
            )
        classes[level] = unit_class


# Shares of a budget, exactly.

#: An exact number, and shares by name; a list of names has equal shares.
Exactly = Fraction | int | str
Shares = Mapping[str, Exactly] | Sequence[str]


@dataclass(frozen=True)
class Allocation(Frozen):
    """Shares of a budget: each level's share of the total, and each query's share of its level."""

    levels: Mapping[str, Fraction]
    queries: Mapping[str, Mapping[str, Fraction]]

    def __post_init__(self) -> None:
        _shares("budget.levels", self.levels)
        if missing := [lv for lv in self.levels if lv not in self.queries]:
            raise SpecError(
                f"no queries for level {missing[0]!r}",
                where="budget.queries",
                remedy=f"add a table [budget.queries.{missing[0]}]",
            )
        if extra := [lv for lv in self.queries if lv not in self.levels]:
            raise SpecError(
                f"queries for level {extra[0]!r}, which has no share",
                where=f"budget.queries.{extra[0]}",
                remedy=f"add {extra[0]} to [budget.levels], or delete the table",
            )
        for level, shares in self.queries.items():
            _shares(f"budget.queries.{level}", shares)

    @staticmethod
    def from_shares(levels: Shares, queries: Shares | Mapping[str, Shares]) -> Allocation:
        """From exact numbers as people write them. ``queries`` hold at every level, or are given by
        level."""
        of_level = _exact_shares(levels, "levels")
        given = _by_level(queries)
        of_query = {
            level: _exact_shares(
                queries if given is None else given.get(level, ()), f"queries of {level}"
            )
            for level in of_level
        }
        _shares("plan, shares of levels", of_level)
        for level, shares in of_query.items():
            _shares(f"plan, shares of queries at {level}", shares)
        if given and (odd := set(given) - set(of_level)):
            raise SpecError(
                f"queries for {sorted(odd)[0]!r}, which has no share",
                where="plan",
                remedy="add it to levels",
            )
        return Allocation(of_level, of_query)


def _shares(where: str, shares: Mapping[str, Fraction]) -> None:
    for key, value in shares.items():
        if not isinstance(value, Fraction):
            raise SpecError(
                f"{key!r} is a {type(value).__name__}, not an exact fraction", where=where
            )
        if value <= 0:
            raise SpecError(f"the share of {key!r} is {value}, not positive", where=where)
    if (total := sum(shares.values(), Fraction(0))) != 1:
        raise SpecError(
            f"the shares sum to {total} (about {float(total):.6g}), not to exactly 1",
            where=where,
            remedy='shares are exact fractions such as "104/4099"; fix the one that is wrong',
        )


def _by_level(queries: Shares | Mapping[str, Shares]) -> Mapping[str, Shares] | None:
    """What is given by level, if all of it is."""
    if not isinstance(queries, Mapping):
        return None
    given = {level: q for level, q in queries.items() if isinstance(q, Mapping | list | tuple)}
    return given if len(given) == len(queries) else None


def _exact_shares(shares: Mapping[str, object] | Sequence[str], what: str) -> dict[str, Fraction]:
    if isinstance(shares, str) or not shares:
        raise SpecError(
            f"{what} are {shares!r}", where="plan", remedy="list them, or give each its share"
        )
    if isinstance(shares, Mapping):
        return {name: number(share, f"{what}, {name!r}") for name, share in shares.items()}
    return {name: Fraction(1, len(shares)) for name in shares}


def number(value: object, what: str) -> Fraction:
    """An exact number of a plan. Raises :class:`SpecError`."""
    try:
        return exact(value)
    except ValueError as error:
        raise SpecError(str(error), where=f"plan, {what}") from None
