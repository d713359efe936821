"""Controlled rounding against every combination of floors and ceilings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.errors import InfeasibleError
from das.model.solution import Solution, Status
from das.solve import round_children
from das.solve.network import Drains, Link, RoundingProblem, round_families
from das.solve.partitions import Parts
from tests.oracles import can_be_shared_out

SCALE = 4096  # costs are integers in this part of a person


@dataclass
class Case:
    x: NDArray[np.float64]
    parent: NDArray[np.int64] | None
    chain: list[Link]
    total: int | None = None
    drains: Drains | None = None
    cell_weight: float = 1.0
    integer_targets: bool = False
    parts: NDArray[np.intp] | None = None
    totals: NDArray[np.int64] | None = None
    children: int = field(init=False)
    cells: int = field(init=False)

    def __post_init__(self) -> None:
        self.children, self.cells = self.x.shape

    @property
    def given(self) -> dict[str, Any]:
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("children", "cells")
        }

    def solve(self) -> Solution:
        return round_children(**self.given)

    def objective(self, n: NDArray[np.int64]) -> float:
        """Of a floor-or-ceiling n: in terms of b = n - floor(x) and f = x - floor(x)."""
        aim = np.rint if self.integer_targets else np.asarray
        b, f = n - np.floor(self.x), self.x - np.floor(self.x)
        out = self.cell_weight * np.abs(b - aim(f)).sum()
        for link in self.chain:
            out += link.weight * np.abs(sums(b, link) - aim(sums(f, link))).sum()
        return float(out)

    def feasible(self, n: NDArray[np.int64]) -> bool:
        if (n < 0).any() or (self.parent is not None and (n.sum(axis=0) != self.parent).any()):
            return False
        if self.total is not None and n.sum() != self.total:
            return False
        for link in self.chain:
            held = sums(n, link)
            if link.lower is not None and (held < link.lower).any():
                return False
            if link.upper is not None and (held > link.upper).any():
                return False
        if any(
            n[self.parts == s].sum() != t
            for s, t in enumerate([] if self.totals is None else self.totals)
        ):
            return False
        return self.drains is None or self.shared_out(n)

    def shared_out(self, n: NDArray[np.int64]) -> bool:
        d, held = self.drains, sums(n, self.chain[-1])
        return all(
            can_be_shared_out(
                held[c], d.lower[d.child == c], d.upper[d.child == c], d.total[d.child == c]
            )
            for c in range(self.children)
        )

    def floors_and_ceilings(self) -> Iterator[NDArray[np.int64]]:
        low = np.floor(self.x)
        free = np.argwhere(self.x > low)
        for up in product((0, 1), repeat=len(free)):
            n = low.astype(np.int64)
            n[tuple(free.T)] += np.array(up, dtype=np.int64)
            yield n


def sums(values: NDArray, link: Link) -> NDArray:  # type: ignore[type-arg]
    groups = link.upper.shape[1] if link.upper is not None else int(link.group.max()) + 1
    return np.stack([values[:, link.group == g].sum(axis=1) for g in range(groups)], axis=1)


def random_case(
    rng: np.random.Generator, *, drains: bool = False, squeeze: bool = False, parts: bool = False
) -> Case:
    """Fractions with whole column sums, a random chain, and bounds. The bounds are around an
    integer solution that need not be a rounding of x (``squeeze``), or around a rounding of it. The
    totals of some children together are made in the same way."""
    children, cells = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    x = rng.integers(0, 4, (children, cells)) + np.where(
        rng.random((children, cells)) < 0.8, rng.random((children, cells)), 0
    )
    x[-1] += np.ceil(x.sum(axis=0)) - x.sum(axis=0)
    x = np.round(x * 64) / 64  # exact sums
    parent: NDArray[np.int64] | None = np.rint(x.sum(axis=0)).astype(np.int64)
    total = None
    if rng.random() < 0.2:
        total, parent = int(x.sum() + rng.random()), None
    chain: list[Link] = []
    group = np.arange(cells)
    for _ in range(rng.integers(1, 4)):
        merge = rng.integers(0, group.max() + 1, group.max() + 1)
        group = np.unique(merge[group], return_inverse=True)[1]
        chain.append(Link(group, weight=float(rng.choice([0.5, 1.0, 3.0, 64.0]))))
    case = Case(
        x, parent, chain, total, None, float(rng.choice([1.0, 1.0, 2.0])), bool(rng.random() < 0.3)
    )
    near = x + (rng.normal(0, 1.5, x.shape) if squeeze else 0)
    witness = np.maximum(np.floor(near), 0) + (
        (near > np.floor(near)) & (rng.random(x.shape) < 0.5)
    )
    for j, link in enumerate(chain):
        if rng.random() < 0.7:
            held = sums(witness, link).astype(np.int64)
            lower, upper = (
                held - rng.integers(0, 3, held.shape),
                held + rng.integers(0, 3, held.shape),
            )
            chain[j] = Link(link.group, np.maximum(lower, 0), upper, link.weight)
    if parts:
        case.parts = np.unique(rng.integers(-1, children, children), return_inverse=True)[1] - int(
            rng.random() < 0.5
        )
        case.totals = np.array(
            [witness[case.parts == s].sum() for s in range(case.parts.max() + 1)], dtype=np.int64
        )
    if drains:
        case.drains = random_drains(rng, sums(witness, chain[-1]).astype(np.int64))
    return case


def random_drains(rng: np.random.Generator, held: NDArray[np.int64]) -> Drains:
    """Descendants that could share out ``held``, each with a total and loose bounds."""
    children, groups = held.shape
    each = int(rng.integers(1, 4))
    parts = np.stack(
        [
            [rng.multinomial(held[c, g], np.full(each, 1 / each)) for g in range(groups)]
            for c in range(children)
        ]
    )
    parts = parts.transpose(0, 2, 1).reshape(children * each, groups)
    lower = np.maximum(parts - rng.integers(0, 3, parts.shape), 0)
    return Drains(
        np.repeat(np.arange(children), each),
        lower,
        parts + rng.integers(0, 3, parts.shape),
        parts.sum(axis=1),
    )


def check(case: Case) -> str:
    """Against brute force; what came of it."""
    candidates = [n for n in case.floors_and_ceilings() if case.feasible(n)]
    try:
        s = case.solve()
    except InfeasibleError:
        assert not candidates
        return "infeasible"
    n = s.x
    assert n.dtype == np.int64
    assert case.feasible(n), "a constraint is broken"
    assert s.residual == pytest.approx(np.abs(n - case.x).max())
    if s.status is Status.WIDENED:
        assert not candidates, "a rounding meets the bounds, but was not found"
        return "widened"
    assert s.status is Status.OPTIMAL
    assert (n >= np.floor(case.x)).all()
    assert (n <= np.ceil(case.x)).all()
    best = min(case.objective(m) for m in candidates)
    arcs = case.x.size * (1 + 2 * len(case.chain))
    assert case.objective(n) <= best + arcs / SCALE
    return "rounded"


@pytest.mark.parametrize(
    "drains, squeeze, parts, wanted",
    [
        (False, False, False, {"rounded"}),
        (False, True, False, {"rounded", "widened", "infeasible"}),
        (True, True, False, {"rounded", "widened"}),
        (False, False, True, {"rounded"}),
        (False, True, True, {"rounded", "widened", "infeasible"}),
    ],
)
def test_the_best_of_all_floors_and_ceilings(
    drains: bool, squeeze: bool, parts: bool, wanted: set[str]
) -> None:
    rng = np.random.default_rng(5)
    cases = [
        random_case(rng, drains=drains, squeeze=squeeze, parts=parts)
        for _ in range(100 if drains or parts else 250)
    ]
    assert wanted <= {check(case) for case in cases}


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.booleans())
def test_the_best_of_all_floors_and_ceilings_anywhere(seed: int, parts: bool) -> None:
    check(random_case(np.random.default_rng(seed), parts=parts))


def test_families_together_are_rounded_as_each_alone() -> None:
    """Of every sort, some widened, in stacks of many and of few."""
    rng = np.random.default_rng(11)
    kinds = [{"squeeze": True}, {"drains": True, "squeeze": True}, {"parts": True}, {}]
    alone, problems = [], []
    for number in range(160):
        case = random_case(rng, **kinds[number % 4])
        try:
            alone.append(case.solve())
        except InfeasibleError:
            continue
        parts = Parts.checked(case.parts, case.totals, case.children)
        price = rng.normal(size=case.x.shape) if number % 5 == 0 else None
        if price is not None:
            alone[-1] = round_children(**case.given, price=price)
        problems.append(
            RoundingProblem(
                case.x,
                case.parent,
                tuple(case.chain),
                case.drains,
                case.total,
                parts,
                case.cell_weight,
                case.integer_targets,
                price,
            )
        )
    together = round_families(problems)
    assert len(together) > 60
    assert {s.status for s in together} == {Status.OPTIMAL, Status.WIDENED}
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.x, other.x)
        assert (one.status, one.residual) == (other.status, other.residual)


def test_a_joint_total_by_hand() -> None:
    """Nearest would be 1, 0, 1 of the one cell; children 0 and 1 hold 2 together, and the first is
    nearer to it.
    """
    x = np.array([[0.75], [0.5], [0.75]])
    joint = {"parts": np.array([0, 0, -1]), "totals": np.array([2])}
    assert round_children(x, np.array([2]), **joint).x[:, 0].tolist() == [1, 1, 0]
    with pytest.raises(InfeasibleError):
        round_children(x, np.array([2]), parts=np.zeros(3, dtype=np.intp), totals=np.array([3]))


def test_joint_totals_that_floors_and_ceilings_cannot_meet_widen_them() -> None:
    x = np.array([[2.5, 0.0], [0.5, 0.0], [1.0, 1.0]])
    case = Case(x, np.array([4, 1]), [], parts=np.array([0, 0, 1]), totals=np.array([1, 4]))
    s = case.solve()
    assert s.status is Status.WIDENED
    assert case.feasible(s.x)
    assert beyond(case, s.x) == min(beyond(case, n) for n in everything(case) if case.feasible(n))


def test_a_rounding_worse_than_the_best_is_told_from_it() -> None:
    """The comparison of objectives above has teeth: the second best is further off than its
    tolerance.
    """
    x = np.array([[0.25, 0.5, 0.25], [0.75, 0.5, 0.75]])
    case = Case(x, np.array([1, 1, 1]), [Link(np.zeros(3, dtype=np.intp))])
    values = sorted(case.objective(n) for n in case.floors_and_ceilings() if case.feasible(n))
    distinct = np.unique(np.round(values, 9))
    assert distinct[1] - distinct[0] > x.size * 3 / SCALE
    assert case.objective(case.solve().x) == pytest.approx(distinct[0])


def test_the_chain_decides_between_equally_near_cells() -> None:
    """Every cell is a coin toss; the total of each child is not."""
    x = np.full((2, 4), 0.5)
    n = round_children(x, np.ones(4, dtype=np.int64), chain=[np.zeros(4, dtype=np.intp)]).x
    assert n.sum(axis=1).tolist() == [2, 2]


@pytest.mark.parametrize("fuzz", [0.0, 1e-9, -1e-9])
def test_integers_stay_what_they_are(fuzz: float) -> None:
    rng = np.random.default_rng(3)
    whole = rng.integers(0, 10**8, (4, 6))
    s = round_children(whole + fuzz * (whole > 0), whole.sum(axis=0), chain=[rng.integers(0, 1, 6)])
    assert np.array_equal(s.x, whole)
    assert s.status is Status.OPTIMAL


def test_next_to_an_integer_is_that_integer() -> None:
    """3 + 1e-9 may not become 4 and still pass for a rounding."""
    lower = np.array([[4], [0]])
    s = round_children(
        np.array([[3 + 1e-9], [5 - 1e-9]]),
        np.array([8]),
        chain=[Link(np.zeros(1, dtype=np.intp), lower)],
    )
    assert s.x.tolist() == [[4], [4]]
    assert s.status is Status.WIDENED


def test_without_a_chain_each_cell_is_rounded_alone() -> None:
    x = np.array([[0.1, 2.6], [0.9, 0.4]])
    assert round_children(x, np.array([1, 3])).x.tolist() == [[0, 3], [1, 0]]


def test_huge_counts_with_known_totals_and_drains() -> None:
    """10^8 in a cell, every total known, lower bounds of 10^8 that must be forced."""
    rng = np.random.default_rng(9)
    whole = rng.integers(10**7, 10**8, (3, 8))
    x = whole + 0.5 * (np.arange(3)[:, None] < 2) * (np.arange(8) % 2 == 0)
    x[1] -= 1.0 * (np.arange(8) % 2 == 0)
    parent = np.rint(x.sum(axis=0)).astype(np.int64)
    group = np.arange(8) // 4
    totals = np.rint(x.sum(axis=1)).astype(np.int64)
    case = Case(
        x,
        parent,
        [Link(group), Link(np.zeros(8, dtype=np.intp), totals[:, None], totals[:, None], 64.0)],
    )
    assert check(case) == "rounded"
    held = sums(np.floor(x).astype(np.int64), Link(group))
    held[[0, 1], [0, 1]] += (totals - held.sum(axis=1))[:2]
    drains = Drains(np.arange(3), held, held, totals)
    case = Case(x, parent, [Link(group, held, held)], drains=drains)
    assert check(case) == "rounded"


def test_huge_counts_widened() -> None:
    """The bounds want 10^8 persons elsewhere than the estimate has them."""
    big = 10**8
    x = np.array([[big - 0.5, 0.5], [0.5, big - 0.5]])
    swapped = np.array([[0, big], [big, 0]])
    s = round_children(x, np.array([big, big]), chain=[Link(np.arange(2), swapped, swapped)])
    assert s.status is Status.WIDENED
    assert np.array_equal(s.x, swapped)
    assert s.residual == big - 0.5


def test_widening_leaves_floor_and_ceiling_as_seldom_as_it_can() -> None:
    rng = np.random.default_rng(2)
    seen = 0
    while seen < 25:
        case = random_case(rng, squeeze=True)
        if case.parent is None or case.parent.prod() > 200:
            continue
        case.chain = [Link(k.group, k.lower, k.upper) for k in case.chain]
        try:
            s = case.solve()
        except InfeasibleError:
            continue
        if s.status is not Status.WIDENED:
            continue
        seen += 1
        assert beyond(case, s.x) == min(
            beyond(case, n) for n in everything(case) if case.feasible(n)
        )


def test_where_one_cell_must_be_widened_another_is_not() -> None:
    """Cell 1 must move two persons; in cell 0 nobody leaves floor and ceiling, though that would be
    nearer.
    """
    x = np.array([[1.2, 0], [0.6, 0], [0.6, 0], [0.6, 2]])
    lower = np.zeros((4, 2), dtype=np.int64)
    lower[0, 1] = 2
    s = round_children(x, np.array([3, 2]), chain=[Link(np.arange(2), lower, weight=0.0)])
    assert s.status is Status.WIDENED
    assert s.x[:, 1].tolist() == [2, 0, 0, 0]
    assert s.x[0, 0] == 1
    assert s.x[1:, 0].max() == 1


def beyond(case: Case, n: NDArray[np.int64]) -> int:
    """Steps outside floor and ceiling."""
    return int((np.maximum(np.floor(case.x) - n, 0) + np.maximum(n - np.ceil(case.x), 0)).sum())


def everything(case: Case) -> Iterator[NDArray[np.int64]]:
    """Every way to share out the parent."""
    columns = [
        [c for c in product(range(p + 1), repeat=case.children) if sum(c) == p] for p in case.parent
    ]
    for choice in product(*columns):
        yield np.array(choice, dtype=np.int64).T


# --- refusals
# ------------------------------------------------------------------------------------------------


def test_a_chain_that_is_not_nested_is_refused() -> None:
    with pytest.raises(ValueError, match="not laminar"):
        round_children(
            np.full((2, 4), 0.5),
            np.ones(4, dtype=np.int64),
            chain=[np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])],
        )


def test_a_root_needs_its_total_and_drains_a_chain() -> None:
    x = np.full((1, 2), 0.5)
    with pytest.raises(ValueError, match="total"):
        round_children(x, None)
    none = np.zeros((1, 1), dtype=np.int64)
    drains = Drains(np.zeros(1, dtype=np.intp), none, none, none[0])
    with pytest.raises(ValueError, match="those of the drains"):
        round_children(
            x,
            np.array([1, 0]),
            chain=[np.zeros(2, dtype=np.intp)],
            drains=drains,
            parts=np.zeros(1, dtype=np.intp),
            totals=np.array([1]),
        )
    with pytest.raises(ValueError, match="chain"):
        round_children(
            x, np.array([1, 0]), drains=Drains(np.zeros(1, dtype=np.intp), none, none, none[0])
        )


@pytest.mark.parametrize(
    "lower, upper",
    [([[3], [0]], [[9], [9]]), ([[0], [0]], [[0], [1]]), ([[2], [1]], [[2], [1]])],
    ids=["more than there is", "less than there is", "known totals of another sum"],
)
def test_nothing_satisfies_the_bounds(lower: list[list[int]], upper: list[list[int]]) -> None:
    link = Link(np.zeros(2, dtype=np.intp), np.array(lower), np.array(upper))
    with pytest.raises(InfeasibleError, match="no integers satisfy the bounds"):
        round_children(np.full((2, 2), 0.5), np.array([1, 1]), chain=[link])


def test_drains_that_cannot_be_filled() -> None:
    """The child holds 2, its only descendant wants 3."""
    drains = Drains(np.zeros(1, dtype=np.intp), np.array([[0]]), np.array([[9]]), np.array([3]))
    with pytest.raises(InfeasibleError):
        round_children(
            np.array([[1.0, 1.0]]),
            np.array([1, 1]),
            chain=[Link(np.zeros(2, dtype=np.intp))],
            drains=drains,
        )


def test_floors_and_ceilings_suffice_but_for_the_drains() -> None:
    """Nearest would put the half into group 0, which the descendants below cannot hold."""
    x = np.array([[0.75, 0.25], [0.25, 0.75]])
    none, most = np.zeros((2, 2), dtype=np.int64), np.array([[0, 1], [1, 0]])
    drains = Drains(np.arange(2), none, most, np.ones(2, dtype=np.int64))
    s = round_children(x, np.array([1, 1]), chain=[np.arange(2)], drains=drains)
    assert s.x.tolist() == [[0, 1], [1, 0]]
    assert s.status is Status.OPTIMAL
