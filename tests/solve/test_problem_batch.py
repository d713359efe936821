"""Problems that are solved together: whatever else is in the batch, and in whatever order, each has
the same answer to the last bit.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InfeasibleError
from das.model.solution import Solution, Status
from das.solve import ChildrenQP, Kinds, Partitions, children, children_qps
from tests.solve import oracle_qp
from tests.solve.oracle_qp import random_problem

LIMIT = 500
#: Parts are solved alone, as are partitions.
SORTS: tuple[dict[str, Any], ...] = (
    {},
    {"rows": "partition"},
    {"rows": "overlap", "support": True},
    {"singular": True, "rows": "partition"},
    {"singular": True, "support": True},
    {"scaled": True},
    {"parts": True, "rows": "partition"},
)


def given_to_us(p: oracle_qp.Problem) -> ChildrenQP:
    return ChildrenQP(
        p.gram, p.rhs, p.parent, p.rows, p.lower, p.upper, p.support, p.parts, p.totals
    )


def of_kinds(p: oracle_qp.Problem, rng: np.random.Generator) -> ChildrenQP:
    """The same with matrices of a few kinds, if there are as many."""
    kind = np.unique(rng.integers(0, 2, len(p.rhs)), return_inverse=True)[1]
    matrices = np.stack([p.gram * 1.7**k for k in range(kind.max() + 1)])
    return ChildrenQP(
        Kinds(matrices, kind),
        p.rhs,
        p.parent,
        p.rows,
        p.lower,
        p.upper,
        p.support,
        p.parts,
        p.totals,
    )


def problems(rng: np.random.Generator, many: int) -> list[ChildrenQP]:
    """Of all sorts and sizes, many of equal shape, most of them small."""
    out = []
    for _ in range(many):
        children, cells = [(3, 2), (5, 4), (12, 26), (7, 41), (2, 9), (1, 1), (4, 80)][
            rng.integers(7)
        ]
        sort = SORTS[rng.integers(len(SORTS))]
        p = random_problem(
            rng,
            children,
            cells,
            shared=bool(rng.random() < 0.8),
            parent=bool(rng.random() < 0.8),
            **sort,
        )
        out.append(of_kinds(p, rng) if p.gram.ndim == 2 and rng.random() < 0.4 else given_to_us(p))
    return out


def assert_same(a: Solution, b: Solution) -> None:
    assert a.x.tobytes() == b.x.tobytes()
    assert (a.status, a.gap, a.residual, a.iterations) == (
        b.status,
        b.gap,
        b.residual,
        b.iterations,
    )


def alone(p: ChildrenQP) -> Solution:
    return children_qps([p], max_iterations=LIMIT)[0]


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_company_makes_no_difference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    every = problems(rng, 20)
    single = [alone(p) for p in every]
    for _ in range(3):
        some = rng.permutation(20)[: rng.integers(2, 21)]
        together = children_qps([every[i] for i in some], max_iterations=LIMIT)
        assert len(together) == len(some)
        for i, s in zip(some, together, strict=True):
            assert_same(s, single[i])


@pytest.mark.parametrize("together, leave", [(100, 1.0), (1 << 14, 0.0), (1 << 20, 1.0)])
def test_nor_do_the_sizes_of_stacks_and_when_problems_leave_them(
    together: int, leave: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = problems(np.random.default_rng(together), 60)
    single = [alone(p) for p in every]
    assert len({s.iterations for s in single}) > 3, "they end at different times"
    monkeypatch.setattr(children, "_TOGETHER", together)
    monkeypatch.setattr(children, "_LEAVE", leave)
    for s, t in zip(single, children_qps(every, max_iterations=LIMIT), strict=True):
        assert_same(s, t)


def test_as_many_as_one_likes_of_one_shape() -> None:
    rng = np.random.default_rng(1)
    every = [given_to_us(random_problem(rng, 12, 26, rows="partition")) for _ in range(9)]
    for n in range(1, 10):
        for s, p in zip(children_qps(every[:n]), every, strict=False):
            assert_same(s, children_qps([p])[0])


def test_the_small_are_not_measured_by_the_large() -> None:
    """What rounding makes of zero is told by a problem's own size."""
    rng = np.random.default_rng(6)
    giant = given_to_us(random_problem(rng, 5, 6, 1e12, singular=True))
    for _ in range(20):
        small = given_to_us(random_problem(rng, 3, 5, 20, singular=True))
        assert_same(children_qps([small, giant], max_iterations=LIMIT)[0], alone(small))


def test_one_that_does_not_converge_says_so_and_holds_up_no_other() -> None:
    rows = np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    lower, upper = (
        np.array([[0, 0, 0, 2.0], [0, 0, 0, 0]]),
        np.array([[1, 1, 1, 9.0], [9, 9, 9, 9]]),
    )
    torn = ChildrenQP(np.eye(3), np.ones((2, 3)), np.array([2.0, 2, 2]), rows, lower, upper)
    rng = np.random.default_rng(2)
    others = [given_to_us(random_problem(rng, 2, 3, rows="overlap")) for _ in range(8)]
    out = children_qps([*others[:4], torn, *others[4:]], max_iterations=3000)
    assert out[4].status is Status.INACCURATE
    assert out[4].iterations == 3000
    for s, p in zip(out[:4] + out[5:], others, strict=True):
        assert s.status is Status.OPTIMAL
        assert_same(s, children_qps([p])[0])


def test_one_that_contradicts_itself_is_named_as_it_is_alone() -> None:
    good = ChildrenQP(np.eye(2), np.ones((2, 2)), np.array([3.0, 1.0]))
    bad = ChildrenQP(
        np.eye(2), np.ones((2, 2)), np.array([3.0, 1.0]), np.ones((1, 2)), np.array([[3.0], [2.0]])
    )
    with pytest.raises(InfeasibleError) as by_itself:
        children_qps([bad])
    with pytest.raises(InfeasibleError, match=re.escape(str(by_itself.value))):
        children_qps([good, bad, good])


def test_one_without_a_number_harms_no_other_either() -> None:
    good = ChildrenQP(np.eye(2), np.ones((2, 2)), np.array([3.0, 1.0]))
    with pytest.raises(ValueError, match="finite"):
        children_qps([good, ChildrenQP(np.eye(2), np.full((2, 2), np.nan), np.ones(2)), good])
    huge = ChildrenQP(np.eye(2), np.full((2, 2), 1e300), np.array([1e300, 1.0]))
    with np.errstate(all="ignore"):
        assert_same(children_qps([good, huge, good], max_iterations=30)[0], children_qps([good])[0])


def test_partitions_are_in_company_too() -> None:
    rng = np.random.default_rng(3)
    index = (np.arange(30), rng.integers(0, 4, 30))
    gram = Partitions.from_indices(index, (0.5, 2.0), 30)
    assert gram is not None
    p = ChildrenQP(gram, rng.normal(2, 3, (4, 30)), np.full(30, 5.0))
    other = given_to_us(random_problem(rng, 4, 6))
    assert_same(children_qps([other, p, other])[1], children_qps([p])[0])


def test_no_problems_have_no_solutions() -> None:
    assert children_qps([]) == []
