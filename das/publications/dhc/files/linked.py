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
(:mod:`das.publications.dhc.model.members`), except its tenure. So the table of households cannot be left out.
Its other columns are compared with the members. All required agreement is checked
(:mod:`das.publications.dhc.files.linked`), and nothing is repaired."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files import codes as texts
from das.files.readers.rows import UTF_8, Bools, CodedRows, Ints, coded_rows, names
from das.files.readers.source import Member, members, sources
from das.model.confidential import Confidential
from das.model.frozen import Frozen, NoRepr
from das.model.names import Codes
from das.model.records import Records
from das.model.schema import Schema
from das.model.source import Source
from das.publications.dhc.model import quarters
from das.publications.dhc.model.households import (
    ATTRIBUTE,
    DHCH,
    TENURE,
    TENURES,
    TENVACGQ,
    THREE,
    VACANCIES,
)
from das.publications.dhc.model.members import (
    HEADS,
    LEVEL,
    PARTNERS,
    LinkedPersons,
    cells_of,
    household_levels,
)
from das.publications.dhc.model.persons import DHCP, RELATIONSHIPS

# How linked tables of persons, households and units must agree. Violations are refused, with their
# number and the first place.
#
# * Nobody is in a structural zero of ``dhcp``, and no household in one of ``dhch``.
# * A person with a relationship to a householder has a household; a person in group quarters has
# none. A household is listed once, in the block of its members, and has at least one member.
# * Each household has one householder, whose living alone or not matches its size. It has at most one
# spouse or partner, of the other or the same sex as the relationship says. Its other attributes
# match its members.
# * In each block the households of a tenure are the units of that tenure. A type of group quarters
# with persons has a facility, and it has no more facilities than persons.

_ALONE = LEVEL["householder-alone"]
_OPPOSITE = [LEVEL[r] for r in ("opposite-sex-spouse", "opposite-sex-partner")]
_QUARTERS = len(TENURES) + len(VACANCIES)  #: the first cell of ``tenvacgq`` that is a facility


class LocatedRows(NamedTuple):
    """Rows, and the number of the block of each, ``(rows,)``."""

    rows: CodedRows
    block: Ints


def located(rows: CodedRows, blocks: Codes, listed: str) -> LocatedRows:
    """``blocks``: those of the file ``listed``. Raises :class:`InputError` for others."""
    block = rows.block.position_in(texts.column(blocks))
    rows.refuse(
        block < 0,
        f"are in blocks that {listed} does not list",
        lambda i: f"block {rows.block[i]!r}",
        f"write codes of blocks alike, and list every block in {listed}; an empty one with a count"
        " of 0",
    )
    return LocatedRows(rows, block)


def household_cells(persons: LocatedRows, households: LocatedRows) -> Ints:
    """The cell of ``dhch`` of each household, ``(households,)``, as its members make it. Raises
    :class:`InputError` for whatever persons and households do not agree in."""
    people, homes = persons.rows, households.rows
    _possible(people, DHCP, people.cell)
    linked = LinkedPersons(linked_household(people, homes), *people.levels().values())
    _check_same_block(persons, households, linked.household)
    _heads(people, homes, linked)
    told, found = homes.levels(), household_levels(linked, len(homes))
    homes.refuse(
        found[ATTRIBUTE] < 0,
        "are households of members whom no type of household has",
        _household(homes),
        "fix the relationships and ages of its members",
    )
    cell = cells_of(found, told[TENURE.name])
    _possible(homes, DHCH, cell)
    _as_told(homes, told, found)
    return cell


def check_blocks(
    persons: LocatedRows, households: LocatedRows, units: LocatedRows, blocks: Codes
) -> None:
    """Raises :class:`InputError` for a block whose units and facilities are not those of its
    households and persons."""
    shape = (len(blocks), len(TENURE.levels))
    tenure = households.rows.levels()[TENURE.name]
    unit = units.rows.cell
    homes = _sums(shape, households.block, tenure, households.rows.count)
    occupied = unit < len(TENURES)
    of_tenure = np.array(THREE)[unit[occupied]]
    there = _sums(shape, units.block[occupied], of_tenure, units.rows.count[occupied])
    names = f"{households.rows.name} and {units.rows.name}"
    _refuse(
        homes != there,
        blocks,
        names,
        "other numbers of households than of units of a tenure",
        "list each household once, and its unit; 'rented' are rented ones and those without"
        " payment",
    )
    _check_quarters(persons, units, blocks)


def _check_quarters(persons: LocatedRows, units: LocatedRows, blocks: Codes) -> None:
    shape = (len(blocks), len(quarters.TYPES))
    kind = persons.rows.levels()["relgq"] - len(RELATIONSHIPS)
    away, facility = kind >= 0, units.rows.cell >= _QUARTERS
    residents = _sums(shape, persons.block[away], kind[away], persons.rows.count[away])
    there = _sums(
        shape,
        units.block[facility],
        units.rows.cell[facility] - _QUARTERS,
        units.rows.count[facility],
    )
    nowhere = away & (persons.rows.count > 0) & (there[persons.block, kind] == 0)
    persons.rows.refuse(
        nowhere,
        f"are in a type of group quarters for which {units.rows.name} has no facility in their"
        " block",
        lambda i: f"block {persons.rows.block[i]!r}",
        "list the facilities of every block",
    )
    _refuse(
        there > residents,
        blocks,
        units.rows.name,
        "more facilities of a type than persons in it",
        "leave out facilities in which nobody lives",
    )


# --- persons and households


def _possible(rows: CodedRows, schema: Schema, cell: Ints) -> None:
    rows.refuse(
        ~schema.possible[cell] & (rows.count > 0),
        f"are of combinations that cannot occur in schema {schema.name!r}",
        lambda i: f"block {rows.block[i]!r}",
        "fix the data",
    )


def _once(homes: CodedRows) -> Ints:
    """Households have names of their own, and each has a line of its own. Returns of each name its
    row, and -1 behind."""
    named, which = homes.household, _household(homes)
    remedy = "give each household a name or number of its own, and a line"
    homes.refuse(named.empty, "name no household", lambda i: "an empty field", remedy)
    row = np.full(len(named.values) + 1, -1, dtype=np.int64)
    row[named.index[::-1]] = np.arange(len(homes))[::-1]
    homes.refuse(
        row[named.index] != np.arange(len(homes)),
        "are of a household that stands before",
        which,
        remedy,
    )
    homes.refuse(homes.count != 1, "do not stand for one household", which, remedy)
    return row


def linked_household(people: CodedRows, homes: CodedRows) -> Ints:
    """The number of the household of each person, or -1 in group quarters."""
    row = _once(homes)
    home, away = ~people.household.empty, people.levels()["relgq"] >= len(RELATIONSHIPS)
    who = _person(people)
    people.refuse(
        ~home & ~away,
        "have a relationship to a householder and no household",
        who,
        "name their household",
    )
    people.refuse(
        home & away, "are in group quarters and in a household", who, "leave their household empty"
    )
    people.refuse(
        home & (people.count != 1),
        "are in a household and do not stand for one person",
        who,
        "give each person in a household a line of their own",
    )
    number = np.where(home, row[people.household.position_in(homes.household.values)], -1)
    people.refuse(
        home & (number < 0),
        f"are in households that {homes.name} does not list",
        who,
        "list every household, and write its name or number alike in both",
    )
    return number


def _check_same_block(persons: LocatedRows, households: LocatedRows, number: Ints) -> None:
    """Households have somebody, and are where their members are."""
    people, homes = persons.rows, households.rows
    elsewhere = (number >= 0) & (np.append(households.block, -1)[number] != persons.block)
    people.refuse(
        elsewhere,
        "are in another block than their household",
        lambda i: (
            f"{_person(people)(i)}, whose household is in block {homes.block[int(number[i])]!r}"
        ),
        "give persons and their household one block",
    )
    homes.refuse(
        _size(number, number >= 0, homes) == 0,
        f"are households for which {people.name} has nobody",
        _household(homes),
        "leave out households without persons",
    )


def _heads(people: CodedRows, homes: CodedRows, linked: LinkedPersons) -> None:
    """One householder in each, alone where nobody else is there; one spouse or partner at most,
    whose sex is as is said."""
    number, relgq = linked.household, linked.relgq
    head, partner = np.isin(relgq, HEADS), np.isin(relgq, PARTNERS)
    which = _household(homes)
    heads = _size(number, head, homes)
    homes.refuse(
        heads != 1,
        "are households without a householder, or with several",
        which,
        "say of one person of each household that they are its householder",
    )
    homes.refuse(
        _size(number, partner, homes) > 1,
        "are households with several spouses or partners of the householder",
        which,
        "call one of them so, and the others nonrelatives",
    )
    alone = np.append(
        _size(number, number >= 0, homes) == 1, False
    )  # who is in none is told by the last
    people.refuse(
        head & ((relgq == _ALONE) != alone[number]),
        "are householders said to live alone who do not, or the reverse",
        _person(people),
        "use 'householder-alone' where nobody else lives there, and 'householder' where somebody"
        " does",
    )
    sex = np.zeros(len(homes) + 1, dtype=np.int64)
    sex[number[head]] = linked.sex[head]
    same = np.equal(linked.sex, sex[number])
    people.refuse(
        partner & (same == np.isin(relgq, _OPPOSITE)),
        "are spouses or partners of another sex than their relationship says",
        _person(people),
        "fix the sex, or the relationship",
    )


def _as_told(homes: CodedRows, told: Mapping[str, Ints], computed: Mapping[str, Ints]) -> None:
    """Check that the table of households agrees with their members."""
    given = [a for a in homes.schema.attributes if a.name in computed]
    differ = np.array([told[a.name] != computed[a.name] for a in given]).reshape(
        len(given), len(homes)
    )

    def which(i: int) -> str:
        return f"{_household(homes)(i)}, its {given[int(np.argmax(differ[:, i]))].name}"

    homes.refuse(
        np.asarray(differ.any(axis=0)),
        "are households that are not what their members make them",
        which,
        f"fix the members, or omit all columns except {TENURE.name}: they are computed",
    )


def _person(people: CodedRows) -> Callable[[int], str]:
    return lambda i: f"a person in block {people.block[i]!r}"


def _household(homes: CodedRows) -> Callable[[int], str]:
    return lambda i: f"a household in block {homes.block[i]!r}"


def _size(number: Ints, which: Bools, homes: CodedRows) -> Ints:
    """The number of persons of ``which`` in each household; all of them have one."""
    return np.bincount(number[which], minlength=len(homes))


# --- blocks


def _sums(shape: tuple[int, int], block: Ints, level: Ints, count: Ints) -> Ints:
    out = np.zeros(shape, dtype=np.int64)
    np.add.at(out, (block, level), count)
    return out


def _refuse(bad: Bools, blocks: Codes, where: str, what: str, remedy: str) -> None:
    """``bad``: by block and level. Raises :class:`InputError` if any is set. The message names the
    place, but not its counts: a log is no place for records."""
    if bad.any():
        of = bad.any(axis=1)
        raise InputError(
            f"{int(of.sum()):,} of {len(blocks):,} blocks have {what}; the first: block "
            f"{blocks[int(np.argmax(of))].decode()!r}",
            where=where,
            remedy=remedy,
        )


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
class LinkedExtract(NoRepr, Frozen):
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
class LinkedTables(NoRepr):
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
        located(rows, codes, units.name) for rows in (people, homes, units)
    )
    cell = household_cells(persons, households)
    check_blocks(persons, households, listed, codes)
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
