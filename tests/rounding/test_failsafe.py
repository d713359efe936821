"""Parents that cannot be shared out: repaired with the least change, all the way up, and
counted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from das.errors import InfeasibleError
from das.estimate import descent
from das.geography import bounds as geography
from das.model.constraint import MOST_GROUPS, Bounds, LevelBounds, Limits
from das.model.histogram import Histogram
from das.model.release import Release
from das.model.schema import Attribute, Schema
from das.model.solution import Certificate
from das.model.spine import Spine
from das.rounding import repair
from tests.estimate.world import SMALL, World, random_spine, random_world

TWELVE = Schema(
    "twelve",
    (
        Attribute("age", ("u", "o")),
        Attribute("home", tuple("abcdefghijkl")),
        Attribute("race", ("x", "y")),
    ),
    impossible=({"home": ("d",), "age": ("u",)},),
    dwelling="home",
)
QUERIES = ("total", "home", "detailed")


def full_world(
    seed: int, schema: Schema = TWELVE, *, joint: bool = False
) -> tuple[World, dict[str, LevelBounds]]:
    """Places with many kinds of facility, each with hardly anybody but whom it must hold; totals of
    states known, or of some states of one parent together."""
    rng = np.random.default_rng(seed)
    world = random_world(rng, schema, random_spine(rng, 4, 3), size=0.5, facilities=0.4, empty=0.5)
    if not joint:
        return world, world.bounds("L2")
    parent = world.spine.parent[2]
    part = np.unique(parent * 2 + rng.integers(0, 2, len(parent)), return_inverse=True)[1]
    return world, world.bounds("L2", rng.permutation(part.max() + 1)[part])


def run(seed: int) -> tuple[World, Release, Certificate, Certificate]:
    world, bounds = full_world(seed)
    source = world.measured(np.random.default_rng(seed), QUERIES, 400.0)
    return world, *world.descend(source, bounds, [QUERIES], chain=False)


def held(h: Histogram, bounds: Bounds) -> NDArray[np.int64]:
    return np.stack(
        [h.dense()[:, bounds.group == g].sum(axis=1) for g in range(bounds.groups)], axis=1
    )


def least_change(y: NDArray[np.int64], low: Bounds) -> float:
    """Half the least sum of |y' - y| such that y' can be shared out: a linear program with a slack
    each way, over the groups of every unit, whose total is known, or that of its part."""
    n, groups = low.lower.shape
    part, total = (
        (np.arange(n), low.total) if low.joint is None else (low.joint.part, low.joint.total)
    )
    assert total is not None
    within = (part == np.arange(len(total))[:, None]).astype(float)
    sums = np.hstack([np.kron(np.ones(n), np.eye(groups)), np.eye(groups), -np.eye(groups)])
    totals = np.hstack([np.kron(within, np.ones(groups)), np.zeros((len(total), 2 * groups))])
    box = [*zip(low.lower.ravel(), low.upper.ravel(), strict=True), *[(0, None)] * (2 * groups)]
    cost = np.concatenate([np.zeros(n * groups), np.ones(2 * groups)])
    found = linprog(
        cost, A_eq=np.vstack([sums, totals]), b_eq=np.concatenate([y, total]), bounds=box
    )
    assert found.status == 0
    return float(found.fun) / 2


def test_with_twelve_kinds_of_dwelling_every_parent_can_be_shared_out() -> None:
    """Too many for their subsets to be listed, but the roundings include what lies below: nothing
    needs repairing.
    """
    assert TWELVE.shape[1] > MOST_GROUPS
    for seed in range(6):
        world, release, estimation, _ = run(seed)
        assert (estimation.repaired, estimation.moved) == (0, 0)
        assert release.bounds["L1"].reach is None
        assert np.array_equal(release.histograms["L2"].totals(), world.truth["L2"].totals())


def test_without_what_lies_below_parents_are_mended_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The descent ends in a release all the same: every bound, total and sum exact (which
    ``Release`` checks).
    """
    monkeypatch.setattr(descent, "descendants", lambda *_: None)
    counted = [run(seed)[2] for seed in range(6)]
    assert sum(c.repaired for c in counted) >= 5
    assert all(c.moved >= c.repaired for c in counted)


@pytest.mark.parametrize("joint", [False, True], ids=["totals", "joint totals"])
@pytest.mark.parametrize("schema", [SMALL, TWELVE], ids=lambda s: s.name)
def test_the_change_is_the_least_and_goes_all_the_way_up(schema: Schema, joint: bool) -> None:
    """Persons of states put into dwellings at random: as near as a linear program comes; sums and
    totals unchanged.
    """
    repaired, together = 0, 0
    for seed in range(12):
        world, bounds = full_world(seed, schema, joint=joint)
        together += bounds["L2"].joint is not None
        rng = np.random.default_rng(seed)
        published = shuffled(world, rng)
        after, certificate = repair(schema, world.spine, bounds, published, "L1")
        where, wanted = world.spine.up("L2", "L1"), []
        for unit in range(world.spine.units("L1")):
            below = bounds["L2"].some(where == unit)
            short = least_change(held(published["L1"], bounds["L1"].dense())[unit], below)
            assert least_change(held(after["L1"], bounds["L1"].dense())[unit], below) == 0
            wanted.append(short)
        assert (certificate.repaired, certificate.moved) == (np.count_nonzero(wanted), sum(wanted))
        repaired += certificate.repaired
        for level in ("L0", "L1"):
            change = after[level].dense() - published[level].dense()
            assert (change.sum(axis=1) == 0).all()
            assert not change[:, ~schema.possible].any()
        apart = np.abs(after["L1"].dense() - published["L1"].dense()).sum()
        assert apart == 2 * certificate.moved
        up = after["L1"].up(world.spine.parent[1], 1)
        assert up.same_as(after["L0"])
        again, nothing = repair(schema, world.spine, bounds, after, "L1")
        assert nothing == Certificate()
        assert again["L1"].same_as(after["L1"])
    assert repaired > 5
    assert (together > 5) == joint


def shuffled(world: World, rng: np.random.Generator) -> Mapping[str, Histogram]:
    """Levels 0 and 1 with as many persons as there are, in other cells."""
    true = world.truth["L1"]
    cells = rng.choice(np.flatnonzero(world.schema.possible), int(true.count.sum()))
    unit = np.repeat(np.arange(true.units), true.totals())
    moved = Histogram.from_triplets(
        true.units, true.cells, unit, cells, np.ones(len(cells), dtype=np.int64)
    )
    return {"L0": moved.up(world.spine.parent[1], 1), "L1": moved}


def two_states(
    lower: list[list[int]], upper: list[list[int]], total: list[int]
) -> tuple[Spine, dict[str, LevelBounds]]:
    zero = np.zeros(1, dtype=np.int64)
    spine = Spine(
        ("N", "S"), (np.array(["n"]), np.array(["x", "y"])), (zero, np.zeros(2, dtype=np.int64))
    )
    return spine, geography.bounds(
        SMALL, spine, Limits.from_bounds(np.array(lower), np.array(upper)), np.array(total), "S"
    )


def cells(**counts: int) -> Histogram:
    """A root of SMALL by letters: home (h, a, b), age (u, o), race (x, y, z)."""
    at = [("hab".index(k[0]) * 2 + "uo".index(k[1])) * 3 + "xyz".index(k[2]) for k in counts]
    return Histogram.from_triplets(
        1,
        SMALL.cells,
        np.zeros(len(at), dtype=np.int64),
        np.array(at),
        np.array([*counts.values()]),
    )


def test_who_moves_keeps_the_other_attributes_where_that_is_possible() -> None:
    """Both states need three in facility b, where nobody is under age: those of the household in
    proportion.
    """
    spine, bounds = two_states([[0, 0, 3], [0, 0, 3]], [[9, 0, 9], [9, 0, 9]], [6, 6])
    root = cells(hux=8, hoz=4)
    out, certificate = repair(SMALL, spine, bounds, {"N": root}, "N")
    assert out["N"].same_as(cells(hux=4, hoz=2, box=4, boz=2))
    assert certificate == Certificate(repaired=1, moved=6)


def test_nobody_moves_without_need() -> None:
    spine, bounds = two_states([[0, 1, 0], [0, 0, 0]], [[9, 9, 0], [9, 0, 9]], [5, 5])
    root = cells(hux=6, aox=2, boy=2)
    out, certificate = repair(SMALL, spine, bounds, {"N": root}, "N")
    assert out["N"].same_as(root)
    assert certificate == Certificate()


def test_a_root_of_another_total_cannot_be_mended() -> None:
    spine, bounds = two_states([[0, 1, 0], [0, 0, 0]], [[9, 9, 0], [9, 0, 9]], [5, 5])
    with pytest.raises(InfeasibleError, match="N n: its persons cannot be shared out"):
        repair(SMALL, spine, bounds, {"N": cells(hux=9)}, "N")
