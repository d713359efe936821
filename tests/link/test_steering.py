"""Prices: households of a tract move towards published totals, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from das.errors import InputError
from das.model.histogram import Histogram
from das.publications.dhc.agreement.counted import household_attributes
from das.publications.dhc.model.households import DHCH, TENURE
from das.publications.dhc.model.members import HEADS, household_levels
from das.publications.dhc.model.persons import DHCP
from das.tools.link import local_moves
from das.tools.link.linked_tract import FIRST_GROUP, LinkedTract
from das.tools.link.linking import (
    MOST,
    LinkedHomes,
    TractInput,
    link_tract,
    linked_tract,
    moved_together,
    parts,
    settled,
)
from das.tools.link.matching import attributes, counted
from das.tools.link.people import (
    CELLS,
    HomePersons,
    Totals,
    Trust,
    above_weights,
    added,
    age_classes,
    household_index,
    is_firm,
    person_index,
    published_totals,
)
from das.tools.link.population import tracts
from das.tools.link.relationships import LEAST, make_moves, steered
from tests import dhc_small
from tests import linked_worlds as worlds

KINDS = ("tenures", "joined", "exchanged", "swapped", "headed")


@pytest.fixture(scope="module")
def given() -> TractInput:
    """A tract whose persons and households contradict each other."""
    spine = dhc_small.tree()
    groups = np.asarray(spine.parent[-1])
    tract = np.asarray(spine.parent[-2])[groups]
    codes = [bytes(c) for c in spine.codes[-3]]
    return tracts(worlds.disagreeing(120), groups, tract, codes, trust=Trust(sweeps=0))[0]


@pytest.fixture(scope="module")
def homes(given: TractInput) -> LinkedHomes:
    return link_tract(given)


@pytest.fixture
def tract(given: TractInput, homes: LinkedHomes) -> LinkedTract:
    totals = published_totals(
        HomePersons.from_histogram(given.persons), given.households, given.group
    )
    tenure = household_attributes(homes.cell)[TENURE.name]
    return LinkedTract(homes.people, homes.household, tenure, given.group, totals)


def held(of: LinkedTract) -> np.ndarray:
    """Totals counted from the members anew, ``(1 + groups, CELLS)``."""
    people, groups = of.people.labeled(of.relgq), len(of.over) - FIRST_GROUP
    found, able = attributes(counted(people, of.home, len(of.head)), of.levels, of.head, of.tenure)
    assert able.all()
    persons = person_index()[of.relgq, age_classes(of.age)]
    return added(household_index(found), of.group, groups) + added(
        persons, of.group[of.home], groups
    )


def test_composition_is_what_members_are(homes: LinkedHomes) -> None:
    people, tenure = homes.people, household_attributes(homes.cell)[TENURE.name]
    head = np.flatnonzero(np.isin(people.relgq, HEADS))
    head = head[np.argsort(homes.household[head])]
    of = LinkedTract(people, homes.household, tenure, np.zeros(9, dtype=np.int64), nothing(1))
    found, able = attributes(of.counts, of.levels, head, tenure)
    assert able.all()
    known = household_levels(people.linked(homes.household), len(tenure))
    assert all(np.array_equal(found[name], level) for name, level in known.items())


def nothing(groups: int) -> Totals:
    return Totals(np.zeros((1 + groups, CELLS)), np.ones((1 + groups, CELLS)))


def test_steering_lowers_the_distance_and_keeps_what_is_published(tract: LinkedTract) -> None:
    start, wanted = tract.distance, held(tract) - tract.over[1:, :CELLS]
    block = tract.people.block[tract.head].copy()
    tenure = np.bincount(tract.group * 3 + tract.tenure)
    steered(tract, np.random.default_rng(1), 4)
    assert tract.distance < 0.5 * start
    assert np.allclose(held(tract) - wanted, tract.over[1:, :CELLS])  # no bookkeeping is off
    assert np.array_equal(tract.people.block, tract.block[tract.home])
    assert np.array_equal(tract.people.block[tract.head], block)
    assert np.array_equal(np.bincount(tract.group * 3 + tract.tenure), tenure)
    assert np.array_equal(np.sort(tract.head), np.flatnonzero(np.isin(tract.relgq, HEADS)))


@pytest.mark.parametrize("kind", ["relabeled", *KINDS])
def test_moves_of_each_kind_lower_the_distance(tract: LinkedTract, kind: str) -> None:
    """What is implausible left aside, each move that is made gains; and what is held changes as was
    foretold."""
    rng = np.random.default_rng(2)
    found = (
        local_moves.relabeled(tract)
        if kind == "relabeled"
        else getattr(local_moves, kind)(tract, rng, 9)
    )
    found = local_moves.HouseholdMoves(**{**vars(found), "cost": np.zeros(len(found.cost))})
    wanted, before = held(tract) - tract.over[1:, :CELLS], tract.distance
    many = make_moves(tract, found)
    assert many
    assert tract.distance <= before - LEAST * many
    assert np.allclose(held(tract) - wanted, tract.over[1:, :CELLS])


def test_a_tract_follows_the_unit_above(given: TractInput, homes: LinkedHomes) -> None:
    """One whose county has too many own children gives some, whatever was published of it."""
    cells, own = person_index()[[6, 7, 8], 0, 0], []
    for much in (-20.0, 20.0):
        tract, over = linked_tract(given, homes), np.zeros(CELLS)
        over[cells] = much
        tract.set_above(over, np.ones(CELLS))
        steered(tract, np.random.default_rng(1), 2)
        moved = settled(homes, tract)
        own.append(np.isin(moved.people.relgq, (6, 7, 8)).sum())
        assert DHCH.possible[moved.cell].all()
        assert np.array_equal(np.sort(moved.people.age), np.sort(homes.people.age))
    assert own[0] > own[1]


def test_tracts_move_together_towards_the_totals_of_their_county(given: TractInput) -> None:
    """Three tracts, and one where nobody lives."""
    empty = Histogram.from_triplets(
        len(given.group), DHCP.cells, *(np.zeros(0, dtype=np.int64),) * 3
    )
    nobody = replace(given, persons=empty)
    four = [replace(given, seed=bytes([i] * 32), trust=Trust(sweeps=1)) for i in range(3)]
    four.insert(1, replace(nobody, trust=Trust(sweeps=1)))
    before = [link_tract(t) for t in four]
    after = moved_together(four, before)

    def far(homes: list[LinkedHomes]) -> float:
        there = [linked_tract(t, h) for t, h in zip(four, homes, strict=True) if len(h.cell)]
        over = np.sum([t.added_up - t.wanted for t in there], axis=0)
        return float((above_weights(there[0].weight[1, :-1], 3) * over**2)[is_firm()].sum())

    assert far(after) < 0.5 * far(before)
    again = moved_together(four, before)
    for a, b, c in zip(before, after, again, strict=True):
        assert np.array_equal(b.cell, c.cell)
        assert all(np.array_equal(x, y) for x, y in zip(*map(people_of, (b, c)), strict=True))
        assert np.array_equal(np.sort(a.people.block), np.sort(b.people.block))
        assert np.array_equal(np.sort(a.people.age), np.sort(b.people.age))


def people_of(homes: LinkedHomes) -> tuple[np.ndarray, ...]:
    return homes.household, homes.people.relgq, homes.people.age


def test_tracts_that_move_together_are_of_one_county() -> None:
    above = np.repeat([0, 1, 2], [3, 170, 1])
    found = parts(above)
    assert np.array_equal(np.concatenate(found), np.arange(len(above)))
    assert all(len(set(above[p])) == 1 and len(p) <= MOST for p in found)
    assert [len(p) for p in found] == [3, 57, 57, 56, 1]


def test_what_totals_refuse() -> None:
    with pytest.raises(InputError, match="do not fit"):
        Totals(np.zeros((2, 3)), np.zeros((2, 4)))
