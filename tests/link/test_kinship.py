"""Ages within linked households: couples, children and parents that can be, and the figures that
say how many hardly can."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.publications.dhc.model.members import HEADS, LEVEL, PARTNERS, LinkedPersons
from das.tools.link.members import (
    _LOST,
    KINSHIP,
    MOST_YEARS,
    _couple_cost,
    chosen,
    kinship,
    matched,
    with_partners,
)
from das.tools.link.people import PUBLISHED, HomePersons
from tests import linked_worlds as worlds

SPOUSE, CHILD, PARENT, OTHER = (
    LEVEL[x] for x in ("opposite-sex-spouse", "biological-child", "parent", "other-nonrelative")
)


def people(rows: list[tuple[int, int, int, int]]) -> HomePersons:
    """Of block, relationship, sex and age."""
    block, relgq, sex, age = (np.array(x, dtype=np.int64) for x in zip(*rows, strict=True))
    same = np.zeros_like(block)
    return HomePersons(block, relgq, sex, age, same, same)


def linked(rows: list[tuple[int, int, int]]) -> LinkedPersons:
    """Of household, relationship and age."""
    home, relgq, age = (np.array(x, dtype=np.int64) for x in zip(*rows, strict=True))
    same = np.zeros_like(home)
    return LinkedPersons(home, relgq, same, age, same, same)


def test_the_figures_of_households_that_were_counted_by_hand() -> None:
    found = kinship(
        linked(
            [
                *((0, HEADS[1], 60), (0, SPOUSE, 39), (0, CHILD, 46), (0, CHILD, 45)),
                *((1, HEADS[1], 30), (1, SPOUSE, 10 + 40), (1, PARENT, 44), (1, PARENT, 45)),
                *((2, HEADS[1], 15), (2, OTHER, 17)),
                (3, HEADS[0], 16),
            ]
        )
    )
    assert list(found) == list(KINSHIP)
    assert found == {
        "couples_apart": 50.0,  # 21 years are, 20 are not
        "couples_90": pytest.approx(20.9),
        "no_adult": 50.0,
        "young_householders": 25.0,
        "near_parents": 50.0,
        "near_children": 50.0,
    }


def test_nobody_is_no_share() -> None:
    found = kinship(linked([(0, HEADS[0], 40)]))
    assert set(found.values()) == {0.0}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_linked_households_have_ages_that_can_be(seed: int) -> None:
    """Of files that disagree. Two of ten couples at least would be further apart by chance."""
    of = worlds.linked(worlds.disagreeing(seed=seed))
    who, home = of.people, of.household
    head = np.zeros(len(of.cell), dtype=np.int64)
    heads = np.isin(who.relgq, HEADS)
    head[home[heads]] = who.age[heads]
    couple = np.isin(who.relgq, PARTNERS)
    gap = np.abs(who.age - head[home])[couple]
    assert gap.max() <= MOST_YEARS
    chance = np.abs(np.random.default_rng(1).permutation(who.age[couple]) - head[home[couple]])
    assert (chance > MOST_YEARS).mean() > 0.2
    found = kinship(who.linked(home))
    assert found["near_parents"] == found["near_children"] == 0


AGES = st.integers(18, 64)
ADULTS = st.lists(st.tuples(st.integers(0, 1), AGES, st.integers(0, 2)), min_size=1, max_size=7)


@settings(deadline=None, max_examples=150)
@given(ADULTS, st.integers(0, 4))
def test_couples_of_a_block_cost_least_of_all(
    drawn: list[tuple[int, int, int]], occupied: int
) -> None:
    """Against all ways to put men and women together, with as many couples as are called."""
    label = (HEADS[1], SPOUSE, OTHER)
    who = people([(0, label[k], sex, age) for sex, age, k in drawn])
    units = np.array([min(occupied, len(who))])
    mate = matched(who, units, np.zeros(1, dtype=np.int64), PUBLISHED)
    coupled = np.flatnonzero(mate >= 0)
    assert (mate[mate[coupled]] == coupled).all()
    assert (who.sex[coupled] != who.sex[mate[coupled]]).all()
    called = np.isin(who.relgq, PARTNERS)
    men, women = (np.flatnonzero(who.sex == s) for s in (0, 1))
    room = max(0, min(int(units[0]), len(who) - int(units[0])))

    def cost(i: np.ndarray, j: np.ndarray) -> float:
        lost = _LOST * (called.sum() - len(i))
        return float(_couple_cost(who, i, j, called, PUBLISHED).sum() + lost)

    best = np.inf
    for many in range(min(len(men), len(women), room, int(called.sum())) + 1):
        for some in combinations(men, many):
            for other in permutations(women, many):
                i, j = np.array(some, dtype=np.int64), np.array(other, dtype=np.int64)
                if (np.abs(who.age[i] - who.age[j]) <= MOST_YEARS).all():
                    best = min(best, cost(i, j))
    man = coupled[who.sex[coupled] == 0]
    assert cost(man, mate[man]) == pytest.approx(best, abs=0.5)  # a tenth of a unit each


@settings(deadline=None, max_examples=60)
@given(ADULTS, ADULTS, st.integers(1, 7), st.integers(1, 7))
def test_each_couple_has_one_householder_and_each_block_its_households(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]], a: int, b: int
) -> None:
    """Of two blocks of a block group. As many are called partners as are in couples."""
    label = (HEADS[1], SPOUSE, OTHER)
    rows = [(k, label[n], sex, age) for k, of in enumerate((one, other)) for sex, age, n in of]
    who, group = people(rows), np.zeros(2, dtype=np.int64)
    units = np.array([min(a, len(one)), min(b, len(other))])
    mate = matched(who, units, group, PUBLISHED)
    head = chosen(who, mate, units, np.full(14, 3))
    assert np.bincount(who.block[head], minlength=2).tolist() == units.tolist()
    coupled = np.flatnonzero(mate >= 0)
    assert (head[coupled] != head[mate[coupled]]).all()
    assert (who.block[coupled] == who.block[mate[coupled]]).all()
    found = with_partners(who, mate, head, group)
    partner = np.isin(found.relgq, PARTNERS)
    assert np.array_equal(partner, found.partner_of >= 0)
    assert head[found.partner_of[partner]].all()
