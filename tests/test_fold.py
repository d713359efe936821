"""The walk over a tree against dense least squares: random trees, parts between siblings and their
parents, known totals, units that are not measured."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.fold import Tiers, down, top, up
from das.model.constraint import JointTotals
from das.model.spine import Spine
from tests.estimate.world import random_spine

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Gaussian = tuple[Array, Array]  # means (units, cells), covariances (units, cells, cells)
CELLS = 2


@dataclass(eq=False)
class Plain:
    """An algebra without any device: means and covariances of all cells. Nothing is measured of
    parts; a lowest unit is measured always."""

    tiers: Tiers
    values: list[Array]
    precision: list[Array]
    known: dict[int, Gaussian] = field(default_factory=dict)
    told: dict[int, Gaussian] = field(default_factory=dict)

    def condition(self, tier: int, told: Gaussian | None) -> Gaussian:
        y, p = self.values[tier], self.precision[tier]
        if told is None:
            covariance = np.linalg.inv(p)
            mean = np.einsum("uij,ujk,uk->ui", covariance, p, y)
        else:
            s, spread = told
            covariance = np.linalg.solve(np.eye(CELLS) + spread @ p, spread)
            mean = s + np.einsum("uij,ujk,uk->ui", covariance, p, y - s)
        total = self.tiers.total[tier]
        if total is not None:
            one = covariance.sum(axis=-1)
            share = one / one.sum(axis=-1)[:, None]
            mean = mean + share * (total - mean.sum(axis=-1))[:, None]
            covariance = covariance - share[:, :, None] * one[:, None, :]
        return mean, covariance

    def combine(self, tier: int, known: Gaussian) -> Gaussian:
        n = self.tiers.units(tier - 1)
        out = np.zeros((n, CELLS)), np.zeros((n, CELLS, CELLS))
        for total, each in zip(out, known, strict=True):
            np.add.at(total, self.tiers.parents[tier], each)
        return out

    def restrict(self, tier: int, above: Gaussian) -> Gaussian:
        parent = self.tiers.parents[tier]
        (mu, c), (s, spread), (x, v) = self.known[tier], self.told[tier - 1], above
        back = np.linalg.pinv(spread, rcond=1e-10, hermitian=True)
        gain = c @ back[parent]
        mean = mu + np.einsum("uij,uj->ui", gain, (x - s)[parent])
        return mean, c - gain @ (spread - v)[parent] @ np.swapaxes(gain, -1, -2)

    def both_ways(self, told: Gaussian | None, last: int) -> list[Gaussian]:
        """What every tier is in the end, root first."""
        for tier, known, said in up(self, told, last):
            self.known[tier] = known
            if said is not None:
                self.told[tier - 1] = said
        root = self.known[0]
        return [root, *(found for _, found in down(self, root, 1, last))]


def tree(rng: np.random.Generator, known: str | None, joint: bool) -> Tiers:
    spine = random_spine(rng, 4, 3)
    parts = None
    if joint:
        depth = int(rng.integers(1, 4))
        pair = spine.parent[depth] * 10 + rng.integers(0, 2, len(spine.parent[depth]))
        part = np.unique(pair, return_inverse=True)[1].ravel()
        parts = spine.levels[depth], JointTotals(part, rng.integers(0, 50, part.max() + 1))
    return Tiers.from_spine(
        spine, {known: rng.integers(0, 50, spine.units(known))} if known else {}, parts
    )


def measured(rng: np.random.Generator, tiers: Tiers) -> tuple[list[Array], list[Array]]:
    """Values and precisions; of parts, and of some units above the lowest, nothing."""
    values, precision = [], []
    for tier, level in enumerate(tiers.level):
        root = rng.normal(size=(tiers.units(tier), CELLS, CELLS))
        each = root @ np.swapaxes(root, -1, -2) + 0.2 * np.eye(CELLS)
        if tier < len(tiers) - 1:
            each = each * (rng.random(len(each)) < (0.7 if level else 0.0))[:, None, None]
        precision.append(each)
        values.append(rng.normal(10, 3, (len(each), CELLS)))
    return values, precision


def inside(tiers: Tiers, tier: int) -> Array:
    """Which lowest units lie in which unit of a tier, ``(units, lowest units)``."""
    home = np.arange(tiers.units(len(tiers) - 1))
    for below in range(len(tiers) - 1, tier, -1):
        home = tiers.parents[below][home]
    return (home[None, :] == np.arange(tiers.units(tier))[:, None]).astype(float)


def dense(tiers: Tiers, values: list[Array], precision: list[Array]) -> list[Gaussian]:
    """Least squares of all cells of all lowest units at once, with the totals as equations."""
    eye, n = np.eye(CELLS), CELLS * tiers.units(len(tiers) - 1)
    rows = [np.kron(inside(tiers, t), eye) for t in range(len(tiers))]
    normal, rhs = np.zeros((n, n)), np.zeros(n)
    for row, y, p in zip(rows, values, precision, strict=True):
        weight = np.zeros((y.size, y.size))
        for u in range(len(y)):
            weight[CELLS * u : CELLS * (u + 1), CELLS * u : CELLS * (u + 1)] = p[u]
        normal += row.T @ weight @ row
        rhs += row.T @ weight @ y.ravel()
    start, free = np.zeros(n), np.eye(n)
    for tier, total in enumerate(tiers.total):
        if total is not None:
            equations = np.kron(inside(tiers, tier), np.ones((1, CELLS)))
            start = np.linalg.lstsq(equations, total, rcond=None)[0]
            free = np.linalg.svd(equations)[2][np.linalg.matrix_rank(equations) :].T
    covariance = free @ np.linalg.inv(free.T @ normal @ free) @ free.T
    mean = start + covariance @ (rhs - normal @ start)
    out = []
    for row in rows:
        units = len(row) // CELLS
        spread = (row @ covariance @ row.T).reshape(units, CELLS, units, CELLS)
        each = spread[np.arange(units), :, np.arange(units)]
        out.append(((row @ mean).reshape(units, CELLS), each))
    return out


def close(found: list[Gaussian], expected: list[Gaussian]) -> None:
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("known", [None, "L0", "L2", "L3", "joint"])
@given(seed=st.integers(0, 10**6))
def test_up_and_down_is_least_squares_of_everything(known: str | None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tiers = tree(rng, known if known != "joint" else None, known == "joint")
    values, precision = measured(rng, tiers)
    found = Plain(tiers, values, precision).both_ways(None, len(tiers) - 1)
    close(found, dense(tiers, values, precision))


@pytest.mark.parametrize("joint", [False, True])
@given(seed=st.integers(0, 10**6), cuts=st.integers(0, 3))
def test_families_of_the_lowest_level_can_be_told_of_apart(
    joint: bool, seed: int, cuts: int
) -> None:
    """What some families say at a time is what the tier above hears, parts or not."""
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 3, 3)
    parent, parts = spine.parent[-1], None
    if joint:  # parts that do not lie one after the other
        part = np.unique(parent + 100 * rng.integers(0, 2, len(parent)), return_inverse=True)[1]
        parts = spine.levels[-1], JointTotals(part, rng.integers(0, 50, part.max() + 1))
    tiers = Tiers.from_spine(spine, {}, parts)
    values, precision = measured(rng, tiers)
    last = len(tiers) - 1
    starts = np.append(np.flatnonzero(np.diff(parent, prepend=-1)), len(parent))
    some = np.unique([0, *rng.integers(0, len(starts), cuts), len(starts) - 1])
    told = []
    for start, stop in zip(starts[some][:-1], starts[some][1:], strict=True):
        here = tiers.families(int(start), int(stop))
        own, above = slice(int(start), int(stop)), range(len(here) - 1)
        apart = Plain(
            here,
            [*(np.zeros((here.units(t), CELLS)) for t in above), values[last][own]],
            [*(np.zeros((here.units(t), CELLS, CELLS)) for t in above), precision[last][own]],
        )
        *_, (_, _, said) = up(apart, None, len(here) - 1, 1)
        told.append(said)
    mean, covariance = (np.concatenate(x) for x in zip(*told, strict=True))
    whole = Plain(tiers, values, precision)
    expected = whole.both_ways(None, last)
    again = Plain(tiers, values, precision)
    depth = tiers.level.index(spine.levels[-2])
    close([(mean, covariance)], [whole.told[depth]])
    close(again.both_ways((mean, covariance), depth), expected[: depth + 1])


def test_a_walk_may_stop_below_the_root_and_then_says_what_that_hears() -> None:
    rng = np.random.default_rng(3)
    tiers = tree(rng, None, False)
    values, precision = measured(rng, tiers)
    whole = Plain(tiers, values, precision)
    whole.both_ways(None, 3)
    walked = list(up(Plain(tiers, values, precision), None, 3, 2))
    assert [tier for tier, _, _ in walked] == [3, 2]
    said = walked[-1][2]
    assert said is not None
    close([said], [whole.told[1]])
    *_, (tier, _, nothing) = up(Plain(tiers, values, precision), said, 1)
    assert (tier, nothing) == (0, None)
    assert not list(down(whole, whole.known[0], 1, 0))


def test_parts_are_a_tier_of_their_own() -> None:
    spine = Spine.from_frame({"A": ["x", "x", "y"], "B": ["x1", "x2", "y1"]}, ["R", "A", "B"])
    tiers = Tiers.from_spine(
        spine, {}, ("B", JointTotals(np.array([1, 0, 2]), np.array([5, 6, 7])))
    )
    assert tiers.level == ("R", "A", "", "B")
    assert [p.tolist() for p in tiers.parents] == [[0], [0, 0], [0, 0, 1], [1, 0, 2]]
    assert tiers.total[2] is not None
    assert tiers.total[2].tolist() == [5, 6, 7]
    here = tiers.families(2, 3)
    assert here.level == ("A", "", "B")
    assert [p.tolist() for p in here.parents] == [[0], [0], [0]]
    assert here.total[1] is not None
    assert here.total[1].tolist() == [7]


def test_only_children_are_those_without_siblings_and_the_root_is_none() -> None:
    tiers = Tiers.from_spine(
        Spine.from_frame({"A": ["x", "x", "y"], "B": ["1", "2", "3"]}, ["R", "A", "B"])
    )
    assert [a.tolist() for a in tiers.alone] == [[False], [False, False], [False, False, True]]
    assert Tiers.from_spine(Spine.from_frame({"R": ["x"]}, ["R"])).alone[0].tolist() == [False]


def test_a_walk_from_no_tier_finds_no_root() -> None:
    rng = np.random.default_rng(5)
    tiers = tree(rng, None, False)
    plain = Plain(tiers, *measured(rng, tiers))
    close([top(plain, None, 3)], [plain.both_ways(None, 3)[0]])
    with pytest.raises(ValueError, match="no tier -1"):
        top(plain, None, -1)
