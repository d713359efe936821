"""The strategies of the DHC: what is measured, at which cost, and in which passes, as the
production code has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from das.errors import SpecError
from das.model.budget import Neighbours
from das.model.plan import OuterPass, Strategy
from das.publications.dhc.model import quarters
from das.publications.dhc.model.households import DHCH, TENVACGQ
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.model.strategy import (
    HOUSEHOLDS_FIXED,
    LEVELS,
    PERSONS_FIXED,
    UNITS_TENURE,
    households,
    persons,
    units,
)

ANSWERS = {
    "persons": [12, 6, 76, 4, 8, 60, 19, 252_000, 423_360, 1_227_744],
    "households": [8, 4, 28, 48, 20, 15_372, 138_348, 4_941, 1_578_528],
    "units": [35],
}
OF = {"persons": persons, "households": households, "units": units}


@pytest.mark.parametrize("name", OF)
@pytest.mark.parametrize("where", ["US", "PR"])
def test_queries_have_the_published_numbers_of_answers(name: str, where: str) -> None:
    strategy = OF[name](where)
    measured = [q for p in strategy.outer for q in p.queries]
    assert [strategy.schema.query(q).answers for q in measured] == ANSWERS[name]
    assert tuple(strategy.rho) == (LEVELS if where == "US" else LEVELS[1:])
    assert strategy.answers == sum(ANSWERS[name])


def test_of_a_unit_there_are_so_many_numbers() -> None:
    assert persons().answers + households().answers + units().answers == 3_640_621


def test_the_costs_are_the_published_ones() -> None:
    for where in ("US", "PR"):
        assert persons(where).cost == Fraction(24811, 5000)
        assert households(where).cost + units(where).cost == Fraction(15401, 2000)


@pytest.mark.parametrize(
    ("query", "answers", "open_"),
    [
        ("age_18_64_116 * relgq_4_groups", 12, 6),
        ("hispanic * sex", 4, 2),
        ("sex * relgq_4_groups", 8, 5),
        ("age_18_64_116 * sex", 6, 4),
        ("age_38_groups * sex", 76, 74),
    ],
)
def test_fixed_counts_leave_some_answers_open(query: str, answers: int, open_: int) -> None:
    """The rank of two partitions of the cells is the number of their parts less that of the
    connected components."""
    cells = np.flatnonzero(DHCP.possible)
    at, fixed = (np.asarray(DHCP.query(q).at(cells)) for q in (query, PERSONS_FIXED))
    n = int(at.max()) + 1
    pairs = csr_array((np.ones(len(at)), (at, n + fixed)), shape=2 * (n + int(fixed.max()) + 1,))
    components, label = connected_components(pairs, directed=False)
    lonely = components - len(np.unique(label[np.concatenate([at, n + fixed])]))
    assert n == answers
    assert n - (components - lonely) == open_


def test_two_queries_of_persons_are_one_among_households_and_not_in_group_quarters() -> None:
    """So only the sum of what they cost counts there."""
    by_age, by_class = (DHCP.query(q) for q in persons().outer[0].queries[:-3:-1])
    cells = np.flatnonzero(DHCP.possible)
    types = len(quarters.TYPES)
    home = np.unravel_index(cells, DHCP.shape)[0] < len(DHCP.attribute("relgq").levels) - types
    for where, same in ((home, True), (~home, False)):
        pairs = np.unique(np.stack([q.at(cells[where]) for q in (by_age, by_class)]), axis=1)
        each = [len(np.unique(side)) for side in pairs]
        assert (each[0] == each[1] == pairs.shape[1]) == same


#: Standard deviation of the detailed query: US, State, County, Prim and tract subset group, tract
#: subset, block group, block.
SIGMA = {
    "persons": "11.7 3.16 5.68 4.57 4.57 3.39 4.82 30.2",
    "households": "3.09 1.59 2.69 3.21 3.21 2.49 4.96 25.8",
}


@pytest.mark.parametrize("name", SIGMA)
def test_noise_of_the_cells(name: str) -> None:
    plan = OF[name]().plan()
    assert plan.neighbours is Neighbours.BOUNDED
    found = [
        f"{sqrt(d.parameter):.3g}"
        for level in LEVELS
        for d in plan.at(level)
        if d.query == "detailed"
    ]
    assert found == SIGMA[name].split()
    assert all(d.parameter == 1 / OF[name]().rho[d.level][d.query] for d in plan.measurements)


@pytest.mark.parametrize("name", OF)
def test_the_plan_has_each_cost_exactly(name: str) -> None:
    """Through shares of levels and of queries, as a configuration would say them."""
    strategy = OF[name]()
    plan = strategy.plan()
    assert {(d.level, d.query): d.cost for d in plan.measurements} == {
        (level, query): rho
        for level, queries in strategy.rho.items()
        for query, rho in queries.items()
    }
    assert plan.cost == strategy.cost
    assert sum(strategy.allocation.levels.values()) == 1


def test_what_is_rounded_together() -> None:
    chains = [[DHCP.query(q).answers for q in p.chain] for p in persons().outer]
    assert chains == [[423_360, 252_000, 6_048, 4_032], [1_227_744]]
    chains = [[DHCH.query(q).answers for q in p.chain] for p in households().outer]
    assert chains == [[15_372, 549], [1_578_528]]
    assert [p.frozen for p in persons().outer] == [
        "relgq * age_40_groups * hispanic * cenrace * sex",
        "detailed",
    ]


def test_the_last_pass_of_persons_splits_years_alone() -> None:
    """Of a frozen count at most six cells: the single years of one class of ages."""
    frozen, detailed = (DHCP.query(p.frozen) for p in persons().outer)
    size = np.bincount(frozen.index)
    assert (size.min(), size.max()) == (1, 6)
    assert frozen.sums(detailed)


def test_occupied_units_are_the_households_of_each_tenure() -> None:
    mine, theirs = (
        DHCH.query(HOUSEHOLDS_FIXED).groupings[DHCH.axis(HOUSEHOLDS_FIXED)],
        TENVACGQ.query(UNITS_TENURE).groupings[0],
    )
    assert mine.groups == theirs.groups[:3]
    assert [theirs.groups[i] for i in theirs.index[:5]] == [
        "mortgage",
        "clear",
        "rented",
        "rented",
        "not-occupied",
    ]


def test_new_queries_join_the_pass_that_settles_them_and_those_of_no_level_leave_it() -> None:
    """Size follows from the types that the first pass freezes; age of householder and the elderly
    do not. Levels need not measure the same."""
    one = Fraction(1)
    size, age = "hhtenshort_2lev * hhsize_all", "hhtenshort_2lev * hhage"
    found = households().measuring(
        {
            "State": {"detailed": one, "elderly": one},
            "Block": {"detailed": one, size: one, age: one},
        }
    )
    assert [p.queries for p in found.outer] == [(size,), ("detailed", "elderly", age)]
    assert [p.chain for p in found.outer] == [p.chain for p in households().outer]
    assert found.plan().cost == found.cost == 5
    assert [d.query for d in found.plan().at("State")] == ["detailed", "elderly"]


# --- as published
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["us", "pr"])
def test_every_rho_is_the_published_one(allocations: dict[str, Any], where: str) -> None:
    for kind, mine in (("dhcp", [persons]), ("dhch", [households, units])):
        theirs = allocations[f"{kind}_2020_{where}"]
        published = {
            (lv, q["query"]): Fraction(q["rho"])
            for lv, of in theirs["levels"].items()
            for q in of["queries"]
        }
        found = [s(where.upper()).rho for s in mine]
        assert {
            (lv, q): r for s in found for lv, of in s.items() for q, r in of.items()
        } == published
        assert tuple(found[0]) == tuple(theirs["geolevels_root_to_leaf"])
        assert sum(published.values()) == Fraction(theirs["rho_total"])


def test_passes_are_the_published_ones(allocations: dict[str, Any]) -> None:
    for kind, mine in (("dhcp", persons().outer), ("dhch", units().outer + households().outer)):
        order = allocations[f"{kind}_2020_us"]["query_ordering"]["same_at_every_geolevel"]
        for i, outer in enumerate(mine):
            # one query of the list was never measured, and skipped silently
            listed = [q for q in order["L2_measure_in_pass"][str(i)]["0"] if "hhgq8lev" not in q]
            assert sorted(listed) == sorted(outer.queries)
            assert order["rounder"][str(i)]["0"] == list(reversed(outer.chain))


# --- each fault
# --------------------------------------------------------------------------------------


def _with(outer: tuple[OuterPass, ...]) -> Callable[[Strategy], Strategy]:
    return lambda s: replace(s, outer=outer)


FIRST, LAST = persons().outer


@pytest.mark.parametrize(
    "change, message",
    [
        (_with((FIRST,)), "'detailed' is measured at 'US' or in a pass, and not once in both"),
        (_with((FIRST, LAST, LAST)), "'detailed' is measured"),
        (_with((replace(FIRST, chain=FIRST.chain[::-1]), LAST)), "is no sum of"),
        (_with((LAST, FIRST)), "'detailed' is no sum of"),
        (_with((FIRST, OuterPass(("detailed",), FIRST.chain[:1]))), "does not end with the cells"),
        (lambda s: replace(s, schema=DHCH), "age_40_groups|relgq|cenrace|hispanic"),
        (lambda s: s.measuring({**s.rho, "US": {}}), "'US' measures nothing"),
        (lambda s: s.measuring({"US": {"detailed": Fraction(0)}}), "not positive"),
        (lambda s: s.measuring({"US": {"sex * aeg": Fraction(1)}}), "aeg"),
    ],
)
def test_a_strategy_that_cannot_be_is_refused(
    change: Callable[[Strategy], Strategy], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        change(persons())
