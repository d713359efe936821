"""Tables of Summary File 1 column by column, as the Census Bureau publishes them, with their sums.

A field such as ``P0080003`` or ``P012A003`` is a table and the number of a column. Columns that
count persons several times (races tallied) are no sums of cells, and are left out. Source: U.S.
Census Bureau, 2010 Census Summary File 1, Technical Documentation, chapter 6."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from das.model.dhc.lines import TableLines, by, columns, line, total
from das.model.dhc.persons import HISPANIC, RACE7, SEX, spans, years
from das.model.publications import ADULTS, by_origin_and_race, by_race
from das.model.redistricting import CENRACE
from das.model.schema import RACES, Schema
from das.model.tabulation import LabelledWhere, Tabulation, Where
from das.protect import sf1
from das.protect.table_set import TableSet
from das.protect.told_apart import told_apart
from das.tables import table

_FIELD = (
    re.compile(r"(P|PCT)(\d{3})([A-O]?)(\d{3,4})"),  # P0080003, PCT012A003: 2010
    re.compile(r"(P|PCT)(\d{1,2})([A-O])(\d{4})"),  # P12A0003: ours
)
_LETTERS = "ABCDEFGHIJKLMNO"
_SEVEN = (*((race,) for race in RACES), tuple(c for c in CENRACE if "+" in c))
_OTHERS: Where = {"hispanic": ("not-hispanic",)}
_HISPANIC: Where = {"hispanic": ("hispanic",)}


def field_of(name: str) -> tuple[str, int] | None:
    """The table and the number of a column, from 1; ``None`` where it is no field of a table.

    >>> field_of("P0080071"), field_of("P012A003"), field_of("PCT0120004"), field_of("BLOCK")
    (('P8', 71), ('P12A', 3), ('PCT12', 4), None)
    """
    for pattern in _FIELD:
        if found := pattern.fullmatch(name.strip().upper()):
            letters, number, letter, column = found.groups()
            return f"{letters}{int(number)}{letter}", int(column)
    return None


@cache
def _columns() -> dict[str, tuple[LabelledWhere | None, ...]]:
    """By table, each column, ``None`` where it counts a person several times."""
    schema = sf1.schema(single_years=True)
    twenty_three = next(g for g in schema.recodes if g.name == "age_23_groups")
    young = tuple(line(years(a, a), {"age": (str(a),)}, ()) for a in range(20))
    under_20: Where = {"age": tuple(str(a) for a in range(20))}
    by_age = columns(total({}, by(SEX, by(twenty_three))))
    single = columns(total({}, by(SEX, _single_years())))
    seven = by(RACE7)
    out: dict[str, tuple[LabelledWhere | None, ...]] = {
        "P1": (("Total", {}),),
        "P3": columns(total({}, seven)),
        "P4": columns(total({}, by(HISPANIC))),
        "P5": columns(total({}, by(HISPANIC, seven))),
        "P6": (None, *_tallied({})),
        "P7": (("Total", {}), None, *_tallied(_OTHERS), None, *_tallied(_HISPANIC)),
        "P8": by_race({}),
        "P9": by_origin_and_race({}),
        "P10": by_race(ADULTS),
        "P11": by_origin_and_race(ADULTS),
        "P12": by_age,
        "P14": columns(total(under_20, by(SEX, young))),
        "PCT12": single,
    }
    for name, lines, letters in (("P12", by_age, "ABCDEFGHI"), ("PCT12", single, _LETTERS)):
        for letter in letters:
            out[f"{name}{letter}"] = tuple(
                (label, {**where, **_group(letter)})
                for label, where in lines
                if not isinstance(where, tuple)
            )
    return out


def _single_years() -> TableLines:
    """The ages of PCT12: single years to 99, two groups, 110 and over."""
    ranges = spans((*range(100), 100, 105, sf1.OLDEST), sf1.OLDEST)
    return tuple(
        line(years(a, 115 if b == sf1.OLDEST else b), {"age": tuple(map(str, range(a, b + 1)))})
        for a, b in ranges
    )


def _tallied(of: Where) -> tuple[LabelledWhere, ...]:
    return tuple(
        (race, {**of, "cenrace": tuple(c for c in CENRACE if race in c.split("+"))})
        for race in RACES
    )


def _group(letter: str) -> Where:
    """Those of an iteration: A to G are race groups, H those of Hispanic origin, I to O the race
    groups without these.
    """
    at = _LETTERS.index(letter)
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
    schema = sf1.schema(single_years=single)
    made, order = {}, {}
    for level, tables in found.items():
        made[level] = tuple(
            table(Tabulation(t, t, columns=tuple(_shown(known[t], sorted(n)))), schema)
            for t, n in tables.items()
        )
        order[level] = tuple(n[i] for n in tables.values() for i in sorted(n))
    coarse, cell = told_apart(TableSet("published", schema, made))
    return PublishedColumns(coarse, order, schema, tuple(cell.tolist()))


def _shown(every: Sequence[LabelledWhere | None], numbers: Sequence[int]) -> list[LabelledWhere]:
    return [c for n in numbers if (c := every[n - 1]) is not None]
