"""The tables of persons: P1 to P18 but those of households, PCT8 to PCT19, PCO1 to PCO10, and H8.

Source: the technical documentation and the layout of the file of 2020; labels are our own. P2 rests
on urban and rural places, P13 has medians: they are no sums of cells, and not here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from das.model.query import Grouping
from das.model.redistricting import CENRACE, PL94
from das.model.schema import RACES, Attribute
from das.model.tabulation import LabeledWhere, Tabulation, Where
from das.model.universe import ADULTS, by_origin_and_race, by_race
from das.publications.dhc.model import quarters
from das.publications.dhc.model.households import (
    DHCH,
    HHAGE,
    HISP,
    RACE,
    RANGES,
    TENURE,
    TENURES,
    VACANCIES,
    persons,
)
from das.publications.dhc.model.persons import (
    HISPANIC,
    OLDEST,
    P12,
    RACE7,
    RELATIONSHIPS,
    SEX,
    ages,
    spans,
    years,
)

# Lines of tables as trees: each line counts those of the line above it that meet a condition
# more.

#: A label, the condition, and the lines below it, whose conditions come beside it or, on the same
#: attribute, in its place.
TableLine = tuple[str, Where, tuple["TableLine", ...]]
TableLines = tuple[TableLine, ...]


def columns(lines: TableLines, where: Where | None = None) -> tuple[LabeledWhere, ...]:
    """Each line before those below it.

    >>> from das.publications.dhc.model.persons import SEX
    >>> columns(total({}, by(SEX)))
    (('Total', {}), ('Male', {'sex': ('male',)}), ('Female', {'sex': ('female',)}))"""
    return tuple(_walk(lines, where or {}))


def _walk(lines: TableLines, above: Where) -> Iterator[LabeledWhere]:
    for label, where, below in lines:
        here = {**above, **where}
        yield label, here
        yield from _walk(below, here)


def line(label: str, where: Where, *below: TableLines) -> TableLine:
    """One, with everything below it."""
    return label, where, tuple(x for lines in below for x in lines)


def total(where: Where, *below: TableLines) -> TableLines:
    """A line for all that meet a condition."""
    return (line("Total", where, *below),)


def by(named: Attribute | Grouping, *below: TableLines) -> TableLines:
    """A line for each level of an attribute, or group of a grouping."""
    codes = named.levels if isinstance(named, Attribute) else named.groups
    return tuple(
        line(label, {named.name: (code,)}, *below)
        for code, label in zip(codes, named.labels, strict=True)
    )


def by_age(spans: Iterable[tuple[int, int]], *below: TableLines) -> TableLines:
    """A line for each range of ages."""
    return tuple(line(years(*span), {"age": ages(*span)}, *below) for span in spans)


_HOME: Where = {"gqlevels": ("household",)}
_AWAY: Where = {"gqlevels": quarters.LEVELS}
_MINOR: Where = {"age": ages(0, 17)}
_OLD: Where = {"age": ages(65)}
_MAJOR = {
    "institutional": "Institutional facilities",
    "noninstitutional": "Noninstitutional facilities",
}


def _who(label: str, *relgq: str, below: TableLines = (), where: Where | None = None) -> TableLine:
    return line(label, {"relgq": relgq, **(where or {})}, below)


# --- race and origin


def _tallied(origin: Where) -> tuple[LabeledWhere, ...]:
    """Those of each race, alone or in combination: a person counts once for each."""
    names = PL94.attribute("cenrace").labels[: len(RACES)]
    return tuple(
        (
            f"{name.removesuffix(' alone')} alone or in combination",
            {**origin, "cenrace": tuple(c for c in CENRACE if race in c.split("+"))},
        )
        for race, name in zip(RACES, names, strict=True)
    )


def _sum(label: str, lines: tuple[LabeledWhere, ...]) -> tuple[LabeledWhere, ...]:
    """Their sum before some lines."""
    return (label, tuple(where for _, where in lines if not isinstance(where, tuple))), *lines


def _tallied_by_origin() -> tuple[LabeledWhere, ...]:
    parts = (
        _sum(label, _tallied({"hispanic": (code,)}))
        for code, label in zip(HISPANIC.levels, HISPANIC.labels, strict=True)
    )
    return _sum("Total races tallied", tuple(x for part in parts for x in part))


# --- relationship


#: Those that are told apart by age; and all members but householders and other nonrelatives.
_YOUNG = ("biological-child", "adopted-child", "stepchild", "grandchild")
_MEMBERS = (
    *("opposite-sex-spouse", "same-sex-spouse", "opposite-sex-partner", "same-sex-partner"),
    *_YOUNG,
    *("sibling", "parent", "parent-in-law", "child-in-law", "other-relative", "foster-child"),
)


def _relationship() -> TableLines:
    sexes = tuple(
        line(f"{label} householder", {"sex": (sex,)}, _alone_or_with())
        for sex, label in zip(SEX.levels, SEX.labels, strict=True)
    )
    minor = (line("Under 18 years", _MINOR),)
    members = (_who(RELATIONSHIPS[x], x, below=minor if x in _YOUNG else ()) for x in _MEMBERS)
    home = (
        _who("Householder", *_HEADS, below=sexes),
        *members,
        _who("Other nonrelatives", "roommate", "other-nonrelative"),
    )
    return total({}, _home_or_away(home))


def _alone_or_with(below: TableLines = ()) -> TableLines:
    said = zip(("Living alone", "Not living alone"), _HEADS, strict=True)
    return tuple(_who(label, head, below=below) for label, head in said)


def _home_or_away(home: TableLines, away: TableLines = ()) -> TableLines:
    """``home`` is of who is there, ``away`` of each major type of group quarters."""
    return (line("In households", _HOME, home), line("In group quarters", _AWAY, _by_major(away)))


def _by_major(*below: TableLines) -> TableLines:
    return tuple(line(label, {"hhinstlevels": (code,)}, *below) for code, label in _MAJOR.items())


_HEADS = ("householder-alone", "householder")
_PARENTS = ("parent", "parent-in-law")
_CHILDREN = ("biological-child", "adopted-child", "stepchild")


def _under_18() -> TableLines:
    of_ages = by_age(spans((0, 3, 5, 6, 12, 14, 15), last=17))
    home = tuple(RELATIONSHIPS)
    return total(
        _MINOR,
        _home_or_away(
            (
                _who("Householder, spouse, or unmarried partner", *home[:6]),
                _who("Own child", *_CHILDREN, below=of_ages),
                _who("Other children", *home[9:], below=of_ages),
            ),
            of_ages,
        ),
    )


def _over_65() -> TableLines:
    related = (*_CHILDREN, "grandchild", "sibling", "child-in-law", "other-relative")
    return total(
        _OLD,
        _home_or_away(
            (
                _who("Householder", *_HEADS, below=_alone_or_with(by(SEX))),
                _who("Spouse or unmarried partner", *tuple(RELATIONSHIPS)[2:6]),
                _who("Parent or parent-in-law", *_PARENTS),
                _who("Other relatives", *related),
                _who("Other nonrelatives", "roommate", "foster-child", "other-nonrelative"),
            )
        ),
    )


# --- group quarters


def _quarters(*, types: bool) -> TableLines:
    """The seven classes under the two they belong to, perhaps with their types, where they have
    several."""
    said = dict(zip(quarters.HHGQ.levels, quarters.HHGQ.labels, strict=True))
    major = dict(zip(quarters.HHGQ.levels, PL94.recodes[0].index, strict=True))

    def class_line(hhgq: str) -> TableLine:
        inside = [t for t in quarters.TYPES if t.hhgq == hhgq]
        below = (
            tuple(line(t.label, {"gqlevels": (t.level,)}) for t in inside)
            if types and len(inside) > 1
            else ()
        )
        return line(said[hhgq], {"hhgq8lev": (hhgq,)}, below)

    return tuple(
        line(
            label,
            {"hhinstlevels": (code,)},
            tuple(class_line(hhgq) for hhgq in said if major[hhgq] == i),
        )
        for i, (code, label) in enumerate(_MAJOR.items(), 1)
    )


def _by_quarters(*, types: bool) -> TableLines:
    return total(_AWAY, by(SEX, by_age(spans((0, 18, 65)), _quarters(types=types))))


def _county(number: int, said: str, where: Where, first: int, last: int = 85) -> Tabulation:
    """By sex and ages in fives, those under ``first`` and those of ``last`` and over together."""
    starts = (0, *range(first, last + 1, 5))
    title = f"Group quarters population{said} by sex by age"
    return Tabulation(
        f"PCO{number}", title, columns=columns(total(where, by(SEX, by_age(spans(starts)))))
    )


def _class(*hhgq: str) -> Where:
    return {"hhgq8lev": hhgq}


def _counties() -> tuple[Tabulation, ...]:
    return (
        _county(1, "", _AWAY, 5),
        _county(2, " in institutional facilities", {"hhinstlevels": ("institutional",)}, 5),
        _county(3, " in correctional facilities for adults", _class("correctional"), 20),
        _county(4, " in juvenile facilities", _class("juvenile"), 5, 25),
        _county(5, " in nursing facilities/skilled-nursing facilities", _class("nursing"), 25),
        _county(6, " in other institutional facilities", _class("other-institutional"), 5),
        _county(7, " in noninstitutional facilities", {"hhinstlevels": ("noninstitutional",)}, 5),
        _county(8, " in college/university student housing", _class("college"), 20, 65),
        _county(9, " in military quarters", _class("military"), 20, 65),
        _county(10, " in other noninstitutional facilities", _class("other-noninstitutional"), 5),
    )


# --- all

_SINGLE = (*spans(range(101), last=100)[:-1], (100, 104), (105, 109), (110, OLDEST))
_GRANDCHILD: Where = {"relgq": ("grandchild",), **_MINOR}


_BY_SEX_AND_AGE = by(SEX, by_age(P12))
_BY_RELATIONSHIP = columns(_relationship())
_BY_QUARTERS = columns(_by_quarters(types=False))
#: Title and columns of each, by its name.
_TABLES: dict[str, tuple[str, tuple[LabeledWhere, ...]]] = {
    "P1": ("Total population", columns(total({}))),
    "P3": ("Race", columns(total({}, by(RACE7)))),
    "P4": ("Hispanic or Latino", columns(total({}, by(HISPANIC)))),
    "P5": ("Hispanic or Latino origin by race", columns(total({}, by(HISPANIC, by(RACE7))))),
    "P6": ("Race (races tallied)", _sum("Total races tallied", _tallied({}))),
    "P7": ("Hispanic or Latino origin by race (races tallied)", _tallied_by_origin()),
    "P8": ("Race", by_race({})),
    "P9": ("Hispanic or Latino, and not Hispanic or Latino by race", by_origin_and_race({})),
    "P10": ("Race for the population 18 years and over", by_race(ADULTS)),
    "P11": (
        (
            "Hispanic or Latino, and not Hispanic or Latino by race for the population 18 years"
            " and over"
        ),
        by_origin_and_race(ADULTS),
    ),
    "P12": ("Sex by age for selected age categories", columns(total({}, _BY_SEX_AND_AGE))),
    "P14": (
        "Sex by age for the population under 20 years",
        columns(total({"age": ages(0, 19)}, by(SEX, by_age(spans(range(20), last=19))))),
    ),
    "P15": (
        "Population in households by age",
        columns(
            total(
                _HOME,
                (line("Under 18 years", _MINOR), line("18 years and over", {"age": ages(18)})),
            )
        ),
    ),
    "P17": ("Household type (including living alone) by relationship", _BY_RELATIONSHIP),
    "P18": ("Group quarters population by sex by age by major group quarters type", _BY_QUARTERS),
    "PCT8": ("Relationship by age for the population under 18 years", columns(_under_18())),
    "PCT9": (
        (
            "Household type (including living alone) by relationship for the population 65"
            " years and over"
        ),
        columns(_over_65()),
    ),
    "PCT11": (
        ("Grandchildren under 18 years living with a grandparent householder by age of grandchild"),
        columns(total(_GRANDCHILD, by_age(spans((0, 3, 5, 6, 12), last=17)))),
    ),
    "PCT12": ("Sex by single-year age", columns(total({}, by(SEX, by_age(_SINGLE))))),
    "PCT13": (
        "Sex by age for the population in households",
        columns(total(_HOME, _BY_SEX_AND_AGE)),
    ),
    "PCT17": ("Household type (including living alone) by relationship", _BY_RELATIONSHIP),
    "PCT18": ("Group quarters population by sex by age by major group quarters type", _BY_QUARTERS),
    "PCT19": (
        "Group quarters population by sex by age by group quarters type",
        columns(_by_quarters(types=True)),
    ),
    "H8": ("Total population in occupied housing units", columns(total(_HOME))),
}


def person_tables() -> tuple[Tabulation, ...]:
    """Those that are sums of cells of :data:`das.publications.dhc.model.persons.DHCP`."""
    found = [Tabulation(name, title, columns=of) for name, (title, of) in _TABLES.items()]
    return (*found[:-1], *_counties(), found[-1])


# The tables of households and of units: P16, P19 to P21, PCT1 to PCT16, H1 to H15, HCT1 to HCT3,
# but those of persons.
#
# Source: as :mod:`das.publications.dhc.model.person_tables`. H2 rests on urban and rural places.

_GROUPINGS = {g.name: g for g in DHCH.recodes}
_OWNED, _OLDER, _SENIOR = (_GROUPINGS[name] for name in ("hhtenshort_2lev", "hhageH18", "hhover65"))
_SIZES = _GROUPINGS["hhsize_all"]

_FAMILY: Where = {"relatives": ("1",)}
_NONFAMILY: Where = {"relatives": ("0",)}
_ALONE: Where = {"hhsize_all": ("1",)}
_TWO_OR_MORE: Where = {"hhsize_all": _SIZES.groups[1:]}
_MARRIED: Where = {"coupled_hh_type": ("MO", "MS")}
_COHABITING: Where = {"coupled_hh_type": ("CO", "CS")}
_SINGLE_HOUSEHOLD: Where = {"coupled_hh_type": ("N",)}
_OTHER_FAMILY: Where = {"coupled_hh_type": ("CO", "CS", "N"), **_FAMILY}
_SEXES = tuple(zip(SEX.levels, ("Male householder", "Female householder"), strict=True))


def _sexes(*below: TableLines) -> TableLines:
    return tuple(line(label, {"sex": (code,)}, *below) for code, label in _SEXES)


def _other_family(*below: TableLines) -> TableLine:
    return line("Other family", _OTHER_FAMILY, _sexes(*below))


def _own(*, ages: bool = False, name: str = "own_children") -> TableLines:
    """With children under 18, perhaps by their ages, and without."""
    own = "Own children" if name == "own_children" else "Children"
    inside = (
        tuple(line(RANGES[i].capitalize(), {name: (str(i),)}) for i in (1, 3, 2)) if ages else ()
    )
    return (
        line(f"{own} under 18 years", {name: ("1", "2", "3")}, inside),
        line(f"No {own.lower()} under 18 years", {name: ("0",)}),
    )


def _family_or_not(family: TableLines = (), others: TableLines = ()) -> TableLines:
    return (
        line("Family households", _FAMILY, family),
        line("Nonfamily households", _NONFAMILY, others),
    )


def _married_or_other(*below: TableLines) -> TableLines:
    return line("Married couple family", _MARRIED, *below), _other_family(*below)


def _alone_or_not(*below: TableLines) -> TableLines:
    return (
        line("Householder living alone", _ALONE, *below),
        line("Householder not living alone", _TWO_OR_MORE, *below),
    )


def _sized(first: int) -> TableLines:
    return tuple(line(persons(n).capitalize(), {"hhsize_all": (str(n),)}) for n in range(first, 8))


# --- those that take more than a line


def _presence(age: int) -> TableLines:
    """Households with and without someone of an age and over, by size and type."""
    below = (
        line("1-person household", _ALONE),
        line("2-or-more-person household", _TWO_OR_MORE, _family_or_not()),
    )
    return total(
        {},
        tuple(
            line(f"Households with {who} {age} years and over", {f"presence{age}": (code,)}, below)
            for code, who in (("yes", "one or more people"), ("no", "no people"))
        ),
    )


def _by_own_children() -> TableLines:
    alone = line("Living alone", _ALONE, (line("65 years and over", {"hhover65": ("65-plus",)}),))
    either = (
        alone,
        line("With own children under 18 years", {"own_children": ("1", "2", "3")}),
        line("With relatives, no own children under 18 years", {"own_children": ("0",), **_FAMILY}),
        line("No relatives present, not living alone", {**_NONFAMILY, **_TWO_OR_MORE}),
    )
    return total(
        {},
        (
            line("Married couple household", _MARRIED, _own()),
            line("Cohabiting couple household", _COHABITING, _own()),
            *(
                line(
                    f"{label}, no spouse or partner present",
                    {"sex": (code,), **_SINGLE_HOUSEHOLD},
                    either,
                )
                for code, label in _SEXES
            ),
        ),
    )


def _by_size_and_type() -> TableLines:
    return total(
        {},
        (
            line("1-person household", _ALONE, _sexes()),
            line(
                "2-or-more-person household",
                _TWO_OR_MORE,
                _family_or_not(_married_or_other(_own()), _sexes()),
            ),
        ),
    )


def _minors() -> TableLines:
    either = _family_or_not()
    return total(
        {},
        (
            line("Households with one or more people under 18 years", {"minor": ("1",)}, either),
            line("Households with no people under 18 years", {"minor": ("0",)}, either),
        ),
    )


def _seniors() -> TableLines:
    either = _family_or_not(_married_or_other())
    return total(
        {},
        (
            line(
                "Households with one or more people 60 years and over",
                {"presence60": ("yes",)},
                either,
            ),
            line("Households with no people 60 years and over", {"presence60": ("no",)}, either),
        ),
    )


def _couples() -> TableLines:
    def couple(label: str, opposite: str, same: str) -> TableLine:
        return line(
            label,
            {"coupled_hh_type": (opposite, same)},
            (
                line("Opposite-sex couple", {"coupled_hh_type": (opposite,)}),
                line("Same-sex couple", {"coupled_hh_type": (same,)}, _sexes()),
            ),
        )

    return total(
        {},
        (
            couple("Married couple households", "MO", "MS"),
            couple("Unmarried partner households", "CO", "CS"),
            line("All other households", _SINGLE_HOUSEHOLD),
        ),
    )


def _types_by_age() -> TableLines:
    age = by(_OLDER)
    return _family_or_not(_married_or_other(age), _sexes(_alone_or_not(age)))


# --- all


_BY_HOUSEHOLDER = _family_or_not(by(HHAGE), by(HHAGE))
_FAMILIES = total(_FAMILY, _married_or_other(_own(ages=True)))
_BY_SIZE = _family_or_not(_sized(2), _sized(1))
_GENERATIONS = (("1", "Multigenerational household"), ("0", "Not multigenerational household"))
_TYPES = _family_or_not(_married_or_other(), _alone_or_not())
#: Title and lines of each, by its name.
_HOUSEHOLD_TABLES: dict[str, tuple[str, TableLines]] = {
    "P16": ("Household type", total({}, _TYPES)),
    "P19": (
        ("Households by presence of people 65 years and over, household size, and household type"),
        _presence(65),
    ),
    "P20": ("Households by type and presence of own children under 18 years", _by_own_children()),
    "P21": ("Households by presence of people under 18 years by household type", _minors()),
    "PCT1": (
        "Hispanic or Latino origin of householder by race of householder",
        total({}, by(HISP, by(RACE))),
    ),
    "PCT2": ("Household size by household type by presence of own children", _by_size_and_type()),
    "PCT3": ("Household type by age of householder", total({}, _BY_HOUSEHOLDER)),
    "PCT4": ("Household type by presence of people 60 years and over", _seniors()),
    "PCT5": (
        ("Households by presence of people 60 years and over, household size, and household type"),
        _presence(60),
    ),
    "PCT6": (
        ("Households by presence of people 75 years and over, household size, and household type"),
        _presence(75),
    ),
    "PCT7": ("Household type by household size", total({}, _BY_SIZE)),
    "PCT10": ("Family type by presence and age of own children", _FAMILIES),
    "PCT14": (
        "Presence of multigenerational households",
        total({}, tuple(line(label, {"multig": (code,)}) for code, label in _GENERATIONS)),
    ),
    "PCT15": ("Coupled households by type", _couples()),
    "PCT16": (
        "Nonfamily households by sex of householder by living alone by age of householder",
        total(_NONFAMILY, _sexes(_alone_or_not(by(_SENIOR)))),
    ),
    "H4": ("Tenure", total({}, by(TENURE))),
    "H6": ("Race of householder", total({}, by(RACE))),
    "H7": (
        "Hispanic or Latino origin of householder by race of householder",
        total({}, by(HISP, by(RACE))),
    ),
    "H9": ("Household size", total({}, _sized(1))),
    "H10": ("Tenure by race of householder", total({}, by(_OWNED, by(RACE)))),
    "H11": ("Tenure by Hispanic or Latino origin of householder", total({}, by(_OWNED, by(HISP)))),
    "H12": ("Tenure by household size", total({}, by(_OWNED, _sized(1)))),
    "H13": ("Tenure by age of householder", total({}, by(_OWNED, by(HHAGE)))),
    "H14": (
        "Tenure by household type by age of householder",
        total({}, by(_OWNED, _types_by_age())),
    ),
    "H15": (
        (
            "Tenure by presence of people under 18 years, excluding householders, spouses, and"
            " unmarried partners"
        ),
        total({}, by(_OWNED, _own(name="children"))),
    ),
    "HCT1": (
        "Tenure by Hispanic or Latino origin of householder by race of householder",
        total({}, by(_OWNED, by(HISP, by(RACE)))),
    ),
    "HCT2": ("Tenure by presence and age of own children", total({}, by(_OWNED, _own(ages=True)))),
    "HCT3": (
        (
            "Tenure by presence and age of people under 18 years, excluding householders,"
            " spouses, and unmarried partners"
        ),
        total({}, by(_OWNED, _own(ages=True, name="children"))),
    ),
}


def household_tables() -> tuple[Tabulation, ...]:
    """Those that are sums of cells of :data:`das.publications.dhc.model.households.DHCH`."""
    return tuple(
        Tabulation(name, title, columns=columns(of))
        for name, (title, of) in _HOUSEHOLD_TABLES.items()
    )


def unit_tables() -> tuple[Tabulation, ...]:
    """Those that are sums of cells of :data:`das.publications.dhc.model.households.TENVACGQ`."""
    housing: Where = {"tenvacgq": (*TENURES, *VACANCIES)}
    vacant = tuple(line(label, {"tenvacgq": (code,)}) for code, label in VACANCIES.items())
    either = (
        line("Occupied", {"tenvacgq": tuple(TENURES)}),
        line("Vacant", {"tenvacgq": tuple(VACANCIES)}),
    )
    return (
        Tabulation("H1", "Housing units", columns=columns(total(housing))),
        Tabulation("H3", "Occupancy status", columns=columns(total(housing, either))),
        Tabulation(
            "H5", "Vacancy status", columns=columns(total({"tenvacgq": tuple(VACANCIES)}, vacant))
        ),
    )
