"""The passes of a level where the configuration names none."""

from __future__ import annotations

from das.model.budget import Plan
from das.model.passes import by_rule
from das.model.schema import Schema


def default_passes(plan: Plan, schema: Schema, level: str, *, root: bool) -> tuple[tuple[str, ...], ...]:
    """The passes of ``level``, by the rule of :mod:`das.model.passes`; ``root`` if it is the first of the tree."""
    measured = {
        d.query: (schema.query(d.query), float(d.mechanism.continuous_variance(d.parameter))) for d in plan.at(level)
    }
    return by_rule(measured, root=root)
