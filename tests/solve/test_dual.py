"""Layered matrices by their multipliers, against the same problems with dense matrices, Clarabel
and enumeration.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from das.errors import InfeasibleError
from das.model.solution import Solution, Status
from das.solve import ChildrenQP, LayeredGram, children_qp, children_qps, dual_problem
from das.solve.certificate import ExactSums
from das.solve.dual import Gap
from das.solve.dual_problem import DualProblem
from das.solve.smoothing import PositivePart
from tests.solve.oracle_qp import Problem, clarabel_qp, enumerated_qp, partition
from tests.solve.test_children import check

Array = NDArray[np.float64]


def layered(
    rng: np.random.Generator,
    children: int | None = None,
    cells: int | None = None,
    people: float | None = None,
    *,
    parent: bool = True,
    shared: bool = True,
    rows: str | None = None,
    support: bool = False,
    parts: bool = False,
    asked: bool = True,
    scaled: bool = False,
) -> tuple[LayeredGram, Problem]:
    """Noisy answers of random partitions, one of them of all cells, to a random truth that meets
    all constraints. Where not ``asked``, some children were not asked some query (but the one of
    all cells)."""
    children, cells = children or int(rng.integers(1, 7)), cells or int(rng.integers(1, 13))
    share = rng.dirichlet(np.full(children * cells, 0.3))
    truth = (
        rng.multinomial(int(people or 10 ** rng.uniform(0, 4)), share)
        .reshape(children, cells)
        .astype(float)
    )
    index = [
        np.zeros(cells, dtype=np.intp),
        *(partition(rng, cells) for _ in range(rng.integers(1, 4))),
    ]
    index.append(np.arange(cells))
    weight = 10 ** rng.uniform(*((-3, 1) if scaled else (-2, 0.5)), (len(index), 1)) * np.ones(
        children
    )
    if not shared:
        weight *= 10 ** rng.uniform(-0.5, 0.5, weight.shape)
    if not asked:
        weight[: len(index) - 1] *= rng.random((len(index) - 1, children)) < 0.6
    rhs = np.zeros((children, cells))
    for q, w in zip(index, weight, strict=True):
        answers = np.stack([np.bincount(q, t) for t in truth])
        noise = rng.normal(0, 1, answers.shape) / np.sqrt(np.where(w > 0, w, 1))[:, None]
        rhs += w[:, None] * (answers + np.rint(noise))[:, q]
    matrix = lower = upper = part = totals = None
    if rows is not None:
        group = partition(rng, cells)
        matrix = (group[None, :] == np.arange(group.max() + 1)[:, None]).astype(float)
        if rows == "overlap":
            matrix = np.concatenate(
                [np.ones((1, cells)), rng.random((int(rng.integers(1, 6)), cells)) < 0.5]
            )
        held = truth @ matrix.T
        lower, upper = held.copy(), held.copy()
        if rows != "exact":
            lower = np.floor(held * rng.choice([0, 0.5, 0.9, 1], held.shape))
            upper = np.where(
                rng.random(held.shape) < 0.2,
                np.inf,
                np.ceil(held * rng.choice([1, 1.1, 2], held.shape)),
            )
    if parts:
        if lower is not None and upper is not None:
            lower, upper = lower - 0.5, upper + 0.5
        part = np.unique(rng.integers(-1, children, children), return_inverse=True)[1] - int(
            rng.random() < 0.7
        )
        totals = np.bincount(
            part[part >= 0], truth.sum(axis=1)[part >= 0], minlength=part.max() + 1
        )
    able = (truth > 0) | (rng.random(truth.shape) < 0.5) if support else None
    gram = LayeredGram(index, weight)
    return gram, Problem(
        gram.dense(),
        rhs,
        truth.sum(axis=0) if parent else None,
        matrix,
        lower,
        upper,
        able,
        part,
        totals,
    )


def solve(gram: Any, p: Problem, **options: Any) -> Solution:
    return children_qp(
        gram,
        p.rhs,
        p.parent,
        groups=p.rows,
        lower=p.lower,
        upper=p.upper,
        support=p.support,
        parts=p.parts,
        totals=p.totals,
        **options,
    )


KINDS: dict[str, dict[str, Any]] = {
    "free": {},
    "exact": {"rows": "exact"},
    "partition": {"rows": "partition"},
    "support exact": {"support": True, "rows": "exact"},
    "scaled": {"scaled": True, "rows": "exact"},
    "not asked": {"asked": False, "rows": "exact", "shared": False},
    "parts": {"parts": True},
    "parts partition": {"parts": True, "rows": "partition"},
}


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("parts partition", 1133),
        ("parts partition", 1330),
        ("parts partition", 374),
        ("partition", 1178),
    ],
)
def test_narrow_bounds_are_met(kind: str, seed: int) -> None:
    """Every sum of a partition between bounds that leave a person or less, and the total exact:
    steps of the multipliers alone went round in circles here."""
    gram, p = layered(
        np.random.default_rng([seed, 77]),
        **({"shared": seed % 3 == 0, "parent": seed % 2 == 0} | KINDS[kind]),
    )
    s, best = solve(gram, p), clarabel_qp(p)
    assert best is not None
    assert s.status is Status.OPTIMAL, (s.gap, s.residual)
    check(p, s, best, 1e-6)


@pytest.mark.parametrize("parent", [True, False], ids=["parent", "root"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "each"])
@pytest.mark.parametrize("kind", KINDS)
def test_as_good_as_clarabel(kind: str, shared: bool, parent: bool) -> None:
    rng = np.random.default_rng([list(KINDS).index(kind), shared, parent])
    for _ in range(4):
        gram, p = layered(rng, **({"shared": shared, "parent": parent} | KINDS[kind]))
        s, best = solve(gram, p), clarabel_qp(p)
        assert best is not None
        assert s.status is Status.OPTIMAL, (s.gap, s.residual)
        check(p, s, best, 1e-6)


@pytest.mark.parametrize("support", [True, False])
def test_rows_that_overlap_are_solved_or_said_not_to_be(support: bool) -> None:
    """Bounds on sums of overlapping cells may end in a cycle: then the status says so, and the gap
    is a bound all the same.
    """
    rng = np.random.default_rng(support)
    optimal = 0
    for _ in range(24):
        gram, p = layered(rng, rows="overlap", support=support)
        s, best = solve(gram, p, max_iterations=2000), clarabel_qp(p)
        assert best is not None
        check(p, s, best, 1e-6)
        optimal += s.status is Status.OPTIMAL
    assert optimal >= 20


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([None, "exact", "partition"]),
    st.booleans(),
    st.booleans(),
)
def test_the_dense_matrices_have_the_same_answer(
    seed: int, rows: str | None, shared: bool, support: bool
) -> None:
    gram, p = layered(np.random.default_rng(seed), rows=rows, shared=shared, support=support)
    s, dense = solve(gram, p), solve(p.gram, p)
    assert s.status is dense.status is Status.OPTIMAL
    scale = max(1.0, min(abs(p.value(dense.x)), p.value(dense.x) + p.misfit()))
    bent = (
        0.0 if rows is None else 1e-3 * np.abs(p.rhs - np.einsum("cij,cj->ci", p.grams, s.x)).sum()
    )
    assert abs(p.above(s.x, dense.x)) <= 2e-6 * scale + bent


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([None, "partition"]), st.booleans())
def test_as_good_as_every_choice_of_active_constraints(
    seed: int, rows: str | None, parts: bool
) -> None:
    gram, p = layered(np.random.default_rng(seed), 2, 2, 40, rows=rows, parts=parts)
    best = enumerated_qp(p)
    assert best is not None
    s = solve(gram, p)
    assert s.status is Status.OPTIMAL
    check(p, s, best[0])


def test_the_gap_is_a_bound_wherever_the_iteration_is_stopped() -> None:
    rng = np.random.default_rng(8)
    early = 0
    for _ in range(4):
        gram, p = layered(rng, 4, 8, 500)
        best = clarabel_qp(p)
        assert best is not None
        for limit in (1, 10, 30):
            s = solve(gram, p, max_iterations=limit)
            check(p, s, best, 1e-6)
            early += s.status is Status.INACCURATE
    assert early >= 8


def test_the_certificate_is_what_the_multipliers_say_densely() -> None:
    """P(x) + F(y), from matrices written out and the objective with its digits lost, against the
    sum of small terms.
    """
    rng = np.random.default_rng(4)
    gram, p = layered(rng, 3, 9, 60, rows="exact", shared=False)
    problem = DualProblem(ChildrenQP(gram, p.rhs, p.parent, p.rows, p.lower, p.upper))
    rows, measured = problem.rows, problem.measured
    y = np.where(problem.free, rng.normal(0, 1, rows.size), 0.0)
    x = solve(gram, p).x.T.astype(float)
    s = problem.rhs + problem.rows.rows.toarray().T @ rows.of_rows(y) + rows.of_cells(y)[:, None]
    d = np.broadcast_to(problem.curvature, s.shape)
    free = np.where(problem.able, np.maximum(s, 0) / d, 0.0)
    dual = 0.5 * (d * free**2).sum() + 0.5 * (problem.inverse * y**2).sum() - problem.held @ y
    gap, residual = Gap(problem).at(x, y)
    above = p.value(x.T) + dual
    slack = residual * np.abs(rows.of_rows(y)[measured:]).sum()
    natural = max(1.0, min(abs(p.value(x.T)), p.value(x.T) + p.misfit()))
    assert above > 0.1
    assert gap * natural == pytest.approx(above, rel=1e-6, abs=slack + 1e-9)


def test_medium_queries_leave_the_gap_no_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no room for coarse ones, what the gap is relative to is bounded from below."""
    gram, p = layered(np.random.default_rng(2), 4, 10, 200, rows="exact")
    exact = solve(gram, p)
    monkeypatch.setattr(dual_problem, "_CORE", 0)
    other = solve(gram, p)
    assert exact.status is other.status is Status.OPTIMAL
    best = clarabel_qp(p)
    assert best is not None
    check(p, other, best, 1e-6)


# --- worked out by hand
# ------------------------------------------------------------------------------------------


def test_one_cell_is_a_projection_onto_a_simplex() -> None:
    gram = LayeredGram([np.zeros(1, dtype=np.intp)], np.ones((1, 3)))
    x = children_qp(gram, np.array([[10.0], [4.0], [-3.0]]), np.array([8.0])).x
    assert np.allclose(x[:, 0], [7, 1, 0], atol=2e-3)


def test_one_child_is_its_parent() -> None:
    gram, p = layered(np.random.default_rng(0), 1, 9, 100)
    assert np.allclose(solve(gram, p).x[0], p.parent, rtol=0, atol=1e-9)


def test_nobody_and_cells_that_the_parent_does_not_have() -> None:
    gram, p = layered(np.random.default_rng(3), 4, 10, 12)
    assert p.parent is not None
    assert (p.parent == 0).any()
    assert (solve(gram, p).x[:, p.parent == 0] == 0).all()
    s = children_qp(gram, p.rhs, np.zeros(10))
    assert s.status is Status.OPTIMAL
    assert (s.x == 0).all()


def test_a_sum_of_zero_empties_its_cells() -> None:
    gram, p = layered(np.random.default_rng(6), 5, 12, 30, rows="exact")
    assert p.rows is not None
    assert p.upper is not None
    s = solve(gram, p)
    empty = ((p.upper == 0) @ p.rows) > 0
    assert empty.any()
    assert (s.x[empty] == 0).all()


def test_groups_given_by_number_are_the_rows() -> None:
    gram, p = layered(np.random.default_rng(2), 4, 7, 300, rows="exact")
    assert p.rows is not None
    by_number = children_qp(
        gram, p.rhs, p.parent, groups=p.rows.argmax(axis=0), lower=p.lower, upper=p.upper
    )
    assert np.array_equal(by_number.x, solve(gram, p).x)


def test_in_company_each_has_its_own_answer() -> None:
    rng = np.random.default_rng(5)
    large, p = layered(rng, 4, 7)
    given = ChildrenQP(large, p.rhs, p.parent, p.rows, p.lower, p.upper)
    dense = ChildrenQP(p.gram, p.rhs, p.parent, p.rows, p.lower, p.upper)
    a, b, c = children_qps([dense, given, dense])
    assert a.x.tobytes() == c.x.tobytes() == children_qps([dense])[0].x.tobytes()
    assert b.x.tobytes() == solve(large, p).x.tobytes()


# --- refusals
# ----------------------------------------------------------------------------------------------------

INDEX = [np.array([0, 0, 1, 1]), np.arange(4)]
GIVEN: dict[str, Any] = {
    "gram": LayeredGram(INDEX, np.ones((2, 3))),
    "rhs": np.ones((3, 4)),
    "parent": np.array([5.0, 0, 2, 1]),
}


@pytest.mark.parametrize(
    "lower, upper, message",
    [
        ([[0, 0], [2, 0], [0, 0]], [[9, 9], [1, 9], [9, 9]], r"child 1, group 0: .* 2, .* 1"),
        ([[2, 0], [2, 0], [2, 0]], None, r"group 0: the parent holds 5, .* 6 to"),
        (None, [[9, 1], [9, 1], [9, 0]], r"group 1: the parent holds 3, .* to 2"),
        ([[0, 0], [0, 4], [0, -9]], None, r"child 1, group 1: .* 4, .* 3"),
    ],
    ids=["crossed", "too much", "too little", "one child"],
)
def test_bounds_that_contradict_are_named(lower: Any, upper: Any, message: str) -> None:
    bounds = {
        k: None if b is None else np.array(b, dtype=float)
        for k, b in (("lower", lower), ("upper", upper))
    }
    with pytest.raises(InfeasibleError, match=message):
        children_qp(**GIVEN, groups=np.array([0, 0, 1, 1]), **bounds)


def test_a_variable_that_nothing_measures_by_itself_is_refused() -> None:
    weight = np.ones((2, 3))
    weight[1, 2] = 0
    with pytest.raises(ValueError, match=r"child 2, cell 0: .* tells it apart"):
        children_qp(**GIVEN | {"gram": LayeredGram(INDEX, weight)})


@pytest.mark.parametrize(
    "weight", [np.full((2, 3), np.nan), -np.ones((2, 3)), np.ones((1, 3)), np.ones(2)]
)
def test_weights_that_do_not_fit_are_refused(weight: Array) -> None:
    with pytest.raises(ValueError, match=r"finite|weights"):
        LayeredGram(INDEX, weight)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="3 children and 4 cells"):
        children_qp(GIVEN["gram"], np.ones((2, 4)), GIVEN["parent"])
    with pytest.raises(ValueError, match="finite"):
        children_qp(GIVEN["gram"], np.full((3, 4), np.inf), GIVEN["parent"])
    with pytest.raises(ValueError, match="index"):
        LayeredGram([np.arange(4), np.arange(3)], np.ones((2, 3)))


def test_sums_that_contradict_only_together_are_not_called_optimal() -> None:
    """Of the first child cells 0+1, 1+2 and 0+2 hold at most 1 each, but all three at least 2."""
    rows = np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    lower = np.array([[0, 0, 0, 2.0], [0, 0, 0, 0]])
    upper = np.array([[1, 1, 1, 9.0], [9, 9, 9, 9]])
    gram = LayeredGram([np.arange(3)], np.ones((1, 2)))
    s = children_qp(
        gram,
        np.ones((2, 3)),
        np.array([2.0, 2, 2]),
        groups=rows,
        lower=lower,
        upper=upper,
        max_iterations=500,
    )
    assert s.status is Status.INACCURATE
    assert s.residual > 0.1


@pytest.mark.parametrize("seed", range(12))
def test_where_it_begins_does_not_change_the_solution(seed: int) -> None:
    """Answers that are given are near, or anything."""
    rng = np.random.default_rng(seed)
    gram, p = layered(rng, rows="exact", people=400)
    expected = solve(gram, p, tol=1e-9)
    for size in (1.0, 1e3):
        answers = [rng.normal(0, size, (len(p.rhs), i.max() + 1)) for i in gram.index]
        found = solve(LayeredGram(gram.index, gram.weight, answers), p, tol=1e-9)
        assert found.status is Status.OPTIMAL
        np.testing.assert_allclose(found.x, expected.x, atol=2e-2)
    with pytest.raises(ValueError, match="answers must be those of every query"):
        LayeredGram(gram.index, gram.weight, answers[:1])


@pytest.mark.parametrize("smoothing", [0.0, 0.5, 3.0])
def test_exact_sums_hold_after_their_shift(smoothing: float) -> None:
    """Those that are exact; the others, and groups without a variable, stay."""
    rng = np.random.default_rng(1)
    rows = csr_array((np.arange(4)[:, None] == partition(rng, 12)[None, :] % 3).astype(float))
    total = rng.integers(1, 9, (4, 5)).astype(float)
    exact = rng.random((4, 5)) < 0.8
    sums = ExactSums.from_groups(rows, total, exact)
    assert sums is not None
    s = rng.normal(0, 4, (12, 5))
    s[rows[[0]].toarray()[0] > 0, 0] = -np.inf  # a child that can have nobody there
    answer = PositivePart(np.full((12, 1), 0.3), np.ones((12, 1)), smoothing)
    shift = sums.level(answer, s)
    found = rows @ answer.at(s + rows.T @ shift)
    there = exact & (rows @ np.isfinite(s) > 0)
    np.testing.assert_allclose(found[there], total[there], rtol=1e-7)
    assert there.any()
    assert not shift[~there].any()
    assert ExactSums.from_groups(csr_array(np.ones((2, 12))), total[:2], exact[:2]) is None
