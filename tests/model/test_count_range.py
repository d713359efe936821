"""What a count can be by what is public, against every histogram that there can be."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from das.errors import InfeasibleError
from das.model.areas import Areas
from das.model.constraint import JointTotals, LevelBounds, Limits, count_range, range_of_areas
from das.model.spine import Spine

CELLS, GROUPS, MOST = 5, 3, 3
flags = st.lists(st.booleans(), min_size=CELLS, max_size=CELLS)


@given(
    st.lists(st.integers(0, GROUPS - 1), min_size=CELLS, max_size=CELLS),
    flags,
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=GROUPS, max_size=GROUPS),
    st.one_of(st.none(), st.integers(0, 6)),
    flags,
)
def test_both_ends_are_reached_and_nothing_is_outside(
    group: list[int],
    possible: list[bool],
    limits: list[tuple[int, int]],
    total: int | None,
    column: list[bool],
) -> None:
    at, able, inside = np.array(group), np.array(possible), np.array(column)
    lower, upper = np.array([[a for a, _ in limits]]), np.array([[a + b for a, b in limits]])
    cells = np.array(list(product(range(MOST + 2), repeat=CELLS)))
    cells = cells[(cells[:, ~able] == 0).all(axis=1)]
    sums = np.stack([cells[:, at == g].sum(axis=1) for g in range(GROUPS)], axis=1)
    there = ((sums >= lower) & (sums <= upper)).all(axis=1)
    if total is not None:
        there &= cells.sum(axis=1) == total
    assume(there.any())
    bounds = LevelBounds(
        at, Limits.from_bounds(lower, upper), None if total is None else np.array([total]), able
    )
    least, most = count_range(bounds, inside[None], 0, 1)
    of = cells[there][:, inside].sum(axis=1)
    assert (least[0, 0], most[0, 0]) == (of.min(), of.max())


def test_a_total_of_several_units_is_the_most_of_each() -> None:
    joint = JointTotals(np.array([0, 0, 1]), np.array([4, 0]))
    bounds = LevelBounds(
        np.zeros(2, int),
        Limits.from_bounds(np.zeros((3, 1), int), np.full((3, 1), 9)),
        None,
        np.ones(2, bool),
        joint=joint,
    )
    least, most = count_range(bounds, np.array([[True, False]]), 0, 3)
    assert (least.ravel().tolist(), most.ravel().tolist()) == ([0, 0, 0], [4, 4, 0])


def test_of_areas_it_is_the_sum_over_their_units() -> None:
    spine = Spine(
        ("all", "block"),
        (np.array([b"0"]), np.array([b"0", b"1", b"2"])),
        (np.zeros(1, int), np.zeros(3, int)),
    )
    total = np.array([3, 0, 5])
    bounds = LevelBounds(
        np.zeros(2, int),
        Limits.from_bounds(np.zeros((3, 1), int), np.full((3, 1), 9)),
        total,
        np.ones(2, bool),
    )
    areas = Areas("ward", np.array([b"a", b"b"]), np.array([0, 0, 1]), np.array([0, 2, 1]))
    columns = np.array([[True, False], [True, True]])
    least, most = range_of_areas(bounds, spine, areas, columns)
    assert least.tolist() == [[0, 8], [0, 0]]
    assert most.tolist() == [[8, 8], [0, 0]]


def test_what_cannot_be_is_refused_before() -> None:
    with pytest.raises(InfeasibleError):
        LevelBounds(
            np.zeros(1, int),
            Limits.from_bounds(np.array([[2]]), np.array([[1]])),
            None,
            np.ones(1, bool),
        )
