"""The upward pass: what it says of a unit is the best linear estimate from its subtree, and with
the way down that of all measurements.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.estimate.pooled import Upward
from das.model.measurement import RecordingSource, SparseMeasurement
from das.model.spine import Spine
from tests.sparse import SparseMeasurements

Q = "q"
LOWER = ("County", "Tract")


def tree(shape: list[list[int]]) -> Spine:
    """Counties of tracts with these numbers of blocks."""
    rows = [
        (f"{c}", f"{c}{t}", f"{c}{t}{b}")
        for c, tracts in enumerate(shape)
        for t, blocks in enumerate(tracts)
        for b in range(blocks)
    ]
    county, tract, block = zip(*rows, strict=True)
    return Spine.from_frame(
        {"County": county, "Tract": tract, "Block": block}, ["State", "County", "Tract", "Block"]
    )


def measured(spine: Spine, rng: np.random.Generator, answers: int) -> SparseMeasurements:
    parts = []
    for level in spine.levels:
        n = spine.units(level)
        values = rng.integers(-50, 50, n * answers)
        parts.append(
            SparseMeasurement(
                level, Q, answers, np.arange(n * answers), values, rng.uniform(0.5, 20, n)
            )
        )
    return SparseMeasurements.from_measurements(parts)


def membership(spine: Spine, level: str) -> NDArray[np.float64]:
    lowest = spine.levels[-1]
    return (spine.up(lowest, level)[None, :] == np.arange(spine.units(level))[:, None]).astype(
        float
    )


def least_squares(
    spine: Spine, source: SparseMeasurements, levels: tuple[str, ...], answer: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the lowest units, from the measurements of some levels: estimates and covariance,
    dense.
    """
    a = np.concatenate(
        [membership(spine, lv) / np.sqrt(source.variance(lv, Q))[:, None] for lv in levels]
    )
    y = np.concatenate(
        [_all(source, lv)[:, answer] / np.sqrt(source.variance(lv, Q)) for lv in levels]
    )
    covariance = np.linalg.inv(a.T @ a)
    return covariance @ a.T @ y, covariance


def _all(source: SparseMeasurements, level: str) -> NDArray[np.int64]:
    units, answers = source.shape(level, Q)
    return source.answers(level, Q, *np.divmod(np.arange(units * answers), answers)).reshape(
        units, answers
    )


shapes = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=3)


@given(shapes, st.integers(0, 1000))
def test_it_is_the_best_linear_estimate_and_so_is_what_the_way_down_makes_of_it(
    shape: list[list[int]], seed: int
) -> None:
    spine = tree(shape)
    source = measured(spine, np.random.default_rng(seed), 2)
    upward = Upward(source, spine, most=2)
    x, covariance = least_squares(spine, source, spine.levels, 1)
    down = None
    for depth, level in enumerate(spine.levels):
        n = spine.units(level)
        z, v = (
            upward.answers(level, Q, np.arange(n), np.ones(n, dtype=np.int64)),
            upward.variance(level, Q),
        )
        if depth == 0:  # the root: from all measurements
            np.testing.assert_allclose(z, membership(spine, level) @ x, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(
                v, np.diag(membership(spine, level) @ covariance @ membership(spine, level).T)
            )
            down = z
        else:
            parent = spine.parent[depth]
            gap = down - np.bincount(parent, z)
            down = z + v / np.bincount(parent, v)[parent] * gap[parent]
            np.testing.assert_allclose(down, membership(spine, level) @ x, rtol=1e-8, atol=1e-8)


@given(shapes, st.integers(0, 1000))
def test_an_only_child_is_one_more_measurement_and_nothing_else_is_looked_at(
    shape: list[list[int]], seed: int
) -> None:
    spine = tree(shape)
    said = RecordingSource(measured(spine, np.random.default_rng(seed), 3))
    upward = Upward(said, spine)
    rng = np.random.default_rng(seed)
    for level in spine.levels:
        n = spine.units(level)
        unit = np.repeat(np.arange(n), 2)
        cell = rng.integers(0, 3, 2 * n)
        found, variance = upward.answers(level, Q, unit, cell), upward.variance(level, Q)
        for u, c, z in zip(unit.tolist(), cell.tolist(), found.tolist(), strict=True):
            at, weight, total = [(level, u)], 0.0, 0.0
            while (below := upward._below(at[-1][0])) is not None and (
                kids := np.flatnonzero(spine.parent[spine.index(below)] == at[-1][1])
            ).size == 1:
                at.append((below, int(kids[0])))
            for lv, unit_ in at:
                p = 1 / said.variance(lv, Q)[unit_]
                weight, total = (
                    weight + p,
                    total + p * said.answers(lv, Q, np.array([unit_]), np.array([c]))[0],
                )
            assert z == pytest.approx(total / weight)
            assert variance[u] == pytest.approx(1 / weight)


def test_a_unit_with_two_children_asks_of_nobody_else() -> None:
    spine = tree([[2, 2], [2, 2]])
    said = RecordingSource(measured(spine, np.random.default_rng(1), 3))
    Upward(said, spine).answers("County", Q, np.array([0]), np.array([1]))
    assert [len(m.at) for level in spine.levels for m in said.recorded(level)] == [0, 1, 0, 0]


@pytest.mark.parametrize("most", [0, 2])
def test_a_query_counts_down_to_the_first_level_that_does_not_measure_it(most: int) -> None:
    """Blocks do not measure it: tracts have their own answers alone, and pass these on."""
    spine = tree([[1], [2, 1]])
    every = measured(spine, np.random.default_rng(3), 2)
    some = SparseMeasurements.from_measurements(every.held[lv, Q] for lv in ("State", *LOWER))
    upward, n = Upward(some, spine, most), spine.units("Tract")
    at = np.arange(n), np.ones(n, dtype=np.int64)
    assert upward.queries("Block") == ()
    np.testing.assert_allclose(upward.variance("Tract", Q), every.variance("Tract", Q))
    np.testing.assert_array_equal(upward.answers("Tract", Q, *at), every.answers("Tract", Q, *at))
    first = np.array([0])  # a county of one tract
    v = 1 / (1 / every.variance("County", Q)[0] + 1 / every.variance("Tract", Q)[0])
    assert upward.variance("County", Q)[0] == pytest.approx(v)
    asked = upward.answers("County", Q, first, first)
    parts = [every.answers(lv, Q, first, first)[0] / every.variance(lv, Q)[0] for lv in LOWER]
    assert asked[0] == pytest.approx(v * sum(parts))
