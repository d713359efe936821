"""The universes of a specification: persons, housing units, and those under ``[universes]``.

Each is built from its kind (:mod:`das.model.universe`), which says all that its name decides, and its
part of the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from das.errors import SpecError
from das.model import tabulation
from das.model.budget import Allocation, Neighbours
from das.model.mechanisms import MECHANISMS
from das.model.plan import Plan
from das.model.post_processing import by_rule
from das.model.redistricting import H1
from das.model.schema import Schema
from das.model.spelling import near
from das.model.tabulation import Tabulation
from das.model.universe import HOUSING, KINDS, PERSONS, Exact, Planned, RecordKind, kind_of
from das.spec.keys import CountsKeys
from das.spec.parts import BudgetPart, Housing, RelativeBudget
from das.spec.schema_part import OwnUniverse

# The passes of a specification: as they are written, or by rule.

ALL = "*"  #: in a pass: every measured query that no earlier pass has
WrittenPasses = Mapping[str, tuple[tuple[str, ...], ...]]


def passes(
    plan: Plan, schema: Schema, given: WrittenPasses, where: str, levels: tuple[str, ...]
) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The passes of each level: written out, ``default``, or by rule (:mod:`das.model.post_processing`)."""
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
    """The passes of ``level``, by the rule of :mod:`das.model.post_processing`; ``root`` if it is the first
    of the tree. The rule asks for ratios of variances, which the classes of a level have in
    common."""
    measured = {
        d.query: (schema.query(d.query), float(d.mechanism.continuous_variance(d.parameter)))
        for d in plan.plain
        if d.level == level
    }
    return by_rule(measured, root=root)


_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


@dataclass(frozen=True)
class _UniverseParts:
    """What a configuration says of a universe: ``passes`` that are written out, the rounding
    ``chain`` if it is."""

    kind: RecordKind
    schema: Schema
    plan: Plan
    exact: Exact
    passes: WrittenPasses
    chain: tuple[str, ...] | None = None


def universes(spec: CountsKeys) -> tuple[Planned, ...]:
    """Persons, and what else is counted over the same tree. Raises :class:`SpecError`."""
    persons = _built(spec, _persons(spec))
    others = [] if spec.housing is None else [_housing(spec, spec.housing, persons.plan)]
    others += [_own(spec, name, part, persons.plan) for name, part in spec.own.items()]
    return (persons, *(_built(spec, asked) for asked in others))


def _persons(spec: CountsKeys) -> _UniverseParts:
    total = spec.budget.total
    assert total is not None, "a budget that calibrate() has yet to find"
    c = spec.constraints
    plan = plan_of(spec, spec.schema_built, total, spec.budget, PERSONS.key("budget"))
    exact = Exact(c.total, c.housing_units, c.group_quarters, c.queries)
    return _UniverseParts(
        PERSONS, spec.schema_built, plan, exact, spec.estimation.passes, spec.rounding.chain
    )


def _housing(spec: CountsKeys, part: Housing, persons: Plan) -> _UniverseParts:
    """The number of housing units of every lowest unit is exact."""
    plan = _relative(spec, H1, part.budget, HOUSING.key("budget"), persons)
    return _UniverseParts(HOUSING, H1, plan, Exact(spec.geography.levels[-1]), {})


def _own(spec: CountsKeys, name: str, part: OwnUniverse, persons: Plan) -> _UniverseParts:
    """One under ``[universes]``."""
    kind = kind_of(name)
    taken = _taken(kind)
    if not _NAME.fullmatch(name) or name in taken:
        raise SpecError(
            f"{name!r} cannot name a universe",
            where=kind.table,
            remedy=(
                "use small letters, digits and _, beginning with a letter; but not"
                f" {', '.join(taken)}"
            ),
        )
    try:
        schema = part.schema_.build()
    except SpecError as error:
        raise SpecError(
            error.what, where=f"{kind.table}, {error.where}", remedy=error.remedy
        ) from None
    plan = _relative(spec, schema, part.budget, kind.key("budget"), persons)
    exact = Exact(part.constraints.total, queries=part.constraints.queries)
    lettered = replace(kind, letter=part.letter or kind.letter)
    return _UniverseParts(
        lettered, schema, plan, exact, part.estimation.passes, part.rounding.chain or None
    )


def _taken(kind: RecordKind) -> list[str]:
    """Names that stand in configurations, files and statements for something else."""
    others = [k for k in KINDS.values() if k.table != f"universes.{kind.name}"]
    return list(dict.fromkeys((*(name for k in others for name in (k.name, k.folder)), "total")))


def _built(spec: CountsKeys, asked: _UniverseParts) -> Planned:
    kind, schema = asked.kind, asked.schema
    chain = asked.chain if asked.chain is not None else kind.publication(schema).chain
    tables = tuple(
        Tabulation(name, t.title, t.query, tuple((c.label, c.where) for c in t.columns), t.where)
        for name, t in spec.tables.items()
        if t.universe == kind.name
    )
    found = passes(
        asked.plan, schema, asked.passes, kind.key("estimation.passes"), spec.geography.levels
    )
    return Planned(
        kind,
        schema,
        found,
        chain or (),
        chain is None,
        spec.rounding.objective,
        asked.exact,
        tables,
        plan=asked.plan,
    )


# --- plans


def _relative(
    spec: CountsKeys, schema: Schema, part: RelativeBudget, where: str, persons: Plan
) -> Plan:
    if part.relative <= 0:
        raise SpecError(f"relative is {part.relative}, not positive", where=f"{where}.relative")
    return plan_of(spec, schema, persons.cost * part.relative, part, where)


def plan_of(
    spec: CountsKeys, schema: Schema, total: Fraction, part: BudgetPart | RelativeBudget, where: str
) -> Plan:
    """The plan of a budget part for a total; on an optimized spine with every class of units that
    there can be, as long as there is no tree. Raises :class:`SpecError`."""
    levels = spec.geography.levels
    extra = [lv for lv in part.levels if lv not in levels]
    odd = f"{extra[0]!r} is not a level" if extra else ""
    meant = near(extra[0], levels, "levels") if extra else ""
    if missing := [lv for lv in levels if lv not in part.levels]:
        remedy = f"add {missing[0]}, or take it out of geography.levels"
        raise SpecError(
            f"level {missing[0]!r} of geography.levels has no share",
            where=f"{where}.levels",
            remedy=f"{odd}: {meant}" if extra else remedy,
        )
    if extra:
        raise SpecError(odd, where=f"{where}.levels", remedy=meant)
    for level, queries in part.queries.items():
        for q in queries:
            try:
                schema.query(q)
            except SpecError as error:
                raise SpecError(
                    error.what, where=f"{where}.queries.{level}", remedy="see the schema"
                ) from None
    ordered = {lv: part.levels[lv] for lv in levels}
    try:
        allocation = Allocation(ordered, part.queries)
    except SpecError as error:
        raise SpecError(error.what, where=str(error.where).replace("budget", where, 1)) from None
    mechanism, neighbours = MECHANISMS[spec.budget.mechanism], Neighbours(spec.budget.neighbors)
    if spec.geography.spine == "tabulation":
        return Plan.from_allocation(total, mechanism, neighbours, allocation)
    paths = tabulation.conceivable(levels)
    return Plan.from_allocation(
        total, mechanism, neighbours, allocation, tabulation.classes(levels, paths), paths
    )
