"""Sparse histograms against dense arrays."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.model.histogram import Histogram
from tests.oracles import dense
from tests.strategies import histograms, queries, schemas


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@st.composite
def triplets(draw: st.DrawFn) -> tuple[int, int, np.ndarray]:
    units, cells = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    one = st.tuples(st.integers(0, units - 1), st.integers(0, cells - 1), st.integers(0, 3))
    return units, cells, np.array(draw(st.lists(one, max_size=20)), dtype=np.int64).reshape(-1, 3)


@given(triplets())
def test_of_counts_every_triplet_once(case: tuple[int, int, np.ndarray]) -> None:
    units, cells, rows = case
    h = Histogram.from_triplets(units, cells, rows[:, 0], rows[:, 1], rows[:, 2])
    expected = np.zeros((units, cells), dtype=np.int64)
    for u, k, n in rows:
        expected[u, k] += n
    np.testing.assert_array_equal(h.dense(), expected)
    np.testing.assert_array_equal(h.totals(), expected.sum(axis=1))
    assert (h.units, h.cells) == (units, cells)
    assert (h.count > 0).all()
    again = Histogram.from_triplets(units, cells, h.unit, h.cell, h.count)
    assert h.same_as(again)
    assert again.same_as(h)


@given(st.data())
def test_answer_is_the_dense_product(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    h = data.draw(histograms(3, schema.cells))
    query = data.draw(queries(schema))
    np.testing.assert_array_equal(h.answer(query), h.dense() @ dense(schema, query).T)
    np.testing.assert_array_equal(h.answer(query), query.answer(h.dense()))
    assert h.answer(query).dtype == np.int64


@given(st.data())
def test_up_adds_children(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    parent = np.repeat(np.arange(len(sizes)), sizes)
    h = data.draw(histograms(len(parent), 4))
    expected = np.zeros((len(sizes), 4), dtype=np.int64)
    for child, p in enumerate(parent):
        expected[p] += h.dense()[child]
    np.testing.assert_array_equal(h.up(parent, len(sizes)).dense(), expected)


@given(st.data())
def test_rows_and_concatenate_are_slices(data: st.DataObject) -> None:
    h = data.draw(histograms(6, 3))
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, 6), max_size=3))), 6]
    spans = list(pairwise(cuts))
    parts = [h.rows(a, b) for a, b in spans]
    for (a, b), part in zip(spans, parts, strict=True):
        np.testing.assert_array_equal(part.dense(), h.dense()[a:b])
    assert Histogram.concatenate(parts).same_as(h)


@given(st.data())
def test_same_as_sees_every_difference(data: st.DataObject) -> None:
    a, b = data.draw(histograms(2, 3)), data.draw(histograms(2, 3))
    assert a.same_as(b) == bool((a.dense() == b.dense()).all())


def test_same_as_sees_the_number_of_cells_and_units() -> None:
    none = ints()
    assert not Histogram.from_triplets(2, 3, none, none, none).same_as(
        Histogram.from_triplets(2, 4, none, none, none)
    )
    assert not Histogram.from_triplets(2, 3, none, none, none).same_as(
        Histogram.from_triplets(3, 3, none, none, none)
    )


def test_counts_are_read_only() -> None:
    h = Histogram.from_triplets(1, 2, ints(0), ints(1), ints(5))
    for a in (h.indptr, h.cell, h.count):
        with pytest.raises(ValueError, match="read-only"):
            a[0] = 1


@pytest.mark.parametrize(
    "indptr, cell, count, message",
    [
        (ints(0, 1, 2), ints(0), ints(1), "do not fit"),
        (ints(0, 1), ints(0), ints(1, 1), "do not fit"),
        (ints(1, 1), ints(0), ints(1), "do not fit"),
        (ints(0, 2, 1, 3), ints(0, 1, 2), ints(1, 1, 1), "do not fit"),
        (ints(0, 1), ints(0), ints(0), "positive"),
        (ints(0, 1), ints(0), ints(-1), "positive"),
        (ints(0, 1), ints(0), np.array([1.0]), "positive int64"),
        (ints(0, 1), ints(0), np.array([1], dtype=np.int32), "positive int64"),
        (ints(0, 1), ints(-1), ints(1), "outside the schema"),
        (ints(0, 1), ints(3), ints(1), "outside the schema"),
        (ints(0, 2), ints(1, 1), ints(1, 1), "increasing"),
        (ints(0, 2, 4), ints(0, 1, 2, 1), ints(1, 1, 1, 1), "increasing"),
        (ints(0, 0, 2), ints(2, 1), ints(1, 1), "increasing"),
    ],
)
def test_arrays_that_are_no_histogram_are_refused(
    indptr: np.ndarray, cell: np.ndarray, count: np.ndarray, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Histogram(3, indptr, cell, count)


def test_cells_may_fall_from_one_unit_to_the_next() -> None:
    h = Histogram(3, ints(0, 2, 2, 4), ints(1, 2, 0, 1), ints(1, 1, 1, 1))
    assert h.dense().tolist() == [[0, 1, 1], [0, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize("unit, cell", [(2, 0), (-1, 0), (-1, 2), (0, 3), (1, -1), (5, 1)])
@pytest.mark.parametrize("others", [0, 3])
def test_of_refuses_what_lies_outside(unit: int, cell: int, others: int) -> None:
    units = np.concatenate([np.zeros(others, dtype=np.int64), ints(unit)])
    cells = np.concatenate([np.arange(others), ints(cell)])
    with pytest.raises(InputError, match="outside"):
        Histogram.from_triplets(2, 3, units, cells, np.ones(others + 1, dtype=np.int64))


def test_of_refuses_negative_counts() -> None:
    with pytest.raises(InputError, match="negative"):
        Histogram.from_triplets(1, 2, ints(0), ints(0), ints(-1))


def test_counts_beyond_32_bits() -> None:
    h = Histogram.from_triplets(2, 2, ints(1, 1, 0), ints(1, 1, 0), ints(1 << 40, 1, 7))
    assert h.up(ints(0, 0), 1).dense().tolist() == [[7, (1 << 40) + 1]]
