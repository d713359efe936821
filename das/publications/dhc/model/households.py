"""Households: sex, age, origin and race of the householder, the oldest persons, tenure, household
type; 1,578,528 cells.
"""

from __future__ import annotations

from collections.abc import Iterator

from das.model.query import Grouping
from das.model.schema import Attribute, Schema
from das.model.tabulation import Where
from das.publications.dhc.model import quarters
from das.publications.dhc.model.household_types import GROUPINGS, HHTYPE
from das.publications.dhc.model.persons import HISPANIC, OLDEST, RACE7, SEX, spans, years

# Units: occupied ones by tenure, vacant ones by why, and facilities of group quarters by type; 35
# cells.

#: Of an occupied unit.
TENURES = {
    "mortgage": "Owned with a mortgage or a loan",
    "clear": "Owned free and clear",
    "rented": "Rented",
    "no-cash-rent": "Occupied without payment of cash rent",
}
#: Of a vacant one.
VACANCIES = {
    "for-rent": "For rent",
    "rented-not-occupied": "Rented, not occupied",
    "for-sale": "For sale only",
    "sold-not-occupied": "Sold, not occupied",
    "seasonal": "For seasonal, recreational, or occasional use",
    "migrant": "For migrant workers",
    "other-vacant": "Other vacant",
}
#: Tenure as households have it: level ``i`` of :data:`TENURES` is group ``THREE[i]``.
TENURE3 = ("mortgage", "clear", "rented")
TENURE3_LABELS = (*tuple(TENURES.values())[:2], "Rented or occupied without payment of cash rent")
THREE = (0, 1, 2, 2)

_AWAY = (len(VACANCIES), len(quarters.TYPES))
_TENVACGQ = Attribute(
    "tenvacgq",
    (*TENURES, *VACANCIES, *quarters.LEVELS),
    "Tenure, vacancy or group quarters",
    (*TENURES.values(), *VACANCIES.values(), *quarters.LABELS),
)

#: Households of each tenure are the occupied units of it.
TENVACGQ = Schema(
    "tenvacgq",
    (_TENVACGQ,),
    recodes=(
        Grouping(
            "tenure_3lev",
            "tenvacgq",
            (*TENURE3, "not-occupied"),
            (*THREE, *(3,) * sum(_AWAY)),
            "Tenure",
            (*TENURE3_LABELS, "Not occupied, or group quarters"),
        ),
        Grouping(
            "unit_class",
            "tenvacgq",
            ("occupied", "vacant", "group-quarters"),
            (0,) * 4 + (1,) * _AWAY[0] + (2,) * _AWAY[1],
            "Occupancy status",
            ("Occupied", "Vacant", "Group quarters"),
        ),
        Grouping(
            "occupancy_gqlevels",
            "tenvacgq",
            ("occupied", "vacant", *quarters.LEVELS),
            (0,) * 4 + (1,) * _AWAY[0] + tuple(range(2, 2 + _AWAY[1])),
            "Occupancy status or type of group quarters",
            ("Occupied", "Vacant", *quarters.LABELS),
        ),
        *quarters.groupings("tenvacgq", len(TENURES) + len(VACANCIES)),
    ),
)


_SPANS = spans((15, 25, 35, 45, 55, 60, 65, 75, 85))
_AGES = tuple(f"{a}-{b}" if b < OLDEST else f"{a}-plus" for a, b in _SPANS)
HHAGE = Attribute("hhage", _AGES, "Age of householder", tuple(years(*span) for span in _SPANS))
HISP = Attribute("hisp", HISPANIC.levels, "Hispanic origin of householder", HISPANIC.labels)
RACE = Attribute("race", RACE7.groups, "Race of householder", RACE7.labels)
_ELDERLY = Attribute(
    "elderly",
    ("none", "60-64", "65-74", "75-plus"),
    "Oldest person of 60 years and over",
    (
        "Nobody of 60 years and over",
        "Someone of 60 to 64 years, nobody older",
        "Someone of 65 to 74 years, nobody older",
        "Someone of 75 years and over",
    ),
)
TENURE = Attribute("hhtenshort_3lev", TENURE3, "Tenure", TENURE3_LABELS)

_NO_YES = (("no", "yes"), ("No", "Yes"))
_RECODES = (
    Grouping(
        "hhtenshort_2lev",
        TENURE.name,
        ("owned", "rented"),
        (0, 0, 1),
        "Owned or rented",
        ("Owned", TENURE3_LABELS[2]),
    ),
    Grouping(
        "hhover65",
        "hhage",
        ("15-64", "65-plus"),
        (0,) * 6 + (1,) * 3,
        "Age of householder in two groups",
        (years(15, 64), years(65)),
    ),
    Grouping(
        "hhageH18",
        "hhage",
        ("15-34", "35-64", "65-plus"),
        (0,) * 2 + (1,) * 4 + (2,) * 3,
        "Age of householder in three groups",
        (years(15, 34), years(35, 64), years(65)),
    ),
    *(
        Grouping(
            f"presence{age}",
            "elderly",
            _NO_YES[0],
            tuple(int(i > below) for i in range(4)),
            f"Anyone of {age} years and over",
            _NO_YES[1],
        )
        for below, age in enumerate((60, 65, 75))
    ),
    *GROUPINGS,
)


# --- structural zeros
# --------------------------------------------------------------------------------

_COUPLE, _ANY_OWN, _UNDER_6 = ("MO", "MS", "CO", "CS"), ("1", "2", "3"), ("1", "3")
#: Ages of the householder of whom nobody in the household can be said to be older than their class
#: of ``elderly``.
_CLASSES = (
    (_AGES[:5], "none"),
    (_AGES[5:6], "60-64"),
    (_AGES[6:7], "65-74"),
    (_AGES[7:], "75-plus"),
)


def _own_class(first: int = 0, last: int = 4) -> Iterator[Where]:
    """``elderly`` other than the householder's own, for classes of their age."""
    for ages, own in _CLASSES[first:last]:
        yield {"hhage": ages, "elderly": tuple(x for x in _ELDERLY.levels if x != own)}


def _zeros() -> Iterator[Where]:
    young_and_old: Where = {"hhage": _AGES[:1], "elderly": ("75-plus",)}
    alone: Where = {"hhsize_all": ("1",)}
    yield from ({**alone, **rule} for rule in _own_class())
    yield {**alone, "minor": ("1",), "hhage": _AGES[1:]}
    # two persons: the other is a child; someone is under 18; or they are a couple
    pair: Where = {"hhsize_all": ("2",)}
    yield from (
        {**pair, "coupled_hh_type": ("N",), "children": _ANY_OWN, **rule}
        for rule in _own_class(0, 1)
    )
    yield from ({**pair, "minor": ("1",), **rule} for rule in _own_class(1))
    yield {**pair, "coupled_hh_type": _COUPLE, **young_and_old}
    # everybody but the couple, or the householder, is an own child
    yield {
        "hhsize_all": ("3",),
        "coupled_hh_type": _COUPLE,
        "own_children": ("1", "2"),
        **young_and_old,
    }
    yield from (
        {"hhsize_all": ("3",), "coupled_hh_type": ("N",), "own_children": ("3",), **rule}
        for rule in _own_class()
    )
    yield {
        "hhsize_all": ("4",),
        "coupled_hh_type": _COUPLE,
        "own_children": ("3",),
        **young_and_old,
    }
    # the householder counts
    for i, (ages, _) in enumerate(_CLASSES[1:], 1):
        yield {"hhage": ages, "elderly": _ELDERLY.levels[:i]}
    # parents of small children are not too old
    yield {"sex": ("male",), "hhage": _AGES[7:], "own_children": _UNDER_6}
    yield {"sex": ("female",), "hhage": _AGES[7:], "own_children": _ANY_OWN}
    yield {"sex": ("female",), "hhage": _AGES[5:], "own_children": _UNDER_6}


#: 2 x 9 x 2 x 7 x 4 x 3 x 522 cells, of which 1,111,572 are possible.
DHCH = Schema(
    "dhch",
    (SEX, HHAGE, HISP, RACE, _ELDERLY, TENURE, HHTYPE),
    recodes=_RECODES,
    impossible=tuple(_zeros()),
)
