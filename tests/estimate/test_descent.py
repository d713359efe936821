"""The whole descent: whatever the tree, the dwellings, the people and the noise, it ends in a
release.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.estimate.passes import Passes
from das.model.constraint import JointTotals
from das.model.histogram import Histogram
from das.model.redistricting import E2E_1940, PL94
from das.model.release import Release
from das.model.schema import Attribute, Schema
from das.model.solution import Certificate
from das.model.spine import Spine
from tests.estimate.world import PLAIN, SMALL, World, memory, random_spine, random_world


def random_descent(
    seed: int, schema: Schema, noise: float | None = None
) -> tuple[World, Release, Certificate, Certificate]:
    """Everything at random: depth, places, empty places, facilities, known totals, queries, passes,
    budgets.
    """
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, int(rng.integers(1, 6)), int(rng.integers(1, 6)))
    world = random_world(
        rng,
        schema,
        spine,
        size=rng.choice([0.3, 1, 3, 30]),
        facilities=rng.choice([0, 0.1, 0.5, 0.9]),
        empty=rng.choice([0, 0.5, 0.9]),
    )
    total_level = [None, *spine.levels][rng.integers(len(spine) + 1)]
    bounds = world.bounds(
        total_level, housing_units=bool(rng.random() < 0.8), group_quarters=bool(rng.random() < 0.8)
    )
    names = [a.name for a in schema.attributes]
    factors = [" * ".join(n for n in names if rng.random() < 0.5) for _ in range(3)]
    queries = list(dict.fromkeys(["total", "detailed", *(q for q in factors if q)]))
    level_of_noise = noise or float(rng.choice([1e-6, 1, 100, 1e6, 1e10]))
    variance = {
        (lv, q): level_of_noise * 10 ** rng.uniform(-2, 2) for lv in spine.levels for q in queries
    }
    source = world.measured(rng, queries, lambda lv, q: variance[lv, q])

    chain = bool(rng.random() < 0.8)
    cuts = {level: int(rng.integers(len(queries))) for level in spine.levels}
    passes = {
        lv: tuple(tuple(p) for p in (queries[:cut], queries[cut:]) if p) for lv, cut in cuts.items()
    }
    return world, *world.descend(source, bounds, Passes(passes), chain=chain)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([SMALL, PLAIN]))
def test_it_always_ends_in_a_release(seed: int, schema: Schema) -> None:
    """``Release`` checks sums, bounds, structural zeros and totals; the descent raises if it
    refuses.
    """
    world, release, estimation, _ = random_descent(seed, schema)
    assert set(release.histograms) == set(world.spine.levels)
    assert estimation.worst_residual <= 1e-3 or estimation.inaccurate


@pytest.mark.parametrize("seed", range(8))
def test_it_ends_in_a_release_with_the_dwellings_of_1940(seed: int) -> None:
    random_descent(1000 + seed, E2E_1940)


@pytest.mark.parametrize("seed", range(2))
def test_it_ends_in_a_release_with_all_redistricting_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 4, 3)
    world = random_world(rng, PL94, spine, size=8.0)
    queries = ["total", "hhgq", "votingage * hispanic", "hispanic * cenrace", "detailed"]
    source = world.measured(rng, queries, 20.0)
    _, estimation, rounding = world.descend(source, world.bounds("L1"), [["total"], queries[1:]])
    assert estimation.inaccurate == 0
    assert rounding.widened == 0


def test_ordinary_noise_leaves_no_solve_inaccurate_and_no_rounding_widened() -> None:
    """The certificates of a hundred problems with noise as large as the counts."""
    solves, worst = 0, Certificate()
    for seed in range(15):
        _, _, estimation, rounding = random_descent(500 + seed, SMALL, noise=4.0)
        solves += estimation.solves
        worst = worst.merge(estimation)
        assert rounding.widened == 0
    assert solves > 100
    assert worst.inaccurate == 0
    assert worst.worst_gap <= 1e-5
    assert worst.worst_residual <= 1e-3


@pytest.mark.parametrize("schema", [SMALL, PLAIN, E2E_1940, PL94], ids=lambda s: s.name)
@pytest.mark.parametrize("total_level", [None, "L1"])
def test_without_noise_it_returns_the_truth(schema: Schema, total_level: str | None) -> None:
    for seed in range(2 if schema is PL94 else 5):
        rng = np.random.default_rng(seed)
        spine = random_spine(rng, 4, 3)
        world = random_world(rng, schema, spine, size=12.0)
        names = [a.name for a in schema.attributes]
        source = world.measured(rng, ["total", names[0], "detailed"], 9.0, noise=0.0)
        release, estimation, _ = world.descend(
            source, world.bounds(total_level), [["total"], [names[0], "detailed"]]
        )
        for level in spine.levels:
            assert release.histograms[level].same_as(world.truth[level])
        assert estimation.inaccurate == 0


@settings(max_examples=12)
@given(st.integers(0, 2**32), st.sampled_from([SMALL, PLAIN]), st.sampled_from([1.0, 1e4]))
def test_joint_totals_are_met_whatever_the_noise(seed: int, schema: Schema, noise: float) -> None:
    """States of two or three parts (``Release`` checks their totals), full of facilities; as narrow
    above them.
    """
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 4, 4)
    level = str(rng.choice(spine.levels[1:]))
    parent = spine.parent[spine.index(level)]
    part = np.unique(parent * 9 + rng.integers(0, 2, len(parent)), return_inverse=True)[1]
    part = rng.permutation(part.max() + 1)[part]
    world = random_world(rng, schema, spine, size=rng.choice([0.5, 5]), facilities=0.5, empty=0.3)
    bounds = world.bounds(level, part)
    source = world.measured(rng, ["total", "detailed"], noise)
    passes = [["total", "detailed"]] if rng.random() < 0.5 else [["total"], ["detailed"]]
    release, estimation, _ = world.descend(source, bounds, passes)
    got, true = (
        np.bincount(part, weights=h[level].totals()) for h in (release.histograms, world.truth)
    )
    assert np.array_equal(got, true)
    for lv, h in release.histograms.items() if world.structures is not None else ():
        there = np.zeros((spine.units(lv), world.structures.shape[1]), dtype=np.int64)
        np.add.at(there, spine.up("L3", lv), world.structures)
        group = schema.level_of(schema.dwelling)
        held = np.stack(
            [h.dense()[:, group == g].sum(axis=1) for g in range(there.shape[1])], axis=1
        )
        assert (held[:, 1:] >= there[:, 1:]).all(), lv  # every facility holds somebody,
        assert not held[there == 0].any(), lv  # and nobody is where there is none
    assert (estimation.repaired, estimation.worst_residual <= 1e-3 or estimation.inaccurate) == (
        0,
        True,
    )


def test_the_parts_of_a_state_share_its_total_by_their_measurements() -> None:
    """A state of two parts, 60 and 40 measured well: not the truth of each, but together exactly
    100.
    """
    truth = np.array([[60], [40], [25]])
    zero = np.zeros(1, dtype=np.int64)
    spine = Spine(
        ("US", "State"),
        (np.array(["US"]), np.array(["034", "036", "134"])),
        (zero, np.zeros(3, dtype=int)),
    )
    schema = Schema("one", (Attribute("sex", ("f",)),))
    histograms = {
        lv: Histogram.from_triplets(
            len(c), 1, np.arange(len(c)), 0 * np.arange(len(c)), np.array(n)
        )
        for lv, c, n in zip(spine.levels, spine.codes, ([125], [60, 25, 40]), strict=True)
    }
    world = World(schema, spine, histograms, None)
    bounds = world.bounds(
        "State", JointTotals.of_places(spine.codes[1], np.array([100, 25, 100])).part
    )
    answers = {
        ("US", "total"): np.array([[125]]),
        ("State", "total"): truth[[0, 2, 1]] + np.array([[4], [9], [2]]),
    }
    source = memory({k: (v, np.full(len(v), 4.0)) for k, v in answers.items()})
    release, _, _ = world.descend(source, bounds, [["total"]], chain=False)
    assert release.histograms["State"].totals().tolist() == [61, 25, 39]


def test_an_empty_world() -> None:
    """Nobody lives anywhere, and the total says so; the measurements say otherwise."""
    rng = np.random.default_rng(0)
    spine = random_spine(rng, 3, 3)
    world = random_world(rng, PLAIN, spine, empty=1.0)
    source = world.measured(rng, ["total", "detailed"], 100.0)
    release, _, _ = world.descend(source, world.bounds("L0"), [["total", "detailed"]], chain=False)
    assert all(h.totals().sum() == 0 for h in release.histograms.values())


def test_states_that_are_full_of_facilities() -> None:
    """Every state holds exactly one person for each facility, so nothing is free but the cells; the
    national histogram must be one that the states can share out, though its measurements want
    everybody in households."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        spine = random_spine(rng, 4, 4)
        world = random_world(rng, SMALL, spine, size=0.0, facilities=0.6, empty=0.2)
        bounds = world.bounds("L2")
        assert bounds["L0"].total is not None
        source = world.measured(rng, ["total", "home", "detailed"], 1e4)
        release, _, _ = world.descend(source, bounds, [["total"], ["home", "detailed"]])
        assert np.array_equal(release.histograms["L2"].totals(), bounds["L2"].total)
