"""The model of units by themselves: its variances are those of least squares given exact sums, in
closed form where there is one, and its gradients are derivatives.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from das.design.model import Choices, Estimand
from das.design.optimize import optimize
from das.design.problem import Incumbent, Problem, View
from das.model.budget import ALL
from das.tools.planning.ground import SampledPass, SampledUnit, UnitsAlone

Array = NDArray[np.float64]
QUERIES = ("coarse", "other", "cells")


def one(seed: int, cells: int = 12, lines: int = 5) -> SampledPass:
    rng = np.random.default_rng(seed)
    index = {q: _numbered(rng.integers(0, n, cells)) for q, n in (("coarse", 3), ("other", 4))}
    index["cells"] = np.arange(cells)
    tie = _numbered(rng.integers(0, 3, cells))
    return SampledPass(index, tie, rng.integers(0, 2, (cells, lines)).astype(float))


def _numbered(x: NDArray[np.integer]) -> NDArray[np.intp]:
    return np.unique(x, return_inverse=True)[1]


def dense(p: SampledPass, rho: dict[str, float]) -> Array:
    """On a basis of the directions that change no exact sum."""
    tied = (p.tie[None, :] == np.arange(p.tie.max() + 1)[:, None]).astype(float)
    basis = np.linalg.svd(tied)[2][np.linalg.matrix_rank(tied) :].T
    x = sum(r * (p.index[q][:, None] == p.index[q][None, :]) for q, r in rho.items())
    v = basis @ np.linalg.inv(basis.T @ x @ basis) @ basis.T
    return np.diag(p.lines.T @ v @ p.lines)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_least_squares_given_the_exact_sums(seed: int) -> None:
    p, rho = one(seed), {"coarse": 0.4, "other": 0.1, "cells": 0.05}
    np.testing.assert_allclose(p.variances(rho)[0], dense(p, rho), atol=1e-10)


def test_of_cells_with_an_exact_sum_some_have_k_times_the_rest_over_all() -> None:
    """n cells, each measured with rho: the sum of k has the variance k(1 - k/n)/rho."""
    n, rho = 7, 0.25
    lines = np.tril(np.ones((n, n))).T  # the first 1, 2, ..., n cells
    p = SampledPass({"cells": np.arange(n)}, np.zeros(n, dtype=np.intp), lines)
    k = np.arange(1, n + 1)
    np.testing.assert_allclose(p.variances({"cells": rho})[0], k * (1 - k / n) / rho, atol=1e-12)


def test_two_measurements_of_the_same_numbers_count_as_one_of_their_sum() -> None:
    p = one(1)
    twice = SampledPass({**p.index, "again": p.index["cells"]}, p.tie, p.lines)
    apart = twice.variances({"coarse": 0.3, "other": 0.1, "cells": 0.1, "again": 0.2})[0]
    np.testing.assert_allclose(apart, p.variances({"coarse": 0.3, "other": 0.1, "cells": 0.3})[0])


def model(*passes: SampledPass) -> UnitsAlone:
    """Two estimands, of alternating lines, at one level of two."""
    lines = np.arange(passes[0].lines.shape[1])
    unit = SampledUnit(passes, lines % 2, np.where(lines % 2, 1 / 2, 1 / 3))
    pairs = [("State", "cells"), *(("Tract", q) for q in QUERIES)]
    groups = (Estimand("Tract", "even"), Estimand("Tract", "odd"), Estimand("State", "cells"))
    return UnitsAlone(Choices.alike(pairs, ALL), groups, {"Tract": [unit]})


def test_gradients_are_derivatives_and_shares_of_all_that_is_spent() -> None:
    made = model(
        one(2), SampledPass({"cells": np.arange(12)}, one(2).index["coarse"], one(3).lines)
    )
    p = np.array([9.0, 0.3, 0.2, 0.1])
    f, h = made.gradients(p, np.eye(3)[:2], lambda: None)
    for i in range(4):
        step = np.where(np.arange(4) == i, 1e-5, 0.0)
        up, down = made.variances(p + step)[:2], made.variances(p - step)[:2]
        np.testing.assert_allclose(-h[:, i], (np.log(up) - np.log(down)) / 2e-5, atol=1e-5)
    np.testing.assert_allclose(h @ p, 1)  # f falls as 1/rho
    assert f[2] == 0.0 == h[:, 0].max()  # nothing is known of a level without a sample


def test_the_certificate_of_a_search_holds_and_is_met() -> None:
    """Guards keep the first estimand as it is; the other becomes better, provably as far as it
    can."""
    made = model(one(4), SampledPass({"cells": np.arange(12)}, one(4).index["other"], one(5).lines))
    now = np.array([1.0, 0.5, 0.3, 0.2])
    f = made.variances(now)
    limit = np.array([f[0], np.inf, np.inf])
    held = np.array([True, False, False, False])
    kept = np.where(held, now, 0.0)
    found = optimize(Problem(made, np.array([0.0, 1.0, 0.0]), limit, kept, held, now), 1e-4)
    assert found.gap <= 1e-4
    assert found.over <= 1e-3
    assert found.value < np.log(f[1])
    for _ in range(200):  # no other allocation is below the bound
        share = np.random.default_rng(_).dirichlet(np.ones(3))
        there = made.variances(np.append(1.0, share))
        assert there[0] > f[0] or np.log(there[1]) >= found.bound - 1e-12


@pytest.mark.parametrize(("share", "missing"), [(0.6, 0.25), (0.5, 0.0)])
def test_the_bound_of_two_shares_by_hand(share: float, missing: float) -> None:
    """The mean of -log r and -log(1 - r): its bound at r is 1/(2 min(r, 1 - r)) - 1 below."""
    pair, tie = np.array([[1.0], [0.0]]), np.zeros(2, dtype=np.intp)
    units = [
        SampledUnit((SampledPass({q: np.arange(2)}, tie, pair),), np.array([i]), np.ones(1))
        for i, q in enumerate(("one", "other"))
    ]
    pairs = [("Tract", "one"), ("Tract", "other")]
    groups = (Estimand("Tract", "first"), Estimand("Tract", "second"))
    made = UnitsAlone(Choices.alike(pairs, ALL), groups, {"Tract": units})
    rho, weight, none = np.array([share, 1 - share]), np.full(2, 0.5), np.full(2, np.inf)
    f, h = made.gradient(rho, weight)
    problem = Problem(made, weight, none, np.zeros(2), np.zeros(2, dtype=bool), rho)
    incumbent = Incumbent(problem, None)
    found = incumbent.see(View(rho, f, problem.over(f), rho, h, np.zeros(2)))
    assert found.value == pytest.approx(-np.log(2 * np.sqrt(share * (1 - share))))
    assert found.value - found.bound == pytest.approx(missing)
