"""Answers that were asked for: kept as they were told, given back, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.errors import InputError
from das.model.histogram import SparseAnswers
from das.model.measurement import RecordingSource, SparseMeasurement, SparseSource, places
from tests.sparse import SparseMeasurements

Ints = NDArray[np.int64]
UNITS, CELLS = 4, 5
VARIANCE = np.array([1.0, np.inf, 2.5, 1.0])
MEASURED = [u * CELLS + c for u in (0, 2, 3) for c in range(CELLS)]


def value(at: Ints) -> Ints:
    return at * 7 % 23 - 9


def some(at: list[int]) -> SparseMeasurement:
    asked = np.array(at, dtype=np.int64)
    return SparseMeasurement.from_coordinates(
        "L", "q", (UNITS, CELLS), asked, value(asked), VARIANCE
    )


class Oracle:
    """Everything that there is, of one level and query."""

    def queries(self, level: str) -> tuple[str, ...]:
        return ("q", "r")

    def shape(self, level: str, query: str) -> tuple[int, int]:
        return UNITS, CELLS

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        return VARIANCE

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        return value(units * CELLS + cells)


@given(st.lists(st.lists(st.sampled_from(MEASURED), max_size=9), max_size=5))
def test_what_was_recorded_is_what_was_said_and_nothing_else(requests: list[list[int]]) -> None:
    recorded: SparseSource = RecordingSource(Oracle())
    for asked in requests:
        at = np.array(asked, dtype=np.int64)
        assert (recorded.answers("L", "q", at // CELLS, at % CELLS) == value(at)).all()
    assert isinstance(recorded, RecordingSource)
    kept: SparseSource = SparseMeasurements.from_measurements(recorded.recorded("L"))
    assert kept.queries("L") == ("q", "r")
    assert kept.shape("L", "q") == kept.shape("L", "r") == (UNITS, CELLS)
    assert (kept.variance("L", "q") == VARIANCE).all()
    said = {i for asked in requests for i in asked}
    for i in range(UNITS * CELLS):
        unit, cell = np.array([i // CELLS]), np.array([i % CELLS])
        if i in said:
            assert kept.answers("L", "q", unit, cell).tolist() == [value(np.array(i))]
        else:
            with pytest.raises(
                InputError,
                match=r"1 of 1 answers were not measured.*\n.*they can no longer be known",
            ):
                kept.answers("L", "q", unit, cell)


def test_one_measurement_by_its_parts() -> None:
    m = some([17, 3, 10, 3])
    assert m.at.tolist() == [3, 10, 17]
    assert m.unit.tolist() == [0, 2, 3]
    assert m.cell.tolist() == [3, 0, 2]
    assert m.indptr.tolist() == [0, 1, 1, 2, 3]
    assert m.values.tolist() == value(np.array([3, 10, 17])).tolist()
    assert repr(m) == "<SparseMeasurement: 'q' at L, 3 answers of 4 units>"
    assert not m.values.flags.writeable
    with pytest.raises(
        InputError, match="2 of 3 answers were not measured, such as answer 4 of unit 0"
    ):
        m.answers(np.array([0, 3, 3]), np.array([4, 2, 4]))


def test_what_fits_not_together_is_refused() -> None:
    at, values = np.array([3, 10]), np.array([1, 2])
    for wrong, message in (
        ((at[::-1], values, VARIANCE), "do not increase"),
        ((np.array([3, 3]), values, VARIANCE), "do not increase"),
        ((np.array([-1, 3]), values, VARIANCE), "of no unit"),
        ((np.array([3, 20]), values, VARIANCE), "of no unit"),
        ((np.array([3, 5]), values, VARIANCE), "not measured"),
        ((at, values[:1], VARIANCE), "as many as"),
        ((at, values.astype(float), VARIANCE), "int64"),
        ((at, values, -VARIANCE), "positive"),
        ((at, values, np.full(UNITS, np.nan)), "positive"),
    ):
        with pytest.raises(InputError, match=message):
            SparseMeasurement("L", "q", CELLS, *wrong)
    with pytest.raises(InputError, match="one answer with two values"):
        SparseMeasurement.from_coordinates(
            "L", "q", (UNITS, CELLS), np.array([3, 10, 3]), np.array([1, 1, 2]), VARIANCE
        )
    with pytest.raises(InputError, match="'other' is not measured at level 'L'"):
        SparseMeasurements.from_measurements([some([1])]).answers("L", "other", at, at)


def test_coordinates_are_those_of_an_array() -> None:
    units, cells = np.divmod(np.arange(UNITS * CELLS), CELLS)
    narrow = places(units.astype(np.uint8), cells.astype(np.int8), (200, 50_000_000), "here")
    assert narrow.dtype == np.int64
    assert narrow.tolist() == (units * 50_000_000 + cells).tolist()
    for bad_units, bad_cells, message in (
        (np.array([4]), np.array([0]), "no unit 4 of 4"),
        (np.array([0, -1]), np.array([0, 0]), "no unit -1 of 4"),
        (np.array([0]), np.array([5]), "no answer 5 of 5"),
        (np.array([0]), np.array([-3]), "no answer -3 of 5"),
        (np.array([2**64 - 1], dtype=np.uint64), np.array([0]), "no unit"),
        (np.array([0, 1]), np.array([0]), "equally long"),
        (np.array([0.0]), np.array([0]), "integers"),
        (np.array([[0]]), np.array([[0]]), "integers"),
    ):
        with pytest.raises(InputError, match=message):
            places(bad_units, bad_cells, (UNITS, CELLS), "here")


@given(
    st.lists(st.integers(0, 11), max_size=12, unique=True),
    st.lists(st.integers(0, 11), max_size=30),
)
def test_sparse_answers_are_read_as_the_dense_ones(kept: list[int], asked: list[int]) -> None:
    dense = np.zeros(12, dtype=np.int64)
    dense[kept] = 1 + np.arange(len(kept))
    sparse = SparseAnswers.from_dense(dense.reshape(3, 4))
    assert (
        sparse.read(np.array(asked, dtype=np.int64)).tolist()
        == dense[np.array(asked, dtype=int)].tolist()
    )
