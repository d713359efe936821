"""Estimates of areas against dense generalized least squares: every lowest cell a variable, all
that is known an equation.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from das.estimate.areas.directions import Directions
from das.estimate.areas.estimates import AreaEstimates, estimates, pieces, variances
from das.estimate.information import Contrasts
from das.fold import Tiers
from das.geography.invariants import exact_bounds
from das.model.constraint import LevelBounds
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from tests.estimate.test_information import ASKED, GROUPED, MEASURED, SCHEMAS, queries
from tests.estimate.world import PLAIN, SMALL, Held, World, memory, random_spine, random_world
from tests.oracles import dense

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def noisy(
    world: World, rng: np.random.Generator, names: Mapping[str, tuple[str, ...]] | None = None
) -> Held:
    """A variance of its own for each unit and query. Some queries are not measured of units with
    several children, and nothing of half of the lowest units that have no siblings. ``names``: by
    level, if not all queries are measured."""
    held = {}
    for level in world.spine.levels:
        parent = world.spine.parent[world.spine.index(level)]
        alone = (np.bincount(parent)[parent] == 1) & (rng.random(len(parent)) < 0.5)
        below = world.spine.parent[world.spine.index(level) + 1 :]
        several = np.bincount(below[0]) > 1 if below else None
        for name in MEASURED[world.schema.name] if names is None else names[level]:
            true = world.truth[level].answer(world.schema.query(name))
            variance = rng.uniform(0.5, 30, len(true))
            values = true + np.rint(
                rng.normal(size=true.shape) * np.sqrt(variance)[:, None]
            ).astype(np.int64)
            lost = alone if several is None else several & (rng.random(len(true)) < 0.3)
            variance[lost], values[lost] = np.inf, -(10**6)
            held[level, name] = values, variance
    return held


def asked(schema: Schema, rng: np.random.Generator) -> Mask:
    """Everything, an answer of each query, and any cells."""
    one = [q.index == rng.integers(q.answers) for q in queries(schema, *ASKED[schema.name])]
    return np.array([np.ones(schema.cells, dtype=bool), *one, rng.random(schema.cells) < 0.4])


def member(world: World, rng: np.random.Generator) -> Mask:
    """Of five areas, which lowest units are in them: everything, nothing, and any."""
    out = rng.random((5, world.spine.units(world.spine.levels[-1]))) < 0.5
    out[0], out[1] = True, False
    return np.asarray(out)


def inside(spine: Spine, level: str) -> Array:
    home = spine.up(spine.levels[-1], level)
    return (home[None, :] == np.arange(spine.units(level))[:, None]).astype(float)


Known = tuple[Array, Array]  # equations on all lowest cells, and what they come to


def known(world: World, units: Array, query: str = "total") -> Known:
    """The answers of a query in sums of lowest units, from the truth."""
    rows = np.kron(units, dense(world.schema, world.schema.query(query)))
    lowest = world.truth[world.spine.levels[-1]].answer(world.schema.query("detailed"))
    return rows, rows @ lowest.ravel()


def gls(
    world: World,
    held: Held,
    bounds: Mapping[str, LevelBounds],
    equations: Known | None,
    rows: Array,
) -> AreaEstimates:
    """Values and variances of linear functions of all lowest cells; NaN where nothing determines
    them.
    """
    schema, spine = world.schema, world.spine
    lowest = bounds[spine.levels[-1]].dense()
    possible = (
        np.ones_like(lowest.upper[:, lowest.group], dtype=bool)
        if lowest.exact
        else lowest.upper[:, lowest.group] > 0
    )
    if lowest.total is not None:  # where nobody is, nobody is in any cell
        possible = possible & (lowest.total[:, None] > 0)
    free = np.flatnonzero((possible & lowest.possible).ravel())
    normal, rhs = np.zeros((len(free),) * 2), np.zeros(len(free))
    for (level, name), (values, variance) in held.items():
        seen = np.kron(inside(spine, level), dense(schema, schema.query(name)))[:, free]
        weight = np.repeat(1 / variance, values.shape[1])
        normal += (seen.T * weight) @ seen
        rhs += seen.T @ np.where(weight > 0, weight * values.ravel(), 0.0)
    start, basis = np.zeros(len(free)), np.eye(len(free))
    if equations is not None:
        e, told = equations[0][:, free], equations[1]
        start = np.linalg.lstsq(e, told, rcond=None)[0]
        basis = np.linalg.svd(e)[2][np.linalg.matrix_rank(e) :].T
    covariance = (
        basis @ np.linalg.pinv(basis.T @ normal @ basis, rcond=1e-11, hermitian=True) @ basis.T
    )
    mean = start + covariance @ (rhs - normal @ start)
    rows = rows[:, free]
    spread = np.einsum("ri,ij,rj->r", rows, covariance, rows)
    lost = np.linalg.svd(normal)[2][np.linalg.matrix_rank(normal, tol=1e-8) :]
    open_ = (
        (np.abs(rows @ basis @ (basis.T @ lost.T)) > 1e-8).any(axis=1)
        if equations is None
        else np.zeros(len(rows), bool)
    )
    return AreaEstimates(np.where(open_, np.nan, rows @ mean), np.where(open_, np.nan, spread))


def compare(
    world: World,
    held: Held,
    bounds: Mapping[str, LevelBounds],
    equations: Known | None,
    rng: np.random.Generator,
    exact: Mapping[str, Query] | None = None,
) -> AreaEstimates:
    columns, areas = asked(world.schema, rng), member(world, rng)
    area, unit = np.nonzero(areas)
    found = estimates(
        memory(held), world.spine, bounds, world.schema, columns, area, unit, len(areas), exact
    )
    rows = np.einsum("an,ck->acnk", areas.astype(float), columns.astype(float)).reshape(
        areas.size // areas.shape[1] * len(columns), -1
    )
    oracle = gls(world, held, bounds, equations, rows)
    assert np.abs(found.value.ravel() - oracle.value).max() < 1e-9
    assert np.abs(found.variance.ravel() - oracle.variance).max() < 1e-9
    return found


@pytest.mark.parametrize("level", [None, "L0", "L1", "L2"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_one_pass_is_dense_generalized_least_squares(
    schema: Schema, seed: int, level: str | None
) -> None:
    """With known totals at any level, units whose dwellings hold some cells alone, and only
    children without measurements.
    """
    rng = np.random.default_rng(seed)
    world = random_world(rng, schema, random_spine(rng, 3, 3), empty=0.4)
    equations = None if level is None else known(world, inside(world.spine, level))
    compare(world, noisy(world, rng), world.bounds(level), equations, rng)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("schema", [SMALL, PLAIN], ids=["small", "plain"])
def test_joint_totals_of_siblings(schema: Schema, seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = random_world(rng, schema, random_spine(rng, 4, 3), empty=0.4)
    part = np.unique(
        world.spine.parent[1] * 2 + np.arange(world.spine.units("L1")) // 2, return_inverse=True
    )[1]
    units = (part[None, :] == np.arange(part.max() + 1)[:, None]).astype(float) @ inside(
        world.spine, "L1"
    )
    compare(world, noisy(world, rng), world.bounds("L1", part), known(world, units), rng)


@pytest.mark.parametrize("seed", range(3))
def test_known_answers_of_queries_at_several_levels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = random_world(rng, GROUPED, random_spine(rng, 3, 3), empty=0.0, facilities=1.0)
    told = [("L0", "white * sex"), ("L1", "white")]
    every = [(lv, GROUPED.query(q), world.truth[lv].answer(GROUPED.query(q))) for lv, q in told]
    equations = [known(world, inside(world.spine, lv), q) for lv, q in told]
    bounds = exact_bounds(GROUPED, world.spine, every)
    both = np.vstack([e for e, _ in equations]), np.concatenate([t for _, t in equations])
    exact = {lv: GROUPED.query(q) for lv, q in told}
    found = compare(world, noisy(world, rng), bounds, both, rng, exact)
    assert found.variance[0, 0] == pytest.approx(0.0, abs=1e-9)  # everybody


def test_a_level_where_nothing_is_measured() -> None:
    rng = np.random.default_rng(6)
    world = random_world(rng, SMALL, random_spine(rng, 4, 3))
    held = {key: value for key, value in noisy(world, rng).items() if key[0] not in ("L0", "L2")}
    compare(world, held, world.bounds("L1"), known(world, inside(world.spine, "L1")), rng)


def test_a_tree_of_one_level_is_its_own_measurements() -> None:
    rng = np.random.default_rng(1)
    world = random_world(rng, SMALL, random_spine(rng, 1, 1), facilities=1.0, empty=0.0)
    held = {key: (value, np.ones(1)) for key, (value, _) in noisy(world, rng).items()}
    compare(world, held, world.bounds(), None, rng)


def test_what_the_lowest_level_does_not_tell_has_no_estimate() -> None:
    """Race is measured at the top alone: nobody knows it of an area that cuts a unit. What the
    lowest level tells is exact.
    """
    rng = np.random.default_rng(3)
    world = random_world(rng, PLAIN, random_spine(rng, 3, 5))
    assert np.bincount(world.spine.parent[2]).max() > 1
    names = {"L0": ("detailed",), "L1": ("total", "race"), "L2": ("total", "age")}
    held = {
        key: (value, np.full(len(value), 3.0))
        for key, (value, _) in noisy(world, rng, names).items()
    }
    total, age, race = (
        np.ones(6, dtype=bool),
        PLAIN.query("age").index == 1,
        PLAIN.query("race").index == 1,
    )
    areas = member(world, rng)
    area, unit = np.nonzero(areas)
    columns = np.array([total, age, race])
    found = estimates(
        memory(held), world.spine, world.bounds(), PLAIN, columns, area, unit, len(areas)
    )
    assert np.isnan(found.value[:, 2]).all()
    assert np.isnan(found.variance[:, 2]).all()
    rows = np.einsum("an,ck->acnk", areas.astype(float), columns[:2].astype(float)).reshape(10, -1)
    oracle = gls(world, held, world.bounds(), None, rows)
    assert np.abs(found.value[:, :2].ravel() - oracle.value).max() < 1e-5
    assert np.abs(found.variance[:, :2].ravel() - oracle.variance).max() < 1e-5


@pytest.mark.parametrize("level", [None, "L1"])
def test_the_total_has_the_variance_that_precisions_alone_say(level: str | None) -> None:
    """Where the parts of every query are alike, as in a schema without zeros and dwellings."""
    rng = np.random.default_rng(5)
    world = random_world(rng, PLAIN, random_spine(rng, 4, 3))
    held, bounds, areas = noisy(world, rng), world.bounds(level), member(world, rng)
    area, unit = np.nonzero(areas)
    everybody = np.ones((1, PLAIN.cells), dtype=bool)
    found = estimates(memory(held), world.spine, bounds, PLAIN, everybody, area, unit, len(areas))
    precision = [
        sum(
            (1 / (held[lv, q][1] * PLAIN.query(q).answers) for q in MEASURED["plain"]),
            np.zeros(world.spine.units(lv)),
        )
        for lv in world.spine.levels
    ]
    tiers = Tiers.from_spine(world.spine, {lv: b.total for lv, b in bounds.items()})
    alone = variances(
        tiers, precision, pieces(tiers.parents, area, unit), len(areas), full_information=True
    )
    assert np.allclose(found.variance[:, 0], alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_directions_take_a_column_apart_and_a_query_along(schema: Schema) -> None:
    rng = np.random.default_rng(3)
    contrasts = Contrasts.for_queries(schema, queries(schema))
    columns = asked(schema, rng)
    to = Directions.for_columns(contrasts, columns)
    again = np.zeros((len(columns), contrasts.d, schema.cells // contrasts.d))
    for p, j in enumerate(to.column):
        again[j] += to.weight[p][:, None] * to.vector[to.at[p]]
    assert np.allclose(again.reshape(len(columns), -1)[:, contrasts.place], columns)
    for query in queries(schema):
        values = rng.normal(size=(3, query.answers))
        whole = (values @ dense(schema, query))[:, contrasts.order].reshape(3, contrasts.d, -1)
        assert np.allclose(to.adjoint(query, values), whole @ to.vector.T)


def test_the_total_needs_one_direction_and_like_columns_share_theirs() -> None:
    contrasts = Contrasts.for_queries(PLAIN, queries(PLAIN))
    total = np.ones((1, PLAIN.cells), dtype=bool)
    assert len(Directions.for_columns(contrasts, total)) == 1
    race = np.array([PLAIN.query("race").index == i for i in (1, 1, 1)])
    assert (
        len(Directions.for_columns(contrasts, np.vstack([total, race])))
        == len(Directions.for_columns(contrasts, race[:1]))
        == 2
    )
