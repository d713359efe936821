"""Estimates and standard errors of any sums of cells, against dense generalized least squares;
coverage.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from das.estimate import margins_of_error
from das.estimate.margins_of_error import UNKNOWN, LevelMargins
from das.geography.invariants import exact_bounds
from das.model.constraint import Bounds, LevelBounds, Limits
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, MECHANISMS, Mechanism
from das.model.query import Grouping, Query
from das.model.schema import Attribute, Schema
from das.noise import discrete_gaussian
from das.noise.entropy import seeded
from das.noise.samplers import SAMPLERS
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
#: Queries, and what is known exactly of every unit: nothing, its total, or the answers to a query.
CASES = {
    "all cells": (SMALL, ("total", "home", "age * race", "detailed"), None),
    "known totals": (SMALL, ("home", "age * race", "detailed"), "total"),
    "no dwelling": (PLAIN, ("total", "race", "detailed"), "total"),
    "grouped": (GROUPED, ("total", "white * sex", "home * race", "detailed"), None),
    "margins alone": (GROUPED, ("white", "sex", "home * sex"), None),
    "margins and totals": (GROUPED, ("white", "sex"), "total"),
    "nothing but totals": (PLAIN, (), "total"),
    "nothing": (SMALL, (), None),
    "an invariant": (GROUPED, ("total", "white", "home * race"), "sex * home"),
}


def known(world: World, exact: str | None) -> tuple[dict[str, LevelBounds], Query | None]:
    if exact is None or exact == "total":
        return world.bounds(exact and world.spine.levels[-1]), None
    query, lowest = world.schema.query(exact), world.spine.levels[-1]
    return exact_bounds(
        world.schema, world.spine, [(lowest, query, world.truth[lowest].answer(query))]
    ), query


def measured(
    world: World, names: tuple[str, ...], rng: np.random.Generator, wide: float = 1.0
) -> Held:
    """A variance of its own for each unit and query; some are not measured, and the last of a level
    by none.
    """
    held = {}
    for level in world.spine.levels:
        for name in names:
            true = world.truth[level].answer(world.schema.query(name))
            variance = rng.uniform(0.5, 30, len(true)) ** wide
            noisy = true + np.rint(rng.normal(size=true.shape) * np.sqrt(variance)[:, None]).astype(
                np.int64
            )
            lost = rng.random(len(true)) < 0.2
            lost[-1] |= len(true) > 1
            variance[lost], noisy[lost] = np.inf, -(10**6)
            held[level, name] = noisy, variance
    return held


def some_columns(schema: Schema, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Every answer to every attribute, the total, cells, and sums of cells at random."""
    queries = [schema.query(q) for q in ("total", *(a.name for a in schema.attributes), "detailed")]
    return np.vstack(
        [*(dense(schema, q) for q in queries), rng.random((6, schema.cells)) < 0.5]
    ).astype(bool)


def may_hold(bounds: Bounds, unit: int) -> NDArray[np.bool_]:
    """Cells; none where nobody is."""
    nobody = bounds.total is not None and bounds.total[unit] == 0
    return (
        (np.array(bounds.exact) | (bounds.upper[unit, bounds.group] > 0))
        & bounds.possible
        & ~np.array(nobody)
    )


def oracle(
    level: LevelMargins, held: Held, columns: NDArray[np.bool_], unit: int
) -> tuple[Array, Array]:
    """One unit: a KKT system over the cells that it may hold, by a pseudo-inverse; a column is
    determined if it is in the row space of everything together."""
    schema, bounds = level.schema, level.bounds.dense()
    free = may_hold(bounds, unit)
    rows, rhs, sigma_sq = [np.zeros((0, schema.cells))], [np.zeros(0)], [np.zeros(0)]
    for name, query in level.queries.items():
        values, variance = held[level.name, name]
        if np.isfinite(variance[unit]):
            rows.append(dense(schema, query))
            rhs.append(values[unit])
            sigma_sq.append(np.full(query.answers, variance[unit]))
    a, b, v = np.vstack(rows)[:, free], np.concatenate(rhs), np.concatenate(sigma_sq)
    e, g = np.zeros((0, int(free.sum()))), np.zeros(0)
    if level.exact is not None:
        e = dense(schema, level.exact)[:, free].astype(float)
        g = bounds.lower[unit] if bounds.exact else np.array([bounds.total[unit]])
    c = columns[:, free].astype(float)
    every = np.vstack([a, e])
    determined = np.array(
        [
            np.linalg.matrix_rank(np.vstack([every, x])) == np.linalg.matrix_rank(every)
            if len(every)
            else not x.any()
            for x in c
        ]
    )
    normal = a.T @ (a / v[:, None])
    system = np.block([[normal, e.T], [e, np.zeros((len(e), len(e)))]])
    inverse = np.linalg.pinv(system, rcond=1e-11, hermitian=True)
    n = int(free.sum())
    mean = inverse[:n, :n] @ (a.T @ (b / v)) + inverse[:n, n:] @ g
    error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", c, inverse[:n, :n], c), 0))
    return np.where(determined, c @ mean, np.nan), np.where(determined, error, np.nan)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_it_is_dense_generalized_least_squares(
    case: tuple[Schema, tuple[str, ...], str | None], seed: int
) -> None:
    schema, names, exact = case
    rng = np.random.default_rng(seed)
    world = random_world(rng, schema, random_spine(rng, 3, 3))
    held = measured(world, names, rng)
    bounds, partition = known(world, exact)
    columns = some_columns(schema, rng)
    undetermined = 0
    for name in world.spine.levels:
        level = LevelMargins.for_level(name, schema, memory(held), bounds[name], partition)
        assert tuple(level.queries) == names
        n = world.spine.units(name)
        value, error = level.read(memory(held), columns, 0, n)
        for unit in range(n):
            expected, of_oracle = oracle(level, held, columns, unit)
            assert np.array_equal(np.isnan(error[unit]), np.isnan(of_oracle))
            assert np.allclose(error[unit], of_oracle, atol=1e-6, rtol=0, equal_nan=True)
            assert np.allclose(error[unit] ** 2, of_oracle**2, atol=1e-9, rtol=1e-9, equal_nan=True)
            assert np.allclose(value[unit], expected, atol=1e-7, rtol=1e-9, equal_nan=True)
            undetermined += int(np.isnan(of_oracle).sum())
        middle = n // 2
        part = level.read(memory(held), columns, middle, n)
        assert np.allclose(part[0], value[middle:], equal_nan=True)
    assert undetermined > 0 or exact == "total"


def test_what_is_known_exactly_comes_out_exactly() -> None:
    rng = np.random.default_rng(5)
    world = random_world(rng, GROUPED, random_spine(rng, 2, 4))
    bounds, partition = known(world, "sex * home")
    held = measured(world, ("detailed",), rng)
    for name in world.spine.levels:
        level = LevelMargins.for_level(name, GROUPED, memory(held), bounds[name], partition)
        for query in map(GROUPED.query, ("total", "sex", "home", "sex * home")):
            columns = dense(GROUPED, query).astype(bool)
            value, margin = margins_of_error.whole(
                DISCRETE_GAUSSIAN.wide,
                *level.read(memory(held), columns, 0, world.spine.units(name)),
            )
            assert np.array_equal(value, world.truth[name].answer(query))
            assert not margin.any()


def test_variances_twenty_powers_of_ten_apart_lose_neither_answers_nor_digits() -> None:
    """The weak query alone tells the cells apart; the strong one must not hide it."""
    rng = np.random.default_rng(6)
    world = random_world(rng, PLAIN, random_spine(rng, 1, 1))
    variance = {"age": 1e-20, "race": 1.0, "detailed": 1e18}
    held = {
        ("L0", q): (world.truth["L0"].answer(PLAIN.query(q)), np.array([v]))
        for q, v in variance.items()
    }
    level = LevelMargins.for_level("L0", PLAIN, memory(held), world.bounds()["L0"])
    _, error = level.read(memory(held), np.eye(PLAIN.cells, dtype=bool), 0, 1)
    assert np.isfinite(error).all()
    assert (error > 1e8).all()  # six cells; the margins leave two of them free
    _, error = level.read(memory(held), dense(PLAIN, PLAIN.query("age")).astype(bool), 0, 1)
    assert np.allclose(error, 0.1, rtol=0.01)  # the least variance that anything is given


def test_of_a_very_large_schema_each_column_has_its_best_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(margins_of_error, "MOST", 1)
    rng = np.random.default_rng(7)
    world = random_world(rng, GROUPED, random_spine(rng, 1, 1))
    held = {
        ("L0", q): (world.truth["L0"].answer(GROUPED.query(q)), np.array([v]))
        for q, v in {"total": 9.0, "race * sex": 4.0, "sex": 5.0}.items()
    }
    level = LevelMargins.for_level("L0", GROUPED, memory(held), world.bounds()["L0"])
    for query, variance in {"total": 9.0, "sex": 5.0, "white": None, "race": 8.0}.items():
        wanted = GROUPED.query(query)
        value, error = level.read(memory(held), dense(GROUPED, wanted).astype(bool), 0, 1)
        assert np.allclose(error**2, [8.0, 24.0] if variance is None else variance, equal_nan=True)
        assert np.array_equal(value, world.truth["L0"].answer(wanted))
    home = GROUPED.query("home")  # not measured: where there is but one, it is everybody
    value, error = level.read(memory(held), dense(GROUPED, home).astype(bool), 0, 1)
    there = world.bounds()["L0"].dense().upper[0] > 0
    assert there.tolist() == [True, False]
    assert np.allclose(error**2, [[9.0, 0.0]])
    assert np.array_equal(value, world.truth["L0"].answer(home))


# --- intervals
# -----------------------------------------------------------------------------------------------


def test_margins_are_whole_and_none_where_nothing_is_known() -> None:
    value, margin = margins_of_error.whole(
        DISCRETE_GAUSSIAN.wide,
        np.array([3.4, -0.6, np.nan, 7.0]),
        np.array([2.0, 0.25, np.nan, 0.0]),
    )
    assert value.tolist() == [3, -1, 0, 7]
    assert margin.tolist() == [4, 0, UNKNOWN, 0]


@pytest.mark.parametrize("mechanism", list(MECHANISMS.values()))
def test_intervals_cover_as_they_say_and_another_sigma_would_be_noticed(
    mechanism: Mechanism,
) -> None:
    """Over many units and answers; the estimates of one unit are not independent, so each answer is
    counted alone.
    """
    parameters = {"total": Fraction(60), "home * race": Fraction(40), "detailed": Fraction(90)}
    if mechanism == GEOMETRIC:
        parameters = {q: Fraction(6 + i) for i, q in enumerate(parameters)}
    rng, entropy, n = np.random.default_rng(8), seeded(8), 6000
    true = rng.poisson(3, (n, SMALL.cells)) * SMALL.possible
    held = {}
    for name, s in parameters.items():
        exact = SMALL.query(name).answer(true)
        held["L", name] = (
            exact + SAMPLERS[mechanism.name].sample(s, exact.size, entropy).reshape(exact.shape),
            np.full(n, mechanism.variance(s)),
        )
    free = np.zeros((n, 3), dtype=np.int64)
    bounds = LevelBounds(
        SMALL.level_of("home"), Limits.from_bounds(free, free + 10**6), None, SMALL.possible
    )
    level = LevelMargins.for_level("L", SMALL, memory(held), bounds)
    columns = np.vstack(
        [dense(SMALL, SMALL.query(q)) for q in ("total", "age", "home * race", "race")]
    ).astype(bool)
    value, error = level.read(memory(held), columns, 0, n)
    single = np.sqrt([held["L", "detailed"][1][0] * c.sum() for c in columns & SMALL.possible])
    assert (error[0] < single).all()
    wanted = true @ columns.T

    def covered(factor: float) -> NDArray[np.int64]:
        middle, margin = margins_of_error.whole(mechanism.wide, value, factor * error)
        return (np.abs(middle - wanted) <= margin).sum(axis=0)

    low, high = binom.ppf([1e-4, 1 - 1e-4], n, 0.95)
    assert (covered(1.0) >= low).all()
    assert (
        covered(1.0) <= binom.ppf(1 - 1e-4, n, 0.965)
    ).all()  # whole numbers, and tails: a little more than 95 %
    assert (covered(0.7) < low).all()
    assert (covered(1.3) > high).all()


@pytest.mark.parametrize("sigma_sq", [Fraction(1, 16), Fraction(1, 4), Fraction(1, 2), Fraction(2)])
def test_little_noise_is_covered_too(sigma_sq: Fraction) -> None:
    noise = discrete_gaussian.sample(sigma_sq, 20_000, seeded(9))
    error = np.full(len(noise), np.sqrt(DISCRETE_GAUSSIAN.variance(sigma_sq)))
    value, margin = margins_of_error.whole(DISCRETE_GAUSSIAN.wide, noise.astype(float), error)
    assert (np.abs(value) <= margin).sum() >= binom.ppf(1e-4, len(noise), 0.95)
