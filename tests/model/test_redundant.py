"""Draws that add nothing: whatever they measure nothing that is published changes, and of all
others something does.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das import load_spec as load
from das.estimate.descent import full_information, topdown
from das.model.ledger import follows, open_answers, redundant, redundant_on
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement, Measurements
from das.model.plan import Plan
from das.model.redistricting import H1
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.model.universe import HOUSING, PERSONS, Exact, Planned
from das.spec import load as load_text
from tests.estimate.world import SMALL, World, passes, random_spine, random_world
from tests.oracles import dense

LEVELS = ("L0", "L1", "L2")
QUERIES = ("total", "home", "detailed")


def planned(
    schema: Schema, exact: Exact, queries: Sequence[str] = QUERIES, levels: Sequence[str] = LEVELS
) -> Planned:
    shares = {level: f"1/{len(levels)}" for level in levels}
    return Planned(PERSONS, schema, exact=exact, plan=Plan.of_rho(1, shares, list(queries)))


def places(universe: Planned, levels: Sequence[str] = LEVELS) -> set[tuple[str, str]]:
    return {(i.measurement.level, i.measurement.query) for i in redundant(universe, levels)}


# --- against estimation itself
# ---------------------------------------------------------------------------------------


def shifted(
    source: Measurements, level: str, query: str, unit: int, answer: int, by: int
) -> Measurements:
    """The same with another answer of one unit to one query."""
    held = dict(source.held)
    m = held[level, query]
    values = m.values.copy()
    values[unit, answer] += by
    held[level, query] = Measurement(level, query, 0, values, m.variance)
    return Measurements(held)


def published(
    world: World,
    source: Measurements,
    method: str,
    total_level: str,
    part: np.ndarray | None = None,
) -> list:
    bounds = world.bounds(total_level, part, housing_units=False, group_quarters=False)
    given = source, world.spine, bounds, world.universe()
    own = passes(world.spine, [["total", "home"], ["detailed"]], accuracy=1e-9)
    release = (full_information if method == "full-information" else topdown)(*given, own)
    return [release.histograms[level].dense().tolist() for level in world.spine.levels]


@pytest.fixture(scope="module")
def world() -> World:
    rng = np.random.default_rng(4)
    while (spine := random_spine(rng, 3, 3)).units("L1") < 3:
        pass
    return random_world(rng, SMALL, spine, size=9.0, facilities=0.5, empty=0.2)


@pytest.mark.parametrize("method", ["topdown", "full-information"])
@pytest.mark.parametrize("total_level", LEVELS)
def test_what_an_idle_draw_measures_changes_nothing_and_what_another_does(
    world: World, method: str, total_level: str
) -> None:
    source = world.measured(np.random.default_rng(1), QUERIES, 4.0)
    before = published(world, source, method, total_level)
    never = places(planned(SMALL, Exact(total_level)))
    assert never == {(level, "total") for level in LEVELS[: LEVELS.index(total_level) + 1]}
    for level in LEVELS:
        for query in QUERIES:
            shape = source.held[level, query].values.shape
            changed = (
                published(
                    world, shifted(source, level, query, unit, answer, by), method, total_level
                )
                != before
                for unit in range(shape[0])
                for answer in range(shape[1])
                for by in (-9, 9)
            )
            assert any(changed) == ((level, query) not in never), (level, query)


def test_of_joint_totals_it_is_idle_in_units_that_are_whole_alone(world: World) -> None:
    units = world.spine.units("L1")
    part = np.array([0, 0, *range(1, units - 1)])
    source = world.measured(np.random.default_rng(2), QUERIES, 4.0)
    before = published(world, source, "topdown", "L1", part)
    changed = [
        published(world, shifted(source, "L1", "total", u, 0, 30), "topdown", "L1", part) != before
        for u in range(units)
    ]
    assert changed == [True, True, *[False] * (units - 2)]


# --- against dense matrices
# ----------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_what_follows_is_the_row_space_on_cells_that_can_occur(seed: int) -> None:
    rng = np.random.default_rng(seed)
    attributes = [
        Attribute(name, tuple(f"{name}{i}" for i in range(int(rng.integers(1, 4)))))
        for name in "abc"
    ]
    pairs = [
        {"a": (a,), "b": (b,)}
        for a in attributes[0].levels
        for b in attributes[1].levels
        if rng.random() < 0.4
    ]
    schema = Schema("random", tuple(attributes), impossible=tuple(pairs))
    if not schema.possible.any():
        return
    names = ["total", "a", "b", "c", "a * b", "b * c", "detailed"]
    for query in names:
        for known in names:
            q, k = (
                dense(schema, schema.query(n))[:, schema.possible].astype(float)
                for n in (query, known)
            )
            inside = np.linalg.matrix_rank(np.vstack([k, q])) == np.linalg.matrix_rank(k)
            assert follows(schema, query, known) == inside, (query, known)


def test_structural_zeros_let_one_attribute_follow_from_another() -> None:
    zeros = ({"home": ("jail",), "age": ("u",)}, {"home": ("house",), "age": ("o",)})
    schema = Schema(
        "zeros",
        (Attribute("home", ("house", "jail")), Attribute("age", ("u", "o"))),
        impossible=zeros,
    )
    assert not schema.query("home").sums(schema.query("age"))
    exact = Exact(queries=(("L1", "age"),))
    assert places(planned(schema, exact, ("total", "home", "age", "detailed"))) == {
        (level, query) for level in ("L0", "L1") for query in ("total", "home", "age", "detailed")
    }


# --- levels and counts
# -------------------------------------------------------------------------------------------------


def test_nothing_is_idle_where_nothing_is_exact_or_only_bounds_are() -> None:
    assert not places(planned(SMALL, Exact()))
    assert not places(planned(SMALL, Exact(housing_units=True, group_quarters=True)))


def test_the_finest_count_of_each_level_decides() -> None:
    exact = Exact(total="L1", queries=(("L0", "home"),))
    assert places(planned(SMALL, exact)) == {("L0", "total"), ("L0", "home"), ("L1", "total")}


def test_of_housing_units_whose_number_is_exact_only_that_is_idle() -> None:
    shares = dict.fromkeys(LEVELS, "1/3")
    units = Planned(
        HOUSING, H1, exact=Exact("L2"), plan=Plan.of_rho(1, shares, ["total", "detailed"])
    )
    assert places(units) == {(level, "total") for level in LEVELS}
    production = load("pl94-2010").universe("housing")
    assert not redundant(production, load("pl94-2010").geography.levels)


def test_its_share_is_that_of_the_whole_budget() -> None:
    spec = load("pl94-2010", ["geography.spine=tabulation"])
    (found,) = redundant(spec.persons, spec.geography.levels)
    assert (found.measurement.level, found.measurement.query, found.known) == (
        "State",
        "total",
        ("State", "total"),
    )
    assert found.everywhere
    assert found.share == Fraction(1440, 4099) * Fraction(3773, 4097)


# --- places in two units
# -----------------------------------------------------------------------------------------------


#: Three states. The first is in two units, of two blocks each; the others are units of two blocks.
MEASURED = Spine(
    ("L0", "L1", "L2"),
    (
        np.array(["0"]),
        np.array(["001", "002", "003", "101"]),
        np.array([f"{s // 3}{s}{b}" for s in range(4) for b in range(2)]),
    ),
    (np.zeros(1, dtype=np.int64), np.zeros(4, dtype=np.int64), np.repeat(np.arange(4), 2)),
)
STATES = Spine(
    ("L0", "L1", "L2"),
    (
        np.array(["0"]),
        np.array(["01", "02", "03"]),
        np.array([f"{s}{b}" for s, n in ((1, 4), (2, 2), (3, 2)) for b in range(n)]),
    ),
    (np.zeros(1, dtype=np.int64), np.zeros(3, dtype=np.int64), np.repeat(np.arange(3), [4, 2, 2])),
)
#: The blocks of the branch are the second two of the first state.
TREE = MeasuredSpine.bypassed(MEASURED, np.array([0, 1, 4, 5, 6, 7, 2, 3]))


@pytest.fixture(scope="module")
def optimized() -> Planned:
    spec = load("pl94-2010", ["constraints.total=State"])
    return spec.persons


def renamed(tree: MeasuredSpine, published: Spine) -> tuple[MeasuredSpine, Spine]:
    """The same with the levels of a configuration; the lower ones have one unit each."""

    def deep(spine: Spine) -> Spine:
        lowest = np.arange(spine.units("L2"))
        codes, parents = spine.codes, spine.parent
        return Spine(
            ("US", "State", "County", "Tract", "Block_Group", "Block"),
            (codes[0], codes[1], *[codes[2]] * 4),
            (parents[0], parents[1], parents[2], lowest, lowest, lowest),
        )

    return MeasuredSpine.bypassed(deep(tree.spine), tree.place), deep(published)


def test_before_there_is_a_tree_it_is_idle_where_states_are_whole(optimized: Planned) -> None:
    levels = optimized.plan.levels
    found = redundant(optimized, levels, levels[1:])
    assert {(i.measurement.level, i.measurement.query, i.everywhere, i.units) for i in found} == {
        ("State", "total", False, None)
    }
    assert {i.measurement.unit_class for i in found} == set(optimized.plan.classes("State")) - {
        "unmeasured"
    }


def test_a_tree_says_in_how_many_units(optimized: Planned) -> None:
    tree, published = renamed(TREE, STATES)
    assert tree.split == ("State",)
    (found,) = redundant_on(optimized, tree, published)
    assert (found.measurement.level, found.measurement.unit_class) == ("State", "State")
    assert (found.units, found.of, found.everywhere) == (2, 4, False)
    whole = MeasuredSpine.bypassed(published, np.arange(8))
    (found,) = redundant_on(optimized, whole, published)
    assert (found.units, found.of, found.everywhere) == (3, 3, True)


def test_a_state_in_two_units_alone_has_no_idle_draw(optimized: Planned) -> None:
    """One state with a branch: as Rhode Island."""
    parents = (np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64), np.repeat([0, 1], 2))
    measured = Spine(
        LEVELS,
        (np.array(["0"]), np.array(["001", "101"]), np.array(["000", "001", "112", "113"])),
        parents,
    )
    alone = Spine(
        LEVELS,
        (np.array(["0"]), np.array(["01"]), np.array(["00", "01", "10", "11"])),
        (parents[0], np.zeros(1, dtype=np.int64), np.zeros(4, dtype=np.int64)),
    )
    assert (
        redundant_on(optimized, *renamed(MeasuredSpine.bypassed(measured, np.arange(4)), alone))
        == ()
    )


def test_the_lowest_units_are_whole_on_any_tree() -> None:
    exact = Exact(total="L2")
    assert {i.everywhere for i in redundant(planned(SMALL, exact), LEVELS, LEVELS[1:])} == {True}


# --- beside the guarantee
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.toml"))
        if load_text(p.read_text("utf-8"), where=p.name).publication() == "counts"
    ],
    ids=lambda p: p.stem,
)
def test_idle_draws_are_those_that_neighbours_who_agree_cannot_differ_in(path: Path) -> None:
    """Where no structural zero matters."""
    spec = load(path)
    for u in spec.universes:
        found = {
            i.measurement
            for i in redundant(u, spec.geography.levels, spec.terms.split.get(u.name, ()))
            if i.everywhere
        }
        assert found == set(u.plan.measurements) - set(
            spec.terms.free(u.name, u.plan.measurements, u.exact.counts)
        )


@pytest.mark.parametrize(
    ("query", "answers", "left"),
    [
        ("age_18_64_116 * relgq_4_groups", 12, 6),
        ("age_18_64_116 * sex", 6, 4),
        ("age_38_groups * sex", 76, 74),
        ("hispanic * sex", 4, 2),
        ("sex * relgq_4_groups", 8, 5),
        ("votingage * hispanic", 4, 0),
    ],
)
def test_how_much_the_redistricting_counts_leave_open(query: str, answers: int, left: int) -> None:
    from das.publications.dhc.model.persons import DHCP
    from das.publications.dhc.model.strategy import PERSONS_FIXED

    assert DHCP.query(query).answers == answers
    assert open_answers(DHCP, query, PERSONS_FIXED) == left
