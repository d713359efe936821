"""The variance of areas from precisions alone: worked values, and the same by dense linear
algebra.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from das.errors import InputError
from das.estimate.areas.estimates import pieces, variances
from das.fold import Tiers
from das.model.constraint import JointTotals
from das.model.spine import Spine
from tests.estimate.world import random_spine

Array = NDArray[np.float64]


def found(
    spine: Spine,
    precision: list[Array],
    member: NDArray[np.bool_],
    *,
    full: bool,
    known: str | None = None,
    joint: tuple[str, NDArray[np.intp]] | None = None,
) -> Array:
    """With the totals of the units of a level known, or of parts of it."""
    totals = (
        {lv: np.zeros(spine.units(lv), dtype=np.int64) for lv in above(spine, known)}
        if known
        else {}
    )
    parts = None
    if joint is not None:
        parts = joint[0], JointTotals(joint[1], np.zeros(joint[1].max() + 1, dtype=np.int64))
        totals = {
            lv: np.zeros(spine.units(lv), dtype=np.int64) for lv in above(spine, joint[0])[:-1]
        }
    tiers = Tiers.from_spine(spine, totals, parts)
    at, each = [], iter(precision)
    for level in tiers.level:
        at.append(next(each) if level else np.zeros(joint[1].max() + 1))  # type: ignore[index]
    area, unit = np.nonzero(member)
    return variances(
        tiers, at, pieces(tiers.parents, area, unit), len(member), full_information=full
    )


def above(spine: Spine, level: str) -> tuple[str, ...]:
    return spine.levels[: spine.index(level) + 1]


def inside(spine: Spine, level: str) -> Array:
    home = spine.up(spine.levels[-1], level)
    return (home[None, :] == np.arange(spine.units(level))[:, None]).astype(float)


def by_least_squares(spine: Spine, precision: list[Array], rows: Array, equations: Array) -> Array:
    """The variances of sums of the lowest units, from all measurements."""
    n = spine.units(spine.levels[-1])
    normal = sum(
        (inside(spine, lv).T * p) @ inside(spine, lv)
        for lv, p in zip(spine.levels, precision, strict=True)
    )
    free = (
        np.linalg.svd(equations)[2][np.linalg.matrix_rank(equations) :].T
        if len(equations)
        else np.eye(n)
    )
    covariance = free @ np.linalg.inv(free.T @ normal @ free) @ free.T
    return np.einsum("ai,ij,aj->a", rows, covariance, rows)


def by_descent(spine: Spine, precision: list[Array], rows: Array, known: str | None) -> Array:
    """Each family's measurements moved to the sum that its parent was estimated to have, as linear
    maps of all noise.
    """
    units = [len(c) for c in spine.codes]
    start = np.cumsum([0, *units])
    noise = np.eye(start[-1])
    exact = set(above(spine, known)) if known else set()
    estimate: Array = noise[:1] * (spine.levels[0] not in exact)
    for depth in range(1, len(spine)):
        parent = spine.parent[depth]
        own = noise[start[depth] : start[depth + 1]]
        if spine.levels[depth] in exact:
            estimate = own * 0.0
            continue
        only = np.bincount(parent)[parent] == 1
        v = np.where(only, 1.0, 1 / np.where(only, 1.0, precision[depth]))
        share = v / np.bincount(parent, weights=v)[parent]
        total = inside_of(parent, units[depth - 1]) @ own
        estimate = own + share[:, None] * (estimate - total)[parent]
    at = rows @ estimate
    variance = np.concatenate([1 / np.where(p > 0, p, 1.0) for p in precision])
    return (at**2) @ variance


def inside_of(parent: NDArray[np.int64], parents: int) -> Array:
    return (parent[None, :] == np.arange(parents)[:, None]).astype(float)


def world(seed: int) -> tuple[Spine, list[Array], NDArray[np.bool_]]:
    """A tree, precisions with only children that are not measured, and areas; one is everything,
    one is nothing.
    """
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 4, 4)
    while np.bincount(spine.parent[2]).max() < 3:
        spine = random_spine(rng, 4, 4)
    precision = [rng.uniform(0.05, 3, len(c)) for c in spine.codes]
    for depth in range(1, 4):
        parent = spine.parent[depth]
        lost = (np.bincount(parent)[parent] == 1) & (rng.random(len(parent)) < 0.6)
        precision[depth][lost] = 0.0
    member = rng.random((6, spine.units("L3"))) < 0.5
    member[0], member[1] = True, False
    return spine, precision, member


def test_worked_case(shared_data: Path) -> None:
    path = shared_data.parent / "facts" / "spine_cases.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    case = next(c for c in json.loads(path.read_text())["cases"] if c["id"] == "area-variance")
    spine = Spine(
        ("A", "B", "C"),
        (np.array(["r"]), np.array(["a", "b"]), np.array(list("vwxyz"))),
        (np.zeros(1, np.int64), np.zeros(2, np.int64), np.array([0, 0, 0, 1, 1])),
    )
    assert case["parent"] == [-1, 0, 0, 1, 1, 1, 2, 2]
    precision = [np.array(case["precision"][a:b]) for a, b in ((0, 1), (1, 3), (3, 8))]
    member = np.array([[b + 3 in a["area"] for b in range(5)] for a in case["areas"]])
    for name, full in (("full_information", True), ("top_down", False)):
        for end, known in (("", None), ("_root_known", "A")):
            expected = [a[name + end] for a in case["areas"]]
            assert np.allclose(
                found(spine, precision, member, full=full, known=known),
                expected,
                rtol=0,
                atol=1e-11,
            )


@pytest.mark.parametrize("known", [None, "L0", "L1", "L3"])
@pytest.mark.parametrize("seed", range(4))
def test_full_information_is_least_squares(seed: int, known: str | None) -> None:
    spine, precision, member = world(seed)
    equations = np.zeros((0, member.shape[1])) if known is None else inside(spine, known)
    expected = by_least_squares(spine, precision, member.astype(float), equations)
    assert np.allclose(
        found(spine, precision, member, full=True, known=known), expected, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("known", [None, "L0", "L1"])
@pytest.mark.parametrize("seed", range(4))
def test_topdown_is_the_descent_as_a_linear_map(seed: int, known: str | None) -> None:
    spine, precision, member = world(seed)
    expected = by_descent(spine, precision, member.astype(float), known)
    assert np.allclose(
        found(spine, precision, member, full=False, known=known), expected, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("seed", range(4))
def test_joint_totals_are_equations_of_several_units(seed: int) -> None:
    spine, precision, member = world(seed)
    home = spine.parent[2]
    first = np.append(True, home[1:] != home[:-1])
    part = np.unique(home * 2 + first, return_inverse=True)[1]
    equations = inside_of(part, part.max() + 1) @ inside(spine, "L2")
    expected = by_least_squares(spine, precision, member.astype(float), equations)
    assert np.allclose(
        found(spine, precision, member, full=True, joint=("L2", part)),
        expected,
        rtol=1e-9,
        atol=1e-12,
    )
    split = np.bincount(part) > 1
    assert split.any(), "no part has two units: nothing is tested"


def test_a_unit_with_siblings_must_be_measured() -> None:
    spine, precision, member = world(1)
    parent = spine.parent[3]
    precision[3][np.flatnonzero(np.bincount(parent)[parent] > 1)[0]] = 0.0
    with pytest.raises(InputError, match=r"'L3' with siblings"):
        found(spine, precision, member, full=True)


def test_only_pieces_that_a_border_cuts_are_listed() -> None:
    parents = [np.zeros(1, np.int64), np.array([0, 0]), np.array([0, 0, 1, 1])]
    root, middle, lowest = pieces(parents, np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 0, 3]))
    assert root.area.tolist() == [0, 1]
    assert not root.whole.any()
    assert list(zip(middle.area, middle.unit, middle.whole, middle.up, strict=True)) == [
        (0, 0, True, 0),
        (0, 1, False, 0),
        (1, 0, False, 1),
        (1, 1, False, 1),
    ]
    assert list(zip(lowest.area, lowest.unit, lowest.up, strict=True)) == [
        (0, 2, 1),
        (1, 0, 2),
        (1, 3, 3),
    ]
