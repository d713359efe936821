"""The tables of persons: P1 to P18 but those of households, PCT8 to PCT19, PCO1 to PCO10, and H8.

Source: the technical documentation and the layout of the file of 2020; labels are our own. P2 rests
on urban and rural places, P13 has medians: they are no sums of cells, and not here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from das.model.publications import ADULTS, by_origin_and_race, by_race
from das.model.query import Grouping
from das.model.redistricting import CENRACE, PL94
from das.model.schema import RACES, Attribute
from das.model.tabulation import LabelledWhere, Tabulation, Where
from das.publications.dhc.model import quarters
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


def columns(lines: TableLines, of: Where | None = None) -> tuple[LabelledWhere, ...]:
    """Each line before those below it.

    >>> from das.publications.dhc.model.persons import SEX
    >>> columns(total({}, by(SEX)))
    (('Total', {}), ('Male', {'sex': ('male',)}), ('Female', {'sex': ('female',)}))
    """
    return tuple(_walk(lines, of or {}))


def _walk(lines: TableLines, above: Where) -> Iterator[LabelledWhere]:
    for label, where, below in lines:
        here = {**above, **where}
        yield label, here
        yield from _walk(below, here)


def line(label: str, where: Where, *below: TableLines) -> TableLine:
    """One, with everything below it."""
    return label, where, tuple(x for lines in below for x in lines)


def total(of: Where, *below: TableLines) -> TableLines:
    """A line for all that meet a condition."""
    return (line("Total", of, *below),)


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
# ---------------------------------------------------------------------------------


def _tallied(origin: Where) -> tuple[LabelledWhere, ...]:
    """Those of each race, alone or in combination: a person counts once for each."""
    names = PL94.attribute("cenrace").labels[: len(RACES)]
    return tuple(
        (
            f"{name.removesuffix(' alone')} alone or in combination",
            {**origin, "cenrace": tuple(c for c in CENRACE if race in c.split("+"))},
        )
        for race, name in zip(RACES, names, strict=True)
    )


def _sum(label: str, lines: tuple[LabelledWhere, ...]) -> tuple[LabelledWhere, ...]:
    """Their sum before some lines."""
    return (label, tuple(where for _, where in lines if not isinstance(where, tuple))), *lines


def _tallied_by_origin() -> tuple[LabelledWhere, ...]:
    parts = (
        _sum(label, _tallied({"hispanic": (code,)}))
        for code, label in zip(HISPANIC.levels, HISPANIC.labels, strict=True)
    )
    return _sum("Total races tallied", tuple(x for part in parts for x in part))


# --- relationship
# ------------------------------------------------------------------------------------


#: Those that are told apart by age; and all members but householders and other nonrelatives.
_YOUNG = ("biological-child", "adopted-child", "stepchild", "grandchild")
_MEMBERS = (
    *("opposite-sex-spouse", "same-sex-spouse", "opposite-sex-partner", "same-sex-partner"),
    *_YOUNG,
    *("sibling", "parent", "parent-in-law", "child-in-law", "other-relative", "foster-child"),
)


def _relationship() -> TableLines:
    alone = "householder-alone"
    either = (_who("Living alone", alone), _who("Not living alone", "householder"))
    sexes = tuple(
        line(f"{label} householder", {"sex": (sex,)}, either)
        for sex, label in zip(SEX.levels, SEX.labels, strict=True)
    )
    minor = (line("Under 18 years", _MINOR),)
    members = (_who(RELATIONSHIPS[x], x, below=minor if x in _YOUNG else ()) for x in _MEMBERS)
    home = (
        _who("Householder", alone, "householder", below=sexes),
        *members,
        _who("Other nonrelatives", "roommate", "other-nonrelative"),
    )
    return total(
        {}, (line("In households", _HOME, home), line("In group quarters", _AWAY, _by_major()))
    )


def _by_major(*below: TableLines) -> TableLines:
    return tuple(line(label, {"hhinstlevels": (code,)}, *below) for code, label in _MAJOR.items())


_PARENTS, _CHILDREN = (
    ("parent", "parent-in-law"),
    ("biological-child", "adopted-child", "stepchild"),
)


def _under_18() -> TableLines:
    of_ages = by_age(spans((0, 3, 5, 6, 12, 14, 15), last=17))
    home = tuple(RELATIONSHIPS)
    return total(
        _MINOR,
        (
            line(
                "In households",
                _HOME,
                (
                    _who("Householder, spouse, or unmarried partner", *home[:6]),
                    _who("Own child", *_CHILDREN, below=of_ages),
                    _who("Other children", *home[9:], below=of_ages),
                ),
            ),
            line("In group quarters", _AWAY, _by_major(of_ages)),
        ),
    )


def _over_65() -> TableLines:
    related = (*_CHILDREN, "grandchild", "sibling", "child-in-law", "other-relative")
    return total(
        _OLD,
        (
            line(
                "In households",
                _HOME,
                (
                    _who(
                        "Householder",
                        "householder-alone",
                        "householder",
                        below=(
                            _who("Living alone", "householder-alone", below=by(SEX)),
                            _who("Not living alone", "householder", below=by(SEX)),
                        ),
                    ),
                    _who("Spouse or unmarried partner", *tuple(RELATIONSHIPS)[2:6]),
                    _who("Parent or parent-in-law", *_PARENTS),
                    _who("Other relatives", *related),
                    _who("Other nonrelatives", "roommate", "foster-child", "other-nonrelative"),
                ),
            ),
            line("In group quarters", _AWAY, _by_major()),
        ),
    )


# --- group quarters
# ----------------------------------------------------------------------------------


def _quarters(*, types: bool) -> TableLines:
    """The seven classes under the two they belong to, perhaps with their types, where they have
    several.
    """
    said = dict(zip(quarters.HHGQ.levels, quarters.HHGQ.labels, strict=True))
    major = dict(zip(quarters.HHGQ.levels, PL94.recodes[0].index, strict=True))

    def of(hhgq: str) -> TableLine:
        inside = [t for t in quarters.TYPES if t.hhgq == hhgq]
        below = (
            tuple(line(t.label, {"gqlevels": (t.level,)}) for t in inside)
            if types and len(inside) > 1
            else ()
        )
        return line(said[hhgq], {"hhgq8lev": (hhgq,)}, below)

    return tuple(
        line(label, {"hhinstlevels": (code,)}, tuple(of(hhgq) for hhgq in said if major[hhgq] == i))
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
# ---------------------------------------------------------------------------------------------

_SINGLE = (*spans(range(101), last=100)[:-1], (100, 104), (105, 109), (110, OLDEST))
_GRANDCHILD: Where = {"relgq": ("grandchild",), **_MINOR}


_BY_SEX_AND_AGE = by(SEX, by_age(P12))
_BY_RELATIONSHIP = columns(_relationship())
_BY_QUARTERS = columns(_by_quarters(types=False))
#: Title and columns of each, by its name.
_TABLES: dict[str, tuple[str, tuple[LabelledWhere, ...]]] = {
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
