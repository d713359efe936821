"""Prices: households of a tract move towards published totals, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from das.errors import InputError
from das.link import moves
from das.link.composition import attributes, counted
from das.link.fields import household_attributes
from das.link.linked_tract import LinkedTract
from das.link.linking import LinkedHomes, TractInput, link_tract, settled
from das.link.people import HomePersons
from das.link.population import tracts
from das.link.steering import LEAST, made, steered
from das.link.totals import (
    CELLS,
    Totals,
    added,
    age_classes,
    household_index,
    person_index,
    published_totals,
    shares,
)
from das.link.trust import Trust
from das.model.dhc.households import DHCH, TENURE
from das.model.dhc.members import HEADS, household_levels
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
    totals = published_totals(HomePersons.of(given.persons), given.households, given.group)
    tenure = household_attributes(homes.cell)[TENURE.name]
    return LinkedTract(homes.people, homes.household, tenure, given.group, totals)


def held(of: LinkedTract) -> np.ndarray:
    """Totals counted from the members anew, ``(1 + groups, CELLS)``."""
    people, groups = of.people.labelled(of.relgq), len(of.over) - 1
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
    start, wanted = tract.distance, held(tract) - tract.over[:, :CELLS]
    block = tract.people.block[tract.head].copy()
    tenure = np.bincount(tract.group * 3 + tract.tenure)
    steered(tract, np.random.default_rng(1), 4)
    assert tract.distance < 0.5 * start
    assert np.allclose(held(tract) - wanted, tract.over[:, :CELLS])  # no bookkeeping is off
    assert np.array_equal(tract.people.block, tract.block[tract.home])
    assert np.array_equal(tract.people.block[tract.head], block)
    assert np.array_equal(np.bincount(tract.group * 3 + tract.tenure), tenure)
    assert np.array_equal(np.sort(tract.head), np.flatnonzero(np.isin(tract.relgq, HEADS)))


@pytest.mark.parametrize("kind", ["relabelled", *KINDS])
def test_moves_of_each_kind_lower_the_distance(tract: LinkedTract, kind: str) -> None:
    """What is implausible left aside, each move that is made gains; and what is held changes as was
    foretold."""
    rng = np.random.default_rng(2)
    found = moves.relabelled(tract) if kind == "relabelled" else getattr(moves, kind)(tract, rng, 9)
    found = moves.HouseholdMoves(**{**vars(found), "cost": np.zeros(len(found.cost))})
    wanted, before = held(tract) - tract.over[:, :CELLS], tract.distance
    many = made(tract, found)
    assert many
    assert tract.distance <= before - LEAST * many
    assert np.allclose(held(tract) - wanted, tract.over[:, :CELLS])


def test_targets_that_are_moved_are_followed(given: TractInput, homes: LinkedHomes) -> None:
    """A tract that must give own children gives some, whatever was published."""
    shift = np.zeros(CELLS)
    cells = person_index()[[6, 7, 8], 0, 0]
    few, many = shift.copy(), shift.copy()
    few[cells], many[cells] = -20, 20
    left = [settled(given, homes, x, 1) for x in (few, many)]
    own = [np.isin(x.people.relgq, (6, 7, 8)).sum() for x in left]
    assert own[0] < own[1]
    for x in left:
        assert DHCH.possible[x.cell].all()
        assert np.array_equal(np.sort(x.people.age), np.sort(homes.people.age))


def test_deviations_are_shared_in_whole_numbers() -> None:
    rng = np.random.default_rng(3)
    over = rng.integers(-9, 10, (7, CELLS)).astype(float)
    above, homes = np.array([0, 0, 1, 1, 1, 1, 2]), np.array([5, 0, 9, 1, 30, 2, 7])
    found = shares(over, above, homes)
    assert np.array_equal(found, np.rint(found))
    label = person_index()[6, 0, 0]  # weighs much: shared whole
    for unit in range(3):
        here = above == unit
        assert found[here, label].sum() == -over[here, label].sum()
        assert (np.abs(found[here].sum(axis=0)) <= np.abs(over[here].sum(axis=0))).all()
    assert not found[1].any()  # nobody lives there


def test_what_totals_refuse() -> None:
    with pytest.raises(InputError, match="do not fit"):
        Totals(np.zeros((2, 3)), np.zeros((2, 4)))
