"""The table sets that a study can name, and the sets of tables of one's own.

``sf1-2010``: the 34 tables of the published attack (:mod:`das.protect.sf1`). ``pl94``: P1 to P5 of
the redistricting data. ``dhc-persons``: those tables of the DHC that count persons by sex, age,
origin and race alone, with P12 for each race group (A to I); tables of relationships and of group
quarters are not among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from das.errors import SpecError
from das.model.dhc.person_tables import person_tables
from das.model.dhc.persons import DHCP
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.model.tabulation import Tabulation, Where
from das.protect import sf1
from das.protect.table_set import TableSet
from das.tables import Table, published, table

SF1, REDISTRICTING, DHC = "sf1-2010", "pl94", "dhc-persons"


@cache
def schema_of(name: str) -> Schema:
    """The schema of a named set.

    >>> schema_of("pl94").cells, schema_of("dhc-persons").cells
    (2016, 29232)
    """
    if name == SF1:
        return sf1.schema()
    if name == REDISTRICTING:
        return PL94
    if name == DHC:
        return _without_relationships()
    raise SpecError(
        f"there is no table set {name!r}",
        where="published.set",
        remedy=f"use {SF1}, {REDISTRICTING}, {DHC}, or tables of your own",
    )


def named_set(name: str, levels: Sequence[str]) -> TableSet:
    """The tables of a named set at each of ``levels``, from the top down. Those of ``sf1-2010`` are
    for a level and one above it."""
    schema = schema_of(name)
    if name == SF1:
        return sf1.table_set(levels)
    here = published(PL94) if name == REDISTRICTING else _of_persons(schema)
    return TableSet(name, schema, dict.fromkeys(levels, here))


def own_set(name: str, schema: Schema, tabulations: Mapping[str, Sequence[Tabulation]]) -> TableSet:
    """Tables of one's own, by level."""
    return TableSet(
        name, schema, {lv: tuple(table(t, schema) for t in ts) for lv, ts in tabulations.items()}
    )


def joined_set(name: str, one: TableSet, other: TableSet) -> TableSet:
    """The tables of both, over one schema. Raises :class:`SpecError` for a line of both."""
    levels = dict.fromkeys([*one.tables, *other.tables])
    every = {lv: (*one.tables.get(lv, ()), *other.tables.get(lv, ())) for lv in levels}
    for level, tables in every.items():
        names = [c for t in tables for c in t.columns]
        if twice := {c for c in names if names.count(c) > 1}:
            raise SpecError(
                f"both table sets have a line {min(twice)} at {level}",
                where=name,
                remedy="rename a table",
            )
    return TableSet(name, one.schema, every)


def _without_relationships() -> Schema:
    """The schema of the DHC's persons without relationships and group quarters."""
    attributes = tuple(a for a in DHCP.attributes if a.name != "relgq")
    names = {a.name for a in attributes}
    return Schema(DHC, attributes, tuple(g for g in DHCP.recodes if g.attribute in names))


def _of_persons(schema: Schema) -> tuple[Table, ...]:
    """Without those that count a person several times, once for each race: they are no lines."""
    known = {a.name for a in schema.attributes} | {g.name for g in schema.recodes}
    of = [t for t in person_tables() if set(_named(t)) <= known]
    (by_age,) = (t for t in of if t.name == "P12")
    each = (table(t, schema) for t in (*of, *sf1.iterations("P12", by_age.title, by_age.columns)))
    return tuple(t for t in each if not any(t.repeats(j) for j in range(len(t.columns))))


def _named(of: Tabulation) -> Iterator[str]:
    """The attributes and groupings that a table needs."""
    yield from of.where
    if of.query is not None and of.query not in ("total", "detailed"):
        yield from of.query.split(" * ")
    for _, where in of.columns:
        every: tuple[Where, ...] = where if isinstance(where, tuple) else (where,)
        for one in every:
            yield from one
