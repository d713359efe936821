"""Models of real trees against one dense matrix: irregular trees, units without people, only
children with and without a share of their own, known and joint totals, areas that cut everything;
over what structures allow, and over cells."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.design import trees
from das.design.homogeneous import Homogeneous
from das.design.model import Estimand
from das.design.recursion import Recursion
from das.errors import InputError, SpecError
from das.model.areas import Areas
from das.model.constraint import LevelBounds
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.query import Grouping
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from tests.design.dense import DenseTree, check_gradient, choices
from tests.estimate.test_information import in_parts
from tests.estimate.world import PLAIN, SMALL, World, random_spine, random_world

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
SCHEMAS = {s.name: s for s in (SMALL, PLAIN, GROUPED)}
MEASURED = {
    "small": ("total", "home", "age * race", "detailed"),
    "plain": ("total", "race", "detailed"),
    "grouped": ("total", "white * sex", "home * race", "detailed"),
}
ASKED = {"small": ("home * age", "race"), "plain": ("age",), "grouped": ("race", "white * home")}
HALF = "half"


def areas_over(rng: np.random.Generator, tree: MeasuredSpine, places: int) -> dict[str, Areas]:
    """Some that cut whatever they can, one that is everything, one that is one place, one that is
    nothing of the tree.
    """
    inside = rng.random((5, places)) < 0.5
    inside[0], inside[1] = True, np.arange(places) == rng.integers(places)
    inside[2:, 0] |= ~inside[2:].any(axis=1)
    area, unit = np.nonzero(inside)
    return {HALF: Areas(HALF, np.array([f"a{i}" for i in range(5)]), area, unit)}


def estimands(schema: Schema, spine: Spine) -> list[Estimand]:
    names = (*MEASURED[schema.name], *ASKED[schema.name])
    out = [Estimand(lv, q) for lv in spine.levels for q in names]
    out += [Estimand(HALF, q, areas=True) for q in ("total", ASKED[schema.name][0])]
    return [*out, Estimand(HALF, "total", areas=True, some=(1, 3))]


def both(
    world: World,
    tree: MeasuredSpine,
    bounds: Mapping[str, LevelBounds],
    rng: np.random.Generator,
    *,
    cells: bool,
) -> tuple[Recursion, DenseTree]:
    schema, spine = world.schema, world.spine
    measurements = choices(tree, [(lv, q) for lv in spine.levels for q in MEASURED[schema.name]])
    areas, asked = areas_over(rng, tree, spine.units("L3")), estimands(schema, spine)
    if not cells:
        return (
            trees.of_structures(schema, tree, bounds, measurements, asked, areas),
            DenseTree.of(schema, tree, measurements, bounds, areas),
        )
    lowest = world.truth[spine.levels[-1]]
    allowed = np.zeros((lowest.units, schema.cells), dtype=bool)
    allowed[lowest.unit, lowest.cell] = lowest.count > 0
    return (
        trees.of_cells(schema, tree, bounds, lowest, measurements, asked, areas),
        DenseTree.of(schema, tree, measurements, bounds, areas, allowed),
    )


@pytest.mark.parametrize("cells", [False, True], ids=["structures", "cells"])
@pytest.mark.parametrize("known", [None, "total", "joint"])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
@given(seed=st.integers(0, 10**6), at=st.sampled_from(["L1", "L2", "L3"]), bypassed=st.booleans())
@settings(max_examples=3)
def test_irregular_trees_are_dense_least_squares(
    schema: Schema, known: str | None, cells: bool, seed: int, at: str, bypassed: bool
) -> None:
    """Variances of every level and of areas, and their slopes by measurements of every class."""
    rng = np.random.default_rng(seed)
    at = "L2" if known == "joint" else at
    spine = random_spine(rng, 4, 3)
    world = random_world(rng, schema, spine, empty=0.3)
    places = np.arange(spine.units("L3"))
    tree = (
        MeasuredSpine.bypassed(spine, places) if bypassed else MeasuredSpine.from_published(spine)
    )
    bounds = world.bounds(
        at if known else None, in_parts(rng, spine, at) if known == "joint" else None
    )
    try:
        model, oracle = both(world, tree, bounds, rng, cells=cells)
    except InputError as error:
        if "is one unit" not in str(error):
            raise
        return
    precision = rng.uniform(0.1, 2, len(model.measurements.members))
    found, expected = model.variances(precision), oracle.variances(precision, model.estimands)
    more = oracle.settles_more()
    assert np.abs(found - expected).max() < (2e-3 if more else 1e-9)
    if more:  # what keeps a little variance does not fall
        check_gradient(model, precision, rng, euler=np.inf, least=0.02)
    else:
        assert not found[expected < 1e-12].any()  # zero, not nearly
        check_gradient(model, precision, rng)


def chain(spine_depth: int) -> Spine:
    codes = [np.array(["R" + "0" * d]) for d in range(spine_depth)]
    return Spine(
        tuple(f"L{d}" for d in range(spine_depth)),
        tuple(codes),
        tuple(np.zeros(1, np.int64) for _ in codes),
    )


@pytest.mark.parametrize("empty", [False, True])
def test_a_tree_that_is_one_unit_or_none_is_refused(empty: bool) -> None:
    world = random_world(np.random.default_rng(1), PLAIN, chain(3), empty=0.0)
    tree = MeasuredSpine.from_published(world.spine)
    measurements = choices(tree, [(lv, "detailed") for lv in world.spine.levels])
    lowest = (
        world.truth["L2"]
        if not empty
        else Histogram.from_triplets(1, PLAIN.cells, *(np.zeros(0, np.int64),) * 3)
    )
    with pytest.raises(InputError, match="one unit, or none"):
        trees.of_cells(
            PLAIN, tree, world.bounds(), lowest, measurements, [Estimand("L0", "total")], {}
        )


def test_cells_that_nothing_tells_apart_are_refused() -> None:
    rng = np.random.default_rng(2)
    world = random_world(rng, PLAIN, random_spine(rng, 4, 3), empty=0.0)
    tree = MeasuredSpine.from_published(world.spine)
    model, _ = both(world, tree, world.bounds(), rng, cells=False)
    lowest = np.array([pair == ("L3", "detailed") for pair in model.measurements.pairs])
    with pytest.raises(SpecError, match="tells some cells"):
        model.variances(np.where(lowest, 0.0, 1.0))
    assert np.isfinite(model.variances(np.where(lowest, 1e-9, 1.0))).all()


@pytest.mark.parametrize("known", [None, "L1"])
def test_a_regular_tree_has_the_closed_form(known: str | None) -> None:
    """The two models are one where every unit has as many children and may hold whatever others
    do.
    """
    parents = [
        np.zeros(1, np.int64),
        np.zeros(2, np.int64),
        np.repeat(np.arange(2), 3),
        np.repeat(np.arange(6), 2),
    ]
    codes = [np.array(["R"])]
    for parent in parents[1:]:
        codes.append(np.array([f"{codes[-1][p]}{i:02d}" for i, p in enumerate(parent)]))
    spine = Spine(tuple(f"L{d}" for d in range(4)), tuple(codes), tuple(parents))
    rng = np.random.default_rng(3)
    world = random_world(rng, PLAIN, spine, empty=0.0)
    tree = MeasuredSpine.from_published(spine)
    measurements = choices(tree, [(lv, q) for lv in spine.levels for q in MEASURED["plain"]])
    asked = [Estimand(lv, q) for lv in spine.levels for q in ("age", "total", "detailed")]
    one = trees.of_structures(PLAIN, tree, world.bounds(known), measurements, asked, {})
    other = Homogeneous.for_schema(
        PLAIN, spine.levels, (1, 2, 6, 12), measurements, asked, 1 if known else -1
    )
    p = rng.uniform(0.1, 2, len(measurements.pairs))
    assert np.allclose(one.variances(p), other.variances(p), rtol=1e-11, atol=1e-13)
    weight = rng.uniform(size=len(asked))
    assert np.allclose(one.gradient(p, weight)[1], other.gradient(p, weight)[1], rtol=1e-9)


def test_areas_where_totals_are_exact_have_no_variance() -> None:
    rng = np.random.default_rng(4)
    world = random_world(rng, PLAIN, random_spine(rng, 4, 3), empty=0.0)
    model, _ = both(
        world, MeasuredSpine.from_published(world.spine), world.bounds("L3"), rng, cells=False
    )
    p = rng.uniform(0.1, 2, len(model.measurements.members))
    totals = np.array([a.query == "total" for a in model.estimands])
    assert not model.variances(p)[totals].any()
    assert model.variances(p)[~totals].all()
    f, h = model.gradient(p, totals.astype(float))
    assert not f[totals].any()
    assert not h.any()


# --- memory
# -------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), known=st.sampled_from([None, "L1"]))
@settings(max_examples=5)
def test_modes_one_by_one_are_what_they_are_together(seed: int, known: str | None) -> None:
    rng = np.random.default_rng(seed)
    world = random_world(rng, PLAIN, random_spine(rng, 4, 3), empty=0.1)
    try:
        model, _ = both(
            world, MeasuredSpine.from_published(world.spine), world.bounds(known), rng, cells=False
        )
    except InputError:  # one unit
        return
    apart = replace(model)
    apart.__dict__["parts"] = tuple(
        model._part(slice(m, m + 1)) for m in range(len(model.coordinates.multiplicity))
    )
    assert len(apart.parts) > 1
    p, weights = (
        rng.uniform(0.1, 2, len(model.measurements.members)),
        rng.uniform(size=(2, len(model.estimands))),
    )
    f, rows = model.gradients(p, weights, lambda: None)
    g, others = apart.gradients(p, weights, lambda: None)
    assert np.allclose(f, g, rtol=1e-10, atol=1e-14)
    assert np.allclose(rows, others, rtol=1e-8, atol=1e-10)
    assert apart.modes_at_once == 1


def large(rng: np.random.Generator, room: float = np.inf) -> Recursion:
    """A model with matrices of 40 rows."""
    ages = tuple(f"a{i}" for i in range(40))
    young = Grouping("young", "age", ("u", "o"), tuple(int(i > 20) for i in range(40)))
    schema = Schema(
        "large", (Attribute("age", ages), Attribute("race", ("w", "x", "y"))), recodes=(young,)
    )
    world = random_world(rng, schema, random_spine(rng, 4, 5), empty=0.2)
    tree = MeasuredSpine.from_published(world.spine)
    measurements = choices(
        tree, [(lv, q) for lv in world.spine.levels for q in ("young", "race", "detailed")]
    )
    estimands = [Estimand(lv, q) for lv in world.spine.levels for q in ("young", "total")]
    return trees.of_structures(schema, tree, world.bounds(), measurements, estimands, {}, room)


def test_what_a_search_holds_is_foretold() -> None:
    tracemalloc.start()
    try:
        model = large(np.random.default_rng(1))
        model.gradient(np.full(len(model.measurements.members), 0.5), np.ones(len(model.estimands)))
        took = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.6 <= model.tree.bytes(model.modes_at_once) / took <= 1.7


def test_a_search_that_does_not_fit_is_refused_before_it_is_built() -> None:
    need = large(np.random.default_rng(1)).tree.bytes(1)
    assert large(np.random.default_rng(1), need * 1.01).tree.bytes(1) == need
    with pytest.raises(
        InputError, match=r"the search over this tree takes .* GB, and this machine has"
    ):
        large(np.random.default_rng(1), need * 0.99)
