"""Simulated 2010 redistricting extracts, in exactly the official file formats.

One zip a state, with the geographic header, both data segments and the packing list of the 2010 P.L. 94-171
files, and on request a Summary File 1 zip with group quarters by type (P42). Nobody in them is real; their
shape is: skewed sizes at each level, a third of the blocks empty, water, group quarters alone in a block,
segregation by county, tract and block, and combinations of up to six races.

A state is drawn as places first, then people one by one: each draw is a uniform number looked up in a
cumulative distribution, so that files depend on the seed alone and not on how a library samples a binomial.

Sources: 2010 Census Redistricting Data (P.L. 94-171) Summary File, chapters 2 and 6; Summary File 1, chapter 6.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from das.errors import InputError
from das.files.fetch import REGION_OF_DIVISION, STATES, State
from das.files.source import letters, points

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

PERSONS_PER_BLOCK = 42  #: over all blocks, empty ones too, as in Rhode Island
MINIMUM = 1_000  #: persons in a state: enough for every feature to occur

_COMBINATIONS = [c for n in range(1, 7) for c in combinations(range(6), n)]
_MEMBER = np.array([[r in c for c in _COMBINATIONS] for r in range(6)], dtype=float)
_RACES = _MEMBER.sum(axis=0).astype(np.int64)
#: White, Black, AIAN, Asian, NHPI, Some Other Race alone: national shares of 2010.
_SHARE = np.array([0.724, 0.126, 0.009, 0.048, 0.002, 0.062])
#: How common a combination of n races is, against the geometric mean of its races' shares.
_MIXING = np.array([0, 1, 0.022, 0.0012, 0.0003, 0.0003, 0.0005])
_HISPANIC_FACTOR = np.array([1.0, 0.25, 1.4, 0.2, 0.8, 6.0])
#: Share of adults by kind of dwelling, in the order of the hhgq attribute; nobody under 18 in nursing homes.
_ADULTS = np.array([0.77, 1.0, 0.05, 1.0, 0.6, 0.985, 1.0, 0.9])
_FACILITY_SIZE = np.array([0, 4.0, 0.5, 1.2, 0.6, 5.0, 2.5, 0.8])


# --- random numbers ----------------------------------------------------------------------------------


def generator(*key: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))


def skewed(rng: np.random.Generator, size: int | tuple[int, ...], sigma: float) -> Floats:
    """Log-normal weights, by Box and Muller from uniform numbers."""
    u, v = rng.random(size), rng.random(size)
    return np.exp(sigma * np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v))


def choose(rng: np.random.Generator, weights: Floats, size: int) -> Ints:
    """``size`` draws from the categories ``0..len(weights)-1``."""
    cdf = np.cumsum(weights)
    return np.minimum(np.searchsorted(cdf, rng.random(size) * cdf[-1], side="right"), len(cdf) - 1).astype(np.int64)


def spread(rng: np.random.Generator, total: int, weights: Floats) -> Ints:
    """``total`` things over the categories, at least one in each."""
    rest = choose(rng, weights, max(0, total - len(weights)))
    return 1 + np.bincount(rest, minlength=len(weights)).astype(np.int64)


def choose_by_row(rng: np.random.Generator, weights: Floats, row: Ints) -> Ints:
    """One draw from row ``row[i]`` of ``weights`` for each ``i``."""
    rows, width = weights.shape
    cdf = np.cumsum(weights, axis=1)
    flat = (cdf / cdf[:, -1:] + np.arange(rows)[:, None]).ravel()
    found = np.searchsorted(flat, row + rng.random(len(row)), side="right") - row * width
    return np.clip(found, 0, width - 1).astype(np.int64)


def within(counts: Ints) -> Ints:
    """0, 1, 2, ... in each group, for groups of the given sizes."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


# --- places ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """The blocks of a state in order of their code; arrays of shape ``(blocks,)``.

    ``county``, ``cousub``, ``tract``, ``group`` and ``place`` (-1: none) number the unit that a block lies
    in; the ``*_code`` arrays hold official-looking numbers.
    """

    county: Ints
    cousub: Ints
    tract: Ints
    group: Ints
    place: Ints
    tract_code: Ints
    group_digit: Ints
    block_code: Ints
    aian_code: Ints
    water: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.county)


def _places(rng: np.random.Generator, blocks: int, reservations: int) -> Places:
    groups = max(6, round(blocks / np.clip(blocks**0.5 / 4, 5, 31)))
    counties = max(2, min(150, round((groups / 2.6) ** 0.5)))
    tracts = spread(rng, max(counties, round(groups / 2.6)), skewed(rng, counties, 0.9))
    number, wet = within(tracts), np.arange(0, counties, 2)
    t_county = np.concatenate([np.repeat(np.arange(counties), tracts), wet])
    t_code = np.concatenate([100 * (number + 1) + 2 * (number % 5 == 4), np.full(len(wet), 990000)])
    t_groups = 1 + choose(rng, np.array([0.12, 0.3, 0.3, 0.18, 0.07, 0.03]), len(t_code))
    order = np.lexsort((t_code, t_county))
    t_county, t_code = t_county[order], t_code[order]
    t_groups[t_code == 990000] = 1

    g_tract = np.repeat(np.arange(len(t_code)), t_groups)
    g_water = t_code[g_tract] == 990000
    g_digit = np.where(g_water, 0, within(t_groups) + 1)
    g_blocks = np.ones(len(g_tract), dtype=np.int64)
    g_blocks[~g_water] = np.minimum(spread(rng, blocks, skewed(rng, int((~g_water).sum()), 0.6)), 998)
    g_blocks[g_water] += choose(rng, np.ones(3), int(g_water.sum()))
    g_county = t_county[g_tract]
    size = np.bincount(g_county)
    parts = 1 + choose(rng, np.ones(4), counties)
    g_cousub = 4 * g_county + within(size) * parts[g_county] // size[g_county]

    group = np.repeat(np.arange(len(g_tract)), g_blocks)
    tract = g_tract[group]
    n = len(group)
    return Places(
        t_county[tract], g_cousub[group], tract, group, _runs(rng, n), t_code[tract], g_digit[group],
        1000 * g_digit[group] + within(g_blocks) + (g_digit[group] == 0),
        _reservations(rng, n, reservations), g_water[group] | (rng.random(n) < 0.055),
    )  # fmt: skip


def _runs(rng: np.random.Generator, n: int) -> Ints:
    """Places: runs of blocks that heed no tract or block group; about two thirds of the blocks."""
    mean = max(25, n // 500)
    ends = np.cumsum(1 + (-mean * np.log1p(-rng.random(20 + 2 * n // mean))).astype(np.int64))
    run = np.searchsorted(ends, np.arange(n), side="right")
    inside = rng.random(len(ends) + 1) < 0.65
    inside[0] = True
    return np.where(inside[run], run, -1)


def _reservations(rng: np.random.Generator, n: int, areas: int) -> Ints:
    code = np.full(n, 9999)
    for area, start in enumerate((rng.random(areas) * n * 0.95).astype(np.int64)):
        code[start : start + max(3, n // 60)] = 10 + 5 * area
    return code


# --- people ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Population:
    """What is counted in each block: ``counts`` ``(blocks, 2, 2, 63)`` persons by voting age, Hispanic and
    race; ``quarters`` ``(blocks, 8)`` by dwelling; ``homes`` ``(blocks, 2)`` occupied and vacant units."""

    counts: Ints
    quarters: Ints
    homes: Ints


def _population(rng: np.random.Generator, at: Places, persons: int) -> Population:
    lived_in, quiet, facility = _uses(rng, at)
    kind = 1 + within(np.array([len(facility)])) % 7
    inmates = np.zeros(len(at), dtype=np.int64)
    inmates[facility] = spread(rng, round(0.028 * persons), skewed(rng, len(facility), 0.9) * _FACILITY_SIZE[kind])
    weight = (
        skewed(rng, at.county.max() + 1, 0.6)[at.county] * skewed(rng, at.tract.max() + 1, 0.4)[at.tract]
        * skewed(rng, at.group.max() + 1, 0.3)[at.group] * skewed(rng, len(at), 1.0) * lived_in
    )  # fmt: skip
    housed = choose(rng, weight, persons - int(inmates.sum()))
    dwelling = np.zeros(len(at), dtype=np.int64)
    dwelling[facility] = kind
    block = np.concatenate([housed, np.repeat(np.arange(len(at)), inmates)])
    hhgq = np.concatenate([np.zeros(len(housed), dtype=np.int64), np.repeat(dwelling, inmates)])

    race = choose_by_row(rng, _mixture(rng, at), block)
    race[:2] = 62, 57  # the rarest combinations occur in every state
    hispanic = rng.random(len(block)) < _hispanic_rate(rng, at)[block] * _hispanic_factor()[race]
    adult_rate = np.where(hhgq == 0, _ADULTS[0] - 0.11 * hispanic - 0.2 * (race > 5), _ADULTS[hhgq])
    adult = rng.random(len(block)) < adult_rate
    cell = ((block * 2 + adult) * 2 + hispanic) * 63 + race
    counts = np.bincount(cell, minlength=252 * len(at)).reshape(len(at), 2, 2, 63)
    quarters = np.bincount(block * 8 + hhgq, minlength=8 * len(at)).reshape(len(at), 8)
    return Population(counts, quarters, _homes(rng, housed, quarters[:, 0], quiet))


def _uses(rng: np.random.Generator, at: Places) -> tuple[NDArray[np.bool_], Ints, Ints]:
    """Which blocks have households; which are empty land; which hold group quarters (some of them alone)."""
    land = np.flatnonzero(~at.water)
    shuffled = land[np.argsort(rng.random(len(land)), kind="stable")]
    n = len(land)
    alone, mixed = max(2, n // 250), max(6, n // 80)
    empty = alone + max(2, int((0.24 + 0.1 * rng.random()) * n))
    lived_in = ~at.water
    lived_in[shuffled[:empty]] = False
    facility = np.sort(np.concatenate([shuffled[:alone], shuffled[empty : empty + mixed]]))
    return lived_in, shuffled[alone:empty], facility


def _mixture(rng: np.random.Generator, at: Places) -> Floats:
    """Weights of the 63 race combinations in each block, ``(blocks, 63)``: logistic normal at three levels."""
    share = np.tile(_SHARE, (len(at), 1))
    for unit, sigma in ((at.county, 0.7), (at.tract, 0.8), (np.arange(len(at)), 0.5)):
        share *= skewed(rng, (int(unit.max()) + 1, 6), sigma)[unit]
    share[at.aian_code != 9999, 2] *= 60
    return np.exp(np.log(share) @ (_MEMBER / _RACES)) * _MIXING[_RACES]


def _hispanic_rate(rng: np.random.Generator, at: Places) -> Floats:
    county = 0.03 + 0.4 * rng.random(int(at.county.max()) + 1) ** 3
    return np.minimum(county[at.county] * skewed(rng, int(at.tract.max()) + 1, 0.4)[at.tract], 0.9)


def _hispanic_factor() -> Floats:
    return (_HISPANIC_FACTOR @ _MEMBER) / _RACES


def _homes(rng: np.random.Generator, housed: Ints, residents: Ints, quiet: Ints) -> Ints:
    """Occupied and vacant housing units: 2.6 persons a household, a tenth vacant, some seasonal homes."""
    heads = np.bincount(housed[rng.random(len(housed)) < 0.385], minlength=len(residents))
    occupied = np.where(residents > 0, np.maximum(heads, 1), 0)
    vacant = (occupied * 0.2 * rng.random(len(residents)) + (occupied > 0) * rng.random(len(residents))).astype(
        np.int64
    )
    vacant[quiet] = np.maximum(0, (rng.random(len(quiet)) * 24).astype(np.int64) - 20)
    return np.stack([occupied, vacant], axis=1)


# --- tables ------------------------------------------------------------------------------------------


def _race_table() -> Floats:
    """The 63 combinations -> the 71 cells of table P1: total, then a subtotal before each number of races."""
    columns = [np.ones(63), _RACES == 1, *np.eye(63)[:6], _RACES >= 2]
    for n in range(2, 7):
        columns += [n == _RACES, *np.eye(63)[n == _RACES]]
    return np.stack(columns, axis=1).astype(float)


def _tables(people: Population) -> Ints:
    """P1, P2, P3, P4 and H1 of each block, ``(blocks, 71 + 73 + 71 + 73 + 3)``."""
    by_race = _race_table()
    blocks = []
    for part in np.array_split(np.arange(len(people.homes)), 1 + len(people.homes) // 20_000):
        counts = people.counts[part].astype(float)
        columns = []
        for universe in (counts.sum(axis=1), counts[:, 1]):
            everyone = universe.sum(axis=1)
            columns += [everyone @ by_race, everyone.sum(axis=1, keepdims=True)]
            columns += [universe[:, 1].sum(axis=1, keepdims=True), universe[:, 0] @ by_race]
        blocks.append(np.concatenate(columns, axis=1).astype(np.int64))
    homes = people.homes
    return np.concatenate([np.concatenate(blocks), homes.sum(axis=1, keepdims=True), homes], axis=1)


def _group_quarters(people: Population) -> Ints:
    """SF1 table P42 of each block, ``(blocks, 10)``."""
    q = people.quarters
    institutional, other = q[:, 1:5], q[:, 5:8]
    sums = [part.sum(axis=1, keepdims=True) for part in (q[:, 1:], institutional, other)]
    return np.concatenate([sums[0], sums[1], institutional, sums[2], other], axis=1)


# --- files -------------------------------------------------------------------------------------------

#: Fields of the geographic header: first column (from 1) and width.
_HEADER = {
    "FILEID": (1, 6), "STUSAB": (7, 2), "SUMLEV": (9, 3), "GEOCOMP": (12, 2), "CHARITER": (14, 3),
    "LOGRECNO": (19, 7), "REGION": (26, 1), "DIVISION": (27, 1), "STATE": (28, 2), "COUNTY": (30, 3),
    "COUNTYCC": (33, 2), "COUSUB": (37, 5), "COUSUBCC": (42, 2), "PLACE": (46, 5), "PLACECC": (51, 2),
    "TRACT": (55, 6), "BLKGRP": (61, 1), "BLOCK": (62, 4), "CONCIT": (68, 5), "CONCITCC": (73, 2),
    "AIANHH": (77, 4), "AIANHHFP": (81, 5), "AIANHHCC": (86, 2), "AIHHTLI": (88, 1), "AITSCE": (89, 3),
    "AITS": (92, 5), "AITSCC": (97, 2), "TTRACT": (99, 6), "TBLKGRP": (105, 1), "ANRC": (106, 5),
    "ANRCCC": (111, 2), "AREALAND": (199, 14), "AREAWATR": (213, 14), "NAME": (227, 90), "FUNCSTAT": (317, 1),
    "POP100": (319, 9), "HU100": (328, 9), "INTPTLAT": (337, 11), "INTPTLON": (348, 12), "LSADC": (360, 2),
}  # fmt: skip
#: What does not apply to a block, filled with nines; the other header fields stay blank.
_NINES = ("CONCIT", "CONCITCC", "AITSCE", "AITS", "AITSCC", "TTRACT", "TBLKGRP", "ANRC", "ANRCCC")
_BLOCKS_ONLY = " ".join((*_NINES, "AIANHH", "AIANHHFP", "AIANHHCC", "AIHHTLI"))


@dataclass(frozen=True)
class _Level:
    """A summary level: the first block of each unit, the codes that its rows carry, and how they are named."""

    sumlev: str
    first: Ints
    fields: frozenset[str]
    name: str
    lsad: str


def _levels(at: Places, state: State, block_level: str) -> Iterator[tuple[_Level, Ints]]:
    """Each level, and the block where each run of blocks of one unit starts (with the runs outside any place)."""
    table = (
        ("040", np.zeros(len(at), dtype=np.int64), "STATE", f"{state.name} (simulated)", "00"),
        ("060", at.cousub, "STATE COUNTY COUNTYCC COUSUB COUSUBCC", "Simulated town ", "43"),
        (block_level, np.arange(len(at)),
         f"STATE COUNTY COUNTYCC COUSUB COUSUBCC PLACE PLACECC TRACT BLKGRP BLOCK {_BLOCKS_ONLY}", "Block ", "BK"),
        ("150", at.group, "STATE COUNTY COUNTYCC TRACT BLKGRP", "Block Group ", "BG"),
        ("140", at.tract, "STATE COUNTY COUNTYCC TRACT", "Census Tract ", "CT"),
        ("050", at.county, "STATE COUNTY COUNTYCC", "Simulated County ", "06"),
        ("160", at.place, "STATE PLACE PLACECC", "Simulated city ", "25"),
    )  # fmt: skip
    for sumlev, unit, fields, name, lsad in table:
        start = np.flatnonzero(np.diff(unit, prepend=-2))
        yield _Level(sumlev, start[unit[start] >= 0], frozenset(fields.split()), name, lsad), start


def _names(level: _Level, at: Places) -> NDArray[np.str_]:
    """What stands in NAME: a word for the kind of unit, and its number."""
    first = level.first
    tract = at.tract_code[first]
    suffix = np.where(tract % 100, np.char.add(".", _zeros(tract % 100, 2)), "")
    number: dict[str, NDArray[np.str_]] = {
        "00": np.array([""]),
        "43": (at.cousub[first] + 1).astype(str),
        "BK": _zeros(at.block_code[first], 4),
        "BG": at.group_digit[first].astype(str),
        "CT": np.char.add((tract // 100).astype(str), suffix),
        "06": (at.county[first] + 1).astype(str),
        "25": (at.place[first] + 1).astype(str),
    }
    return np.char.add(level.name, number[level.lsad])


def _zeros(values: Ints, width: int) -> NDArray[np.str_]:
    """Numbers padded with zeros on the left."""
    return letters((ord("0") + values[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10).astype(np.uint8))


def _spaces(values: Ints, width: int) -> NDArray[np.str_]:
    return np.char.rjust(values.astype(str), width)


def _degrees(whole: str, ten_millionths: Ints) -> NDArray[np.str_]:
    """A coordinate: sign and whole degrees, then seven decimals."""
    return np.char.add(whole, _zeros(ten_millionths % 10**7, 7))


def _characters(text: NDArray[np.str_] | str, width: int) -> Bytes:
    """Rows of characters, padded with blanks on the right: ``(rows, width)``, one row for a plain string."""
    padded = points(np.atleast_1d(np.asarray(text)).astype(f"U{width}")).astype(np.uint8)
    return np.where(padded == 0, np.uint8(ord(" ")), padded)


def _codes(state: State, at: Places, level: _Level) -> dict[str, NDArray[np.str_] | str]:
    """The geographic codes that the rows of a level carry; a block's also say what does not apply to it."""
    first = level.first
    place, aian = at.place[first], at.aian_code[first]
    codes: dict[str, NDArray[np.str_] | str] = {
        "STATE": state.fips, "COUNTY": _zeros(1 + 2 * at.county[first], 3), "COUNTYCC": "H1",
        "COUSUB": _zeros(10005 + 20 * at.cousub[first], 5), "COUSUBCC": "T1",
        "PLACE": np.where(place < 0, "99999", _zeros(30000 + 25 * place, 5)),
        "PLACECC": np.where(place < 0, "99", "C1"),
        "TRACT": _zeros(at.tract_code[first], 6), "BLKGRP": _zeros(at.group_digit[first], 1),
        "BLOCK": _zeros(at.block_code[first], 4), "AIANHH": _zeros(aian, 4),
        "AIANHHFP": np.where(aian == 9999, "99999", _zeros(60000 + aian, 5)),
        "AIANHHCC": np.where(aian == 9999, "99", "D2"), "AIHHTLI": np.where(aian == 9999, "9", "R"),
    }  # fmt: skip
    codes |= {field: "9" * _HEADER[field][1] for field in _NINES}
    return {field: text for field, text in codes.items() if field in level.fields}


def _header(state: State, at: Places, level: _Level, counts: Ints, area: Ints, file_id: str) -> Bytes:
    """Rows of the geographic header, ``(rows, 501)`` characters, without their LOGRECNO.

    ``counts`` ``(rows, 2)``: persons and housing units; ``area`` ``(rows, 2)``: land and water, square metres.
    """
    first = level.first
    latitude = _degrees(f"+{30 + int(state.fips) // 5}.", 15_000 * at.group[first] + 7 * first)
    longitude = _degrees(f"-{70 + int(state.fips):03d}.", 21_000 * at.tract[first] + 5 * first)
    fields = _codes(state, at, level) | {
        "FILEID": file_id, "STUSAB": state.usps, "SUMLEV": level.sumlev, "GEOCOMP": "00", "CHARITER": "000",
        "REGION": str(REGION_OF_DIVISION[state.division]), "DIVISION": str(state.division),
        "AREALAND": _spaces(area[:, 0], 14), "AREAWATR": _spaces(area[:, 1], 14), "NAME": _names(level, at),
        "FUNCSTAT": "A" if level.lsad == "00" else "S", "POP100": _spaces(counts[:, 0], 9),
        "HU100": _spaces(counts[:, 1], 9), "INTPTLAT": latitude, "INTPTLON": longitude, "LSADC": level.lsad,
    }  # fmt: skip
    out = np.full((len(first), 501), ord(" "), dtype=np.uint8)
    out[:, 500] = ord("\n")
    for field, text in fields.items():
        start, width = _HEADER[field]
        out[:, start - 1 : start - 1 + width] = _characters(text, width)
    return out


def _segment(head: tuple[str, str, str], values: Ints) -> bytes:
    """A data segment: five identifying fields, then the values, with LOGRECNO counting from 1."""
    file_id, usps, number = head
    rows = len(values)
    constant = [pa.repeat(text, rows) for text in (file_id, usps, "000", number)]
    columns = [*constant, pa.array(_zeros(np.arange(1, rows + 1), 7)), *map(pa.array, values.T)]
    out = io.BytesIO()
    options = csv.WriteOptions(include_header=False, quoting_style="none")
    csv.write_csv(pa.table(columns, names=[str(i) for i in range(len(columns))]), out, options)
    return out.getvalue()


@dataclass(frozen=True)
class _Rows:
    """All rows of a state's files: the header characters and the value columns."""

    header: Bytes
    values: Ints


def _rows(state: State, at: Places, values: Ints, kind: tuple[str, str]) -> _Rows:
    """Every level of one file family. ``values`` per block: 71 + 73 + 71 + 73 + 3 + 10 cells, then two areas."""
    file_id, block_level = kind
    headers, cells = [], []
    for level, start in _levels(at, state, block_level):
        total = np.add.reduceat(values, start, axis=0)[np.isin(start, level.first)]
        headers.append(_header(state, at, level, total[:, [0, 288]], total[:, -2:], file_id))
        cells.append(total)
    header = np.concatenate(headers)
    header[:, 18:25] = _characters(_zeros(np.arange(1, len(header) + 1), 7), 7)
    return _Rows(header, np.concatenate(cells))


def _pl94(state: State, at: Places, values: Ints) -> dict[str, bytes]:
    """The members of ``{ss}2010.pl.zip``."""
    ss, rows = state.usps.lower(), _rows(state, at, values, ("PLST", "750"))
    members = {
        f"{ss}geo2010.pl": rows.header.tobytes(),
        f"{ss}000012010.pl": _segment(("PLST", state.usps, "01"), rows.values[:, :144]),
        f"{ss}000022010.pl": _segment(("PLST", state.usps, "02"), rows.values[:, 144:291]),
    }
    listing = "".join(f"{name}|2010-04-01 00:00:00|{len(data)}|{len(rows.header)}|\n" for name, data in members.items())
    text = _PACKING_LIST.format(usps=state.usps, ss=ss, listing=listing, rule="#" * 80)
    return members | {f"{ss}2010.pl.prd.packinglist.txt": text.encode("ascii")}


def _sf1(state: State, at: Places, values: Ints) -> dict[str, bytes]:
    """The members of ``{ss}2010.sf1.zip`` that matter here: the header, and segment 6 with P42 filled in."""
    ss, rows = state.usps.lower(), _rows(state, at, values, ("SF1ST", "101"))
    segment = np.zeros((len(rows.values), 254), dtype=np.int64)
    segment[:, 163:173] = rows.values[:, 291:301]
    return {
        f"{ss}geo2010.sf1": rows.header.tobytes(),
        f"{ss}000062010.sf1": _segment(("SF1ST", state.usps, "06"), segment),
    }


_PACKING_LIST = """\
{rule}
      File: Packing list for zip file.
      Note: SIMULATED data. No person or home in them is real.
    STUSAB: {usps}
   Created: Thu Apr 01 00:00:00 EST 2010
  Zip File: {ss}2010.pl.zip
{rule}

{rule}
Data Segmentation information

 Column Description
 ====== ===============================
      1 Table Name
      2 Segment information, which is 1 or more segment:cell descriptors separated by a space

p1|1:71|
p2|1:73|
p3|2:71|
p4|2:73|
h1|2:3|
{rule}

{rule}
Zip Contents, excluding the packing list (this file)

 Column Description
 ====== ===============================
      1 File Name
      2 DateTime Last Modified, format is YYYY-MM-DD HH24:MI:SS
      3 File size in bytes
      4 Row Count

{listing}{rule}
END OF PACKINGLIST
{rule}
"""


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Make the folder; what cannot be made or written in it becomes an :class:`InputError`."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as e:
        remedy = "give another folder, one that can be written to"
        raise InputError(
            f"cannot be written ({e.strerror or e})", where=e.filename or directory, remedy=remedy
        ) from None


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    """A zip whose bytes depend on its contents alone; it appears whole or not at all."""
    part = path.with_name(path.name + ".part")
    with zipfile.ZipFile(part, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, date_time=(2010, 4, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED, compresslevel=6)
    part.replace(path)
    return path


def state_sizes(seed: int, states: int, persons: int) -> list[tuple[State, int]]:
    """Which states, and how many persons in each: sizes fall off like Zipf's law, and add up to ``persons``.

    Raises :class:`InputError` for a number of states or persons that cannot be simulated.
    """
    nation = [s for s in STATES if s.division]
    if not 1 <= states <= len(nation):
        raise InputError(f"{states} states", where="simulate", remedy=f"ask for 1 to {len(nation)}")
    if persons < MINIMUM * states:
        raise InputError(
            f"{persons} persons in {states} states",
            where="simulate",
            remedy=f"ask for at least {MINIMUM * states}, {MINIMUM} a state",
        )
    if seed < 0:
        raise InputError(f"seed {seed}", where="simulate", remedy="give a seed of 0 or more")
    rng = generator(seed, 0)
    drawn = np.argsort(rng.random(len(nation)), kind="stable")[:states]
    weight = skewed(rng, states, 0.3) / (1 + np.arange(states)) ** 0.7
    edge = np.round(np.cumsum(weight) / weight.sum() * (persons - MINIMUM * states)).astype(np.int64)
    sizes = MINIMUM + np.diff(edge, prepend=0)
    return sorted((nation[i], int(n)) for i, n in zip(drawn, sizes, strict=True))


def write(directory: Path, *, seed: int, states: int = 3, persons: int = 12_000, sf1: bool = False) -> list[Path]:
    """Write ``{ss}2010.pl.zip`` for each of ``states`` states, ``persons`` in all, and return the paths.

    With ``sf1`` also ``{ss}2010.sf1.zip``, whose table P42 counts the same persons in group quarters.
    The files are a function of the arguments alone. Raises :class:`InputError` for arguments out of range.

    Of every three states in order one has no American Indian area.
    """
    sizes = state_sizes(seed, states, persons)
    paths = []
    with writing(directory):
        for i, (state, size) in enumerate(sizes):
            ss = state.usps.lower()
            at, values = _simulate(generator(seed, 1 + int(state.fips)), size, 0 if i % 3 == 2 else 2)
            paths.append(write_zip(directory / f"{ss}2010.pl.zip", _pl94(state, at, values)))
            if sf1:
                paths.append(write_zip(directory / f"{ss}2010.sf1.zip", _sf1(state, at, values)))
    return paths


def _simulate(rng: np.random.Generator, persons: int, reservations: int) -> tuple[Places, Ints]:
    """The blocks of a state and their values: the cells of all tables, then land and water area."""
    at = _places(rng, round(persons / PERSONS_PER_BLOCK), reservations)
    people = _population(rng, at, persons)
    n = len(at)
    area = np.stack([5_000 + 400_000 * rng.random(n) ** 3, 100_000 * rng.random(n) ** 9], axis=1).astype(np.int64)
    area[at.water] = area[at.water, :1] * np.array([0, 1])  # all of it water
    return at, np.concatenate([_tables(people), _group_quarters(people), area], axis=1)
