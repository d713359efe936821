"""The privacy statement of a release: what was drawn, what it costs, what lies outside.

:mod:`das.accounting.document` defines the document. Apart from its words (``what_this_means``,
``says``) and its seal (``digests``, ``software``), it is a function of the ledger, the
specification and the entropy source. So anyone can compute it again (:mod:`das.release.verify`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from das.accounting.calibration import Target
from das.accounting.changes import Change, changes
from das.accounting.document import (
    FORMAT,
    FORMS,
    Invariant,
    Line,
    NeighboursOf,
    OwnAccount,
    OwnStatement,
    Promises,
    PureChange,
    Spending,
    StatedChange,
    StatedPath,
    StatedTarget,
    ZcdpChange,
)
from das.accounting.draws import Differing, record
from das.accounting.guarantee import combine, cost, epsilons, guarantees
from das.accounting.invariant_neighbours import (
    ANY,
    INVARIANT_NEIGHBOURS,
    ExactQueries,
    definitions,
    free,
)
from das.accounting.sources import Relation
from das.accounting.tradeoff import meaning
from das.model.budget import (
    ALL,
    Neighbours,
    PlannedMeasurement,
    UnitPath,
    costliest,
    seen,
    through,
    total,
)
from das.model.constraint import Constraint
from das.model.ledger import Event
from das.model.mechanisms import Mechanism
from das.model.not_private import WARNING
from das.model.schema import Schema
from das.model.tabulation import title
from das.model.universe import PERSONS

#: The deltas of the (epsilon, delta) curve.
CURVE = tuple(Fraction(1, 10**k) for k in (3, 5, 10, 15, 20, 25, 30))


@dataclass(frozen=True)
class Terms:
    """What an account needs besides the draws. ``levels`` are those of the tree, root first. By
    universe, there are its schema, and the level and query of each ``exact`` count. If its plan has
    several ``paths``, these are listed, with the levels at which a place can be in two units
    (``split``). If there is a tree, ``places`` is the number of lowest units on each path.

    Universes without a schema have no entry in ``schemas``. For them ``changed`` lists the possible
    changes of one record, by universe, and ``says`` replaces the standard notes to the numbers.
    ``relations`` gives sentences on the cost of changing several records at once. Some records can
    be in units of several classes of a level at once, so that more draws differ than one path has.
    For these, ``neighboring`` says what differs between neighbors. ``differ`` says in words how
    neighbors differ, if not by one record. If neighbors differ in a person and the record of the
    household, ``address`` says what differs at the addresses that a relation changes."""

    mechanism: Mechanism
    neighbours: Neighbours
    delta: Fraction
    levels: Sequence[str]
    schemas: Mapping[str, Schema]
    exact: Mapping[str, ExactQueries]
    target: Target | None = None
    paths: Mapping[str, Sequence[UnitPath]] = field(default_factory=dict)
    places: Mapping[str, Mapping[UnitPath, int]] = field(default_factory=dict)
    split: Mapping[str, Collection[str]] = field(default_factory=dict)
    changed: Mapping[str, Callable[[Sequence[PlannedMeasurement]], Sequence[Change]]] = field(
        default_factory=dict
    )
    says: Sequence[str] | None = None
    neighboring: Mapping[str, Callable[[Sequence[PlannedMeasurement]], Differing]] = field(
        default_factory=dict
    )
    relations: Callable[[Mapping[str, Sequence[PlannedMeasurement]]], Sequence[str]] = lambda _: ()
    differ: str = ""
    address: Callable[[Sequence[PlannedMeasurement], Relation], Differing] | None = None

    def free(
        self, universe: str, draws: Iterable[PlannedMeasurement], exact: ExactQueries
    ) -> list[PlannedMeasurement]:
        """The draws that can differ between neighbors that agree on ``exact``."""
        if not exact:
            return list(draws)
        return free(draws, exact, self.schemas[universe], self.levels, self.split.get(universe, ()))

    def changes(self, universe: str, draws: Sequence[PlannedMeasurement]) -> Sequence[Change]:
        """The changes of one record of a universe that the statement lists."""
        if universe in self.changed:
            return self.changed[universe](draws)
        paths, split = self.paths_of(universe, draws), self.split.get(universe, ())
        return changes(
            draws, self.schemas[universe], self.levels, self.exact[universe], paths, split
        )

    def paths_of(self, universe: str, draws: Sequence[PlannedMeasurement]) -> Sequence[UnitPath]:
        return self.paths.get(universe) or (through(draws),)

    def differing(self, draws: Mapping[str, Sequence[PlannedMeasurement]]) -> dict[str, Differing]:
        """What differs between neighbors, by universe."""
        return {
            u: self.neighboring[u](ds)
            if u in self.neighboring
            else record(ds, self.neighbours, self.paths_of(u, ds))
            for u, ds in draws.items()
        }


@dataclass(frozen=True)
class LedgerEvents:
    """Events by universe: those of the release, and those that interrupted attempts lost. The lost
    events are spent, too."""

    events: Mapping[str, Sequence[Event]]
    lost: Mapping[str, Sequence[Event]] = field(default_factory=dict)

    @property
    def every(self) -> dict[str, tuple[Event, ...]]:
        universes = dict.fromkeys([*self.events, *self.lost])
        return {u: (*self.events.get(u, ()), *self.lost.get(u, ())) for u in universes}


def account(terms: Terms, draws: Mapping[str, Sequence[PlannedMeasurement]]) -> OwnAccount:
    """The costs of a plan or a ledger, by universe: exact totals, epsilons, and the costs of single
    changes."""
    paths = {u: terms.paths_of(u, ds) for u, ds in draws.items()}
    spent = {u: costliest(ds, paths[u]) for u, ds in draws.items()}
    target = terms.target
    return FORMS[terms.mechanism].account.make(
        mechanism=terms.mechanism.name,
        neighbours=terms.neighbours.value,
        totals={**spent, "total": sum(spent.values(), Fraction(0))},
        **dict(promises(terms, draws)),
        spending={u: _spending(ds, paths[u]) for u, ds in draws.items()},
        changes={u: _changes(terms, u, ds) for u, ds in draws.items()},
        paths=_paths(terms, draws),
        target=target
        and StatedTarget(
            universe=PERSONS.name,
            epsilon=target.epsilon,
            delta=target.delta,
            calibration=target.calibration,
        ),
    )


def _paths(terms: Terms, universes: Iterable[str]) -> dict[str, list[StatedPath]] | None:
    """The paths of each universe whose levels have several classes of units."""
    out: dict[str, list[StatedPath]] = {}
    for u in universes:
        paths, places = terms.paths.get(u, ()), terms.places.get(u, {})
        if all(unit_class == ALL for path in paths for _, unit_class in path):
            continue  # units of a level are all alike
        whole = sum(places.values())
        out[u] = [
            StatedPath.make(
                name=title(path),
                classes=dict(path),
                places=places.get(path),
                share=Fraction(places[path], whole) if path in places else None,
            )
            for path in paths
        ]
    return out or None


def promises(terms: Terms, draws: Mapping[str, Sequence[PlannedMeasurement]]) -> Promises:
    """The guarantee between neighbors that need not agree on the exact counts, and between those
    that do. ``neighbours_of`` says who the neighbors are."""
    words = definitions(terms.neighbours, terms.exact, terms.split, terms.differ)
    invariant_neighbours = {u: terms.free(u, ds, terms.exact[u]) for u, ds in draws.items()}
    of = {ANY: draws, INVARIANT_NEIGHBOURS: invariant_neighbours}
    found = {
        name: guarantees(terms.mechanism.currency, terms.differing(of[name]), terms.delta)
        for name in words
    }
    said = NeighboursOf.make(any=words[ANY], invariant_neighbours=words.get(INVARIANT_NEIGHBOURS))
    return Promises.make(
        neighbours_of=said,
        guarantee=found[ANY],
        invariant_neighbours=found.get(INVARIANT_NEIGHBOURS),
    )


def _spending(draws: Sequence[PlannedMeasurement], paths: Sequence[UnitPath]) -> Spending:
    """Where the budget goes on the costliest path: exact sums by level and by query."""
    levels: dict[str, Fraction] = {}
    queries: dict[str, Fraction] = {}
    for d in max((tuple(seen(draws, path)) for path in paths), key=total):
        levels[d.level] = levels.get(d.level, Fraction(0)) + d.cost
        queries[d.query] = queries.get(d.query, Fraction(0)) + d.cost
    return Spending(levels=levels, queries=queries)


def _changes(
    terms: Terms, universe: str, draws: Sequence[PlannedMeasurement]
) -> list[StatedChange]:
    """The cost of each change of one record: exactly, and as epsilon at the delta of the
    specification."""
    out: list[StatedChange] = []
    for c in terms.changes(universe, draws):
        said = {
            "kind": c.kind,
            "what": c.what,
            "says": c.says,
            "cost": cost(terms.mechanism.currency, c.differing),
        }
        out.append(
            PureChange.make(**said)
            if terms.mechanism.pure
            else ZcdpChange.make(**said, **dict(epsilons(c.differing, terms.delta, [universe])))
        )
    return out


def statement(
    terms: Terms,
    drawn: LedgerEvents,
    outside: Sequence[Invariant],
    entropy: str,
    private: bool,
    notes: Sequence[str] = (),
    assigned: Mapping[str, Mapping[str, str]] | None = None,
) -> OwnStatement:
    """The whole statement except its seal. ``outside`` are the lines of :func:`invariants`.
    ``assigned`` are attributes whose values the reader assigned, by universe, each with a sentence.
    All totals are exact sums of kept and lost draws."""
    made_up = {u: dict(attributes) for u, attributes in (assigned or {}).items() if attributes}
    whole = {
        "format": FORMAT,
        "private": private,
        "warning": None if private else WARNING,
        "entropy": entropy,
        **dict(account(terms, drawn.every)),
        "outside": outside,
        "assigned": made_up,
        "says": [
            *_meaning(terms, outside, drawn),
            *notes,
            *terms.relations(drawn.every),
            *(says for attributes in made_up.values() for says in attributes.values()),
        ],
        "ledger": [_line(e) for es in drawn.events.values() for e in es],
        "lost": [_line(e) for es in drawn.lost.values() for e in es],
        "digests": {},
        "software": {},
    }
    if not terms.mechanism.pure:
        every = combine(terms.differing(drawn.every).values())
        whole["curve"] = [epsilons(every, d, list(drawn.every)) for d in CURVE]
    return FORMS[terms.mechanism].statement.make(**whole)


def _meaning(terms: Terms, outside: Sequence[Invariant], drawn: LedgerEvents) -> Sequence[str]:
    if terms.says is not None:
        return terms.says
    return meaning(
        terms.neighbours, outside, list(drawn.every), bypassed=bool(_paths(terms, drawn.every))
    )


def invariants(constraints: Mapping[str, Sequence[Constraint]]) -> list[Invariant]:
    """One line for each constraint that is published exactly, by universe."""
    return [
        Invariant.make(
            universe=u, constraint=c.name, level=c.level, query=c.query, sign=c.sign, says=c.says
        )
        for u, cs in constraints.items()
        for c in cs
    ]


def _line(e: Event) -> Line:
    return FORMS[e.mechanism].line.make(
        universe=e.universe,
        level=e.level,
        query=e.query,
        units=e.units,
        answers=e.answers,
        unit_class=None if e.unit_class == ALL else e.unit_class,
        stability=None if e.stability == 1 else e.stability,
        parameter=e.parameter,
        cost=e.cost,
    )
