"""Bounds of an upper tree and of its subtrees are those of the whole tree, made of what each
knows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.errors import InputError
from das.geography.invariants import Invariants, lowest_level_for
from das.model.constraint import Bounds, JointTotals, Limits
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.model.spine import Spine
from tests.bounds import level_bounds
from tests.estimate.cut import filed
from tests.estimate.test_subtrees import KINDS, random_cut
from tests.estimate.world import PLAIN, SMALL


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([SMALL, PLAIN]), st.sampled_from(KINDS))
@example(0, SMALL, "totals")  # a subtree of which subsets say no more than sums
def test_upper_tree_and_subtrees_have_the_bounds_of_the_whole_tree(
    seed: int, schema: Schema, kind: str
) -> None:
    """Each array of them; of a subtree's units below the upper tree. A subtree may leave the reach of
    subsets out where sums say as much."""
    _, cut = random_cut(np.random.default_rng(seed), schema, 3, kind)
    whole, spine = cut.whole.bounds, cut.whole.spine
    for level in cut.upper_tree.spine.levels:
        assert cut.upper_tree.bounds[level] == whole[level], level
    for subtree, kept in zip(cut.subtrees, cut.kept, strict=True):
        for level, units in list(zip(spine.levels, kept, strict=True))[cut.depth + 1 :]:
            mine, wanted = subtree.bounds[level].dense(), whole[level].some(units)
            if mine.reach is None and wanted.reach is not None:
                assert np.array_equal(wanted.reach, told_by_sums(wanted)), level
                wanted = replace(wanted, reach=None)
            assert level_bounds(mine) == level_bounds(wanted), level


def told_by_sums(b: Bounds) -> NDArray[np.int64]:
    """The most that each subset of the groups can hold, by the bounds of groups and the total."""
    subset = np.arange(1 << b.groups)
    member = (subset[:, None] >> np.arange(b.groups) & 1).astype(np.int64)
    return np.minimum(b.upper @ member.T, b.total[:, None] - b.lower @ (1 - member.T))


def test_totals_below_a_upper_tree_count_where_dwellings_have_limits() -> None:
    """A county whose one tract has its people in a prison, the other its own in houses: beyond what
    the sums say, nobody else fits in either."""
    codes = tuple(map(np.array, (["0"], ["1"], ["10", "11"])))
    spine = Spine(("State", "County", "Tract"), codes, tuple(map(np.array, ([0], [0], [0, 0]))))
    limits = Limits.from_bounds(
        np.array([[0, 0, 1], [0, 0, 0]]), np.array([[50, 0, 99], [90, 0, 0]])
    )
    known = Invariants(limits, (("Tract", SMALL.query("total"), np.array([[9], [20]])),))
    assert lowest_level_for(spine.levels, "County", ["Tract"], limited=True) == "Tract"
    assert lowest_level_for(spine.levels, "County", ["Tract"], limited=False) == "County"
    assert lowest_level_for(spine.levels, "County", ["State"], limited=True) == "County"
    whole = known.bounds(SMALL, spine)
    assert whole["County"].reach is not None
    with pytest.raises(
        InputError, match="totals of 'Tract' with bounds on dwellings say more than their sums"
    ):
        known.up(SMALL, spine, "County")
    assert known.up(SMALL, spine, "Tract") == known
    free = Invariants(None, known.counts)
    short = free.up(SMALL, spine, "County").bounds(SMALL, spine.truncated("County"))
    assert short["County"] == free.bounds(SMALL, spine)["County"]
    assert short["County"].total.tolist() == [29]


def test_a_file_of_what_is_known_says_all_of_it() -> None:
    limits = Limits.from_bounds(np.zeros((3, 8), dtype=np.int64), np.arange(24).reshape(3, 8))
    joint = ("State", JointTotals(np.array([1, 0, 1]), np.array([7, 9])))
    known = Invariants(
        limits, (("State", PL94.query("hhgq"), np.ones((3, 8), dtype=np.int64)),), joint
    )
    again = Invariants.of_arrays(PL94, filed(known.to_arrays()))
    assert again.limits == limits
    assert again.joint[0] == "State"
    assert again.joint[1].part.tolist() == [1, 0, 1]
    assert again.joint[1].total.tolist() == [7, 9]
    ((level, query, values),) = again.counts
    assert (level, query.name, values.sum()) == ("State", "hhgq", 24)
