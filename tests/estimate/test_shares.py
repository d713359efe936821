"""The prior of shares: without noise to weigh against it, units have their parents' shares; its
spread is found again; and nothing above the lowest level depends on it."""

from __future__ import annotations

import numpy as np
import pytest

from das.errors import InputError
from das.estimate.fixed_counts import FixedCounts
from das.estimate.outer import RefinedEstimates, refined
from das.estimate.prior import SharedOut, scope
from das.model.histogram import Histogram
from das.model.measurement import SparseMeasurement
from das.model.plan import OuterPass
from das.model.post_processing import SharesPrior
from das.model.schema import Schema
from das.model.spine import Spine
from tests.estimate.test_outer import OUTER, SCHEMA, TREE, check, fixed_counts, measured, people
from tests.sparse import SparseMeasurements

AGES = Schema.from_attributes(
    "ages", {"age": 3}, groupings={"adult": ("age", {"minor": [0], "adult": [1, 2]})}
)
BLOCKS = Spine.from_frame({"Block": ["1", "2", "3"]}, ["Tract", "Block"])
PASSES = (OuterPass(("detailed",), ("detailed",)),)


def prior(spread: float, passes: int = 1, level: str = "Tract") -> SharesPrior:
    one = np.ones((passes, 1))
    return SharesPrior(level, spread * one, one, one.astype(np.int64))


def adults(shares: bool | SharesPrior) -> RefinedEstimates:
    """Three blocks of ten adults, six of thirty of whom are old; noisy answers put the old ones
    into the first block."""
    true = np.array([[0, 8, 2]] * 3)
    fixed = FixedCounts.from_histogram(
        AGES,
        "adult",
        Histogram.from_triplets(3, 2, np.arange(3), np.ones(3, int), np.full(3, 10)),
        BLOCKS,
    )
    noisy = {
        "Tract": true.sum(axis=0, keepdims=True),
        "Block": true + np.array([[0, -3, 6], [0] * 3, [0] * 3]),
    }
    source = SparseMeasurements.from_measurements(
        SparseMeasurement(
            level, "detailed", 3, np.arange(m.size), m.ravel(), np.full(len(m), variance)
        )
        for (level, m), variance in zip(noisy.items(), (1e-4, 4.0), strict=True)
    )
    return refined(source, BLOCKS, AGES, PASSES, fixed, shares=shares)


def test_where_the_prior_is_sure_units_have_the_shares_of_their_parent() -> None:
    """Ten adults, a fifth of the parent's are old: two. Where it says nothing, the measurements
    decide, as without it."""
    assert adults(prior(1e-9)).counts["Block"].dense().tolist() == [[0, 8, 2]] * 3
    without = adults(False).counts["Block"].dense()
    assert without[:, 2].tolist() != [2, 2, 2]
    assert np.array_equal(adults(prior(1e12)).counts["Block"].dense(), without)


def test_only_the_lowest_level_depends_on_it() -> None:
    truth, able = people(21, 2000)
    source, fixed = measured(truth, 22, 20.0), fixed_counts(truth, able)
    without, found = (refined(source, TREE, SCHEMA, OUTER, fixed, shares=s) for s in (False, True))
    check(dict(found.counts), truth, able)
    for level in TREE.levels[:-1]:
        assert found.counts[level].same_as(without.counts[level])
    assert not found.counts["Block"].same_as(without.counts["Block"])
    assert without.prior is None
    assert isinstance(found.prior, SharesPrior)
    assert found.prior.level == "State"
    for c in found.certificates.values():
        assert c.estimation.inaccurate == 0
    again = refined(source, TREE, SCHEMA, OUTER, fixed, shares=found.prior)
    assert again.counts["Block"].same_as(found.counts["Block"])
    errors = [np.abs(f.counts["Block"].dense() - truth.dense()).mean() for f in (found, without)]
    assert errors[0] < 0.9 * errors[1]  # people were placed at random


@pytest.mark.parametrize("together", [1, 3])
def test_the_spread_is_found_again(together: int) -> None:
    """People that settle alone, or three alike at a time: the variance is as many times as large.
    Another spread is rejected."""
    rng = np.random.default_rng(together)
    parents, children, cells, sigma = 300, 4, 6, 3.0
    sums = np.zeros(3)
    for _ in range(parents):
        share = rng.dirichlet(np.ones(cells))
        count = together * rng.multinomial(rng.integers(20, 60), share, size=children)
        parent, keep = count.sum(axis=0), count.sum(axis=0) > 0
        shared = SharedOut.from_parent(
            count.sum(axis=1, keepdims=True), np.zeros(keep.sum(), dtype=int), parent[keep]
        )
        answers = count[:, keep] + rng.normal(0, sigma, (children, keep.sum()))
        sums += shared.deviations(answers / sigma**2, np.full(answers.shape, 1 / sigma**2))
    error = together * np.sqrt(2 / sums[1])
    assert sums[2] > 1000
    assert abs(sums[0] / sums[1] - together) < 4 * error + 0.02 * together
    assert abs(sums[0] / sums[1] - 1.3 * together) > 4 * error + 0.02 * together


def test_what_cannot_be() -> None:
    with pytest.raises(InputError, match="not positive"):
        prior(0.0)
    with pytest.raises(InputError, match="name three levels"):
        scope(BLOCKS)
    with pytest.raises(InputError, match="name three levels"):
        adults(True)
