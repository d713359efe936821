"""Sums of partitions against the matrices that they stand for, and the quadratic program with
either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array

from das.estimate import least_squares
from das.model.solution import Status
from das.solve import Partitions, children_qp
from das.solve import partitions as module
from das.solve.problem import Curvature

RANDOM = np.random.default_rng(5)
CELLS = 40
INDEX = (
    np.arange(CELLS),
    RANDOM.integers(0, 3, CELLS),
    RANDOM.integers(0, 9, CELLS),
    np.zeros(CELLS, dtype=int),
)
WEIGHT = (0.2, 1.5, 0.4, 30.0)


def matrix() -> np.ndarray:
    return np.asarray(
        sum(w * (i[:, None] == i[None, :]) for i, w in zip(INDEX, WEIGHT, strict=True))
    )


@pytest.fixture(params=["dense", "sparse"])
def gram(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Partitions:
    """With either factorization of the small matrix."""
    if request.param == "sparse":
        monkeypatch.setattr(module, "_DENSE", 0)
    found = Partitions.from_indices(INDEX, WEIGHT, CELLS)
    assert found is not None
    return found


def test_they_are_the_matrix_and_solve_with_it(gram: Partitions) -> None:
    x = RANDOM.normal(size=(6, CELLS))
    np.testing.assert_allclose(gram.dense(), matrix())
    np.testing.assert_allclose(gram.times(x), x @ matrix(), atol=1e-10)
    np.testing.assert_allclose(
        gram.solve(x), np.linalg.solve(matrix(), x.T).T, rtol=1e-9, atol=1e-9
    )
    rows = (RANDOM.random((3, CELLS)) < 0.4).astype(float)
    np.testing.assert_allclose(
        gram.plus(2.0, csr_array(rows), 0.7).dense(),
        matrix() + 2 * np.eye(CELLS) + 0.7 * rows.T @ rows,
    )


def test_what_the_problem_needs_is_that_of_the_matrix(gram: Partitions) -> None:
    sparse, dense = module.PartitionsCurvature(gram), Curvature(matrix(), 4)
    rows = (RANDOM.random((70, CELLS)) < 0.4).astype(float)
    assert sparse.typical == pytest.approx(dense.typical)
    np.testing.assert_allclose(sparse.diagonal, dense.diagonal[0])
    np.testing.assert_allclose(sparse.variances(csr_array(rows)), dense.variances(rows))


@pytest.mark.parametrize("coupled", [True, False])
def test_the_program_has_the_same_answer(gram: Partitions, coupled: bool) -> None:
    true = RANDOM.poisson(0.5, (5, CELLS)).astype(float)
    rhs = (true + RANDOM.normal(0, 2, true.shape)) @ matrix()
    rows = (RANDOM.integers(0, 3, CELLS)[None, :] == np.arange(3)[:, None]).astype(float)
    bounds = {"groups": rows, "lower": true @ rows.T - 1, "upper": true @ rows.T + 1}
    parent = true.sum(axis=0) if coupled else None
    one, other = (children_qp(g, rhs, parent, **bounds, tol=1e-9) for g in (gram, matrix()))
    assert one.status is other.status is Status.OPTIMAL
    np.testing.assert_allclose(one.x, other.x, atol=1e-6)
    assert one.gap == pytest.approx(other.gap, abs=1e-9)


def test_an_iteration_makes_no_sparse_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """To multiply from the left, scipy transposes: that took over a quarter of the time of large
    schemas. Now transposes follow the factorings, which become rare, and not the iterations."""
    gram, calls = Partitions.from_indices(INDEX, WEIGHT, CELLS), 0
    assert gram is not None
    for kind in (csr_array, csc_array):

        def counted(self: Any, *args: Any, own: Any = kind.transpose, **kw: Any) -> Any:
            nonlocal calls
            calls += 1
            return own(self, *args, **kw)

        monkeypatch.setattr(kind, "transpose", counted)
    rhs = (RANDOM.poisson(0.5, (5, CELLS)) + RANDOM.normal(0, 2, (5, CELLS))) @ matrix()
    rows = (RANDOM.integers(0, 3, CELLS)[None, :] == np.arange(3)[:, None]).astype(float)
    upper = np.full((5, 3), 4.0)
    found = children_qp(gram, rhs, None, groups=rows, lower=0 * upper, upper=upper, tol=1e-9)
    assert found.iterations > 50
    assert 0 < calls < found.iterations


def test_without_a_query_that_tells_all_cells_apart_there_are_none() -> None:
    assert Partitions.from_indices(INDEX[1:], WEIGHT[1:], CELLS) is None
    assert Partitions.from_indices(INDEX, (0.0, *WEIGHT[1:]), CELLS) is None
    with pytest.raises(ValueError, match="positive"):
        Partitions(0.0, csr_array((0, CELLS)), np.zeros(0))


def test_normal_equations_of_many_cells_are_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = [
        (i, RANDOM.integers(0, 9, (2, i.max() + 1)), np.full(2, 1 / w))
        for i, w in zip(INDEX, WEIGHT, strict=True)
    ]
    small, rhs = least_squares.normal_equations(measured)
    monkeypatch.setattr(least_squares, "MANY", CELLS - 1)
    large, same = least_squares.normal_equations(measured)
    assert isinstance(large, Partitions)
    np.testing.assert_allclose(large.dense(), small)
    np.testing.assert_array_equal(rhs, same)
