"""One level at a time: normal equations, least squares, passes, and units that are special."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import SolverError
from das.estimate import least_squares
from das.estimate.batch import estimated, families
from das.estimate.family import Batch, Family
from das.estimate.least_squares import LEAST_VARIANCE, normal_equations
from das.estimate.passes import Passes
from das.geography import bounds as geography
from das.model.constraint import Bounds
from das.model.histogram import Histogram
from das.model.measurement import Estimate, Measurements
from das.model.redistricting import PL94
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.solve import Kinds
from tests.estimate.world import PLAIN, SMALL, World, memory, passes, random_spine, random_world
from tests.oracles import dense
from tests.solve.oracle_qp import Problem, clarabel_qp

FAMILY = Spine(
    ("L0", "L1"),
    (np.array(["R"]), np.array(["R0", "R1", "R2", "R3"])),
    (np.zeros(1, dtype=np.int64), np.zeros(4, dtype=np.int64)),
)
QUERIES = ("total", "home", "age * race", "detailed")


def family(seed: int, schema: Schema = SMALL, size: float = 6.0) -> World:
    return random_world(
        np.random.default_rng(seed), schema, FAMILY, size=size, facilities=0.5, empty=0.2
    )


def estimates(
    world: World,
    level: str,
    source: Measurements,
    method: Passes,
    bounds: Bounds,
    parents: Histogram | None,
) -> list[Estimate]:
    """Of the families of a level, given what was published of their parents."""
    starts = world.spine.children(level)
    return estimated(list(families(source, world.schema, level, parents, starts, bounds)), method)


def children(world: World, source: Measurements, method: Passes, bounds: Bounds) -> np.ndarray:
    """The estimate of the children of the true parent, all cells."""
    (e,) = estimates(world, "L1", source, method, bounds, world.truth["L0"])
    out = np.zeros((len(e.x), world.schema.cells))
    out[:, e.cell] = e.x
    return out


def method(*names: tuple[str, ...] | list[str], **options: float) -> Passes:
    return passes(FAMILY, names, **options)


def held(source: Measurements, level: str, query: str) -> tuple[np.ndarray, np.ndarray]:
    m = source.held[level, query]
    return m.values, m.variance


# --- normal equations
# ----------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_normal_equations_are_those_of_the_dense_matrices(
    seed: int, shared: bool, unmeasured: bool
) -> None:
    """G = sum Q'Q / Var and b = sum Q'm / Var on some cells, a unit's missing measurement being no
    term at all.
    """
    rng = np.random.default_rng(seed)
    units, cell = 3, np.flatnonzero(rng.random(SMALL.cells) < 0.7)
    gram, rhs, measured = np.zeros((units, len(cell), len(cell))), np.zeros((units, len(cell))), []
    for name in QUERIES:
        query = SMALL.query(name)
        variance = np.full(units, rng.uniform(0.1, 50)) if shared else rng.uniform(0.1, 50, units)
        if unmeasured:
            variance[rng.integers(units)] = np.inf
        values = rng.integers(-20, 90, (units, query.answers))
        q = dense(SMALL, query)[:, cell]
        for u in range(units):
            if np.isfinite(variance[u]):
                gram[u] += q.T @ q / variance[u]
                rhs[u] += q.T @ values[u] / variance[u]
        measured.append((query.index[cell], values, variance))
    given, right = normal_equations(measured)
    kinds = len(np.unique([1 / v for *_, v in measured], axis=1).T)
    matrices, kind = (
        (given.matrices, given.kind) if isinstance(given, Kinds) else (given, np.arange(units))
    )
    assert matrices.ndim == (2 if kinds == 1 else 3)
    assert isinstance(given, Kinds) == (1 < kinds < units)
    found = np.broadcast_to(matrices, gram.shape) if kinds == 1 else matrices[kind]
    assert np.allclose(found, gram, rtol=1e-12)
    assert np.allclose(right, rhs, rtol=1e-12)


def test_less_than_the_least_variance_weighs_no_more() -> None:
    index, values = np.zeros(2, dtype=np.intp), np.array([[5]])
    tiny = normal_equations([(index, values, np.array([1e-21]))])
    least = normal_equations([(index, values, np.array([LEAST_VARIANCE]))])
    assert np.array_equal(tiny[0], least[0])
    assert np.array_equal(tiny[1], least[1])


# --- a level is its own least squares
# ---------------------------------------------------------------------------------


@pytest.mark.parametrize("total_level", [None, "L1"])
@pytest.mark.parametrize("seed", range(6))
def test_a_level_in_one_pass_is_its_non_negative_least_squares(
    seed: int, total_level: str | None
) -> None:
    """Dense matrices, every bound written out as a row, Clarabel."""
    world = family(seed)
    rng = np.random.default_rng(seed)
    source = world.measured(rng, QUERIES, lambda _, q: {"total": 1.0, "detailed": 30.0}.get(q, 8.0))
    bounds = world.bounds(total_level)["L1"].dense()
    x = children(world, source, method(QUERIES, accuracy=1e-9), bounds)
    gram, rhs = np.zeros((SMALL.cells, SMALL.cells)), np.zeros(x.shape)
    for name in QUERIES:
        q, (values, variance) = dense(SMALL, SMALL.query(name)), held(source, "L1", name)
        gram += q.T @ q / variance[0]
        rhs += values @ q / variance[0]
    rows = [(bounds.group == g).astype(float) for g in range(bounds.groups)]
    lower, upper = bounds.lower.astype(float), np.minimum(bounds.upper, 10_000).astype(float)
    if bounds.total is not None:
        rows.append(np.ones(SMALL.cells))
        lower, upper = (np.column_stack([b, bounds.total]) for b in (lower, upper))
    parent = world.truth["L0"].dense()[0].astype(float)
    p = Problem(gram, rhs, parent, np.array(rows), lower, upper)
    best = clarabel_qp(p)
    assert best is not None
    assert p.violation(x) < 1e-3
    assert np.abs(x - best).max() < 0.01


def test_the_root_is_its_non_negative_least_squares() -> None:
    world = family(3)
    source = world.measured(np.random.default_rng(1), QUERIES, 20.0)
    bounds = world.bounds()["L0"].dense()
    (e,) = estimates(world, "L0", source, method(QUERIES, accuracy=1e-9), bounds, None)
    gram, rhs = normal_equations(
        [(SMALL.query(q).index[e.cell], *held(source, "L0", q)) for q in QUERIES]
    )
    rows = (bounds.group[e.cell] == np.arange(bounds.groups)[:, None]).astype(float)
    p = Problem(
        gram,
        rhs,
        None,
        rows,
        bounds.lower.astype(float),
        np.minimum(bounds.upper, 10_000).astype(float),
    )
    best = clarabel_qp(p)
    assert best is not None
    assert np.abs(e.x - best).max() < 0.01
    assert SMALL.possible[e.cell].all()


def test_a_redistricting_family_is_within_a_hundredth_of_a_person_of_clarabel() -> None:
    """A block group's blocks with the production variances of 2010."""
    share = {
        "total": 5,
        "cenrace": 9,
        "hispanic": 5,
        "votingage": 5,
        "hhinstlevels": 5,
        "hhgq": 5,
        "hispanic * cenrace": 21,
        "votingage * cenrace": 21,
        "votingage * hispanic": 5,
        "votingage * hispanic * cenrace": 71,
        "detailed": 3945,
    }
    rho = 293764 / 114921 * 165 / 4099
    world = family(4, PL94, size=120.0)
    source = world.measured(
        np.random.default_rng(2), list(share), lambda _, q: 4097 / (rho * share[q])
    )
    names = tuple(share)
    bounds = geography.bounds(PL94, world.spine, None, None, None)["L1"].dense()
    x = children(world, source, method(names), bounds)
    cell = np.flatnonzero(world.truth["L0"].dense()[0])
    gram, rhs = normal_equations(
        [(PL94.query(q).index[cell], *held(source, "L1", q)) for q in names]
    )
    best = clarabel_qp(Problem(gram, rhs, world.truth["L0"].dense()[0, cell].astype(float)))
    assert best is not None
    assert np.abs(x[:, cell] - best).max() < 0.01


# --- passes
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [0.1, 0.01])
@pytest.mark.parametrize("first", ["total", "home", "age"])
def test_a_later_pass_keeps_the_answers_of_an_earlier_one(first: str, tolerance: float) -> None:
    """And it would not keep them of its own accord."""
    moved = 0.0
    for seed in range(5):
        world = family(seed)
        source = world.measured(
            np.random.default_rng(seed), ["total", "home", "age", "detailed"], 25.0
        )
        bounds, query = world.bounds()["L1"].dense(), SMALL.query(first)
        alone = query.answer(children(world, source, method((first,)), bounds))
        kept = query.answer(
            children(world, source, method((first,), ("detailed",), tolerance=tolerance), bounds)
        )
        free = query.answer(children(world, source, method(("detailed",)), bounds))
        assert np.abs(kept - alone).max() <= tolerance + 1e-3
        moved = max(moved, float(np.abs(free - alone).max()))
    assert moved > 1


def test_known_totals_need_no_pass() -> None:
    """Where totals are known, measuring them first changes nothing."""
    world = family(1)
    source = world.measured(np.random.default_rng(0), QUERIES, 25.0)
    bounds = world.bounds("L1")["L1"].dense()
    rest = QUERIES[1:]
    with_pass = children(world, source, method(("total",), rest), bounds)
    assert np.array_equal(with_pass, children(world, source, method(rest), bounds))
    assert bounds.total is not None
    assert np.abs(with_pass.sum(axis=1) - bounds.total).max() < 1e-3


@pytest.mark.parametrize("names", [(QUERIES,), (("total",), QUERIES[1:])])
def test_an_estimate_stays_within_reach_of_what_lies_below(
    names: tuple[tuple[str, ...], ...],
) -> None:
    """Measurements that put everybody into facilities, places full of households: no subset of the
    dwelling groups holds more than all places together can."""
    tight = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        world = random_world(
            rng, SMALL, random_spine(rng, 4, 4), size=6.0, facilities=0.2, empty=0.2
        )
        bounds = world.bounds("L2")
        source = world.measured(rng, QUERIES, 4.0)
        crowd = np.where(SMALL.level_of("home") > 0, 50, 0)
        source = Measurements(
            {
                (level, q): replace(
                    m, values=SMALL.query(q).answer(np.tile(crowd, (len(m.values), 1)))
                )
                for (level, q), m in source.held.items()
            }
        )
        for level in ("L0", "L1"):
            if (reach := bounds[level].reach) is None:
                continue
            parents = None if level == "L0" else world.truth["L0"]
            for e in estimates(
                world, level, source, passes(world.spine, names), bounds[level].dense(), parents
            ):
                group = bounds[level].group[e.cell]
                for subset in range(1, 7):
                    held = e.x[:, (subset >> group) & 1 == 1].sum(axis=1)
                    limit = reach[e.start : e.start + len(e.x), subset]
                    assert (held <= limit + 1e-3).all()
                    tight += int((held >= limit - 1e-3).sum())
    assert tight > 5


# --- special units
# -----------------------------------------------------------------------------------------------------


def test_an_only_child_is_its_parent() -> None:
    rng = np.random.default_rng(5)
    spine = random_spine(rng, 4, 1)
    world = random_world(rng, SMALL, spine, empty=0.0)
    source = world.measured(rng, QUERIES, 50.0)
    release, _, _ = world.descend(source, world.bounds(), [QUERIES])
    for level in spine.levels[1:]:
        assert release.histograms[level].same_as(release.histograms["L0"])


def test_a_child_that_may_hold_nobody_holds_nobody() -> None:
    world = family(2)
    lower, upper = np.zeros((4, 3), dtype=np.int64), np.full((4, 3), 99_999)
    upper[2] = 0
    bounds = Bounds(SMALL.level_of("home"), lower, upper, None, SMALL.possible)
    source = world.measured(np.random.default_rng(0), QUERIES, 4.0)
    x = children(world, source, method(("total",), QUERIES[1:]), bounds)
    assert (x[2] == 0).all()
    assert x.sum() == pytest.approx(world.truth["L0"].totals()[0])


def test_the_only_child_that_may_hold_anybody_is_its_parent() -> None:
    world = family(2)
    upper = np.zeros((4, 3), dtype=np.int64)
    upper[1] = 99_999
    bounds = Bounds(SMALL.level_of("home"), np.zeros_like(upper), upper, None, SMALL.possible)
    x = children(
        world, world.measured(np.random.default_rng(0), QUERIES, 4.0), method(QUERIES), bounds
    )
    assert np.array_equal(x[1], world.truth["L0"].dense()[0])


def test_a_parent_that_no_child_may_take_is_an_error() -> None:
    world = family(2)
    none = np.zeros((4, 3), dtype=np.int64)
    bounds = Bounds(SMALL.level_of("home"), none, none, None, SMALL.possible)
    with pytest.raises(SolverError, match="does not sum to its parent"):
        children(
            world, world.measured(np.random.default_rng(0), QUERIES, 4.0), method(QUERIES), bounds
        )


def test_an_empty_parent_has_empty_children() -> None:
    world = family(2)
    source = world.measured(np.random.default_rng(0), QUERIES, 4.0)
    nobody = Histogram.from_triplets(1, SMALL.cells, *(np.zeros(0, dtype=np.int64),) * 3)
    (e,) = estimates(world, "L1", source, method(QUERIES), world.bounds()["L1"].dense(), nobody)
    assert e.x.shape == (4, 0)


# --- precision of its own for each unit
# ------------------------------------------------------------------------------------


def with_variances(source: Measurements, level: str, change: dict[int, float]) -> Measurements:
    """Other variances for some units of ``level``, all queries."""
    factor = np.ones(max(len(m.values) for m in source.held.values()))
    factor[list(change)] = list(change.values())
    new = {
        (lv, q): replace(m, variance=m.variance * factor[: len(m.variance)])
        for (lv, q), m in source.held.items()
        if lv == level
    }
    return Measurements({**source.held, **new})


def test_units_of_different_precision() -> None:
    """Least squares with a matrix of its own for each kind of child."""
    world = family(6, PLAIN, size=30.0)
    names = ("total", "race", "detailed")
    source = with_variances(
        world.measured(np.random.default_rng(3), names, 9.0), "L1", {0: 0.1, 2: 7.0}
    )
    x = children(world, source, method(names, accuracy=1e-9), world.bounds()["L1"].dense())
    cell = np.arange(PLAIN.cells)
    gram, rhs = normal_equations(
        [(PLAIN.query(q).index[cell], *held(source, "L1", q)) for q in names]
    )
    assert isinstance(gram, Kinds)
    best = clarabel_qp(
        Problem(gram.matrices[gram.kind], rhs, world.truth["L0"].dense()[0].astype(float))
    )
    assert best is not None
    assert np.abs(x - best).max() < 0.01


@pytest.mark.parametrize(
    "names", [(("total", "race", "detailed"),), (("total",), ("race", "detailed"))]
)
def test_a_unit_that_was_not_measured_takes_the_rest(names: tuple[tuple[str, ...], ...]) -> None:
    """The others are measured without error, so the rest is the truth; its own values count for
    nothing.
    """
    world = family(6, PLAIN, size=30.0)
    source = world.measured(np.random.default_rng(3), ("total", "race", "detailed"), 9.0, noise=0.0)
    wrong = [
        replace(m, values=np.where(np.arange(len(m.values))[:, None] == 1, 777, m.values))
        for (level, _), m in source.held.items()
        if level == "L1"
    ]
    source = with_variances(Measurements.from_measurements(wrong), "L1", {1: np.inf})
    x = children(world, source, method(*names), world.bounds()["L1"].dense())
    assert np.abs(x - world.truth["L1"].dense()).max() < 0.2


def test_the_whole_descent_with_units_that_were_not_measured() -> None:
    rng = np.random.default_rng(8)
    for _ in range(5):
        world = random_world(rng, SMALL, random_spine(rng, 4, 4), size=5.0)
        source = world.measured(rng, QUERIES, 9.0)
        for level in world.spine.levels[1:]:
            missing = np.flatnonzero(rng.random(world.spine.units(level)) < 0.3)
            source = with_variances(source, level, dict.fromkeys(missing.tolist(), np.inf))
        _, estimation, _ = world.descend(source, world.bounds("L1"), [["total"], QUERIES[1:]])
        assert estimation.inaccurate == 0


@pytest.mark.parametrize("parent", [True, False])
def test_a_pass_without_the_cells_is_solved_over_what_its_queries_tell_apart(
    parent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crossed margins of many cells: their answers fit the measurements as well as any counts
    do.
    """
    schema = Schema(
        "mine",
        tuple(Attribute(n, tuple(map(str, range(k)))) for n, k in (("a", 4), ("b", 5), ("c", 9))),
    )
    random = np.random.default_rng(8)
    true = random.poisson(3.0, (3, schema.cells))
    group = np.zeros(schema.cells, dtype=np.intp)
    n = np.zeros((3, 1), dtype=np.int64)
    bounds = Bounds(group, n, n + 10**6, None, np.ones(schema.cells, dtype=bool))
    queries = {name: schema.query(name) for name in ("a", "b")}
    answers = {
        name: np.stack([np.bincount(q.index, weights=t) for t in true])
        for name, q in queries.items()
    }
    source = memory(
        {
            ("L1", name): (
                (v + random.normal(0, 3, v.shape)).round().astype(np.int64),
                np.full(3, 9.0),
            )
            for name, v in answers.items()
        }
    )
    held = true.sum(axis=0) if parent else None
    family = Family(
        Batch(source, schema, "L1", 0, 3), np.arange(3), np.arange(schema.cells), held, bounds
    )
    found = []
    for few in (least_squares.FEW, 2):  # with 2, the twenty atoms are held to even shares
        monkeypatch.setattr(least_squares, "FEW", few)
        x, certificate = method(("a", "b"), accuracy=1e-9).estimate(family)
        assert certificate.inaccurate == 0
        found.append(
            [np.stack([np.bincount(q.index, weights=row) for row in x]) for q in queries.values()]
        )
        if parent:
            np.testing.assert_allclose(x.sum(axis=0), held)
    for free, even in zip(*found, strict=True):
        np.testing.assert_allclose(free, even, atol=0.05)
