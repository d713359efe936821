"""The geographic header of simulated 2010 files: which rows there are, and their 500 characters.

Every summary level that the official files have for redistricting is there: state, county
subdivision, block (750 in P.L. 94-171, 101 in Summary File 1), block group, tract, county, place,
and congressional and state legislative districts.

Sources: 2010 Census Redistricting Data (P.L. 94-171) Summary File, chapters 2 and 6; Summary File
1, chapter 6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from das.errors import InputError
from das.files.readers import pl94_2010
from das.files.readers.source import letters, points
from das.files.simulators.people import Floats, Ints, SimulatedBlocks
from das.model.names import REGION_OF_DIVISION, STATES, State

Bytes = NDArray[np.uint8]

#: Fields of the geographic header that are written, besides those that the reader reads: first
#: column (from 1) and width.
_ALSO = {
    "CHARITER": (14, 3),
    "REGION": (26, 1),
    "DIVISION": (27, 1),
    "COUNTYCC": (33, 2),
    "COUSUBCC": (42, 2),
    "PLACECC": (51, 2),
    "CONCIT": (68, 5),
    "CONCITCC": (73, 2),
    "AIANHHFP": (81, 5),
    "AIANHHCC": (86, 2),
    "AIHHTLI": (88, 1),
    "AITSCE": (89, 3),
    "AITS": (92, 5),
    "AITSCC": (97, 2),
    "TTRACT": (99, 6),
    "TBLKGRP": (105, 1),
    "ANRC": (106, 5),
    "ANRCCC": (111, 2),
    "AREALAND": (199, 14),
    "AREAWATR": (213, 14),
    "FUNCSTAT": (317, 1),
    "INTPTLAT": (337, 11),
    "INTPTLON": (348, 12),
    "LSADC": (360, 2),
}
FIELDS = pl94_2010.COLUMNS | {"NAME": pl94_2010.NAME} | _ALSO
#: What does not apply to a block, filled with nines; the other header fields stay blank.
_NINES = ("CONCIT", "CONCITCC", "AITSCE", "AITS", "AITSCC", "TTRACT", "TBLKGRP", "ANRC", "ANRCCC")
_BLOCKS_ONLY = " ".join((*_NINES, "AIANHH", "AIANHHFP", "AIANHHCC", "AIHHTLI"))
_DISTRICT_OF = {"C2": "CD", "LU": "SLDU", "LL": "SLDL"}


@dataclass(frozen=True, eq=False)
class SummaryLevel:
    """A summary level: the first block of each unit, the codes that its rows carry, and how they
    are named."""

    sumlev: str
    first: Ints
    fields: frozenset[str]
    name: str
    lsad: str


def levels(
    at: SimulatedBlocks, state: State, block_level: str
) -> Iterator[tuple[SummaryLevel, Ints]]:
    """Each level that has units, and the block where each run of blocks of one unit starts (with
    the runs outside any place)."""
    block = np.arange(len(at))
    table = (
        ("040", np.zeros(len(at), dtype=np.int64), "STATE", f"{state.name} (simulated)", "00"),
        ("060", at.cousub, "STATE COUNTY COUNTYCC COUSUB COUSUBCC", "Simulated town ", "43"),
        (
            block_level,
            block,
            (
                "STATE COUNTY COUNTYCC COUSUB COUSUBCC PLACE PLACECC TRACT BLKGRP BLOCK CD SLDU"
                f" SLDL VTD {_BLOCKS_ONLY}"
            ),
            "Block ",
            "BK",
        ),
        ("150", at.group, "STATE COUNTY COUNTYCC TRACT BLKGRP", "Block Group ", "BG"),
        ("140", at.tract, "STATE COUNTY COUNTYCC TRACT", "Census Tract ", "CT"),
        ("050", at.county, "STATE COUNTY COUNTYCC", "Simulated County ", "06"),
        ("160", at.place, "STATE PLACE PLACECC", "Simulated city ", "25"),
        ("500", at.district("CD", block), "STATE CD", "Simulated Congressional District ", "C2"),
        ("610", at.district("SLDU", block), "STATE SLDU", "Simulated Senate District ", "LU"),
        ("620", at.district("SLDL", block), "STATE SLDL", "Simulated House District ", "LL"),
        ("700", at.vtd, "STATE COUNTY COUNTYCC VTD", "Simulated Voting District ", "VD"),
    )
    for sumlev, unit, fields, name, lsad in table:
        start = np.flatnonzero(np.diff(unit, prepend=-2))
        first = start[unit[start] >= 0]
        if len(first):
            yield SummaryLevel(sumlev, first, frozenset(fields.split()), name, lsad), start


def names(level: SummaryLevel, at: SimulatedBlocks) -> NDArray[np.str_]:
    """The text of NAME: a word for the kind of unit, and its number."""
    first = level.first
    tract = at.tract_code[first]
    suffix = np.where(tract % 100, np.char.add(".", zeros(tract % 100, 2)), "")
    number: dict[str, NDArray[np.str_]] = {
        "00": np.array([""]),
        "43": (at.cousub[first] + 1).astype(str),
        "BK": zeros(at.block_code[first], 4),
        "BG": at.group_digit[first].astype(str),
        "CT": np.char.add((tract // 100).astype(str), suffix),
        "06": (at.county[first] + 1).astype(str),
        "25": (at.place[first] + 1).astype(str),
        "VD": at.vtd_code[first].astype(str),
        **{lsad: (at.district(kind, first) + 1).astype(str) for lsad, kind in _DISTRICT_OF.items()},
    }
    return np.char.add(level.name, number[level.lsad])


def zeros(values: Ints, width: int) -> NDArray[np.str_]:
    """Numbers padded with zeros on the left."""
    return letters(
        (ord("0") + values[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10).astype(np.uint8)
    )


def _spaces(values: Ints, width: int) -> NDArray[np.str_]:
    return np.char.rjust(values.astype(str), width)


def _degrees(whole: str, ten_millionths: Ints) -> NDArray[np.str_]:
    """A coordinate: sign and whole degrees, then seven decimals."""
    return np.char.add(whole, zeros(ten_millionths % 10**7, 7))


def characters(text: NDArray[np.str_] | str, width: int) -> Bytes:
    """Rows of characters, padded with blanks on the right: ``(rows, width)``, one row for a plain
    string."""
    padded = points(np.atleast_1d(np.asarray(text)).astype(f"U{width}")).astype(np.uint8)
    return np.where(padded == 0, np.uint8(ord(" ")), padded)


def codes_of(
    state: State, at: SimulatedBlocks, level: SummaryLevel
) -> dict[str, NDArray[np.str_] | str]:
    """The geographic codes that the rows of a level carry; a block's also say what does not apply
    to it."""
    first = level.first
    place, aian = at.place[first], at.aian_code[first]
    codes: dict[str, NDArray[np.str_] | str] = {
        "STATE": state.fips,
        "COUNTY": zeros(at.county_code[first], 3),
        "COUNTYCC": "H1",
        "COUSUB": zeros(10005 + 20 * at.cousub[first], 5),
        "COUSUBCC": "T1",
        "PLACE": np.where(place < 0, "99999", zeros(30000 + 25 * place, 5)),
        "PLACECC": np.where(place < 0, "99", "C1"),
        "TRACT": zeros(at.tract_code[first], 6),
        "BLKGRP": zeros(at.group_digit[first], 1),
        "BLOCK": zeros(at.block_code[first], 4),
        "AIANHH": zeros(aian, 4),
        "AIANHHFP": np.where(aian == 9999, "99999", zeros(60000 + aian, 5)),
        "AIANHHCC": np.where(aian == 9999, "99", "D2"),
        "AIHHTLI": np.where(aian == 9999, "9", "R"),
    }
    if at.vtd[0] >= 0:
        codes["VTD"] = zeros(at.vtd_code[first], 6)
    for kind in at.seats:
        width, number = FIELDS[kind][1], at.district(kind, first) + 1
        codes[kind] = zeros(number, width) if at.seats[kind] else "Z" * width
    codes |= {field: "9" * FIELDS[field][1] for field in _NINES}
    return {field: text for field, text in codes.items() if field in level.fields}


def fields_of(
    state: State, at: SimulatedBlocks, level: SummaryLevel
) -> dict[str, NDArray[np.str_] | str]:
    """What the rows of a level have in the headers of any year, codes among it."""
    first = level.first
    return codes_of(state, at, level) | {
        "STUSAB": state.usps,
        "SUMLEV": level.sumlev,
        "GEOCOMP": "00",
        "CHARITER": "000",
        "REGION": str(REGION_OF_DIVISION[state.division]),
        "DIVISION": str(state.division),
        "NAME": names(level, at),
        "FUNCSTAT": "A" if level.lsad == "00" else "S",
        "INTPTLAT": _degrees(
            f"+{30 + int(state.fips) // 5}.", 15_000 * at.group[first] + 7 * first
        ),
        "INTPTLON": _degrees(f"-{70 + int(state.fips):03d}.", 21_000 * at.tract[first] + 5 * first),
        "LSADC": level.lsad,
    }


def header_rows(
    state: State, at: SimulatedBlocks, level: SummaryLevel, counts: Ints, area: Ints, file_id: str
) -> Bytes:
    """Rows of the geographic header, ``(rows, 501)`` characters, without their LOGRECNO.

    ``counts`` ``(rows, 2)``: persons and housing units; ``area`` ``(rows, 2)``: land and water,
    square meters."""
    fields = fields_of(state, at, level) | {
        "FILEID": file_id,
        "AREALAND": _spaces(area[:, 0], 14),
        "AREAWATR": _spaces(area[:, 1], 14),
        "POP100": _spaces(counts[:, 0], 9),
        "HU100": _spaces(counts[:, 1], 9),
    }
    out = np.full((len(level.first), 501), ord(" "), dtype=np.uint8)
    out[:, 500] = ord("\n")
    for field, text in fields.items():
        start, width = FIELDS[field]
        out[:, start - 1 : start - 1 + width] = characters(text, width)
    return out


# The public totals that a simulated nation follows: how many units each state has, and who lives
# in each county.
#
# They come with the package (``states_2020.csv``, ``counties_2020.csv``, whose first lines name their
# sources). A state can be made smaller: of everything the share that is asked for, of counties the
# largest ones that have two tracts each.

#: Columns of ``counties_2020.csv``: the six races, each alone.
RACES = ["white", "black", "aian", "asian", "nhpi", "other"]
#: In a state, however small the share.
LEAST = {"tracts": 2, "block_groups": 4, "blocks": 60}
LEAST_PERSONS = 600


@dataclass(frozen=True, eq=False)
class StateTotals:
    """What a simulated state has. Arrays are ``(counties,)``, in the order of ``county``, the codes
    of the counties as numbers; ``races`` ``(counties, 6)`` persons of each race alone. ``seats``:
    districts of each kind."""

    state: State
    tracts: int
    groups: int
    blocks: int
    seats: Mapping[str, int]
    county: Ints
    persons: Ints
    adults: Ints
    hispanic: Ints
    races: Ints
    quarters: Ints
    units: Ints
    occupied: Ints


def share_out(
    total: int, weight: Floats | Ints, least: Ints | int = 0, most: Ints | int | None = None
) -> Ints:
    """``total`` things in proportion to ``weight``, by largest remainders, from ``least`` to
    ``most`` to each.

    ``total`` is between the sums of both, or ends there.

    >>> share_out(10, np.array([5.0, 3.0, 2.0, 0.0]), least=1)
    array([4, 3, 2, 1])"""
    out = np.zeros(len(weight), dtype=np.int64) + least
    limit = (
        np.full(len(weight), np.iinfo(np.int64).max)
        if most is None
        else np.zeros(len(weight), dtype=np.int64) + most
    )
    while (left := total - int(out.sum())) > 0:
        open_ = np.where(out < limit, weight, 0.0)
        if not open_.any():
            open_ = (out < limit).astype(float)
        if not open_.any():
            break
        part = open_ / open_.sum() * left
        whole = np.minimum(np.floor(part).astype(np.int64), limit - out)
        short = left - int(whole.sum())
        next_ = np.argsort(whole - part, kind="stable")[:short]
        whole[next_] += (out + whole < limit)[next_] & (open_[next_] > 0)
        out += whole
    return out


@cache
def _tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The packaged tables: states by postal abbreviation, counties by number."""
    here = Path(__file__).parent
    states = pd.read_csv(here / "states_2020.csv", comment="#").set_index("usps")
    return states, pd.read_csv(here / "counties_2020.csv", comment="#")


def chosen(states: Sequence[str] | None) -> list[State]:
    """The states asked for, in the order of their FIPS codes; all where none are. Raises
    :class:`InputError` for a code of none."""
    known = {s.usps: s for s in STATES if s.division}
    if wrong := [s for s in states or () if s not in known]:
        raise InputError(
            f"{wrong[0]!r} is no state",
            where="--states",
            remedy="give postal abbreviations of the 50 states and DC, as RI,TX",
        )
    return [s for usps, s in known.items() if not states or usps in states]


def totals(state: State, share: float = 1.0) -> StateTotals:
    """The totals of a state, or of the share of it that is to be simulated.

    Raises :class:`InputError` unless 0 < ``share`` <= 1."""
    if not 0 < share <= 1:
        raise InputError(
            f"a share of {share}", where="--share", remedy="give more than 0, and at most 1"
        )
    states, counties = _tables()
    row = states.loc[state.usps]
    tracts, groups, blocks = (max(n, round(share * int(row[name]))) for name, n in LEAST.items())
    here = counties[counties["county"] // 1000 == int(state.fips)]
    kept = np.sort(np.argsort(-here["persons"].to_numpy(), kind="stable")[: max(1, tracts // 2)])
    at = {name: here[name].to_numpy()[kept] for name in here.columns}
    whole = at["persons"]
    scale = max(LEAST_PERSONS, round(share * int(here["persons"].sum()))) / int(whole.sum())
    persons = share_out(round(scale * int(whole.sum())), whole, least=1)
    part = {
        name: np.round(count * (persons / whole)).astype(np.int64)
        for name, count in at.items()
        if name != "county"
    }
    all_units, all_occupied = (
        max(1, round(share * int(here[name].sum()))) for name in ("units", "occupied")
    )
    units = share_out(all_units, at["units"], least=1)
    occupied = share_out(all_occupied, at["occupied"], most=units)
    seats = {"CD": "districts", "SLDU": "upper", "SLDL": "lower"}
    return StateTotals(
        state,
        tracts,
        groups,
        blocks,
        {kind: ceil(share * int(row[name])) for kind, name in seats.items()},
        at["county"] % 1000,
        persons,
        part["adults"],
        part["hispanic"],
        np.stack([part[r] for r in RACES], axis=1),
        np.minimum(part["quarters"], persons - 1),
        units,
        occupied,
    )
