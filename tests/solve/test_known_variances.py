"""Variances that are known by hand. Where no count is held at 0, the solution is linear in what was
measured, so its variance follows from its differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from das.solve import LayeredGram, children_qp

Array = NDArray[np.float64]
CELLS = [np.arange(2)]


def variance(solved: Callable[[Array], float], at: Array, each: Array) -> float:
    """Of a linear function of independent numbers with the variances ``each``."""
    slopes = [solved(at + step) - solved(at - step) for step in np.eye(len(at))]
    return float((np.array(slopes) / 2) ** 2 @ each)


def in_sequence(m: Array) -> float:
    """The first of two cells, whose sum was published before."""
    total = np.array([[m[2]]])
    found = children_qp(
        LayeredGram(CELLS, np.ones((1, 1))),
        m[None, :2],
        None,
        groups=np.zeros(2, dtype=int),
        lower=total,
        upper=total,
        tol=1e-12,
    )
    return float(found.x[0, 0])


def jointly(v: float) -> Callable[[Array], float]:
    """The same, where the sum is one more measurement, with variance v."""

    def solved(m: Array) -> float:
        gram = LayeredGram([*CELLS, np.zeros(2, dtype=int)], np.array([[1.0], [1 / v]]))
        found = children_qp(gram, m[None, :2] + m[2] / v, None, tol=1e-12)
        return float(found.x[0, 0])

    return solved


@pytest.mark.parametrize("v", [2.0, 1e-3])
def test_two_cells_after_their_sum_and_with_it(v: float) -> None:
    """1/2 + v/4 in sequence, 1 - 1/(v + 2) jointly: 1 and 3/4 for v = 2, 1/2 for v = 0."""
    at, each = np.array([50.0, 40.0, 92.0]), np.array([1.0, 1.0, v])
    assert variance(in_sequence, at, each) == pytest.approx(1 / 2 + v / 4, abs=1e-4)
    assert variance(jointly(v), at, each) == pytest.approx(1 - 1 / (v + 2), abs=1e-4)


def test_a_child_of_four_alike() -> None:
    """Own variance 1, the parent's 1/2: 3/4 + 1/32."""

    def solved(m: Array) -> float:
        gram = LayeredGram([np.arange(1)], np.ones((1, 4)))
        return float(children_qp(gram, m[:4, None], m[4:], tol=1e-12).x[0, 0])

    at, each = np.array([50.0, 40.0, 30.0, 45.0, 163.0]), np.array([1, 1, 1, 1, 0.5])
    assert variance(solved, at, each) == pytest.approx(0.78125, abs=1e-4)
