"""Units of an area together with the area's tables, against all solutions by brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from das.model.histogram import Histogram
from das.model.schema import Schema
from das.tools.protection.attack import AttackOptions, AttackStatus, reconstruct
from das.tools.protection.published import TableSet
from tests.risk.attack_worlds import published, solutions, tables_of, tree

Ints = NDArray[np.int64]
TWO = Schema.from_attributes("two", {"row": 2, "column": 2})
MARGINS = tables_of(TWO, {"R": "row", "C": "column"}).tables["Block"]
DETAILED = tables_of(TWO, {"D": "detailed"}).tables["Block"]


def world(blocks: list[list[int]]) -> Histogram:
    dense = np.array(blocks)
    unit, cell = np.nonzero(dense)
    return Histogram.from_triplets(len(dense), 4, unit, cell, dense[unit, cell])


def margins_alone(h: Histogram) -> list[list[Ints]]:
    """All tables with the margins of each block."""
    m = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    return [solutions(m, m @ x, m @ x, int(x.sum())) for x in h.dense()]


@pytest.mark.parametrize(
    "blocks",
    [
        [[1, 0, 0, 1], [3, 0, 0, 0]],  # the tract settles the one that is open
        [[1, 0, 0, 1], [0, 1, 1, 0]],  # either of two is the one
        [[1, 0, 0, 1], [1, 0, 0, 1], [0, 2, 0, 0]],  # together they have one solution
        [[2, 1, 1, 2], [1, 1, 0, 1], [0, 1, 1, 1]],
        [[0, 1, 1, 0], [2, 0, 0, 1], [1, 1, 1, 1]],
    ],
)
def test_those_that_have_one_solution_together(blocks: list[list[int]]) -> None:
    h = world(blocks)
    tables = TableSet("t", TWO, {"Tract": DETAILED, "Block": MARGINS})
    p = published(h, tree(len(blocks)), tables)
    found = reconstruct(p)
    each = [c for c in product(*margins_alone(h)) if (sum(c) == h.dense().sum(axis=0)).all()]
    unique = [len({c[b].tobytes() for c in each}) == 1 for b in range(len(blocks))]
    assert found.unique.tolist() == unique
    assert any(np.array_equal(c, found.histogram.dense()) for c in each)
    only = reconstruct(p, AttackOptions(joint_seconds=0))
    assert only.unique.sum() <= found.unique.sum()
    assert (found.variability[~found.unique] > 0).all()


def test_an_area_that_is_not_the_sum_of_its_units_changes_nothing() -> None:
    h = world([[1, 0, 0, 1], [3, 0, 0, 0]])
    tables = TableSet("t", TWO, {"Tract": DETAILED, "Block": MARGINS})
    p, other = (published(x, tree(2), tables) for x in (h, world([[1, 0, 0, 0], [1, 0, 0, 0]])))
    levels = {"Tract": other.levels["Tract"], "Block": p.levels["Block"]}
    found = reconstruct(type(p)(p.spine, tables, levels))
    assert found.status.tolist() == [AttackStatus.SOLVED, AttackStatus.UNIQUE]


def test_a_relaxation_alone_can_settle_a_unit() -> None:
    """One unit is closed by bounds after another was: no program is needed."""
    h = world([[1, 0, 0, 1], [3, 0, 0, 0]])
    tables = TableSet("t", TWO, {"Tract": DETAILED, "Block": MARGINS})
    found = reconstruct(published(h, tree(2), tables), AttackOptions(variability=False))
    assert found.unique.all()
