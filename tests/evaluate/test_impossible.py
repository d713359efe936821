"""Results that cannot be, counted by hand in six blocks."""

import numpy as np

from das.evaluate.impossible import impossible
from das.model.histogram import Histogram
from das.model.redistricting import H1
from das.model.schema import Attribute, Schema
from das.model.universe import HOUSING, PERSONS, Universe

HOME = Schema(
    "home",
    (Attribute("hhgq", ("household", "college")), Attribute("votingage", ("young", "old"))),
    dwelling="hhgq",
)
ALONE = Schema("alone", (Attribute("sex", ("male", "female")),))
PEOPLE, HOMES = Universe(PERSONS, HOME), Universe(HOUSING, H1)


def from_dense(rows):
    table = np.array(rows, dtype=np.int64)
    unit, cell = np.nonzero(table)
    return Histogram.from_triplets(*table.shape, unit, cell, table[unit, cell])


def test_by_hand():
    """Columns: in households young, old; in college young, old; then vacant and occupied units."""
    true = {
        "persons": from_dense(
            [[1, 2, 0, 0], [0, 3, 0, 0], [0, 2, 4, 0], [0, 0, 0, 0], [0, 5, 0, 0], [0, 1, 0, 0]]
        ),
        "housing": from_dense([[1, 1], [0, 2], [0, 1], [3, 0], [1, 2], [0, 1]]),
    }
    out = {
        "persons": from_dense(
            [[3, 0, 0, 0], [0, 1, 0, 0], [2, 0, 4, 0], [0, 0, 0, 0], [0, 23, 0, 0], [0, 0, 0, 0]]
        ),
        "housing": from_dense([[2, 0], [0, 2], [0, 1], [1, 2], [1, 2], [0, 1]]),
    }
    rows = {
        r.condition: (r.of_true, r.true, r.of_published, r.published)
        for r in impossible(true, out, [PEOPLE, HOMES], "Block")
    }
    assert rows == {
        "children only (18)": (
            4,
            0,
            3,
            1,
        ),  # the third block has people in college: not in the universe
        "more occupied than housing units": (6, 0, 6, 0),
        "all housing units occupied, not so in truth (22)": (6, 0, 6, 0),
        "all housing units vacant, not so in truth (23)": (6, 0, 6, 1),
        "fewer persons in households than occupied units (3)": (5, 0, 5, 3),  # blocks 2, 4 and 6
        "persons in households, no occupied unit (4)": (5, 0, 4, 1),
        "occupied units, nobody in households (5)": (5, 0, 5, 2),
        "more than 10 persons a household (19)": (5, 0, 5, 1),
    }


def test_what_the_schema_does_not_say_is_left_out():
    one = {"persons": from_dense([[1, 0]])}
    assert impossible(one, one, [Universe(PERSONS, ALONE)], "Block") == []
    two = {"persons": from_dense([[1, 0, 0, 0]])}
    assert [r.condition for r in impossible(two, two, [PEOPLE], "Block")] == ["children only (18)"]
