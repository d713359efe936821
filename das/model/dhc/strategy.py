"""What production measured in 2020, and how it was estimated: the strategies of persons, households
and units.

Source: the Bureau's production code, strategies ``dhcp_20220922_exp_iteration_23_1`` and
``dhch_...``, of the nation and of Puerto Rico. Each number is the rho of one query at one level, an
answer has the variance 1/rho. The persons cost 24811/5000; households and units together
15401/2000.

Persons rest on the published redistricting counts, which are exact in every block; units on
published occupied and vacant ones, and on facilities; households on the units, whose occupied ones
of each tenure they are. The strategies do not say so."""

from __future__ import annotations

from fractions import Fraction

from das.model.dhc.households import DHCH, TENURE
from das.model.dhc.persons import DHCP
from das.model.dhc.units import TENVACGQ
from das.model.schema import Schema
from das.model.strategy import OuterPass, Strategy

LEVELS = (
    "US",
    "State",
    "County",
    "Prim",
    "Tract_Subset_Group",
    "Tract_Subset",
    "Block_Group",
    "Block",
)

_BY_AGE_40 = "relgq * age_40_groups * hispanic * cenrace * sex"
_BY_CLASS = "hispanic * sex * age_40_groups * relship_and_eight_level_GQ * cenrace"
#: Persons' counts of the redistricting file, by sex; and by three ages instead of two.
_PL94_BY_SEX = "hispanic * sex * votingage * hhgq8lev * cenrace"
_THREE_AGES = "hispanic * sex * age_18_64_116 * hhgq8lev * cenrace"
_PERSONS = (
    OuterPass(
        (
            "age_18_64_116 * relgq_4_groups",
            "age_18_64_116 * sex",
            "age_38_groups * sex",
            "hispanic * sex",
            "sex * relgq_4_groups",
            "gq_constr_groups * age_10_groups",
            "popSehsdTargetsRelship",
            _BY_CLASS,
            _BY_AGE_40,
        ),
        (_BY_AGE_40, _BY_CLASS, _THREE_AGES, _PL94_BY_SEX),
    ),
    OuterPass(("detailed",), ("detailed",)),
)

_DCT = "DetailedCoupleTypeMultGenDetOwnChildSize"
_BY_TYPE = f"sex * hisp * hhtenshort_3lev * race * {_DCT}"
_HOUSEHOLDS = (
    OuterPass(
        (
            "multig * hisp * hhtenshort_2lev",
            "hisp * hhtenshort_2lev",
            "hisp * hhtenshort_2lev * race",
            "partner_type_detailed_own_child_status * sex * hhtenshort_2lev",
            "coupled_hh_type * hisp * hhtenshort_2lev",
            _BY_TYPE,
        ),
        (_BY_TYPE, f"hhtenshort_3lev * {_DCT}"),
    ),
    OuterPass(
        (
            f"sex * hisp * hhtenshort_3lev * race * hhage * {_DCT}",
            f"hhtenshort_3lev * hhage * {_DCT}",
            "detailed",
        ),
        ("detailed",),
    ),
)
_UNITS = (OuterPass(("tenvacgq",), ("tenvacgq",)),)

#: The query of each whose answers are exact in every block. Of persons it has the redistricting
#: cells, in their order; of units occupied ones, vacant ones, and facilities by type; of households
#: the tenures that units have as ``tenure_3lev``, with a group more of units without a household.
PERSONS_FIXED, UNITS_FIXED, HOUSEHOLDS_FIXED = (
    "hhgq8lev * votingage * hispanic * cenrace",
    "occupancy_gqlevels",
    TENURE.name,
)
UNITS_TENURE = "tenure_3lev"
#: What the input is known for without noise: housing units, and facilities by type.
UNITS_EXACT = "gqlevels"

# rho of each query, in the order of the passes, in ten thousandths, from the root down
_OF_PERSONS = {
    "US": (
        (73, 73, 73, 73, 73, 292, 73, 73, 73, 73),
        (999, 999, 999, 999, 999, 3996, 999, 999, 999, 999),
        (310, 310, 310, 310, 310, 1240, 1240, 310, 310, 310),
        (478, 478, 478, 478, 478, 1912, 478, 478, 478, 478),
        (478, 478, 478, 478, 478, 1912, 478, 478, 478, 478),
        (868, 868, 868, 868, 868, 3472, 3472, 868, 868, 868),
        (430,) * 10,
        (11,) * 10,
    ),
    "PR": (
        (1009, 1011, 1011, 1011, 1011, 4045, 1011, 1011, 1011, 1011),
        (320, 320, 320, 320, 320, 1280, 1280, 320, 320, 320),
        (490, 490, 490, 490, 490, 1961, 490, 490, 490, 490),
        (490, 490, 490, 490, 490, 1961, 490, 490, 490, 490),
        (878, 878, 878, 878, 878, 3512, 3512, 878, 878, 878),
        (446,) * 10,
        (11,) * 10,
    ),
}
# the same of households, and at the end that of the units
_OF_HOUSEHOLDS = {
    "US": (
        (792, 212, 212, 792, 792, 257, 257, 212, 1049, 259),
        (714, 193, 191, 1428, 714, 3216, 3216, 193, 3931, 3216),
        (986, 266, 1500, 1972, 3944, 1380, 1380, 266, 1380, 1380),
        (973, 214, 1500, 1946, 973, 973, 973, 214, 973, 973),
        (973, 214, 1500, 1946, 973, 973, 973, 214, 973, 973),
        (1150, 310, 1750, 2300, 4601, 1610, 1610, 310, 1610, 1610),
        (291, 78, 442, 581, 1162, 407, 407, 78, 407, 407),
        (11, 3, 17, 22, 44, 15, 15, 3, 15, 15),
    ),
    "PR": (
        (748, 202, 200, 1496, 748, 3368, 3368, 202, 4117, 3364),
        (1041, 281, 1584, 2082, 4164, 1457, 1457, 281, 1457, 1457),
        (1054, 232, 1624, 2107, 1054, 1054, 1054, 232, 1054, 1054),
        (1054, 232, 1624, 2107, 1054, 1054, 1054, 232, 1054, 1054),
        (1205, 325, 1833, 2410, 4820, 1687, 1687, 325, 1687, 1687),
        (346, 93, 526, 691, 1382, 484, 484, 93, 484, 484),
        (11, 3, 17, 22, 44, 15, 15, 3, 15, 15),
    ),
}


def _strategy(
    schema: Schema, outer: tuple[OuterPass, ...], rows: tuple[tuple[int, ...], ...]
) -> Strategy:
    """``rows``: the rho of each query at each level; the lowest levels, where they are fewer."""
    names = [name for p in outer for name in p.queries]
    costs = ((Fraction(rho, 10_000) for rho in row) for row in rows)
    return Strategy(
        schema,
        {
            lv: dict(zip(names, c, strict=True))
            for lv, c in zip(LEVELS[-len(rows) :], costs, strict=True)
        },
        outer,
    )


def persons(where: str = "US") -> Strategy:
    """Of the nation, or of Puerto Rico (``"PR"``), whose tree begins with its State.

    >>> persons().cost, persons().answers
    (Fraction(24811, 5000), 1903289)
    """
    return _strategy(DHCP, _PERSONS, _OF_PERSONS[where])


def households(where: str = "US") -> Strategy:
    """Their passes come after that of the units.

    >>> households().answers, households().cost + units().cost
    (1737297, Fraction(15401, 2000))
    """
    return _strategy(DHCH, _HOUSEHOLDS, tuple(row[:-1] for row in _OF_HOUSEHOLDS[where]))


def units(where: str = "US") -> Strategy:
    """One query, and one pass."""
    return _strategy(TENVACGQ, _UNITS, tuple(row[-1:] for row in _OF_HOUSEHOLDS[where]))
