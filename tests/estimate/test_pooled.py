"""Only children: what was measured of them is a measurement of their parent, and nothing of it is
lost.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.errors import InputError
from das.estimate import least_squares
from das.estimate.batch import estimated, families
from das.estimate.family import Family
from das.estimate.least_squares import normal_equations
from das.estimate.passes import Passes
from das.estimate.pooled import PooledSource
from das.model.constraint import JointTotals, LevelBounds
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement, Measurements, MeasurementSource
from das.model.spine import Spine
from das.release.opened import open_release
from tests.estimate.world import SMALL, Held, World, memory, random_spine, random_world
from tests.oracles import dense
from tests.solve.oracle_qp import Problem, clarabel_qp
from tests.worlds import Worlds

#: What each level of a tree is asked: some of it at one level alone.
ASKED = (
    ("total", "home"),
    ("total", "age * race", "detailed"),
    ("home", "detailed"),
    ("race", "detailed"),
)


def tree(*parents: list[int]) -> Spine:
    """By level below the root the parent of each unit."""
    whole = [[0], *parents]
    codes = tuple(
        np.array([f"{depth}{i:02d}" for i in range(len(p))]) for depth, p in enumerate(whole)
    )
    return Spine(
        tuple(f"L{d}" for d in range(len(whole))),
        codes,
        tuple(np.array(p, dtype=np.int64) for p in whole),
    )


#: Root, an only child of it, and two children of that child. The first of them has one child, which
#: has one child.
TREE = tree([0], [0, 0], [0, 1, 1], [0, 1, 1, 2])


def world(seed: int, spine: Spine, size: float = 8.0) -> World:
    return random_world(
        np.random.default_rng(seed), SMALL, spine, size=size, facilities=0.4, empty=0.3
    )


def measured(w: World, rng: np.random.Generator, *, lost: float = 0.2) -> Held:
    """A variance of its own for each unit and query; what is lost of it has another sum in its
    place.
    """
    held = {}
    for depth, level in enumerate(w.spine.levels):
        for name in ASKED[depth % len(ASKED)]:
            true = w.truth[level].answer(SMALL.query(name))
            variance = rng.uniform(0.5, 30, len(true))
            noisy = true + np.rint(rng.normal(size=true.shape) * np.sqrt(variance)[:, None]).astype(
                np.int64
            )
            gone = rng.random(len(true)) < lost
            variance[gone], noisy[gone] = np.inf, -(10**6)
            held[level, name] = noisy, variance
    return held


def free(w: World, total_level: str | None = None) -> dict[str, LevelBounds]:
    """Bounds by which everybody may live anywhere."""
    return w.bounds(total_level, housing_units=False, group_quarters=False)


def chain(
    spine: Spine, bounds: Mapping[str, LevelBounds], depth: int, unit: int
) -> Iterator[tuple[str, int]]:
    """The unit and those below it that hold all that it does, one after the other."""
    yield spine.levels[depth], unit
    if depth + 1 < len(spine):
        below = bounds[spine.levels[depth + 1]].dense()
        able = [
            c
            for c in np.flatnonzero(spine.parent[depth + 1] == unit)
            if below.upper[c, below.group[below.possible]].any()
            and (below.total is None or below.total[c] > 0)
        ]
        if len(able) == 1:
            yield from chain(spine, bounds, depth + 1, int(able[0]))


def heads(spine: Spine, bounds: Mapping[str, LevelBounds]) -> Iterator[list[tuple[str, int]]]:
    """The chains of a tree, each by its top; single units among them."""
    seen = set()
    for depth, level in enumerate(spine.levels):
        for unit in range(spine.units(level)):
            if (level, unit) not in seen:
                found = list(chain(spine, bounds, depth, unit))
                seen |= set(found)
                yield found


def stacked(
    held: Held, units: list[tuple[str, int]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """G and b of all answers of some units, one after the other."""
    gram, rhs = np.zeros((SMALL.cells, SMALL.cells)), np.zeros(SMALL.cells)
    for (level, name), (values, variance) in held.items():
        for at, unit in units:
            if at == level and np.isfinite(variance[unit]):
                q = dense(SMALL, SMALL.query(name))
                gram += q.T @ q / variance[unit]
                rhs += q.T @ values[unit] / variance[unit]
    return gram, rhs


def answers(source: MeasurementSource, level: str, unit: int) -> Held:
    """All that a source says of one unit."""
    read = {name: source.read(level, name, unit, unit + 1) for name in source.queries(level)}
    return {(level, name): (m.values, m.variance) for name, m in read.items()}


# --- what is pooled
# --------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([None, "L0", "L1", "L2"]))
def test_the_top_of_a_chain_says_all_that_its_chain_was_asked(
    seed: int, bounded: bool, total_level: str | None
) -> None:
    """Normal equations and, where they have an answer, generalized least squares over the chain, by
    dense matrices.
    """
    rng = np.random.default_rng(seed)
    w = world(seed, random_spine(rng, 4, 2))
    bounds = w.bounds(total_level) if bounded else free(w, total_level)
    held = measured(w, rng)
    source = PooledSource.over_chains(memory(held), w.spine, bounds, SMALL)
    for units in heads(w.spine, bounds):
        gram, rhs = stacked(held, units)
        level, unit = units[0]
        pooled = answers(source, level, unit)
        found, right = stacked(pooled, [(level, 0)])
        assert np.allclose(found, gram, rtol=1e-12)
        assert np.allclose(right, rhs, rtol=1e-9, atol=1e-9)
        if np.linalg.matrix_rank(gram) == SMALL.cells:
            assert np.allclose(np.linalg.solve(found, right), np.linalg.solve(gram, rhs), atol=1e-6)


def test_a_unit_of_no_chain_is_read_as_it_was_measured() -> None:
    w = world(1, TREE)
    held = measured(w, np.random.default_rng(1), lost=0.0)
    source = PooledSource.over_chains(memory(held), TREE, free(w), SMALL)
    apart = {"L2": [1], "L3": [1, 2], "L4": [1, 2]}
    for level, units in apart.items():
        for unit in units:
            said = answers(source, level, unit)
            for name in ASKED[TREE.index(level) % len(ASKED)]:
                values, variance = held[level, name]
                assert said[level, name][0].tolist() == values[unit : unit + 1].tolist()
                assert said[level, name][1].tolist() == variance[unit : unit + 1].tolist()
    assert source.read("L4", "total", 0, 4).values.dtype == np.int64


def test_queries_of_one_level_of_a_chain_are_inherited() -> None:
    """L2 was asked home and detailed, its only child race and detailed: of the race of a unit with
    two children nothing is known."""
    w = world(2, TREE)
    source = PooledSource.over_chains(
        memory(measured(w, np.random.default_rng(2), lost=0.0)), TREE, free(w), SMALL
    )
    assert isinstance(source, PooledSource)
    assert source.queries("L0") == ("total", "home", "age * race", "detailed")
    assert source.inherited("L2") == ("race", "total")
    assert np.isfinite(source.read("L2", "race", 0, 2).variance).tolist() == [True, False]
    assert source.read("L2", "race", 1, 2).values.tolist() == [[0, 0, 0]]
    with pytest.raises(InputError, match="is not measured at level 'L4'"):
        source.read("L4", "race", 0, 1)


def test_a_part_says_the_same_and_carries_no_more_than_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Descendants in several batches of their level."""
    spine = tree([0] * 6, list(range(6)), [0, 1, 2, 3, 4, 4, 5])
    w = world(3, spine)
    monkeypatch.setattr(Spine.batches, "__defaults__", (45,))
    source = PooledSource.over_chains(
        memory(measured(w, np.random.default_rng(3))), spine, free(w), SMALL
    )
    assert isinstance(source, PooledSource)
    assert [h.descendant.tolist() for h in source.descendants["L1"] if h.level == "L3"] == [
        [0, 1],
        [2, 3],
        [6],
    ]
    for start, stop in ((0, 2), (1, 4), (4, 5), (5, 6)):
        part = pickle.loads(pickle.dumps(source.part("L1", start, stop)))
        assert set(part.queries("L1")) <= set(source.queries("L1"))
        for name in part.queries("L1"):
            assert part.read("L1", name, start, stop) == source.read("L1", name, start, stop)
    alone = source.part("L1", 4, 5)
    assert isinstance(alone, PooledSource)
    assert [h.level for h in alone.descendants["L1"]] == ["L2"]
    assert isinstance(alone.descendants["L1"][0].source, Measurements)
    assert {len(m.values) for m in alone.descendants["L1"][0].source.held.values()} == {1}


def test_of_siblings_that_may_hold_nobody_none_is_in_the_way() -> None:
    """By bounds, by a known total of nobody, and by a joint one."""
    spine = tree([0, 0], [0, 0, 1])
    w = world(4, spine)
    bounds = free(w)
    source = memory(measured(w, np.random.default_rng(4), lost=0.0))
    assert [h.descendant.tolist() for h in _descendants(source, spine, bounds, "L0")] == []
    level = bounds["L1"]
    limits = level.limits.some(slice(None))
    upper = np.where([[True], [False]], 0, limits[1])
    empty = replace(level, limits=type(level.limits).from_bounds(limits[0], upper))
    for nobody in (
        empty,
        replace(level, total=np.array([0, 5])),
        replace(level, joint=JointTotals(np.array([1, 0]), np.array([5, 0]))),
    ):
        assert [
            (h.level, h.descendant.tolist())
            for h in _descendants(source, spine, {**bounds, "L1": nobody}, "L0")
        ] == [("L1", [1]), ("L2", [2])]


def _descendants(
    source: MeasurementSource, spine: Spine, bounds: Mapping[str, LevelBounds], level: str
) -> tuple:
    found = PooledSource.over_chains(source, spine, bounds, SMALL)
    return found.descendants.get(level, ()) if isinstance(found, PooledSource) else ()


class Unread:
    """Measurements that nobody may read."""

    def queries(self, level: str) -> tuple[str, ...]:
        return ("total",)

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        raise AssertionError(f"{level} is read")

    def part(self, level: str, start: int, stop: int) -> MeasurementSource:
        raise AssertionError(f"{level} is read")


def test_on_a_spine_that_bypasses_only_children_nothing_changes() -> None:
    w = world(5, TREE)
    bypassed = MeasuredSpine.bypassed(TREE, np.arange(4))
    source = Unread()
    assert PooledSource.over_chains(source, TREE, free(w), SMALL, bypassed.measured) is source
    assert PooledSource.over_chains(source, TREE, free(w), SMALL) is not source
    held = measured(w, np.random.default_rng(5), lost=0.0)
    for (level, _), (values, variance) in held.items():
        values[~bypassed.measured(level)], variance[~bypassed.measured(level)] = 0, np.inf
    pooled = PooledSource.over_chains(memory(held), TREE, free(w), SMALL)
    for (level, name), (values, variance) in held.items():
        m = pooled.read(level, name, 0, len(values))
        assert m.values.dtype == np.int64
        assert np.array_equal(m.values, values)
        assert np.array_equal(m.variance, variance)


# --- what it is estimated by
# -----------------------------------------------------------------------------------------


def family(source: MeasurementSource, w: World, level: str) -> Family:
    depth = w.spine.index(level)
    parents = None if depth == 0 else w.truth[w.spine.levels[depth - 1]]
    (found,) = families(
        source, SMALL, level, parents, w.spine.children(level), free(w)[level].dense()
    )
    return found


def test_a_family_with_an_only_childs_parent_in_it_is_its_least_squares() -> None:
    """One of three children has an only child that was asked something else: Clarabel, with a
    matrix for each.
    """
    spine = tree([0, 0, 0], [0, 1, 1, 2, 2])
    w = world(6, spine, size=5.0)
    rng = np.random.default_rng(6)
    held = w.measured(rng, ["total", "detailed"], 5.0).held
    lower = w.measured(rng, ["home", "detailed"], 2.0).held
    source = Measurements(
        {
            key: (lower if key[0] == "L2" else held)[key]
            for key in [*held, *lower]
            if key in (lower if key[0] == "L2" else held)
        }
    )
    passes = Passes({"L1": (("total", "detailed"),), "L2": (("home", "detailed"),)}, accuracy=1e-9)
    found = family(PooledSource.over_chains(source, spine, free(w), SMALL), w, "L1")
    assert found.inherited == ("home",)
    x = estimated([found], passes)[0].x
    cell = found.cell
    grams, rhs = np.zeros((3, SMALL.cells, SMALL.cells)), np.zeros((3, SMALL.cells))
    whole = {key: (m.values, m.variance) for key, m in source.held.items()}
    for unit, units in enumerate(([("L1", 0), ("L2", 0)], [("L1", 1)], [("L1", 2)])):
        grams[unit], rhs[unit] = stacked(whole, units)
    parent = w.truth["L0"].dense()[0, cell].astype(float)
    best = clarabel_qp(Problem(grams[:, cell][:, :, cell], rhs[:, cell], parent))
    assert best is not None
    assert np.abs(x - best).max() < 0.01
    alone = estimated([family(source, w, "L1")], passes)[0].x
    assert np.abs(x - alone).max() > 0.1


def test_a_total_that_the_only_child_has_first_the_root_has_first() -> None:
    """Cells with much noise and nobody in them: in one pass with them the total is pulled up,
    before them it is not.
    """
    spine = tree([0], [0, 0])
    w = world(7, spine)
    true = int(w.truth["L0"].totals()[0])
    rng = np.random.default_rng(7)
    held: dict[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
    for level in ("L0", "L1"):
        noise = np.rint(rng.normal(0, 20, (1, SMALL.cells))).astype(np.int64)
        held[level, "detailed"] = w.truth[level].dense() + noise, np.array([400.0])
    held["L1", "total"] = np.array([[true]]), np.array([900.0])
    root = family(PooledSource.over_chains(memory(held), spine, free(w), SMALL), w, "L0")
    assert root.inherited == ("total",)
    one, both = (("detailed",),), (("total",), ("detailed",))
    first = estimated([root], Passes({"L0": one, "L1": both}))[0].x.sum()
    together = estimated([root], Passes({"L0": one, "L1": (("total", "detailed"),)}))[0].x.sum()
    assert abs(first - true) < 0.11
    assert together > true + 1


def test_a_level_that_is_not_measured_is_estimated_by_its_only_child() -> None:
    spine = tree([0], [0, 0])
    w = world(8, spine)
    source = Measurements(
        {
            k: m
            for k, m in w.measured(
                np.random.default_rng(8), ["detailed"], 1.0, noise=0.0
            ).held.items()
            if k[0] != "L0"
        }
    )
    passes = Passes(dict.fromkeys(("L1", "L2"), (("detailed",),)))
    with pytest.raises(InputError, match="no query to estimate it by"):
        w.descend(source, free(w), passes)
    release, *_ = w.descend(
        PooledSource.over_chains(source, spine, free(w), SMALL), free(w), passes
    )
    assert release.histograms["L0"].same_as(w.truth["L0"])


def test_of_many_cells_units_that_differ_are_weighed_as_the_one_that_is_known_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A matrix for each of them would take gigabytes."""
    monkeypatch.setattr(least_squares, "_LARGE", SMALL.cells**2)
    rng = np.random.default_rng(9)
    variances = {
        "total": np.array([4.0, 1.0, 4.0]),
        "home": np.array([np.inf, 3.0, np.inf]),
        "detailed": np.full(3, 9.0),
    }
    every = [
        (SMALL.query(q).index, rng.integers(0, 9, (3, SMALL.query(q).answers)), v)
        for q, v in variances.items()
    ]
    least = [(index, values, np.full(3, v.max())) for index, values, v in every]
    gram, rhs = normal_equations(every)
    expected, right = normal_equations(least)
    assert isinstance(gram, np.ndarray)
    assert np.array_equal(gram, expected)
    assert np.array_equal(rhs, right)


# --- whole descents
# ----------------------------------------------------------------------------------------------------


@settings(max_examples=12)
@given(st.integers(0, 2**32), st.sampled_from([None, "L0", "L1", "L2"]), st.booleans())
def test_it_ends_in_a_release_on_any_tree(seed: int, total_level: str | None, chain: bool) -> None:
    """Facilities, empty places, known totals, what is lost of the measurements: ``Release`` checks
    its counts.
    """
    rng = np.random.default_rng(seed)
    w = world(seed, random_spine(rng, 4, 2))
    bounds = w.bounds(total_level)
    held = measured(w, rng)
    passes = {
        level: ((names[0],), names[1:]) for level, names in zip(w.spine.levels, ASKED, strict=True)
    }
    release, estimation, _ = w.descend(
        PooledSource.over_chains(memory(held), w.spine, bounds, SMALL),
        bounds,
        Passes(passes),
        chain=chain,
    )
    assert estimation.worst_residual <= 1e-3 or estimation.inaccurate
    for units in heads(w.spine, bounds):
        (level, unit), *below = units
        top = release.histograms[level].dense()[unit]
        assert all(np.array_equal(release.histograms[lv].dense()[u], top) for lv, u in below)


def test_an_only_child_that_is_known_well_decides() -> None:
    """The root is measured badly, its only child without an error to speak of."""
    w = world(10, TREE)
    rng = np.random.default_rng(10)
    variance = {"L0": 900.0, "L1": 1e-6}
    source = w.measured(rng, ["total", "detailed"], lambda level, _: variance.get(level, 25.0))
    passes = [["total"], ["detailed"]]
    pooled, *_ = w.descend(PooledSource.over_chains(source, TREE, free(w), SMALL), free(w), passes)
    assert pooled.histograms["L1"].same_as(w.truth["L1"])
    alone, *_ = w.descend(source, free(w), passes)
    assert np.abs(alone.histograms["L1"].dense() - w.truth["L1"].dense()).max() > 3


def test_a_run_of_one_state_is_estimated_by_what_was_asked_of_nation_and_state(
    worlds: Worlds,
) -> None:
    """From the files of a release: the nation's answers are the means of its own and its
    state's.
    """
    opened = open_release(
        worlds.run("run.seed=1", "geography.spine=tabulation", data="one thousand") / "release"
    )
    universe = opened.after.universes[0]
    source, tree_ = opened.source(universe), opened.tree(universe)
    pooled = PooledSource.over_chains(
        source, tree_.spine, opened.bounds(universe), universe.schema, tree_.measured
    )
    assert isinstance(pooled, PooledSource)
    assert pooled.inherited("US") == ("total",)
    part = pickle.loads(pickle.dumps(pooled.part("US", 0, 1)))
    for name in source.queries("US"):
        us, state = (source.read(level, name, 0, 1) for level in ("US", "State"))
        a, b = 1 / us.variance[0], 1 / state.variance[0]
        m = part.read("US", name, 0, 1)
        assert m.variance[0] == pytest.approx(1 / (a + b))
        assert np.allclose(m.values, (a * us.values + b * state.values) / (a + b))
    assert (
        part.read("US", "total", 0, 1).values[0, 0]
        == source.read("State", "total", 0, 1).values[0, 0]
    )
