"""The figures that the Bureau uses to say how accurate the file is: their counts, universes and
order.

A figure is a tabulation of one schema, so its errors are those of a published table
(:mod:`das.truth.evaluation`). Names, lines and their order are those of the Bureau's Detailed
Summary Metrics of 2023-04-03. They are tables 1 to 5 and 7 to 15 of *Full DHC Use Cases*; 15, 16
and 18 of *Updated BAP*; and 1 and 5.a of *Updated Use Cases*. What the Bureau measured itself is in
:mod:`das.publications.dhc.files.official`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

from das.model.schema import Schema
from das.model.tabulation import Tabulation, Where
from das.publications.dhc.model.households import (
    COUPLES,
    DHCH,
    HHAGE,
    HISP,
    LARGEST,
    RACE,
    TENURE3,
    TENURE3_LABELS,
    TENVACGQ,
    VACANCIES,
    persons,
)
from das.publications.dhc.model.person_tables import TableLines, by, by_age
from das.publications.dhc.model.persons import DHCP, HISPANIC, RACE7, RELATIONSHIPS, SEX, spans
from das.publications.dhc.model.quarters import HHGQ, levels

#: The universes of the file, and what their records have.
SCHEMAS = {"persons": DHCP, "units": TENVACGQ, "households": DHCH}

#: Groups of persons of which some conditions are counted one by one: the seven of race, and two
#: with Hispanic origin.
GROUPS = (*RACE7.labels, HISPANIC.labels[1], f"{RACE7.labels[0]}, {HISPANIC.labels[0]}")
#: These conditions, with their number in the Bureau's Inconsistency Tables.
NO_WOMEN = "children under 5, no women of 18 to 44 (15)"
MEDIANS = "median ages of men and women 20 years apart (20)"


def of_group(condition: str, group: str) -> str:
    """What the condition of one of :data:`GROUPS` is called.

    >>> of_group(MEDIANS, GROUPS[-1])
    'median ages of men and women 20 years apart (20): White alone, Not Hispanic or Latino'"""
    return f"{condition}: {group}"


class AccuracyFigure(NamedTuple):
    """Counts of one of :data:`SCHEMAS`: a column for each line of the Bureau's table."""

    universe: str
    tabulation: Tabulation

    @property
    def name(self) -> str:
        return self.tabulation.name

    @property
    def schema(self) -> Schema:
        return SCHEMAS[self.universe]


#: The label of a column, and whom it counts.
_Line = tuple[str, Where]


def _crossed(*axes: Iterable[_Line]) -> Iterator[_Line]:
    """A column for each combination, the last axis fastest."""
    for combined in product(*axes):
        yield (
            ", ".join(label for label, _ in combined if label),
            {k: v for _, w in combined for k, v in w.items()},
        )


def _lines(lines: TableLines) -> tuple[_Line, ...]:
    return tuple((label, where) for label, where, _ in lines)


_EITHER: tuple[_Line, ...] = (
    ("Owned", {"hhtenshort_2lev": ("owned",)}),
    ("Rented", {"hhtenshort_2lev": ("rented",)}),
)
_FIVE_AGES = (
    HHAGE.levels[:1],
    HHAGE.levels[1:2],
    HHAGE.levels[2:4],
    HHAGE.levels[4:6],
    HHAGE.levels[6:],
)
_AGES = tuple(
    (label, {"hhage": ages})
    for label, ages in zip(
        (
            "15 to 24 years",
            "25 to 34 years",
            "35 to 54 years",
            "55 to 64 years",
            "65 years and over",
        ),
        _FIVE_AGES,
        strict=True,
    )
)
#: Hispanic first, as the Bureau has it.
_ORIGINS, _RACES = _lines(by(HISP))[::-1], _lines(by(RACE))
_COUPLES = tuple(
    (label, {"coupled_hh_type": (code,)}) for code, label in COUPLES.items() if code != "N"
)
_THREE_GENERATIONS: tuple[_Line, ...] = (("", {"multig": ("1",)}),)
_OWN: Where = {"own_children": ("1", "2", "3")}
_TENURES = tuple(
    (label, {"tenure_3lev": (code,)}) for code, label in zip(TENURE3, TENURE3_LABELS, strict=True)
)
_SEXES: tuple[_Line, ...] = (("", {}), *_lines(by(SEX)))
#: In single years, and in fives.
_THREE_SPANS, _FIVES = spans((0, 18, 65)), spans(range(0, 111, 5))


def _by_own_children() -> tuple[_Line, ...]:
    own = "own children under 18 years"
    alone = tuple(
        (f"{sex}, no spouse or partner, {own}", {"sex": (code,), "coupled_hh_type": ("N",), **_OWN})
        for code, sex in zip(SEX.levels, ("Male householder", "Female householder"), strict=True)
    )
    couples = (("Married couple", ("MO", "MS")), ("Cohabiting couple", ("CO", "CS")))
    return (
        *((f"{label}, {own}", {"coupled_hh_type": codes, **_OWN}) for label, codes in couples),
        *alone,
    )


def _relationships() -> tuple[_Line, ...]:
    codes = tuple(RELATIONSHIPS)
    return (
        ("Householder", {"relgq": codes[:2]}),
        *((RELATIONSHIPS[c], {"relgq": (c,)}) for c in codes[2:]),
    )


def _quarters() -> Iterator[_Line]:
    """Institutional ones together and by class, then the others."""
    labels = dict(zip(HHGQ.levels, HHGQ.labels, strict=True))
    first, rest = HHGQ.levels[1:5], HHGQ.levels[5:]
    for title, classes in (("Institutionalized", first), ("Noninstitutionalized", rest)):
        yield title, {"relgq": levels(*classes)}
        yield from ((labels[c], {"relgq": levels(c)}) for c in classes)


def _figure(universe: str, name: str, title: str, columns: Iterable[_Line]) -> AccuracyFigure:
    return AccuracyFigure(universe, Tabulation(name, title, columns=tuple(columns)))


FIGURES = (
    _figure("units", "tenure", "Tenure", _TENURES),
    _figure(
        "units",
        "vacancy",
        "Vacancy status",
        ((label, {"tenvacgq": (code,)}) for code, label in VACANCIES.items()),
    ),
    _figure(
        "households", "tenure_by_age", "Tenure by age of householder", _crossed(_EITHER, _AGES)
    ),
    _figure(
        "households",
        "tenure_by_origin",
        "Tenure by Hispanic origin of householder",
        _crossed(_EITHER, _ORIGINS),
    ),
    _figure(
        "households", "tenure_by_race", "Tenure by race of householder", _crossed(_EITHER, _RACES)
    ),
    _figure(
        "households",
        "household_size",
        "Household size",
        ((persons(n), {"hhsize_all": (str(n),)}) for n in range(1, LARGEST + 1)),
    ),
    _figure(
        "households",
        "alone_65",
        "People of 65 years and over who live alone",
        [
            (
                "Householder of 65 years and over, living alone",
                {"hhsize_all": ("1",), "hhover65": ("65-plus",)},
            )
        ],
    ),
    _figure(
        "households",
        "generations_by_origin",
        "Multigenerational households by Hispanic origin of householder",
        _crossed(_THREE_GENERATIONS, _ORIGINS),
    ),
    _figure(
        "households",
        "generations_by_race",
        "Multigenerational households by race of householder",
        _crossed(_THREE_GENERATIONS, _RACES),
    ),
    _figure(
        "households",
        "type_by_own_children",
        "Household type by own children under 18 years",
        _by_own_children(),
    ),
    _figure(
        "households",
        "own_children_under_6",
        "Own children under 6 years",
        [("Households with own children under 6 years", {"own_children": ("1", "3")})],
    ),
    _figure("households", "couples", "Couples", _COUPLES),
    _figure(
        "households",
        "couples_by_origin",
        "Couples by Hispanic origin of householder",
        _crossed(_COUPLES, _ORIGINS),
    ),
    _figure(
        "households",
        "couples_by_race",
        "Couples by race of householder",
        _crossed(_COUPLES, _RACES),
    ),
    _figure("persons", "relationship", "Relationship to the householder", _relationships()),
    _figure(
        "persons",
        "sex_by_three_ages",
        "Sex by age in three groups",
        _crossed(_SEXES, _lines(by_age(_THREE_SPANS))),
    ),
    _figure(
        "persons",
        "sex_by_five_years",
        "Sex by age in five years",
        _crossed(_SEXES, _lines(by_age(_FIVES))),
    ),
    _figure("persons", "over_75", "75 years and over", _lines(by_age(spans((75,))))),
    _figure(
        "persons",
        "single_years",
        "Single years of age under 18",
        _lines(by_age((a, a) for a in range(18))),
    ),
    _figure("persons", "group_quarters", "Population in group quarters by type", _quarters()),
)
