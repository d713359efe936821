"""The measured spine: what is bypassed, what paths there are, and that their shares are always
one.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.model import tabulation
from das.model.budget import ALL
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.spine import Spine


@st.composite
def spines(draw: st.DrawFn, levels: tuple[str, ...] = ()) -> Spine:
    """Random trees with many only children; of these levels, or of one to six."""
    levels = levels or tuple(f"L{i}" for i in range(draw(st.integers(1, 6))))
    depth = len(levels)
    codes, parents = [np.array(["r"])], [np.zeros(1, dtype=np.int64)]
    for _ in range(depth - 1):
        children = draw(
            st.lists(
                st.sampled_from([1, 1, 2, 3]), min_size=len(codes[-1]), max_size=len(codes[-1])
            )
        )
        home = np.repeat(np.arange(len(children)), children)
        parents.append(home)
        codes.append(np.array([f"{codes[-1][p]}{i:03}" for i, p in enumerate(home)]))
    return Spine(levels, tuple(codes), tuple(parents))


@given(spines())
def test_shares_of_every_path_sum_to_one_and_only_only_children_are_bypassed(spine: Spine) -> None:
    tree = MeasuredSpine.bypassed(spine, np.arange(len(spine.codes[-1])))
    shares = {level: Fraction(2 * i + 1, len(spine) ** 2) for i, level in enumerate(spine.levels)}
    above = [spine.up(spine.levels[-1], level) for level in spine.levels]
    for leaf in range(len(spine.codes[-1])):
        held = []
        for depth, level in enumerate(spine.levels):
            unit = above[depth][leaf]
            (unit_class,) = [name for name, where in tree.classes(level).items() if where[unit]]
            held += tabulation.measured_levels(spine.levels, level, unit_class)
            alone = depth > 0 and (spine.parent[depth] == spine.parent[depth][unit]).sum() == 1
            assert (
                (unit_class == tabulation.UNMEASURED) == alone == (not tree.measured(level)[unit])
            )
        assert held == list(spine.levels)
        assert sum(shares[level] for level in held) == 1
    assert set(tree.paths) <= set(tabulation.conceivable(spine.levels))


def test_a_share_that_was_moved_to_a_unit_that_is_no_only_childs_parent_is_refused() -> None:
    spine = Spine(
        ("A", "B"), (np.array(["r"]), np.array(["x", "y"])), (np.zeros(1, int), np.zeros(2, int))
    )
    for last in (([1], [-1, 1]), ([0], [-1, 1]), ([1], [1, 1]), ([-1], [1, 1]), ([0], [1, 2])):
        with pytest.raises(InputError, match=r"shares do not add up|root is not measured"):
            MeasuredSpine(spine, np.arange(2), tuple(np.array(x, dtype=np.int8) for x in last))
    MeasuredSpine(spine, np.arange(2), (np.array([0], np.int8), np.array([1, 1], np.int8)))


@given(spines(), st.data())
def test_paths_are_those_of_the_lowest_units_one_by_one(spine: Spine, data: st.DataObject) -> None:
    """In the order of where their chains end, also of a tree so deep that no number tells its paths
    apart.
    """
    if data.draw(st.booleans()):
        levels = (*(f"A{i}" for i in range(40)), *spine.levels)
        one = np.zeros(1, dtype=np.int64)
        spine = Spine(levels, (*[np.array(["a"])] * 40, *spine.codes), (*[one] * 40, *spine.parent))
    tree = MeasuredSpine.bypassed(spine, np.arange(len(spine.codes[-1])))
    ups = [spine.up(spine.levels[-1], level) for level in spine.levels]
    each = [
        tuple(int(tree.last[d][up[leaf]]) for d, up in enumerate(ups))
        for leaf in range(len(spine.codes[-1]))
    ]
    assert tree.places_on == {
        tabulation.path(spine.levels, row): each.count(row) for row in sorted(set(each))
    }
    assert list(tree.places_on) == [tabulation.path(spine.levels, row) for row in sorted(set(each))]


@given(
    st.lists(
        st.tuples(st.sampled_from("012"), st.sampled_from(["aa", "ab", "b", "ba"])),
        min_size=1,
        unique=True,
    )
)
def test_levels_at_which_codes_differ_in_the_first_digit_alone_are_split(
    given: list[tuple[str, str]],
) -> None:
    codes = np.array(sorted(a + b for a, b in given))
    spine = Spine(
        ("A", "B"), (np.array(["r"]), codes), (np.zeros(1, int), np.zeros(len(codes), int))
    )
    rest = [b for _, b in given]
    assert MeasuredSpine.bypassed(spine, np.arange(len(codes))).split == (
        ("B",) if len(set(rest)) < len(rest) else ()
    )


def test_there_are_two_to_the_levels_less_one_paths() -> None:
    levels = ("US", "State", "County", "Tract", "Block_Group", "Block")
    paths = tabulation.conceivable(levels)
    assert len(set(paths)) == 32
    assert paths[0] == tuple((level, level) for level in levels)
    assert paths[-1][0] == ("US", "US to Block")
    assert {c for _, c in paths[-1][1:]} == {tabulation.UNMEASURED}


def test_the_published_spine_itself_is_one_class_and_one_path() -> None:
    spine = Spine(
        ("A", "B"), (np.array(["r"]), np.array(["x", "y"])), (np.zeros(1, int), np.zeros(2, int))
    )
    tree = MeasuredSpine.from_published(spine)
    assert tree.alike
    assert tree.paths == ((("A", ALL), ("B", ALL)),)
    assert list(tree.classes("B")) == [ALL]


def test_places_outside_the_tree_are_published_as_empty_and_refused_where_somebody_is() -> None:
    spine = Spine(
        ("A", "B"), (np.array(["r"]), np.array(["x", "y"])), (np.zeros(1, int), np.zeros(2, int))
    )
    tree = MeasuredSpine.bypassed(spine, np.array([2, 0]))
    lowest = Histogram.from_triplets(2, 4, np.array([0, 1]), np.array([1, 3]), np.array([5, 6]))
    out = tree.published(lowest, 3)
    assert out.totals().tolist() == [6, 0, 5]
    assert tree.of_published(out).same_as(lowest)
    outside = Histogram.from_triplets(3, 4, np.array([1]), np.array([1]), np.array([1]))
    with pytest.raises(InputError, match="without a housing unit"):
        tree.of_published(outside)
