"""The privacy statement of a release, as data: what was drawn, what it costs, what lies outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from das.accounting.zcdp import bun_steinke, implied, tight
from das.model.budget import Event, Mechanism, Neighbours
from das.model.constraint import Constraint, Kind

DELTAS = ("1e-5", "1e-10", "1e-15")


def statement(
    events: Mapping[str, Sequence[Event]],
    neighbours: Neighbours,
    delta: Fraction,
    constraints: Mapping[str, Sequence[Constraint]],
    entropy: str,
    private: bool,
    lost: Mapping[str, Sequence[Event]] | None = None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """``events`` and ``constraints`` by universe; ``lost`` those of interrupted attempts, spent for nothing but spent. All totals
    are exact sums of both; epsilon figures are conversions."""
    lost = lost or {}
    every = {u: (*events.get(u, ()), *lost.get(u, ())) for u in dict.fromkeys([*events, *lost])}
    spent = {u: sum((e.cost for e in es), Fraction(0)) for u, es in every.items()}
    mechanism = next(e.mechanism for es in events.values() for e in es)
    total = sum(spent.values(), Fraction(0))
    return {
        "private": private,
        "entropy": entropy,
        "mechanism": mechanism.value,
        "neighbours": neighbours.value,
        mechanism.currency: {**{u: str(c) for u, c in spent.items()}, "total": str(total)},
        "guarantee": guarantees(mechanism, spent, delta),
        "outside_the_guarantee": [
            {"universe": u, "constraint": c.name, "level": c.level, "query": c.query, "sign": c.sign, "says": c.says}
            for u, cs in constraints.items()
            for c in cs
            if c.kind is Kind.INVARIANT
        ],
        "what_this_means": [*_meaning(neighbours, constraints, list(every)), *notes],
        "ledger": [_line(e) for es in events.values() for e in es],
        "spent_by_interrupted_attempts": [_line(e) for es in lost.values() for e in es],
    }


def _meaning(
    neighbours: Neighbours, constraints: Mapping[str, Sequence[Constraint]], universes: Sequence[str]
) -> list[str]:
    """What a reader must know beside the numbers."""
    differ = "one record replaced by another" if neighbours is Neighbours.BOUNDED else "one record added or removed"
    out = [
        f"Neighbours are data sets with {differ}, that agree on everything listed as outside the guarantee and on "
        "the list of places (spine.parquet).",
        "The bits of the noise come from a cryptographic generator: the guarantee is computational, as with any such.",
        "This is the cost of this release alone. Other releases from the same records add their own.",
    ]
    if len(universes) > 1:
        out.append("The total is about one record of each universe. Someone who moves from one housing unit to a vacant "
                   "one changes two records of housing units.")  # fmt: skip
    totals = [c for cs in constraints.values() for c in cs if c.name == "total"]
    if neighbours is Neighbours.UNBOUNDED and totals:
        out.append("No two data sets that differ by one record added or removed agree on totals that are invariant: with "
                   "these, the guarantee is that of the noise, not of the release.")  # fmt: skip
    return out


def guarantees(mechanism: Mechanism, spent: Mapping[str, Fraction], delta: Fraction) -> dict[str, Any]:
    """The guarantee of each universe by itself and, where there are several, of all together (``total``)."""
    parts = dict(spent) if len(spent) == 1 else {**spent, "total": sum(spent.values(), Fraction(0))}
    return {name: _guarantee(mechanism, cost, delta) for name, cost in parts.items()}


def _guarantee(mechanism: Mechanism, total: Fraction, delta: Fraction) -> dict[str, Any]:
    """The total as (epsilon, delta), by each conversion."""
    if mechanism is Mechanism.GEOMETRIC:
        return {"epsilon": str(total), "delta": "0"}
    deltas = {d: Fraction(d) for d in DELTAS} | {str(delta): delta}
    unique = {v: k for k, v in reversed(deltas.items())}
    return {
        "rho": str(total),
        "implied_epsilon": implied(total),
        "epsilon": [
            {"delta": name, "zcdp-tight": tight(total, d), "zcdp-bun-steinke": bun_steinke(total, d)}
            for d, name in sorted(unique.items(), reverse=True)
        ],
    }


def _line(e: Event) -> dict[str, Any]:
    scale = "sigma_sq" if e.mechanism is Mechanism.DISCRETE_GAUSSIAN else "scale"
    return {
        "universe": e.universe,
        "level": e.level,
        "query": e.query,
        "units": e.units,
        "answers": e.answers,
        scale: str(e.scale),
        e.mechanism.currency: str(e.cost),
    }
