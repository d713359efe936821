"""Householders as both files count them: the cells of the skeleton.

A cell is whether the householder lives alone, sex, age in nine classes, origin, race in seven
groups, and tenure. Persons tell all but the tenure, households all. A *class* is a cell without
tenure and without who lives alone: the persons of a block say how many householders of a class it
can have."""

from __future__ import annotations

import numpy as np

from das.link.counted import CLASSES, age_class, race7
from das.link.fields import Ints, household_attributes, type_fields
from das.link.people import HomePersons
from das.model.attribute import Attribute
from das.model.dhc.household_types import ATTRIBUTE
from das.model.dhc.households import HHAGE, HISP, RACE, TENURE
from das.model.dhc.members import HEADS
from das.model.dhc.persons import DHCP, SEX
from das.model.histogram import Histogram
from das.model.schema import Schema

ALONE = Attribute(
    "alone",
    ("alone", "others"),
    "Household of the householder",
    ("Lives alone", "Lives with others"),
)
#: 2 x 2 x 9 x 2 x 7 x 3 = 1,512 cells.
SKELETON = Schema("skeleton", (ALONE, SEX, HHAGE, HISP, RACE, TENURE))
TENURES = len(TENURE.levels)
#: Classes of sex, age, origin and race; and of origin and race alone.
WIDTH = int(np.prod(CLASSES))
RACES = CLASSES[2] * CLASSES[3]


def class_of(cell: Ints) -> Ints:
    """The class of each cell."""
    return np.asarray(cell // TENURES % WIDTH)


def householders(persons: Histogram) -> Histogram:
    """Householders by who lives alone and class, ``(units, 504)``: skeleton cells without
    tenure."""
    found = np.unravel_index(persons.cell, DHCP.shape)
    relgq, sex, age, hispanic, cenrace = (np.asarray(x, dtype=np.int64) for x in found)
    head = np.isin(relgq, HEADS) & (age >= 15)
    of = (relgq, sex, age_class(age).clip(0), hispanic, race7()[cenrace])
    cell = np.ravel_multi_index(tuple(x[head] for x in of), (len(HEADS), *CLASSES))
    return Histogram.of(
        persons.units, len(HEADS) * WIDTH, persons.unit[head], cell, persons.count[head]
    )


def homes(households: Histogram) -> Histogram:
    """Households by skeleton cell, ``(units, 1512)``."""
    of = household_attributes(households.cell)
    others = (type_fields().size[of[ATTRIBUTE]] > 1).astype(np.int64)
    levels = (others, *(of[a.name] for a in SKELETON.attributes[1:]))
    cell = np.ravel_multi_index(levels, SKELETON.shape)
    return Histogram.of(households.units, SKELETON.cells, households.unit, cell, households.count)


def able(people: HomePersons, blocks: int) -> Histogram:
    """Persons at home who can be householders, those of 15 and over, by class, ``(blocks, 252)``."""
    some = people.age >= 15
    levels = (people.sex, age_class(people.age).clip(0), people.hispanic, race7()[people.cenrace])
    cls = np.ravel_multi_index(tuple(x[some] for x in levels), CLASSES)
    return Histogram.of(blocks, WIDTH, people.block[some], cls, np.ones_like(cls))
