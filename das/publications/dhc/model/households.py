"""Households: sex, age, origin and race of the householder, the oldest persons, tenure, household
type; 1,578,528 cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from das.model.query import Grouping
from das.model.schema import Attribute, Schema
from das.model.tabulation import Where
from das.publications.dhc.model import quarters
from das.publications.dhc.model.persons import HISPANIC, OLDEST, RACE7, SEX, spans, years

# The 522 types of household that the file distinguishes, made by the rule behind them.
#
# A type is a combination of seven fields. Which combinations there are, and in which order, follows
# from what the members of a household can be: a couple is two persons, a child under 18 of the
# householder is related to them, three generations are three persons, and so on.

ATTRIBUTE = "hhtype_dhch"

#: Couples: the householder and a spouse or partner.
COUPLES = {
    "MO": "Opposite-sex married couple",
    "MS": "Same-sex married couple",
    "CO": "Opposite-sex cohabiting couple",
    "CS": "Same-sex cohabiting couple",
    "N": "No spouse or partner",
}
#: Of children under 18, which of two ranges of ages there are.
RANGES = ("none", "under 6 years only", "6 to 17 years only", "under 6 years and 6 to 17 years")
#: The largest size, and any larger.
LARGEST = 7


class HouseholdType(NamedTuple):
    """``couple``: a key of :data:`COUPLES`. ``relatives``: 1 if anyone is related to the
    householder. ``own``: ages of children under 18 of the householder, an index of :data:`RANGES`;
    ``children``: of any under 18 but householder, spouse and partner. ``minor``: 1 if anyone is
    under 18. ``multig``: 1 if three generations live there. ``size``: 1 to 7, which is 7 or
    more."""

    couple: str
    relatives: int
    own: int
    children: int
    minor: int
    multig: int
    size: int

    @property
    def code(self) -> str:
        """
        >>> TYPES[0].code
        'MO rel1 own1 ch1 minor1 mg0 size3'"""
        return (
            f"{self.couple} rel{self.relatives} own{self.own} ch{self.children} minor{self.minor}"
            f" mg{self.multig} size{self.size}"
        )

    @property
    def married(self) -> bool:
        return self.couple in ("MO", "MS")

    @property
    def cohabiting(self) -> bool:
        return self.couple in ("CO", "CS")

    @property
    def alone(self) -> bool:
        return self.size == 1


#: ``own`` and ``children`` as they follow each other, and how many children they imply at least.
_CHILDREN = (
    ((1, 1), 1),
    ((1, 3), 2),
    ((2, 2), 1),
    ((2, 3), 2),
    ((3, 3), 2),
    ((0, 1), 1),
    ((0, 2), 1),
    ((0, 3), 2),
    ((0, 0), 0),
)


def _types() -> Iterator[HouseholdType]:
    for couple in COUPLES:
        if couple == "N":
            yield from (HouseholdType(couple, 0, 0, 0, minor, 0, 1) for minor in (0, 1))
        for relatives in (1, 0) if couple not in ("MO", "MS") else (1,):
            for (own, children), known in _CHILDREN:
                if relatives or not own:
                    yield from _sizes(couple, relatives, own, children, known)


def _sizes(
    couple: str, relatives: int, own: int, children: int, known: int
) -> Iterator[HouseholdType]:
    """With nobody under 18 first, where no child is known to be: then a spouse, a partner or the
    householder can be."""
    married, alone = couple in ("MO", "MS"), couple == "N"
    head = 1 if alone else 2
    others = known or int(not married and (relatives == 1 or alone))
    for minor in (0, 1) if not children else (1,):
        for size in range(head + others, LARGEST + 1):
            yield HouseholdType(couple, relatives, own, children, minor, 0, size)
        if relatives and not (alone and not children and minor):
            for size in range(head + (3 if children == 3 and own in (0, 3) else 2), LARGEST + 1):
                yield HouseholdType(couple, relatives, own, children, minor, 1, size)


TYPES = tuple(_types())


def label(t: HouseholdType) -> str:
    """
    >>> label(TYPES[0])
    'Opposite-sex married couple, with relatives, own children under 6 years only, 3 persons'"""
    parts = [COUPLES[t.couple], "with relatives" if t.relatives else "no relatives"]
    parts += [f"own children {RANGES[t.own]}"] if t.own else []
    parts += [f"children {RANGES[t.children]}"] if t.children != t.own else []
    parts += ["no children, someone under 18 years"] if t.minor and not t.children else []
    return ", ".join([*parts, *(["three generations"] if t.multig else []), persons(t.size)])


def persons(size: int) -> str:
    """
    >>> persons(1), persons(7)
    ('1 person', '7 or more persons')"""
    return (
        "1 person"
        if size == 1
        else f"{size} or more persons"
        if size == LARGEST
        else f"{size} persons"
    )


HHTYPE = Attribute(
    ATTRIBUTE, tuple(t.code for t in TYPES), "Household type", tuple(map(label, TYPES))
)


def _of(
    name: str, title: str, groups: Mapping[str, str], group: Callable[[HouseholdType], str]
) -> Grouping:
    """``groups``: code and label of each, in order; ``group``: the code of that of a type."""
    number = {code: i for i, code in enumerate(groups)}
    return Grouping(
        name,
        ATTRIBUTE,
        tuple(groups),
        tuple(number[group(t)] for t in TYPES),
        title,
        tuple(groups.values()),
    )


def _partner(t: HouseholdType) -> str:
    return "married" if t.married else "cohabiting" if t.cohabiting else "none"


_PARTNERS = {
    "none": "No spouse or partner",
    "married": "Married couple",
    "cohabiting": "Cohabiting couple",
}
_COUPLES = ("N", "MS", "MO", "CS", "CO")
_YES_NO = {"0": "No", "1": "Yes"}


def _sized(name: str, title: str, *, generations: bool, ranges: bool) -> Grouping:
    """By couple, own children and size, perhaps by generations and the ages of the children: those
    that occur, in order."""

    def key(t: HouseholdType) -> tuple[str, int, int, int]:
        return t.couple, t.multig if generations else 0, t.own if ranges else min(t.own, 1), t.size

    def code(kind: tuple[str, int, int, int]) -> str:
        couple, multig, own, size = kind
        return " ".join(
            [couple, *([f"mg{multig}"] if generations else []), f"own{own}", f"size{size}"]
        )

    def label(kind: tuple[str, int, int, int]) -> str:
        couple, multig, own, size = kind
        children = f"own children {RANGES[own]}" if ranges else "own children under 18 years"
        return ", ".join(
            [
                COUPLES[couple],
                *(["three generations"] if multig else []),
                children if own else "no own children under 18 years",
                persons(size),
            ]
        )

    found = sorted({key(t) for t in TYPES}, key=lambda k: (_COUPLES.index(k[0]), *k[1:]))
    return _of(name, title, {code(k): label(k) for k in found}, lambda t: code(key(t)))


def _of_fields() -> tuple[Grouping, ...]:
    ranges = {str(i): RANGES[i].capitalize() for i in range(4)}
    return (
        _of(
            "coupled_hh_type",
            "Couple",
            {c: COUPLES[c] for c in ("MS", "MO", "CS", "CO", "N")},
            lambda t: t.couple,
        ),
        _of("relatives", "Relatives of the householder", _YES_NO, lambda t: str(t.relatives)),
        _of("own_children", "Own children under 18 years", ranges, lambda t: str(t.own)),
        _of(
            "children",
            "Children under 18 years but householder, spouse or partner",
            ranges,
            lambda t: str(t.children),
        ),
        _of("minor", "Anyone under 18 years", _YES_NO, lambda t: str(t.minor)),
        _of("multig", "Three or more generations", _YES_NO, lambda t: str(t.multig)),
        _of(
            "hhsize_all",
            "Household size",
            {str(n): persons(n) for n in range(1, 8)},
            lambda t: str(t.size),
        ),
    )


def _kind(t: HouseholdType) -> str:
    if t.married:
        return "married"
    return "other-family" if t.relatives else "alone" if t.alone else "nonfamily"


_BY_AGES = {
    f"{p} {own}": f"{_PARTNERS[p]}, own children: {RANGES[own]}"
    for p in _PARTNERS
    for own in (1, 0, 2, 3)
}
_BY_PRESENCE = {
    f"{p} {own}": f"{_PARTNERS[p]}, {'no ' if not own else ''}own children"
    for p in ("married", "cohabiting", "none")
    for own in (1, 0)
}
_KINDS = {
    "married": "Married couple family",
    "other-family": "Other family",
    "alone": "Living alone",
    "nonfamily": "Nonfamily, not living alone",
}
_SIZES = {
    f"{kind} {n}": f"{said}, {persons(n)}"
    for kind, said in (("family", "Family"), ("nonfamily", "Nonfamily"))
    for n in range(1 if kind == "nonfamily" else 2, 8)
}
_OF_SEVERAL = (
    _of(
        "partner_type_detailed_own_child_status",
        "Couple and ages of own children",
        _BY_AGES,
        lambda t: f"{_partner(t)} {t.own}",
    ),
    _of(
        "partner_type_own_child_status",
        "Couple and own children",
        _BY_PRESENCE,
        lambda t: f"{_partner(t)} {min(t.own, 1)}",
    ),
    _sized(
        "DetailedCoupleTypeMultGenDetOwnChildSize",
        "Couple, generations, ages of own children, size",
        generations=True,
        ranges=True,
    ),
    _sized(
        "DetailedCoupleTypeMultGenOwnChildSize",
        "Couple, generations, own children, size",
        generations=True,
        ranges=False,
    ),
    _sized(
        "DetailedCoupleTypeDetOwnChildSize",
        "Couple, ages of own children, size",
        generations=False,
        ranges=True,
    ),
    _of(
        "family_nonfamily_size",
        "Family or nonfamily by size",
        _SIZES,
        lambda t: f"{'family' if t.relatives else 'nonfamily'} {t.size}",
    ),
    _of("p16", "Household type in four groups", _KINDS, _kind),
)
GROUPINGS = (*_of_fields(), *_OF_SEVERAL)


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
