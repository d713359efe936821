"""Passes that split each group by itself: the same optimum as the general solver's, from the pairs
that can be positive alone; and what is left to that solver.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from das.estimate.separable import WIDEST, SeparableFamily, solutions
from das.solve import LayeredGram, children_qp

TOLERANCE = 1e-6


def family(seed: int, children: int = 6, groups: int = 5) -> dict[str, Any]:
    """Groups of one to six variables, of which most children have few."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), rng.integers(1, 7, groups))
    true = (
        rng.poisson(2.0, (children, len(group))) * (rng.random((children, groups)) < 0.4)[:, group]
    )
    true[0] += 1
    known = np.stack([np.bincount(group, row, groups) for row in true]).astype(np.int64)
    order = rng.permutation(len(group))  # groups need not be next to each other
    weight = rng.uniform(0.01, 1.0, (1, children))
    answers = true + 8 * rng.normal(size=true.shape)
    return {
        "known": known,
        "group": group[order],
        "parent": true.sum(axis=0)[order].astype(np.int64),
        "index": [np.arange(len(group))],
        "weight": weight,
        "rhs": (weight.T * answers)[:, order],
    }


def test_it_is_the_optimum_of_the_general_solver() -> None:
    given = {n: family(n) for n in range(6)}
    found = solutions({n: SeparableFamily.if_separable(**f) for n, f in given.items()}, TOLERANCE)
    assert sorted(found) == list(given)
    for n, f in given.items():
        sums = f["known"].astype(float)
        other = children_qp(
            LayeredGram(f["index"], f["weight"]),
            f["rhs"],
            f["parent"].astype(float),
            groups=f["group"],
            lower=sums,
            upper=sums,
            support=f["known"][:, f["group"]] > 0,
            tol=1e-10,
        )
        np.testing.assert_allclose(found[n].x, other.x, atol=2e-4)
        assert found[n].gap <= TOLERANCE
        assert found[n].residual < 1e-8
        assert not found[n].x[f["known"][:, f["group"]] == 0].any()


def test_no_answer_depends_on_the_other_families() -> None:
    every = {n: SeparableFamily.if_separable(**family(n)) for n in range(4)}
    whole = solutions(every, TOLERANCE)
    for n, one in every.items():
        assert np.array_equal(solutions({n: one}, TOLERANCE)[n].x, whole[n].x)


@pytest.mark.parametrize(
    "change",
    [
        {"parent": None},  # a root
        {"index": [np.zeros(2, dtype=int)]},  # an answer of several variables
        {"weight": np.zeros((1, 6))},  # nothing is measured
        {"group": np.zeros(WIDEST + 1, dtype=int), "index": [np.arange(WIDEST + 1)]},
    ],
)
def test_anything_else_is_left_to_the_general_solver(change: dict[str, Any]) -> None:
    assert SeparableFamily.if_separable(**(family(1) | change)) is None
