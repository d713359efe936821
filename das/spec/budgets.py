"""A plan as the tables of a configuration that make it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import tomli_w

from das.model.kinds import RecordKind
from das.model.plan import Plan
from das.spec.run import RunSpec


def budget_toml(spec: RunSpec, universe: str, plan: Plan, made_from: Sequence[str] = ()) -> str:
    """The tables of ``spec`` that make ``plan`` the plan of ``universe``. Budgets of the others are
    relative to the persons': with another total of these they are written too, so that these
    universes stay as they are. ``made_from``: what the shares were made from."""
    sums: dict[str, Fraction] = {}
    for d in plan.plain:
        sums[d.level] = sums.get(d.level, Fraction(0)) + d.cost
    shares: dict[str, Any] = {
        "levels": {level: str(cost / plan.cost) for level, cost in sums.items()},
        "queries": {
            level: {d.query: str(d.cost / sums[level]) for d in plan.plain if d.level == level}
            for level in sums
        },
    }
    if made_from:
        shares["made_from"] = list(made_from)
    changed = spec.universe(universe)
    if changed is not spec.persons:
        return tomli_w.dumps(
            _nested(changed.kind, {"relative": str(plan.cost / spec.persons.plan.cost)} | shares)
        )
    b = spec.budget
    tree: dict[str, Any] = {
        "budget": (
            {
                plan.mechanism.currency: str(plan.cost),
                "neighbours": b.neighbours,
                "delta": str(b.delta),
                "mechanism": b.mechanism,
            }
            | shares
        )
    }
    for u in spec.universes[1:]:
        _merge(tree, _nested(u.kind, {"relative": str(u.plan.cost / plan.cost)}))
    return tomli_w.dumps(tree)


def _nested(kind: RecordKind, budget: dict[str, Any]) -> dict[str, Any]:
    """The budget at its place in the configuration."""
    tree: dict[str, Any] = budget
    for name in reversed(kind.key("budget").split(".")):
        tree = {name: tree}
    return tree


def _merge(into: dict[str, Any], tree: dict[str, Any]) -> None:
    for key, value in tree.items():
        if key in into:
            _merge(into[key], value)
        else:
            into[key] = value
