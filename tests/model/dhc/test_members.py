"""Households from their members: examples worked out by hand, and members that make no
household.
"""

from __future__ import annotations

import numpy as np
import pytest

from das.errors import InputError
from das.publications.dhc.model.households import DHCH, TYPES
from das.publications.dhc.model.members import LEVEL, LinkedPersons, household_cells
from das.publications.dhc.model.persons import DHCP

Member = tuple[str, int]


def people(*homes: list[Member]) -> LinkedPersons:
    """Men, not Hispanic, of the race of their position."""
    rows = [
        (i, LEVEL[who], 0, age, 0, j)
        for i, home in enumerate(homes)
        for j, (who, age) in enumerate(home)
    ]
    return LinkedPersons(*np.array(rows, dtype=np.int64).T)


@pytest.mark.parametrize(
    "home, code, elderly",
    [
        ([("householder-alone", 60)], "N rel0 own0 ch0 minor0 mg0 size1", 1),
        ([("householder-alone", 17)], "N rel0 own0 ch0 minor1 mg0 size1", 0),
        ([("householder", 40), ("same-sex-spouse", 66)], "MS rel1 own0 ch0 minor0 mg0 size2", 2),
        (
            [("householder", 40), ("opposite-sex-partner", 17)],
            "CO rel0 own0 ch0 minor1 mg0 size2",
            0,
        ),
        (
            [("householder", 40), ("same-sex-partner", 40), ("foster-child", 6)],
            "CS rel0 own0 ch2 minor1 mg0 size3",
            0,
        ),
        (
            [("householder", 40), ("stepchild", 5), ("grandchild", 6)],
            "N rel1 own1 ch3 minor1 mg1 size3",
            0,
        ),
        (
            [("householder", 60), ("adopted-child", 18), ("parent", 90)],
            "N rel1 own0 ch0 minor0 mg1 size3",
            3,
        ),
        (
            [("householder", 60), ("child-in-law", 30), ("grandchild", 1)],
            "N rel1 own0 ch1 minor1 mg1 size3",
            1,
        ),
        (
            [("householder", 30), ("parent", 60), ("parent-in-law", 74)],
            "N rel1 own0 ch0 minor0 mg0 size3",
            2,
        ),
        (
            [("householder", 30), ("sibling", 12)] + [("roommate", 20)] * 8,
            "N rel1 own0 ch2 minor1 mg0 size7",
            0,
        ),
        (
            [("householder", 30), ("roommate", 3), ("other-nonrelative", 8)],
            "N rel0 own0 ch3 minor1 mg0 size3",
            0,
        ),
    ],
)
def test_types_worked_out_by_hand(home: list[Member], code: str, elderly: int) -> None:
    before = [("householder-alone", 30)]
    levels = np.unravel_index(household_cells(people(before, home), np.array([0, 2])), DHCH.shape)
    assert TYPES[levels[6][1]].code == code
    assert levels[4].tolist() == [0, elderly]
    assert levels[5].tolist() == [0, 2]


@pytest.mark.parametrize(
    "homes, said",
    [
        ([[("householder", 30), ("householder", 30)]], "one householder"),
        ([[("householder-alone", 30)], [("roommate", 30)]], "one householder"),
        # three generations below a householder of 16, with no child among them
        (
            [
                [("householder-alone", 30)],
                [("householder", 16), ("parent", 40), ("child-in-law", 18)],
            ],
            "household 1 has",
        ),
    ],
)
def test_members_that_make_no_household_are_refused(homes: list[list[Member]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        household_cells(people(*homes), np.zeros(len(homes), dtype=np.int64))


def test_group_quarters_belong_to_no_household() -> None:
    nursing = DHCP.attribute("relgq").levels.index("gq-301")
    values = np.array([[0, 0, 1, 50, 1, 7], [-1, nursing, 0, 17, 0, 62]], dtype=np.int64)
    (cell,) = household_cells(LinkedPersons(*values.T), np.array([1]))
    number = int(cell) % len(TYPES)
    assert TYPES[number].code == "N rel0 own0 ch0 minor0 mg0 size1"
