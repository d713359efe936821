"""Persons, units and geography of PHSafe, joined: who lives at which address, in which state.

PHSafe reads whatever joins. Its run stops half-way at a combination without a cell, so these are
always refused here. ``strict`` also refuses everything that makes tables disagree: unit records
that do not match their persons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.delimited import Faults
from das.files.readers.rows import CodedTexts
from das.files.readers.source import source_of
from das.model.confidential import Confidential
from das.model.names import text
from das.model.source import Source
from das.publications.dhc.files import linked
from das.publications.dhc.files.linked import LinkedTables, linked_household
from das.publications.dhc.model.households import ATTRIBUTE, COUPLES, DHCH, SEX, TENURE, TYPES
from das.publications.dhc.model.microdata import hht, hht2
from das.publications.dhc.model.persons import DHCP, RELATIONSHIPS
from das.publications.sdhc.files.columns import AREAS, LAYOUTS, CsvLines, Values, read, refuse
from das.publications.sdhc.model.tables import Addresses, Residents, SdhcRecords

# Linked records of the DHC (:mod:`das.publications.dhc.files.linked`) as records of the S-DHC: every household
# is an address. Nobody in group quarters is in a table, so they are left out.
#
# The order of the persons of an address depends on its number (:mod:`das.publications.sdhc.truth.counts`). So the
# number follows from the household's own name: a household more or less leaves all others as they
# are. The states are those of the list of blocks, which is public.

#: By type of household: HHT and HHT2 of a male and of a female householder, and CPLT.
_HHT, _HHT2 = (
    np.array([[int(code(t, female)) for t in TYPES] for female in (False, True)], dtype=np.int8)
    for code in (hht, hht2)
)
_CPLT = np.array([1 + tuple(COUPLES).index(t.couple) for t in TYPES], dtype=np.int8)
#: A householder is one, alone or not.
_RELSHIP = np.array([20, *range(20, 19 + len(RELATIONSHIPS))], dtype=np.int8)


def is_linked(folder: Path) -> bool:
    """Whether a folder holds such tables."""
    return any((folder / f"households{suffix}").is_file() for suffix in linked.SUFFIXES)


def linked_records(
    folder: Path, states: Iterable[str], area: str | None = None
) -> tuple[SdhcRecords, tuple[Source, ...]]:
    """The households of some ``states`` (all, where none is named), and the files that they are
    from. Raises :class:`InputError` as the reader of linked records, and where no address is in
    these states."""
    if area not in (None, "county"):
        raise InputError(
            f"linked records do not say the {area} of a household",
            where=folder,
            remedy="tabulate counties, or give PHSafe's files",
        )
    of = linked.tables(folder)
    listed = np.strings.slice(of.codes, 0, 2).astype(np.int64)
    known = np.unique(listed)
    if wanted := [int(s) for s in states]:
        known = known[np.isin(known, wanted)]
    if not len(known):
        raise InputError("has no block in these states", where=folder, remedy="see sdhc.states")
    state = listed[of.homes.block]
    chosen = np.flatnonzero(np.isin(state, known))
    place = np.full(len(state), -1)
    place[chosen] = np.arange(len(chosen))
    persons = of.people.rows
    household = linked_household(persons, of.homes.rows)
    at = np.where(household >= 0, place[household], -1)
    order = np.argsort(at, kind="stable")
    order = order[at[order] >= 0]
    levels = {name: level[order] for name, level in persons.levels().items()}
    people = _residents(at[order], levels)
    number = np.searchsorted(known, state[chosen]).astype(np.int8)
    names = numbers(of.homes.rows.household)[chosen]
    addresses = _addresses(names, of.cell[chosen], people, known, number)
    if area is not None:
        addresses = _in_counties(addresses, of, chosen, np.isin(listed, known))
    return SdhcRecords(addresses, people), of.sources


def _in_counties(
    addresses: Addresses, linked: LinkedTables, chosen: NDArray[np.int64], here: NDArray[np.bool_]
) -> Addresses:
    """With the county of each; ``here``: the blocks whose counties are tabulated."""
    county = np.strings.slice(linked.codes, 0, 5)
    area = county.astype(np.int32)[linked.homes.block][chosen]
    return replace(addresses, area=area, areas=tuple(text(np.unique(county[here])).tolist()))


def _residents(address: NDArray[np.int64], levels: Mapping[str, NDArray[np.int64]]) -> Residents:
    assert set(levels) == {a.name for a in DHCP.attributes}
    return Residents(
        address.astype(np.int32),
        np.full(len(address), 3, dtype=np.int8),
        levels["age"].astype(np.int8),
        _plus_one(levels["hispanic"]),
        _plus_one(levels["cenrace"]),
        _RELSHIP[levels["relgq"]],
    )


def numbers(households: CodedTexts) -> NDArray[np.int32]:
    """Of each row, from the name of its household alone. Two may be equal: nothing joins by them."""
    each = [crc32(name.encode()) >> 1 for name in households.values.to_pylist()]
    return np.array(each, dtype=np.int32)[households.index]


def _plus_one(level: NDArray[np.int64]) -> NDArray[np.int8]:
    return (level + 1).astype(np.int8)


def _addresses(
    number: NDArray[np.int32],
    cell: NDArray[np.int64],
    people: Residents,
    known: NDArray[np.int64],
    state: NDArray[np.int8],
) -> Addresses:
    """Addresses of the households of these cells; race and origin are those of the householder."""
    found = np.unravel_index(cell, DHCH.shape)
    of = {a.name: level for a, level in zip(DHCH.attributes, found, strict=True)}
    head = people.relship == 20
    race, hisp = np.zeros((2, len(cell)), dtype=np.int8)
    race[people.address[head]], hisp[people.address[head]] = people.race[head], people.hisp[head]
    kind, sex = of[ATTRIBUTE], of[SEX.name]
    return Addresses(
        tuple(f"{s:02d}" for s in known),
        number,
        state,
        np.full(len(cell), 2, dtype=np.int8),
        hisp,
        race,
        _plus_one(of[TENURE.name]),
        _HHT[sex, kind],
        _HHT2[sex, kind],
        _CPLT[kind],
    )


FILES = tuple(LAYOUTS)
#: Of family members, NPF counts the number.
FAMILY = np.isin(np.arange(39), [20, 21, 23, *range(25, 34)])
#: Types of household with own children under 18, and what their couples are.
OWN = np.isin(np.arange(13), [1, 3, 6, 10])
_COUPLE = np.array([0, 1, 1, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0])  # by HHT2: married, cohabiting
_PARTNERS = np.array([0, 1, 1, 2, 2, 0])  # by CPLT
_UNIT = ("RTYPE", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT")


def records(
    folder: Path, states: Iterable[str], *, strict: bool, area: str | None = None
) -> tuple[Confidential[SdhcRecords], tuple[Source, ...]]:
    """The records of a folder, PHSafe's or one of linked records, in some ``states`` (all, where
    none is named), and its files; with the kind of ``area`` that is tabulated.

    Raises:
        InputError: with all faults of a step, each with its file and line. Later steps are not
            taken then."""
    if not folder.is_dir():
        raise InputError("is no folder", where=folder, remedy=f"give one with {', '.join(FILES)}")
    if is_linked(folder):
        found, sources = linked_records(folder, states, area)
        return Confidential(found), sources
    faults = Faults()
    more: dict[str, dict[str, Values]] = {}
    if area is not None:
        column, digits = AREAS[area]
        more["geo.csv"] = {column: (0, 10**digits - 1)}
    every = [read(folder, name, faults, more.get(name)) for name in FILES]
    read_files = [lines for lines in every if lines is not None]
    refuse(faults, folder)
    persons, units, geo = read_files
    found = _joined(persons, units, geo, tuple(states), faults, strict=strict, area=area)
    refuse(faults, folder)
    return Confidential(found), tuple(source_of(folder / name) for name in FILES)


def _joined(
    persons: CsvLines,
    units: CsvLines,
    geo: CsvLines,
    states: tuple[str, ...],
    faults: Faults,
    *,
    strict: bool,
    area: str | None,
) -> SdhcRecords:
    if strict:
        _check_links(persons, units, geo, faults)
    if states:
        geo = geo.where(np.isin(geo["TABBLKST"], [int(s) for s in states]))
    geo = geo.where(np.argsort(geo["MAFID"], kind="stable"))
    units = units.where(_at(geo["MAFID"], units["MAFID"]) >= 0)
    units = units.where(np.argsort(units["MAFID"], kind="stable"))
    for lines in (geo, units):
        lines.note(faults, _again(lines["MAFID"]), "this address is there twice")
    known = tuple(f"{s:02d}" for s in np.unique(geo["TABBLKST"]))
    place = _at(geo["MAFID"], units["MAFID"])
    state = np.searchsorted(np.array([int(s) for s in known]), geo["TABBLKST"][place])
    tabulated = geo["RTYPE"][place] == 2
    persons, address = _settled(persons, units)
    _check_cells(persons, units, address, tabulated, faults)
    if strict:
        _check_households(persons, units, address, geo["RTYPE"][place], faults)
    if not known:
        where = f" in the states {', '.join(states)}" if states else ""
        faults.add("geo.csv", None, f"has no address{where}")
    inside = np.where(tabulated, state, -1).astype(np.int8)
    addresses = _record_addresses(known, units, inside, geo, place, area)
    person = (persons[n] for n in ("RTYPE", "QAGE", "CENHISP", "CENRACE", "RELSHIP"))
    return SdhcRecords(addresses, Residents(address.astype(np.int32), *person))


def _record_addresses(
    states: tuple[str, ...],
    units: CsvLines,
    state: NDArray[np.int8],
    geo: CsvLines,
    place: NDArray[np.int64],
    area: str | None,
) -> Addresses:
    """``place``: of each unit, its line of the geography."""
    out = Addresses(states, units["MAFID"], state, *(units[name] for name in _UNIT))
    if area is None:
        return out
    return replace(out, area=_areas(geo, area)[place], areas=_listed(geo, area))


def _areas(geo: CsvLines, area: str) -> NDArray[np.int32]:
    """Codes of areas as numbers: that of the state, and that in it."""
    column, digits = AREAS[area]
    return (geo["TABBLKST"].astype(np.int32) * 10**digits + geo[column]).astype(np.int32)


def _listed(geo: CsvLines, area: str) -> tuple[str, ...]:
    """Those of the list of addresses, which is public."""
    digits = 2 + AREAS[area][1]
    return tuple(f"{code:0{digits}d}" for code in np.unique(_areas(geo, area)[geo["RTYPE"] == 2]))


def _settled(persons: CsvLines, units: CsvLines) -> tuple[CsvLines, NDArray[np.int64]]:
    """Those who live in one of the sorted units, in the order of these, and the places of theirs."""
    address = _at(units["MAFID"], persons["MAFID"])
    persons, address = persons.where(address >= 0), address[address >= 0]
    if (np.diff(address) < 0).any():
        order = np.argsort(address, kind="stable")
        persons, address = persons.where(order), address[order]
    return persons, address


def _at(known: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where each number is among the sorted ``known``, or -1."""
    if not len(known):
        return np.full(len(wanted), -1)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, place, -1)


def _again(mafid: NDArray[np.int32]) -> NDArray[np.bool_]:
    return np.concatenate([[False], mafid[1:] == mafid[:-1]])[: len(mafid)]


def _check_links(persons: CsvLines, units: CsvLines, geo: CsvLines, faults: Faults) -> None:
    """An address is in units and in the geography; a person has one."""
    for lines, others, where in (
        (persons, units, "units.csv"),
        (units, geo, "geo.csv"),
        (geo, units, "units.csv"),
    ):
        lost = _at(np.sort(others["MAFID"]), lines["MAFID"]) < 0
        lines.note(faults, lost, f"{where} does not have this address")


def _check_cells(
    persons: CsvLines,
    units: CsvLines,
    address: NDArray[np.int64],
    tabulated: NDArray[np.bool_],
    faults: Faults,
) -> None:
    """Every person who is tabulated is in a cell of every table that counts everybody."""
    home = (persons["RTYPE"] == 3) & tabulated[address]
    hht2, cplt = units["HHT2"][address], units["CPLT"][address]
    persons.note(faults, home & (hht2 == 0), "lives in a household, and HHT2 of its unit is 00")
    persons.note(
        faults,
        home & (_COUPLE[hht2] > 0) & (_PARTNERS[cplt] != _COUPLE[hht2]),
        "HHT2 of the unit is that of a couple, and CPLT is not of such a couple",
    )
    persons.note(
        faults,
        home & (units["TEN"][address] == 0),
        "lives in a household, and TEN of its unit is 0",
    )
    own = home & (persons["QAGE"] < 18) & np.isin(persons["RELSHIP"], [25, 26, 27])
    persons.note(
        faults,
        own & ~OWN[hht2],
        "is an own child under 18, and HHT2 of the unit says that there is none",
    )


def _check_households(
    persons: CsvLines,
    units: CsvLines,
    address: NDArray[np.int64],
    geo_rtype: NDArray[np.int8],
    faults: Faults,
) -> None:
    """Check that the unit records match their persons."""
    many, home = len(units), units["RTYPE"] == 2
    units.note(faults, units["RTYPE"] != geo_rtype, "RTYPE is another in geo.csv")
    persons.note(
        faults, persons["RTYPE"] != np.where(home, 3, 5)[address], "RTYPE does not fit its unit's"
    )
    quartered = persons["RELSHIP"] > 36
    persons.note(
        faults, quartered != (persons["RTYPE"] == 5), "RELSHIP does not fit RTYPE (37 and 38: 5)"
    )

    def count(which: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(address[which], minlength=many)

    size, heads = count(persons["RTYPE"] == 3), count(persons["RELSHIP"] == 20)
    lived = size > 0
    units.note(faults, home & lived & (heads == 0), "has no householder")
    units.note(faults, heads > 1, "has more than one householder")
    units.note(
        faults, home & (units["FINAL_POP"] != size), "FINAL_POP is not the number of persons"
    )
    for name in ("TEN", "HHT", "HHT2", "HHRACE", "HHSPAN"):
        wrong = home & ((units[name] > 0) != lived)
        units.note(faults, wrong, f"{name} is 0 if nobody lives there, and only then")
    _check_family(persons, units, address, count, faults)


def _check_family(
    persons: CsvLines,
    units: CsvLines,
    address: NDArray[np.int64],
    count: Callable[[NDArray[np.bool_]], NDArray[np.int64]],
    faults: Faults,
) -> None:
    """The householder, the family and its children. ``count``: of some persons, by unit."""
    home = units["RTYPE"] == 2
    own = count((persons["QAGE"] < 18) & np.isin(persons["RELSHIP"], [25, 26, 27]))
    units.note(
        faults, home & OWN[units["HHT2"]] & (own == 0), "HHT2 says own children: there are none"
    )
    family = count(FAMILY[persons["RELSHIP"]])
    units.note(
        faults,
        home & (units["NPF"] != np.where(family > 1, family, 0)),
        "NPF is not the number of family members",
    )
    units.note(
        faults,
        home & ((units["HHT"] == 1) != (_COUPLE[units["HHT2"]] == 1)),
        "HHT and HHT2 disagree on whether it is a married couple",
    )
    head = persons["RELSHIP"] == 20
    for of_unit, of_person in (("HHRACE", "CENRACE"), ("HHSPAN", "CENHISP")):
        wrong = head & home[address] & (units[of_unit][address] != persons[of_person])
        persons.note(faults, wrong, f"is the householder, and {of_unit} of the unit is another")
