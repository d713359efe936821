"""Bounds added up the spine; reach against a linear program that shares records out one by one."""

from __future__ import annotations

import tracemalloc
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InputError
from das.geography.bounds import MOST_IN_A_STRUCTURE, NO_LIMIT, bounds, lowest
from das.model import constraint
from das.model.constraint import JointTotals, Limits
from das.model.histogram import Histogram
from das.model.redistricting import PL94
from das.model.release import Release
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from tests.oracles import can_be_shared_out
from tests.strategies import spines


def home(groups: int) -> Schema:
    """A schema of ``groups`` kinds of dwelling."""
    dwelling = Attribute("home", tuple(f"g{i}" for i in range(groups)))
    return Schema("s", (dwelling, Attribute("sex", ("m", "f"))), dwelling="home")


def array(draw: st.DrawFn, shape: tuple[int, ...], most: int) -> np.ndarray:
    n = int(np.prod(shape))
    return np.array(
        draw(st.lists(st.integers(0, most), min_size=n, max_size=n)), dtype=np.int64
    ).reshape(shape)


@st.composite
def limited(draw: st.DrawFn, groups: int) -> tuple[Spine, np.ndarray, np.ndarray, np.ndarray, str]:
    """A spine, bounds of its lowest units, and totals of one of its levels that the bounds
    allow.
    """
    tree = draw(spines(most_levels=4, most_children=3))
    n = len(tree.codes[-1])
    lower = array(draw, (n, groups), 2)
    upper = lower + array(draw, (n, groups), 3)
    level = draw(st.sampled_from(tree.levels))
    ancestor = tree.up(tree.levels[-1], level)
    least, most = (
        np.bincount(ancestor, weights=v.sum(axis=1), minlength=tree.units(level))
        for v in (lower, upper)
    )
    total = np.array(
        [draw(st.integers(int(a), int(b))) for a, b in zip(least, most, strict=True)],
        dtype=np.int64,
    )
    return tree, lower, upper, total, level


@given(limited(groups=3))
def test_bounds_and_totals_add_up(
    case: tuple[Spine, np.ndarray, np.ndarray, np.ndarray, str],
) -> None:
    tree, lower, upper, total, known = case
    schema = home(3)
    found = bounds(schema, tree, Limits.from_bounds(lower, upper), total, known)
    assert list(found) == list(tree.levels)
    for depth, level in enumerate(tree.levels):
        b, ancestor = found[level].dense(), tree.up(tree.levels[-1], level)
        for u in range(tree.units(level)):
            np.testing.assert_array_equal(b.lower[u], lower[ancestor == u].sum(axis=0))
            np.testing.assert_array_equal(b.upper[u], upper[ancestor == u].sum(axis=0))
        np.testing.assert_array_equal(b.group, schema.level_of("home"))
        np.testing.assert_array_equal(b.possible, schema.possible)
        if depth > tree.index(known):
            assert b.total is None
            assert b.reach is None
        else:
            assert b.total is not None
            at = tree.up(known, level)
            np.testing.assert_array_equal(
                b.total, [total[at == u].sum() for u in range(tree.units(level))]
            )


@given(limited(groups=3), st.randoms(use_true_random=False))
def test_bounds_of_a_subtree_are_those_that_its_lowest_units_add_up_to(
    case: tuple[Spine, np.ndarray, np.ndarray, np.ndarray, str], random: Random
) -> None:
    tree, lower, upper, total, known = case
    schema = home(3)
    level = random.choice(tree.levels[: tree.index(known) + 1])
    unit = random.randrange(tree.units(level))
    whole = bounds(schema, tree, Limits.from_bounds(lower, upper), total, known)
    found = {here: whole[here].part(*ends) for here, ends in tree.extent(level, unit).items()}
    (a, b), (c, d) = (tree.extent(level, unit)[lv] for lv in (tree.levels[-1], known))
    alone = bounds(
        schema,
        tree.subtree(level, unit),
        Limits.from_bounds(lower[a:b], upper[a:b]),
        total[c:d],
        known,
    )
    assert list(found) == list(alone)
    for here, one in alone.items():
        assert found[here].limits == one.limits
        np.testing.assert_array_equal(found[here].total, one.total)
        assert (
            found[here].reach is not None or one.reach is None
        )  # kept for a level where it says more of any unit
        if one.reach is not None:
            np.testing.assert_array_equal(found[here].reach, one.reach)


def says_yes(found, unit: int, held: np.ndarray) -> bool:  # type: ignore[no-untyped-def]
    """What the bounds of a unit say of a histogram with group sums ``held``."""
    if (
        held.sum() != found.total[unit]
        or (held < found.lower[unit]).any()
        or (held > found.upper[unit]).any()
    ):
        return False
    if found.reach is None:
        return True
    subsets = [[g for g in range(len(held)) if number >> g & 1] for number in range(1 << len(held))]
    return all(
        held[subset].sum() <= found.reach[unit, number] for number, subset in enumerate(subsets)
    )


@settings(max_examples=60)
@given(limited(groups=2), st.data())
def test_a_unit_may_hold_exactly_what_its_descendants_can_share_out(
    case, data: st.DataObject
) -> None:  # type: ignore[no-untyped-def]
    """Every vector of group sums near the bounds: yes if and only if a linear program finds a
    way.
    """
    tree, lower, upper, total, known = case
    found = bounds(home(2), tree, Limits.from_bounds(lower, upper), total, known)
    places = found[known].dense()
    level = data.draw(st.sampled_from(tree.levels[: tree.index(known) + 1]))
    unit = data.draw(st.integers(0, tree.units(level) - 1))
    below = tree.up(known, level) == unit
    b = found[level].dense()
    whole = int(b.total[unit])
    for first in range(whole + 1):
        held = np.array([first, whole - first])
        possible = can_be_shared_out(held, places.lower[below], places.upper[below], total[below])
        assert says_yes(b, unit, held) == possible


@settings(max_examples=40)
@given(st.data())
def test_reach_with_three_groups(data: st.DataObject) -> None:
    """Two or three places with tight bounds under one root, where single bounds say too little."""
    n = data.draw(st.integers(2, 3))
    tree = Spine(
        ("A", "B"),
        (np.array(["r"]), np.array([f"b{i}" for i in range(n)])),
        (np.zeros(1, dtype=np.int64), np.zeros(n, dtype=np.int64)),
    )
    draw = data.draw
    lower = np.array(
        [[draw(st.integers(0, 1)) for _ in range(3)] for _ in range(n)], dtype=np.int64
    )
    upper = lower + np.array(
        [[draw(st.sampled_from([0, 1, 4])) for _ in range(3)] for _ in range(n)]
    )
    total = np.array(
        [draw(st.integers(int(a.sum()), int(b.sum()))) for a, b in zip(lower, upper, strict=True)]
    )
    found = bounds(home(3), tree, Limits.from_bounds(lower, upper), total, "B")["A"].dense()
    ranges = [
        range(int(lo), int(hi) + 1)
        for lo, hi in zip(lower.sum(axis=0), upper.sum(axis=0), strict=True)
    ]
    for held in product(*ranges):
        if sum(held) != total.sum():
            continue
        assert says_yes(found, 0, np.array(held)) == can_be_shared_out(held, lower, upper, total)


# --- joint totals
# --------------------------------------------------------------------------------------------


@st.composite
def joined(
    draw: st.DrawFn, groups: int
) -> tuple[Spine, np.ndarray, np.ndarray, np.ndarray, str, np.ndarray]:
    """As ``limited``, but siblings are in parts; only the totals of parts are known."""
    tree, lower, upper, total, level = draw(limited(groups))
    parent = tree.parent[tree.index(level)]
    part = np.unique(parent * 9 + array(draw, (len(parent),), 1), return_inverse=True)[1]
    part = np.array(draw(st.permutations(range(part.max() + 1))))[part]  # in any order
    return tree, lower, upper, np.bincount(part, weights=total).astype(np.int64), level, part


@settings(max_examples=80)
@given(joined(groups=2), st.data())
def test_a_unit_may_hold_what_its_descendants_with_joint_totals_can_share_out(
    case, data: st.DataObject
) -> None:  # type: ignore[no-untyped-def]
    tree, lower, upper, total, known, part = case
    found = bounds(home(2), tree, Limits.from_bounds(lower, upper), JointTotals(part, total), known)
    places = found[known].dense()
    if len(total) < len(part):
        assert places.joint is not None
        assert places.total is None
        assert places.joint.total.tolist() == total.tolist()
    elif known != tree.levels[0]:
        assert places.joint is None
        assert places.total is not None
        assert places.total.tolist() == total[part].tolist()
    above = tree.levels[: tree.index(known)]
    if not above:
        return
    level = data.draw(st.sampled_from(above))
    unit = data.draw(st.integers(0, tree.units(level) - 1))
    below = tree.up(known, level) == unit
    number, inner = np.unique(part[below], return_inverse=True)
    b = found[level].dense()
    assert b.total[unit] == total[number].sum()
    for first in range(int(b.total[unit]) + 1):
        held = np.array([first, int(b.total[unit]) - first])
        possible = can_be_shared_out(
            held, places.lower[below], places.upper[below], total[number], inner
        )
        assert says_yes(b, unit, held) == possible


def test_the_reach_of_a_part_by_hand() -> None:
    """x and y hold 6 together: all of them of kind 0 if need be, which only y has, or 4 of kind 1
    in x.
    """
    zero = np.zeros(1, dtype=np.int64)
    tree = Spine(
        ("A", "B"),
        (np.array(["r"]), np.array(["x", "y", "z"])),
        (zero, np.zeros(3, dtype=np.int64)),
    )
    lower, upper = np.zeros((3, 2), dtype=np.int64), np.array([[0, 4], [9, 0], [0, 2]])
    found = bounds(
        home(2),
        tree,
        Limits.from_bounds(lower, upper),
        JointTotals(np.array([0, 0, 1]), np.array([6, 1])),
        "B",
    )
    assert found["A"].reach.tolist() == [[0, 6, 5, 7]]
    assert found["A"].total.tolist() == [7]


def test_parts_of_several_parents_are_refused() -> None:
    zero = np.zeros(1, dtype=np.int64)
    codes = (np.array(["r"]), np.array(["a", "b"]), np.array(["ax", "bx"]))
    tree = Spine(("A", "B", "C"), codes, (zero, np.zeros(2, dtype=np.int64), np.arange(2)))
    none = np.zeros((2, 2), dtype=np.int64)
    with pytest.raises(InputError, match="not siblings"):
        bounds(
            home(2),
            tree,
            Limits.from_bounds(none, none + 9),
            JointTotals(np.zeros(2, dtype=np.intp), np.array([6])),
            "C",
        )


# --- reach, by hand
# ------------------------------------------------------------------------------------------


def two_places(lower: list[list[int]], upper: list[list[int]], total: list[int]):  # type: ignore[no-untyped-def]
    tree = Spine(
        ("A", "B"),
        (np.array(["r"]), np.array(["x", "y"])),
        (np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)),
    )
    return bounds(
        home(2), tree, Limits.from_bounds(np.array(lower), np.array(upper)), np.array(total), "B"
    )["A"].dense()


def test_reach_by_hand() -> None:
    """x holds 5, all of kind 0; y holds 1 and could take 9 of kind 0: the root's own upper bound of
    14 misleads.
    """
    found = two_places([[0, 0], [0, 0]], [[5, 0], [9, 9]], [5, 1])
    assert found.reach.tolist() == [[0, 6, 1, 6]]
    assert found.upper.tolist() == [[14, 9]]


def test_reach_is_left_out_where_it_says_nothing_new() -> None:
    assert two_places([[0, 0], [0, 0]], [[9, 9], [9, 9]], [5, 1]).reach is None
    assert two_places([[0, 0], [0, 0]], [[5, 0], [9, 9]], [5, 1]).reach is not None


def test_more_groups_than_subsets_can_be_listed_for() -> None:
    lower = np.zeros((2, 11), dtype=np.int64)
    tree = Spine(
        ("A", "B"),
        (np.array(["r"]), np.array(["x", "y"])),
        (np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)),
    )
    found = bounds(home(11), tree, Limits.from_bounds(lower, lower + 1), np.array([1, 11]), "B")
    assert found["A"].reach is None
    assert found["A"].total.tolist() == [12]


# --- from structures
# -----------------------------------------------------------------------------------------

STRUCTURES = np.array([[3, 0, 2], [0, 1, 0], [0, 0, 0]], dtype=np.int64)


def test_facilities_hold_somebody_and_homes_may_be_empty() -> None:
    found = lowest(home(3), STRUCTURES)
    assert found is not None
    assert found[0].tolist() == [[0, 0, 2], [0, 1, 0], [0, 0, 0]]
    assert found[1].tolist() == (STRUCTURES * 99_999).tolist()
    assert MOST_IN_A_STRUCTURE == 99_999


@pytest.mark.parametrize("homes", [True, False])
@pytest.mark.parametrize("facilities", [True, False])
def test_each_constraint_can_be_switched_off(homes: bool, facilities: bool) -> None:
    found = lowest(home(3), STRUCTURES, housing_units=homes, group_quarters=facilities)
    if not homes and not facilities:
        assert found is None
        return
    assert found is not None
    lower, upper = found
    assert not lower[:, 0].any()
    assert (lower[:, 1:] == (STRUCTURES[:, 1:] if facilities else 0)).all()
    assert (upper[:, 0] == (STRUCTURES[:, 0] * MOST_IN_A_STRUCTURE if homes else NO_LIMIT)).all()
    assert (
        upper[:, 1:] == (STRUCTURES[:, 1:] * MOST_IN_A_STRUCTURE if facilities else NO_LIMIT)
    ).all()


def test_without_dwellings_or_structures_nothing_is_bounded() -> None:
    assert lowest(Schema("s", (Attribute("sex", ("m", "f")),)), STRUCTURES) is None
    assert lowest(home(3), None) is None


def test_no_bounds_still_know_totals_and_structural_zeros() -> None:
    tree = Spine(
        ("A", "B"),
        (np.array(["r"]), np.array(["x", "y"])),
        (np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)),
    )
    found = bounds(PL94, tree, None, np.array([3, 4]), "B")
    assert found["A"].total.tolist() == [7]
    assert found["A"].reach is None
    assert not found["A"].limits.lower.any()
    assert (found["A"].limits.upper >= 7).all()
    assert not found["A"].possible.all()
    plain = bounds(Schema("s", (Attribute("sex", ("m", "f")),)), tree, None, None, None)
    assert plain["A"].groups == 1
    assert plain["B"].total is None


def test_a_large_level_is_never_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty thousand blocks, thirty groups: bounds of all levels, and the check of a release, in a
    fraction of one array.
    """
    monkeypatch.setattr(constraint, "_MOST_VALUES", 1 << 12)
    blocks, groups = 40_000, 30
    code = np.char.zfill(np.arange(blocks).astype("S5"), 5)
    parent = np.arange(blocks) // 400
    tree = Spine(
        ("A", "B", "C"),
        (code[:1], code[:100], code),
        (np.zeros(1, int), np.zeros(100, int), parent),
    )
    kinds = np.eye(groups, dtype=np.int64)[:7]
    packed = Limits(*lowest(home(groups), kinds), (np.arange(blocks) % 7).astype(np.int32))  # type: ignore[misc]
    one = np.ones(blocks, dtype=np.int64)
    low = Histogram.from_triplets(
        blocks, 2 * groups, np.arange(blocks), 2 * (np.arange(blocks) % 7), one
    )
    mid = low.up(parent, 100)
    histograms = {"A": mid.up(tree.parent[1], 1), "B": mid, "C": low}
    tracemalloc.start()
    try:
        found = bounds(home(groups), tree, packed, np.full(100, 400), "B")
        assert found["C"].rows(8, 9).lower.argmax() == 1
        assert found["A"].total.tolist() == [blocks]  # type: ignore[union-attr]
        Release(tree, histograms, found)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < blocks * groups * 8 / 2


def test_no_limit_stays_no_limit_at_national_size() -> None:
    """Ten million blocks of eight kinds of dwelling without limit: sums of limits still fit 64
    bits.
    """
    blocks, groups = 10_000_000, 8
    assert NO_LIMIT * blocks * groups < 2**63
    assert NO_LIMIT > 9 * 10**9  # more than everybody
