"""Whole numbers near estimates, held against every exchange of one."""

from __future__ import annotations

import numpy as np
import pytest

from das.publications.detailed.estimation.combine import capped_integers, families, nearest, refined


@pytest.mark.parametrize("seed", range(20))
def test_no_exchange_of_one_is_nearer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, columns = rng.integers(1, 7), rng.integers(1, 5)
    values, total = rng.normal(0, 4, (n, columns)), rng.integers(0, 12, columns)
    out = nearest(values, total)
    assert (out.sum(axis=0) == total).all()
    assert (out >= 0).all()
    far = out - values
    for j in range(columns):
        for a in np.flatnonzero(out[:, j] > 0):
            for b in range(n):
                if a != b:  # one less of a, and one more of b
                    assert 2 * (far[b, j] - far[a, j]) + 2 >= -1e-9


@pytest.mark.parametrize("seed", range(20))
def test_families_keep_both_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 6, (rng.integers(1, 6), rng.integers(1, 9)))
    out = families(truth + rng.normal(0, 3, truth.shape), truth.sum(axis=1), truth.sum(axis=0))
    assert (out.sum(axis=1) == truth.sum(axis=1)).all()
    assert (out.sum(axis=0) == truth.sum(axis=0)).all()
    assert (out >= 0).all()


def test_what_is_whole_already_stays() -> None:
    truth = np.random.default_rng(1).integers(0, 9, (4, 8))
    assert (families(truth.astype(float), truth.sum(axis=1), truth.sum(axis=0)) == truth).all()
    assert (nearest(truth.astype(float), truth.sum(axis=0)) == truth).all()


def test_refined_cells_sum_to_coarse_ones() -> None:
    out = refined(np.array([1.2, 2.2, 0.6]), np.array([0, 0, 1]), np.array([4, 0]))
    assert out[:2].sum() == 4
    assert out[2] == 0


def test_none_is_above_the_most() -> None:
    out = capped_integers(np.array([9.0, 0.2, -3.0]), np.array([4, 5, 5]), 8)
    assert out.sum() == 8
    assert (out <= [4, 5, 5]).all()
    assert out[0] == 4
