"""Places as units of a tree: some of them, and where the tree has their first."""

import numpy as np
import pytest

from das.model.measured_spine import NOWHERE, Cover

#: Place 0 is a unit of level 1; place 1 has none; place 2 is three units of two levels.
COVER = Cover(np.array([0, 2, 2, 2]), np.array([1, 1, 2, 2]), np.array([5, 0, 7, 9]))


@pytest.mark.parametrize("places", [[0, 1, 2], [2, 0], [1], [2, 2], []])
def test_some_places_are_numbered_as_they_are_given(places):
    some = COVER.some(np.array(places, dtype=np.int64))
    expected = [
        (number, depth, unit)
        for number, place in enumerate(places)
        for at, depth, unit in zip(COVER.place, COVER.depth, COVER.unit, strict=True)
        if at == place
    ]
    found = zip(some.place.tolist(), some.depth.tolist(), some.unit.tolist(), strict=True)
    assert list(found) == expected


def test_the_first_unit_of_each_place():
    depth, unit = COVER.first(4)
    assert depth.tolist() == [1, NOWHERE, 1, NOWHERE]
    assert unit.tolist() == [5, NOWHERE, 0, NOWHERE]
