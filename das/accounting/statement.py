"""The privacy statement of a release, as data: what was drawn, what it costs, what lies outside.

``docs/privacy-statement.md`` says what each field means. All but ``what_this_means``, ``says`` and ``digests`` is a
function of the ledger, the specification and the entropy source, so that anyone can compute it again (:mod:`das.release.verify`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from das.accounting.agreeing import AGREEING, ANY, Exact, definitions, free
from das.accounting.changes import changes
from das.accounting.guarantee import cost, decimal, differing, epsilons, guarantees
from das.accounting.target import Target
from das.model.budget import Draw, Neighbours, total
from das.model.constraint import Constraint
from das.model.ledger import Event
from das.model.mechanism import EPSILON, RHO, Mechanism
from das.model.not_private import marked
from das.model.schema import Schema
from das.model.universe import HOUSING, PERSONS, called

#: Where the curve of (epsilon, delta) is drawn through.
CURVE = tuple(Fraction(1, 10**k) for k in (3, 5, 10, 15, 20, 25, 30))


@dataclass(frozen=True)
class Terms:
    """What an account needs beside the draws: the levels of the tree, root first; by universe its schema, and level and
    query of each count that is published exactly."""

    mechanism: Mechanism
    neighbours: Neighbours
    delta: Fraction
    levels: Sequence[str]
    schemas: Mapping[str, Schema]
    exact: Mapping[str, Exact]
    target: Target | None = None


@dataclass(frozen=True)
class Drawn:
    """Events by universe: those of the release, and those of interrupted attempts, spent for nothing but spent."""

    events: Mapping[str, Sequence[Event]]
    lost: Mapping[str, Sequence[Event]] = field(default_factory=dict)

    @property
    def every(self) -> dict[str, tuple[Event, ...]]:
        universes = dict.fromkeys([*self.events, *self.lost])
        return {u: (*self.events.get(u, ()), *self.lost.get(u, ())) for u in universes}


def account(terms: Terms, draws: Mapping[str, Sequence[Draw]]) -> dict[str, Any]:
    """The costs of a plan or a ledger, by universe: exact totals, epsilons, and the costs of single changes."""
    spent = {u: total(ds) for u, ds in draws.items()}
    target = terms.target
    out = {
        "mechanism": terms.mechanism.name,
        "neighbours": terms.neighbours.value,
        terms.mechanism.currency: {**{u: str(c) for u, c in spent.items()}, "total": str(sum(spent.values()))},
        **promises(terms, draws),
        "spending": {u: _spending(ds) for u, ds in draws.items()},
        "changes": {u: _changes(terms, u, ds) for u, ds in draws.items()},
    }
    if target is not None:
        out["target"] = {"universe": PERSONS, "epsilon": str(target.epsilon), "delta": decimal(target.delta),
                         "calibration": target.calibration}  # fmt: skip
    return out


def promises(terms: Terms, draws: Mapping[str, Sequence[Draw]]) -> dict[str, Any]:
    """The guarantee between neighbours that need not agree on what is published exactly, and between those that do;
    ``neighbours_of`` says who they are."""
    definition = definitions(terms.neighbours, terms.exact)
    agreeing = {u: free(ds, terms.exact[u], terms.schemas[u], terms.levels) for u, ds in draws.items()}
    of = {ANY: draws, AGREEING: agreeing}
    return {"neighbours_of": definition} | {
        name: guarantees(terms.mechanism.currency, terms.neighbours, of[name], terms.delta) for name in definition
    }


def _spending(draws: Sequence[Draw]) -> dict[str, dict[str, str]]:
    """Where the budget goes: exact sums by level and by query."""
    sums: dict[str, dict[str, Fraction]] = {"levels": {}, "queries": {}}
    for d in draws:
        for by, key in (("levels", d.level), ("queries", d.query)):
            sums[by][key] = sums[by].get(key, Fraction(0)) + d.cost
    return {by: {key: str(c) for key, c in parts.items()} for by, parts in sums.items()}


def _changes(terms: Terms, universe: str, draws: Sequence[Draw]) -> list[dict[str, Any]]:
    """What each change of one record can cost: exactly, and as epsilon at the delta of the specification."""
    currency = terms.mechanism.currency
    out = []
    for c in changes(draws, terms.schemas[universe], terms.levels, terms.exact[universe]):
        line = {"kind": c.kind, "what": c.what, "says": c.says, currency: str(cost(currency, c.differing))}
        out.append(line if currency == EPSILON else line | epsilons(c.differing, terms.delta))
    return out


def statement(
    terms: Terms,
    drawn: Drawn,
    outside: Sequence[Mapping[str, str]],
    entropy: str,
    private: bool,
    notes: Sequence[str] = (),
    digests: Mapping[str, str] | None = None,
    assigned: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """The whole statement. ``outside`` are the lines of :func:`invariants`; ``digests`` are SHA-256 of published
    files by their names; ``assigned`` are attributes that were not counted, by universe, each with a sentence. All
    totals are exact sums of kept and lost draws."""
    made_up = {u: dict(attributes) for u, attributes in (assigned or {}).items() if attributes}
    out = marked({"entropy": entropy} | account(terms, drawn.every), private)
    if terms.mechanism.currency == RHO:
        together = differing((e for es in drawn.every.values() for e in es), terms.neighbours.sensitivity)
        out["curve"] = [epsilons(together, d) for d in CURVE]
    return out | {
        "outside_the_guarantee": [dict(line) for line in outside],
        "assigned": made_up,
        "what_this_means": [
            *_meaning(terms.neighbours, outside, list(drawn.every)),
            *notes,
            *(says for attributes in made_up.values() for says in attributes.values()),
        ],
        "ledger": [_line(e) for es in drawn.events.values() for e in es],
        "spent_by_interrupted_attempts": [_line(e) for es in drawn.lost.values() for e in es],
        "digests": dict(digests or {}),
    }


def invariants(constraints: Mapping[str, Sequence[Constraint]]) -> list[dict[str, str]]:
    """What is published exactly, by universe: a line for each."""
    return [
        {"universe": u, "constraint": c.name, "level": c.level, "query": c.query, "sign": c.sign, "says": c.says}
        for u, cs in constraints.items()
        for c in cs
    ]


def _meaning(neighbours: Neighbours, outside: Sequence[Mapping[str, str]], universes: Sequence[str]) -> list[str]:
    """What a reader must know beside the numbers."""
    out = [
        "Data sets that are called neighbours always agree on the lists of places (spine.parquet) and of areas across them "
        "(areas.parquet). 'neighbours_of' says what else they agree on: each guarantee holds between its own.",
        "The bits of the noise come from a cryptographic generator: the guarantee is computational, as with any such.",
        "This is the cost of this release alone. Other releases from the same records add their own.",
    ]
    if neighbours is Neighbours.UNBOUNDED:
        out.append(
            "A record that changes is one record removed and one added: each line under 'changes' in privacy.json counts both."
        )
    if HOUSING in universes and len(universes) > 1:
        out.append("The total is about one record of each universe. Someone who moves from one housing unit to a vacant "
                   "one changes two records of housing units.")  # fmt: skip
    out += [
        f"Records of {called(u)} and persons are different records: the guarantee of each is about one of its own, the "
        f"total about one of each. What changes one record of {called(u)} and several persons, such as a household that "
        "comes or goes, costs more than the total."
        for u in universes if u not in (PERSONS, HOUSING)
    ]  # fmt: skip
    if neighbours is Neighbours.UNBOUNDED and any(c["sign"] == "=" for c in outside):
        out.append("No two data sets that differ by one record added or removed agree on totals that are invariant: with "
                   "these, the guarantee is that of the noise, not of the release.")  # fmt: skip
    out += [
        f"A record of {c['universe']} that moves from one {c['level']} to another changes a total that is invariant: for "
        "it, the lines under 'changes' in privacy.json price the noise, and not what the totals themselves give away."
        for c in outside if c["constraint"] == "total"
    ]  # fmt: skip
    out += [
        f"A record of {c['universe']} that changes its {c['query']}, or moves from one {c['level']} to another, changes a "
        "count that is invariant: for it, the lines under 'changes' in privacy.json price the noise, and not what these "
        "counts themselves give away."
        for c in outside if c["sign"] == "=" and c["query"] != "total"
    ]  # fmt: skip
    bounded = dict.fromkeys((c["universe"], c["query"], c["level"]) for c in outside if c["sign"] != "=")
    out += [
        f"A record of {universe} that changes its {query}, or moves from one {level} to another, may no longer fit bounds "
        "that are published exactly: for it, the lines under 'changes' in privacy.json price the noise, and not what the bounds give away."
        for universe, query, level in bounded
    ]
    return out


def _line(e: Event) -> dict[str, Any]:
    return {
        "universe": e.universe,
        "level": e.level,
        "query": e.query,
        "units": e.units,
        "answers": e.answers,
        e.mechanism.symbol: str(e.parameter),
        e.mechanism.currency: str(e.cost),
    }
