"""What an interval rests on: exact where the columns of a table are sums of exact answers, not
covered where an earlier release decides.
"""

from __future__ import annotations

import numpy as np

from das.model.query import Grouping
from das.model.schema import Attribute, Schema
from das.release.interval_writing import exact_columns
from das.replicates import BASES, ReplicateErrors, bases
from das.tables import Table

SCHEMA = Schema(
    "homes",
    (Attribute("state", ("occupied", "vacant", "ruin")), Attribute("size", ("1", "2"))),
    recodes=(Grouping("kept", "state", ("homes", "ruins"), (0, 0, 1)),),
    impossible=({"state": ("ruin",), "size": ("2",)},),
)


def test_words_for_each_count() -> None:
    errors = ReplicateErrors(3, np.array([[0, 2, 0, 0]]), np.array([[0, 4, 0, 6]]))
    certain = np.array([[True, False, False, False]])
    words = np.array(list(BASES))
    alone, given = (
        words[bases(errors, certain, earlier=earlier)].tolist() for earlier in (False, True)
    )
    assert alone == [["exact", "replicates", "replicates", "replicates"]]
    assert given == [["exact", "given earlier counts", "not covered", "given earlier counts"]]


def test_columns_are_exact_that_add_up_exact_answers_or_cannot_be() -> None:
    def box(states: str, sizes: str) -> tuple[np.ndarray, ...]:
        return tuple(np.array([c == "x" for c in text]) for text in (states, sizes))

    lines = [
        ("homes", [box("xx.", "xx")]),
        ("occupied", [box("x..", "xx")]),
        ("ruins", [box("..x", "x.")]),
        ("large ruins", [box("..x", ".x")]),
        ("all", [box("xxx", "xx")]),
        ("homes twice", [box("xx.", "xx"), box("xx.", "xx")]),
    ]
    table = Table.from_lines("H", "homes", SCHEMA, lines)
    found = exact_columns(table, SCHEMA, [SCHEMA.query("kept")])
    assert found.tolist() == [
        True,
        False,
        True,
        True,
        True,
        False,
    ]  # small ruins are all the ruins that there can be
    assert exact_columns(table, SCHEMA, []).tolist() == [False, False, False, True, False, False]
