"""A schema of one's own with ten million cells: loading costs its levels, not its cells, and
records of it are counted, written and read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from das.errors import SpecError
from das.files.microdata.reading import read
from das.files.microdata.writing import write
from das.model.histogram import Histogram
from das.model.names import encoded
from das.model.universe import PERSONS, Universe
from das.spec import RunSpec, parse

SIZES = {"age": 116, "income": 40, "sex": 2, "race": 63, "origin": 2, "home": 9}


def _list(first: int, last: int) -> str:
    return str([str(i) for i in range(first, last)])


CONFIGURATION = f"""
[run]
name = "large"

[data]
reader = "table"
path = ["people.csv"]
[data.columns]
geography = {{ State = "state", Block = "block" }}
attributes = {{ {", ".join(f'{name} = "{name}"' for name in SIZES)} }}

[schema]
name = "large"
dwelling = "home"
impossible = [{{ minor = ["yes"], income = ["39"] }}, {{ age = ["115"], home = ["3", "4"] }}]
[schema.attributes]
{chr(10).join(f"{name} = {_list(0, n)}" for name, n in SIZES.items())}
[schema.groupings.minor]
attribute = "age"
groups = {{ yes = {_list(0, 18)}, no = {_list(18, 116)} }}

[geography]
levels = ["State", "Block"]

[rounding]
chain = ["home * race * origin", "home * origin"]

[tables.boys]
title = "Boys by race"
query = "race"
where = {{ minor = ["yes"], sex = ["0"] }}

[budget]
rho = 1
neighbors = "bounded"
[budget.levels]
State = "1/2"
Block = "1/2"
[budget.queries.State]
total = "1/4"
minor = "1/4"
"age * income * sex" = "1/4"
detailed = "1/4"
[budget.queries.Block]
"age * sex * race * origin * home" = "1/2"
detailed = "1/2"
"""


@pytest.fixture(scope="module")
def spec() -> RunSpec:
    return parse(CONFIGURATION, where="large")


def test_loading_builds_nothing_of_the_size_of_the_cells() -> None:
    parse(CONFIGURATION, where="large")  # what is loaded once and for all
    tracemalloc.start()
    try:
        spec = parse(CONFIGURATION, where="large")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert spec.persons.schema.cells == 10_523_520
    assert peak < 2_000_000


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            '"home * origin"]',
            '"home * minor"]',
            "does not tell the groups of 'home \\* minor' apart",
        ),
        (
            'minor = ["yes"], sex',
            'minor = ["no"], age = ["3"], sex',
            "no record can meet this condition",
        ),
        ('income = ["39"]', 'income = ["40"]', "'income' has no level '40'"),
        (
            'minor = ["yes"], income',
            'wealth = ["yes"], income',
            "no attribute 'wealth', and no grouping",
        ),
    ],
)
def test_what_is_wrong_is_found_without_them(old: str, new: str, message: str) -> None:
    assert old in CONFIGURATION
    with pytest.raises(SpecError, match=message):
        parse(CONFIGURATION.replace(old, new), where="large")


def _people(cells: int, seed: int = 7) -> Histogram:
    rng = np.random.default_rng(seed)
    return Histogram.from_triplets(
        5, cells, rng.integers(0, 5, 3000), rng.integers(0, cells, 3000), rng.integers(1, 4, 3000)
    )


def test_a_histogram_over_it_answers_queries(spec: RunSpec) -> None:
    schema = spec.persons.schema
    h = _people(schema.cells)
    age, _, sex, _, _, home = np.unravel_index(h.cell, schema.shape)
    answers = h.answer(schema.query("minor * sex * home"))
    expected = np.zeros((5, 2, 2, 9), dtype=np.int64)
    np.add.at(expected, (h.unit, (age >= 18).astype(int), sex, home), h.count)
    np.testing.assert_array_equal(answers, expected.reshape(5, -1))


def test_its_zeros_are_those_of_its_rules(spec: RunSpec) -> None:
    schema = spec.persons.schema
    cell = np.random.default_rng(1).integers(0, schema.cells, 20_000)
    age, income, _, _, _, home = np.unravel_index(cell, schema.shape)
    ruled_out = ((age < 18) & (income == 39)) | ((age == 115) & np.isin(home, (3, 4)))
    assert 0 < ruled_out.sum() < 1000
    np.testing.assert_array_equal(schema.possible[cell], ~ruled_out)
    rest = 2 * 63 * 2
    assert int((~schema.possible).sum()) == 18 * 9 * rest + 40 * 2 * rest


def test_its_microdata_hold_the_same_records(spec: RunSpec, tmp_path: Path) -> None:
    schema = spec.persons.schema
    h, codes, universe = (
        _people(schema.cells),
        encoded(["a", "b", "c", "d", "e"]),
        Universe(PERSONS, schema),
    )
    write(tmp_path / "persons", h, codes, universe)
    assert read(tmp_path / "persons", universe, codes).same_as(h)
