"""How far areas are off a spine: worked cases, and the fewest units that a search finds on random
trees.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from das.model.areas import Areas
from das.model.names import encoded
from das.model.spine import Spine
from tests.geography.area_distance import distance
from tests.strategies import spines


def off(spine: Spine, *areas: Sequence[int]) -> list[int]:
    """The distance of areas that are not empty, each a list of lowest units."""
    area = np.repeat(np.arange(len(areas)), [len(a) for a in areas])
    names = encoded([f"{i:04}" for i in range(len(areas))])
    return distance(
        spine, Areas("Areas", names, area, np.array([u for a in areas for u in a]))
    ).tolist()


def tree() -> Spine:
    """A root with two units: one of four and two blocks, one of one unit with five."""
    codes = [["r"], ["r1", "r2"], ["r11", "r12", "r21"], list("abcdefghijk")]
    parent = [[0], [0, 0], [0, 0, 1], [0] * 4 + [1] * 2 + [2] * 5]
    return Spine(
        ("A", "B", "C", "D"), tuple(map(np.array, codes)), tuple(np.array(p) for p in parent)
    )


def test_parts_are_added_or_the_rest_is_subtracted() -> None:
    """A unit; three of its four blocks; a unit and a block of the next; all but one block of
    everything.
    """
    assert off(tree(), [0, 1, 2, 3], [0, 1, 2], [0, 1, 2, 3, 4], list(range(10)), [0, 6]) == [
        1,
        2,
        2,
        2,
        2,
    ]


def test_the_worked_case(shared_data: Path) -> None:
    path = shared_data.parent / "facts" / "spine_cases.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    case = next(c for c in json.loads(path.read_text())["cases"] if c["kind"] == "distance")
    units = [u for part in case["tree"] for u in part]
    assert [list(map(len, part)) for part in case["tree"]] == [[4, 2], [5]]
    name = {letter: i for i, letter in enumerate(letter for u in units for letter in u)}
    said = [
        (sorted(map(name.__getitem__, blocks)), far) for blocks, far in case["entities"] if blocks
    ]
    assert off(tree(), *(blocks for blocks, _ in said)) == [far for _, far in said]


@given(spines(most_levels=3, most_children=3), st.data())
def test_no_other_units_make_up_an_area_with_fewer(spine: Spine, data: st.DataObject) -> None:
    """Over all ways to add, leave and subtract each unit of a small tree."""
    lowest = len(spine.codes[-1])
    units = [(d, u) for d, codes in enumerate(spine.codes) for u in range(len(codes))]
    assume(len(units) <= 8)
    inside = data.draw(st.lists(st.booleans(), min_size=lowest, max_size=lowest).filter(any))
    blocks = np.array(
        [spine.up(spine.levels[-1], spine.levels[d]) == u for d, u in units], dtype=int
    )
    signs = np.array(list(product((-1, 0, 1), repeat=len(units))))
    makes = (signs @ blocks == np.array(inside, dtype=int)).all(axis=1)
    best = np.abs(signs[makes]).sum(axis=1).min()
    (found,) = off(spine, np.flatnonzero(inside).tolist())
    assert found == best
