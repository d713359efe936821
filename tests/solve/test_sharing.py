"""The least number of persons who must change their group, against every other way to put them into
groups.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.solve import least_moves
from tests.oracles import can_be_shared_out

Ints = NDArray[np.int64]


def random_case(
    rng: np.random.Generator, groups: int, places: int, most: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """Descendants with facilities of some kinds, and as many persons as they hold in any kinds at
    all.
    """
    lower = rng.integers(0, 2, (places, groups)) * rng.integers(0, 3, (places, groups))
    upper = lower + rng.integers(0, 2, (places, groups)) * rng.integers(0, most, (places, groups))
    total = rng.integers(lower.sum(axis=1), upper.sum(axis=1) + 1)
    held = rng.multinomial(total.sum(), rng.dirichlet(np.full(groups, 0.5)))
    return held, lower, upper, total


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_no_fewer_moves_would_do(seed: int) -> None:
    """Brute force over all sums of three groups."""
    held, lower, upper, total = random_case(np.random.default_rng(seed), 3, 2, 4)
    moves = least_moves(held, lower, upper, total)
    assert moves is not None
    after = held + moves.sum(axis=0) - moves.sum(axis=1)
    assert (moves >= 0).all()
    assert (moves.sum(axis=1) <= held).all()
    assert can_be_shared_out(after, lower, upper, total)
    assert moves.sum() == np.abs(after - held).sum() / 2
    n = int(total.sum())
    others = (np.array(y) for y in product(range(n + 1), repeat=3) if sum(y) == n)
    nearer = (y for y in others if np.abs(y - held).sum() / 2 < moves.sum())
    assert not any(can_be_shared_out(y, lower, upper, total) for y in nearer)


def test_moves_are_needed_and_not_needed() -> None:
    """The cases above are of both kinds."""
    moved = [
        least_moves(*random_case(np.random.default_rng(seed), 3, 2, 4)).sum() for seed in range(40)
    ]
    assert 20 < np.count_nonzero(moved) < 38


def test_by_hand() -> None:
    """Ten persons in group 0; one place wants two in group 1, the other has no room for more than
    seven in group 0.
    """
    lower, upper = np.array([[0, 2, 0], [0, 0, 0]]), np.array([[9, 9, 0], [7, 0, 9]])
    moves = least_moves(np.array([10, 0, 0]), lower, upper, np.array([2, 8]))
    assert moves.tolist() == [[0, 2, 1], [0, 0, 0], [0, 0, 0]]


def test_what_no_change_of_groups_can_mend() -> None:
    lower, upper = np.array([[1, 0]]), np.array([[3, 1]])
    assert least_moves(np.array([2, 1]), lower, upper, np.array([4])) is None  # another sum
    assert (
        least_moves(np.array([5, 0]), lower, upper, np.array([5])) is None
    )  # more than there is room for
    assert (
        least_moves(np.array([0, 0]), lower, upper, np.array([0])) is None
    )  # a facility of nobody
    assert least_moves(np.array([0, 0]), 0 * lower, upper, np.array([0])).tolist() == [
        [0, 0],
        [0, 0],
    ]
