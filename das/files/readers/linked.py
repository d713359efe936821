"""Linked tables of persons, households and units: the input of the DHC.

A folder holds three tables of these names, each as ``.parquet``, ``.csv`` or ``.csv.gz``. Values
are the codes of the schemas' levels.

==============
=======================================================================================================
``persons``     a line a person: ``block``, ``household`` (empty in group quarters), the attributes
of ``dhcp`` ``households``  a line a household: ``household``, ``block``, ``hhtenshort_3lev``; the
other attributes of ``dhch`` may be there ``units``       ``block``, ``tenvacgq``: units and
facilities. It lists every block, one without either with a count of 0 ==============
=======================================================================================================

Each can have a column ``count``, the number of records that a line stands for; a linked record has
a line of its own. The attributes of a household follow from its members
(:mod:`das.model.dhc.members`), except its tenure. So the table of households cannot be left out.
Its other columns are compared with the members. All required agreement is checked
(:mod:`das.files.readers.links`), and nothing is repaired.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine.progress import SILENT, Progress
from das.errors import InputError
from das.files import codes as texts
from das.files.readers import links
from das.files.readers.coded import coded_rows
from das.files.readers.links import LocatedRows
from das.files.readers.rows import UTF_8, names
from das.files.readers.source import Member, members, sources
from das.model.closed import Closed
from das.model.codes import Codes
from das.model.confidential import Confidential
from das.model.dhc.households import DHCH, TENURE
from das.model.dhc.persons import DHCP
from das.model.dhc.units import TENVACGQ
from das.model.frozen import Frozen
from das.model.records import Records
from das.model.schema import Schema
from das.model.source import Source

TABLES = ("persons", "households", "units")
SUFFIXES = (".parquet", ".csv", ".csv.gz")

#: For the privacy statement.
NOTES = (
    (
        "The list of blocks is that of the table of units: that a block is listed is published"
        " exactly. List blocks without units and facilities with a count of 0 to hide it."
    ),
)


@dataclass(frozen=True, eq=False, repr=False)
class LinkedExtract(Closed, Frozen):
    """``blocks``: their codes in order, ``(blocks,)``; records of ``persons`` (``dhcp``),
    ``households`` (``dhch``) and ``units`` (``tenvacgq``) in them. ``notes``: sentences for the
    privacy statement."""

    blocks: Codes
    persons: Confidential[Records]
    households: Confidential[Records]
    units: Confidential[Records]
    sources: tuple[Source, ...]
    notes: tuple[str, ...] = NOTES


@dataclass(frozen=True, eq=False, repr=False)
class LinkedTables(Closed):
    """The rows of the three tables, which agree with each other: of ``people``, of ``homes`` with
    their ``cell`` of ``dhch``, and of ``units``; and the sorted ``codes`` of the blocks."""

    people: LocatedRows
    homes: LocatedRows
    units: LocatedRows
    cell: NDArray[np.int64]
    codes: Codes
    sources: tuple[Source, ...]


def tables(folder: Path, *, encoding: str = UTF_8, progress: Progress = SILENT) -> LinkedTables:
    """Read the three tables of a folder, and check them against each other. Costs some passes over
    arrays of one number a line.

    ``encoding``: that of texts. Raises :class:`InputError` with the number of faults and the first
    place. Faults are a missing or damaged file, an unknown code, a structural zero, and links that
    contradict each other."""
    found = {name: _member(Path(folder), name) for name in TABLES}
    units = coded_rows(found["units"], TENVACGQ, encoding, progress)
    homes = coded_rows(
        found["households"], _told(found["households"], encoding), encoding, progress, linked=True
    )
    people = coded_rows(found["persons"], DHCP, encoding, progress, linked=True)
    if not len(units):
        raise InputError(
            "has no records",
            where=units.name,
            remedy="list every block; an empty one with a count of 0",
        )
    progress.stage("check the links", None)
    codes = np.sort(texts.codes(units.block.values))
    persons, households, listed = (
        links.located(rows, codes, units.name) for rows in (people, homes, units)
    )
    cell = links.household_cells(persons, households)
    links.check_blocks(persons, households, listed, codes)
    every = sources(list(found.values()))
    return LinkedTables(persons, households, listed, cell, codes, every)


def blocks(folder: Path) -> Codes:
    """The codes of the blocks of a folder, sorted; only the table of units is read."""
    return np.sort(
        texts.codes(coded_rows(_member(folder, "units"), TENVACGQ, UTF_8, SILENT).block.values)
    )


def read(folder: Path, *, encoding: str = UTF_8, progress: Progress = SILENT) -> LinkedExtract:
    """The records of a folder, by block. Raises :class:`InputError` as :func:`tables`."""
    of = tables(folder, encoding=encoding, progress=progress)
    (persons, units, homes) = (of.people.rows, of.units.rows, of.homes.rows)
    return LinkedExtract(
        of.codes,
        Confidential(Records(DHCP, of.people.block, persons.cell, persons.count)),
        Confidential(Records(DHCH, of.homes.block, of.cell, homes.count)),
        Confidential(Records(TENVACGQ, of.units.block, units.cell, units.count)),
        of.sources,
    )


def _member(folder: Path, name: str) -> Member:
    """The one file of a table."""
    if not folder.is_dir():
        raise InputError(
            "is no folder",
            where=folder,
            remedy=f"give one that holds the tables {', '.join(TABLES)}",
        )
    there = [path for suffix in SUFFIXES if (path := folder / f"{name}{suffix}").is_file()]
    if len(there) != 1:
        said = (
            f"holds {' and '.join(p.name for p in there)}" if there else f"holds no table of {name}"
        )
        raise InputError(
            said,
            where=folder,
            remedy=f"give one of {', '.join(name + suffix for suffix in SUFFIXES)}",
        )
    (member,) = members(there[0])
    return member


def _told(member: Member, encoding: str) -> Schema:
    """What a table of households tells of ``dhch``: tenure, and what else there is a column of."""
    given = {TENURE.name, *names(member, encoding)}
    return Schema(DHCH.name, tuple(a for a in DHCH.attributes if a.name in given))
