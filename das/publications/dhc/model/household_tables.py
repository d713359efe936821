"""The tables of households and of units: P16, P19 to P21, PCT1 to PCT16, H1 to H15, HCT1 to HCT3,
but those of persons.

Source: as :mod:`das.publications.dhc.model.person_tables`. H2 rests on urban and rural places.
"""

from __future__ import annotations

from das.model.tabulation import Tabulation, Where
from das.publications.dhc.model.household_types import RANGES, persons
from das.publications.dhc.model.households import (
    DHCH,
    HHAGE,
    HISP,
    RACE,
    TENURE,
    TENURES,
    VACANCIES,
)
from das.publications.dhc.model.person_tables import TableLine, TableLines, by, columns, line, total
from das.publications.dhc.model.persons import SEX

_GROUPINGS = {g.name: g for g in DHCH.recodes}
_OWNED, _OLDER, _SENIOR = (_GROUPINGS[name] for name in ("hhtenshort_2lev", "hhageH18", "hhover65"))
_SIZES = _GROUPINGS["hhsize_all"]

_FAMILY: Where = {"relatives": ("1",)}
_NONFAMILY: Where = {"relatives": ("0",)}
_ALONE: Where = {"hhsize_all": ("1",)}
_TWO_OR_MORE: Where = {"hhsize_all": _SIZES.groups[1:]}
_MARRIED: Where = {"coupled_hh_type": ("MO", "MS")}
_COHABITING: Where = {"coupled_hh_type": ("CO", "CS")}
_SINGLE: Where = {"coupled_hh_type": ("N",)}
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
# ----------------------------------------------------------------


def _presence(age: int) -> TableLines:
    """Households with and without someone of an age and over, by size and type."""
    below = (
        line("1-person household", _ALONE),
        line(
            "2-or-more-person household",
            _TWO_OR_MORE,
            (line("Family households", _FAMILY), line("Nonfamily households", _NONFAMILY)),
        ),
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
                line(f"{label}, no spouse or partner present", {"sex": (code,), **_SINGLE}, either)
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
                (
                    line("Family households", _FAMILY, _married_or_other(_own())),
                    line("Nonfamily households", _NONFAMILY, _sexes()),
                ),
            ),
        ),
    )


def _minors() -> TableLines:
    either = (line("Family households", _FAMILY), line("Nonfamily households", _NONFAMILY))
    return total(
        {},
        (
            line("Households with one or more people under 18 years", {"minor": ("1",)}, either),
            line("Households with no people under 18 years", {"minor": ("0",)}, either),
        ),
    )


def _seniors() -> TableLines:
    either = (
        line("Family households", _FAMILY, _married_or_other()),
        line("Nonfamily households", _NONFAMILY),
    )
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
            line("All other households", _SINGLE),
        ),
    )


def _types_by_age() -> TableLines:
    age = by(_OLDER)
    return (
        line("Family households", _FAMILY, _married_or_other(age)),
        line("Nonfamily households", _NONFAMILY, _sexes(_alone_or_not(age))),
    )


# --- all
# ---------------------------------------------------------------------------------------------


_BY_HOUSEHOLDER = (
    line("Family households", _FAMILY, by(HHAGE)),
    line("Nonfamily households", _NONFAMILY, by(HHAGE)),
)
_FAMILIES = total(_FAMILY, _married_or_other(_own(ages=True)))
_BY_SIZE = (
    line("Family households", _FAMILY, _sized(2)),
    line("Nonfamily households", _NONFAMILY, _sized(1)),
)
_GENERATIONS = (("1", "Multigenerational household"), ("0", "Not multigenerational household"))
_TYPES = (
    line("Family households", _FAMILY, _married_or_other()),
    line("Nonfamily households", _NONFAMILY, _alone_or_not()),
)
#: Title and lines of each, by its name.
_TABLES: dict[str, tuple[str, TableLines]] = {
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
        Tabulation(name, title, columns=columns(of)) for name, (title, of) in _TABLES.items()
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
