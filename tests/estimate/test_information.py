"""Full information against dense generalized least squares: every leaf cell of the tree a variable,
no algebra.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2

from das.estimate import information as full
from das.estimate.information import Contrasts
from das.estimate.summed import Unbiased, answers, descend
from das.estimate.upward_pass import SubtreeEstimates, upward_pass
from das.model.constraint import LevelBounds
from das.model.measured_spine import MeasuredSpine
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.query import Grouping, Query
from das.model.redistricting import PL94
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.noise import discrete_gaussian
from das.noise.entropy import seeded
from tests.estimate.world import PLAIN, SMALL, Held, World, memory, random_spine, random_world
from tests.oracles import dense

Array = NDArray[np.float64]

GROUPED = Schema(
    "grouped",
    (
        Attribute("race", ("w", "x", "y", "z")),
        Attribute("sex", ("f", "m")),
        Attribute("home", ("household", "a")),
    ),
    recodes=(Grouping("white", "race", ("w", "not-w"), (0, 1, 1, 1)),),
    dwelling="home",
)
ONE_LEVEL = Schema("one-level", (Attribute("only", ("one",)), Attribute("race", ("x", "y", "z"))))
MEASURED = {
    "small": ("total", "home", "age * race", "detailed"),
    "plain": ("total", "race", "detailed"),
    "grouped": ("total", "white * sex", "home * race", "detailed"),
    "one-level": ("total", "race", "detailed"),
}
ASKED = {
    "small": ("home * age", "race", "home * race"),
    "plain": ("age",),
    "grouped": ("race", "sex", "white * home"),
    "one-level": ("only",),
}
SCHEMAS = {s.name: s for s in (SMALL, PLAIN, GROUPED, ONE_LEVEL)}


def queries(schema: Schema, *more: str) -> list[Query]:
    return [schema.query(q) for q in (*MEASURED[schema.name], *more)]


# --- the algebra
# ---------------------------------------------------------------------------------------------


def matrix(contrasts: Contrasts, operator: Array) -> Array:
    """An operator as a matrix over the cells: the sum of its blocks, each times its projection."""
    k = contrasts.schema.cells
    projections = []
    for kind in contrasts.kinds:
        p: Array = np.eye(1)
        for n, contrast in zip(contrasts.sizes, kind, strict=True):
            mean = np.full((n, n), 1 / n)
            p = np.kron(p, np.eye(n) - mean if contrast else mean)
        projections.append(p)
    in_order = sum(
        (np.kron(b, p) for b, p in zip(operator, projections, strict=True)), np.zeros((k, k))
    )
    out = np.empty((k, k))
    out[np.ix_(contrasts.order, contrasts.order)] = in_order
    return out


def random_operator(contrasts: Contrasts, rng: np.random.Generator) -> Array:
    """Symmetric and definite, different on every contrast."""
    root = rng.normal(size=(len(contrasts.kinds), contrasts.d, contrasts.d))
    return root @ np.swapaxes(root, -1, -2) + np.eye(contrasts.d)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_a_query_is_its_dense_gram_matrix(schema: Schema) -> None:
    contrasts = Contrasts.for_queries(schema, queries(schema, *ASKED[schema.name]))
    for query in queries(schema, *ASKED[schema.name]):
        q = dense(schema, query)
        assert np.allclose(matrix(contrasts, contrasts.query(query)), q.T @ q), query.name
        assert np.array_equal(contrasts.answers(query).ravel(), query.index[contrasts.order])


def test_axes_are_dense_where_a_grouping_a_dwelling_or_a_structural_zero_needs_them() -> None:
    assert Contrasts.for_queries(SMALL, queries(SMALL)).plain == (
        2,
    )  # home dwells; home x age has a zero
    assert Contrasts.for_queries(PLAIN, queries(PLAIN)).plain == (0, 1)
    assert Contrasts.for_queries(GROUPED, queries(GROUPED)).plain == (
        1,
    )  # race is grouped, home dwells
    assert Contrasts.for_queries(GROUPED, [GROUPED.query("detailed")]).plain == (0, 1)
    contrasts = Contrasts.for_queries(PL94, [PL94.query("detailed")])
    assert (contrasts.d, contrasts.sizes) == (16, (2, 63))


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_apply_and_on_cells_are_those_of_the_matrix(schema: Schema) -> None:
    rng = np.random.default_rng(1)
    contrasts = Contrasts.for_queries(schema, queries(schema))
    operator = random_operator(contrasts, rng)
    x = rng.normal(size=(3, schema.cells))
    whole = matrix(contrasts, operator)
    tensor = x[:, contrasts.order].reshape(3, contrasts.d, *contrasts.sizes)
    assert np.allclose(
        contrasts.apply(operator, tensor).reshape(3, -1)[:, contrasts.place], x @ whole
    )
    cell = np.sort(rng.choice(schema.cells, max(1, schema.cells * 2 // 3), replace=False))
    assert np.allclose(contrasts.on_cells(operator, cell), whole[np.ix_(cell, cell)])
    both = np.stack([operator, 2 * operator])
    assert np.allclose(
        contrasts.on_cells(both, cell), np.stack([1, 2])[:, None, None] * whole[np.ix_(cell, cell)]
    )


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_the_inverse_is_that_of_the_matrix_on_the_support(schema: Schema) -> None:
    rng = np.random.default_rng(2)
    contrasts = Contrasts.for_queries(schema, queries(schema))
    operator = random_operator(contrasts, rng)
    for support in (
        np.ones(contrasts.d, dtype=bool),
        np.arange(contrasts.d) % 2 == 0,
        np.zeros(contrasts.d, dtype=bool),
    ):
        inverse = matrix(contrasts, contrasts.inverse(operator, support))
        per_cell = np.repeat(support, contrasts.schema.cells // contrasts.d)[contrasts.place]
        cell = np.flatnonzero(per_cell)
        assert np.allclose(
            inverse[np.ix_(cell, cell)] @ matrix(contrasts, operator)[np.ix_(cell, cell)],
            np.eye(len(cell)),
        )
        assert not inverse[~per_cell].any()
        assert not inverse[:, ~per_cell].any()


# --- the two passes
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Passes:
    """All that the two passes say, by level."""

    known: SubtreeEstimates
    unbiased: Mapping[str, Unbiased]

    @property
    def contrasts(self) -> Contrasts:
        return self.known.contrasts


def passes(world: World, held: Held, bounds: Mapping[str, LevelBounds]) -> Passes:
    """Up the tree and down; and one step further, to its lowest level."""
    source, spine = memory(held), world.spine
    known = upward_pass(source, spine, bounds, world.universe())
    unbiased = dict(known.down())
    above, lowest = spine.levels[-2:]
    leaves = full.own(
        source,
        lowest,
        known.contrasts,
        known.queries[lowest],
        bounds[lowest].dense(),
        0,
        spine.units(lowest),
    )
    unbiased[lowest] = descend(
        known.contrasts, leaves, spine.parent[-1], unbiased[above], known.below(above)
    )
    return Passes(known, unbiased)


def measured(
    world: World,
    rng: np.random.Generator,
    *,
    unmeasured: bool = False,
    tree: MeasuredSpine | None = None,
) -> Held:
    """Answers with normal noise, a variance of its own for each unit and query. ``unmeasured``
    leaves out some queries of units that are not at the lowest level, ``tree`` all of units that it
    says are not measured."""
    held = {}
    for level in world.spine.levels:
        for name in MEASURED[world.schema.name]:
            true = world.truth[level].answer(world.schema.query(name))
            variance = rng.uniform(0.5, 30, len(true))
            noisy = true + np.rint(rng.normal(size=true.shape) * np.sqrt(variance)[:, None]).astype(
                np.int64
            )
            if unmeasured and level != world.spine.levels[-1]:
                lost = rng.random(len(true)) < 0.3
                variance[lost], noisy[lost] = np.inf, -(10**6)
            if tree is not None:
                variance[~tree.measured(level)], noisy[~tree.measured(level)] = np.inf, 0
            held[level, name] = noisy, variance
    return held


@dataclass(frozen=True)
class DenseGls:
    """The estimate and the covariance of every cell of every lowest unit, by one big system."""

    world: World
    mean: Array
    covariance: Array

    def answers(self, level: str, query: Query) -> tuple[Array, Array]:
        """Values and standard errors, ``(units, answers)``."""
        q, places = dense(self.world.schema, query), self._places(level)
        rows = np.kron(places, q)
        value, variance = rows @ self.mean, np.einsum("ij,jk,ik->i", rows, self.covariance, rows)
        shape = (len(places), len(q))
        return value.reshape(shape), np.sqrt(np.maximum(variance, 0)).reshape(shape)

    def _places(self, level: str) -> Array:
        return membership(self.world.spine, level)


def membership(spine: Spine, level: str) -> Array:
    """Which lowest units lie in which unit of a level, ``(units, lowest units)``."""
    home = spine.up(spine.levels[-1], level)
    return (home[None, :] == np.arange(spine.units(level))[:, None]).astype(float)


def gls(world: World, held: Held, bounds: Mapping[str, LevelBounds]) -> DenseGls:
    """Least squares over all leaf cells that bounds allow, with known totals as equations (a KKT
    system).
    """
    schema, spine = world.schema, world.spine
    lowest = bounds[spine.levels[-1]].dense()
    free = np.flatnonzero(((lowest.upper[:, lowest.group] > 0) & lowest.possible).ravel())
    size = spine.units(spine.levels[-1]) * schema.cells
    normal, rhs = np.zeros((size, size)), np.zeros(size)
    for (level, name), (values, variance) in held.items():
        weight = np.repeat(1 / variance, values.shape[1])
        rows = np.kron(membership(spine, level), dense(schema, schema.query(name)))
        normal += rows.T @ (weight[:, None] * rows)
        rhs += rows.T @ (weight * np.where(weight > 0, values.ravel(), 0))
    known = [lv for lv in spine.levels if bounds[lv].total is not None][-1:]
    equations: Array = np.zeros((0, len(free)))
    totals: Array = np.zeros(0)
    for level in known:
        equations = np.kron(membership(spine, level), np.ones((1, schema.cells)))[:, free].astype(
            float
        )
        totals = np.asarray(bounds[level].total, dtype=float)
        some = equations.any(axis=1)
        equations, totals = equations[some], totals[some]
    for level in spine.levels:
        if (joint := bounds[level].joint) is not None:
            within = (joint.part == np.arange(len(joint.total))[:, None]).astype(float)
            equations = np.kron(within @ membership(spine, level), np.ones((1, schema.cells)))[
                :, free
            ]
            some = equations.any(axis=1)
            equations, totals = equations[some], joint.total[some].astype(float)
    n = len(free)
    system = np.block(
        [[normal[np.ix_(free, free)], equations.T], [equations, np.zeros((len(totals),) * 2)]]
    )
    inverse = np.linalg.inv(system)
    mean, covariance = np.zeros(size), np.zeros((size, size))
    mean[free] = (inverse @ np.concatenate([rhs[free], totals]))[:n]
    covariance[np.ix_(free, free)] = inverse[:n, :n]
    return DenseGls(world, mean, covariance)


def compare(world: World, found: Passes, oracle: DenseGls, *, mean: float, error: float) -> None:
    for level in world.spine.levels:
        for query in queries(world.schema, *ASKED[world.schema.name]):
            value, deviation = answers(found.contrasts, found.unbiased[level], query)
            expected, of_oracle = oracle.answers(level, query)
            assert np.abs(value - expected).max() < mean, (level, query.name)
            assert np.abs(deviation - of_oracle).max() < error, (level, query.name)
    published = list(found.known.unbiased())
    assert [level for level, *_ in published] == [
        level for level in world.spine.levels[:-1] for _ in found.known.queries[level]
    ]
    for level, query, value, deviation in published:
        expected, of_oracle = oracle.answers(level, query)
        assert np.abs(value - expected).max() < mean, (level, query.name)
        assert np.abs(deviation - of_oracle).max() < error, (level, query.name)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_two_passes_are_dense_generalized_least_squares(schema: Schema, seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = random_world(rng, schema, random_spine(rng, 3, 3), empty=0.5)
    held, bounds = measured(world, rng, unmeasured=True), world.bounds()
    found = passes(world, held, bounds)
    compare(world, found, gls(world, held, bounds), mean=1e-4, error=1e-5)


def in_parts(rng: np.random.Generator, spine: Spine, level: str) -> NDArray[np.intp]:
    """Siblings of a level in parts of one, two or more."""
    parent = spine.parent[spine.index(level)]
    pair = parent * 1000 + rng.integers(0, np.maximum(1, np.bincount(parent)[parent] - 1))
    return np.unique(pair, return_inverse=True)[1].ravel()


def settles_more(world: World, bounds: Mapping[str, LevelBounds], at: str) -> bool:
    """Whether known totals of ``at`` settle more of some unit above than its total. A sum of cells
    of a unit is settled if every total below counts all of them that are its, or none: cells that
    one total counts are linked, and each component of linked cells is settled as a sum. So, if
    there are two."""
    lowest = bounds[world.spine.levels[-1]].dense()
    held = membership(world.spine, at) @ ((lowest.upper[:, lowest.group] > 0) & lowest.possible) > 0
    if (joint := bounds[at].joint) is not None:
        held = (joint.part == np.arange(len(joint.total))[:, None]) @ held
    for level in world.spine.levels[: world.spine.index(at)]:
        home = world.spine.up(at, level)
        if joint is not None:
            home = joint.homes(home)
        for unit in range(world.spine.units(level)):
            own = held[home == unit]
            nobody = int((~own.any(axis=0)).sum())
            if connected_components(own.T.astype(int) @ own)[0] - nobody > 1:
                return True
    return False


@pytest.mark.parametrize("known", [None, "total", "joint"])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
@given(seed=st.integers(0, 10**6), at=st.sampled_from(["L1", "L2"]))
@settings(max_examples=6)
def test_irregular_trees_are_dense_generalized_least_squares(
    schema: Schema, known: str | None, seed: int, at: str
) -> None:
    """Only children whose parents are measured instead of them; units of one level, each with its
    own noise; totals of single units or of several together. They agree exactly, except for
    rounding. Where totals settle more than totals, that keeps a little variance."""
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 4, 3)
    world = random_world(rng, schema, spine, empty=0.3)
    tree = MeasuredSpine.bypassed(spine, np.arange(spine.units("L3")))
    held = measured(world, rng, tree=tree)
    bounds = world.bounds(
        at if known else None, in_parts(rng, spine, at) if known == "joint" else None
    )
    close = 2e-3 if known and settles_more(world, bounds, at) else 1e-9
    found, oracle = passes(world, held, bounds), gls(world, held, bounds)
    for level in spine.levels:
        for query in queries(schema, *ASKED[schema.name]):
            value, deviation = answers(found.contrasts, found.unbiased[level], query)
            expected, of_oracle = oracle.answers(level, query)
            assert np.abs(value - expected).max() < close * (1 + np.abs(expected).max()), (
                level,
                query.name,
            )
            assert np.abs(deviation**2 - of_oracle**2).max() < close, (level, query.name)


@pytest.mark.parametrize("level", ["L0", "L1", "L3"])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_known_totals_are_equations(schema: Schema, level: str) -> None:
    rng = np.random.default_rng(11)
    world = random_world(rng, schema, random_spine(rng, 4, 2), empty=0.3)
    held, bounds = measured(world, rng), world.bounds(level)
    found = passes(world, held, bounds)
    # a known total is a measurement of variance 1e-4: a standard error of 0.01 in place of none
    compare(world, found, gls(world, held, bounds), mean=0.01, error=0.012)
    value, deviation = answers(found.contrasts, found.unbiased[level], schema.query("total"))
    assert np.abs(value[:, 0] - world.truth[level].totals()).max() < 0.01
    assert deviation.max() < 0.011


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_a_known_total_of_three_hundred_million_comes_out_as_it_is_known(level: str) -> None:
    """And every other answer is what it is of a small nation, moved: the same noise, fewer digits
    left for it.
    """
    rng = np.random.default_rng(11)
    small = random_world(rng, PLAIN, random_spine(rng, 4, 2), empty=0.3)
    lowest = small.spine.levels[-1]
    h = small.truth[lowest]
    first = h.indptr[:-1][np.diff(h.indptr) > 0]
    count = h.count.copy()
    count[first] += 300_000_000 // len(first)
    truth = {lowest: replace(h, count=count)}
    for depth in range(len(small.spine) - 1, 0, -1):
        up, here = small.spine.levels[depth - 1 : depth + 1]
        truth[up] = truth[here].up(small.spine.parent[depth], small.spine.units(up))
    large = replace(small, truth=truth)
    found = [
        passes(w, measured(w, np.random.default_rng(1)), w.bounds(level)) for w in (small, large)
    ]
    for lv in small.spine.levels[: small.spine.levels.index(level) + 1]:
        value, _ = answers(found[1].contrasts, found[1].unbiased[lv], PLAIN.query("total"))
        assert np.abs(value[:, 0] - large.truth[lv].totals()).max() < 1e-5
    for lv in small.spine.levels:
        moved = large.truth[lv].answer(PLAIN.query("detailed")) - small.truth[lv].answer(
            PLAIN.query("detailed")
        )
        (one, error), (other, _) = (
            answers(f.contrasts, f.unbiased[lv], PLAIN.query("detailed")) for f in found
        )
        assert (np.abs(other - moved - one) <= 0.05 + 0.02 * error).all(), lv


def test_where_a_support_is_empty_nothing_is_said_and_nothing_spoilt() -> None:
    rng = np.random.default_rng(3)
    world = random_world(rng, SMALL, random_spine(rng, 3, 4), empty=1.0, facilities=0.2)
    held, bounds = measured(world, rng), world.bounds()
    lowest = bounds[world.spine.levels[-1]].dense()
    nobody = ~(lowest.upper > 0).any(axis=1)
    assert nobody.any()
    assert not nobody.all()
    found = passes(world, held, bounds)
    compare(world, found, gls(world, held, bounds), mean=1e-4, error=1e-5)
    value, deviation = answers(
        found.contrasts, found.unbiased[world.spine.levels[-1]], SMALL.query("detailed")
    )
    assert not value[nobody].any()
    assert not deviation[nobody].any()


def test_an_only_child_knows_what_its_parent_knows() -> None:
    spine = Spine(
        ("L0", "L1"),
        (np.array(["R"]), np.array(["R00"])),
        (np.zeros(1, np.int64), np.zeros(1, np.int64)),
    )
    rng = np.random.default_rng(4)
    world = random_world(rng, GROUPED, spine, empty=0.0)
    found = passes(world, measured(world, rng), world.bounds())
    for query in queries(GROUPED):
        above, below = (answers(found.contrasts, found.unbiased[lv], query) for lv in spine.levels)
        assert np.allclose(above[0], below[0], atol=1e-5)
        assert np.allclose(above[1], below[1], atol=1e-5)


def test_children_add_up_to_their_parents() -> None:
    rng = np.random.default_rng(5)
    world = random_world(rng, SMALL, random_spine(rng, 4, 3))
    found = passes(world, measured(world, rng), world.bounds("L1"))
    for depth in range(1, 4):
        up, level = world.spine.levels[depth - 1 : depth + 1]
        total = np.zeros_like(found.unbiased[up].mean)
        np.add.at(total, world.spine.parent[depth], found.unbiased[level].mean)
        assert np.allclose(total, found.unbiased[up].mean, atol=1e-3)


def test_more_measurements_never_make_an_answer_less_sure() -> None:
    rng = np.random.default_rng(6)
    world = random_world(rng, SMALL, random_spine(rng, 3, 3))
    held, bounds = measured(world, rng), world.bounds()
    found = passes(world, held, bounds)
    for level in world.spine.levels:
        for name in MEASURED["small"]:
            _, deviation = answers(found.contrasts, found.unbiased[level], SMALL.query(name))
            alone = np.sqrt(held[level, name][1])[:, None]
            assert (deviation <= alone + 1e-6).all()
            assert (deviation < 0.99 * alone).any()


# --- coverage
# ------------------------------------------------------------------------------------------------


def test_standard_errors_are_those_of_repeated_noise_and_a_tenth_less_would_be_noticed() -> None:
    """Estimates are linear in the noise (of three draws it is shown): over many draws each
    standardized error has mean 0 and variance 1.
    """
    rng, entropy, repeats = np.random.default_rng(7), seeded(7), 1200
    world = random_world(rng, SMALL, random_spine(rng, 3, 2), empty=0.4)
    sigma_sq = {name: Fraction(7 + 12 * i, 2) for i, name in enumerate(MEASURED["small"])}
    bounds, query, level = world.bounds(), SMALL.query("home * race"), "L1"
    true = world.truth[level].answer(query)
    exact = {
        (lv, name): world.truth[lv].answer(SMALL.query(name))
        for lv in world.spine.levels
        for name in sigma_sq
    }
    size = np.cumsum([x.size for x in exact.values()])

    def estimated(noise: NDArray[np.int64]) -> tuple[Array, Array]:
        """From the answers with ``noise`` in the order of ``exact``: values and standard errors."""
        held = {
            (lv, name): (
                x + e.reshape(x.shape),
                np.full(len(x), DISCRETE_GAUSSIAN.variance(sigma_sq[name])),
            )
            for ((lv, name), x), e in zip(exact.items(), np.split(noise, size[:-1]), strict=True)
        }
        found = passes(world, held, bounds)
        return answers(found.contrasts, found.unbiased[level], query)

    value, deviation = estimated(np.zeros(size[-1], dtype=np.int64))
    uncertain = deviation > 1e-6
    assert np.allclose(value, true)
    noise = np.concatenate(
        [
            discrete_gaussian.sample(sigma_sq[name], repeats * x.size, entropy).reshape(repeats, -1)
            for (_, name), x in exact.items()
        ],
        axis=1,
    )
    linear = np.stack([estimated(one)[0] - value for one in np.eye(size[-1], dtype=np.int64)])
    error = np.tensordot(noise, linear, axes=1)
    for i in range(3):
        assert np.allclose(estimated(noise[i])[0], value + error[i])
    assert not error[:, ~uncertain].any()  # nobody can be there
    z = error[:, uncertain] / deviation[uncertain]
    squares, sums = (z**2).sum(axis=0), z.sum(axis=0)
    assert len(squares) >= 9
    low, high = chi2.ppf([1e-4, 1 - 1e-4], repeats)
    assert (squares > low).all()
    assert (squares < high).all()
    assert (np.abs(sums) < 5 * np.sqrt(repeats)).all()
    # power: were the errors a tenth smaller or larger than they should be, most answers would show
    # it
    assert np.mean(squares / 0.9**2 > high) > 0.5
    assert np.mean(squares / 1.1**2 < low) > 0.5
