"""The tree: each invariant tripped, and its walks against walks of one unit at a time."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.model.spine import Spine
from tests.strategies import spines


def codes(*names: str) -> np.ndarray:
    return np.array(names, dtype=str)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


ROOT = codes("US"), ints(0)


@pytest.mark.parametrize(
    "levels, all_codes, parent, message",
    [
        ((), (), (), "differ in number"),
        (("A",), (codes("x"), codes("y")), (ints(0), ints(0)), "differ in number"),
        (("A", "A"), (ROOT[0], codes("x")), (ROOT[1], ints(0)), "same name"),
        (("A",), (codes("x", "y"),), (ints(0, 0),), "not one root"),
        (("A",), (codes(),), (ints(),), "not one root"),
        (("A", "B"), (ROOT[0], codes("x", "y")), (ROOT[1], ints(0)), "differ in length"),
        (("A", "B"), (ROOT[0], codes("x", "x")), (ROOT[1], ints(0, 0)), "occurs twice"),
        (("A", "B"), (ROOT[0], codes("x", "y")), (ROOT[1], ints(0, 1)), "parent"),
        (("A", "B"), (ROOT[0], codes("x", "y")), (ROOT[1], ints(-1, 0)), "parent"),
        (("A", "B"), (ROOT[0], codes("y", "x")), (ROOT[1], ints(0, 0)), "order"),
        (
            ("A", "B", "C"),
            (ROOT[0], codes("x", "y"), codes("1", "2")),
            (ROOT[1], ints(0, 0), ints(1, 0)),
            "order",
        ),
        (
            ("A", "B", "C"),
            (ROOT[0], codes("x", "y"), codes("1", "2")),
            (ROOT[1], ints(0, 0), ints(0, 0)),
            "no child",
        ),
    ],
)
def test_each_fault_of_a_spine_is_named(
    levels: tuple[str, ...],
    all_codes: tuple[np.ndarray, ...],
    parent: tuple[np.ndarray, ...],
    message: str,
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Spine(levels, all_codes, parent)
    assert "spine" in str(caught.value)


def test_codes_may_fall_from_one_family_to_the_next() -> None:
    spine = Spine(
        ("A", "B", "C"),
        (ROOT[0], codes("x", "y"), codes("2", "1")),
        (ROOT[1], ints(0, 0), ints(0, 1)),
    )
    np.testing.assert_array_equal(spine.find("C", codes("1", "2", "3")), [1, 0, -1])


@given(spines())
def test_walks_agree_with_parents_one_at_a_time(spine: Spine) -> None:
    assert len(spine) == len(spine.levels)
    for depth, level in enumerate(spine.levels):
        assert spine.index(level) == depth
        assert spine.units(level) == len(spine.codes[depth])
        starts = spine.children(level)
        above = len(spine.codes[depth - 1]) if depth else 1
        assert len(starts) == above + 1
        for u in range(above):
            assert set(range(starts[u], starts[u + 1])) == set(
                np.flatnonzero(spine.parent[depth] == u)
            )
        for high in range(depth + 1):
            ancestor = np.arange(len(spine.codes[depth]))
            for d in range(depth, high, -1):
                ancestor = np.array([spine.parent[d][u] for u in ancestor])
            np.testing.assert_array_equal(spine.up(level, spine.levels[high]), ancestor)


def test_there_is_no_way_up_to_a_lower_level() -> None:
    spine = Spine(("A", "B"), (ROOT[0], codes("x", "y")), (ROOT[1], ints(0, 0)))
    with pytest.raises(InputError, match="'B' is below 'A'"):
        spine.up("A", "B")


@given(spines())
def test_find_is_the_inverse_of_codes(spine: Spine) -> None:
    for depth, level in enumerate(spine.levels):
        n = len(spine.codes[depth])
        order = np.random.default_rng(n).permutation(n)
        np.testing.assert_array_equal(spine.find(level, spine.codes[depth][order]), order)
        np.testing.assert_array_equal(spine.find(level, codes("nowhere", "", "~")), [-1, -1, -1])
        assert spine.find(level, codes()).shape == (0,)


def test_an_unknown_level_is_named_with_those_there_are() -> None:
    spine = Spine(("A",), (ROOT[0],), (ROOT[1],))
    with pytest.raises(InputError, match="no level 'B'") as caught:
        spine.units("B")
    assert "A" in str(caught.value.remedy)


@given(spines(), st.integers(1, 5), st.integers(1, 30))
def test_batches_cover_every_unit_once_and_never_split_a_family(
    spine: Spine, answers: int, limit: int
) -> None:
    for depth, level in enumerate(spine.levels):
        batches = list(spine.batches(level, answers, limit))
        walked = [u for a, b in batches for u in range(a, b)]
        assert walked == list(range(spine.units(level)))
        for a, b in batches:
            assert b > a
            families = np.unique(spine.parent[depth][a:b])
            assert np.isin(spine.parent[depth], families).sum() == b - a  # whole families
            assert (b - a) * answers <= limit or len(families) == 1
        for (a, b), _ in pairwise(
            batches
        ):  # nor needlessly small: the next family would break the limit
            family = int((spine.parent[depth] == spine.parent[depth][b]).sum())
            assert (b - a + family) * answers > limit


def test_batches_use_the_default_limit() -> None:
    n = 3
    spine = Spine(
        ("A", "B", "C"),
        (ROOT[0], codes("x", "y", "z"), codes("1", "2", "3")),
        (ROOT[1], ints(0, 0, 0), ints(0, 1, 2)),
    )
    assert list(spine.batches("C", 1)) == [(0, n)]
    assert list(spine.batches("C", 1 << 22)) == [(0, 1), (1, 2), (2, 3)]
    assert list(spine.batches("C", 1 << 21)) == [(0, 2), (2, 3)]


@given(spines(), st.randoms(use_true_random=False))
def test_a_subtree_is_a_unit_and_all_that_lies_in_it(spine: Spine, random: Random) -> None:
    level = random.choice(spine.levels)
    unit = random.randrange(spine.units(level))
    below = spine.subtree(level, unit)
    assert below.levels == spine.levels[spine.index(level) :]
    for here in below.levels:
        inside = spine.up(here, level) == unit
        whole, part = spine.index(here), below.index(here)
        start, stop = spine.extent(level, unit)[here]
        np.testing.assert_array_equal(np.flatnonzero(inside), np.arange(start, stop))
        np.testing.assert_array_equal(below.codes[part], spine.codes[whole][inside])
        np.testing.assert_array_equal(below.names[part], spine.names[whole][inside])
        if here != level:
            above = spine.levels[whole - 1]
            parents = spine.codes[whole - 1][spine.parent[whole][inside]]
            np.testing.assert_array_equal(below.codes[part - 1][below.parent[part]], parents)
            assert below.up(here, above).max() < below.units(above)


def test_a_subtree_of_no_unit_is_refused() -> None:
    spine = Spine(("A", "B"), (ROOT[0], codes("x", "y")), (ROOT[1], ints(0, 0)))
    for unit in (-1, 2):
        with pytest.raises(InputError, match="no unit number"):
            spine.subtree("B", unit)
