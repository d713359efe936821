"""The tables of the DHC: their lines against the published ones, and what adds up on random
records.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from das.errors import InputError
from das.model.histogram import Histogram
from das.model.redistricting import CENRACE, SCHEMAS
from das.model.schema import Schema
from das.model.tabulation import Tabulation
from das.publications.dhc.model.person_tables import household_tables, person_tables, unit_tables
from das.tables import Table, table

LINES = {
    "P1": 1,
    "P3": 8,
    "P4": 3,
    "P5": 17,
    "P6": 7,
    "P7": 15,
    "P8": 71,
    "P9": 73,
    "P10": 71,
    "P11": 73,
    "P12": 49,
    "P14": 43,
    "P15": 3,
    "P16": 9,
    "P17": 31,
    "P18": 63,
    "P19": 11,
    "P20": 19,
    "P21": 7,
    "PCT1": 17,
    "PCT2": 19,
    "PCT3": 21,
    "PCT4": 15,
    "PCT5": 11,
    "PCT6": 11,
    "PCT7": 16,
    "PCT8": 36,
    "PCT9": 16,
    "PCT10": 20,
    "PCT11": 6,
    "PCT12": 209,
    "PCT13": 49,
    "PCT14": 3,
    "PCT15": 12,
    "PCT16": 15,
    "PCT17": 31,
    "PCT18": 63,
    "PCT19": 195,
    "PCO1": 39,
    "PCO2": 39,
    "PCO3": 33,
    "PCO4": 15,
    "PCO5": 31,
    "PCO6": 39,
    "PCO7": 39,
    "PCO8": 25,
    "PCO9": 25,
    "PCO10": 39,
    "H1": 1,
    "H3": 3,
    "H4": 4,
    "H5": 8,
    "H6": 8,
    "H7": 17,
    "H8": 1,
    "H9": 8,
    "H10": 17,
    "H11": 7,
    "H12": 17,
    "H13": 21,
    "H14": 69,
    "H15": 7,
    "HCT1": 35,
    "HCT2": 13,
    "HCT3": 13,
}
EVERY: dict[str, tuple[Tabulation, Schema]] = {
    t.name: (t, SCHEMAS[schema])
    for schema, tables in (
        ("dhcp", person_tables()),
        ("dhch", household_tables()),
        ("tenvacgq", unit_tables()),
    )
    for t in tables
}
#: Lines that are alone below another: some children are under 18, some who live alone are 65 and
#: over, all of six races have one.
SINGLE = {"P17": 4, "PCT17": 4, "P20": 2, "P8": 1, "P9": 1, "P10": 1, "P11": 1}


def boxes(name: str) -> list[list[tuple[NDArray[np.bool_], ...]]]:
    tabulation, schema = EVERY[name]
    return [
        [schema.box(w) for w in (where if isinstance(where, tuple) else (where,))]
        for _, where in tabulation.columns
    ]


@pytest.fixture(scope="module")
def counted() -> dict[str, NDArray[np.int64]]:
    """Every table of some random records that can be, ``(units, lines)``."""
    rng, truth = np.random.default_rng(20), {}
    for schema in {s.name: s for _, s in EVERY.values()}.values():
        cell = rng.choice(np.flatnonzero(schema.possible), 20_000)
        truth[schema.name] = Histogram.from_triplets(
            3, schema.cells, rng.integers(0, 3, len(cell)), cell, rng.integers(1, 9, len(cell))
        )
    return {name: table(t, s).values(truth[s.name]) for name, (t, s) in EVERY.items()}


def test_there_are_so_many_lines() -> None:
    assert {name: len(t.columns) for name, (t, _) in EVERY.items()} == LINES
    assert (len(LINES), sum(LINES.values())) == (65, 1912)


@pytest.mark.parametrize("name", [n for n in LINES if n not in ("P6", "P7")])
def test_lines_add_up_to_the_line_above_them(
    name: str, counted: dict[str, NDArray[np.int64]]
) -> None:
    """The line above is the last before that has all cells of a line; below it are all of its
    cells, each once, or one line.
    """
    lines, values = [b for (b,) in boxes(name)], counted[name]
    below: dict[int, list[int]] = {}
    for j, box in enumerate(lines[1:], 1):
        has = [
            all((a & b == b).all() for a, b in zip(above, box, strict=True)) for above in lines[:j]
        ]
        assert any(has), "the first line has all of the table"
        below.setdefault(max(i for i, h in enumerate(has) if h), []).append(j)
    single = 0
    for above, parts in below.items():
        if len(parts) == 1:
            single += 1
            assert (values[:, parts[0]] <= values[:, above]).all()
        else:
            np.testing.assert_array_equal(values[:, parts].sum(axis=1), values[:, above])
    assert single == SINGLE.get(name, 0)
    labels = [label for label, _ in EVERY[name][0].columns]
    assert all(len({labels[j] for j in parts}) == len(parts) for parts in below.values())


def test_tables_agree_with_each_other(counted: dict[str, NDArray[np.int64]]) -> None:
    first = {name: values[:, 0].tolist() for name, values in counted.items()}
    for names in (
        "P1 P3 P4 P5 P8 P9 P12 P17 PCT12",
        "P15 H8 PCT13",
        "P18 PCT18 PCT19 PCO1",
        "P10 P11",
        "H1 H3",
        "P16 P19 P20 P21 PCT1 PCT2 PCT3 PCT15 H4 H6 H7 H9 H10 H11 H12 H13 H14 H15 HCT1 HCT2 HCT3",
    ):
        assert len({tuple(first[name]) for name in names.split()}) == 1, names
    sums = {"PCO1": (2, 7), "PCO2": (3, 4, 5, 6), "PCO7": (8, 9, 10)}
    for whole, parts in sums.items():
        np.testing.assert_array_equal(
            counted[whole][:, 0], sum(counted[f"PCO{i}"][:, 0] for i in parts)
        )
    np.testing.assert_array_equal(counted["PCO1"], counted["PCO2"] + counted["PCO7"])
    np.testing.assert_array_equal(counted["H5"][:, 0], counted["H3"][:, 2])
    np.testing.assert_array_equal(
        counted["PCT12"][:, 2:7].sum(axis=1), counted["P12"][:, 2]
    )  # men under 5
    np.testing.assert_array_equal(counted["P14"][:, 2:22], counted["PCT12"][:, 2:22])
    np.testing.assert_array_equal(counted["PCT19"][:, 4], counted["P18"][:, 4])


def test_a_person_of_three_races_is_tallied_three_times() -> None:
    tabulation, schema = EVERY["P7"]
    race = CENRACE.index("White+AIAN+Asian")
    cell = np.ravel_multi_index(
        ([5, 20], [0, 1], [40, 50], [1, 0], [race, 1]), schema.shape
    )  # and a Black one
    h = Histogram.from_triplets(1, schema.cells, np.zeros(2, dtype=int), cell, np.array([1, 10]))
    values = table(tabulation, schema).values(h)[0].tolist()
    assert values == [13, 10, 0, 10, 0, 0, 0, 0, 3, 1, 0, 1, 1, 0, 0]
    races = table(*EVERY["P6"])
    assert races.values(h)[0].tolist() == [13, 1, 10, 1, 1, 0, 0]
    assert [races.repeats(j) for j in range(7)] == [True, *[False] * 6]
    with pytest.raises(InputError, match="column P0060001 counts some records more than once"):
        _ = races.masks


def test_tables_of_a_million_cells_are_small() -> None:
    """No line holds its cells: 1,912 masks of all cells were 2.5 GB."""
    tracemalloc.start()
    try:
        tables = [table(t, s) for t, s in EVERY.values()]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30_000_000
    assert max(t.query.answers for t in tables) < 300
    assert _answers(tables, "P12") == 46
    assert _answers(tables, "PCT12") == 206


def _answers(tables: list[Table], name: str) -> int:
    return next(t.query.answers for t in tables if t.name == name)


@pytest.mark.parametrize("name", LINES)
def test_lines_are_the_published_ones(name: str, published: dict[str, Any]) -> None:
    """Cell by cell: each attribute's levels of each line."""
    theirs, schema = [where for _, where in published["tables"][name]["lines"]], EVERY[name][1]
    fields = published["attributes"]["hhtype_dhch"]["fields"]
    for mine, where in zip(boxes(name), theirs, strict=True):
        expected = [_box(schema, theirs[i], fields) for i in where.get("sum_of", ())] or [
            _box(schema, where, fields)
        ]
        assert len(mine) == len(expected)
        for a, b in zip(mine, expected, strict=True):
            assert all((x == y).all() for x, y in zip(a, b, strict=True))


def _box(
    schema: Schema, where: dict[str, Any], fields: dict[str, list[int]]
) -> list[NDArray[np.bool_]]:
    out = [np.ones(n, dtype=bool) for n in schema.shape]
    for name, levels in where.items():
        if name == "hhtype":
            for field, values in levels.items():
                out[-1] &= np.isin(fields[field], values)
        elif name == "age":
            out[schema.axis(name)] &= np.isin(np.arange(116), range(levels[0], levels[1] + 1))
        else:
            out[schema.axis(name)] &= np.isin(np.arange(schema.shape[schema.axis(name)]), levels)
    return out
