"""The structured quadratic program against Clarabel, enumeration and what can be worked out by
hand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from das.errors import InfeasibleError
from das.model.solution import Solution, Status
from das.solve import Kinds, children_qp
from tests.solve.oracle_qp import Problem, clarabel_qp, enumerated_qp, random_problem

TOL = 1e-6
LIMIT = 20_000


def solve(p: Problem, **options: Any) -> Solution:
    return children_qp(
        p.gram,
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


def scale(p: Problem, x: np.ndarray) -> float:
    """What the gap is relative to: the objective, or how far it is above the free minimum, if that
    is less; but one person in a typical cell at least.
    """
    value = p.value(x)
    return max(1.0, p.typical, min(abs(value), value + p.misfit()))


def check(p: Problem, s: Solution, best: np.ndarray, oracle: float = 1e-7) -> None:
    """``s`` is feasible, as good as ``best``, and says truly how good it is. ``oracle``: how far
    off that may be.
    """
    assert s.x.shape == p.rhs.shape
    assert (s.x >= 0).all()
    if p.parent is not None:
        assert np.abs(s.x.sum(axis=0) - p.parent).max() <= 1e-9 * (1 + p.parent.max())
    if p.support is not None:
        assert (s.x[~p.support] == 0).all()
    assert s.residual == pytest.approx(p.row_violation(s.x), abs=1e-9)
    above, natural = p.above(s.x, best), scale(p, best)
    assert s.gap >= 0
    here = scale(p, s.x)
    assert s.gap * here * (1 + 1e-6) >= above - (oracle + 1e-9) * natural, (
        "the gap does not bound the distance"
    )
    assert s.gap >= above / max(1.0, abs(p.value(s.x))) - 1e-9 - oracle
    if s.status is Status.OPTIMAL:
        assert s.gap <= 10 * TOL
        assert above <= (10 * TOL + oracle) * natural
        assert s.residual <= 1e-3
        step = (
            s.x - best
        )  # strong convexity: the gap bounds the distance too, in standard deviations
        apart = 0.5 * np.einsum("ci,cij,cj->", step, p.grams, step)
        bent = (
            0
            if p.rows is None and p.parts is None
            else s.residual * np.abs(p.rhs - np.einsum("cij,cj->ci", p.grams, s.x)).sum()
        )
        assert apart <= (s.gap + 2 * oracle + 1e-9) * natural * 1.01 + bent + 1e-6
    if s.residual <= 1e-9:
        assert above >= -(oracle + 1e-9) * natural, (
            "better than the best: the oracle or the objective is wrong"
        )


KINDS = {
    "free": {},
    "partition": {"rows": "partition"},
    "overlap": {"rows": "overlap"},
    "singular": {"singular": True},
    "singular partition": {"singular": True, "rows": "partition"},
    "scaled": {"scaled": True},
    "scaled partition": {"scaled": True, "rows": "partition"},
    "support": {"support": True},
    "support partition": {"support": True, "rows": "partition"},
    "support overlap": {"support": True, "rows": "overlap"},
    "parts": {"parts": True},
    "parts partition": {"parts": True, "rows": "partition"},
    "parts singular": {"parts": True, "singular": True},
    "parts support overlap": {"parts": True, "support": True, "rows": "overlap"},
}


@pytest.mark.parametrize("parent", [True, False], ids=["parent", "root"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "each"])
@pytest.mark.parametrize("kind", KINDS)
def test_as_good_as_clarabel(kind: str, shared: bool, parent: bool) -> None:
    rng = np.random.default_rng([list(KINDS).index(kind), shared, parent])
    for _ in range(12):
        p = random_problem(rng, shared=shared, parent=parent, **KINDS[kind])  # type: ignore[arg-type]
        s = solve(p)
        assert s.status is Status.OPTIMAL
        assert s.iterations < LIMIT
        best = clarabel_qp(p)
        assert best is not None
        check(p, s, best, 1e-6)


@settings(max_examples=40)
@given(
    st.integers(0, 2**32),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, "partition", "overlap"]),
)
def test_joint_totals_are_met_as_well_as_clarabel_meets_them(
    seed: int, shared: bool, parent: bool, rows: str | None
) -> None:
    rng = np.random.default_rng(seed)
    p = random_problem(
        rng, shared=shared, parent=parent, rows=rows, support=bool(rng.random() < 0.3), parts=True
    )
    s = solve(p)
    best = clarabel_qp(p)
    assert best is not None
    assert s.status is Status.OPTIMAL
    check(p, s, best, 1e-6)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.sampled_from([None, "partition"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_as_good_as_every_choice_of_active_constraints(
    seed: int, rows: str | None, shared: bool, parent: bool, parts: bool
) -> None:
    rng = np.random.default_rng(seed)
    size = rng.choice([3.0, 40.0, 1000.0])
    p = random_problem(rng, 2, 2, size, shared=shared, parent=parent, rows=rows, parts=parts)
    best = enumerated_qp(p)
    assert best is not None
    s = solve(p)
    assert s.status is Status.OPTIMAL
    check(p, s, best[0], 1e-8)


@pytest.mark.parametrize("children, cells", [(20, 40), (3, 120), (60, 8)])
def test_medium_problems(children: int, cells: int) -> None:
    rng = np.random.default_rng(children)
    for rows in ("partition", "overlap"):
        p = random_problem(rng, children, cells, 20_000, rows=rows)
        s = solve(p)
        assert s.status is Status.OPTIMAL
        best = clarabel_qp(p)
        assert best is not None
        check(p, s, best, 1e-6)


@pytest.mark.parametrize("population", [1, 30, 1e3, 1e5, 1e7, 3e8])
def test_from_one_person_to_a_nation(population: float) -> None:
    """The certificate does not mind the size: P grows with its square, the misfit does not."""
    p = random_problem(np.random.default_rng(4), 6, 10, population, rows="partition")
    s = solve(p)
    assert s.status is Status.OPTIMAL
    best = clarabel_qp(p)
    assert best is not None
    check(p, s, best, 1e-5)
    assert np.abs(s.x - best).max() < 0.05


# --- the certificate
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["free", "partition", "singular", "support", "scaled", "parts", "parts partition"]
)
def test_the_gap_is_a_bound_wherever_the_iteration_is_stopped(kind: str) -> None:
    rng = np.random.default_rng(8)
    early = 0
    for _ in range(10):
        p = random_problem(rng, 4, 8, 500, shared=bool(rng.random() < 0.5), **KINDS[kind])  # type: ignore[arg-type]
        best = clarabel_qp(p)
        assert best is not None
        for limit in (1, 3, 10, 30, 100):
            s = solve(p, max_iterations=limit)
            assert s.iterations <= limit
            check(p, s, best, 1e-6)
            early += s.status is Status.INACCURATE
    assert early >= 10


def test_stopped_early_it_says_so() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        p = random_problem(rng, 5, 10, 50, rows="partition")
        if np.abs(solve(p).x - solve(p, max_iterations=1).x).max() > 0.1:
            assert solve(p, max_iterations=1).status is Status.INACCURATE


def test_a_large_population_buys_no_certificate() -> None:
    """One answer 8 standard deviations off is off by 32 in the objective, be the population a
    million or a thousand.
    """
    gaps = []
    for population in (1e3, 1e6):
        truth = np.full((2, 3), population)
        gram = np.eye(3) + 1
        rhs = (truth + np.array([[8.0, 0, 0], [0, 0, 0]])) @ gram
        p = Problem(
            gram,
            rhs,
            2 * truth[0],
            np.ones((1, 3)),
            np.full((2, 1), 3 * population),
            np.full((2, 1), 3 * population),
        )
        s = solve(p, max_iterations=2)
        gaps.append(s.gap)
        assert solve(p).status is Status.OPTIMAL
    assert gaps[1] > 0.5 * gaps[0]


def test_the_gap_asked_for_is_reached() -> None:
    p = random_problem(np.random.default_rng(6), 5, 12, 3000, rows="partition")
    for tol in (1e-3, 1e-6, 1e-9):
        s = solve(p, tol=tol)
        assert s.status is Status.OPTIMAL
        assert s.gap <= tol


# --- worked out by hand
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", [1.0, 1e6, 1e12])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_without_noise_are_the_solution_however_precise(
    kind: str, precision: float
) -> None:
    """Only ratios of weights matter. The truth fits all answers and meets all constraints, so the
    copies hardly move: their changes can be 0, and no unit of weight overflows for it."""
    rng = np.random.default_rng([list(KINDS).index(kind), 10])
    p = random_problem(rng, shared=True, parent=True, **KINDS[kind])  # type: ignore[arg-type]
    truth = rng.poisson(300, p.rhs.shape) * (rng.random(p.rhs.shape) < 0.5)
    truth = truth * (True if p.support is None else p.support)
    held = None if p.rows is None else truth @ p.rows.T
    p = replace(
        p,
        gram=p.gram * precision,
        rhs=precision * truth @ p.gram,
        parent=truth.sum(axis=0).astype(float),
        lower=None if held is None else np.floor(0.9 * held),
        upper=None if held is None else np.ceil(1.1 * held),
        totals=None if p.parts is None else p.members @ truth.sum(axis=1),
    )
    s = solve(p)
    assert s.status is Status.OPTIMAL
    assert s.iterations < LIMIT
    assert p.above(s.x, truth) <= 1e-6 * scale(p, truth)


def test_one_child_is_its_parent() -> None:
    p = random_problem(np.random.default_rng(0), 1, 9, 100)
    assert np.allclose(solve(p).x[0], p.parent, rtol=0, atol=1e-12)


def test_one_cell_is_a_projection_onto_a_simplex() -> None:
    """Measured 10, 4, -3 of a parent of 8: take 3 off the first two and clip the third."""
    x = solve(Problem(np.eye(1), np.array([[10.0], [4.0], [-3.0]]), np.array([8.0]))).x
    assert np.allclose(x[:, 0], [7, 1, 0], atol=1e-6)


def test_nobody() -> None:
    p = Problem(np.eye(3) + 1, np.array([[5.0, -2, 1], [0, 9, 3]]), np.zeros(3))
    s = solve(p)
    assert (s.x == 0).all()
    assert s.status is Status.OPTIMAL


def test_cells_that_the_parent_does_not_have_stay_empty() -> None:
    p = random_problem(np.random.default_rng(3), 4, 10, 12)
    assert p.parent is not None
    assert (p.parent == 0).any()
    assert (solve(p).x[:, p.parent == 0] == 0).all()


def test_facilities_hold_somebody_under_a_tiny_parent() -> None:
    """Three facilities, three persons, and measurements that want them all in the first."""
    rhs = np.array([[9.0, 50.0], [-4.0, 0.0], [-7.0, 0.0]])
    p = Problem(
        np.eye(2),
        rhs,
        np.array([3.0, 40.0]),
        np.eye(2),
        np.array([[1.0, 0]] * 3),
        np.full((3, 2), 99_999.0),
    )
    s = solve(p)
    assert s.status is Status.OPTIMAL
    assert np.allclose(s.x[:, 0], 1, atol=1e-4)
    assert np.allclose(s.x[:, 1], [40, 0, 0], atol=1e-4)


def test_known_totals_are_met() -> None:
    rng = np.random.default_rng(7)
    truth = rng.poisson(2.0, (6, 9)).astype(float)
    noisy = truth + rng.normal(0, 5, truth.shape)
    rows = np.concatenate([np.ones((1, 9)), np.eye(9)[:3]])
    lower = np.concatenate([truth.sum(axis=1)[:, None], np.zeros((6, 3))], axis=1)
    upper = np.concatenate([truth.sum(axis=1)[:, None], truth[:, :3] + 1], axis=1)
    p = Problem(np.eye(9) / 25, noisy / 25, truth.sum(axis=0), rows, lower, upper)
    s = solve(p)
    best = clarabel_qp(p)
    assert best is not None
    check(p, s, best, 1e-6)
    assert np.abs(s.x.sum(axis=1) - truth.sum(axis=1)).max() < 1e-3


def test_a_joint_total_by_hand() -> None:
    """Two halves of a state are measured 10 and 4 and hold 8 together, three too many each. A state
    alone is measured 5 and known to be 7. One about which nothing is known takes the rest of the
    parent."""
    p = Problem(
        np.eye(1),
        np.array([[10.0], [5.0], [4.0], [9.0]]),
        np.array([20.0]),
        parts=np.array([0, 1, 0, -1]),
        totals=np.array([8.0, 7.0]),
    )
    s = solve(p)
    assert s.status is Status.OPTIMAL
    assert np.allclose(s.x[:, 0], [7, 7, 1, 5], atol=1e-5)


def test_children_alone_in_their_parts_are_bounds_from_both_sides() -> None:
    p = random_problem(np.random.default_rng(5), 5, 7, 300, rows="partition")
    truth = clarabel_qp(p)
    assert truth is not None
    assert p.rows is not None
    assert p.lower is not None
    assert p.upper is not None
    total = truth.sum(axis=1)
    alone = Problem(p.gram, p.rhs, p.parent, p.rows, p.lower, p.upper, None, np.arange(5), total)
    rows, sides = np.concatenate([p.rows, np.ones((1, 7))]), total[:, None]
    bounded = Problem(
        p.gram, p.rhs, p.parent, rows, np.hstack([p.lower, sides]), np.hstack([p.upper, sides])
    )
    assert np.abs(solve(alone).x - solve(bounded).x).max() < 1e-2


def test_groups_given_by_number_or_as_a_matrix_are_one() -> None:
    p = random_problem(np.random.default_rng(2), 4, 7, 300, rows="partition")
    assert p.rows is not None
    number = p.rows.argmax(axis=0)
    by_number = children_qp(p.gram, p.rhs, p.parent, groups=number, lower=p.lower, upper=p.upper)
    assert np.array_equal(by_number.x, solve(p).x)


def test_a_shared_matrix_is_the_same_matrix_for_each() -> None:
    p = random_problem(np.random.default_rng(12), 5, 8, 400, rows="partition")
    each = Problem(p.grams.copy(), p.rhs, p.parent, p.rows, p.lower, p.upper)
    assert np.abs(solve(p).x - solve(each).x).max() < 1e-3


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from(sorted(KINDS)), st.booleans())
def test_children_of_a_few_kinds_are_as_if_each_had_its_own_matrix(
    seed: int, problem: str, parent: bool
) -> None:
    rng = np.random.default_rng(seed)
    p = random_problem(rng, 5, 4, shared=False, parent=parent, **KINDS[problem])  # type: ignore[arg-type]
    kind = np.unique(rng.integers(0, 3, 5), return_inverse=True)[1]
    matrices = p.gram[np.unique(kind, return_index=True)[1]]
    assume(np.linalg.cond(matrices).max() < 1e6)  # beyond, alternating directions take too long
    near = rng.normal(p.rhs.shape[1], 10, p.rhs.shape)
    each = replace(p, gram=matrices[kind], rhs=(matrices[kind] @ near[:, :, None])[:, :, 0])
    s, best = solve(replace(each, gram=Kinds(matrices, kind))), clarabel_qp(each)
    assert best is not None
    assert s.status is Status.OPTIMAL
    check(each, s, best, 1e-6)


def test_kinds_are_those_of_the_children() -> None:
    with pytest.raises(ValueError, match="each kind"):
        Kinds(np.zeros((2, 3, 3)), np.zeros(4, dtype=np.intp))


def test_a_child_that_was_not_measured_takes_what_the_others_leave() -> None:
    gram = np.stack([np.eye(2), np.zeros((2, 2)), np.eye(2)])
    p = Problem(gram, np.array([[5.0, 3.0], [0, 0], [1.0, 4.0]]), np.array([10.0, 9.0]))
    s = solve(p)
    assert s.status is Status.OPTIMAL
    assert np.allclose(s.x, [[5, 3], [4, 2], [1, 4]], atol=1e-3)


# --- refusals
# ----------------------------------------------------------------------------------------------------

FREE: dict[str, Any] = {
    "gram": np.eye(4),
    "rhs": np.ones((3, 4)),
    "parent": np.array([5.0, 0, 2, 1]),
}
GROUPS = np.array([0, 0, 1, 1])


@pytest.mark.parametrize(
    "lower, upper, message",
    [
        ([[0, 0], [2, 0], [0, 0]], [[9, 9], [1, 9], [9, 9]], r"child 1, group 0: .* 2, .* 1"),
        ([[2, 0], [2, 0], [2, 0]], None, r"group 0: the parent holds 5, .* 6 to"),
        (None, [[9, 1], [9, 1], [9, 0]], r"group 1: the parent holds 3, .* to 2"),
        ([[0, 0], [0, 4], [0, -9]], None, r"child 1, group 1: .* 4, .* 3"),
        (None, [[9, 9], [9, -1], [9, 9]], r"child 1, group 1: .* -1"),
    ],
    ids=["crossed", "too much", "too little", "one child", "below zero"],
)
def test_bounds_that_contradict_are_named(lower: Any, upper: Any, message: str) -> None:
    lower = None if lower is None else np.array(lower, dtype=float)
    upper = None if upper is None else np.array(upper, dtype=float)
    with pytest.raises(InfeasibleError, match=message):
        children_qp(**FREE, groups=GROUPS, lower=lower, upper=upper)


@pytest.mark.parametrize(
    "parts, totals, bounds, message",
    [
        ([0, 0, 1], [2, 5], {}, "totals of the parts sum to 7, the parent holds 8"),
        ([0, 0, -1], [9], {}, "part 0: its total is 9, .* 16|sum to 9, the parent holds 8"),
        ([0, 1, 0], [3, 5], {"lower": [[1, 0], [0, 0], [2, 1]]}, "part 0: its total is 3, .* 4 to"),
        ([0, 1, 0], [3, 5], {"upper": [[1, 0], [9, 9], [0, 1]]}, "part 0: its total is 3, .* to 2"),
    ],
    ids=["not the parent", "more than the parent", "too much", "too little"],
)
def test_joint_totals_that_contradict_are_named(
    parts: Any, totals: Any, bounds: Any, message: str
) -> None:
    bounds = {k: np.array(v, dtype=float) for k, v in bounds.items()}
    groups = {"groups": GROUPS} if bounds else {}
    with pytest.raises(InfeasibleError, match=message):
        children_qp(**FREE, **groups, **bounds, parts=np.array(parts), totals=np.array(totals))


@pytest.mark.parametrize(
    "parts, totals",
    [
        ([0, 0, 1], None),
        (None, [1]),
        ([0, 0], [8]),
        ([0, 0, 2], [1, 7]),
        ([0, 0, 0], [1, 7]),
        ([0.0, 0, 0], [8]),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts: Any, totals: Any) -> None:
    parts, totals = (None if v is None else np.array(v) for v in (parts, totals))
    with pytest.raises(ValueError, match="parts"):
        children_qp(**FREE, parts=parts, totals=totals)


def test_a_cell_that_nobody_may_hold_is_named() -> None:
    support = np.ones((3, 4), dtype=bool)
    support[:, :3:2] = False
    with pytest.raises(InfeasibleError, match="cell 0 of the parent is positive"):
        children_qp(**FREE, support=support)
    support[:, 0] = True
    with pytest.raises(InfeasibleError, match="cell 2"):
        children_qp(**FREE, support=support)


@pytest.mark.parametrize("parent", [FREE["parent"], None], ids=["parent", "root"])
def test_a_lower_bound_on_cells_outside_the_support_is_named(parent: Any) -> None:
    support = np.ones((3, 4), dtype=bool)
    support[2, 2:] = False
    lower = np.zeros((3, 2))
    lower[2, 1] = 1
    with pytest.raises(InfeasibleError, match="child 2, group 1"):
        children_qp(FREE["gram"], FREE["rhs"], parent, groups=GROUPS, lower=lower, support=support)


def test_a_negative_parent_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="cell 1 of the parent is negative"):
        children_qp(np.eye(2), np.ones((2, 2)), np.array([3.0, -1.0]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        children_qp(np.eye(2), np.array([[1.0, bad]]), np.ones(2))
    with pytest.raises(ValueError, match="finite"):
        children_qp(np.diag([1.0, bad]), np.ones((1, 2)), np.ones(2))


def test_bounds_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(3, 2\)"):
        children_qp(**FREE, groups=GROUPS, lower=np.zeros((2, 3)))


def test_rows_that_contradict_only_together_are_not_called_optimal() -> None:
    """Cells 0+1, 1+2 and 0+2 of the first child at most 1 each, but all three at least 2
    together.
    """
    rows = np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    lower = np.array([[0, 0, 0, 2.0], [0, 0, 0, 0]])
    upper = np.array([[1, 1, 1, 9.0], [9, 9, 9, 9]])
    p = Problem(np.eye(3), np.ones((2, 3)), np.array([2.0, 2, 2]), rows, lower, upper)
    assert clarabel_qp(p) is None
    s = solve(p, max_iterations=3000)
    assert s.status is Status.INACCURATE
    assert s.residual > 0.1
    assert s.residual == pytest.approx(p.row_violation(s.x))


def test_a_small_gap_does_not_excuse_a_broken_bound() -> None:
    """Where next to nothing is measured every gap is small; after one iteration the bounds do not
    hold yet.
    """
    rows = np.array([[1.0, 1, 0], [0, 1, 1]])
    lower = np.array([[3.0, 0], [0, 3]])
    p = Problem(
        1e-12 * np.eye(3),
        np.zeros((2, 3)),
        np.array([2.0, 2, 2]),
        rows,
        lower,
        np.full((2, 2), np.inf),
    )
    s = solve(p, max_iterations=1)
    assert s.gap < 1e-6
    assert s.residual > 0.1
    assert s.status is Status.INACCURATE
    assert solve(p).status is Status.OPTIMAL


def test_a_county_of_a_thousand_tracts_is_solved_as_far_as_numbers_go() -> None:
    """Their totals alone are measured, a bound on each type of group quarters besides: of five
    million people the gradients that rounding leaves would count for more than the tolerance."""
    r = np.random.default_rng(3)
    children, cells = 1_000, 8
    facilities = r.poisson(0.1, (children, cells - 1)) * r.poisson(1.5, (children, cells - 1))
    truth = np.hstack(
        [
            r.poisson(4_500.0, (children, 1)),
            facilities * r.poisson(20.0, facilities.shape) + facilities,
        ]
    )
    noisy = truth.sum(axis=1) + r.normal(0.0, 2.5, children)
    support = np.hstack([np.ones((children, 1), dtype=bool), facilities > 0])
    gram = np.full((cells, cells), 0.16)
    s = children_qp(
        gram,
        0.16 * np.repeat(noisy[:, None], cells, axis=1),
        truth.sum(axis=0).astype(float),
        groups=np.eye(cells)[1:],
        lower=facilities,
        upper=99_999 * facilities,
        support=support,
    )
    assert s.status is Status.OPTIMAL
    assert s.iterations < LIMIT / 2
    off = (
        truth.sum() - noisy.sum()
    ) / children  # least squares: what is missing is shared out evenly
    assert s.x.sum(axis=1) == pytest.approx(noisy + off, abs=1e-3)


def test_sums_of_many_cells_are_met_when_the_cells_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 150 cells is a thousandth off, and their sum a tenth: scaling meets it, instead of
    more iterations.
    """
    r = np.random.default_rng(1)
    children, cells, deviation = 300, 150, 10.0
    truth = r.poisson(0.1 * np.exp(r.normal(0, 2.0, (children, cells)))).astype(float)
    noisy, total = truth + r.normal(0, deviation, truth.shape), truth.sum(axis=1, keepdims=True)
    given = np.eye(cells) / deviation**2, noisy / deviation**2, truth.sum(axis=0)
    bounds = {"groups": np.ones((1, cells)), "lower": total - 0.1, "upper": total + 0.1}
    scaled = children_qp(*given, **bounds)
    monkeypatch.setattr("das.solve.children._SCALINGS", 0)
    plain = children_qp(*given, **bounds)
    assert scaled.status is plain.status is Status.OPTIMAL
    assert scaled.iterations <= plain.iterations / 2
    assert (scaled.x >= 0).all()
    assert scaled.x.sum(axis=0) == pytest.approx(given[2], abs=1e-9)
    apart = 0.5 * ((scaled.x - plain.x) ** 2).sum() / deviation**2
    assert apart <= 4 * (scaled.gap + plain.gap) * 0.5 * children * cells
