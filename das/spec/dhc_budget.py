"""A plan of the DHC as the tables of a configuration that make it, and production's costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import tomli_w

from das.accounting.planning import QueryCosts
from das.model.plan import Plan
from das.spec.dhc import PRODUCTION, DhcSpec


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


def all_of_production(spec: DhcSpec, universe: str) -> tuple[QueryCosts, Mapping[str, str]]:
    """Production's costs over all its levels, times what the configuration says; and, by a level
    here, its last level whose unit two records of two units below share. Those of one tract share a
    group of parts of tracts (docs/dhc.md)."""
    of, times = PRODUCTION[universe](spec.budget.where), getattr(spec.budget, universe)
    costs = {(lv, q): times * r for lv, queries in of.rho.items() for q, r in queries.items()}
    shared = {lv: spec.like(lv) for lv in spec.geography.levels}
    group = "Tract_Subset_Group"
    return costs, {lv: group if at == "Tract_Subset" else at for lv, at in shared.items()}
