"""The link of a release: what must hold of it, whatever was published."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.linked import CONSISTENT
from das.errors import InputError
from das.model.histogram import Histogram
from das.publications.dhc.agreement.counted import AgreementCounts
from das.publications.dhc.agreement.identities import ANY, agreement
from das.publications.dhc.model.households import DHCH, TYPES
from das.publications.dhc.model.persons import DHCP
from das.tools.link.linking import TractInput, link_tract, seed_of
from das.tools.link.matching import Features, Pool, PoolTargets
from das.tools.link.people import (
    FREE,
    GENERATION,
    GRAND6,
    GROWN,
    OWN6,
    OWN17,
    RELATIVE,
    STRANGER,
    HomePersons,
    Trust,
    expanded,
    grown_up,
    places,
    shared,
)
from das.tools.link.population import LinkedPopulation, joined, tracts
from tests import dhc_small
from tests import linked_worlds as worlds

SEEDS = (1, 2, 3)
#: Of persons, all but relationships.
WITHOUT = "sex * age * hispanic * cenrace * gqlevels"


@pytest.fixture(scope="module", params=SEEDS)
def pair(request: pytest.FixtureRequest) -> tuple[worlds.Counts, LinkedPopulation]:
    of = worlds.disagreeing(seed=request.param)
    return of, worlds.linked(of)


def violated(of: worlds.Counts, level: str = "Block") -> set[str]:
    up = {u: h.upward(dhc_small.tree())[level] for u, h in of.items()}
    rows = agreement(AgreementCounts(up["persons"], up["households"], up["units"]), level)
    return {r.identity for r in rows if r.violated}


def test_everything_agrees_once_it_is_linked(pair: tuple[worlds.Counts, LinkedPopulation]) -> None:
    published, linked = pair
    assert ANY in violated(published)
    for level in dhc_small.LEVELS:
        assert not violated(linked.counts, level)


def test_no_structural_zero_and_everyone_at_home(
    pair: tuple[worlds.Counts, LinkedPopulation],
) -> None:
    published, linked = pair
    counts = linked.counts
    assert DHCH.possible[counts["households"].cell].all()
    assert DHCP.possible[counts["persons"].cell].all()
    assert counts["persons"].totals().sum() == published["persons"].totals().sum()
    assert (linked.size > 0).all()


def test_persons_without_relationships_are_as_published(
    pair: tuple[worlds.Counts, LinkedPopulation],
) -> None:
    published, linked = pair
    if linked.moved:
        pytest.skip("a block had nobody of 15 and over")
    query = DHCP.query(WITHOUT)
    before, after = (h["persons"].sparse(query) for h in (published, linked.counts))
    assert np.array_equal(before.at, after.at)
    assert np.array_equal(before.count, after.count)


def test_tenure_of_block_groups_and_housing_units_stay(
    pair: tuple[worlds.Counts, LinkedPopulation],
) -> None:
    published, linked = pair
    spine = dhc_small.tree()
    tenure = DHCH.query("hhtenshort_3lev")
    before, after = (
        h["households"].upward(spine)["Block_Group"].answer(tenure)
        for h in (published, linked.counts)
    )
    assert np.array_equal(before, after)
    units = [h["units"].dense() for h in (published, linked.counts)]
    assert np.array_equal(units[0][:, :11].sum(axis=1), units[1][:, :11].sum(axis=1))
    assert np.array_equal(units[0][:, 11:], units[1][:, 11:])
    assert np.array_equal(linked.occupied, linked.counts["households"].totals())


def test_files_that_agree_are_linked_as_asked() -> None:
    """At least 98 of 100 types, on simulated records of some thousand persons."""
    of = worlds.agreeing(300, seed=4)
    linked = worlds.linked(of, trust=CONSISTENT)
    kind = np.unravel_index(linked.cell, DHCH.shape)[-1]
    assert np.mean(kind == linked.asked) >= 0.98
    assert np.array_equal(linked.occupied, linked.published_occupied)


def test_the_same_release_has_the_same_link_and_another_number_another() -> None:
    of = worlds.disagreeing()
    first, again, other = (worlds.linked(of, number=n) for n in (0, 0, 1))
    assert first == again
    assert first != other
    assert seed_of(of) != seed_of(of, 1)
    assert seed_of(of) != seed_of(worlds.disagreeing(seed=2))


def test_a_tract_needs_nothing_from_outside() -> None:
    """So tracts can be linked in any order, by any number of processes."""
    of, spine = worlds.disagreeing(), dhc_small.tree()
    groups = np.asarray(spine.parent[-1])
    tract = np.asarray(spine.parent[-2])[groups]
    todo = tracts(of, groups, tract, [bytes(c) for c in spine.codes[-3]])
    back = [link_tract(t) for t in reversed(todo)]
    assert joined(back[::-1], of, groups) == worlds.linked(of)


def test_an_empty_tract_and_a_block_without_adults() -> None:
    nobody = Histogram.from_triplets(2, DHCP.cells, *(np.zeros(0, dtype=np.int64),) * 3)
    homes = Histogram.from_triplets(2, DHCH.cells, *(np.zeros(0, dtype=np.int64),) * 3)
    units = Histogram.from_triplets(2, 35, np.array([0]), np.array([8]), np.array([3]))
    found = link_tract(TractInput(nobody, homes, units, np.zeros(2, dtype=np.int64), b"1" * 32))
    assert len(found.people) == 0
    with pytest.raises(InputError, match="different blocks"):
        TractInput(nobody, homes, units, np.zeros(3, dtype=np.int64), b"1" * 32)


def persons(*rows: tuple[int, int, int, int]) -> HomePersons:
    """Of block, relationship, sex and age."""
    block, relgq, sex, age = (np.array(x, dtype=np.int64) for x in zip(*rows, strict=True))
    return HomePersons(block, relgq, sex, age, np.zeros_like(block), np.zeros_like(block))


def test_a_block_of_children_gets_someone_of_15() -> None:
    people = persons((0, 6, 0, 3), (0, 6, 0, 8), (1, 1, 1, 40), (1, 6, 0, 16))
    one = np.zeros(2, dtype=np.int64)
    found, changed = grown_up(people, one, one)
    assert changed.tolist() == [1, 3]
    assert found.block.tolist() == [0, 1, 1, 0]
    alone, changed = grown_up(people.some(np.array([0, 1])), one, one)
    assert alone.age.max() == 15
    assert changed.tolist() == [1]


def test_places_of_types() -> None:
    def of(code: str) -> list[int]:
        kind = [t.code for t in TYPES].index(code)
        room = np.array([TYPES[kind].size - 1 - (TYPES[kind].couple != "N")])
        return expanded(np.array([kind]), room)[1].tolist()

    assert of("MO rel1 own3 ch3 minor1 mg0 size4") == [OWN6, OWN17]
    assert of("MO rel1 own1 ch1 minor1 mg1 size4") == [OWN6, GENERATION]
    assert of("N rel1 own0 ch1 minor1 mg1 size3") == [GROWN, GRAND6]
    assert of("N rel1 own0 ch0 minor0 mg0 size3") == [RELATIVE, FREE]
    assert of("CO rel0 own0 ch0 minor0 mg0 size3") == [STRANGER]
    needed = (places() >= 0).sum(axis=1)
    assert (needed <= [t.size - 1 - (t.couple != "N") for t in TYPES]).all()


def test_a_pool_is_repaired_to_its_targets() -> None:
    rng = np.random.default_rng(5)
    pool = Pool(rng.integers(0, len(TYPES), 60), rng.random(60))
    targets = PoolTargets(np.array([25, 1, 4, 0]), 12, 90, 10)
    pool.repair(targets)
    couple = np.array([["MO", "MS", "CO", "CS", "N"].index(TYPES[k].couple) for k in pool.kind])
    assert np.bincount(couple, minlength=5).tolist() == [25, 1, 4, 0, 30]
    assert sum(TYPES[k].size == 1 for k in pool.kind) == 12
    assert pool.room.sum() == 90
    with pytest.raises(InputError, match="more couples"):
        pool.repair(PoolTargets(np.array([61, 0, 0, 0]), 0, 0, 0))
    with pytest.raises(InputError, match="negative"):
        PoolTargets(np.array([1, 0, 0, 0]), -1, 0, 0)


def test_what_leaves_a_block_stays_in_its_group() -> None:
    now = np.array([[3, 2], [0, 1], [4, 0]])
    group = np.array([0, 0, 1])
    found = shared(now, np.array([3, 3, 4]), group, whole=True)
    assert found.sum(axis=1).tolist() == [3, 3, 4]
    assert found[:2].sum(axis=0).tolist() == now[:2].sum(axis=0).tolist()


def test_what_checks_itself() -> None:
    with pytest.raises(InputError, match="weight"):
        Trust(children=-1)
    with pytest.raises(InputError, match="features"):
        Features(np.zeros((2, 3)), np.zeros((2, 2)), np.zeros(3))
    linked = worlds.linked(worlds.agreeing(20))
    with pytest.raises(InputError, match="another block"):
        LinkedPopulation(
            linked.people,
            linked.household,
            linked.cell,
            linked.block[::-1],
            linked.asked,
            linked.away,
            linked.units,
            linked.occupied,
            linked.published_occupied,
            0,
        )


@pytest.mark.parametrize("seed", range(60))
def test_random_small_blocks_always_have_a_link(seed: int) -> None:
    """Persons and households of one world in other blocks of another: crowded blocks, blocks of one
    household, of one sex, of old or young people. None hangs, and all agree afterwards."""
    rng = np.random.default_rng(seed)
    of = worlds.agreeing(12 if seed % 2 else 30, seed)
    move = rng.integers(0, 3, 9)
    people, homes, units = of["persons"], of["households"], of["units"]
    block = np.where(people.unit < 3, move[people.cell % 9], people.unit)
    persons = Histogram.from_triplets(9, people.cells, block, people.cell, people.count)
    counts = {"persons": persons, "households": homes, "units": units}
    linked = worlds.linked(counts, trust=Trust(sweeps=1))
    assert not violated(linked.counts)


def test_a_household_of_many_shrinks_one_by_one() -> None:
    large = [t.code for t in TYPES].index("N rel1 own0 ch0 minor0 mg0 size7")
    pool = Pool(np.array([large]), np.zeros(1))
    pool.extra[0] = 9
    assert pool.resize(np.array([0]), -1, 5) == 1
    assert (pool.room[0], TYPES[pool.kind[0]].size) == (14, 7)
    pool.extra[0] = 3
    pool.resize(np.array([0]), 1, 1)
    assert pool.room[0] == 9  # no larger by itself


def test_a_large_household_keeps_its_persons_as_a_family() -> None:
    """Changing its type leaves its size, so the room of a block stays that of its persons."""
    large = [t.code for t in TYPES].index("N rel0 own0 ch0 minor0 mg0 size7")
    pool = Pool(np.array([large]), np.zeros(1))
    pool.extra[0] = 4
    pool.families(0)
    assert TYPES[pool.kind[0]].relatives == 1
    assert pool.room[0] == 10
