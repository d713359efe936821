"""A plan of the DHC as the tables of a configuration that make it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import tomli_w

from das.model.plan import Plan
from das.spec.dhc import DhcSpec


def dhc_budget_toml(spec: DhcSpec, universe: str, plan: Plan, made_from: Sequence[str]) -> str:
    """The tables that make ``plan`` the plan of ``universe``: the levels whose costs are not
    production's."""
    times: Fraction = getattr(spec.budget, universe)
    production, queries = spec.production(universe), dict[str, dict[str, str]]()
    for level in spec.geography.levels:
        here = {d.query: d.cost for d in plan.at(level)}
        if here != production[level]:
            queries[level] = {q: str(cost / times) for q, cost in here.items()}
    return tomli_w.dumps({"budget": {"made_from": list(made_from), "queries": {universe: queries}}})
