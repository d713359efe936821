"""Households that cannot be, in the end: relationships change until every household has a type and
a cell that is no structural zero.

Three steps, each for the households that are still impossible: own children under 18 become other
relatives; a spouse or partner becomes a nonrelative; everyone does. A household whose members are
all nonrelatives of its householder is always possible."""

from __future__ import annotations

import numpy as np

from das.errors import InputError
from das.link.fields import Ints
from das.link.people import HomePersons
from das.model.dhc.household_types import ATTRIBUTE
from das.model.dhc.households import DHCH
from das.model.dhc.members import (
    HEADS,
    LEVEL,
    OWN,
    PARTNERS,
    LinkedPersons,
    cells_of,
    household_levels,
)

_OTHER_RELATIVE, _OTHER, _IN_LAW = (
    LEVEL[x] for x in ("other-relative", "other-nonrelative", "child-in-law")
)


def cells(people: LinkedPersons, tenure: Ints) -> tuple[Ints, np.ndarray]:
    """The cell of ``dhch`` of each household, and which of them cannot be."""
    levels = household_levels(people, len(tenure))
    odd = levels[ATTRIBUTE] < 0
    found = cells_of({name: np.where(odd, 0, x) for name, x in levels.items()}, tenure)
    return found, np.asarray(odd | ~DHCH.possible[found])


def made_possible(people: HomePersons, household: Ints, tenure: Ints) -> tuple[HomePersons, Ints]:
    """The persons with relationships that can be, and the cell of each household."""
    head = np.isin(people.relgq, HEADS)
    for which, becomes in (
        (np.isin(people.relgq, (*OWN, _IN_LAW)) & (people.age < 18), _OTHER_RELATIVE),
        (np.isin(people.relgq, PARTNERS), _OTHER),
        (~head, _OTHER),
    ):
        found, odd = cells(people.linked(household), tenure)
        if not odd.any():
            return people, found
        relgq = people.relgq.copy()
        relgq[which & odd[household]] = becomes
        people = people.labelled(relgq)
    found, odd = cells(people.linked(household), tenure)
    if odd.any():
        raise InputError(
            f"{int(odd.sum())} households cannot be, whatever their members are called",
            where="link",
        )
    return people, found
