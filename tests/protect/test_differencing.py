"""No line is hidden in one member of a family alone."""

from __future__ import annotations

import numpy as np
import pytest

from das.model.spine import Spine
from das.model.tabulation import Tabulation
from das.tables import table
from das.tools.protection.published import TableSet
from das.tools.protection.truth.method import exact_lines
from das.tools.protection.truth.methods.complementary import partners
from das.tools.protection.truth.methods.suppression import Suppression
from tests.protect.people import SCHEMA, records, tables

SPINE = Spine.from_frame({"Town": ["a", "a", "a"], "Block": ["1", "2", "3"]}, ["Town", "Block"])
TOTALS = TableSet(
    "totals",
    SCHEMA,
    {
        "Town": (table(Tabulation("T", "", "race", total=False), SCHEMA),),
        "Block": (table(Tabulation("B", "", "race", total=True), SCHEMA),),
    },
)


def lines(*values: list[int]) -> dict[str, np.ndarray]:
    """Counts of a town and of its blocks; theirs have the total first."""
    return {"Town": np.array(values[:1]), "Block": np.array(values[1:])}


COUNTS = lines([9, 2, 0], [4, 4, 0, 0], [3, 3, 0, 0], [4, 2, 2, 0])


@pytest.mark.parametrize(
    ("hidden", "more"),
    [
        # in one block: the smallest other block
        (
            lines([0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]),
            lines([0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]),
        ),
        # in two blocks, and in a block and the town: nothing
        (lines([1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]), None),
        (lines([0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]), None),
        # in the only block that is not 0: the town
        (
            lines([0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]),
            lines([0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]),
        ),
        # in the town alone: the smallest block
        (
            lines([1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]),
            lines([0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]),
        ),
        # the total of a block is no line of the town
        (lines([0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]), None),
    ],
)
def test_who_hides_with_whom(
    hidden: dict[str, np.ndarray], more: dict[str, np.ndarray] | None
) -> None:
    secret = {level: h.astype(bool) for level, h in hidden.items()}
    found = partners(secret, COUNTS, SPINE, TOTALS)
    for level, h in found.items():
        assert (
            h.astype(int).tolist() == (0 * hidden[level] if more is None else more[level]).tolist()
        )


def test_of_two_levels_no_hidden_line_is_a_difference() -> None:
    people = records(households=25)
    shown = Suppression("complementary").published(people, tables(), b"")
    hidden = {level: ~x.shown for level, x in shown.levels.items()}
    truth = {
        level: x.value
        for level, x in exact_lines(people.histogram(), people.spine, tables()).items()
    }
    parent = people.spine.up("Block", "Tract")
    many = np.zeros_like(hidden["Tract"], dtype=int)
    np.add.at(many, parent, hidden["Block"])
    assert not (many + hidden["Tract"] == 1).any()
    small = {level: (t > 0) & (t < 3) for level, t in truth.items()}
    alone = np.zeros_like(many)
    np.add.at(alone, parent, small["Block"])
    assert (alone + small["Tract"] == 1).any()
    for level, h in hidden.items():
        assert h[small[level]].all()
        assert not h[truth[level] == 0].any()
