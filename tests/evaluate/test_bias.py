"""Standard errors of a mean error: by hand, and in worlds where errors within a cluster hang together."""

import numpy as np
import pytest
from scipy import stats

from das.evaluate.bias import FAMILIES, clusters, interval
from das.model.spine import Spine


def test_by_hand():
    """Three clusters with errors (1, 3), (2), (-2, 0, 2): mean 1; residual sums 2, 1, -3."""
    got = interval(np.array([4.0, 2.0, 0.0, 0.0]), np.array([2.0, 1.0, 3.0, 0.0]))
    assert got is not None
    assert got.clusters == 3  # the empty one does not count
    assert got.error == pytest.approx(np.sqrt(3 / 2 * (4 + 1 + 9)) / 6)
    assert (got.low + got.high) / 2 == pytest.approx(1)
    assert got.high - 1 == pytest.approx(got.error * stats.t.ppf(0.975, 2))


def test_clusters_of_one_are_the_textbook():
    e = np.random.default_rng(0).normal(size=50)
    got = interval(e, np.ones(50))
    assert got is not None
    assert got.error == pytest.approx(stats.sem(e))
    assert (got.low, got.high) == pytest.approx(stats.t.interval(0.95, 49, e.mean(), stats.sem(e)))


def test_one_cluster_says_nothing():
    assert interval(np.array([3.0]), np.array([5.0])) is None
    assert interval(np.array([3.0, 0.0]), np.array([5.0, 0.0])) is None


def test_intervals_hold_where_errors_of_a_cluster_hang_together():
    """40 clusters of 30 errors that share a part: intervals cover 95 %, those of single errors do not."""
    rng, together, apart = np.random.default_rng(5), 0, 0
    for _ in range(800):
        e = rng.normal(size=(40, 1)) + rng.normal(size=(40, 30))
        got, alone = interval(e.sum(axis=1), np.full(40, 30.0)), interval(e.ravel(), np.ones(1200))
        assert got is not None
        assert alone is not None
        together += got.low <= 0 <= got.high
        apart += alone.low <= 0 <= alone.high
    assert 0.92 < together / 800 < 0.975
    assert apart / 800 < 0.6


@pytest.mark.parametrize("families", [FAMILIES - 1, FAMILIES])
def test_families_where_there_are_enough_of_them(families):
    codes = [
        np.array(["s"]),
        np.array([f"c{i}" for i in range(families)]),
        np.array([f"b{i:03}" for i in range(3 * families)]),
    ]
    codes[1].sort()
    spine = Spine(
        ("S", "C", "B"), tuple(codes), (np.zeros(1, int), np.zeros(families, int), np.repeat(range(families), 3))
    )
    expected = np.repeat(range(families), 3) if families == FAMILIES else np.arange(3 * families)
    assert np.array_equal(clusters(spine, "B"), expected)
    assert np.array_equal(clusters(spine, "C"), np.arange(families))  # one family
