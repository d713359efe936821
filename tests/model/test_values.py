"""The smaller values: every check of each, tripped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from das.errors import (
    DasError,
    InfeasibleError,
    InputError,
    PrivacyError,
    ReleaseError,
    SolverError,
    SpecError,
    UserError,
)
from das.model.confidential import Confidential
from das.model.constraint import Bounds, Constraint, JointTotals, LevelBounds
from das.model.histogram import Histogram
from das.model.measurement import Estimate, Measurement
from das.model.names import encoded
from das.model.records import Blocks, Extract, Records
from das.model.redistricting import H1, PL94
from das.model.release import Release
from das.model.solution import Certificate, Solution, Status
from das.model.source import Source
from das.model.spine import Spine
from tests.bounds import level_bounds


def ints(*values: Any) -> np.ndarray:
    return np.array(values, dtype=np.int64)


# --- errors
# --------------------------------------------------------------------------------------------------


def test_an_error_says_what_where_and_what_to_do() -> None:
    error = InputError("too short", where="file.csv, line 3", remedy="fetch it again")
    assert str(error) == "file.csv, line 3: too short\n  what to do: fetch it again"
    assert (error.what, error.where, error.remedy) == (
        "too short",
        "file.csv, line 3",
        "fetch it again",
    )
    assert str(DasError("broken")) == "broken"


@pytest.mark.parametrize(
    "kind, code",
    [
        (DasError, 3),
        (UserError, 2),
        (SpecError, 2),
        (InputError, 2),
        (ReleaseError, 2),
        (PrivacyError, 3),
        (InfeasibleError, 3),
        (SolverError, 3),
    ],
)
def test_exit_codes(kind: type[DasError], code: int) -> None:
    assert kind.exit_code == code
    assert issubclass(kind, DasError)
    assert issubclass(kind, UserError) == (code == 2)


# --- records
# -------------------------------------------------------------------------------------------------

TWO_BLOCKS = {"State": np.array(["1", "1"]), "Block": np.array(["1a", "1b"])}


@pytest.mark.parametrize(
    "fields, structures, message",
    [
        ({**TWO_BLOCKS, "County": np.array(["x"])}, None, "different lengths"),
        (TWO_BLOCKS, ints(1, 2), "shape"),
        (TWO_BLOCKS, ints([1], [2], [3]), "shape"),
        (TWO_BLOCKS, ints([1, 0], [-1, 0]), "negative"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(
    fields: Mapping[str, np.ndarray], structures: np.ndarray | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Blocks(fields, structures)


def test_blocks_have_a_length() -> None:
    assert len(Blocks(TWO_BLOCKS, ints([1, 0], [0, 2]))) == 2


@pytest.mark.parametrize(
    "block, cell, count, message",
    [
        (ints(0), ints(0, 1), ints(1, 1), "differ in length"),
        (ints(0, 0), ints(0, 1), ints(1), "differ in length"),
        (ints(0), ints(2), ints(1), "a cell outside the schema"),
        (ints(0), ints(-1), ints(1), "a cell outside the schema"),
        (ints(-1), ints(0), ints(1), "negative block"),
        (ints(0), ints(0), ints(-1), "negative count"),
    ],
)
def test_records_that_do_not_fit_are_refused(
    block: np.ndarray, cell: np.ndarray, count: np.ndarray, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Records(H1, block, cell, count)


def test_an_extract_does_not_print_its_records() -> None:
    records = Records(H1, ints(0), ints(1), ints(12345))
    extract = Extract(Blocks(TWO_BLOCKS), Confidential(records), {}, (Source("f", 1, "0"),))
    assert "12345" not in repr(extract)


# --- measurements
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values, variance, message",
    [
        (ints(1, 2), np.ones(2), "values must be"),
        (ints([1, 2]), np.ones(2), "values must be"),
        (ints([1, 2]), np.ones((1, 2)), "values must be"),
        (ints([1, 2]), np.zeros(1), "not positive"),
        (ints([1, 2]), np.array([-1.0]), "not positive"),
        (ints([1, 2]), np.array([np.nan]), "not positive"),
        (np.array([[1.0, 2.0]]), np.ones(1), "int64"),
        (ints([1, 2]), ints(1), "int64"),
    ],
)
def test_a_measurement_that_does_not_fit_is_refused(
    values: np.ndarray, variance: np.ndarray, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Measurement("State", "hhgq", 0, values, variance)
    assert "State/hhgq" in str(caught.value)


def test_a_unit_without_measurement_has_infinite_variance() -> None:
    assert Measurement("State", "total", 0, ints([-5]), np.array([np.inf])).variance[0] == np.inf


# --- constraints
# ---------------------------------------------------------------------------------------------


def test_a_constraint_checks_its_sign_and_shape() -> None:
    for sign in ("=", "<=", ">="):
        assert Constraint("c", "State", "total", sign, ints([1])).sign == sign
    with pytest.raises(InputError, match=r"constraint 'c': unknown sign '<'"):
        Constraint("c", "State", "total", "<", ints([1]))
    with pytest.raises(InputError, match=r"constraint 'c': bounds must be"):
        Constraint("c", "State", "total", "=", ints(1))


@pytest.mark.parametrize(
    "part, total", [((0, 0), (1, 2)), ((0, 2), (1, 2, 3)), ((0, -1), (5,)), ((1, 0), (5,))]
)
def test_parts_without_units_and_units_without_parts_are_refused(part: Any, total: Any) -> None:
    with pytest.raises(InputError, match="joint totals: every part needs a unit"):
        JointTotals(ints(*part), ints(*total))


def test_places_are_codes_without_the_digit_of_the_part() -> None:
    codes = encoded(["034", "036", "134", "144"])
    joint = JointTotals.of_places(codes, ints(7, 8, 7, 9))
    assert (joint.part.tolist(), joint.total.tolist()) == ([0, 1, 0, 2], [7, 8, 9])
    assert joint.sums(ints([1, 2], [3, 4], [5, 6], [7, 8])).tolist() == [[6, 8], [3, 4], [7, 8]]
    with pytest.raises(InputError, match="unit 034 and another of its place"):
        JointTotals.of_places(codes, ints(6, 8, 7, 9))


def test_bounds_with_joint_totals() -> None:
    """Units 0 and 2 hold 9 together, unit 1 holds 1."""
    joint = JointTotals(ints(0, 1, 0), ints(9, 1))
    b = Bounds(
        np.array([0, 1]),
        np.zeros((3, 2), int),
        np.full((3, 2), 3),
        None,
        np.ones(2, bool),
        None,
        joint,
    )
    assert level_bounds(b).known
    one = b.by_part()
    assert (one.upper.tolist(), one.total.tolist(), one.joint) == ([[6, 6], [3, 3]], [9, 1], None)
    some = b.some(np.array([True, False, True]))
    assert (some.joint.part.tolist(), some.joint.total.tolist()) == ([0, 0], [9])
    assert b.rows(1, 2).joint.total.tolist() == [1]
    with pytest.raises(ValueError, match="split a part"):
        b.rows(0, 2)
    with pytest.raises(InfeasibleError, match=r"unit number 0 \(2 such units"):
        Bounds(
            b.group, b.lower, b.upper, None, b.possible, None, JointTotals(joint.part, ints(13, 1))
        )
    with pytest.raises(InfeasibleError, match="unit number 1 "):
        Bounds(b.group, b.lower + 1, b.upper, None, b.possible, None, joint)


def bounds(lower: Any, upper: Any, total: Any = None, **more: Any) -> Bounds:
    group, possible = np.array([0, 0, 1]), np.ones(3, dtype=bool)
    kept = {"group": group, "possible": possible} | more
    return Bounds(
        kept["group"],
        ints(*lower),
        ints(*upper),
        None if total is None else ints(*total),
        kept["possible"],
    )


@pytest.mark.parametrize(
    "lower, upper, total, units",
    [
        ([[0, 3]], [[5, 2]], None, 1),
        ([[0, 0], [2, 2], [9, 9]], [[5, 5], [5, 5], [9, 8]], None, 1),
        ([[3, 3]], [[9, 9]], [5], 1),
        ([[0, 0]], [[2, 2]], [5], 1),
        ([[0, 0], [0, 0]], [[2, 2], [3, 2]], [5, 9], 2),
    ],
)
def test_bounds_that_nothing_meets_are_refused(
    lower: Any, upper: Any, total: Any, units: int
) -> None:
    with pytest.raises(InfeasibleError, match=rf"unit number \d \({units} such units\)"):
        bounds(lower, upper, total)


def test_the_first_unit_that_cannot_be_is_named() -> None:
    with pytest.raises(InfeasibleError, match="unit number 2 "):
        bounds([[0, 0], [2, 2], [9, 9]], [[5, 5], [5, 5], [9, 8]])


def test_bounds_of_different_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="different shapes"):
        bounds([[0, 0]], [[1, 1], [2, 2]])
    with pytest.raises(InputError, match="different shapes"):
        bounds([[0, 0]], [[1, 1]], possible=np.ones(2, dtype=bool))


def test_rows_of_bounds_are_slices_of_everything() -> None:
    reach = np.arange(12).reshape(3, 4)
    b = Bounds(
        np.array([0, 1]),
        np.zeros((3, 2), int),
        np.full((3, 2), 9),
        ints(1, 2, 3),
        np.ones(2, bool),
        reach,
    )
    part = b.rows(1, 3)
    assert b.groups == part.groups == 2
    np.testing.assert_array_equal(part.total, [2, 3])
    np.testing.assert_array_equal(part.reach, reach[1:3])
    assert part.lower.shape == part.upper.shape == (2, 2)
    bare = Bounds(b.group, b.lower, b.upper, None, b.possible).rows(0, 1)
    assert bare.total is None
    assert bare.reach is None


# --- estimates and solutions
# ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [-1e-9, np.nan, np.inf])
def test_an_estimate_is_finite_and_not_negative(bad: float) -> None:
    with pytest.raises(SolverError, match=r"children from number 7: .*negative or not finite"):
        Estimate(7, ints(0), None, np.array([[1.0], [bad]]), Certificate())


def test_an_estimate_sums_to_its_parent() -> None:
    x = np.array([[1.5, 0.0], [1.5, 2.0]])
    Estimate(0, ints(0, 1), ints(3, 2), x, Certificate())
    Estimate(0, ints(0, 1), ints(3, 2), x + 1e-7, Certificate())
    for parent in (ints(4, 2), ints(3, 1)):
        with pytest.raises(SolverError, match="does not sum to its parent"):
            Estimate(0, ints(0, 1), parent, x, Certificate())


def test_certificates_keep_the_worst() -> None:
    def solution(status: Status, gap: float, residual: float) -> Solution:
        return Solution(np.zeros((1, 1)), status, gap, residual, 10, 0.1)

    whole = Certificate()
    for s in (
        solution(Status.OPTIMAL, 1e-9, 3e-7),
        solution(Status.INACCURATE, 1e-3, 0),
        solution(Status.WIDENED, 0, 0),
    ):
        whole = whole.add(s)
    assert whole == Certificate(3, 1, 1, 1e-3, 3e-7, 30)
    assert whole.merge(Certificate()) == whole
    assert Certificate(1, 0, 0, 0.5, 0, 1).merge(whole) == Certificate(4, 1, 1, 0.5, 3e-7, 31)


# --- releases
# ------------------------------------------------------------------------------------------------

SPINE = Spine(("A", "B"), (np.array(["r"]), np.array(["x", "y"])), (ints(0), ints(0, 0)))


def level(dense: Any) -> Histogram:
    dense = ints(*dense)
    unit, cell = np.nonzero(dense)
    return Histogram.from_triplets(*dense.shape, unit, cell, dense[unit, cell])


def release(
    top: Any = ((3, 0, 2),), low: Any = ((1, 0, 2), (2, 0, 0)), **changes: LevelBounds
) -> Release:
    possible = np.array([True, False, True])
    limits = {
        "A": bounds([[0, 1]], [[9, 9]], [5], possible=possible),
        "B": bounds([[0, 1], [0, 0]], [[9, 9], [9, 0]], possible=possible),
    }
    return Release(
        SPINE,
        {"A": level(top), "B": level(low)},
        {k: level_bounds(b) for k, b in limits.items()} | changes,
    )


def test_a_release_that_meets_everything_is_one() -> None:
    assert release().histograms["A"].totals().tolist() == [5]


@pytest.mark.parametrize(
    "build, message",
    [
        (
            lambda: release(low=((1, 0, 2), (2, 0, 0), (0, 0, 0))),
            "B: a histogram has another number of units",
        ),
        (lambda: release(low=((1, 0, 2), (1, 0, 0))), "the units of 'B' do not add up to 'A'"),
        (lambda: release(low=((1, 0, 1), (2, 0, 1))), "B: a bound on a dwelling group is broken"),
        (lambda: release(low=((2, 0, 0), (1, 0, 2))), "B: a bound on a dwelling group is broken"),
        (
            lambda: release(top=((3, 0, 0),), low=((3, 0, 0), (0, 0, 0))),
            "A: a bound on a dwelling group is broken",
        ),
        (
            lambda: release(top=((2, 1, 2),), low=((0, 1, 2), (2, 0, 0))),
            "A: a structural zero is not zero",
        ),
        (
            lambda: release(top=((2, 0, 2),), low=((1, 0, 2), (1, 0, 0))),
            "A: a total that is invariant is not met",
        ),
    ],
)
def test_a_release_that_breaks_anything_is_refused(
    build: Callable[[], Release], message: str
) -> None:
    with pytest.raises(PrivacyError, match=message):
        build()


def test_a_release_that_misses_a_joint_total_is_refused() -> None:
    good = release()
    for total, met in ((5, True), (4, False)):
        b = replace(good.bounds["B"], joint=JointTotals(ints(0, 0), ints(total)))
        if met:
            Release(good.spine, good.histograms, {**good.bounds, "B": b})
            continue
        with pytest.raises(PrivacyError, match="B: a joint total that is invariant is not met"):
            Release(good.spine, good.histograms, {**good.bounds, "B": b})


# --- frozen
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, name",
    [
        (PL94, "name"),
        (PL94.query("total"), "name"),
        (SPINE, "levels"),
        (release(), "spine"),
        (Certificate(), "solves"),
        (level([[1]]), "cells"),
        (Blocks(TWO_BLOCKS), "fields"),
    ],
)
def test_values_are_frozen(value: Any, name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, None)
