"""Packed bounds against the arrays that they stand for: whatever is asked of a level, the answer is
that of dense ones.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InfeasibleError, InputError
from das.model import constraint
from das.model.constraint import Bounds, Ints, JointTotals, LevelBounds, Limits, add_up, packed
from tests.bounds import level_bounds


@pytest.fixture(autouse=True, params=[3, 1 << 22], ids=["pieces", "whole"])
def _pieces(request: pytest.FixtureRequest) -> Iterator[None]:
    """Levels in pieces of a unit or two, and in one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constraint, "_MOST_VALUES", request.param)
        yield


@st.composite
def two_ends(draw: st.DrawFn, width: int = 2) -> tuple[Ints, Ints]:
    units = draw(st.integers(1, 9))
    values = st.lists(st.integers(0, 2), min_size=units * width, max_size=units * width)
    lower, more = (np.array(draw(values), dtype=np.int64).reshape(units, width) for _ in range(2))
    return lower, lower + more - draw(st.sampled_from([0, 0, 0, 1]))


@st.composite
def levels(draw: st.DrawFn) -> tuple[Bounds | None, dict[str, object]]:
    """Bounds of a level, ``None`` where dense ones are refused, and what they are made of."""
    lower, upper = draw(two_ends())
    units = len(lower)
    numbers = st.lists(st.integers(0, 6), min_size=units, max_size=units)
    part = np.unique(
        np.array(draw(st.lists(st.integers(0, 2), min_size=units, max_size=units))),
        return_inverse=True,
    )[1]
    known = draw(st.sampled_from(["nothing", "totals", "joint"]))
    joint = (
        JointTotals(part, np.array(draw(numbers), dtype=np.int64)[: part.max() + 1])
        if known == "joint"
        else None
    )
    given = {
        "total": np.array(draw(numbers), dtype=np.int64) if known == "totals" else None,
        "possible": np.ones(3, dtype=bool),
        "reach": np.arange(units * 4).reshape(units, 4) if draw(st.booleans()) else None,
        "joint": joint,
        "exact": draw(st.booleans()),
    }
    group = np.array([0, 1, 1])
    made = {"group": group, "lower": lower, "upper": upper} | given
    try:
        return Bounds(**made), made
    except InfeasibleError as error:
        return None, made | {"error": str(error)}


@given(levels())
def test_packed_bounds_say_what_dense_ones_say(
    case: tuple[Bounds | None, dict[str, object]],
) -> None:
    dense, made = case
    lower, upper = made.pop("lower"), made.pop("upper")
    error = made.pop("error", None)
    if dense is None:
        with pytest.raises(InfeasibleError) as refused:
            LevelBounds(limits=Limits.from_bounds(lower, upper), **made)
        assert str(refused.value) == error
        return
    whole = LevelBounds(limits=Limits.from_bounds(lower, upper), **made)
    assert whole == level_bounds(dense)
    assert whole.dense() == dense
    assert (len(whole), whole.groups) == lower.shape
    assert whole.by_part().dense() == dense.by_part()
    everybody = np.arange(len(whole))
    assert whole.some(everybody[::-1]) == dense.some(everybody[::-1])
    for start in range(len(whole)):
        for stop in range(start + 1, len(whole) + 1):
            try:
                wanted = dense.rows(start, stop)
            except ValueError:
                for way in (whole.rows, whole.part):
                    with pytest.raises(ValueError, match="split a part"):
                        way(start, stop)
                continue
            assert whole.rows(start, stop) == wanted
            assert whole.part(start, stop) == level_bounds(wanted)


@given(two_ends(3), st.data())
def test_sums_over_homes_are_those_of_the_dense_arrays(
    ends: tuple[Ints, Ints], data: st.DataObject
) -> None:
    homes = data.draw(st.integers(1, len(ends[0])))
    home = np.array(data.draw(st.permutations([i % homes for i in range(len(ends[0]))])))
    home = np.sort(home) if data.draw(st.booleans()) else home
    wanted = tuple(np.stack([e[home == h].sum(axis=0) for h in range(homes)]) for e in ends)
    found = Limits.from_bounds(*ends).add_up(home, homes)
    assert found == Limits.from_bounds(*wanted)
    assert np.array_equal(add_up(ends[0].__getitem__, 3, home, homes), wanted[0])


@given(two_ends(3))
def test_each_row_is_kept_once(ends: tuple[Ints, Ints]) -> None:
    rows, row = packed(*ends)
    assert np.array_equal(rows[row], np.hstack(ends))
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert np.array_equal(
        np.unique(row, return_index=True)[1], np.sort(np.unique(row, return_index=True)[1])
    )


def test_rows_with_one_key_are_told_apart() -> None:
    """The key of (a, b) is a f + b f^2 modulo 2^64, so those of (f, 0) and (0, 1) are the same."""
    f = np.array([constraint._ODD]).view(np.int64)[0]
    rows = np.array([[0, 1], [f, 0], [0, 1], [0, 0]])
    kept, row = packed(rows)
    assert kept.tolist() == [[0, 1], [f, 0], [0, 0]]
    assert row.tolist() == [0, 1, 0, 2]


def test_packed_bounds_are_frozen_here_and_elsewhere() -> None:
    zero = np.zeros((3, 2), dtype=np.int64)
    b = LevelBounds(
        np.array([0, 1]), Limits.from_bounds(zero, zero + 1), None, np.ones(2, dtype=bool)
    )
    for one in (b, pickle.loads(pickle.dumps(b))):
        assert one == b
        for array in (one.limits.lower, one.limits.row, one.group):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 7
    assert (len(b.limits.lower), b.limits.row.dtype) == (1, np.int32)
    assert repr(b) == "<LevelBounds: 3 units, 2 groups, no total known>"


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda z: Limits(z, z[:1], np.zeros(2, dtype=np.int32)), "different shapes"),
        (lambda z: Limits.from_bounds(z, z[:, :1]), "different shapes"),
        (lambda z: Limits(z, z, np.array([0, 2], dtype=np.int32)), "bounds that are not there"),
        (lambda z: Limits(z, z, np.array([-1, 0], dtype=np.int32)), "bounds that are not there"),
        (
            lambda z: LevelBounds(
                np.zeros(1, int), Limits.from_bounds(z, z), np.zeros(3, int), np.ones(1, bool)
            ),
            "different shapes",
        ),
        (
            lambda z: LevelBounds(
                np.zeros(1, int), Limits.from_bounds(z, z), None, np.ones(2, bool)
            ),
            "different shapes",
        ),
    ],
)
def test_bounds_that_do_not_fit_together_are_refused(build, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        build(np.zeros((2, 2), dtype=np.int64))
