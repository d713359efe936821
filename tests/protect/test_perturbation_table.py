"""Perturbation tables: the published rows, an independent solver, and moments that no law has."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from das.errors import SpecError
from das.tools.protection.truth.methods.cell_key import PerturbationTable

#: D, V, js, count, the row by change. The first is the vignette's of the R package ptable, whose
#: variance is .9319.
ROWS = (
    (2, 1, 0, 1, {-1: 0.3665, 0: 0.3665, 1: 0.1676, 2: 0.0995}),
    (2, 1, 0, 2, {-2: 0.0638, -1: 0.2447, 0: 0.3830, 1: 0.2447, 2: 0.0638}),
    (2, 0.9, 0, 1, {-1: 0.3625, 0: 0.3625, 1: 0.1875, 2: 0.0875}),
    (3, 1, 0, 3, {0: 0.3982, 1: 0.2420, -1: 0.2420, 2: 0.0543, -2: 0.0543, 3: 0.0045, -3: 0.0045}),
    (5, 2, 2, 1, {-1: 2 / 3, 2: 1 / 3}),
    (5, 2, 2, 2, {-2: 1 / 3, 1: 2 / 3}),
    (5, 2, 2, 8, {0: 0.2819, 1: 0.2196, 2: 0.1038, 3: 0.0298, 4: 0.0052, 5: 0.0005}),
)


@pytest.mark.parametrize(("d", "v", "js", "count", "row"), ROWS)
def test_published_rows(d: int, v: float, js: int, count: int, row: dict[int, float]) -> None:
    p = PerturbationTable.maximum_entropy(d, v, js).p[count]
    for change, probability in row.items():
        assert p[change + d] == pytest.approx(probability, abs=0.6e-4)
        if min(row) == 0:
            assert p[d - change] == pytest.approx(probability, abs=0.6e-4)


def test_a_bound_on_the_variance_can_be_idle() -> None:
    v = np.arange(-2, 3)
    table = PerturbationTable.maximum_entropy(2, 1).p
    assert table[1] @ v**2 == pytest.approx(0.9319, abs=1e-4)
    assert table[2] @ v**2 == pytest.approx(1)


@pytest.mark.parametrize("mono", [True, False])
@pytest.mark.parametrize(("d", "variance", "js"), [(2, 0.9, 0), (3, 1.4, 1), (4, 2.5, 2)])
def test_against_another_solver(d: int, variance: float, js: int, mono: bool) -> None:
    """Sequential quadratic programming over the probabilities themselves, from the uniform law."""
    table = PerturbationTable.maximum_entropy(d, variance, js, mono)
    for count in range(1, len(table.p)):
        v = np.arange(-d, d + 1)
        v = v[(count + v >= 0) & ~((count + v >= 1) & (count + v <= js))]
        below = np.flatnonzero(v <= 0)

        def entropy(p: np.ndarray) -> float:
            return float((p * np.log(np.maximum(p, 1e-300))).sum())

        limits = [
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "eq", "fun": lambda p, v=v: p @ v},
            {"type": "ineq", "fun": lambda p, v=v: variance - p @ v**2},
        ]
        if mono and len(below) > 1:
            limits.append({"type": "ineq", "fun": lambda p, below=below: np.diff(p[below])})
        other = minimize(
            entropy,
            np.full(len(v), 1 / len(v)),
            bounds=[(1e-12, 1)] * len(v),
            constraints=limits,
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 500},
        )
        mine = table.p[count, v + d]
        assert other.success
        assert mine == pytest.approx(other.x, abs=2e-5)
        assert entropy(mine) <= other.fun + 1e-7


@pytest.mark.parametrize(("d", "variance", "js"), [(2, 1, 0), (4, 2.5, 2), (10, 8.0, 3)])
def test_moments_and_support(d: int, variance: float, js: int) -> None:
    table = PerturbationTable.maximum_entropy(d, variance, js)
    v = np.arange(-d, d + 1)
    assert table.p.sum(axis=1) == pytest.approx(1)
    assert table.p @ v == pytest.approx(0, abs=1e-8)
    assert (table.p @ v**2 <= variance + 1e-8).all()
    for count, p in enumerate(table.p):
        shown = count + v[p > 0]
        assert (shown >= 0).all()
        assert not ((shown >= 1) & (shown <= js)).any()
    assert table.p[-1] == pytest.approx(table.p[-1, ::-1])


def test_the_bounds_are_what_the_table_can_print() -> None:
    table = PerturbationTable.maximum_entropy(3, 1.5, 1)
    lower, upper = table.truths()
    v = np.arange(-3, 4)
    for y in range(len(lower)):
        counts = [i for i in range(20) if table.p[min(i, len(table.p) - 1)][v == y - i].sum() > 0]
        assert (counts == []) == (lower[y] > upper[y])
        if counts:
            assert (lower[y], upper[y]) == (counts[0], counts[-1])


def test_changes_follow_their_law() -> None:
    table = PerturbationTable.maximum_entropy(2, 1)
    chance = (np.arange(10_000) + 0.5) / 10_000
    for count in (1, 2, 7):
        change = table.change(np.full(10_000, count), chance)
        share = np.bincount(change + 2, minlength=5) / 10_000
        assert share == pytest.approx(table.p[min(count, 2)], abs=2e-4)
    assert not table.change(np.zeros(5, dtype=int), chance[:5]).any()


def test_what_no_law_has() -> None:
    with pytest.raises(SpecError, match="variance of 2 or more"):
        PerturbationTable.maximum_entropy(5, 1.9, 2)
    with pytest.raises(SpecError, match="leaves it unbiased"):
        PerturbationTable.maximum_entropy(2, 5, 3)


@pytest.mark.parametrize(("d", "variance", "js"), [(2, 1.0, 0), (3, 1.5, 1)])
def test_the_epsilon_of_one_count_holds_for_every_set(d: int, variance: float, js: int) -> None:
    """All sets of printed counts, of all neighbors; and no smaller ratio or delta does."""
    table = PerturbationTable.maximum_entropy(d, variance, js)
    ratio, delta = table.one_count()
    attained = dict.fromkeys(("ratio", "delta"), False)
    last = len(table.p) - 1
    for n in range(1, last + 2):
        p, q = (_law(table.p[min(i, last)], i, d) for i in (n, n + 1))
        printed = sorted(p.keys() | q.keys())
        for s in chain.from_iterable(combinations(printed, k) for k in range(len(printed) + 1)):
            one, other = (sum((law.get(y, Fraction(0)) for y in s), Fraction(0)) for law in (p, q))
            assert one <= ratio * other + delta
            assert other <= ratio * one + delta
            attained["ratio"] |= min(one, other) > 0 and max(one, other) == ratio * min(one, other)
            attained["delta"] |= min(one, other) == 0 and max(one, other) == delta
    assert all(attained.values())


def _law(row: np.ndarray, count: int, d: int) -> dict[int, Fraction]:
    exact = [Fraction(x) for x in row.tolist()]
    return {count + j - d: x / sum(exact) for j, x in enumerate(exact) if x}


def test_zeros_have_no_epsilon() -> None:
    """What an empty cell never prints, a cell of one person does."""
    table = PerturbationTable.maximum_entropy(2, 1.0)
    assert float(table.one_count(0)[1]) == pytest.approx(1 - 0.3665, abs=1e-4)
