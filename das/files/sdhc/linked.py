"""Linked records of the DHC (:mod:`das.files.readers.linked`) as records of the S-DHC: every household
is an address. Nobody in group quarters is in a table, so they are left out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.readers import linked
from das.files.readers.links import linked_household
from das.model.dhc.household_types import ATTRIBUTE, COUPLES, TYPES
from das.model.dhc.households import DHCH, SEX, TENURE
from das.model.dhc.microdata import hht, hht2
from das.model.dhc.persons import DHCP, RELATIONSHIPS
from das.model.sdhc.records import Addresses, Residents, SdhcRecords
from das.model.source import Source

_FIRST = 100_000_001
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


def records(folder: Path, states: Iterable[str]) -> tuple[SdhcRecords, tuple[Source, ...]]:
    """The households of some ``states`` (all, where none is named), and the files that they are
    from. Raises :class:`InputError` as the reader of linked records, and where no address is in
    these states."""
    of = linked.tables(folder)
    state = np.strings.slice(of.codes, 0, 2)[of.homes.block].astype(np.int64)
    wanted = [int(s) for s in states] or np.unique(state).tolist()
    chosen = np.flatnonzero(np.isin(state, wanted))
    known = np.unique(state[chosen])
    if not len(known):
        raise InputError("has no household in these states", where=folder, remedy="see sdhc.states")
    place = np.full(len(state), -1)
    place[chosen] = np.arange(len(chosen))
    persons = of.people.rows
    household = linked_household(persons, of.homes.rows)
    at = np.where(household >= 0, place[household], -1)
    order = np.argsort(at, kind="stable")
    order = order[at[order] >= 0]
    levels = {name: level[order] for name, level in persons.levels().items()}
    people = Residents(
        at[order].astype(np.int32),
        np.full(len(order), 3, dtype=np.int8),
        levels["age"].astype(np.int8),
        _plus_one(levels["hispanic"]),
        _plus_one(levels["cenrace"]),
        _RELSHIP[levels["relgq"]],
    )
    assert set(levels) == {a.name for a in DHCP.attributes}
    number = np.searchsorted(known, state[chosen]).astype(np.int8)
    return SdhcRecords(_addresses(of.cell[chosen], people, known, number), people), of.sources


def _plus_one(level: NDArray[np.int64]) -> NDArray[np.int8]:
    return (level + 1).astype(np.int8)


def _addresses(
    cell: NDArray[np.int64], people: Residents, known: NDArray[np.int64], state: NDArray[np.int8]
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
        (_FIRST + np.arange(len(cell))).astype(np.int32),
        state,
        np.full(len(cell), 2, dtype=np.int8),
        hisp,
        race,
        _plus_one(of[TENURE.name]),
        _HHT[sex, kind],
        _HHT2[sex, kind],
        _CPLT[kind],
    )
