"""Rounding an estimate: every constraint exact, the rest as near as can be, and room for what lies
below.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InfeasibleError
from das.estimate.descent import topdown
from das.model.constraint import Bounds
from das.model.measurement import Estimate
from das.model.redistricting import E2E_1940
from das.model.schema import Schema
from das.model.solution import Certificate
from tests.estimate.world import PLAIN, SMALL, passes, random_spine, random_world
from tests.oracles import can_be_shared_out
from tests.rounding.one import round_estimate

GROUP = SMALL.level_of("home")
WIDE = 1 << 30


def bounds(lower: np.ndarray, upper: np.ndarray, total: np.ndarray | None = None) -> Bounds:
    return Bounds(GROUP, lower, upper, total, SMALL.possible)


def halves(rng: np.random.Generator, children: int) -> Estimate:
    """A few cells, halves and quarters, columns that sum to whole numbers."""
    cell = np.sort(rng.choice(np.flatnonzero(SMALL.possible), 4, replace=False))
    x = rng.integers(0, 9, (children, len(cell))) / 4
    x[-1] += np.ceil(x.sum(axis=0)) - x.sum(axis=0)
    return Estimate(0, cell, np.rint(x.sum(axis=0)).astype(np.int64), x, Certificate())


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_bounds_and_totals_hold_exactly_and_no_nearer_rounding_does(seed: int) -> None:
    """Brute force over floors and ceilings, in the objective of the chain cell, race and home,
    home, total.
    """
    rng = np.random.default_rng(seed)
    e = halves(rng, 2)
    witness = np.floor(e.x)
    for k in range(4):  # a rounding of x with the right sums
        short = int(e.parent[k] - witness[:, k].sum())
        up = rng.permutation(np.flatnonzero(e.x[:, k] > witness[:, k]))[:short]
        witness[up, k] += 1
    held = np.stack([witness[:, GROUP[e.cell] == g].sum(axis=1) for g in range(3)], axis=1).astype(
        np.int64
    )
    total = witness.sum(axis=1).astype(np.int64) if rng.random() < 0.5 else None
    loose = rng.integers(0, 3, (2, *held.shape))
    b = bounds(np.maximum(held - loose[0], 0), held + loose[1], total)
    chain = [SMALL.query("home * race"), SMALL.query("home")]
    rounded, certificate = round_estimate(e, b, chain)
    n = rounded.dense()[:, e.cell]
    assert certificate.widened == 0
    assert np.array_equal(n.sum(axis=0), e.parent)
    partitions = [
        (np.arange(4), 1.0),
        (chain[0].index[e.cell], 1.0),
        (GROUP[e.cell], 1.0),
        (np.zeros(4, int), 64.0),
    ]

    def objective(m: np.ndarray) -> float:
        return sum(
            w * abs((m - e.x)[:, index == g].sum(axis=1)).sum()
            for index, w in partitions
            for g in np.unique(index)
        )

    def allowed(m: np.ndarray) -> bool:
        sums = np.stack([m[:, GROUP[e.cell] == g].sum(axis=1) for g in range(3)], axis=1)
        inside = (
            (sums >= b.lower).all()
            and (sums <= b.upper).all()
            and np.array_equal(m.sum(axis=0), e.parent)
        )
        return bool(inside and (total is None or np.array_equal(m.sum(axis=1), total)))

    free = np.argwhere(e.x > np.floor(e.x))
    best = np.inf
    for up in product((0, 1), repeat=len(free)):
        m = np.floor(e.x)
        m[tuple(free.T)] += up
        if allowed(m):
            best = min(best, objective(m))
    assert allowed(n)
    assert objective(n) <= best + 40 / 4096


@pytest.mark.parametrize("schema", [SMALL, E2E_1940], ids=lambda s: s.name)
def test_what_is_rounded_can_be_shared_out_below(schema: Schema) -> None:
    """Whatever the noise, each unit's dwelling groups fit its descendants' facilities and totals:
    linear programs.
    """
    checked = 0
    for seed in range(60 if schema is SMALL else 12):
        rng = np.random.default_rng(seed)
        spine = random_spine(rng, 4, 4)
        world = random_world(rng, schema, spine, size=1.0, facilities=0.6, empty=0.5)
        all_bounds = world.bounds("L3")
        source = world.measured(rng, ["total", "detailed"], float(rng.choice([1.0, 1e3, 1e6])))
        release = topdown(
            source, spine, all_bounds, world.universe(), passes(spine, [["total", "detailed"]])
        )
        for level in ("L0", "L1", "L2"):
            b, above, certificates = (
                all_bounds[level],
                release.histograms[level],
                release.certificates,
            )
            assert (
                certificates[level].rounding.widened,
                certificates[level].estimation.repaired,
            ) == (0, 0)
            home, low = spine.up("L3", level), all_bounds["L3"].dense()
            held = np.stack(
                [above.dense()[:, b.group == g].sum(axis=1) for g in range(b.groups)], axis=1
            )
            for unit in range(above.units):
                below = home == unit
                assert low.total is not None
                assert can_be_shared_out(
                    held[unit], low.lower[below], low.upper[below], low.total[below]
                )
                checked += b.reach is not None
    assert checked > 20


def test_without_the_descendants_it_would_not_fit() -> None:
    """The nearest rounding is one that the only descendants cannot share out; with them given, it
    is not taken.
    """
    cell = np.array([0, 6])  # a household and facility a
    e = Estimate(0, cell, np.array([1, 1]), np.array([[0.9, 0.1], [0.1, 0.9]]), Certificate())
    b = bounds(np.zeros((2, 3), dtype=np.int64), np.full((2, 3), WIDE))
    alone = round_estimate(e, b, [])[0].dense()[:, cell]
    assert alone.tolist() == [[1, 0], [0, 1]]
    lower, upper = np.zeros((2, 3), dtype=np.int64), np.array([[0, 9, 0], [9, 0, 0]])
    below = (np.arange(2), Bounds(GROUP, lower, upper, np.array([1, 1]), SMALL.possible))
    assert round_estimate(e, b, [], below)[0].dense()[:, cell].tolist() == [[0, 1], [1, 0]]


def test_leaving_floor_and_ceiling_is_counted() -> None:
    cell = np.array([0, 6])
    e = Estimate(0, cell, np.array([4, 4]), np.array([[3.5, 0.5], [0.5, 3.5]]), Certificate())
    exact = np.array([[1, 3, 0], [3, 1, 0]])
    rounded, certificate = round_estimate(e, bounds(exact, exact), [])
    assert rounded.dense()[:, cell].tolist() == [[1, 3], [3, 1]]
    assert certificate.widened == 1


def test_what_cannot_be_met_is_an_error() -> None:
    e = Estimate(0, np.array([0]), np.array([2]), np.array([[1.5], [0.5]]), Certificate())
    with pytest.raises(InfeasibleError):
        round_estimate(e, bounds(np.array([[2, 0, 0], [1, 0, 0]]), np.full((2, 3), WIDE)), [])


def test_the_root_keeps_its_known_total_and_rounds_one_that_is_not_known() -> None:
    x = np.array([[1.5, 2.4]])
    e = Estimate(0, np.array([0, 6]), None, x, Certificate())
    none, wide = np.zeros((1, 3), dtype=np.int64), np.full((1, 3), WIDE)
    assert round_estimate(e, bounds(none, wide, np.array([5])), [])[0].totals().tolist() == [5]
    assert round_estimate(e, bounds(none, wide), [])[0].totals().tolist() == [4]


def test_queries_that_say_no_more_than_the_dwelling_are_left_out_of_the_chain() -> None:
    """``home`` and ``total`` in a chain would stand on the wrong side of the dwelling groups."""
    rng = np.random.default_rng(1)
    e = halves(rng, 3)
    b = bounds(np.zeros((3, 3), dtype=np.int64), np.full((3, 3), WIDE))
    short = round_estimate(e, b, [SMALL.query("home * race")])[0]
    long = round_estimate(
        e, b, [SMALL.query("home * race"), SMALL.query("home"), SMALL.query("total")]
    )[0]
    assert short.same_as(long)


def test_a_chain_across_the_dwelling_is_refused() -> None:
    e = halves(np.random.default_rng(2), 2)
    cell = np.flatnonzero(SMALL.possible)
    e = Estimate(
        0, cell, np.ones(len(cell), dtype=np.int64), np.full((2, len(cell)), 0.5), Certificate()
    )
    b = bounds(np.zeros((2, 3), dtype=np.int64), np.full((2, 3), WIDE))
    with pytest.raises(ValueError, match="not laminar"):
        round_estimate(e, b, [SMALL.query("race")])


def test_nobody_is_rounded_to_nobody() -> None:
    none = np.zeros(0, dtype=np.int64)
    e = Estimate(0, none, none, np.zeros((3, 0)), Certificate())
    rounded, certificate = round_estimate(
        e, bounds(np.zeros((3, 3), dtype=np.int64), np.full((3, 3), WIDE)), []
    )
    assert rounded.units == 3
    assert rounded.cells == SMALL.cells
    assert len(rounded.cell) == 0
    assert certificate == Certificate()


def test_a_schema_without_dwellings() -> None:
    x = np.array([[0.25, 0.75], [0.75, 0.25]])
    e = Estimate(0, np.array([0, 1]), np.array([1, 1]), x, Certificate())
    one = np.zeros(PLAIN.cells, dtype=np.intp)
    b = Bounds(
        one,
        np.zeros((2, 1), dtype=np.int64),
        np.full((2, 1), WIDE),
        np.array([1, 1]),
        PLAIN.possible,
    )
    assert round_estimate(e, b, [PLAIN.query("race")])[0].dense()[:, :2].tolist() == [
        [0, 1],
        [1, 0],
    ]
