"""Plans of an optimized specification: for all possible trees, and for the actual ones."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from das.model import tabulation as chains
from das.model.budget import ALL
from das.model.measured_spine import MeasuredSpine
from das.model.spine import Spine
from das.spec import RunSpec, parse
from tests.model.test_measured_spine import spines

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "pl94-2010.toml"
LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
SHARES = (104, 1440, 447, 687, 1256, 165)  # of 4099


def spec_of(spine: str = "optimized") -> RunSpec:
    return parse(
        CONFIG.read_text(encoding="utf-8"), where="c", overrides=[f"geography.spine={spine}"]
    )


@pytest.fixture(scope="module")
def spec() -> RunSpec:
    return spec_of()


def chain_of(*children: int) -> Spine:
    """A tree with these numbers of units at the levels below the root. Each unit is a child of the
    one before, except at the lowest level.
    """
    codes, parents = [np.array(["r"])], [np.zeros(1, dtype=np.int64)]
    for n in children:
        home = np.arange(n) * len(codes[-1]) // n
        parents.append(home)
        codes.append(np.array([f"{codes[-1][p]}{i:02}" for i, p in enumerate(home)]))
    return Spine(LEVELS, tuple(codes), tuple(parents))


def bypassed(spine: Spine) -> MeasuredSpine:
    return MeasuredSpine.bypassed(spine, np.arange(len(spine.codes[-1])))


def test_before_there_is_a_tree_a_plan_is_of_all_conceivable_paths(spec: RunSpec) -> None:
    tabulation = spec_of("tabulation")
    for u, other in zip(spec.universes, tabulation.universes, strict=True):
        assert u.plan.paths == chains.conceivable(LEVELS)
        assert u.plan.cost == other.plan.cost
        assert [(d.level, d.query, d.cost) for d in u.plan.plain] == [
            (d.level, d.query, d.cost) for d in other.plan.measurements
        ]
        assert [(n.level, n.query, n.parameter) for n in u.noise] == [
            (n.level, n.query, n.parameter) for n in other.noise
        ]
        assert u.passes == other.passes
    draws = spec.persons.plan.measurements
    assert [d.level for d in draws] == sorted((d.level for d in draws), key=LEVELS.index)
    assert list(dict.fromkeys(d.unit_class for d in draws if d.level == "Tract")) == [
        "Tract",
        "Tract to Block_Group",
        "Tract to Block",
    ]


def test_noise_of_units_by_class_is_that_of_the_published_shares(spec: RunSpec) -> None:
    """facts/spine.md, 3.5: sigma of the total of a tract of one group, of a county of one tract and
    one group.
    """
    sigma = {
        d.place: float(d.parameter) ** 0.5
        for d in spec.persons.plan.measurements
        if d.query == "total"
    }
    for place, known in {
        ("Tract", "Tract"): 2.472,
        ("Tract", "Tract to Block_Group"): 1.470,
        ("Tract", "Tract to Block"): 1.411,
        ("County", "County to Tract"): 1.361,
        ("County", "County to Block_Group"): 0.938,
        ("State", "State to Block_Group"): 0.674,
        ("State", "State to Block"): 0.660,
    }.items():
        assert sigma[place] == pytest.approx(known, abs=6e-4)


@settings(max_examples=30, deadline=None)
@given(spines(LEVELS))
def test_on_its_tree_a_plan_has_the_paths_that_there_are_and_costs_the_same(
    spec: RunSpec, spine: Spine
) -> None:
    tree = bypassed(spine)
    found = spec.on({u.name: tree for u in spec.universes})
    for u, before in zip(found.universes, spec.universes, strict=True):
        assert u.plan.paths == tree.paths
        assert u.plan.cost == before.plan.cost
        assert {d.place for d in u.plan.measurements} == {
            p for path in tree.paths for p in path if p[1] != chains.UNMEASURED
        }


def test_the_noise_of_a_level_is_that_of_most_of_its_measured_units(spec: RunSpec) -> None:
    tree = bypassed(
        chain_of(1, 1, 4, 4, 8)
    )  # one state, one county; each tract is its only block group
    on = spec.on({u.name: tree for u in spec.universes})
    u = on.persons
    assert tree.usual == (
        ("US", "US to County"),
        ("Tract", "Tract to Block_Group"),
        ("Block", "Block"),
    )
    assert list(dict.fromkeys((n.level, n.unit_class) for n in u.noise)) == list(tree.usual)
    rho = sum((n.mechanism.cost(n.parameter, 2) for n in u.noise if n.level == "US"), Fraction(0))
    assert rho == u.plan.cost * Fraction(sum(SHARES[:3]), 4099)
    assert {d.level for d in u.plan.measurements} == {"US", "Tract", "Block"}
    assert u.passes == spec.persons.passes


def test_a_specification_on_its_trees_says_nothing_else_and_keeps_nothing_stale(
    spec: RunSpec,
) -> None:
    assert (
        len(spec.terms.paths["persons"]) == len(spec.after.universes[0].plan.paths) == 32
    )  # computed before
    tree = bypassed(chain_of(2, 4, 8, 16, 32))
    on = spec.on({u.name: tree for u in spec.universes})
    assert on.dump() == spec.dump()
    for found in (on, on.model_copy()):
        assert len(found.terms.paths["persons"]) == len(found.after.universes[0].plan.paths) == 1
        assert found.persons.plan.paths == (chains.conceivable(LEVELS)[0],)
    assert len(spec.persons.plan.paths) == 32


def test_on_the_tabulation_spine_nothing_changes() -> None:
    spec = spec_of("tabulation")
    spine = chain_of(2, 4, 8, 16, 32)
    assert spec.on({u.name: MeasuredSpine.from_published(spine) for u in spec.universes}) is spec
    assert {d.unit_class for d in spec.persons.plan.measurements} == {ALL}
