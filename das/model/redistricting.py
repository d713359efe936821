"""The schemas of redistricting data and of the 1940 test."""

from __future__ import annotations

from itertools import combinations

from das.model.query import Grouping
from das.model.schema import RACES, Attribute, Schema
from das.plugins import Plugins

#: The 63 combinations of one to six races: by number of races, then lexicographic over ``RACES``.
CENRACE = tuple("+".join(c) for n in range(1, 7) for c in combinations(RACES, n))


_RACE_LABELS = dict(
    zip(
        RACES,
        (
            "White",
            "Black or African American",
            "American Indian and Alaska Native",
            "Asian",
            "Native Hawaiian and Other Pacific Islander",
            "Some other race",
        ),
    )
)


def _race_label(combination: str) -> str:
    labels = [_RACE_LABELS[r] for r in combination.split("+")]
    return f"{labels[0]} alone" if len(labels) == 1 else "; ".join(labels)


_HHGQ = Attribute(
    "hhgq",
    (
        "household",
        "correctional",
        "juvenile",
        "nursing",
        "other-institutional",
        "college",
        "military",
        "other-noninstitutional",
    ),
    "Group quarters",
    (
        "Household",
        "Correctional facilities for adults",
        "Juvenile facilities",
        "Nursing facilities/Skilled-nursing facilities",
        "Other institutional facilities",
        "College/University student housing",
        "Military quarters",
        "Other noninstitutional facilities",
    ),
)


_VOTINGAGE = Attribute(
    "votingage", ("under-18", "18-and-over"), "Voting age", ("Under 18 years", "18 years and over")
)


_HISPANIC = Attribute(
    "hispanic",
    ("not-hispanic", "hispanic"),
    "Hispanic origin",
    ("Not Hispanic or Latino", "Hispanic or Latino"),
)


_CENRACE = Attribute("cenrace", CENRACE, "Race", tuple(map(_race_label, CENRACE)))


#: Redistricting persons, 8 x 2 x 2 x 63 = 2,016 cells. Source: the Bureau's 2020 production schema.
PL94 = Schema(
    "pl94",
    (_HHGQ, _VOTINGAGE, _HISPANIC, _CENRACE),
    recodes=(
        Grouping(
            "hhinstlevels",
            "hhgq",
            ("household", "institutional", "noninstitutional"),
            (0, 1, 1, 1, 1, 2, 2, 2),
            "Major group quarters type",
            ("Household", "Institutional group quarters", "Noninstitutional group quarters"),
        ),
    ),
    impossible=({"hhgq": ("nursing",), "votingage": ("under-18",)},),
    dwelling="hhgq",
)


#: Housing units: vacant or occupied.
H1 = Schema(
    "h1", (Attribute("h1", ("vacant", "occupied"), "Occupancy status", ("Vacant", "Occupied")),)
)


#: The 2018 end-to-end test on 1940 data, 8 x 2 x 2 x 6 = 192 cells.
E2E_1940 = Schema(
    "1940-e2e",
    (
        Attribute(
            "hhgq",
            (
                "household",
                "correctional",
                "mental",
                "elderly-handicapped-poor",
                "military",
                "college",
                "rooming-house",
                "other",
            ),
            "Group quarters",
            (
                "Household",
                "Correctional institutions",
                "Mental institutions",
                "Institutions for the elderly, handicapped and poor",
                "Military",
                "College dormitory",
                "Rooming house",
                "Other group quarters",
            ),
        ),
        _VOTINGAGE,
        _HISPANIC,
        Attribute(
            "race",
            ("White", "Black", "AIAN", "Chinese", "Japanese", "Other-Asian-or-PI"),
            "Race",
            (
                "White",
                "Black",
                "American Indian or Alaska Native",
                "Chinese",
                "Japanese",
                "Other Asian or Pacific Islander",
            ),
        ),
    ),
    dwelling="hhgq",
)


# The schemas that have names, each loaded when it is asked for.

SCHEMAS: Plugins[Schema] = Plugins(
    "das.schemas", "schema", Schema, ("pl94", "h1", "1940-e2e", "dhcp", "dhch", "tenvacgq")
)
