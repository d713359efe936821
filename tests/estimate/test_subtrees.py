"""An upper tree and subtrees, estimated one by one, are the whole tree: bit by bit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.engine import InProcess
from das.errors import InfeasibleError, InputError
from das.estimate import descent, size_bias
from das.estimate.descent import topdown
from das.estimate.passes import Passes
from das.estimate.upward_pass import upward_pass
from das.geography import bounds as geography
from das.geography.invariants import Invariants
from das.model.budget import QueryNoise
from das.model.constraint import JointTotals, Limits
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurements
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.schema import Schema
from das.model.solution import Certificate
from das.model.spine import Spine
from das.release.opened import open_release
from tests.estimate.cut import Cut, Tree
from tests.estimate.world import PLAIN, SMALL, World, random_spine, random_world
from tests.worlds import Worlds

QUERIES = {
    "small": ("total", "home", "age * race", "detailed"),
    "plain": ("total", "race", "detailed"),
}
KINDS = ("nothing", "buildings", "totals above", "totals", "queries", "joint")  #: of what is known


def random_cut(
    rng: np.random.Generator, schema: Schema, most: int, kind: str, *, together: bool = False
) -> tuple[World, Cut]:
    """A tree of three levels to five with up to ``most`` children, cut at any but the lowest; of
    what it is cut into three subtrees share the units anyhow, or as they follow each other. Each
    level is asked some of the queries."""
    spine = random_spine(rng, int(rng.integers(3, 6)), most)
    world = random_world(
        rng, schema, spine, size=float(rng.choice([1, 8])), facilities=0.4, empty=0.3
    )
    depth = int(rng.integers(0, len(spine) - 1))
    home = rng.integers(0, 3, len(spine.codes[depth]))
    home = np.sort(home) if together else home
    units = [np.flatnonzero(home == i) for i in np.unique(home)]
    asked = {
        (lv, q): float(10 ** rng.uniform(-1, 2))
        for lv in spine.levels
        for q in QUERIES[schema.name]
        if q == "detailed" or rng.random() < 0.7
    }
    every = world.measured(rng, QUERIES[schema.name], lambda lv, q: asked.get((lv, q), 1.0))
    source = Measurements({key: m for key, m in every.held.items() if key in asked})
    noise = tuple(QueryNoise(lv, q, DISCRETE_GAUSSIAN, Fraction(v)) for (lv, q), v in asked.items())
    universe = replace(world.universe(chain=kind != "queries"), noise=noise)
    return world, Cut(
        Tree(spine, source, what_is_known(rng, world, kind, depth), universe),
        spine.levels[depth],
        units,
    )


def what_is_known(rng: np.random.Generator, world: World, kind: str, depth: int) -> Invariants:
    spine, total = world.spine, world.schema.query("total")
    found = (
        None if kind in ("nothing", "queries") else geography.lowest(world.schema, world.structures)
    )
    limits = None if found is None else Limits.from_bounds(*found)
    if kind == "queries":
        asked = [(spine.levels[0], total), (spine.levels[-1], world.schema.query("race"))]
        return Invariants(
            None, tuple((level, q, world.truth[level].answer(q)) for level, q in asked)
        )
    if kind.startswith("joint"):
        level = spine.levels[
            rng.integers(depth + 1, len(spine))
            if kind == "joint below"
            else rng.integers(1, max(depth, 1) + 1)
        ]
        parent = spine.parent[spine.index(level)]
        part = np.unique(parent * 2 + rng.integers(0, 2, len(parent)), return_inverse=True)[1]
        return Invariants(
            limits,
            (),
            (level, JointTotals(part, np.bincount(part, world.truth[level].totals()).astype(int))),
        )
    if kind in ("totals above", "totals"):
        level = spine.levels[
            rng.integers(0, (depth if kind == "totals above" else len(spine) - 1) + 1)
        ]
        return Invariants(limits, ((level, total, world.truth[level].answer(total)),))
    return Invariants(limits)


def passes_of(tree: Tree) -> Passes:
    """At each level but the lowest the total first, where it is measured."""
    asked, lowest = {lv: tree.source.queries(lv) for lv in tree.spine.levels}, tree.spine.levels[-1]
    return Passes(
        {lv: (("total",), q) if "total" in q and lv != lowest else (q,) for lv, q in asked.items()}
    )


@settings(max_examples=30)
@given(
    st.integers(0, 2**32),
    st.sampled_from([SMALL, PLAIN]),
    st.integers(1, 3),
    st.sampled_from(KINDS),
    st.booleans(),
)
def test_a_upper_tree_and_subtrees_are_the_whole_tree(
    seed: int, schema: Schema, most: int, kind: str, informed: bool
) -> None:
    """Paths, and trees with many only children; whatever is known, above the cut or below."""
    _, cut = random_cut(np.random.default_rng(seed), schema, most, kind)
    method = passes_of(cut.whole)
    cut.walk(method, informed=informed).is_bit_by_bit(cut.whole.walk(method, informed=informed))


@pytest.mark.parametrize("seed", range(5))
def test_joint_totals_below_a_upper_tree_are_met_as_in_the_whole_tree(seed: int) -> None:
    """Where no two units of a subtree have a total together, it knows those of each: the same, said
    otherwise.
    """
    _, cut = random_cut(np.random.default_rng(seed), SMALL, 3, "joint below")
    method = passes_of(cut.whole)
    found, whole = (x.walk(method, informed=False).histograms for x in (cut, cut.whole))
    assert all(found[level].same_as(h) for level, h in whole.items())


@pytest.mark.parametrize("seed", range(3))
def test_they_are_where_only_children_are_bypassed(seed: int) -> None:
    """As on an optimized spine: units without a measurement."""
    _, cut = random_cut(np.random.default_rng(seed), SMALL, 2, "buildings")
    tree = MeasuredSpine.bypassed(cut.whole.spine, np.arange(len(cut.whole.spine.codes[-1])))
    source = Measurements(
        {
            key: replace(m, variance=np.where(tree.measured(key[0]), m.variance, np.inf))
            for key, m in cut.whole.source.held.items()
        }
    )
    cut = replace(cut, whole=replace(cut.whole, source=source, measured=tree.measured))
    for informed in (False, True):
        cut.walk(passes_of(cut.whole), informed=informed).is_bit_by_bit(
            cut.whole.walk(passes_of(cut.whole), informed=informed)
        )


@pytest.mark.parametrize("informed", [False, True])
def test_the_spread_is_found_from_what_all_subtrees_see(informed: bool) -> None:
    """The units of a subtree follow each other here: the order of what is seen decides the last
    digits of what is found.
    """
    for seed in range(2):
        _, cut = random_cut(np.random.default_rng(seed), SMALL, 4, "buildings", together=True)
        whole = cut.whole.walk(passes_of(cut.whole), informed=informed, correct=True)
        assert whole.correction is not None
        cut.walk(passes_of(cut.whole), informed=informed, correct=True).is_bit_by_bit(whole)


def test_what_an_only_child_across_the_border_was_asked_is_not_lost() -> None:
    """A county of one tract, which was measured well: without what the subtree hands up it would be
    another.
    """
    codes = (np.array(["0"]), np.array(["1", "2"]), np.array(["10", "20", "21"]))
    spine = Spine(("US", "County", "Tract"), codes, tuple(map(np.array, ([0], [0, 0], [0, 1, 1]))))
    world = random_world(np.random.default_rng(1), PLAIN, spine, size=40.0, empty=0.0)
    noise = {"US": 0.01, "Tract": 0.01}
    source = world.measured(
        np.random.default_rng(2), ["detailed"], lambda level, _: noise.get(level, 900.0)
    )
    cut = Cut(
        Tree(spine, source, Invariants(), world.universe()),
        "County",
        [np.array([0]), np.array([1])],
    )
    found = cut.walk(passes_of(cut.whole), informed=False).histograms["County"].dense()
    upper_tree = cut.upper_tree
    alone = topdown(
        upper_tree.source,
        upper_tree.spine,
        upper_tree.bounds,
        world.universe(),
        passes_of(cut.whole),
    )
    truth = world.truth["County"].dense()
    assert np.abs(found - truth).max() <= 1
    assert np.abs(alone.histograms["County"].dense() - truth).max() > 5


def test_a_upper_tree_and_subtrees_speak_of_all_queries() -> None:
    """The algebra has the axes of what any level was asked, also where a source has another level
    alone.
    """
    rng = np.random.default_rng(4)
    spine = random_spine(rng, 4, 3)
    world = random_world(rng, SMALL, spine)
    asked = {"L0": ("total",), "L1": ("age * race",), "L2": ("race",), "L3": ("detailed",)}
    noise = tuple(
        QueryNoise(lv, q, DISCRETE_GAUSSIAN, Fraction(4))
        for lv, queries in asked.items()
        for q in queries
    )
    universe = replace(world.universe(), noise=noise)
    every = world.measured(rng, [n.query for n in noise], 4.0)
    source = Measurements({key: m for key, m in every.held.items() if key[1] in asked[key[0]]})
    cut = Cut(
        Tree(spine, source, Invariants(), universe),
        "L1",
        [np.array([u]) for u in range(spine.units("L1"))],
    )
    subtree = cut.subtrees[0]
    above = upward_pass(source, spine, cut.whole.bounds, universe).contrasts
    assert (
        upward_pass(subtree.source, subtree.spine, subtree.bounds, universe, to="L1").contrasts
        == above
    )
    assert above.plain == (2,)


def test_of_a_large_level_every_subtree_sees_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the children are enough. Which, the subtree alone decides, and how large the tree
    is.
    """
    rng = np.random.default_rng(3)
    codes = [[f"{i:0{d}}" for i in range(n)] for d, n in enumerate((1, 6, 30, 300), 1)]
    parents = [np.arange(n) // share for n, share in ((1, 1), (6, 6), (30, 5), (300, 10))]
    spine = Spine(("L0", "L1", "L2", "L3"), tuple(map(np.array, codes)), tuple(parents))
    world = random_world(rng, SMALL, spine, size=20.0, empty=0.0)
    found = geography.lowest(SMALL, world.structures)
    assert found is not None
    tree = Tree(
        spine,
        world.measured(rng, ["detailed"], 4.0),
        Invariants(Limits.from_bounds(*found)),
        world.universe(),
    )
    cut = Cut(tree, "L1", [np.array([u]) for u in range(spine.units("L1"))])
    everybody = size_bias.sample_households(
        tree.source, spine, tree.bounds["L3"], tree.universe, world.truth["L2"], InProcess()
    )
    monkeypatch.setattr(size_bias, "_ENOUGH", 30)
    monkeypatch.setattr(size_bias, "_PARTS", 6)
    monkeypatch.setattr(Spine.batches, "__defaults__", (240,))
    seen = []
    for subtree, kept in zip(cut.subtrees, cut.kept, strict=True):
        parents = Histogram.concatenate(
            [world.truth["L2"].rows(int(u), int(u) + 1) for u in kept[2]]
        )
        look = size_bias.sample_households(
            subtree.source,
            subtree.spine,
            subtree.bounds["L3"],
            tree.universe,
            parents,
            InProcess(),
            lowest=300,
        )
        seen.append(len(look))
    assert 200 < len(everybody) <= 300
    assert min(seen) > 0
    assert 30 < sum(seen) <= 60


def test_what_is_published_is_of_all_units_of_one_level_and_is_not_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuts = (random_cut(np.random.default_rng(seed), SMALL, 3, "buildings") for seed in range(20))
    world, cut = next(found for found in cuts if found[1].depth + 2 < len(found[1].whole.spine))
    subtree, level = cut.subtrees[0], cut.level
    truth = Histogram.concatenate(
        [world.truth[level].rows(int(u), int(u) + 1) for u in cut.units[0]]
    )

    def walk(published: dict[str, Histogram]) -> None:
        topdown(
            subtree.source,
            subtree.spine,
            subtree.bounds,
            cut.whole.universe,
            passes_of(cut.whole),
            published=published,
        )

    walk({level: truth})
    with pytest.raises(
        InputError, match=f"published of {level}: it is not of all units of one level"
    ):
        walk({level: world.truth[cut.whole.spine.levels[-1]]})
    with pytest.raises(InputError, match="it is not of all units of one level"):
        walk({level: truth, cut.whole.spine.levels[-1]: truth})
    monkeypatch.setattr(
        descent, "repair", lambda *given: (given[3], Certificate(repaired=1, moved=2))
    )
    with pytest.raises(
        InfeasibleError, match="the units below cannot hold what is published above them"
    ):
        walk({level: truth})


@pytest.mark.parametrize(
    ("universe", "informed"), [("persons", True), ("persons", False), ("housing", False)]
)
def test_so_are_those_of_an_optimized_spine(worlds: Worlds, universe: str, informed: bool) -> None:
    """From the files of a release of three states in two branches each, whose totals are known
    together, with bounds on dwellings; and of housing units, whose totals are known of every block.
    A county in two branches is in one subtree."""
    opened = open_release(
        worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand") / "release"
    )
    (u,) = (u for u in opened.after.universes if u.name == universe)
    tree, reader, bounds = opened.tree(u), opened.source(u), opened.bounds(u)
    source = Measurements.from_measurements(
        reader.read(level, q, 0, tree.spine.units(level))
        for level in tree.spine.levels
        for q in reader.queries(level)
    )
    total = u.schema.query("total")
    known = Invariants(
        bounds["Block"].limits if universe == "persons" else None,
        tuple(
            (level, total, b.total[:, None]) for level, b in bounds.items() if b.total is not None
        ),
        next(((level, b.joint) for level, b in bounds.items() if b.joint is not None), None),
    )
    county = tree.home_units("County", opened.spine)
    units = [np.flatnonzero(county % 4 == i) for i in range(4)]
    cut = Cut(Tree(tree.spine, source, known, u, tree.measured), "County", units)
    assert all(cut.whole.bounds[level] == b for level, b in bounds.items())
    method = Passes(u.passes)
    cut.walk(method, informed=informed).is_bit_by_bit(cut.whole.walk(method, informed=informed))
    if (
        universe == "persons" and not informed
    ):  # what is seen comes in another order: the spread differs in its last digits
        found, whole = (x.walk(method, informed=False, correct=True) for x in (cut, cut.whole))
        assert found.correction is not None
        assert found.correction.seen == whole.correction.seen
        assert all(found.histograms[level].same_as(h) for level, h in whole.histograms.items())
