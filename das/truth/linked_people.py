"""The persons of linked records, in the cells and places of an attack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.readers import linked
from das.files.readers.links import linked_household
from das.model.codes import Codes
from das.model.confidential import Confidential
from das.model.dhc.members import HousedPersons, LinkedPersons
from das.model.dhc.persons import DHCP
from das.model.histogram import Histogram
from das.model.names import geoids
from das.model.schema import Schema
from das.model.spine import Spine
from das.protect.recoding import recoded


def linked_people(folder: Path, spine: Spine, schema: Schema) -> Confidential[Histogram]:
    """Counts of the lowest level of ``spine`` by cell of ``schema``, of those who live there.
    Raises :class:`InputError` where nobody does."""
    found = linked.tables(folder)
    rows = found.people.rows
    unit = _places(spine, found.codes)[found.people.block]
    inside = unit >= 0
    if not inside.any():
        raise InputError(
            "no record is in a place of the tables", where=folder, remedy="compare their codes"
        )
    cell = recoded(rows.cell[inside], DHCP, schema)
    units = spine.units(spine.levels[-1])
    return Confidential(Histogram.of(units, schema.cells, unit[inside], cell, rows.count[inside]))


def housed_people(folder: Path, spine: Spine) -> Confidential[HousedPersons]:
    """The persons of linked records in units of the lowest level, with their households. Raises
    :class:`InputError` where nobody lives in a unit."""
    found = linked.tables(folder)
    rows, homes = found.people.rows, found.homes.rows
    unit = _places(spine, found.codes)[found.people.block]
    inside = np.repeat(unit >= 0, rows.count)
    if not inside.any():
        raise InputError(
            "no record is in a place of the release", where=folder, remedy="compare their codes"
        )
    household = np.repeat(linked_household(rows, homes), rows.count)[inside]
    levels = (np.repeat(x, rows.count)[inside] for x in rows.levels().values())
    of, number = np.unique(household, return_inverse=True)
    away = int(of[0] < 0)
    people = LinkedPersons(number.reshape(-1) - away, *levels)
    place = np.repeat(unit, rows.count)[inside]
    return Confidential(HousedPersons(people, place, len(of) - away))


def _places(spine: Spine, blocks: Codes) -> NDArray[np.int64]:
    """The unit of the lowest level that each block is, or is in; -1 for none. Codes of blocks can
    have the digit of their group, or be standard GEOIDs."""
    lowest = spine.levels[-1]
    width = spine.codes[-1].dtype.itemsize
    unit = spine.find(lowest, blocks)
    if (unit < 0).all():
        unit = spine.find(lowest, geoids("Block", blocks))
    if (unit < 0).all() and width < blocks.dtype.itemsize:
        unit = spine.find(lowest, blocks.astype(f"S{width}"))
    return unit
