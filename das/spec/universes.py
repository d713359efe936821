"""The universes of a specification: persons, housing units, and those under ``[universes]``.

Each is built from its kind (:mod:`das.model.kinds`), which says all that its name decides, and its
part of the configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

from das.errors import SpecError
from das.model import chains
from das.model.allocation import Allocation
from das.model.budget import Neighbours
from das.model.kinds import HOUSING, KINDS, PERSONS, RecordKind, kind_of
from das.model.mechanisms import MECHANISMS
from das.model.plan import Plan
from das.model.redistricting import H1
from das.model.schema import Schema
from das.model.tabulation import Tabulation
from das.model.universe import Exact, Planned
from das.spec.keys import CountsKeys
from das.spec.own_parts import OwnUniverse
from das.spec.parts import BudgetPart, Housing, RelativeBudget
from das.spec.passes import WrittenPasses, passes

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


@dataclass(frozen=True)
class _UniverseParts:
    """What a configuration says of a universe: ``passes`` that are written out, the rounding
    ``chain`` if it is.
    """

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
# -------------------------------------------------------------------------------------------


def _relative(
    spec: CountsKeys, schema: Schema, part: RelativeBudget, where: str, persons: Plan
) -> Plan:
    if part.relative <= 0:
        raise SpecError(f"relative is {part.relative}, not positive", where=f"{where}.relative")
    return plan_of(spec, schema, persons.cost * part.relative, part, where)


def plan_of(
    spec: CountsKeys, schema: Schema, total: Fraction, part: BudgetPart | RelativeBudget, where: str
) -> Plan:
    """The plan of a budget part for a total; on an optimised spine with every class of units that
    there can be, as long as there is no tree. Raises :class:`SpecError`."""
    levels = spec.geography.levels
    if missing := [lv for lv in levels if lv not in part.levels]:
        raise SpecError(
            f"level {missing[0]!r} of geography.levels has no share",
            where=f"{where}.levels",
            remedy=f"add {missing[0]}, or take it out of geography.levels",
        )
    if extra := [lv for lv in part.levels if lv not in levels]:
        raise SpecError(
            f"{extra[0]!r} is not a level",
            where=f"{where}.levels",
            remedy=f"the levels are {', '.join(levels)}",
        )
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
    mechanism, neighbours = MECHANISMS[spec.budget.mechanism], Neighbours(spec.budget.neighbours)
    if spec.geography.spine == "tabulation":
        return Plan.of(total, mechanism, neighbours, allocation)
    paths = chains.conceivable(levels)
    return Plan.of(total, mechanism, neighbours, allocation, chains.classes(levels, paths), paths)
