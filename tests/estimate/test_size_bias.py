"""The size bias of the lowest units: its closed form against draws, the correction against a worked
example, and what is found of the spread against what was simulated.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.errors import InputError
from das.estimate import size_bias
from das.estimate.batch import families
from das.estimate.descent import topdown
from das.estimate.family import Family
from das.estimate.passes import Passes
from das.estimate.size_bias import (
    DispersionSample,
    HousedTotals,
    PossibleCells,
    corrected_totals,
    correction_from,
    fitted,
)
from das.model.histogram import Histogram
from das.model.post_processing import BiasCorrection, Dispersion
from das.model.release import Release
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from studies.size_bias.four_blocks import COUNTS, UNITS, nonnegative
from tests.estimate.world import PLAIN, SMALL, World, memory, passes, random_spine, random_world

Floats = NDArray[np.float64]
QUERIES = ("total", "home", "race", "detailed")
#: Four blocks of five cells, with as many people as their housing units take.
HOUSED = UNITS / UNITS.sum() * COUNTS.sum()
NOISY = [[213, 58, 18, 3, 5], [53, 17, 14, -4, -3], [28, 14, 1, 7, 2], [2, 4, 4, 4, -2]]
TOTALS = np.array([290.25, 82.25, 47.25, 10.25])
SPREAD = Dispersion(0.4, 0.045)
KNOWN = HousedTotals(np.zeros(4), HOUSED, np.array([COUNTS.sum()]))


def cells(counts: Floats, children: int, variance: float = 10.0) -> PossibleCells:
    child, at = np.nonzero(np.ones((children, len(counts))))
    deviation = np.full(len(child), variance**0.5)
    part = (counts / counts.sum())[at]
    return PossibleCells(child, at, part, deviation, np.zeros(children, dtype=np.intp))


EXAMPLE = cells(COUNTS, 4)


# --- the bias


def test_the_bias_of_the_worked_example() -> None:
    _, bias, variance = EXAMPLE.bias(HOUSED)
    np.testing.assert_allclose(bias, [-2.353151, 0.018980, 0.497608, 1.836562], atol=1e-5)
    np.testing.assert_allclose(variance, [41.130204, 32.098047, 30.101249, 23.995465], atol=1e-5)


def test_it_is_that_of_least_squares() -> None:
    """The multiplier is taken as fixed: that costs a few hundredths of a person. The standard error of
    40,000 draws is .03."""
    rng = np.random.default_rng(1)
    mean = np.outer(HOUSED, COUNTS / COUNTS.sum())
    found = nonnegative(mean + rng.normal(0, 10**0.5, (40_000, 4, 5)), COUNTS).sum(axis=2) - HOUSED
    np.testing.assert_allclose(EXAMPLE.bias(HOUSED)[1], found.mean(axis=0), atol=0.13)


def test_its_variance_is_that_of_least_squares_among_many() -> None:
    """Of 24 children: that the sums are given takes a twenty-fourth from each."""
    rng = np.random.default_rng(2)
    expected = rng.gamma(1.5, 30.0, 24)
    counts = COUNTS / COUNTS.sum() * expected.sum()
    mean = np.outer(expected, counts / counts.sum())
    found = nonnegative(mean + rng.normal(0, 10**0.5, (8_000, 24, 5)), counts).sum(axis=2)
    np.testing.assert_allclose(
        cells(counts, 24).bias(expected)[2] * 23 / 24, found.var(axis=0), rtol=0.1
    )


@given(
    st.lists(st.floats(0.5, 400), min_size=1, max_size=6),
    st.lists(st.floats(0.0, 300), min_size=2, max_size=7),
)
def test_it_moves_people_from_large_units_to_small_ones_and_creates_none(
    counts: list[float], totals: list[float]
) -> None:
    expected = np.array(totals) / max(sum(totals), 1.0) * sum(counts) + 1e-3
    some = cells(np.array(counts), len(totals))
    bias = some.bias(expected)[1]
    assert abs(bias.sum()) < 0.01 * len(counts)
    order = np.argsort(expected)
    assert (np.diff(bias[order]) < 1e-6).all()
    assert np.abs(replace(some, deviation=some.deviation * 1e-3).bias(expected)[1]).max() < 0.05


def test_there_is_none_among_equals_nor_without_noise() -> None:
    assert np.abs(EXAMPLE.bias(np.full(4, 107.5))[1]).max() < 1e-9


def test_a_cell_unlike_its_family_keeps_what_it_holds() -> None:
    """A group that lives in one small block: expected to be clipped there as elsewhere, it is not."""
    total = np.array([292.4, 82.7, 47.0, 7.9])
    seen = (total[:, None] * COUNTS / COUNTS.sum()).ravel()
    usual = EXAMPLE.bias(total)[0]
    np.testing.assert_allclose(EXAMPLE.bias(total, seen)[0], usual, atol=0.02)
    seen[-1] = 25.0  # where 0.04 persons were expected
    there = EXAMPLE.bias(total, seen)[0]
    assert usual[-1] > 0.3
    assert there[-1] < -2  # it gives up what all give up


# --- totals


def test_the_totals_of_the_worked_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the limit of what housing moves, which one block of it exceeds."""
    monkeypatch.setattr(size_bias, "FARTHEST", np.inf)
    with_housing = [294.410235, 78.940729, 45.218085, 11.430951]
    np.testing.assert_allclose(
        corrected_totals(EXAMPLE, TOTALS, KNOWN, SPREAD), with_housing, atol=1e-5
    )
    alone = [292.384601, 82.717066, 47.016266, 7.882066]
    np.testing.assert_allclose(corrected_totals(EXAMPLE, TOTALS, KNOWN, None), alone, atol=1e-5)


@pytest.mark.parametrize("deviation", [1.0, 3.0, 8.0])
def test_no_truth_makes_housing_cost_more_than_a_quarter(
    deviation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root mean squared error of a total, by integrals over its noise, for truths near its housing
    and far from it. Without the limit there are truths at which it is twice that of noise alone."""
    noise = np.linspace(-6, 6, 2001) * deviation
    weight = np.exp(-0.5 * (noise / deviation) ** 2)
    narrow, housed = Dispersion(0.1, 0.0), np.full(len(noise), 20.0)

    def worst() -> float:
        out = []
        for true in 20.0 + deviation * np.linspace(-8, 8, 65):
            seen, s_sq = true + noise, np.full(len(noise), deviation**2)
            moved = size_bias.housing_weight(seen, s_sq, housed, narrow) * (housed - seen)
            out.append(np.average((moved + noise) ** 2, weights=weight) ** 0.5 / deviation)
        return float(max(out))

    assert 1.2 < worst() < 1.2501
    monkeypatch.setattr(size_bias, "FARTHEST", np.inf)
    assert worst() > 2


@given(st.integers(0, 10_000), st.booleans())
def test_totals_sum_and_hold_their_least(seed: int, housed: bool) -> None:
    rng = np.random.default_rng(seed)
    least = rng.integers(0, 30, 4).astype(float)
    total = rng.dirichlet(np.full(4, 0.3)) * 430
    known = HousedTotals(least, HOUSED, np.array([max(430.0, least.sum())]))
    found = corrected_totals(EXAMPLE, total, known, SPREAD if housed else None)
    assert (found >= least).all()
    assert found.sum() == pytest.approx(known.sums[0], abs=1e-6)


# --- families


def example_spine() -> Spine:
    return Spine(
        ("R", "B"),
        (np.array(["R"]), np.array(list("abcd"))),
        (np.zeros(1, dtype=np.int64), np.zeros(4, dtype=np.int64)),
    )


def example(*, sums: Floats | None = None) -> Family:
    """The worked example as a family of units that hold households only."""
    attribute = Attribute("kind", tuple("abcde"))
    schema = Schema("example", (attribute,))
    spine = example_spine()
    held = {("B", "detailed"): (np.array(NOISY), np.full(4, 10.0))}
    counts = (COUNTS if sums is None else sums).astype(np.int64)
    parent = Histogram.from_triplets(1, 5, np.zeros(5, dtype=np.int64), np.arange(5), counts)
    bounds = World(schema, spine, {}, None).bounds()["B"].dense()
    (family,) = families(memory(held), schema, "B", parent, spine.children("B"), bounds)
    return family


ONE_PASS = Passes({"B": (("detailed",),)}, accuracy=1e-12)


def test_the_counts_of_the_worked_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without housing: the family knows none. And without what cells say of their own means."""
    monkeypatch.setattr(size_bias, "NOISE", np.inf)
    found, certificate = ONE_PASS.estimate(replace(example(), correction=BiasCorrection()))
    expected = [
        [214.1628, 57.5636, 16.5366, 2.1066, 2],
        [53.9953, 16.3961, 12.3116, 0.0158, 0],
        [28.9643, 13.3642, 0.0291, 4.6635, 0],
        [2.8776, 2.6760, 1.1227, 1.2140, 0],
    ]
    np.testing.assert_allclose(found, expected, atol=2e-4)
    assert certificate.solves == 2
    plain, _ = ONE_PASS.estimate(example())
    np.testing.assert_allclose(plain[0], [214, 57.25, 16, 1, 2], atol=1e-4)


def housed_family(seed: int, *, unmeasured: int | None = None) -> Family:
    """Five children of one parent with households and facilities; the last has no housing unit."""
    rng = np.random.default_rng(seed)
    parent = rng.poisson(60.0, SMALL.cells) * SMALL.possible
    structures = rng.integers(1, 9, (5, 3))
    structures[4, 0] = 0
    spine = Spine(
        ("R", "B"),
        (np.array(["R"]), np.array(list("abcde"))),
        (np.zeros(1, dtype=np.int64), np.zeros(5, dtype=np.int64)),
    )
    lived = np.zeros((5, SMALL.cells), dtype=np.int64)
    for k, n in enumerate(parent):
        lived[:, k] = rng.multinomial(n, rng.dirichlet(np.ones(5)))
    held = {}
    for q in QUERIES:
        true, v = SMALL.query(q).answer(lived), 40.0 if q == "home" else 6.0
        variance = np.full(5, v)
        if unmeasured is not None:
            variance[unmeasured] = np.inf
        noise = np.rint(rng.normal(0, v**0.5, true.shape)).astype(np.int64)
        held["B", q] = (true + noise, variance)
    cell = np.flatnonzero(parent)
    counts = Histogram.from_triplets(1, SMALL.cells, np.zeros_like(cell), cell, parent[cell])
    bounds = World(SMALL, spine, {}, structures).bounds()["B"].dense()
    (family,) = families(memory(held), SMALL, "B", counts, spine.children("B"), bounds)
    return family


ALL = Passes({"B": (QUERIES,)})


def test_families_are_corrected_together_as_alone() -> None:
    """Bit by bit."""
    some = [replace(housed_family(seed), correction=BiasCorrection(SPREAD, 7)) for seed in range(6)]
    together = ALL.estimates(some)
    for family, (x, certificate) in zip(some, together, strict=True):
        alone, one = ALL.estimate(family)
        assert np.array_equal(x, alone)
        assert certificate == one
        assert family.parent is not None
        np.testing.assert_allclose(x.sum(axis=0), family.parent, atol=1e-6)
        assert (x >= 0).all()
        group = family.bounds.group[family.cell]
        assert not x[4, group == 0].any()  # it has no housing unit


@pytest.mark.parametrize("corrected", [False, True])
def test_what_is_expected_of_a_release_is_the_bias_of_the_worked_example(corrected: bool) -> None:
    """From published counts alone: at their totals if these were corrected, or else at what is left
    of them without their bias. Nobody is created."""
    family = example()
    rows = [[214, 58, 16, 2, 1], [54, 16, 13, 1, 0], [29, 14, 0, 4, 0], [3, 2, 1, 1, 1]]
    published = Histogram.from_triplets(4, 5, *np.indices((4, 5)).reshape(2, -1), np.ravel(rows))
    counts = COUNTS.astype(np.int64)
    above = Histogram.from_triplets(1, 5, np.zeros_like(counts), np.arange(5), counts)
    world = World(family.schema, example_spine(), {}, None)
    held = memory({("B", "detailed"): (np.array(NOISY), np.full(4, 10.0))})
    found = size_bias.expected_bias(
        held,
        world.spine,
        world.bounds()["B"],
        family.schema,
        (published, above),
        corrected=corrected,
    )
    totals = published.totals().astype(float)
    at = totals if corrected else corrected_totals(EXAMPLE, totals, KNOWN, None)
    _, bias, variance = EXAMPLE.bias(at)
    np.testing.assert_allclose(found[0], bias, atol=1e-9)
    assert found[0].argmin() == 0
    assert abs(found[0].sum()) < 1e-6
    # the largest has a quarter more, the smallest and counts that are not corrected have none
    error = variance**0.5 * [1.25, 1, 1, np.nan]
    np.testing.assert_allclose(found[1], error if corrected else np.full(4, np.nan), atol=1e-9)


def test_children_without_a_measurement_of_every_cell_are_left_as_they_are() -> None:
    family = housed_family(3, unmeasured=2)
    plain, certificate = ALL.estimate(family)
    found, same = ALL.estimate(replace(family, correction=BiasCorrection(SPREAD)))
    assert np.array_equal(plain, found)
    assert certificate == same


def test_the_bias_of_large_units_is_gone() -> None:
    """A block of 300 among 14 small ones, 40 times: least squares takes ten persons from it, ten
    standard errors; the corrected estimate is right within three."""
    rng = np.random.default_rng(9)
    attribute = Attribute("kind", tuple(map(str, range(40))))
    schema = Schema("many", (attribute,))
    parts = np.r_[0.6, np.full(39, 0.4 / 39)]
    spine = Spine(
        ("R", "B"),
        (np.array(["R"]), np.array([f"{i:02d}" for i in range(15)])),
        (np.zeros(1, dtype=np.int64), np.zeros(15, dtype=np.int64)),
    )
    bounds = World(schema, spine, {}, None).bounds()["B"].dense()
    one_pass = Passes({"B": (("detailed",),)})
    off = []
    for _ in range(40):
        lived = np.array([rng.multinomial(n, parts) for n in (300, *(20,) * 14)])
        noisy = lived + np.rint(rng.normal(0, 10**0.5, lived.shape)).astype(np.int64)
        held = {("B", "detailed"): (noisy, np.full(15, 10.0))}
        cell = np.flatnonzero(lived.sum(axis=0))
        counts = Histogram.from_triplets(
            1, schema.cells, np.zeros_like(cell), cell, lived.sum(axis=0)[cell]
        )
        (family,) = families(memory(held), schema, "B", counts, spine.children("B"), bounds)
        corrected = replace(family, correction=BiasCorrection())
        off.append([one_pass.estimate(f)[0][0].sum() - 300 for f in (family, corrected)])
    mean, error = np.mean(off, axis=0), np.std(off, axis=0, ddof=1) / 40**0.5
    assert mean[0] < -10 * error[0]
    assert mean[0] < -10
    assert abs(mean[1]) < 3 * error[1] + 1.0


# --- the spread


def simulated(rng: np.random.Generator, n: int, ab: tuple[float, float]) -> DispersionSample:
    mean, free = rng.gamma(1.0, 25.0, n) + 0.05, rng.uniform(0.3, 1.0, n)
    noise = rng.uniform(20.0, 300.0, n)
    variance = free * (ab[0] * mean + ab[1] * mean**2) + noise
    return DispersionSample(mean, rng.normal(0, variance**0.5), noise, free)


@pytest.mark.parametrize("ab", [(3.0, 0.1), (0.0, 0.2), (6.0, 0.0)])
def test_the_fit_finds_what_was_simulated(ab: tuple[float, float]) -> None:
    """Within four standard errors, which hold over 20 fits."""
    spreads = [fitted(simulated(np.random.default_rng(i), 4000, ab)) for i in range(20)]
    found = np.array([(s.linear, s.quadratic) for s in spreads])
    error = found.std(axis=0, ddof=1)
    inner = np.array(ab) > 0  # at an end of what is allowed the mean is not
    assert (
        np.abs(found.mean(axis=0) - ab)[inner]
        < 4 * error[inner] / 20**0.5 + 0.02 * np.array(ab)[inner]
    ).all()
    assert (np.abs(found - ab) < 4.5 * error + 1e-3).all()


def test_another_truth_is_told_apart() -> None:
    a, b = (fitted(simulated(np.random.default_rng(3), 20_000, ab)) for ab in ((3, 0.1), (3, 0.15)))
    assert b.quadratic - a.quadratic > 0.03


def test_a_few_barracks_do_not_move_the_fit() -> None:
    rng = np.random.default_rng(5)
    seen = simulated(rng, 20_000, (3.0, 0.1))
    odd = seen.off.copy()
    odd[rng.choice(len(odd), 40, replace=False)] += 2000.0
    at = np.array([25.0])
    clean, dirty = (float(fitted(s).variance(at)[0]) for s in (seen, replace(seen, off=odd)))
    assert dirty < 1.15 * clean  # unclipped squares: 80 times


def test_what_is_seen_of_a_family_is_what_its_measurements_say() -> None:
    """The sum of households by dense matrices, and the variance of its noise."""
    family = housed_family(2)
    seen = size_bias._seen(family)
    here = family.bounds.group[family.cell] == 0
    rows = [family.answers(q) for q in QUERIES]
    index = [a.query.index[family.cell] for a in rows]
    design = np.concatenate(
        [np.equal.outer(np.arange(a.query.answers), i) for a, i in zip(rows, index, strict=True)]
    )
    weight = np.concatenate([np.full(a.query.answers, 1 / a.variance[0]) for a in rows])
    covariance = np.linalg.inv(design.T @ (weight[:, None] * design))
    noisy = np.concatenate([a.values for a in rows], axis=1)
    own = (covariance @ (design.T @ (weight[:, None] * noisy.T)))[here].sum(axis=0)[:4]
    np.testing.assert_allclose(seen.off + seen.mean, own, rtol=1e-9)
    np.testing.assert_allclose(seen.noise, covariance[np.ix_(here, here)].sum(), rtol=1e-9)
    share = family.bounds.upper[:4, 0] / family.bounds.upper[:, 0].sum()
    np.testing.assert_allclose(seen.free, 1 - share)


def test_where_nothing_spreads_there_is_still_a_variance() -> None:
    quiet = DispersionSample(np.ones(3), np.zeros(3), np.ones(3), np.full(3, 0.5))
    spread = correction_from([quiet]).spread
    assert spread is not None
    assert spread.variance(np.array([4.0]))[0] > 0
    assert correction_from([DispersionSample.nothing()]) == BiasCorrection(None, 0)
    with pytest.raises(InputError, match="no variances come of 0"):
        Dispersion(0.0, 0.0)


# --- the descent


def descended(seed: int, *, correct: bool = False, schema: Schema = SMALL) -> Release:
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 3, 6)
    world = random_world(rng, schema, spine, size=15.0, empty=0.1)
    queries = [q for q in ("total", "home", "race", "detailed") if schema is SMALL or q != "home"]
    source = world.measured(rng, queries, lambda level, q: 30.0)
    method = passes(spine, [queries])
    return topdown(source, spine, world.bounds(), world.universe(), method, correct=correct)


@pytest.mark.parametrize("schema", [SMALL, PLAIN])
def test_the_descent_says_what_it_assumed(schema: Schema) -> None:
    plain, corrected = (descended(4, correct=c, schema=schema) for c in (False, True))
    assert plain.correction is None
    assert corrected.correction is not None
    assert (corrected.correction.spread is None) == (schema is PLAIN)
    for level in ("L0", "L1"):
        assert plain.histograms[level].same_as(corrected.histograms[level])
    assert not plain.histograms["L2"].same_as(corrected.histograms["L2"])


def test_a_correction_needs_one_pass_over_all_cells() -> None:
    rng = np.random.default_rng(1)
    spine = random_spine(rng, 2, 3)
    world = random_world(rng, SMALL, spine)
    for queries, names in (
        (("total", "race"), [("total", "race")]),
        (QUERIES, [("total",), QUERIES[1:]]),
    ):
        source = world.measured(rng, queries, 4.0)
        with pytest.raises(
            InputError, match="can be corrected only if it is estimated in one pass"
        ):
            topdown(
                source, spine, world.bounds(), world.universe(), passes(spine, names), correct=True
            )
