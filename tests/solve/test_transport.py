"""Small transportation problems with squares: the optimum, its certificate, and that no answer
depends on the others.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from das.solve import LayeredGram, children_qp
from das.solve.transport import Transports, transported

Array = NDArray[np.float64]


def blocks(seed: int, m: int, number: int, scale: float = 3.0) -> Transports:
    """Blocks of up to six rows whose sums and totals are those of some integers; totals of no
    column are 0."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 7, number)
    starts = np.concatenate([[0], np.cumsum(size)[:-1]])
    true = rng.poisson(1.0, (int(size.sum()), m))
    true[starts] += 1
    return Transports(
        true + scale * rng.normal(size=true.shape),
        rng.uniform(0.01, 2.0, len(true)),
        true.sum(axis=1).astype(float),
        starts,
        np.add.reduceat(true, starts, axis=0).astype(float),
    )


@pytest.mark.parametrize(("m", "scale"), [(2, 1.0), (3, 10.0), (6, 3.0), (6, 40.0)])
def test_sums_hold_and_the_gap_is_closed(m: int, scale: float) -> None:
    of = blocks(m, m, 200, scale)
    x, gap, solved = transported(of)
    assert solved.all()
    assert (x >= 0).all()
    np.testing.assert_allclose(x.sum(axis=1), of.sums, atol=1e-9)
    np.testing.assert_allclose(of.over_rows(x), of.totals, atol=1e-7)
    assert gap.max() < 1e-6


def test_it_is_the_optimum_of_the_general_solver() -> None:
    of = blocks(5, 4, 20)
    x, _, _ = transported(of)
    for b in range(20):
        rows = of.block == b
        gram = LayeredGram([np.arange(4)], of.weight[None, rows])
        sums = of.sums[rows][:, None]
        found = children_qp(
            gram,
            of.weight[rows][:, None] * of.target[rows],
            of.totals[b],
            groups=np.zeros(4, dtype=int),
            lower=sums,
            upper=sums,
            support=np.broadcast_to(sums > 0, (rows.sum(), 4)),
            tol=1e-10,
        )
        np.testing.assert_allclose(x[rows], found.x, atol=1e-4)


def test_two_ages_two_children_by_hand() -> None:
    """Sums 3 and 1, the parent 2 and 2, answers (3, 0) and (0, 1): the first age of the first
    child is t, with the optimum 2.5 but for the bound 2."""
    x, gap, solved = transported(
        Transports(
            np.array([[3.0, 0.0], [0.0, 1.0]]),
            np.ones(2),
            np.array([3.0, 1.0]),
            np.array([0]),
            np.array([[2.0, 2.0]]),
        )
    )
    np.testing.assert_allclose(x, [[2, 1], [0, 1]], atol=1e-9)
    assert solved.all()
    assert gap.max() < 1e-8


def test_no_answer_depends_on_the_others() -> None:
    of = blocks(9, 5, 40)
    whole, _, _ = transported(of)
    for b in (0, 17, 39):
        one = np.arange(40) == b
        assert np.array_equal(transported(of.part(one))[0], whole[of.block == b])
