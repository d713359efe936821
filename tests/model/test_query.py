"""Queries against their dense matrices, and the sensitivity that privacy rests on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import SpecError
from das.model import query as query_module
from das.model.query import Grouping, Query
from das.model.redistricting import E2E_1940, PL94
from das.model.schema import Attribute, Schema
from tests.oracles import dense
from tests.strategies import queries, schemas


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Schema, Query]:
    schema = draw(schemas())
    return schema, draw(queries(schema))


@st.composite
def counts(draw: st.DrawFn, n: int, rows: int = 2) -> np.ndarray:
    return np.array(
        draw(st.lists(st.integers(-9, 9), min_size=rows * n, max_size=rows * n))
    ).reshape(rows, n)


@given(pairs(), st.data())
def test_answer_and_adjoint_are_the_dense_matrix(
    pair: tuple[Schema, Query], data: st.DataObject
) -> None:
    schema, query = pair
    matrix = dense(schema, query)
    assert matrix.shape == (query.answers, schema.cells)
    h, y = data.draw(counts(schema.cells)), data.draw(counts(query.answers))
    np.testing.assert_array_equal(query.answer(h), h @ matrix.T)
    np.testing.assert_array_equal(query.answer(h[0]), matrix @ h[0])
    np.testing.assert_array_equal(query.adjoint(y), y @ matrix)
    assert (query.answer(h) * y).sum() == (h * query.adjoint(y)).sum()


def test_a_grouping_that_only_reorders_the_levels_reorders_the_answers() -> None:
    schema = Schema(
        "s", (Attribute("a", ("x", "y", "z")),), (Grouping("r", "a", ("Z", "X", "Y"), (1, 2, 0)),)
    )
    query = schema.query("r")
    assert query.answers == schema.cells
    np.testing.assert_array_equal(query.answer(np.array([1, 2, 3])), [3, 1, 2])
    np.testing.assert_array_equal(query.adjoint(np.array([3, 1, 2])), [1, 2, 3])


@given(pairs(), st.data())
def test_answers_never_share_memory_with_the_histogram(
    pair: tuple[Schema, Query], data: st.DataObject
) -> None:
    schema, query = pair
    h = data.draw(counts(schema.cells))
    before = h.copy()
    query.answer(h)[...] = 99
    np.testing.assert_array_equal(h, before)


@given(pairs(), st.data())
def test_one_record_moves_exactly_one_answer_by_one(
    pair: tuple[Schema, Query], data: st.DataObject
) -> None:
    schema, query = pair
    h = data.draw(counts(schema.cells, rows=1))[0]
    cell = data.draw(st.integers(0, schema.cells - 1))
    more = h.copy()
    more[cell] += 1
    moved = query.answer(more) - query.answer(h)
    assert sorted(moved)[-1] == 1
    assert np.abs(moved).sum() == 1


@given(pairs(), st.data())
def test_one_record_replaced_moves_squared_distance_two_at_most(
    pair: tuple[Schema, Query], data: st.DataObject
) -> None:
    schema, query = pair
    h = np.zeros(schema.cells, dtype=int)
    a, b = (data.draw(st.integers(0, schema.cells - 1)) for _ in range(2))
    h[a] = 1
    other = np.zeros_like(h)
    other[b] = 1
    moved = query.answer(other) - query.answer(h)
    assert (moved**2).sum() == (0 if query.index[a] == query.index[b] else 2)


@given(pairs())
def test_labels_and_shape_agree_with_the_answers(pair: tuple[Schema, Query]) -> None:
    schema, query = pair
    labels = query.labels()
    assert len(labels) == query.answers == np.prod(query.shape)
    assert query.index.shape == (schema.cells,)
    assert set(query.index) == set(range(query.answers))
    for cell in range(schema.cells):
        levels = np.unravel_index(cell, schema.shape)
        assert labels[query.index[cell]] == tuple(
            g.groups[g.index[i]] for g, i in zip(query.groupings, levels, strict=True)
        )


@given(pairs(), st.data())
def test_answers_of_some_cells_are_those_of_the_index(
    pair: tuple[Schema, Query], data: st.DataObject
) -> None:
    """Of a small schema and of a large one, whether few cells are wanted or most of them."""
    schema, q = pair
    few = np.array(data.draw(st.lists(st.integers(0, schema.cells - 1), max_size=3)), dtype=int)
    for cells in (few, np.arange(schema.cells)[::-1]):
        assert np.array_equal(q.at(cells), q.index[cells])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(query_module, "FEW_CELLS", 0)
            assert np.array_equal(q.at(cells), q.index[cells])


def test_an_index_cannot_be_altered() -> None:
    with pytest.raises(ValueError, match="read-only"):
        PL94.query("cenrace").index[0] = 1


def test_order_of_the_factors_does_not_matter() -> None:
    ab, ba = PL94.query("votingage * hispanic"), PL94.query("hispanic * votingage")
    np.testing.assert_array_equal(ab.index, ba.index)
    assert ab.labels()[1] == ("*", "under-18", "hispanic", "*")


@pytest.mark.parametrize(
    "name, answers",
    [
        ("total", 1),
        ("hhgq", 8),
        ("hhinstlevels", 3),
        ("votingage", 2),
        ("hispanic", 2),
        ("cenrace", 63),
        ("hispanic * cenrace", 126),
        ("votingage * cenrace", 126),
        ("votingage * hispanic", 4),
        ("votingage * hispanic * cenrace", 252),
        ("detailed", 2016),
    ],
)
def test_the_eleven_queries_of_the_redistricting_data_have_their_published_sizes(
    name: str, answers: int
) -> None:
    query = PL94.query(name)
    assert query.answers == answers
    assert query.name == name
    h = np.arange(PL94.cells)
    np.testing.assert_array_equal(query.answer(h), dense(PL94, query) @ h)


def test_the_queries_of_the_1940_test_have_their_published_sizes() -> None:
    assert [
        E2E_1940.query(q).answers for q in ("detailed", "hhgq", "votingage * hispanic * race")
    ] == [192, 8, 24]


@pytest.mark.parametrize(
    "groups, index",
    [
        (("a", "a"), (0, 1)),
        (("a", "b"), (0, 0)),
        (("a",), (0, 1)),
        (("a", "b"), (0, 2)),
        (("a", "b"), (-1, 0)),
    ],
)
def test_a_grouping_that_is_not_total_and_onto_is_refused(
    groups: tuple[str, ...], index: tuple[int, ...]
) -> None:
    with pytest.raises(SpecError, match=r"grouping 'g' of attribute 'x'") as caught:
        Grouping("g", "x", groups, index)
    assert caught.value.remedy


def test_groupings_know_total_and_detailed() -> None:
    levels = ("x", "y", "z")
    assert Grouping.total("a", levels).is_total
    assert not Grouping.total("a", levels).is_detailed
    assert Grouping.detailed("a", levels).is_detailed
    assert not Grouping.detailed("a", levels).is_total
    assert not Grouping("g", "a", levels, (1, 0, 2)).is_detailed
