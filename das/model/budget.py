r"""Privacy-loss budgets, exactly.

Discrete Gaussian, zCDP: a query has squared :math:`L_2` sensitivity :math:`s` (1 when neighbours differ
by one record added or removed, 2 when one record is replaced), and noise :math:`N_Z(0, \sigma^2)` on each
answer costs :math:`\rho = s / (2\sigma^2)` (Canonne, Kamath and Steinke 2020, theorem 4). So

.. math:: \sigma^2 = 1/\rho \text{ (bounded)}, \qquad \sigma^2 = 1/(2\rho) \text{ (unbounded)}.

Two-sided geometric, pure DP: :math:`L_1` sensitivity :math:`s`, noise
:math:`P[X = x] \propto e^{-|x|/b}` with scale :math:`b = s/\varepsilon`.

Composition adds up: a plan whose levels' shares sum to 1, and whose query shares sum to 1 within each
level, costs exactly its budget. All of it is in ``Fraction``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from das.errors import PrivacyError, SpecError
from das.model.exact import exact


class Neighbours(Enum):
    """Which data sets count as neighbours."""

    BOUNDED = "bounded"  #: one record is replaced by another
    UNBOUNDED = "unbounded"  #: one record is added or removed

    @property
    def sensitivity(self) -> int:
        """Answers that change by 1 between neighbours: the L1 and the squared L2 sensitivity of a query."""
        return 2 if self is Neighbours.BOUNDED else 1


class Mechanism(Enum):
    DISCRETE_GAUSSIAN = "discrete-gaussian"
    GEOMETRIC = "geometric"

    @property
    def currency(self) -> str:
        """What the budget is counted in."""
        return "rho" if self is Mechanism.DISCRETE_GAUSSIAN else "epsilon"


@dataclass(frozen=True)
class Allocation:
    """Shares of a budget: of each level in the whole, and of each query in its level."""

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


def _shares(where: str, shares: Mapping[str, Fraction]) -> None:
    for key, value in shares.items():
        if not isinstance(value, Fraction):
            raise SpecError(f"{key!r} is a {type(value).__name__}, not an exact fraction", where=where)
        if value <= 0:
            raise SpecError(f"the share of {key!r} is {value}, not positive", where=where)
    if (total := sum(shares.values(), Fraction(0))) != 1:
        raise SpecError(
            f"the shares sum to {total} (about {float(total):.6g}), not to exactly 1",
            where=where,
            remedy='shares are exact fractions such as "104/4099"; mend the one that is off',
        )


@dataclass(frozen=True)
class Draw:
    """One measurement to be made: every unit of ``level`` answers ``query`` with noise of one scale.

    ``cost`` is rho (discrete Gaussian) or epsilon (geometric); ``scale`` is sigma^2, or b.
    """

    level: str
    query: str
    cost: Fraction
    scale: Fraction


#: An exact number, and shares by name; a list of names has equal shares.
Exactly = Fraction | int | str
Shares = Mapping[str, Exactly] | Sequence[str]


@dataclass(frozen=True, repr=False)
class Plan:
    """What will be measured and what it costs: the draws of all levels, root first."""

    mechanism: Mechanism
    neighbours: Neighbours
    draws: tuple[Draw, ...]

    def __post_init__(self) -> None:
        for d in self.draws:
            if d.cost <= 0 or d.scale != _scale(d.cost, self.mechanism, self.neighbours):
                raise PrivacyError(
                    f"noise of scale {d.scale} does not cost {d.cost} under {self.neighbours.value} neighbours",
                    where=f"plan, {d.query!r} at {d.level!r}",
                )

    @staticmethod
    def of(total: Fraction, mechanism: Mechanism, neighbours: Neighbours, allocation: Allocation) -> Plan:
        """Split ``total`` (rho or epsilon) by the allocation.

        >>> half = Fraction(1, 2)
        >>> shares = Allocation({"A": half, "B": half}, {"A": {"total": Fraction(1)}, "B": {"total": Fraction(1)}})
        >>> [d.scale for d in Plan.of(Fraction(4), Mechanism.DISCRETE_GAUSSIAN, Neighbours.BOUNDED, shares).draws]
        [Fraction(1, 2), Fraction(1, 2)]
        """
        if total <= 0:
            raise SpecError(
                f"the budget is {total}", where=f"budget.{mechanism.currency}", remedy="give a positive one"
            )
        plan = Plan.priced(
            mechanism, neighbours,
            [
                (level, query, total * share * part)
                for level, share in allocation.levels.items()
                for query, part in allocation.queries[level].items()
            ],
        )  # fmt: skip
        assert plan.cost == total  # a proof, not a hope: shares sum to exactly 1
        return plan

    @staticmethod
    def of_rho(
        rho: Exactly, levels: Shares, queries: Shares | Mapping[str, Shares], neighbours: str = "bounded"
    ) -> Plan:
        """Discrete Gaussian noise of ``rho`` in all: a share of it for each level, and in each level for each query.

        Shares are exact (fractions as texts, or integers; floats are refused) and sum to 1; a list of names has equal
        ones. ``queries`` hold at every level, or are given by level. ``neighbours``: ``"bounded"`` if a record is
        replaced, ``"unbounded"`` if one is added or removed. Raises :class:`SpecError`.

        >>> Plan.of_rho("1/2", {"State": "1/4", "County": "3/4"}, ["total", "sex * age"])
        <Plan: rho = 1/2, 4 queries at 2 levels, discrete-gaussian, bounded neighbours>
        """
        return _plan_of(Mechanism.DISCRETE_GAUSSIAN, rho, levels, queries, neighbours)

    @staticmethod
    def of_epsilon(
        epsilon: Exactly, levels: Shares, queries: Shares | Mapping[str, Shares], neighbours: str = "bounded"
    ) -> Plan:
        """Two-sided geometric noise of ``epsilon`` in all (pure differential privacy); the rest as in :meth:`of_rho`."""
        return _plan_of(Mechanism.GEOMETRIC, epsilon, levels, queries, neighbours)

    def __repr__(self) -> str:
        levels = len({d.level for d in self.draws})
        return (f"<Plan: {self.mechanism.currency} = {self.cost}, {len(self.draws)} queries at {levels} levels, "
                f"{self.mechanism.value}, {self.neighbours.value} neighbours>")  # fmt: skip

    @staticmethod
    def priced(mechanism: Mechanism, neighbours: Neighbours, costs: Iterable[tuple[str, str, Fraction]]) -> Plan:
        """The plan that measures each ``(level, query, cost)`` with the noise that this cost allows."""
        return Plan(mechanism, neighbours, tuple(Draw(*c, _scale(c[2], mechanism, neighbours)) for c in costs))

    def scaled(self, total: Fraction) -> Plan:
        """The same shares of another total."""
        costs = [(d.level, d.query, d.cost * total / self.cost) for d in self.draws]
        return Plan.priced(self.mechanism, self.neighbours, costs)

    @property
    def cost(self) -> Fraction:
        return sum((d.cost for d in self.draws), Fraction(0))

    def at(self, level: str) -> tuple[Draw, ...]:
        return tuple(d for d in self.draws if d.level == level)

    def variance(self, draw: Draw) -> float:
        """Of one answer's noise, nearly: sigma^2, or 2 b^2. To choose by, not to publish."""
        return float(draw.scale if self.mechanism is Mechanism.DISCRETE_GAUSSIAN else 2 * draw.scale**2)


def _plan_of(
    mechanism: Mechanism, total: Exactly, levels: Shares, queries: Shares | Mapping[str, Shares], neighbours: str
) -> Plan:
    if neighbours not in (known := [n.value for n in Neighbours]):
        raise SpecError(f"neighbours are {neighbours!r}", where="plan", remedy=f"say {' or '.join(known)}")
    of_level = _exact_shares(levels, "levels")
    by_level = isinstance(queries, Mapping) and all(isinstance(q, Mapping | list | tuple) for q in queries.values())
    of_query = {
        level: _exact_shares(queries.get(level, ()) if by_level else queries, f"queries of {level}")  # type: ignore[union-attr, arg-type]
        for level in of_level
    }
    if by_level and (odd := set(queries) - set(of_level)):
        raise SpecError(f"queries for {sorted(odd)[0]!r}, which has no share", where="plan", remedy="add it to levels")
    return Plan.of(
        _number(total, mechanism.currency), mechanism, Neighbours(neighbours), Allocation(of_level, of_query)
    )


def _exact_shares(shares: Shares, what: str) -> dict[str, Fraction]:
    if isinstance(shares, str) or not shares:
        raise SpecError(f"{what} are {shares!r}", where="plan", remedy="list them, or give each its share")
    if isinstance(shares, Mapping):
        return {name: _number(share, f"{what}, {name!r}") for name, share in shares.items()}
    return {name: Fraction(1, len(shares)) for name in shares}


def _number(value: object, what: str) -> Fraction:
    try:
        return exact(value)
    except ValueError as error:
        raise SpecError(str(error), where=f"plan, {what}") from None


def _scale(cost: Fraction, mechanism: Mechanism, neighbours: Neighbours) -> Fraction:
    if mechanism is Mechanism.DISCRETE_GAUSSIAN:
        return Fraction(neighbours.sensitivity) / (2 * cost)
    return Fraction(neighbours.sensitivity) / cost


@dataclass(frozen=True)
class Event:
    """One line of the ledger: a measurement of one query on one level of one universe."""

    universe: str
    level: str
    query: str
    units: int
    answers: int
    mechanism: Mechanism
    scale: Fraction
    cost: Fraction


class Ledger:
    """Append-only record of what is drawn. Its cost never exceeds its budget.

    ``write`` is called with each event before :meth:`append` returns, and so before its first draw: a
    ledger on disk is never behind. ``spent`` are the events of an earlier, interrupted process.
    """

    def __init__(
        self, budget: Fraction, write: Callable[[Event], None] | None = None, spent: Iterable[Event] = ()
    ) -> None:
        self.budget = budget
        self._write = write
        self._events: list[Event] = list(spent)
        if self.cost > budget:
            raise PrivacyError(f"{self.cost} was spent of a budget of {budget}", where="ledger")

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self._events)

    @property
    def cost(self) -> Fraction:
        return sum((e.cost for e in self._events), Fraction(0))

    def append(self, event: Event) -> None:
        """Refuses, before anything is drawn, an event that the budget does not cover."""
        if event.cost <= 0:
            raise PrivacyError(f"{event.query!r} at {event.level!r} costs {event.cost}, not positive", where="ledger")
        if self.cost + event.cost > self.budget:
            raise PrivacyError(
                f"measuring {event.query!r} at {event.level!r} would spend {self.cost + event.cost} "
                f"of a budget of {self.budget}",
                where="ledger",
            )
        if self._write is not None:
            self._write(event)
        self._events.append(event)
