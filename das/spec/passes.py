"""The passes of a specification: as they are written, or by rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from das.errors import SpecError
from das.model.passes import by_rule
from das.model.plan import Plan
from das.model.schema import Schema

ALL = "*"  #: in a pass: every measured query that no earlier pass has
WrittenPasses = Mapping[str, tuple[tuple[str, ...], ...]]


def passes(
    plan: Plan, schema: Schema, given: WrittenPasses, where: str, levels: tuple[str, ...]
) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The passes of each level: written out, ``default``, or by rule (:mod:`das.model.passes`)."""
    return {
        lv: written(lv, tuple(d.query for d in plan.plain if d.level == lv), given, where)
        if given.keys() & {lv, "default"}
        else default_passes(plan, schema, lv, root=lv == levels[0])
        for lv in levels
    }


def written(
    level: str, measured: Sequence[str], given: WrittenPasses, where: str
) -> tuple[tuple[str, ...], ...]:
    """Those of ``level`` or, where it has none of its own, ``default``; ``*`` is the rest."""
    passes = given.get(level, given.get("default", ()))
    where = f"{where}.{level if level in given else 'default'}"
    named = [q for p in passes for q in p if q != ALL]
    if unknown := [q for q in named if q not in measured and level in given]:
        raise SpecError(f"{unknown[0]!r} is not measured at {level!r}", where=where)
    if len(set(named)) != len(named):
        raise SpecError("a query occurs in two passes", where=where)
    found, seen = [], set(named)
    for names in passes:
        full = [q for q in names if q != ALL and q in measured]
        if ALL in names:
            full += [q for q in measured if q not in seen]
            seen |= set(measured)
        if full:
            found.append(tuple(full))
    if left := [q for q in measured if q not in seen]:
        raise SpecError(
            f"measured at {level!r}, but in no pass: {left[0]!r}",
            where=where,
            remedy='add it, or end the passes with ["*"], the rest',
        )
    return tuple(found)


def default_passes(
    plan: Plan, schema: Schema, level: str, *, root: bool
) -> tuple[tuple[str, ...], ...]:
    """The passes of ``level``, by the rule of :mod:`das.model.passes`; ``root`` if it is the first
    of the tree. The rule asks for ratios of variances, which the classes of a level have in
    common."""
    measured = {
        d.query: (schema.query(d.query), float(d.mechanism.continuous_variance(d.parameter)))
        for d in plan.plain
        if d.level == level
    }
    return by_rule(measured, root=root)
