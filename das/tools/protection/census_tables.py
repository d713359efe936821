"""Tables of Summary File 1 column by column, as the Census Bureau publishes them, with their sums.

A field such as ``P0080003`` or ``P012A003`` is a table and the number of a column. Columns that
count persons several times (races tallied) are no sums of cells, and are left out. Source: U.S.
Census Bureau, 2010 Census Summary File 1, Technical Documentation, chapter 6."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model.query import Grouping
from das.model.redistricting import CENRACE, PL94
from das.model.schema import RACES, Attribute, Schema
from das.model.tabulation import LabeledWhere, Tabulation, Where
from das.model.universe import ADULTS, by_origin_and_race, by_race
from das.publications.dhc.model.person_tables import (
    TableLines,
    by,
    columns,
    line,
    person_tables,
    total,
)
from das.publications.dhc.model.persons import DHCP, HISPANIC, P12, RACE7, SEX, spans, years
from das.tables import Table, published, table
from das.tools.protection.published import TableSet

# The tables of the published attack on the 2010 census: 34 tables of Summary File 1, by block and
# by tract.
#
# Source: U.S. Census Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S.
# Census: Full Technical Report (2025), section 4. Each table has its lines without its sums, as the
# integer programs there have them (P14 is given without its two: 773 lines a block, not 775).

#: The oldest age that is published by itself, with all that are older.
OLDEST = 110
#: First ages of the 38 groups by which block tables tell persons apart.
BINS = (*range(22), 22, *range(25, 60, 5), 60, 62, 65, 67, 70, 75, 80, 85)

_LETTERS = "ABCDEFG"
_RACE, _ORIGIN = PL94.attribute("cenrace"), HISPANIC
#: Those of one race, in the order of tables A to F, and all others.
_ITERATIONS: tuple[tuple[str, ...], ...] = (
    *((race,) for race in RACES),
    tuple(c for c in CENRACE if "+" in c),
)
_ADULT: Where = {"votingage": ("18-and-over",)}
_HISPANIC: Where = {"hispanic": ("hispanic",)}
_OTHERS: Where = {"hispanic": ("not-hispanic",)}


def _name(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"


def _grouping(name: str, ages: Attribute, firsts: Sequence[int], starts: Sequence[int]) -> Grouping:
    """Groups of the levels of ``ages``, which begin with ``firsts``."""
    ranges = spans(starts, OLDEST)
    index = np.searchsorted(starts, firsts, side="right") - 1
    labels = tuple(years(a, 115 if b == OLDEST else b) for a, b in ranges)
    groups = tuple(_name(*r) for r in ranges)
    return Grouping(name, ages.name, groups, tuple(index.tolist()), "Age", labels)


@cache
def sf1_schema(single_years: bool = False) -> Schema:
    """Sex by age by origin by race. Age in the 38 groups that block tables tell apart, 9,576
    cells; or in single years to 110, 27,972 cells.

    >>> sf1_schema().cells, sf1_schema(single_years=True).cells
    (9576, 27972)"""
    firsts = tuple(range(OLDEST + 1)) if single_years else BINS
    ranges = spans(firsts, OLDEST)
    labels = tuple(years(a, 115 if b == OLDEST else b) for a, b in ranges)
    ages = Attribute("age", tuple(_name(*r) for r in ranges), "Age", labels)
    voting = PL94.attribute("votingage")
    of_voting = _grouping("votingage", ages, firsts, (0, 18))
    recodes = (
        _grouping("age_23_groups", ages, firsts, [a for a, _ in P12]),
        _grouping("age_38_groups", ages, firsts, BINS),
        replace(of_voting, groups=voting.levels, title=voting.title, labels=voting.labels),
        RACE7,
    )
    return Schema("sf1", (SEX, ages, _ORIGIN, _RACE), recodes)


def _tallied(where: Where) -> tuple[LabeledWhere, ...]:
    """Those of each race, alone or in combination."""
    return tuple(
        (
            f"{race} alone or in combination",
            {**where, "cenrace": tuple(c for c in CENRACE if race in c.split("+"))},
        )
        for race in RACES
    )


def _by_race(where: Where) -> tuple[LabeledWhere, ...]:
    return columns(by(_RACE), where)


def _by_origin_and_race(where: Where) -> tuple[LabeledWhere, ...]:
    return ("Hispanic or Latino", {**where, **_HISPANIC}), *_by_race({**where, **_OTHERS})


def _sex_by(ages: TableLines) -> tuple[LabeledWhere, ...]:
    both = columns(by(SEX, ages))
    return tuple(x for x in both if len(x[1]) > 1)  # without the sum of each sex


def iterations(name: str, title: str, lines: tuple[LabeledWhere, ...]) -> list[Tabulation]:
    """The table of each of seven race groups, of those of Hispanic origin, and of the White alone
    who are not."""
    ways: list[Where] = [{"cenrace": races} for races in _ITERATIONS]
    ways += [_HISPANIC, {**_OTHERS, "cenrace": ("White",)}]
    return [
        Tabulation(f"{name}{letter}", title, columns=lines, where=where)
        for letter, where in zip(_LETTERS + "HI", ways, strict=True)
    ]


def block_tables(schema: Schema) -> tuple[Tabulation, ...]:
    """P1, P6 to P12, P12A to I, P14: 773 lines."""
    groups = {g.name: g for g in schema.recodes}
    by_age = _sex_by(by(groups["age_23_groups"]))
    young = tuple(line(years(a, a), {"age": (str(a),)}, ()) for a in range(20))
    return (
        Tabulation("P1", "Total population", "total", total=False),
        Tabulation("P6", "Race (total races tallied)", columns=_tallied({})),
        Tabulation(
            "P7",
            "Hispanic or Latino origin by race (total races tallied)",
            columns=(*_tallied(_OTHERS), *_tallied(_HISPANIC)),
        ),
        Tabulation("P8", "Race", columns=_by_race({})),
        Tabulation("P9", "Hispanic origin and race", columns=_by_origin_and_race({})),
        Tabulation("P10", "Race, 18 years and over", columns=_by_race(_ADULT)),
        Tabulation(
            "P11", "Origin and race, 18 years and over", columns=_by_origin_and_race(_ADULT)
        ),
        Tabulation("P12", "Sex by age", columns=by_age),
        *iterations("P12", "Sex by age", by_age),
        Tabulation("P14", "Sex by age, under 20 years", columns=_sex_by(young)),
    )


def tract_tables(schema: Schema) -> tuple[Tabulation, ...]:
    """PCT12 and PCT12A to O: sex by the ages of the schema, in single years 103 of them. A to G
    are the race groups, H those of Hispanic origin, I to O the race groups without them."""
    ages: Attribute | Grouping = schema.attribute("age")
    if len(schema.attribute("age").levels) > len(BINS):
        starts = (*range(100), 100, 105, 110)
        ages = _grouping("pct12", schema.attribute("age"), tuple(range(OLDEST + 1)), starts)
    lines = _sex_by(_ranges(schema, ages))
    ways: list[Where] = [{}, *({"cenrace": races} for races in _ITERATIONS), _HISPANIC]
    ways += [{**_OTHERS, "cenrace": races} for races in _ITERATIONS]
    return tuple(
        Tabulation(f"PCT12{letter}", "Sex by age", columns=lines, where=where)
        for letter, where in zip(["", *"ABCDEFGHIJKLMNO"], ways, strict=True)
    )


def _ranges(schema: Schema, ages: Attribute | Grouping) -> TableLines:
    """A line for each level, or for each group as the levels that it has."""
    if isinstance(ages, Attribute):
        return by(ages)
    levels, index = schema.attribute("age").levels, np.asarray(ages.index)
    return tuple(
        line(label, {"age": tuple(np.asarray(levels)[index == i].tolist())}, ())
        for i, label in enumerate(ages.labels)
    )


def table_set(levels: Sequence[str], single_years: bool = False) -> TableSet:
    """The tables of the attack. ``levels``: from the one that has tables by tract, too, down to the
    block.

    >>> both = table_set(("Tract", "Block"), single_years=True)
    >>> [len(both.lines(level)) for level in ("Block", "Tract")]
    [773, 4069]"""
    if not 1 <= len(levels) <= 2:
        raise SpecError(
            f"{len(levels)} levels", where="tables of SF1", remedy="name the tract and the block"
        )
    of = sf1_schema(single_years)
    here = tuple(table(t, of) for t in block_tables(of))
    out = {levels[-1]: here}
    if len(levels) == 2:
        out[levels[0]] = (*here, *(table(t, of) for t in tract_tables(of)))
    return TableSet("sf1-2010", of, out)


_FIELD = (
    re.compile(r"(P|PCT)(\d{3})([A-O]?)(\d{3,4})"),  # P0080003, PCT012A003: 2010
    re.compile(r"(P|PCT)(\d{1,2})([A-O])(\d{4})"),  # P12A0003: ours
)
_TABLE_LETTERS = "ABCDEFGHIJKLMNO"
_SEVEN = (*((race,) for race in RACES), tuple(c for c in CENRACE if "+" in c))


def field_of(name: str) -> tuple[str, int] | None:
    """The table and the number of a column, from 1; ``None`` where it is no field of a table.

    >>> field_of("P0080071"), field_of("P012A003"), field_of("PCT0120004"), field_of("BLOCK")
    (('P8', 71), ('P12A', 3), ('PCT12', 4), None)"""
    for pattern in _FIELD:
        if found := pattern.fullmatch(name.strip().upper()):
            letters, number, letter, column = found.groups()
            return f"{letters}{int(number)}{letter}", int(column)
    return None


@cache
def _columns() -> dict[str, tuple[LabeledWhere | None, ...]]:
    """By table, each column, ``None`` where it counts a person several times."""
    schema = sf1_schema(single_years=True)
    twenty_three = next(g for g in schema.recodes if g.name == "age_23_groups")
    young = tuple(line(years(a, a), {"age": (str(a),)}, ()) for a in range(20))
    under_20: Where = {"age": tuple(str(a) for a in range(20))}
    by_age = columns(total({}, by(SEX, by(twenty_three))))
    single = columns(total({}, by(SEX, _single_years())))
    seven = by(RACE7)
    out: dict[str, tuple[LabeledWhere | None, ...]] = {
        "P1": (("Total", {}),),
        "P3": columns(total({}, seven)),
        "P4": columns(total({}, by(HISPANIC))),
        "P5": columns(total({}, by(HISPANIC, seven))),
        "P6": (None, *_table_tallied({})),
        "P7": (("Total", {}), None, *_table_tallied(_OTHERS), None, *_table_tallied(_HISPANIC)),
        "P8": by_race({}),
        "P9": by_origin_and_race({}),
        "P10": by_race(ADULTS),
        "P11": by_origin_and_race(ADULTS),
        "P12": by_age,
        "P14": columns(total(under_20, by(SEX, young))),
        "PCT12": single,
    }
    for name, lines, letters in (("P12", by_age, "ABCDEFGHI"), ("PCT12", single, _TABLE_LETTERS)):
        for letter in letters:
            out[f"{name}{letter}"] = tuple(
                (label, {**where, **_group(letter)})
                for label, where in lines
                if not isinstance(where, tuple)
            )
    return out


def _single_years() -> TableLines:
    """The ages of PCT12: single years to 99, two groups, 110 and over."""
    ranges = spans((*range(100), 100, 105, OLDEST), OLDEST)
    return tuple(
        line(years(a, 115 if b == OLDEST else b), {"age": tuple(map(str, range(a, b + 1)))})
        for a, b in ranges
    )


def _table_tallied(where: Where) -> tuple[LabeledWhere, ...]:
    return tuple(
        (race, {**where, "cenrace": tuple(c for c in CENRACE if race in c.split("+"))})
        for race in RACES
    )


def _group(letter: str) -> Where:
    """Those of an iteration: A to G are race groups, H those of Hispanic origin, I to O the race
    groups without these."""
    at = _TABLE_LETTERS.index(letter)
    if letter == "H":
        return _HISPANIC
    of: Where = {} if at < 7 else _OTHERS
    return {**of, "cenrace": _SEVEN[at if at < 7 else at - 8]}


@dataclass(frozen=True)
class PublishedColumns:
    """The columns of a folder that an attack can use, by level: names of fields, in the order of
    the lines of ``tables``. ``cell``: the cell of these tables for each cell of ``schema``."""

    tables: TableSet
    fields: Mapping[str, tuple[str, ...]]
    schema: Schema
    cell: tuple[int, ...]


def published_columns(
    fields: Mapping[str, Iterable[str]], only: Sequence[str] = ()
) -> PublishedColumns | None:
    """What the ``fields`` of each level count; with ``only``, those of these tables. ``None`` where
    none is known."""
    known = _columns()
    found: dict[str, dict[str, dict[int, str]]] = {}
    for level, names in fields.items():
        for name in names:
            at = field_of(name)
            if at is None or at[0] not in known or (only and at[0] not in only):
                continue
            if at[1] <= len(known[at[0]]) and known[at[0]][at[1] - 1] is not None:
                found.setdefault(level, {}).setdefault(at[0], {})[at[1]] = name
    if not found:
        return None
    single = any(t.startswith("PCT") for each in found.values() for t in each)
    schema = sf1_schema(single_years=single)
    made, order = {}, {}
    for level, tables in found.items():
        made[level] = tuple(
            table(Tabulation(t, t, columns=tuple(_shown(known[t], sorted(n)))), schema)
            for t, n in tables.items()
        )
        order[level] = tuple(n[i] for n in tables.values() for i in sorted(n))
    coarse, cell = coarsest_schema(TableSet("published", schema, made))
    return PublishedColumns(coarse, order, schema, tuple(cell.tolist()))


def _shown(every: Sequence[LabeledWhere | None], numbers: Sequence[int]) -> list[LabeledWhere]:
    return [c for n in numbers if (c := every[n - 1]) is not None]


# The table sets that a study can name, and the sets of tables of one's own.
#
# ``sf1-2010``: the 34 tables of the published attack (:mod:`das.tools.protection.census_tables`). ``pl94``: P1 to P5 of
# the redistricting data. ``dhc-persons``: those tables of the DHC that count persons by sex, age,
# origin and race alone, with P12 for each race group (A to I); tables of relationships and of group
# quarters are not among them.

SF1, REDISTRICTING, DHC = "sf1-2010", "pl94", "dhc-persons"


@cache
def schema_of(name: str) -> Schema:
    """The schema of a named set.

    >>> schema_of("pl94").cells, schema_of("dhc-persons").cells
    (2016, 29232)"""
    if name == SF1:
        return sf1_schema()
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
        return table_set(levels)
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
    each = (table(t, schema) for t in (*of, *iterations("P12", by_age.title, by_age.columns)))
    return tuple(t for t in each if not any(t.repeats(j) for j in range(len(t.columns))))


def _named(table: Tabulation) -> Iterator[str]:
    """The attributes and groupings that a table needs."""
    yield from table.where
    if table.query is not None and table.query not in ("total", "detailed"):
        yield from table.query.split(" * ")
    for _, where in table.columns:
        every: tuple[Where, ...] = where if isinstance(where, tuple) else (where,)
        for one in every:
            yield from one


# Cells of one schema as cells of a coarser one, attribute by attribute.

_RANGE = re.compile(r"\d+(-\d+)?")


def recoded(cell: NDArray[np.int64], source: Schema, target: Schema) -> NDArray[np.int64]:
    """The cell of ``target`` of each record with a ``cell`` of ``source``.

    An attribute of the target is one of the source; or a grouping of it, by name or by its groups;
    or has ranges of whole numbers, such as ``25-29``, for one whose levels are whole numbers. The
    last range has all that are larger. Raises :class:`SpecError` for any other.

    >>> from das.publications.dhc.model.persons import DHCP
    >>> from das.model.schema import Schema
    >>> target = Schema.from_attributes("two", {"sex": ["male", "female"], "age": ["0-17", "18"]})
    >>> one = np.ravel_multi_index((0, 1, 40, 0, 0), DHCP.shape)
    >>> recoded(np.array([one]), DHCP, target)
    array([3])"""
    levels = np.unravel_index(cell, source.shape)
    out = np.zeros(len(cell), dtype=np.int64)
    for attribute in target.attributes:
        axis, index = _index(attribute, source)
        out = out * len(attribute.levels) + index[levels[axis]]
    return out


def _index(wanted: Attribute, source: Schema) -> tuple[int, NDArray[np.int64]]:
    """The axis of the source, and the level of the target for each of its levels."""
    for g in source.recodes:
        if g.groups == wanted.levels:
            return source.axis(g.attribute), np.asarray(g.index, dtype=np.int64)
    names = {a.name for a in source.attributes}
    if wanted.name in names:
        known = source.attribute(wanted.name)
        if known.levels == wanted.levels:
            return source.axis(wanted.name), np.arange(len(known.levels))
        if all(_RANGE.fullmatch(x) for x in (*known.levels, *wanted.levels)):
            starts = [int(x.partition("-")[0]) for x in wanted.levels]
            values = [int(x.partition("-")[0]) for x in known.levels]
            index = np.searchsorted(starts, values, side="right") - 1
            if (index >= 0).all() and starts == sorted(set(starts)):
                return source.axis(wanted.name), index.astype(np.int64)
    raise SpecError(
        f"the records do not tell {wanted.name!r} by these levels",
        where=f"schema.attributes.{wanted.name}",
        remedy=f"the records have {', '.join(names)}; ages can be ranges such as 0-17, 18-64, 65",
    )


# A schema no finer than its tables: levels of an attribute that no line tells apart are one.
#
# An attack on tables of 23 age groups is about 23 age groups. In the cells of a finer schema nothing
# would ever be certain, for want of a table that says it.


def coarsest_schema(tables: TableSet) -> tuple[TableSet, NDArray[np.int64]]:
    """The same tables over the coarser schema, and its cell of each cell of the schema now. The
    new schema has no structural zeros: a cell is possible where one of its cells was."""
    schema, every = tables.schema, [t for each in tables.tables.values() for t in each]
    groups, attributes = [], []
    for axis, attribute in enumerate(schema.attributes):
        index = np.array([t.query.groupings[axis].index for t in every])
        _, first, group = np.unique(index, axis=1, return_index=True, return_inverse=True)
        order = np.argsort(first)
        groups.append(np.argsort(order)[group.ravel()])
        attributes.append(_joined(attribute, groups[-1]))
    coarse = Schema(schema.name, tuple(attributes))
    levels = np.unravel_index(np.arange(schema.cells), schema.shape)
    cell = np.ravel_multi_index(
        tuple(g[x] for g, x in zip(groups, levels, strict=True)), coarse.shape
    )
    first_of = [np.unique(g, return_index=True)[1] for g in groups]
    made: Mapping[str, tuple[Table, ...]] = {
        level: tuple(_on(t, first_of) for t in each) for level, each in tables.tables.items()
    }
    return TableSet(tables.name, coarse, made), cell.astype(np.int64)


def _joined(attribute: Attribute, group: NDArray[np.int64]) -> Attribute:
    levels, labels = [], []
    for g in range(int(group.max()) + 1):
        (inside,) = np.nonzero(group == g)
        a, b = int(inside[0]), int(inside[-1])
        one = a == b
        levels.append(
            attribute.levels[a] if one else f"{attribute.levels[a]}..{attribute.levels[b]}"
        )
        labels.append(
            attribute.labels[a] if one else f"{attribute.labels[a]} .. {attribute.labels[b]}"
        )
    return replace(attribute, levels=tuple(levels), labels=tuple(labels))


def _on(table: Table, first: list[NDArray[np.intp]]) -> Table:
    """The table over the coarser schema: each group has the place of its first level."""
    made = tuple(
        replace(g, index=tuple(np.asarray(g.index)[at].tolist()))
        for g, at in zip(table.query.groupings, first, strict=True)
    )
    return replace(table, query=replace(table.query, groupings=made))
