"""Over repeated noise, unbiased estimates of areas scatter about the truth as their variances
say.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.stats import chi2

from das.estimate.areas.estimates import estimates
from das.model.histogram import Histogram
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.query import Query
from das.model.spine import Spine
from das.noise import discrete_gaussian
from das.noise.entropy import seeded
from das.release.replicate_source import wide
from tests.estimate.world import SMALL, World, memory, random_spine, random_world

COPIES = 800
QUERIES: tuple[Query, ...] = tuple(map(SMALL.query, ("total", "home", "age * race", "detailed")))


def copied(world: World) -> World:
    """A tree whose root has the tree of ``world`` many times below it: so much noise at once."""
    codes, parents, truth = [np.array(["R"])], [np.zeros(1, dtype=np.int64)], {}
    copy, levels = np.arange(COPIES), tuple(f"{level}s" for level in world.spine.levels)
    above = 1
    for level, name, parent in zip(world.spine.levels, levels, world.spine.parent, strict=True):
        n, h = world.spine.units(level), world.truth[level]
        codes.append(np.array([f"{i:04d}{c}" for i in copy for c in world.spine.geocodes(level)]))
        parents.append(
            (parent + above * copy[:, None]).ravel()
            if len(parents) > 1
            else np.zeros(COPIES, dtype=np.int64)
        )
        unit = np.repeat(np.arange(n), np.diff(h.indptr)) + n * copy[:, None]
        truth[name] = Histogram.from_triplets(
            n * COPIES, h.cells, unit.ravel(), np.tile(h.cell, COPIES), np.tile(h.count, COPIES)
        )
        above = n
    truth["root"] = truth[levels[0]].up(np.zeros(COPIES, dtype=np.int64), 1)
    assert world.structures is not None
    return World(
        SMALL,
        Spine(("root", *levels), tuple(codes), tuple(parents)),
        truth,
        np.tile(world.structures, (COPIES, 1)),
    )


def test_variances_are_those_of_repeated_noise_and_one_that_is_three_tenths_off_is_noticed() -> (
    None
):
    """The total of each copy is known, blocks have structures, areas cut units of every level. Each
    standardized error has mean 0 and variance 1, and 90 % intervals hold the truth as often."""
    rng, entropy = np.random.default_rng(3), seeded(11)
    one = random_world(rng, SMALL, random_spine(rng, 3, 4), empty=0.2)
    world, lowest = copied(one), one.spine.levels[-1]
    n = one.spine.units(lowest)
    held = {}
    for level in world.spine.levels:
        for i, q in enumerate(QUERIES):
            exact, sigma_sq = world.truth[level].answer(q), Fraction(9 + 14 * i, 2)
            noise = discrete_gaussian.sample(sigma_sq, exact.size, entropy).reshape(exact.shape)
            held[level, q.name] = (
                exact + noise,
                np.full(len(exact), DISCRETE_GAUSSIAN.variance(sigma_sq)),
            )
    member = rng.random((5, n)) < 0.5
    at, inside = np.nonzero(member)
    copy = np.arange(COPIES)[:, None]
    columns = np.array(
        [SMALL.possible, SMALL.query("home").index == 0, SMALL.query("race").index == 1]
    )
    found = estimates(
        memory(held),
        world.spine,
        world.bounds(f"{one.spine.levels[0]}s"),
        SMALL,
        columns,
        (at + 5 * copy).ravel(),
        (inside + n * copy).ravel(),
        5 * COPIES,
    )
    true = member.astype(int) @ one.truth[lowest].answer(SMALL.query("detailed")) @ columns.T
    value, error = found.value.reshape(COPIES, 5, 3), np.sqrt(found.variance).reshape(COPIES, 5, 3)
    some = error.mean(axis=0) > 0.1
    assert some.sum() >= 10
    z = ((value - true) / np.maximum(error, 1e-9))[:, some]
    squares = (z**2).sum(axis=0)
    low, high = chi2.ppf([1e-4, 1 - 1e-4], COPIES)
    assert (np.abs(z.sum(axis=0)) < 4.5 * np.sqrt(COPIES)).all()
    assert (squares > low).all()
    assert (squares < high).all()
    assert 0.87 < (np.abs(z) <= wide(0.9, 1.96)).mean() < 0.93
    # power: were variances three tenths smaller or larger than they should be, most would show it
    assert np.mean(squares / 0.7 > high) > 0.5
    assert np.mean(squares / 1.3 < low) > 0.5


def test_margins_of_other_coverages() -> None:
    """Normal ones, and somewhat wider ones for noise with longer tails."""
    assert abs(wide(0.9, 1.959964) - 1.644854) < 1e-5
    assert abs(wide(0.95, 1.959964) - 1.959964) < 1e-5
    assert wide(0.9, 2.118) > 1.7
