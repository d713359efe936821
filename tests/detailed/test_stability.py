"""In how many groups of a level somebody can be: a bound that holds, and that is attained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.publications.detailed.model.iterations import (
    NO_CODE,
    RACE_CODES,
    GroupLevel,
    Iterations,
    Kind,
    groups_of,
)
from tests.detailed import worlds

ITERATIONS = worlds.iterations()
CODES = [1001, 1002, 1011, 1021, 1999]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(CODES), max_size=RACE_CODES),
    st.sampled_from([NO_CODE, 2001, 2002]),
    st.sampled_from(worlds.EVERY),
    st.integers(1, RACE_CODES),
)
def test_nobody_is_in_more_groups(
    written: list[int], ethnicity: int, at: GroupLevel, read: int
) -> None:
    codes = np.array([(written[:read] + [NO_CODE] * RACE_CODES)[:RACE_CODES]], dtype=np.int16)
    _, found = groups_of(ITERATIONS, at, codes, np.array([ethnicity], dtype=np.int16))
    among = ITERATIONS.measured_at(at)
    assert len(found) <= ITERATIONS.stability(at, read)
    assert len(found) <= ITERATIONS.most(
        among, max(1, len(set(written[:read]))), ethnic=bool(ethnicity)
    )
    only = ITERATIONS.detailed_only[among]
    assert only[found].sum() <= ITERATIONS.most(among[only], read)
    assert (~only[found]).sum() <= ITERATIONS.most(among[~only], read)


def disjoint(groups: int) -> Iterations:
    """This many groups of race with one code each, alone and in combination, and one of
    ethnicity."""
    kinds = [Kind.ALONE, Kind.COMBINATION] * groups + [Kind.ETHNICITY]
    n = len(kinds)
    return Iterations(
        code=np.array([f"{i:04}" for i in range(n)]),
        name=np.array(["x"] * n),
        level=np.full(n, 2, dtype=np.int8),
        kind=np.array(kinds, dtype=np.int8),
        detailed_only=np.zeros(n, dtype=bool),
        coarse_only=np.zeros(n, dtype=bool),
        member=np.arange(n, dtype=np.int32),
        race_code=np.array([1000 + i // 2 for i in range(n - 1)] + [5000], dtype=np.int16),
    )


@pytest.mark.parametrize("read", range(1, RACE_CODES + 1))
def test_it_is_attained(read: int) -> None:
    world, at = disjoint(RACE_CODES), GroupLevel("TRACT", 2)
    codes = np.array(
        [[1000 + i if i < read else NO_CODE for i in range(RACE_CODES)]], dtype=np.int16
    )
    _, found = groups_of(world, at, codes, np.array([5000], dtype=np.int16))
    assert len(found) == world.stability(at, read) == max(2, read) + 1


def test_a_code_of_two_groups_counts_twice() -> None:
    """And one that is listed twice in the same, once."""
    world, at = disjoint(3), GroupLevel("TRACT", 2)
    twice = replace(
        world,
        member=np.append(world.member, 3).astype(np.int32),
        race_code=np.append(world.race_code, 1000).astype(np.int16),
    )
    again = replace(
        world,
        member=np.append(world.member, 0).astype(np.int32),
        race_code=np.append(world.race_code, 1000).astype(np.int16),
    )
    assert (world.stability(at, 8), twice.stability(at, 8), again.stability(at, 8)) == (9, 17, 9)
    assert world.most(np.array([], dtype=np.int32), 8) == 0
