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

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.model.plan import OuterPass, Strategy
from das.model.query import Grouping, Query
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.publications.dhc.model.households import DHCH, TENURE, TENVACGQ
from das.publications.dhc.model.persons import DHCP

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
PERSONS_FIXED = "hhgq8lev * votingage * hispanic * cenrace"
UNITS_FIXED = "occupancy_gqlevels"
HOUSEHOLDS_FIXED = TENURE.name
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
    (Fraction(24811, 5000), 1903289)"""
    return _strategy(DHCP, _PERSONS, _OF_PERSONS[where])


def households(where: str = "US") -> Strategy:
    """Their passes come after that of the units.

    >>> households().answers, households().cost + units().cost
    (1737297, Fraction(15401, 2000))"""
    return _strategy(DHCH, _HOUSEHOLDS, tuple(row[:-1] for row in _OF_HOUSEHOLDS[where]))


def units(where: str = "US") -> Strategy:
    """One query, and one pass."""
    return _strategy(TENVACGQ, _UNITS, tuple(row[-1:] for row in _OF_HOUSEHOLDS[where]))


# Redistricting queries as margins of the DHC's queries of persons.
#
# Let Q be a query of the DHC, and P one of the redistricting persons. P is a *margin* of Q if every
# answer of Q falls into one answer of P. That is told by groupings, attribute by attribute: the cells
# of :data:`das.publications.dhc.model.strategy.PERSONS_FIXED` are those of the redistricting schema, and sex is
# summed out. An answer of the margin is a sum of :math:`n_a` noisy answers, so its variance is
# :math:`n_a \sigma_Q^2`. Answers of one query differ in :math:`n_a`. A measurement has one variance
# for each unit, so the margin has that of the largest: :math:`n = \max_a n_a`. That is the variance
# of the worst answer, and too much for the others. A pooled value that weighs by it stays unbiased,
# and its error is at most the variance that is stated.
#
# Margins of one query are not independent of each other. So each query of the DHC counts for one
# redistricting query alone (:func:`finest`).

Ints = NDArray[np.int64]
#: A margin with a smaller gain takes less than a hundredth off a variance, and is left out.
LEAST = 0.01
#: The redistricting cell of each of the DHC's cells.
_FIXED = DHCP.query(PERSONS_FIXED)


@dataclass(frozen=True, eq=False)
class MarginOfQuery(Frozen):
    """``query`` of the redistricting persons as sums of answers of the DHC's query ``of``:
    ``answer`` is the one that each falls into, ``(answers of the DHC's query,)``."""

    query: Query
    of: Query
    answer: Ints

    @staticmethod
    def between(query: Query, finer: Query) -> MarginOfQuery | None:
        """Nothing where some answer of ``finer`` falls into two.

        >>> found = MarginOfQuery.between(PL94.query("hispanic"), DHCP.query("hispanic * sex"))
        >>> found.answer, found.terms
        (array([0, 1, 0, 1]), 2)
        >>> MarginOfQuery.between(PL94.query("cenrace"), DHCP.query("hispanic * sex")) is None
        True"""
        coarse, answer = iter(query.groupings), np.zeros(1, dtype=np.int64)
        for cell, fine in zip(_FIXED.groupings, finer.groupings, strict=True):
            level, groups = np.zeros(len(fine.index), dtype=np.int64), 1
            if not cell.is_total:
                grouping = next(coarse)
                level, groups = np.array(grouping.index)[list(cell.index)], len(grouping.groups)
            if (group := _by_group(level, fine)) is None:
                return None
            answer = (answer[:, None] * groups + group).ravel()
        return MarginOfQuery(query, finer, answer)

    @cached_property
    def terms(self) -> int:
        """The most answers that are summed into one."""
        return int(np.bincount(self.answer).max())

    def sums(self, values: Ints) -> Ints:
        """The answers of the margin, ``(answers,)``, from those of ``of``. Sums of whole numbers up
        to 2^53 are exact."""
        found = np.bincount(self.answer, weights=values, minlength=self.query.answers)
        return np.rint(found).astype(np.int64)


def finest(measured: Mapping[str, float], query: Query, variance: float) -> MarginOfQuery | None:
    """The redistricting query that a query of the DHC counts for, of those that are ``measured``
    with the variances given: one such that no finer one is a margin, too. If there are several, that
    with the largest gain, the variance measured over the margin's. Nothing where that is small.

    >>> found = finest({"total": 1.0, "hispanic": 9.0}, DHCP.query("hispanic * sex"), 32.0)
    >>> found.query.name
    'hispanic'"""
    found = [m for q in measured if (m := MarginOfQuery.between(PL94.query(q), query)) is not None]
    finer = [
        m
        for m in found
        if not any(o.query.answers > m.query.answers and m.query.sums(o.query) for o in found)
    ]
    gains = [measured[m.query.name] / (m.terms * variance) for m in finer]
    best = max(gains, default=0.0)
    return finer[gains.index(best)] if best >= LEAST else None


def _by_group(level: Ints, fine: Grouping) -> Ints | None:
    """What each group of ``fine`` is, if all of its levels are the same; ``level`` says it of each
    level of the attribute."""
    index = np.array(fine.index)
    out = np.zeros(len(fine.groups), dtype=np.int64)
    out[index] = level
    return out if (out[index] == level).all() else None
