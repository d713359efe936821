"""Standard errors of a mean error: by hand, and in worlds where errors within a cluster hang
together.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from das.evaluate.comparison import FAMILIES, ClusteredInterval, ClusterSums
from das.evaluate.tally import ErrorTally
from das.model.histogram import SparseAnswers


def interval(total, size) -> ClusteredInterval | None:
    """Of whole numbers of errors; sums of errors to a thousand-millionth."""
    part = 10**9
    return ClusterSums.from_clusters(
        np.rint(np.asarray(total) * part).astype(np.int64), size.astype(np.int64)
    ).interval(part)


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
    """40 clusters of 30 errors that share a part: intervals cover 95 %, those of single errors do
    not.
    """
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
    """Errors 1, 2, 3 in each family of three blocks."""
    tally = ErrorTally(np.repeat(range(families), 3))
    blocks = 3 * families
    tally.add(
        np.tile([[5], [6], [7]], (families, 1)),
        SparseAnswers.from_dense(np.full((blocks, 1), 4)),
        0,
    )
    found = tally.errors()
    assert found.parents == families
    assert (found.units is None) == (families >= FAMILIES)
    row = next(found.rows("B", "total", "nmf", 1, None))
    assert row.clusters == (families if families >= FAMILIES else blocks)
    alike = interval(np.full(families, 6), np.full(families, 3))
    apart = interval(np.tile([1, 2, 3], families), np.ones(blocks))
    expected = alike if families >= FAMILIES else apart
    assert row.bias_se == pytest.approx(expected.error, abs=1e-15)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-(10**15), 10**15), st.integers(0, 10**6)), min_size=2, max_size=20
    ),
    st.integers(0, 20),
)
def test_sums_over_clusters_are_exact_and_add_up(clusters, cut):
    """Against fractions of the residuals themselves; in two parts as in one."""
    total, size = np.array(clusters, dtype=np.int64).T
    total = np.where(size > 0, total, 0)
    parts = [ClusterSums.from_clusters(total[s], size[s]) for s in (slice(cut), slice(cut, None))]
    whole = ClusterSums.from_clusters(total, size)
    columns = (
        np.array(clusters, dtype=np.int64)[:, ::-1],
        np.column_stack([np.ones_like(size), size]),
    )
    assert ClusterSums.of_each(*columns) == (
        ClusterSums.from_clusters(columns[0][:, 0], columns[1][:, 0]),
        whole,
    )
    assert ClusterSums.merged(parts) == ClusterSums.merged(parts[::-1]) == whole
    here = [(int(s), int(n)) for s, n in zip(total, size, strict=True) if n]
    got = whole.interval()
    if len(here) < 2:
        assert got is None
        return
    n = sum(n for _, n in here)
    mean = Fraction(sum(s for s, _ in here), n)
    variance = sum((s - mean * k) ** 2 for s, k in here) * Fraction(
        len(here), (len(here) - 1) * n * n
    )
    assert got.error == pytest.approx(float(variance) ** 0.5, rel=1e-14)
    assert (got.low + got.high) / 2 == pytest.approx(float(mean), rel=1e-12, abs=1e-12 * got.error)
