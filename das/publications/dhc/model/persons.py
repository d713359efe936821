"""Persons: relationship or type of group quarters, sex, age in single years, Hispanic origin, race;
1,227,744 cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from das.model.query import Grouping
from das.model.redistricting import PL94
from das.model.schema import RACES, Attribute, Schema
from das.publications.dhc.model import quarters

#: Of persons in households. Levels 0 to 17 of ``relgq``.
RELATIONSHIPS = {
    "householder-alone": "Householder living alone",
    "householder": "Householder not living alone",
    "opposite-sex-spouse": "Opposite-sex spouse",
    "opposite-sex-partner": "Opposite-sex unmarried partner",
    "same-sex-spouse": "Same-sex spouse",
    "same-sex-partner": "Same-sex unmarried partner",
    "biological-child": "Biological child",
    "adopted-child": "Adopted child",
    "stepchild": "Stepchild",
    "sibling": "Brother or sister",
    "parent": "Parent",
    "grandchild": "Grandchild",
    "parent-in-law": "Parent-in-law",
    "child-in-law": "Son-in-law or daughter-in-law",
    "other-relative": "Other relative",
    "roommate": "Roommate or housemate",
    "foster-child": "Foster child",
    "other-nonrelative": "Other nonrelative",
}
#: Persons of this age or older are one level.
OLDEST = 115

SEX = Attribute("sex", ("male", "female"), "Sex", ("Male", "Female"))
HISPANIC, CENRACE = PL94.attribute("hispanic"), PL94.attribute("cenrace")


def ages(first: int, last: int = OLDEST) -> tuple[str, ...]:
    """The levels of ``age`` from one to another."""
    return tuple(map(str, range(first, last + 1)))


def years(first: int, last: int = OLDEST) -> str:
    """A range of ages, in words.

    >>> years(0, 4), years(1, 1), years(18, 19), years(20, 24), years(85)
    ('Under 5 years', '1 year', '18 and 19 years', '20 to 24 years', '85 years and over')"""
    if first == 0:
        return f"Under {last + 1} {'years' if last else 'year'}"
    if last == OLDEST:
        return f"{first} years and over"
    if first == last:
        return f"{first} {'year' if first == 1 else 'years'}"
    return f"{first} {'and' if last == first + 1 else 'to'} {last} years"


def spans(starts: Sequence[int], last: int = OLDEST) -> tuple[tuple[int, int], ...]:
    """The ranges of ages that begin with ``starts``.

    >>> spans([0, 18, 65])
    ((0, 17), (18, 64), (65, 115))"""
    return tuple(zip(starts, [*(s - 1 for s in starts[1:]), last], strict=True))


AGE = Attribute("age", ages(0), "Age", tuple(years(*span) for span in spans(range(OLDEST + 1))))
_TAIL = (18, 20, *range(25, 60, 5), 60, 62, 65, 67, *range(70, 111, 5))
#: The ages that sex by age is published by.
P12 = spans((0, 5, 10, 15, 18, 20, 21, 22, *range(25, 60, 5), 60, 62, 65, 67, 70, 75, 80, 85))


def _of_ages(name: str, title: str, starts: Sequence[int]) -> Grouping:
    groups = {f"{a}-{b}" if b > a else f"{a}": (years(a, b), b - a + 1) for a, b in spans(starts)}
    index = tuple(i for i, (_, size) in enumerate(groups.values()) for _ in range(size))
    return Grouping(
        name, "age", tuple(groups), index, title, tuple(label for label, _ in groups.values())
    )


_VOTINGAGE = PL94.attribute("votingage")
_AGES = (
    Grouping(
        "votingage",
        "age",
        _VOTINGAGE.levels,
        (0,) * 18 + (1,) * 98,
        _VOTINGAGE.title,
        _VOTINGAGE.labels,
    ),
    _of_ages("age_18_64_116", "Age in three groups", (0, 18, 65)),
    _of_ages("age_10_groups", "Age in ten groups", (0, 3, 15, 16, 17, 18, 20, 25, 30, 35)),
    _of_ages("age_38_groups", "Age, single years under 15", (*range(15), 15, *_TAIL)),
    _of_ages("age_40_groups", "Age, single years under 18", (*range(18), *_TAIL)),
    _of_ages("age_23_groups", "Age in 23 groups", [a for a, _ in P12]),
    _of_ages("age_5_years", "Age in five years", range(0, 111, 5)),
)


_HOME, _AWAY = tuple(RELATIONSHIPS), quarters.LEVELS
_RELGQ = Attribute(
    "relgq",
    (*_HOME, *_AWAY),
    "Relationship or group quarters",
    (*RELATIONSHIPS.values(), *quarters.LABELS),
)
_INSTITUTIONAL = quarters.levels("correctional", "juvenile", "nursing", "other-institutional")


def _of_relgq(name: str, title: str, groups: Mapping[str, tuple[str, Sequence[str]]]) -> Grouping:
    members = {code: levels for code, (_, levels) in groups.items()}
    grouping = Grouping.from_levels(name, _RELGQ.name, _RELGQ.levels, members, name)
    return grouping.labeled(title, {code: label for code, (label, _) in groups.items()}, name)


_EACH = {level: (label, (level,)) for level, label in RELATIONSHIPS.items()}
_SEVEN = zip(quarters.HHGQ.levels[1:], quarters.HHGQ.labels[1:], strict=True)
#: Its groupings but those of :mod:`das.publications.dhc.model.quarters`.
_OF_RELGQ = (
    _of_relgq(
        "relgq_4_groups",
        "Householders, others in households, group quarters in two classes",
        {
            "householder": ("Householder", _HOME[:2]),
            "other-household-member": ("Other household member", _HOME[2:]),
            "institutional": ("Institutional group quarters", _INSTITUTIONAL),
            "noninstitutional": (
                "Noninstitutional group quarters",
                [x for x in _AWAY if x not in _INSTITUTIONAL],
            ),
        },
    ),
    _of_relgq(
        "gq_constr_groups",
        "Group quarters by the ages that they can have",
        {
            "household": ("Household", _HOME),
            **{
                " ".join(codes): ("Types " + ", ".join(codes), [f"gq-{c}" for c in codes])
                for codes in (
                    ("405",),
                    ("101", "102", "103", "104", "105"),
                    ("501", "801", "802", "900", "901", "997"),
                    ("106", "404", "601", "602"),
                    ("201", "202", "203", "301", "401", "402", "403", "701"),
                )
            },
        },
    ),
    _of_relgq(
        "popSehsdTargetsRelship",
        "Relationship",
        _EACH | {"group-quarters": ("Group quarters", _AWAY)},
    ),
    _of_relgq(
        "relship_and_eight_level_GQ",
        "Relationship or group quarters in seven classes",
        _EACH | {hhgq: (label, quarters.levels(hhgq)) for hhgq, label in _SEVEN},
    ),
)

_NUMBER = [c.count("+") for c in CENRACE.levels]
#: One race each, or several.
RACE7 = Grouping(
    "race7",
    "cenrace",
    (*RACES, "two-or-more"),
    tuple(i if n == 0 else len(RACES) for i, n in enumerate(_NUMBER)),
    "Race in seven groups",
    (*CENRACE.labels[: len(RACES)], "Two or more races"),
)
_NUMRACES = Grouping(
    "numraces",
    "cenrace",
    ("one", "two", "three", "four", "five", "six"),
    tuple(_NUMBER),
    "Number of races",
    ("One race", "Two races", "Three races", "Four races", "Five races", "Six races"),
)

#: The least and the greatest age of those who are not of any: by level, or by code of group
#: quarters.
_POSSIBLE_AGES = (
    (15, OLDEST, (*tuple(RELATIONSHIPS)[:6], "gq-101", "gq-102", "gq-103", "gq-104", "gq-105")),
    (0, 89, ("biological-child", "adopted-child", "stepchild")),
    (30, OLDEST, ("parent", "parent-in-law")),
    (0, 74, ("grandchild",)),
    (15, 89, ("child-in-law",)),
    (0, 20, ("foster-child",)),
    (17, 65, ("gq-106", "gq-404", "gq-601", "gq-602")),
    (0, 25, ("gq-201", "gq-202", "gq-203")),
    (20, OLDEST, ("gq-301",)),
    (3, 30, ("gq-405",)),
    (16, 65, ("gq-501",)),
    (16, OLDEST, ("gq-801", "gq-802")),
    (16, 75, ("gq-900",)),
)

#: 42 x 2 x 116 x 2 x 63 cells, of which 905,184 are possible. Its facilities bound ``gqlevels``,
#: which is no attribute of its own: ``dwelling`` is not set.
DHCP = Schema(
    "dhcp",
    (_RELGQ, SEX, AGE, HISPANIC, CENRACE),
    recodes=(
        *_OF_RELGQ,
        *quarters.groupings("relgq", len(RELATIONSHIPS)),
        *_AGES,
        RACE7,
        _NUMRACES,
    ),
    impossible=tuple(
        {"relgq": who, "age": ages(0, least - 1) + ages(most + 1)}
        for least, most, who in _POSSIBLE_AGES
    ),
)
