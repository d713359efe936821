"""Swapping: what stays, how many move, who, and where to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from das.errors import InputError, SpecError
from das.tools.protection.truth.method import StudyRecords, exact_lines
from das.tools.protection.truth.methods.swapping import (
    HIGH,
    LOW,
    Swapping,
    SwapUnits,
    chances,
    nearest_pairs,
    pairs,
    rarity,
)
from tests.protect.people import SCHEMA, records, tables

METHODS = (
    Swapping(0.4),
    Swapping(0.4, match=("votingage",)),
    Swapping(0.4, match=("votingage",), rare=("race", "hispanic")),
    Swapping(0.4, match=("votingage",), partner="nearest"),
    Swapping(0.4, match=("votingage",), unit="person"),
    Swapping(0.6, levels=("Tract", "County"), reach=(0.5, 0.5)),
)


def counts(people: StudyRecords, query: str, level: str = "Block") -> np.ndarray:
    return people.histogram().upward(people.spine)[level].answer(SCHEMA.query(query))


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.label)
def test_what_swapping_leaves_as_it_is(method: Swapping) -> None:
    """Households stay together; persons, and with a match adults, of each block; all tables of the
    county; somebody has moved."""
    people = records()
    swapped = method.swapped(people, b"k")  # its own checks: no household is in two places
    assert (swapped.cell == people.cell).all()
    outside = people.household == -1
    if method.unit == "household":
        assert (swapped.place[outside] == people.place[outside]).all()
    assert (counts(swapped, "total") == counts(people, "total")).all()
    if method.match:
        assert (counts(swapped, "votingage") == counts(people, "votingage")).all()
    assert (counts(swapped, "detailed", "County") == counts(people, "detailed", "County")).all()
    assert (counts(swapped, "race") != counts(people, "race")).any()
    same = method.swapped(people, b"k")
    assert (same.place == swapped.place).all()
    assert (method.swapped(people, b"l").place != swapped.place).any()


def test_published_are_the_tables_of_the_swapped_records() -> None:
    method = METHODS[0]
    swapped = method.swapped(records(), b"k")
    shown = method.published(records(), tables(), b"k")
    assert shown.levels == exact_lines(swapped.histogram(), swapped.spine, tables())
    assert shown.records is None


def test_where_partners_are_within_tracts_tracts_are_exact() -> None:
    people = records()
    kept = replace(LOW, rate=0.5, levels=("Tract",)).swapped(people, b"k")
    assert (counts(kept, "detailed", "Tract") == counts(people, "detailed", "Tract")).all()
    wide = replace(LOW, rate=0.5, levels=("County",)).swapped(people, b"k")
    assert (counts(wide, "detailed", "Tract") != counts(people, "detailed", "Tract")).any()


@pytest.mark.parametrize("partner", ["random", "nearest"])
def test_the_rate_is_the_share_that_moves(partner: str) -> None:
    people, moved = records(), []
    for key in range(20):
        levels = ("County",) if partner == "random" else ()
        method = Swapping(0.2, levels=levels, partner=partner)
        swapped = method.swapped(people, bytes([key]))
        first = np.unique(people.household, return_index=True)[1][1:]
        moved.append((swapped.place != people.place)[first].mean())
    assert np.mean(moved) == pytest.approx(0.2, abs=0.02)  # 3 % of the pairs are in one block


def test_noise_in_sizes_changes_the_persons_of_a_block() -> None:
    people = records()
    method = replace(HIGH, levels=("Tract", "County"), reach=(0.5, 0.5))
    swapped = method.swapped(people, b"k")
    change = counts(swapped, "total") - counts(people, "total")
    assert change.any()
    assert change.sum() == 0


def test_reach_permutes_the_tracts_of_a_county() -> None:
    """All are sent to permuted tracts: three of four partners are in another."""
    people = records()
    method = Swapping(1.0, levels=("Tract", "County"), reach=(0.0, 1.0))
    tract = people.spine.up("Block", "Tract")
    swapped = method.swapped(people, b"k")
    inside = people.household >= 0
    away = (tract[swapped.place] != tract[people.place])[inside].mean()
    assert away == pytest.approx(0.75, abs=0.06)
    near = replace(method, reach=(1.0,)).swapped(people, b"k")
    assert (tract[near.place] != tract[people.place])[inside].mean() < 0.1


def test_rare_households_move_more_often() -> None:
    people = records()
    units = SwapUnits.from_records(people, "household")
    chance = chances(people, units, 0.2, ("race",))
    assert chance.mean() == pytest.approx(0.2)
    assert sorted(Counter(chance.round(9)).values()) == [3, 117, 180, 300]
    order = np.argsort(rarity(people, units, ("race",)), kind="stable")
    assert (np.diff(chance[order]) <= 1e-12).all()
    race = people.schema.query("race").at(people.cell)
    h = int(order[0])
    member = people.household == h
    here = people.place == units.place[h]
    assert min((race[here] == r).sum() for r in race[member]) == np.floor(
        rarity(people, units, ("race",))[h]
    )


def test_a_nearest_partner_is_near() -> None:
    people = records()
    near = Swapping(0.1, partner="nearest").swapped(people, b"k")
    far = Swapping(0.1, levels=("County",)).swapped(people, b"k")
    distance = [abs(x.place - people.place)[x.place != people.place].mean() for x in (near, far)]
    assert distance[0] < distance[1] / 2


def test_a_large_house_finds_partners_next_door() -> None:
    """A hundred households in one place, of one key: their partners are in the places beside it,
    and each of five is drawn as often."""
    place = np.concatenate([np.zeros(100, dtype=np.int64), np.arange(1, 31)])
    points = np.stack([np.arange(31.0), np.zeros(31)], axis=1)
    key, seekers, partners = np.zeros(130, dtype=np.int64), np.array([7]), Counter[int]()
    for seed in range(500):
        found = nearest_pairs(seekers, key, place, points, np.random.default_rng(seed))
        partners[int(place[found[0, 1]])] += 1
    assert sorted(partners) == [1, 2, 3, 4, 5]
    assert max(partners.values()) < 150
    every = nearest_pairs(np.arange(100), key, place, points, np.random.default_rng(1))
    assert len(every) == 30  # each of the others once
    assert len(np.unique(every)) == 60


def test_pairs_are_disjoint_within_their_groups_and_uniform() -> None:
    group = np.array([3, 1, 1, 3, 3, 2, 1, 3])
    rng, partners = np.random.default_rng(1), Counter[tuple[int, int]]()
    for _ in range(600):
        found = pairs(group, rng)
        assert len(np.unique(found)) == found.size == 6
        assert (group[found[:, 0]] == group[found[:, 1]]).all()
        partners.update(tuple(sorted(p)) for p in found.tolist())
    assert len(partners) == 6 + 3
    for (a, _), many in partners.items():
        assert many == pytest.approx(200, abs=60), a


def test_refusals() -> None:
    people = records()
    with pytest.raises(InputError, match='unit = "person"'):
        Swapping().swapped(replace(people, household=None), b"")
    with pytest.raises(InputError, match="no coordinates"):
        Swapping(partner="nearest").swapped(replace(people, points=None), b"")
    with pytest.raises(SpecError, match="reach has more entries"):
        Swapping(reach=(0.2, 0.2, 0.2, 0.4)).swapped(people, b"")
    for change, message in (
        ({"rate": 1.5}, "rate is 1.5"),
        ({"unit": "dogs"}, "unit is 'dogs'"),
        ({"partner": "best"}, "partner is 'best'"),
        ({"size_noise": (0.5, 0.5, 0.5)}, "three probabilities"),
        ({"reach": (0.5,)}, "reach must be"),
        ({"match": ("sex",), "size_noise": (0.5, 0.0, 0.5)}, "undo the match"),
        ({"partner": "nearest", "reach": (0.5, 0.5)}, "nearest partner"),
    ):
        with pytest.raises(SpecError, match=message):
            replace(Swapping(), **change)


def test_labels_say_what_is_swapped() -> None:
    assert Swapping().label == "5 % of households swapped, same size"
    assert "persons (no households known)" in Swapping(unit="person").label
    assert HIGH.label == "50 % of households swapped, same size give or take 1, far"
    assert Swapping(match=("votingage",), rare=("race",), partner="nearest").label == (
        "5 % of households swapped, same size, votingage, nearest, rare by race"
    )


def test_nobody_moves_at_rate_zero_and_without_people() -> None:
    people = records()
    assert (Swapping(0.0).swapped(people, b"k").place == people.place).all()
    nobody = replace(
        people, place=people.place[:0], cell=people.cell[:0], household=people.household[:0]
    )
    assert len(Swapping(0.5, rare=("race",)).swapped(nobody, b"k")) == 0
