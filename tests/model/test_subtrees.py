"""A tree cut into an upper tree and subtrees is the same tree."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.model.measured_spine import MeasuredSpine, Subtrees
from das.model.spine import Spine


@st.composite
def trees(draw: st.DrawFn) -> Spine:
    """Four levels, with only children here and there."""
    rows = []
    for a in range(draw(st.integers(1, 4))):
        for b in range(draw(st.integers(1, 4))):
            for c in range(draw(st.integers(1, 3))):
                rows += [
                    (f"{a}", f"{a}{b}", f"{a}{b}{c}", f"{a}{b}{c}{d}")
                    for d in range(draw(st.integers(1, 4)))
                ]
    columns = dict(zip(("A", "B", "C", "D"), zip(*rows, strict=True), strict=True))
    return Spine.from_frame({k: list(v) for k, v in columns.items()}, ["US", "A", "B", "C", "D"])


@given(trees(), st.integers(4, 40))
def test_subtrees_follow_each_other_and_are_as_large_as_they_may_be(
    spine: Spine, largest: int
) -> None:
    subtrees = Subtrees.from_spine(spine, largest=largest)
    lowest = len(spine.codes[-1])
    if lowest <= largest:
        assert len(subtrees) == 0
        assert subtrees.upper_tree(spine) == spine
        return
    assert subtrees.starts[-1] == spine.units(subtrees.level)
    parent = spine.parent[spine.index(subtrees.level)]
    bounds = subtrees.lowest(spine)
    assert bounds[0] == 0
    assert bounds[-1] == lowest
    for i in range(1, len(subtrees) + 1):
        here = subtrees.units(i)
        assert len(set(parent[here].tolist())) == 1
        size = bounds[i] - bounds[i - 1]
        assert size <= largest // 4 or here.stop - here.start == 1


@given(trees(), st.integers(4, 20))
def test_a_subtree_is_a_tree_with_what_is_above_it_and_everything_below(
    spine: Spine, largest: int
) -> None:
    subtrees = Subtrees.from_spine(spine, largest=largest)
    depth, bounds = spine.index(subtrees.level), subtrees.lowest(spine)
    codes: list[list[bytes]] = [[] for _ in spine.levels]
    for i, part in subtrees.parts(spine):
        for level in subtrees.levels(spine, i):
            codes[spine.index(level)] += part.codes[part.index(level)].tolist()
        if i:
            assert part.levels == spine.levels
            assert np.array_equal(part.codes[-1], spine.codes[-1][bounds[i - 1] : bounds[i]])
            for d in range(1, len(spine)):
                code = dict(
                    zip(
                        part.codes[d].tolist(),
                        part.codes[d - 1][part.parent[d]].tolist(),
                        strict=True,
                    )
                )
                whole = dict(
                    zip(
                        spine.codes[d].tolist(),
                        spine.codes[d - 1][spine.parent[d]].tolist(),
                        strict=True,
                    )
                )
                assert code.items() <= whole.items()
            assert len(part.codes[depth]) == subtrees.units(i).stop - subtrees.units(i).start
    assert codes == [c.tolist() for c in spine.codes]


def measured_over(spine: Spine, random: Random) -> MeasuredSpine:
    """Another order of the states, some blocks left out, and only children bypassed, as on an
    optimized spine.
    """
    kept = np.array([random.random() < 0.8 for _ in spine.codes[-1]])
    kept[:: max(1, len(kept) // 3)] = True
    unit = np.flatnonzero(kept)
    names = [
        c[spine.up("D", level)[unit]] for level, c in zip(spine.levels, spine.codes, strict=True)
    ]
    flip = {
        c: bytes([ord("9") - c[0] + ord("0")]) + c[1:] for code in names[1:] for c in code.tolist()
    }
    frame = {
        lv: [flip[c].decode() for c in code.tolist()]
        for lv, code in zip(spine.levels[1:], names[1:], strict=True)
    }
    other = Spine.from_frame(frame, spine.levels)
    back = {flip[c]: int(u) for c, u in zip(names[-1].tolist(), unit, strict=True)}
    return MeasuredSpine.bypassed(other, np.array([back[c] for c in other.codes[-1].tolist()]))


@given(trees(), st.randoms(use_true_random=False))
def test_a_measured_tree_over_a_subtree_has_its_units_classes_and_places(
    spine: Spine, random: Random
) -> None:
    tree = measured_over(spine, random)
    subtrees = Subtrees.from_spine(spine, [tree], largest=8)
    bounds, seen = subtrees.lowest(spine), []
    if not len(subtrees):
        assert subtrees.upper_tree_of(tree, spine) is tree
        return
    upper_tree = subtrees.upper_tree_of(tree, spine)
    for level in upper_tree.spine.levels:
        whole, here = tree.classes(level), upper_tree.classes(level)
        assert whole.keys() == here.keys()
        assert all(np.array_equal(whole[c], here[c]) for c in whole)
    for i in range(1, len(subtrees) + 1):
        if not ((tree.place >= bounds[i - 1]) & (tree.place < bounds[i])).any():
            continue
        part = subtrees.subtree_of(tree, spine, i)
        seen += (part.place + bounds[i - 1]).tolist()
        for depth in range(spine.index(subtrees.level), len(spine)):
            last = dict(
                zip(tree.spine.codes[depth].tolist(), tree.last[depth].tolist(), strict=True)
            )
            assert all(
                last[c] == x
                for c, x in zip(
                    part.spine.codes[depth].tolist(), part.last[depth].tolist(), strict=True
                )
            )
    assert sorted(seen) == sorted(tree.place.tolist())


def test_subtrees_that_leave_a_gap_are_refused() -> None:
    with pytest.raises(InputError, match="follow each other"):
        Subtrees("A", np.array([1, 2]))
    with pytest.raises(InputError, match="follow each other"):
        Subtrees("A", np.array([0, 2, 2]))
