"""Records to histograms at every level, against counting one record at a time."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.records import Records
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.truth.prepared import histograms, upward
from tests.strategies import spines

SCHEMA = Schema("s", (Attribute("sex", ("m", "f")), Attribute("age", ("a", "b", "c"))))


@st.composite
def counted(draw: st.DrawFn) -> tuple[Spine, np.ndarray, np.ndarray]:
    """A spine, the lowest unit of each block, and rows of (block, cell, count)."""
    tree = draw(spines(most_levels=3))
    lowest = len(tree.codes[-1])
    blocks = draw(st.integers(1, 8))
    unit = np.array(
        draw(st.lists(st.integers(0, lowest - 1), min_size=blocks, max_size=blocks)), dtype=np.int64
    )
    one = st.tuples(st.integers(0, blocks - 1), st.integers(0, SCHEMA.cells - 1), st.integers(0, 4))
    return tree, unit, np.array(draw(st.lists(one, max_size=25)), dtype=np.int64).reshape(-1, 3)


@given(counted())
def test_every_level_counts_every_record_once(case: tuple[Spine, np.ndarray, np.ndarray]) -> None:
    tree, unit, rows = case
    records = Confidential(Records(SCHEMA, rows[:, 0], rows[:, 1], rows[:, 2]))
    found = histograms(records, unit, tree)
    assert list(found) == list(tree.levels)
    for level in tree.levels:
        up = tree.up(tree.levels[-1], level)
        expected: Counter[tuple[int, int]] = Counter()
        for block, cell, count in rows.tolist():
            expected[int(up[unit[block]]), cell] += count
        assert isinstance(found[level], Confidential)
        h = found[level].open("to test")
        assert (h.units, h.cells) == (tree.units(level), SCHEMA.cells)
        assert {(u, k): n for u, k in np.argwhere(h.dense()) if (n := h.dense()[u, k])} == +expected


@given(counted())
def test_each_level_is_the_sum_of_the_one_below(case: tuple[Spine, np.ndarray, np.ndarray]) -> None:
    tree, unit, rows = case
    found = histograms(
        Confidential(Records(SCHEMA, rows[:, 0], rows[:, 1], rows[:, 2])), unit, tree
    )
    opened = {level: box.open("to test") for level, box in found.items()}
    assert {h.totals().sum() for h in opened.values()} == {rows[:, 2].sum()}
    for depth in range(1, len(tree)):
        low, high = tree.levels[depth], tree.levels[depth - 1]
        assert opened[low].up(tree.parent[depth], tree.units(high)).same_as(opened[high])
    again = upward(found[tree.levels[-1]], tree)
    assert all(again[level].open("to test").same_as(opened[level]) for level in tree.levels)
    assert again[tree.levels[-1]] is found[tree.levels[-1]]


def test_memory_grows_with_positive_cells_not_with_units_times_cells() -> None:
    """Three hundred thousand units of two thousand cells would be 5 GB dense."""
    units = 300_000
    tree = Spine(
        ("A", "B"),
        (np.array(["r"]), np.char.mod("%07d", np.arange(units))),
        (np.zeros(1, dtype=np.int64), np.zeros(units, dtype=np.int64)),
    )
    one = np.array([7], dtype=np.int64)
    lowest = Histogram.from_triplets(units, 2016, one, one, one)
    assert upward(Confidential(lowest), tree)["A"].open("to test").totals().tolist() == [7]
