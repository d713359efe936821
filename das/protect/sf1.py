"""The tables of the published attack on the 2010 census: 34 tables of Summary File 1, by block and
by tract.

Source: U.S. Census Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S.
Census: Full Technical Report (2025), section 4. Each table has its lines without its sums, as the
integer programs there have them (P14 is given without its two: 773 lines a block, not 775)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from das.errors import SpecError
from das.model.attribute import Attribute
from das.model.dhc.lines import TableLines, by, columns, line
from das.model.dhc.persons import HISPANIC, P12, RACE7, SEX, spans, years
from das.model.grouping import Grouping
from das.model.redistricting import CENRACE, PL94
from das.model.schema import RACES, Schema
from das.model.tabulation import LabelledWhere, Tabulation, Where
from das.protect.table_set import TableSet
from das.tables import table

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
def schema(single_years: bool = False) -> Schema:
    """Sex by age by origin by race. Age in the 38 groups that block tables tell apart, 9,576
    cells; or in single years to 110, 27,972 cells.

    >>> schema().cells, schema(single_years=True).cells
    (9576, 27972)
    """
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


def _tallied(of: Where) -> tuple[LabelledWhere, ...]:
    """Those of each race, alone or in combination."""
    return tuple(
        (f"{race} alone or in combination", {**of, "cenrace": _with(race)}) for race in RACES
    )


def _with(race: str) -> tuple[str, ...]:
    return tuple(c for c in CENRACE if race in c.split("+"))


def _by_race(of: Where) -> tuple[LabelledWhere, ...]:
    return columns(by(_RACE), of)


def _by_origin_and_race(of: Where) -> tuple[LabelledWhere, ...]:
    return ("Hispanic or Latino", {**of, **_HISPANIC}), *_by_race({**of, **_OTHERS})


def _sex_by(ages: TableLines) -> tuple[LabelledWhere, ...]:
    both = columns(by(SEX, ages))
    return tuple(x for x in both if len(x[1]) > 1)  # without the sum of each sex


def iterations(name: str, title: str, lines: tuple[LabelledWhere, ...]) -> list[Tabulation]:
    """The table of each of seven race groups, of those of Hispanic origin, and of the White alone
    who are not."""
    ways: list[Where] = [{"cenrace": races} for races in _ITERATIONS]
    ways += [_HISPANIC, {**_OTHERS, "cenrace": ("White",)}]
    return [
        Tabulation(f"{name}{letter}", title, columns=lines, where=where)
        for letter, where in zip(_LETTERS + "HI", ways, strict=True)
    ]


def block_tables(of: Schema) -> tuple[Tabulation, ...]:
    """P1, P6 to P12, P12A to I, P14: 773 lines."""
    groups = {g.name: g for g in of.recodes}
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


def tract_tables(of: Schema) -> tuple[Tabulation, ...]:
    """PCT12 and PCT12A to O: sex by the ages of the schema, in single years 103 of them. A to G
    are the race groups, H those of Hispanic origin, I to O the race groups without them."""
    ages: Attribute | Grouping = of.attribute("age")
    if len(of.attribute("age").levels) > len(BINS):
        starts = (*range(100), 100, 105, 110)
        ages = _grouping("pct12", of.attribute("age"), tuple(range(OLDEST + 1)), starts)
    lines = _sex_by(_ranges(of, ages))
    ways: list[Where] = [{}, *({"cenrace": races} for races in _ITERATIONS), _HISPANIC]
    ways += [{**_OTHERS, "cenrace": races} for races in _ITERATIONS]
    return tuple(
        Tabulation(f"PCT12{letter}", "Sex by age", columns=lines, where=where)
        for letter, where in zip(["", *"ABCDEFGHIJKLMNO"], ways, strict=True)
    )


def _ranges(of: Schema, ages: Attribute | Grouping) -> TableLines:
    """A line for each level, or for each group as the levels that it has."""
    if isinstance(ages, Attribute):
        return by(ages)
    levels, index = of.attribute("age").levels, np.asarray(ages.index)
    return tuple(
        line(label, {"age": tuple(np.asarray(levels)[index == i].tolist())}, ())
        for i, label in enumerate(ages.labels)
    )


def table_set(levels: Sequence[str], single_years: bool = False) -> TableSet:
    """The tables of the attack. ``levels``: from the one that has tables by tract, too, down to the
    block.

    >>> both = table_set(("Tract", "Block"), single_years=True)
    >>> [len(both.lines(level)) for level in ("Block", "Tract")]
    [773, 4069]
    """
    if not 1 <= len(levels) <= 2:
        raise SpecError(
            f"{len(levels)} levels", where="tables of SF1", remedy="name the tract and the block"
        )
    of = schema(single_years)
    here = tuple(table(t, of) for t in block_tables(of))
    out = {levels[-1]: here}
    if len(levels) == 2:
        out[levels[0]] = (*here, *(table(t, of) for t in tract_tables(of)))
    return TableSet("sf1-2010", of, out)
