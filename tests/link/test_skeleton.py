"""What of persons and households is a network, and the counterexamples to what is not."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from das.errors import InfeasibleError, InputError
from das.link.skeleton import SplitProblem, reachable_sizes


def problem(householders: list[int], occupied: list[int], able: list[list[int]]) -> SplitProblem:
    return SplitProblem(np.array(householders), np.array(occupied), np.array(able))


def subsets(n: int) -> list[np.ndarray]:
    every = chain.from_iterable(combinations(range(n), k) for k in range(n + 1))
    return [np.isin(np.arange(n), s) for s in every]


def meets_every_bound(p: SplitProblem) -> bool:
    """Theorem 2, set by set."""
    return bool(p.householders.sum() == p.occupied.sum()) and all(
        p.householders[s].sum() <= p.bound(s) for s in subsets(len(p.householders))
    )


def linear_program(p: SplitProblem) -> bool:
    """Whether a split exists, by another solver."""
    blocks, classes = p.able.shape
    rows = [np.kron(np.eye(blocks)[b], np.ones(classes)) for b in range(blocks)]
    rows += [np.kron(np.ones(blocks), np.eye(classes)[g]) for g in range(classes)]
    right = np.concatenate([p.occupied, p.householders])
    found = linprog(
        np.zeros(blocks * classes),
        A_eq=np.array(rows),
        b_eq=right,
        bounds=[(0, x) for x in p.able.ravel()],
    )
    return bool(found.status == 0)


def test_condition_flow_and_linear_program_agree() -> None:
    """150 random problems; in some every single class fits its bound, and the whole does not."""
    rng, lone, feasible = np.random.default_rng(1), 0, 0
    for _ in range(150):
        blocks, classes = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        able = rng.integers(0, 4, (blocks, classes))
        occupied = np.minimum(rng.integers(0, 5, blocks), able.sum(axis=1))
        householders = rng.multinomial(occupied.sum(), rng.dirichlet(np.ones(classes)))
        p = SplitProblem(householders, occupied, able)
        can = meets_every_bound(p)
        assert can == linear_program(p)
        assert (p.violated() is None) == can
        if can:
            n = p.split()
            assert (n.sum(axis=0) == householders).all()
            assert (n.sum(axis=1) == occupied).all()
            assert ((n >= 0) & (n <= able)).all()
        else:
            with pytest.raises(InfeasibleError, match="can have at most"):
                p.split()
            single = [p.householders[g] <= p.bound(np.arange(classes) == g) for g in range(classes)]
            lone += all(single)
        feasible += can
    assert lone > 0
    assert 25 < feasible < 125


def test_caps_one_by_one_are_not_enough() -> None:
    """C3: the crude caps H(g) <= sum of s_b(g) hold, and there is no split."""
    p = problem([1, 2], [2, 1], [[2, 0], [0, 2]])
    assert (p.householders <= p.able.sum(axis=0)).all()
    assert p.bound(np.array([False, True])) == 1
    with pytest.raises(InfeasibleError, match="2 householders of classes 1"):
        p.split()
    assert problem([2, 1], [2, 1], [[2, 0], [0, 2]]).split().tolist() == [[2, 0], [0, 1]]


@pytest.mark.parametrize(("householders", "can"), [([1, 1], True), ([0, 2], False), ([2, 0], True)])
def test_two_blocks_of_one_unit(householders: list[int], can: bool) -> None:
    p = problem(householders, [1, 1], [[1, 1], [1, 0]])
    assert meets_every_bound(p) == can
    assert (p.violated() is None) == can


def test_tenure_by_class_is_no_network() -> None:
    """C1: an owner of class 1 and a renter of class 2; block 1 has an owner unit and a householder
    of class 2, block 2 the reverse. All sums agree; no table has them, real or integer."""
    cells = [(b, t, k) for b in range(2) for t in range(2) for k in range(2)]
    rows, right = [], []
    for pair, values in (
        ((1, 2), {(0, 0): 1, (1, 1): 1, (0, 1): 0, (1, 0): 0}),  # parent: tenure x class
        ((0, 1), {(0, 0): 1, (1, 1): 1, (0, 1): 0, (1, 0): 0}),  # block x tenure
        ((0, 2), {(0, 1): 1, (1, 0): 1, (0, 0): 0, (1, 1): 0}),  # block x class
    ):
        for key, value in values.items():
            rows.append([float((c[pair[0]], c[pair[1]]) == key) for c in cells])
            right.append(value)
    sums = [np.array(list(v)) for v in ([1, 1], [1, 1], [1, 1])]
    assert all((s == 1).all() for s in sums)  # each one-way sum is 1 throughout
    assert linprog(np.zeros(8), A_eq=rows, b_eq=right).status == 2


def test_sizes_are_a_knapsack() -> None:
    """C2: two households of sizes 1 and 3 have 2, 4 or 6 persons, and never 3; one and a half of
    the one and half of the other would have 3."""
    found = reachable_sizes(np.array([1, 3]), 2)
    assert np.flatnonzero(found).tolist() == [2, 4, 6]
    assert 1.5 * 1 + 0.5 * 3 == 3
    assert reachable_sizes(np.array([2]), 0).tolist() == [True]


def test_children_can_all_be_in_one_block() -> None:
    """C5: two blocks with a household each that has own children under 6, and both children in the
    first: the second violates I2, whatever the sums above say."""
    children, households = np.array([2, 0]), np.array([1, 1])
    assert children.sum() >= households.sum()
    assert (children < households).tolist() == [False, True]


def test_what_splits_refuse() -> None:
    with pytest.raises(InputError, match="differ in number"):
        problem([1], [1, 1], [[1]])
    with pytest.raises(InputError, match="negative"):
        problem([-1], [1], [[1]])
    with pytest.raises(InfeasibleError, match="3 householders for 2 units"):
        problem([3], [2], [[4]]).split()
