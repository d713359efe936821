"""Counts of the Detailed DHC, against a loop over people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.model.confidential import Confidential
from das.publications.detailed.model.iterations import ACROSS, REGIONS, GroupLevel, Kind, Regions
from das.publications.detailed.model.records import GroupRecords
from das.publications.detailed.model.tables import SEX_BY_AGE, Parameters
from das.publications.detailed.truth import groups
from das.publications.detailed.truth.groups import GroupCounter, GroupTruth, SummedGroups, added_up
from tests.detailed import worlds

PERSONS, HOUSEHOLDS = worlds.persons(), worlds.households()
LEVELS = (*GroupLevel.of_run("us"), *GroupLevel.of_run("pr"))
CODES = (1001, 1002, 1011, 1021, 3000)  # the last is of no iteration
ETHNICITIES = (0, 2001, 2002, 3000)
#: Two states and Puerto Rico; a tract in a place and an area that crosses states; blocks in none.
BLOCKS = (
    "010010000010001",
    "010010000010002",
    "010010000020001",
    "020010000010001",
    "020030000010001",
    "720010000010001",
)
PLACES = (0, 0, -1, 1, -1, -1)
AREAS = (0, -1, 1, 0, -1, -1)


def regions() -> Regions:
    block = np.array(BLOCKS, dtype="S")
    ids, of_block = {}, {}
    for run, kinds in REGIONS.items():
        here = (block.astype("S2") == b"72") == (run == "pr")
        for kind in kinds:
            width = {"USA": 0, "STATE": 2, "COUNTY": 5, "TRACT": 11}.get(kind.removeprefix("PR-"))
            if width is None:
                given = (
                    PLACES
                    if kind == "PLACE"
                    else AREAS
                    if kind == "AIANNH"
                    else (-1,) * len(BLOCKS)
                )
                of, names = (
                    np.array(given),
                    [b"0100001", b"0200001"] if kind == "PLACE" else [b"0001", b"0002"],
                )
                ids[kind] = np.array(names[: of.max() + 1], dtype="S")
            else:
                codes = np.array([c[:width] if width else b"1" for c in block.tolist()], dtype="S")
                ids[kind], of = np.unique(codes[here], return_inverse=True)
                of = np.where(here, np.searchsorted(ids[kind], codes), -1)
            of_block[kind] = of.astype(np.int32)
    return Regions(block, ids, of_block)


WHERE = regions()
Person = tuple[int, tuple[int, ...], int, int]
#: Block, codes of race, ethnicity, leaf.
person = st.tuples(
    st.integers(0, len(BLOCKS) - 1),
    st.lists(st.sampled_from(CODES), min_size=1, max_size=8).map(tuple),
    st.sampled_from(ETHNICITIES),
    st.integers(0, SEX_BY_AGE.leaves - 1),
)
crowds = st.lists(person, max_size=25)


def records(crowd: list[Person]) -> GroupRecords:
    codes = np.zeros((len(crowd), 8), dtype=np.int16)
    for row, (_, race, _, _) in zip(codes, crowd, strict=True):
        row[: len(race)] = race
    return GroupRecords(
        np.array([p[0] for p in crowd], dtype=np.int32),
        codes,
        np.array([p[2] for p in crowd], dtype=np.int16),
        {"t2": np.array([p[3] for p in crowd], dtype=np.int8)},
    )


def people(crowd: list[Person], parameters: Parameters = PERSONS) -> GroupCounter:
    return GroupCounter(Confidential(records(crowd)), WHERE, parameters)


def everywhere(at: GroupLevel) -> np.ndarray:
    return np.arange(len(WHERE.ids[at.region]), dtype=np.int32)


def iterations_of(at: GroupLevel, race: tuple[int, ...], ethnicity: int) -> list[int]:
    """The places, among those of a level, of the iterations of somebody."""
    rows = [r for r in worlds.ROWS if r[2] == at.level and (at.fine or not r[4])]
    given = {Kind.ALONE: all, Kind.COMBINATION: any}
    return [
        i
        for i, (*_, kind, _, codes) in enumerate(rows)
        if (ethnicity in codes if kind == Kind.ETHNICITY else given[kind](c in codes for c in race))
    ]


def counted(
    crowd: list[Person], at: GroupLevel, race_codes: int = 8
) -> Counter[tuple[int, int, int]]:
    """How many are in each region, iteration and leaf."""
    out: Counter[tuple[int, int, int]] = Counter()
    for block, race, ethnicity, leaf in crowd:
        if (region := int(WHERE.of_block[at.region][block])) >= 0:
            out.update((region, i, leaf) for i in iterations_of(at, race[:race_codes], ethnicity))
    return out


def table_of(truth: GroupTruth | SummedGroups, chosen: np.ndarray | None = None) -> np.ndarray:
    every = np.arange(truth.regions * truth.iterations) if chosen is None else chosen
    return truth.table("t2", SEX_BY_AGE.leaves, every)


def expected(crowd: list[Person], at: GroupLevel, race_codes: int = 8) -> np.ndarray:
    iterations = len(PERSONS.iterations.measured_at(at))
    out = np.zeros((len(everywhere(at)) * iterations, SEX_BY_AGE.leaves), dtype=np.int64)
    for (region, iteration, leaf), n in counted(crowd, at, race_codes).items():
        out[region * iterations + iteration, leaf] += n
    return out


@given(
    crowd=crowds,
    at=st.sampled_from(LEVELS),
    race_codes=st.integers(1, 8),
    together=st.sampled_from([2, 1 << 20]),
)
def test_totals_tables_and_cells_are_those_of_a_loop(
    crowd: list[Person], at: GroupLevel, race_codes: int, together: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "_TOGETHER", together)
        truth = people(crowd, replace(PERSONS, race_codes=race_codes)).at(at, everywhere(at))
        known = expected(crowd, at, race_codes)
        assert (truth.regions, truth.iterations) == (
            len(everywhere(at)),
            len(PERSONS.iterations.measured_at(at)),
        )
        assert np.array_equal(truth.totals(), known.sum(axis=1))
        assert np.array_equal(table_of(truth), known)
        some = np.flatnonzero(np.arange(len(known)) % 3 == 1)
        assert np.array_equal(table_of(truth, some), known[some])
        cell, count = truth.cells_of("t2", SEX_BY_AGE.leaves)
        assert np.array_equal(cell, np.flatnonzero(known))
        assert np.array_equal(count, known.ravel()[cell])


@given(crowd=crowds, at=st.sampled_from(LEVELS), chosen=st.sets(st.integers(0, 9)))
def test_some_of_the_regions_have_the_counts_that_they_have_among_all(
    crowd: list[Person], at: GroupLevel, chosen: set[int]
) -> None:
    """In the order in which they are asked for."""
    some = np.array(
        [r for r in sorted(chosen, reverse=True) if r < len(everywhere(at))], dtype=np.int32
    )
    iterations = len(PERSONS.iterations.measured_at(at))
    known = (
        expected(crowd, at)
        .reshape(-1, iterations, SEX_BY_AGE.leaves)[some]
        .reshape(-1, SEX_BY_AGE.leaves)
    )
    assert np.array_equal(table_of(people(crowd).at(at, some)), known)


def state_by_state(crowd: list[Person], at: GroupLevel) -> SummedGroups:
    """As tasks count what crosses states, and as their answers are added up."""
    parts, iterations, leaves = [], len(PERSONS.iterations.measured_at(at)), SEX_BY_AGE.leaves
    for state in WHERE.states:
        some, here = (
            WHERE.of_state(at.region, state),
            [p for p in crowd if BLOCKS[p[0]][:2] == state.decode()],
        )
        cell, count = people(here).at(at, some).cells_of("t2", leaves)
        width = iterations * leaves
        parts.append(
            (some[cell // width].astype(np.int64) * width + cell % width, count)
            if len(some)
            else (cell, count)
        )
    return SummedGroups(len(everywhere(at)), iterations, {"t2": (leaves, *added_up(parts))})


@given(
    crowd=crowds,
    at=st.sampled_from([at for at in LEVELS if at.region in ACROSS]),
    cut=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_sums_over_states_are_the_whole(
    crowd: list[Person], at: GroupLevel, cut: tuple[int, int]
) -> None:
    whole, known = state_by_state(crowd, at), expected(crowd, at)
    assert np.array_equal(whole.totals(), known.sum(axis=1))
    assert np.array_equal(table_of(whole), known)
    first, last = sorted(min(c, len(everywhere(at))) for c in cut)
    part = whole.rows(slice(first, last))
    assert (part.regions, part.iterations) == (last - first, whole.iterations)
    rows = known[first * whole.iterations : last * whole.iterations]
    assert np.array_equal(part.totals(), rows.sum(axis=1))
    some = np.flatnonzero(np.arange(len(rows)) % 2)
    assert np.array_equal(table_of(part, some), rows[some])


@given(crowd=crowds, other=crowds, at=st.sampled_from(LEVELS))
def test_digests_differ_where_a_count_does(
    crowd: list[Person], other: list[Person], at: GroupLevel
) -> None:
    """They are part of the label of the noise: two truths never share one."""
    one, two = (people(c).at(at, everywhere(at)) for c in (crowd, other))
    if not np.array_equal(table_of(one), table_of(two)):
        assert one.digest() != two.digest()
    if crowd == other:
        assert one.digest() == two.digest()
    one, two = (state_by_state(c, at) for c in (crowd, other))
    assert (one.digest() == two.digest()) == np.array_equal(table_of(one), table_of(two))


@given(
    crowd=crowds.filter(bool), at=st.sampled_from(LEVELS), which=st.integers(0, 24), changed=person
)
def test_digests_differ_for_neighbours(
    crowd: list[Person], at: GroupLevel, which: int, changed: Person
) -> None:
    """One more, one fewer, one replaced."""
    i = which % len(crowd)
    base = people(crowd).at(at, everywhere(at))
    for other in (
        [*crowd, changed],
        crowd[:i] + crowd[i + 1 :],
        [*crowd[:i], changed, *crowd[i + 1 :]],
    ):
        truth = people(other).at(at, everywhere(at))
        if not np.array_equal(table_of(truth), table_of(base)):
            assert truth.digest() != base.digest()


def test_a_digest_is_of_records_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many pairs each piece has is in it: the same bytes, cut otherwise, are another truth."""
    crowd: list[Person] = [(0, (1001,), 0, 3), (1, (1011,), 0, 4), (2, (1001,), 2001, 5)]
    monkeypatch.setattr(groups, "_TOGETHER", 2)
    found = people(crowd).at(GroupLevel("STATE", 2), everywhere(GroupLevel("STATE", 2)))
    assert sum(len(group) for group, _, _ in found._pairs()) == 7
    monkeypatch.setattr(groups, "_TOGETHER", 3)
    assert (
        len(
            {found.digest()}
            | {
                people(c).at(GroupLevel("STATE", 2), everywhere(GroupLevel("STATE", 2))).digest()
                for c in (crowd[:2], crowd[1:], crowd[::-1])
            }
        )
        == 4
    )


def test_nobody_anywhere() -> None:
    at = GroupLevel("TRACT", 2)
    truth = people([]).at(at, everywhere(at))
    assert truth.totals().tolist() == [0] * truth.groups
    assert not table_of(truth).any()
    assert [len(x) for x in truth.cells_of("t2", SEX_BY_AGE.leaves)] == [0, 0]
    assert [len(x) for x in added_up([])] == [0, 0]
    none = people([(0, (1001,), 0, 0)]).at(at, everywhere(at)[:0])
    assert (none.groups, len(none.totals())) == (0, 0)


def test_nobody_is_in_more_groups_of_a_level_than_its_stability() -> None:
    """And somebody is in as many, as far as there are iterations."""
    largest: Mapping[GroupLevel, int] = {}
    for race_codes in (1, 2, 3, 8):
        p = replace(PERSONS, race_codes=race_codes)
        for at in LEVELS:
            crowd: list[Person] = [
                (5 if at.region.startswith("PR") else 0, race, e, 0)
                for e in ETHNICITIES
                for race in [
                    (1001,),
                    (1001, 1011),
                    (1001, 1011, 1021),
                    (1021,),
                    (1002, 1011, 1021, 1001),
                ]
            ]
            indptr, member = people(crowd, p)._in(at)
            most = int(np.diff(indptr).max())
            assert most <= p.iterations.stability(at, race_codes)
            largest = {**largest, at: max(most, largest.get(at, 0))}
            if race_codes <= 3 and at.level == 2 and at.fine:
                assert most == p.iterations.stability(at, race_codes)
            assert len(member) == indptr[-1]
    assert largest[GroupLevel("USA", 2)] == 4  # three "in combination", and an ethnicity


def test_households_have_two_tables() -> None:
    at = GroupLevel("STATE", 2)
    given = GroupRecords(
        np.array([0, 0, 3], dtype=np.int32),
        np.array([[1001] + [0] * 7] * 3, dtype=np.int16),
        np.zeros(3, dtype=np.int16),
        {"t3": np.array([4, 0, 1], dtype=np.int8), "t4": np.array([3, 3, 0], dtype=np.int8)},
    )
    truth = GroupCounter(Confidential(given), WHERE, HOUSEHOLDS).at(at, everywhere(at))
    iterations = truth.iterations
    assert truth.table("t3", 5, np.array([0, iterations])).tolist() == [
        [1, 0, 0, 0, 1],
        [0, 1, 0, 0, 0],
    ]
    assert truth.table("t4", 4, np.array([iterations, 0])).tolist() == [[1, 0, 0, 0], [0, 0, 0, 2]]
    other = replace(given, cells={**given.cells, "t4": np.array([3, 2, 0], dtype=np.int8)})
    assert (
        GroupCounter(Confidential(other), WHERE, HOUSEHOLDS).at(at, everywhere(at)).digest()
        != truth.digest()
    )
