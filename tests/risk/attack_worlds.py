"""Small worlds for the attacks: a schema of 36 cells, tables that cross some of its attributes, and
brute force over all records that obey what is published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
from numpy.typing import NDArray

from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.tabulation import Tabulation
from das.tables import table
from das.tools.protection.published import LevelLines, ProtectedTables, TableSet
from das.tools.protection.truth.method import exact_lines

Ints = NDArray[np.int64]

PEOPLE = Schema.from_attributes(
    "people", {"sex": 2, "age": 3, "hispanic": 2, "cenrace": ["White", "Black", "Asian"]}
)


def tree(blocks: int, tracts: int = 1) -> Spine:
    """Tracts with equally many blocks, in a state."""
    places = {
        "Tract": [f"t{b * tracts // blocks}" for b in range(blocks)],
        "Block": [f"b{b:03d}" for b in range(blocks)],
    }
    return Spine.from_frame(places, ["State", "Tract", "Block"])


def tables_of(
    schema: Schema, queries: Mapping[str, str], levels: tuple[str, ...] = ("Block",)
) -> TableSet:
    """A table for each query, by its name, for each of the levels."""
    made = tuple(
        table(Tabulation(name, "", query, total=False), schema) for name, query in queries.items()
    )
    return TableSet("small", schema, dict.fromkeys(levels, made))


#: Sex by age, race by origin, race by sex, and the number of persons.
CROSSED = {"P1": "total", "P2": "sex * age", "P3": "hispanic * cenrace", "P4": "sex * cenrace"}


def people(rng: np.random.Generator, blocks: int, mean: float) -> Histogram:
    """Random persons, mostly of one race and origin."""
    weight = np.outer(np.full(6, 1 / 6), [0.6, 0.15, 0.1, 0.1, 0.03, 0.02]).ravel()
    dense = rng.poisson(mean * weight, (blocks, PEOPLE.cells))
    unit, cell = np.nonzero(dense)
    return Histogram.from_triplets(blocks, PEOPLE.cells, unit, cell, dense[unit, cell])


def published(h: Histogram, spine: Spine, tables: TableSet) -> ProtectedTables:
    """Exact tables."""
    return ProtectedTables(spine, tables, exact_lines(h, spine, tables))


def two_way(rows: tuple[int, ...], columns: tuple[int, ...]) -> ProtectedTables:
    """The two margins of one block."""
    schema = Schema.from_attributes("two-way", {"row": len(rows), "column": len(columns)})
    tables = tables_of(schema, {"R": "row", "C": "column"})
    lines = LevelLines.exact(np.array([[*rows, *columns]]))
    return ProtectedTables(tree(1), tables, {"Block": lines})


def solutions(matrix: Ints, lower: Ints, upper: Ints, most: int) -> list[Ints]:
    """All integers with these lines, by trying every one: for few cells."""
    return list(_solutions(matrix, lower, upper, most))


def _solutions(matrix: Ints, lower: Ints, upper: Ints, most: int) -> Iterator[Ints]:
    for x in product(range(most + 1), repeat=matrix.shape[1]):
        y = matrix @ np.array(x)
        if (y >= lower).all() and (y <= upper).all():
            yield np.array(x)
