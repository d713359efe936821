"""The figures that the Bureau uses to say how accurate the file is: their counts, universes and
order.

A figure is a tabulation of one schema, so its errors are those of a published table
(:mod:`das.truth.evaluation`). Names, lines and their order are those of the Bureau's Detailed
Summary Metrics of 2023-04-03. They are tables 1 to 5 and 7 to 15 of *Full DHC Use Cases*; 15, 16
and 18 of *Updated BAP*; and 1 and 5.a of *Updated Use Cases*. What the Bureau measured itself is in
:mod:`das.publications.dhc.model.figures`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
NO_WOMEN, MEDIANS = (
    "children under 5, no women of 18 to 44 (15)",
    "median ages of men and women 20 years apart (20)",
)


def of_group(condition: str, group: str) -> str:
    """What the condition of one of :data:`GROUPS` is called.

    >>> of_group(MEDIANS, GROUPS[-1])
    'median ages of men and women 20 years apart (20): White alone, Not Hispanic or Latino'
    """
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


# What the Bureau measured of its own demonstration run of 2023-04-03: production settings, on the
# records of 2010, the nation.
#
# Source: Detailed Summary Metrics of that date; numbers as rounded there.
# :mod:`das.publications.dhc.model.figures` says of what they are. N, MAE and RMSE are over all geographies of a
# level.

#: States with the District of Columbia, counties, tracts.
UNITS: Mapping[str, int] = {"State": 51, "County": 3143, "Tract": 73057}

#: Figure and level; MAE/RMSE of each column.
_ERRORS = """
tenure State 8.59/11.77 9.14/12.24 9.75/13.52
tenure County 2.52/3.21 2.58/3.25 2.56/3.3
tenure Tract 2.04/2.66 2.05/2.66 2.04/2.65
vacancy State 5.88/7.75 5.39/6.95 5.18/7.45 5.08/7.11 5.65/7.64 4.94/6.4 6.24/8.09
vacancy County 2.23/2.86 2.11/2.7 2.12/2.73 2.2/2.81 2.23/2.86 1.51/2.16 2.27/2.89
vacancy Tract 1.92/2.48 1.35/1.86 1.9/2.48 1.63/2.17 1.78/2.37 0.22/0.7 1.99/2.6
tenure_by_age State 100.78/131.06 120.29/166.14 153.51/195.46 114.33/145.55 141.04/245.29 73.71/111.44 121.37/177.48
80.45/105.35 113.78/164.5 104.06/166.97
tenure_by_age County 13.54/20.66 18.68/30.17 27.7/45.55 21.14/35.64 20.4/35.17 14.48/22.92 19.24/36.56 18.75/29.11
15.57/32.04 12.51/25.05
tenure_by_origin State 17.75/22.09 19.47/24.66 13.24/17.04 15.94/20.5
tenure_by_origin County 4.26/6.01 4.6/6.28 3.86/5.38 4.16/5.69
tenure_by_race State 19.88/26.66 25.82/30.24 24.55/31.58 14.67/19.2 15.45/26.24 13.39/18.22 11.41/14.9 16.65/20.65
17.04/19.73 20/23.57 11.06/14.06 13.35/17.93 13.29/16.41 11.16/13.88
tenure_by_race County 5.54/7.29 4.1/5.6 3.45/4.9 2.96/4.16 1.51/2.87 3.13/4.29 3.38/4.52 4.59/6.04 3.43/4.62 3.06/4.29
2.41/3.36 1.53/2.51 3.04/4.13 3.08/4.12
household_size State 20.49/24.47 62.59/83.78 62.35/76.1 60.96/76.23 43.39/58 72/93.72 90.25/111.39
household_size County 15.39/22.53 28.57/48.87 25.23/40.79 23/32.71 21.94/31.27 26.03/47.26 25.93/50.03
alone_65 State 11.47/14.52
alone_65 County 8.49/11.22
generations_by_origin State 14.18/18.7 15.31/19.24
generations_by_origin County 3.27/4.75 4.57/5.97
generations_by_race State 42.06/53.02 40.02/49.46 46.43/56.25 23.06/29.55 23.9/40.69 21.33/30.77 24.14/33.66
generations_by_race County 11.2/17.31 7.39/12.74 3.6/7.38 3.82/8 0.98/3.67 3.96/7.56 4.32/8.77
type_by_own_children State 13.45/18.08 11.9/15.26 9.18/11.12 10.37/13.39
type_by_own_children County 5.22/6.65 4.48/5.75 3.89/5.06 4.21/5.44
own_children_under_6 State 21.22/28.3
own_children_under_6 County 7.41/9.41
couples State 11.31/15.31 10.12/12.44 9.37/11.67 8.47/11.21
couples County 4.58/6.05 2.38/3.1 3.68/4.77 2.29/3
couples_by_origin State 10.14/12.7 12.35/15.67 7.37/9.65 7.45/9.31 8.31/10.37 9.33/11.17 5.86/7.32 6.18/8.16
couples_by_origin County 3.88/5.69 4.92/6.78 1.1/1.75 2.05/2.66 2.45/3.36 3.3/4.35 1.09/1.76 1.99/2.61
couples_by_race State 28.41/37.12 18.78/24.37 25.57/31.65 19.33/27.49 18.98/25.5 18.39/21.75 22.31/28.57 23.12/30.13
18.67/24.47 14.24/18.99 14.16/20.1 8.8/13.83 12.06/16.12 9.55/13.03 23.16/29.33 23.12/29.58 25.76/34.4 18.2/22.45 13.47/24.91
15.98/19.8 16.39/21.47 16.69/21.75 19.27/24.37 12.67/17.75 10.35/15.12 8.8/13.62 10.29/13.6 11.92/16.47
couples_by_race County 13.63/19.56 8.42/13.23 5.74/8.97 5.99/10.62 2.11/4.13 6.57/10.85 7.29/11.01 3.78/6.27 2.21/4.9 0.7/1.8
1/3.04 0.23/1.09 1.28/3.13 1.05/2.51 9.23/13.51 6.27/10.25 3.72/6.69 2.98/6.49 0.95/3 4.13/7.29 4.59/7.55 3.58/5.98 2.04/4.59
0.81/1.9 0.71/2.21 0.24/1.09 1.09/2.49 1.18/2.58
relationship State 14.86/19.09 8.57/10.9 7.29/9.57 5.29/6.93 6.12/8.35 17.82/21.56 8.61/10.92 8.47/11.4 10.2/13.11 6.76/9.31
11.49/14.94 5.98/7.72 5.76/7.2 10.9/13.98 5.67/7.6 7.06/8.76 11.43/14.91
relationship County 5.79/7.71 4.8/6.45 3.73/4.95 2.44/3.14 2.39/3.18 9.69/13.6 5/6.97 4.95/6.65 4.18/5.77 3.4/4.54 7.25/10.37
2.8/3.67 3.13/4.17 5.86/8.41 4.45/6.73 2.48/3.44 6.53/9.7
sex_by_three_ages County 10.1/12.96 13.05/32.14 12.76/31.7 7.64/10.11 10.56/23.14 7.47/16.93 7.72/10.1 8.05/16.4 7.36/16.37
sex_by_three_ages Tract 7.48/9.61 5.15/6.63 4.53/5.82 4.63/5.92 3.77/4.9 2.89/3.73 4.63/5.92 3.65/4.72 2.98/3.84
sex_by_five_years County 10.71/14.34 11.38/14.62 11.38/14.86 10.06/18.79 10.07/27.83 7.55/14.83 6.5/10.35 7.7/10.47
7.87/11.38 7.68/10.6 7.59/10.45 7.25/10.01 8.38/11.17 9.16/14.95 6.87/10.11 6.62/9.35 6.16/8.57 5.92/7.92 5.3/6.91 4.53/5.75
2.97/4.04 0.95/1.78 0.17/0.57 8.08/10.64 8.42/10.95 8.29/10.86 7.8/12.79 7.48/17.27 5.75/9.37 5.13/7.31 5.32/7.1 5.4/7.6
5.4/7.26 5.36/7.18 5.27/6.95 6.03/7.8 6.27/9.95 4.75/6.87 4.43/6 4.05/5.41 3.92/5.14 3.59/4.66 2.85/3.72 1.37/2.19 0.27/0.75
0.08/0.35 8.06/10.5 8.09/10.35 8.38/10.77 7.18/11.03 6.27/13.1 5.22/8.54 4.83/6.92 5.28/7.07 5.35/7.36 5.14/6.87 5.22/6.98
4.86/6.58 5.98/7.71 5.9/8.19 4.52/6.03 4.43/6.01 4.39/5.99 4.24/5.57 3.92/5.1 3.41/4.36 2.4/3.25 0.82/1.56 0.11/0.42
sex_by_five_years Tract 5.46/6.99 5.99/7.68 6.06/7.76 4.62/5.96 3.42/4.48 3.28/4.24 3.16/4.08 4.21/5.38 4.16/5.33 4.15/5.31
4.09/5.24 3.94/5.06 4.78/6.13 4.49/5.75 3.52/4.52 3.37/4.34 3.26/4.19 3.06/3.94 2.6/3.37 1.75/2.38 0.66/1.14 0.1/0.36
0.01/0.11 4.23/5.44 4.42/5.67 4.48/5.74 3.7/4.76 2.83/3.69 2.73/3.53 2.66/3.42 2.98/3.82 2.96/3.79 2.93/3.77 2.88/3.71
2.79/3.59 3.39/4.35 3.07/3.94 2.4/3.1 2.31/2.98 2.2/2.84 2.02/2.62 1.62/2.16 0.88/1.35 0.18/0.51 0.02/0.16 0/0.07 4.23/5.43
4.42/5.66 4.43/5.69 3.65/4.69 2.76/3.58 2.66/3.43 2.6/3.35 2.92/3.76 2.92/3.76 2.91/3.74 2.89/3.71 2.8/3.6 3.42/4.39
3.16/4.07 2.5/3.22 2.42/3.12 2.35/3.04 2.24/2.89 1.94/2.53 1.37/1.89 0.55/1 0.08/0.32 0.01/0.08
over_75 Tract 5.38/6.88
single_years County 5.58/7.21 5.47/6.99 5.47/7.12 5.96/7.62 6.15/7.87 5.93/7.62 5.96/7.64 6.1/7.79 5.93/7.59 5.98/7.62
6.06/7.72 6.02/7.75 5.92/7.55 6.02/7.7 6.11/7.83 3.98/5.36 4.9/8.24 5.12/8.96
group_quarters State 16.25/20.48 16.76/21.52 13.55/17.04 9.98/12.87 13.65/17.68 15.25/19.29 16.04/21.34 15.92/19.31
17.02/22.83
group_quarters County 9.01/12.47 7.3/11.11 3.48/6.74 5.2/7.19 1.58/4.49 8.11/12.13 4.58/9.8 1.26/6.08 6.74/10.43
group_quarters Tract 1.74/4.43 0.54/2.91 0.41/2.03 0.94/2.65 0.12/1.14 2.96/6.22 0.58/3.48 0.07/1.34 2.51/5.23"""


def _parsed(text: str) -> dict[tuple[str, str], tuple[tuple[float, float], ...]]:
    out: dict[tuple[str, str], tuple[tuple[float, float], ...]] = {}
    key = ("", "")
    for word in text.split():
        mae, pair, rmse = word.partition("/")
        if pair:
            out[key] = (*out.get(key, ()), (float(mae), float(rmse)))
        else:
            key = (key[1], word)
    return out


#: MAE and RMSE of each column, by figure and level.
ERRORS: Mapping[tuple[str, str], tuple[tuple[float, float], ...]] = _parsed(_ERRORS)

#: How many units are in the universe of a condition, and how many of these meet it: in the truth,
#: then as published. ``None`` where the workbook does not say.
OfficialCounts = tuple[int | None, int | None, int | None, int | None]
_OF_AREAS: dict[tuple[str, str], OfficialCounts] = {
    ("fewer persons in households than occupied units (3)", "Block"): (6188078, 0, 5812724, 305213),
    ("persons in households, no occupied unit (4)", "Block"): (6188078, 0, 6166124, 504028),
    ("occupied units, nobody in households (5)", "Block"): (6188078, 0, 5812724, 150628),
    ("children only (18)", "Block"): (6094071, 82, 6073144, 162743),
    ("more than 10 persons a household (19)", "Block"): (6188078, 1191, 5812724, 119557),
    ("all housing units occupied, not so in truth (22)", "Block"): (None, None, 11078297, 1939886),
    ("all housing units vacant, not so in truth (23)", "Block"): (None, None, 11078297, 489750),
    ("more households than persons in them (2)", "Tract"): (None, None, 73057, 17),
    ("more persons by the sizes of households than persons in them (2)", "Tract"): (
        None,
        None,
        73057,
        30855,
    ),
    ("more householders of a race than persons (6)", "Tract"): (27766, 0, 27766, 7818),
    ("more Hispanic householders than persons (7)", "Tract"): (27766, 0, 27766, 73),
    ("more householders of an age than persons (8)", "Tract"): (27766, 0, 27766, 346),
    ("more female householders than women (9)", "Tract"): (27766, 0, 27766, 17),
    ("more households with minors than minors (10)", "Tract"): (27766, 0, 27766, 162),
    ("more opposite-sex married couples than males (11)", "Tract"): (27766, 0, 27766, 10),
    ("more opposite-sex married couples than females (12)", "Tract"): (27766, 0, 27766, 11),
    ("married couples of more than all of 15 and over (13)", "Tract"): (27766, 0, 27766, 19),
    ("all of the same sex (16)", "Tract"): (72470, 16, 72463, 4),
    ("nobody of some age under 18 and sex (17)", "Tract"): (70125, 11, 70160, 33),
    ("children under 5, no women of 18 to 44 (14)", "County"): (3141, 0, 3141, 0),
    ("children under 5, no women of 18 to 44 (14)", "Tract"): (71929, 0, 72064, 0),
}
# of each group of persons
_NO_WOMEN: dict[str, tuple[OfficialCounts, ...]] = {
    "County": (
        (3141, 0, 3141, 0),
        (2404, 0, 2360, 0),
        (1934, 0, 1916, 0),
        (1840, 0, 1807, 0),
        (603, 0, 598, 0),
        (2561, 0, 2480, 0),
        (2971, 0, 3010, 0),
        (3016, 0, 3008, 0),
        (3141, 0, 3141, 0),
    ),
    "Tract": (
        (70189, 1, 70039, 3),
        (46382, 27, 46040, 153),
        (9945, 13, 10258, 170),
        (30368, 5, 30450, 68),
        (1852, 3, 1811, 51),
        (41923, 16, 41643, 197),
        (61506, 138, 61733, 263),
        (62709, 11, 62678, 81),
        (68515, 2, 68152, 6),
    ),
}
_MEDIANS: dict[str, tuple[OfficialCounts, ...]] = {
    "County": (
        (3143, 0, 3143, 1),
        (2846, 73, 2794, 157),
        (2958, 89, 2895, 262),
        (2772, 142, 2691, 250),
        (1333, 101, 1242, 158),
        (2978, 51, 2911, 131),
        (3103, 62, 3119, 73),
        (3120, 23, 3119, 64),
        (3143, 0, 3143, 1),
    ),
    "Tract": (
        (72167, 175, 72130, 350),
        (65500, 2205, 65128, 3745),
        (42505, 4562, 41239, 6809),
        (57980, 2588, 57450, 4511),
        (8022, 724, 7492, 1101),
        (61977, 1869, 60888, 2878),
        (70916, 2553, 71117, 2782),
        (71225, 1440, 71226, 1875),
        (72013, 320, 71950, 607),
    ),
}


def _of_groups(
    condition: str, counts: Mapping[str, tuple[OfficialCounts, ...]]
) -> dict[tuple[str, str], OfficialCounts]:
    return {
        (of_group(condition, g), level): c
        for level, each in counts.items()
        for g, c in zip(GROUPS, each, strict=True)
    }


#: Results that cannot be, or hardly: by condition, as ``impossible.csv`` calls it, and level.
IMPOSSIBLE: Mapping[tuple[str, str], OfficialCounts] = {
    **_OF_AREAS,
    **_of_groups(NO_WOMEN, _NO_WOMEN),
    **_of_groups(MEDIANS, _MEDIANS),
}
