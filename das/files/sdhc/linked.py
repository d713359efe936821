"""Linked records of the DHC (:mod:`das.files.readers.linked`) as records of the S-DHC: every household
is an address. Nobody in group quarters is in a table, so they are left out.

The order of the persons of an address depends on its number (:mod:`das.truth.sdhc_counts`). So the
number follows from the household's own name: a household more or less leaves all others as they
are. The states are those of the list of blocks, which is public."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.readers import linked
from das.files.readers.coded import CodedTexts
from das.files.readers.linked import LinkedTables
from das.files.readers.links import linked_household
from das.model.codes import text
from das.model.dhc.household_types import ATTRIBUTE, COUPLES, TYPES
from das.model.dhc.households import DHCH, SEX, TENURE
from das.model.dhc.microdata import hht, hht2
from das.model.dhc.persons import DHCP, RELATIONSHIPS
from das.model.sdhc.records import Addresses, Residents, SdhcRecords
from das.model.source import Source

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


def records(
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
    addresses: Addresses, of: LinkedTables, chosen: NDArray[np.int64], here: NDArray[np.bool_]
) -> Addresses:
    """With the county of each; ``here``: the blocks whose counties are tabulated."""
    county = np.strings.slice(of.codes, 0, 5)
    area = county.astype(np.int32)[of.homes.block][chosen]
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
