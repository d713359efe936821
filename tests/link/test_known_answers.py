"""Households whose type is known, and ties whose correction is."""

from __future__ import annotations

import numpy as np
import pytest

from das.errors import InputError
from das.publications.dhc.model.households import ATTRIBUTE, TYPES
from das.publications.dhc.model.members import LinkedPersons, household_levels
from das.tools.link.linking import OccupiedBounds, consistent

#: Members as relationship and age; type and class of the oldest.
HOUSEHOLDS = (
    (((1, 40), (2, 38), (6, 4), (6, 9)), "MO rel1 own3 ch3 minor1 mg0 size4", 0),
    (((1, 50), (6, 22), (11, 3)), "N rel1 own0 ch1 minor1 mg1 size3", 0),
    (((1, 45), (10, 72), (6, 10)), "N rel1 own2 ch2 minor1 mg1 size3", 2),
    (((1, 30), (15, 16)), "N rel0 own0 ch2 minor1 mg0 size2", 0),
    (((1, 17), (2, 19)), "MO rel1 own0 ch0 minor1 mg0 size2", 0),
    (((1, 40), (3, 41), (16, 7)), "CO rel0 own0 ch2 minor1 mg0 size3", 0),
    (((1, 60), (2, 58), (13, 16), (11, 2)), None, 1),  # a child-in-law under 18 beside a grandchild
)


@pytest.mark.parametrize(("members", "code", "elderly"), HOUSEHOLDS)
def test_types_follow_from_members(
    members: tuple[tuple[int, int], ...], code: str | None, elderly: int
) -> None:
    relgq, age = (np.array(x) for x in zip(*members, strict=True))
    zero = np.zeros_like(relgq)
    found = household_levels(LinkedPersons(zero, relgq, zero, age, zero, zero), 1)
    kind = int(found[ATTRIBUTE][0])
    assert (TYPES[kind].code if kind >= 0 else None) == code
    assert found["elderly"][0] == elderly


def test_occupied_units_are_corrected() -> None:
    home, able = np.array([0, 5, 3, 10, 2]), np.array([0, 4, 1, 8, 0])
    occupied = np.array([2, 0, 3, 4, 1])
    bounds = OccupiedBounds.from_counts(home, able, np.full(5, 20))
    assert consistent(occupied, home, bounds, np.zeros(5, dtype=int)).tolist() == [0, 3, 1, 5, 1]
    assert bounds.broken(occupied).tolist() == [True, True, True, False, False]


def test_what_a_group_cannot_hold_is_cut() -> None:
    home, able = np.array([4, 4]), np.array([2, 2])
    bounds = OccupiedBounds.from_counts(home, able, np.array([9, 1]))
    assert consistent(np.array([5, 5]), home, bounds, np.array([0, 1])).tolist() == [2, 1]
    assert consistent(np.array([5, 0]), home, bounds, np.array([0, 0])).tolist() == [2, 1]
    with pytest.raises(InputError, match="at least 3 and at most 2"):
        OccupiedBounds(np.array([3]), np.array([2]))


@pytest.mark.parametrize("seed", range(20))
def test_corrections_are_inside_and_keep_sums_where_they_can(seed: int) -> None:
    rng = np.random.default_rng(seed)
    home = rng.integers(0, 12, 30)
    able, housing = rng.binomial(home, 0.7), rng.integers(1, 12, 30)
    group, occupied = np.sort(rng.integers(0, 4, 30)), rng.integers(0, 8, 30)
    bounds = OccupiedBounds.from_counts(home, able, housing)
    found = consistent(occupied, home, bounds, group)
    assert not bounds.broken(found).any()
    for g in range(4):
        here = group == g
        low, high = bounds.lower[here].sum(), bounds.upper[here].sum()
        if low <= occupied[here].sum() <= high:
            assert found[here].sum() == occupied[here].sum()
