"""Simulated persons and households of the DHC, held against slow code that looks at each record by
itself.

Nothing here uses ``das.publications.dhc.model.members``: ages, fields of households and margins are worked out
again, from the fact sheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from das.errors import InputError
from das.files.readers import pl94_2010
from das.files.simulators.people import generator
from das.model.histogram import Histogram
from das.model.redistricting import PL94
from das.publications.dhc.model.households import DHCH, TYPES, HouseholdType
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.simulation import members as dhc_members
from das.publications.dhc.simulation.members import compositions
from das.publications.dhc.simulation.records import SimulatedDhc, simulate
from das.publications.dhc.simulation.shares import COMPOSITION

Person = tuple[int, int, int, int]  #: hhgq, adult, hispanic, cenrace
#: Members of a household, unless its block has more persons than that for each housing unit.
MOST = 20
#: The class of each type of group quarters, and the ages of each level of relgq.
CLASS = [1] * 6 + [2] * 3 + [3] + [4] * 5 + [5] + [6] * 2 + [7] * 6
AGES = dict.fromkeys(range(42), (0, 115))
AGES |= (
    dict.fromkeys((*range(6), *range(18, 23)), (15, 115))
    | dict.fromkeys((6, 7, 8), (0, 89))
    | {10: (30, 115), 12: (30, 115)}
)
AGES |= (
    {11: (0, 74), 13: (15, 89), 16: (0, 20)}
    | dict.fromkeys((23, 31, 34, 35), (17, 65))
    | dict.fromkeys((24, 25, 26), (0, 25))
)
AGES |= {27: (20, 115), 32: (3, 30), 33: (16, 65), 37: (16, 115), 38: (16, 115), 39: (16, 75)}


def histogram(blocks: Sequence[Sequence[Person]]) -> Histogram:
    block = np.array([b for b, people in enumerate(blocks) for _ in people], dtype=np.int64)
    cells = np.array(
        [((q * 2 + a) * 2 + h) * 63 + r for people in blocks for q, a, h, r in people],
        dtype=np.int64,
    )
    return Histogram.from_triplets(
        len(blocks), PL94.cells, block, cells, np.ones(len(cells), dtype=np.int64)
    )


# --- the statements, record by record
# ------------------------------------------------------------------------------------


def check(
    world: SimulatedDhc,
    blocks: Sequence[Sequence[Person]],
    units: Sequence[int],
    occupied: Sequence[int],
) -> None:
    """Everything that must hold exactly."""
    people = world.people
    rows = list(
        zip(
            *(
                v.tolist()
                for v in (
                    world.block,
                    people.household,
                    people.relgq,
                    people.sex,
                    people.age,
                    people.hispanic,
                    people.cenrace,
                )
            ),
            strict=True,
        )
    )
    homes: dict[int, list[tuple[int, ...]]] = {}
    margins: list[Counter[Person]] = [Counter() for _ in blocks]
    lived_in: Counter[tuple[int, int]] = Counter()
    for row in rows:
        b, home, relgq, _, age, hispanic, race = row
        least, most = AGES[relgq]
        assert least <= age <= most
        assert (home < 0) == (relgq >= 18)
        if relgq < 18:
            homes.setdefault(home, []).append(row)
            assert world.home_block[home] == b
        else:
            lived_in[b, relgq - 18] += 1
        margins[b][CLASS[relgq - 18] if relgq >= 18 else 0, int(age >= 18), hispanic, race] += 1
    assert margins == [Counter(people) for people in blocks]
    assert sorted(homes) == list(range(len(world.home_block)))
    housed = Counter(row[0] for row in rows if row[1] >= 0)
    for home, members in homes.items():
        check_household(members, world, home)
        b = members[0][0]
        assert len(members) <= MOST or housed[b] > MOST * units[b]
    check_units(world, blocks, units, occupied)
    for b, t in product(range(len(blocks)), range(24)):
        n = lived_in[b, t]
        assert n >= world.facilities[b, t]
        assert world.facilities[b, t] > 0 or n == 0
    assert DHCP.possible[world.persons().cell].all()
    assert DHCH.possible[world.households().cell].all()
    assert world.persons().totals().tolist() == list(map(len, blocks))


def check_household(members: list[tuple[int, ...]], world: SimulatedDhc, home: int) -> None:
    """The cell of ``dhch`` says what is so of the members."""
    sex, hhage, hisp, race, elderly, tenure, number = map(
        int, np.unravel_index(world.cell[home], DHCH.shape)
    )
    heads = [m for m in members if m[2] in (0, 1)]
    assert len(heads) == 1
    (head,) = heads
    assert head[2] == (0 if len(members) == 1 else 1)
    partners = [m for m in members if m[2] in (2, 3, 4, 5)]
    assert len(partners) <= 1
    for partner in partners:
        assert (partner[3] == head[3]) == (partner[2] in (4, 5))
    assert sex == head[3]
    low, high = [
        (15, 24),
        (25, 34),
        (35, 44),
        (45, 54),
        (55, 59),
        (60, 64),
        (65, 74),
        (75, 84),
        (85, 115),
    ][hhage]
    assert low <= head[4] <= high
    assert hisp == head[5]
    assert race == (head[6] if head[6] < 6 else 6)
    oldest = max(m[4] for m in members)
    assert elderly == (0 if oldest < 60 else 1 if oldest < 65 else 2 if oldest < 75 else 3)
    assert tenure == min(int(world.tenure[home]), 2)
    assert TYPES[number] == the_type(members)
    assert sum(m[2] == 10 for m in members) <= 2


def the_type(members: list[tuple[int, ...]]) -> HouseholdType:
    relationships = [m[2] for m in members]
    couple = next(
        (
            name
            for level, name in ((2, "MO"), (4, "MS"), (3, "CO"), (5, "CS"))
            if level in relationships
        ),
        "N",
    )
    related = any(r in (2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14) for r in relationships)
    ranges = [0, 0]  # of own children, of all
    for m in members:
        if m[4] < 18 and m[2] > 5:
            side = 1 if m[4] < 6 else 2
            ranges[1] |= side
            ranges[0] |= side if m[2] in (6, 7, 8) else 0
    above, below = (
        any(r in (10, 12) for r in relationships),
        any(r in (6, 7, 8, 13) for r in relationships),
    )
    third = 11 in relationships
    return HouseholdType(
        couple,
        int(related),
        *ranges,
        int(any(m[4] < 18 for m in members)),
        int(above + below + third >= 2),
        min(len(members), 7),
    )


def check_units(
    world: SimulatedDhc,
    blocks: Sequence[Sequence[Person]],
    units: Sequence[int],
    occupied: Sequence[int],
) -> None:
    dense, households = world.units().dense(), Counter(world.home_block.tolist())
    for b, people in enumerate(blocks):
        housed = sum(p[0] == 0 for p in people)
        most = min(units[b], housed)
        options = range(min(-(-housed // MOST), most), most + 1)
        assert (
            households[b] == min(options, key=lambda n: abs(n - occupied[b])) == world.occupied[b]
        )
        assert dense[b, :4].sum() == households[b]
        assert dense[b, :11].sum() == units[b]
        of_tenure = Counter(world.cell[world.home_block == b] // 522 % 3)
        assert [of_tenure[t] for t in range(3)] == [
            dense[b, 0],
            dense[b, 1],
            dense[b, 2] + dense[b, 3],
        ]
    assert (dense[:, 11:] == world.facilities).all()


# --- worlds
# -------------------------------------------------------------------------------------------------------------


def a_world(seed: int, blocks: int) -> tuple[list[list[Person]], list[int], list[int]]:
    """Like the nation: 2.55 persons a household, 0.58 of them under 18, 2.5 per cent in group
    quarters.
    """
    rng = np.random.default_rng(seed)
    people: list[list[Person]] = []
    occupied = rng.integers(0, 40, size=blocks).tolist()
    for homes in occupied:
        adults, minors = homes + int(rng.poisson(0.97 * homes)), int(rng.poisson(0.58 * homes))
        races = rng.choice(63, p=(w := 1 / np.arange(1, 64) ** 2) / w.sum(), size=adults + minors)
        here = [(0, int(i < adults), int(rng.random() < 0.2), int(r)) for i, r in enumerate(races)]
        if rng.random() < 0.1:
            kind = int(rng.integers(1, 8))
            here += [
                (kind, int(kind == 3 or rng.random() < 0.9), 0, 0)
                for _ in range(int(rng.integers(1, 30)))
            ]
        people.append(here)
    return people, [homes + int(rng.integers(0, 5)) for homes in occupied], occupied


def simulated(seed: int, world: tuple[list[list[Person]], list[int], list[int]]) -> SimulatedDhc:
    people, units, occupied = world
    return simulate(generator(seed), histogram(people), np.array(units), np.array(occupied))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_that_must_hold_holds(seed: int) -> None:
    world = a_world(seed, 120)
    check(simulated(seed, world), *world)


def test_zeros_do_not_hang_on_what_is_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every age of a householder, and every difference of ages that is let through, as likely
    as any other.
    """
    monkeypatch.setattr(dhc_members.shares, "HEAD_AGES", np.ones_like(dhc_members.shares.HEAD_AGES))
    monkeypatch.setattr(dhc_members, "_GAPS", np.ones_like(dhc_members._GAPS))
    world = a_world(8, 400)
    found = simulated(8, world)
    check(found, *world)
    assert np.bincount(found.people.age, minlength=116)[100:].all()


PERSON = st.tuples(st.integers(0, 7), st.integers(0, 1), st.integers(0, 1), st.integers(0, 62)).map(
    lambda p: (p[0], 1, p[2], p[3]) if p[0] == 3 else p
)
HOUSED = st.tuples(st.just(0), st.integers(0, 1), st.integers(0, 1), st.integers(0, 3))
MINOR = st.tuples(st.just(0), st.just(0), st.just(0), st.integers(0, 1))
BLOCK = st.one_of(
    st.lists(PERSON, max_size=12), st.lists(HOUSED, max_size=40), st.lists(MINOR, max_size=9)
)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(BLOCK, st.integers(0, 12), st.integers(0, 30)), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_odd_blocks(drawn: list[tuple[list[Person], int, int]], seed: int) -> None:
    """Only minors, occupied units without persons, fewer adults than households, forty persons in a
    home, empty blocks.
    """
    people = [block for block, _, _ in drawn]
    units = [vacant + occupied + any(p[0] == 0 for p in block) for block, vacant, occupied in drawn]
    occupied = [occupied for _, _, occupied in drawn]
    check(simulated(seed, (people, units, occupied)), people, units, occupied)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(1, 12), st.integers(0, 240), st.integers(0, 240)),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 2**32),
)
def test_no_household_has_more_than_20_members(
    drawn: list[tuple[int, int, int]], seed: int
) -> None:
    """Blocks up to the last place: everybody of the block is in a household, and none is larger,
    even where all have 20."""
    homes, adults, minors = map(np.array, zip(*drawn, strict=True))
    adults = np.clip(adults, homes, MOST * homes)
    minors = np.minimum(minors, MOST * homes - adults)
    made = compositions(generator(seed), adults, minors, homes)
    assert (made.adults + made.minors).max() <= MOST
    assert (made.adults + made.minors).min() > 0
    for total, each in ((adults, made.adults), (minors, made.minors)):
        assert (np.bincount(made.block, weights=each, minlength=len(homes)) == total).all()


def test_minors_by_themselves_have_a_householder_of_15_to_17() -> None:
    people = [[(0, 0, 0, 0)] * 5, [(0, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 0)]]
    world = simulated(1, (people, [2, 3], [2, 3]))
    check(world, people, [2, 3], [2, 3])
    ages = world.people.age[np.isin(world.people.relgq, (0, 1))]
    assert sorted(np.searchsorted((15, 18), ages, side="right").tolist()) == [1, 1, 1, 1, 2]


# --- the law of the compositions
# ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("homes, adults, minors", [(2, 4, 3), (3, 5, 2), (4, 5, 2)])
def test_households_of_a_block_have_the_law_that_is_said(
    homes: int, adults: int, minors: int
) -> None:
    """All ways to share out a block's adults and minors, against their weights: a goodness of fit
    over 30,000 blocks.
    """
    n = 30_000
    kinds = [(a, m) for a in range(adults + 1) for m in range(minors + 1) if a + m]
    law: Counter[tuple[tuple[int, int], ...]] = Counter()
    for way in product(kinds, repeat=homes):
        if (sum(a for a, _ in way), sum(m for _, m in way)) == (adults, minors):
            law[tuple(sorted(way))] += float(np.prod([COMPOSITION[a, m] for a, m in way]))
    whole = sum(law.values())
    full = [np.full(n, k) for k in (adults, minors, homes)]
    made = compositions(generator(7), *full)
    pairs = np.stack([made.adults, made.minors], axis=1).reshape(n, homes, 2).tolist()
    seen = Counter(tuple(sorted(map(tuple, way))) for way in pairs)
    assert set(seen) <= set(law)
    common = [way for way in law if n * law[way] / whole >= 10]
    expected = np.array([n * law[way] / whole for way in common])
    found = np.array([seen[way] for way in common])
    rest = n - expected.sum(), n - found.sum()
    statistic = ((found - expected) ** 2 / expected).sum() + (rest[1] - rest[0]) ** 2 / max(
        rest[0], 1
    )
    assert statistic < chi2.ppf(1 - 1e-6, len(common))
    alike = np.full(
        len(common), n / len(common)
    )  # the test would see households shared out evenly by chance alone
    assert ((found - alike) ** 2 / alike).sum() > chi2.ppf(1 - 1e-6, len(common))


# --- shares, seeds, refusals
# ------------------------------------------------------------------------------------------------


def shares_of(world: SimulatedDhc) -> Mapping[str, NDArray[np.float64]]:
    relgq = np.bincount(world.people.relgq, minlength=42)
    size = np.bincount(
        np.minimum(np.bincount(world.people.household[world.people.household >= 0]), 7), minlength=8
    )[1:]
    tenure = np.bincount(np.minimum(world.tenure, 2), minlength=3)
    housed = relgq[:18].sum()
    return {
        "relgq": 100 * relgq / housed,
        "size": 100 * size / size.sum(),
        "tenure": 100 * tenure / tenure.sum(),
    }


def near_the_nation(world: SimulatedDhc, tenure: float) -> None:
    """In per cent of the persons in households, or of households. ``tenure``: how far that may be
    off; it varies by block.
    """
    found = shares_of(world)
    assert found["relgq"][:2].sum() == pytest.approx(39.2, abs=1.5)
    assert found["relgq"][2] == pytest.approx(18, abs=1.5)
    assert found["relgq"][6] == pytest.approx(27, abs=2)
    assert found["relgq"][11] == pytest.approx(2, abs=1)
    assert found["size"] == pytest.approx([28, 34, 15, 13, 6, 2.5, 1.5], abs=2.5)
    assert found["tenure"] == pytest.approx([42, 21, 37], abs=tenure)


def test_shares_are_those_of_the_nation() -> None:
    near_the_nation(simulated(4, a_world(4, 1_500)), tenure=2.5)


def test_shares_in_bristol_county(shared_data: Path) -> None:
    path = shared_data / "pl94_2010" / "ri" / "ri2010_bristol_44001.pl.zip"
    extract = pl94_2010.read([path], PL94)
    people, homes = (
        records.open("a test") for records in (extract.persons, extract.others["housing"])
    )
    n, structures = len(extract.blocks), extract.blocks.structures
    assert structures is not None
    persons = Histogram.from_triplets(n, PL94.cells, people.block, people.cell, people.count)
    occupied = np.zeros(n, dtype=np.int64)
    np.add.at(occupied, homes.block[homes.cell == 1], homes.count[homes.cell == 1])
    world = simulate(generator(1), persons, structures[:, 0], occupied, structures[:, 1:])
    near_the_nation(world, tenure=6)
    assert (world.occupied == occupied).all()
    where = np.array([0] * 18 + CLASS)[world.people.relgq]
    levels = (where, world.people.age >= 18, world.people.hispanic, world.people.cenrace)
    cell = np.ravel_multi_index(tuple(v.astype(np.int64) for v in levels), PL94.shape)
    assert Histogram.from_triplets(
        n, PL94.cells, world.block, cell, np.ones(len(cell), dtype=np.int64)
    ).same_as(persons)


def test_members_are_mostly_like_their_householder() -> None:
    """In blocks of four origins of twenty persons each, chance alone would make a quarter alike;
    that householders are drawn first leaves some without their like."""
    people = [[(0, 1, h, r) for h in (0, 1) for r in (0, 1)] * 20 for _ in range(50)]
    world = simulated(5, (people, [40] * 50, [40] * 50))
    p = world.people
    origin = p.hispanic * 63 + p.cenrace
    head = np.isin(p.relgq, (0, 1))
    of_head = np.empty(head.sum(), dtype=np.int64)
    of_head[p.household[head]] = origin[head]
    assert 0.7 < (origin == of_head[p.household])[~head].mean() < 0.95


def test_a_function_of_the_seed() -> None:
    world = a_world(6, 60)
    one, again, other = (simulated(seed, world) for seed in (6, 6, 7))
    assert one.persons().same_as(again.persons())
    assert one.households().same_as(again.households())
    assert one.units().same_as(again.units())
    assert (one.people.household == again.people.household).all()
    assert not one.persons().same_as(other.persons())
    assert not one.households().same_as(other.households())


def test_facilities_are_as_given() -> None:
    people = [[(1, 1, 0, 0)] * 9 + [(7, 0, 0, 0)] * 4]
    by_type = np.zeros((1, 24), dtype=np.int64)
    by_type[0, [0, 3, 18]] = 2, 3, 4
    by_class = np.array([[5, 0, 0, 0, 0, 0, 3]])
    none = np.array([0])
    world = simulate(generator(1), histogram(people), none, none, by_type)
    check(world, people, [0], [0])
    assert (world.facilities == by_type).all()
    world = simulate(generator(1), histogram(people), none, none, by_class)
    check(world, people, [0], [0])
    assert [int(world.facilities[0, np.array(CLASS) == c].sum()) for c in range(1, 8)] == by_class[
        0
    ].tolist()


@pytest.mark.parametrize(
    "people, units, occupied, facilities, said",
    [
        ([[(0, 1, 0, 0)]], [0], [0], None, "no housing unit"),
        ([[(0, 1, 0, 0)]], [1], [2], None, "2 occupied units of 1"),
        ([[(0, 1, 0, 0)]], [1, 1], [1], None, "1 blocks with persons"),
        ([[(3, 0, 0, 0)]], [1], [0], None, "structural zero"),
        ([[(3, 1, 0, 0)]], [1], [0], [[0] * 7], "1 persons in 0 facilities of class 'nursing'"),
        ([[(3, 1, 0, 0)]], [1], [0], [[0, 0, 2, 0, 0, 0, 0]], "1 persons in 2 facilities"),
        ([[(3, 1, 0, 0)]], [1], [0], [[0, 0, 1]], "facilities of shape"),
    ],
)
def test_what_contradicts_itself_is_refused(
    people: list[list[Person]],
    units: list[int],
    occupied: list[int],
    facilities: list[list[int]] | None,
    said: str,
) -> None:
    given_ = None if facilities is None else np.array(facilities)
    with pytest.raises(InputError, match=said):
        simulate(generator(1), histogram(people), np.array(units), np.array(occupied), given_)
