"""A simulated 1940 extract, in exactly the format of EXT1940USCB (IPUMS USA).

One gzip file has an ``H`` line of 159 characters for each household, vacant unit and group quarters
facility. It has a ``P`` line of 273 characters for each person. No person is real. The fields that
the 1940 schema needs are drawn, with the fields that depend on them. Every other numeric field is
zero, every other text blank.

Source: the record layout of EXT1940USCB (IPUMS USA, DOI 10.18128/D010.V8.0.EXT1940USCB)."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.files import atomic
from das.files.readers.ext1940 import COLUMNS, H_LENGTH, P_LENGTH
from das.files.simulators.census_2010 import writing
from das.files.simulators.people import (
    choose,
    choose_by_row,
    generator,
    rank_in_group,
    skewed,
    spread,
    state_sizes,
)
from das.model.names import State

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Fields = dict[str, Ints | int]

FILE = "EXT1940USCB.simulated.dat.gz"
PERSONS_PER_DISTRICT = (
    120  #: a real enumeration district had about 900; smaller ones give more of them
)

#: STATEICP of each state, by FIPS code.
_ICP = {
    fips: int(icp)
    for fips, icp in re.findall(
        r"(\d\d):(\d\d)",
        "01:41 02:81 04:61 05:42 06:71 08:62 09:01 10:11 11:98 12:43 13:44 15:82 16:63 17:21 18:22"
        " 19:31 20:32 21:51 22:45 23:02 24:52 25:03 26:23 27:33 28:46 29:34 30:64 31:35 32:65 33:04"
        " 34:12 35:66 36:13 37:47 38:36 39:24 40:53 41:72 42:14 44:05 45:48 46:37 47:54 48:49 49:67"
        " 50:06 51:40 53:73 54:56 55:25 56:68",
    )
}
#: The IPUMS code of each census division.
_REGION = (0, 11, 12, 21, 22, 31, 32, 33, 41, 42)

#: First column (from 1), width, of what the reader does not read; all numbers, padded with zeros.
_LAYOUT = COLUMNS | {
    "YEAR": (2, 4),
    "DATANUM": (6, 2),
    "HHWT": (20, 10),
    "NUMPERHH": (30, 4),
    "DWELLING": (35, 8),
    "REGION": (50, 2),
    "STATEICP": (52, 2),
    "URBAN": (60, 1),
    "GQTYPED": (96, 3),
    "OWNERSHP": (102, 1),
    "NUMPREC40": (155, 4),
    "PERNUM": (16, 4),
    "PERWT": (20, 10),
    "RELATE": (67, 2),
    "RELATED": (69, 4),
    "SEX": (73, 1),
    "MARST": (79, 1),
    "RACED": (86, 3),
    "HISPAND": (90, 3),
    "CITIZEN": (118, 1),
}
#: Columns of HISTID, the one text field.
_HISTID = slice(234, 270)

#: White, Black, AIAN, Chinese, Japanese, other Asian or Pacific Islander. Rare races are more
#: common than they were, so that a small file has them.
_RACE = np.array([0.885, 0.095, 0.008, 0.004, 0.005, 0.003])
_RACED = np.array([100, 200, 300, 400, 500, 600])
#: Group quarters that occur: GQTYPE, with the GQ of each (3 institution, 4 other), how common, how
#: large.
_GQTYPE = np.array([2, 3, 4, 6, 7, 8, 9])
_FACILITY_GQ = np.array([3, 3, 3, 4, 4, 4, 4])
_FACILITY_SHARE = np.array([0.1, 0.1, 0.15, 0.1, 0.15, 0.25, 0.15])
_FACILITY_SIZE = np.array([30, 40, 20, 40, 30, 8, 10])
#: Shares of the ages 0-9, 10-19, ..., 90-99 in 1940, by who: households, then the types above.
_AGES = np.array(
    [
        [16.0, 18.5, 17.5, 15.0, 13.0, 10.0, 6.5, 3.0, 0.45, 0.05],
        [0, 5, 40, 30, 15, 7, 2, 1, 0, 0],
        [0, 4, 14, 20, 22, 20, 12, 6, 2, 0],
        [0, 2, 3, 5, 8, 12, 25, 30, 14, 1],
        [0, 15, 65, 15, 4, 1, 0, 0, 0, 0],
        [0, 45, 50, 5, 0, 0, 0, 0, 0, 0],
        [2, 8, 35, 25, 15, 10, 4, 1, 0, 0],
        [5, 20, 20, 20, 15, 12, 6, 2, 0, 0],
    ]
)


@dataclass(frozen=True, eq=False)
class _Homes:
    """Households, vacant units and facilities of a state in the order of the file; ``(homes,)``.

    ``district`` numbers the enumeration district, ``kind`` is 0 for a housing unit and else 1 + the
    position in ``_GQTYPE``; ``size`` counts the persons, 0 in a vacant unit."""

    district: Ints
    kind: Ints
    size: Ints


def write(directory: Path, *, seed: int, states: int = 3, persons: int = 12_000) -> list[Path]:
    """Write ``EXT1940USCB.simulated.dat.gz`` with ``persons`` persons in ``states`` states; return
    its path.

    The file is a function of the arguments alone. Raises :class:`das.errors.InputError` for
    arguments out of range."""
    path = directory / FILE
    sizes, serial = state_sizes(seed, states, persons), 1
    with (
        writing(directory),
        atomic.file(path) as part,
        part.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=9, fileobj=raw, mtime=0) as out,
    ):
        for state, size in sizes:
            serial += _state(out, state, generator(seed, 1940, int(state.fips)), size, serial)
    return [path]


def _state(
    out: gzip.GzipFile, state: State, rng: np.random.Generator, persons: int, serial: int
) -> int:
    """Write one state, its households numbered from ``serial``; return how many."""
    districts = max(6, round(persons / PERSONS_PER_DISTRICT))
    counties = max(2, min(200, round(districts**0.5 / 1.5)))
    in_county = spread(rng, districts, skewed(rng, counties, 0.8))
    county, number = np.repeat(np.arange(counties), in_county), rank_in_group(in_county)
    homes = _homes(rng, districts, persons)
    at = homes.district
    h = _h_records(rng, homes, serial) | {
        "REGION": _REGION[state.division],
        "STATEICP": _ICP[state.fips],
        "STATEFIP": int(state.fips),
        "COUNTY": 10 * (1 + 2 * county[at]),
        "URBAN": 1 + county[at] % 2,
        "ENUMDIST": 10 * (1 + number[at]),
        "SUPDIST": 1 + county[at] // 4,
    }
    p = _p_records(rng, homes, county, serial)
    h_text = _records("H", H_LENGTH, len(at), h)
    p_text = _records("P", P_LENGTH, int(homes.size.sum()), p)
    p_text[:, _HISTID] = _histid(rng, len(p_text))
    before = np.cumsum(homes.size) - homes.size
    for begin in range(0, len(at), 4096):
        some = slice(begin, begin + 4096)
        first = before[begin]
        size = homes.size[some]
        out.write(_interleave(h_text[some], p_text[first : first + size.sum()], size))
    return len(at)


def _homes(rng: np.random.Generator, districts: int, persons: int) -> _Homes:
    """Households with 1 to 12 persons, a tenth of the units vacant, facilities of every type, one
    district of group quarters alone."""
    facilities = len(_GQTYPE) + districts // 5
    kind = np.concatenate(
        [np.arange(1, 8), 1 + choose(rng, _FACILITY_SHARE, facilities - len(_GQTYPE))]
    )
    inside = np.minimum(
        1 + (_FACILITY_SIZE[kind - 1] * skewed(rng, facilities, 0.5) * 0.7).astype(np.int64), 99
    )
    housed = persons - int(inside.sum())
    sizes = 1 + choose(rng, np.array([9, 22, 21, 18, 12, 8, 4, 3, 1.5, 0.8, 0.4, 0.3]), housed)
    ends = np.cumsum(sizes)
    last = int(np.searchsorted(ends, housed))
    sizes = np.append(sizes[:last], housed - (ends[last - 1] if last else 0))
    size = np.concatenate([sizes, np.zeros(len(sizes) // 10, dtype=np.int64), inside])
    kind = np.concatenate([np.zeros(len(size) - facilities, dtype=np.int64), kind])
    weight = skewed(rng, districts, 0.5)
    weight[-1] = 0
    district = choose(rng, weight, len(size))
    district[: districts - 1] = np.arange(districts - 1)  # each of the others has a household
    district[-facilities:][: len(_GQTYPE)] = districts - 1
    order = np.argsort(district, kind="stable")
    return _Homes(district[order], kind[order], size[order])


def _h_records(rng: np.random.Generator, homes: _Homes, serial: int) -> Fields:
    quarters = homes.kind > 0
    gqtype = np.where(quarters, _GQTYPE[homes.kind - 1], 0)
    additional = np.where(rng.random(len(homes.size)) < 0.03, 2, 1)
    number = serial + np.arange(len(homes.size))
    return {
        "YEAR": 1940,
        "DATANUM": 2,
        "SERIAL": number,
        "NUMPREC": homes.size,
        "HHWT": 100,
        "NUMPERHH": homes.size,
        "DWELLING": number,
        "GQTYPE": gqtype,
        "GQTYPED": gqtype * 100,
        "NUMPREC40": homes.size,
        "GQ": np.where(
            quarters, _FACILITY_GQ[homes.kind - 1], np.where(homes.size > 0, additional, 0)
        ),
        "OWNERSHP": np.where(
            quarters | (homes.size == 0), 0, 1 + (rng.random(len(homes.size)) < 0.56)
        ),
    }


def _p_records(rng: np.random.Generator, homes: _Homes, county: Ints, serial: int) -> Fields:
    """Persons of all homes in order. Race is drawn once a household, from its district's
    mixture."""
    home = np.repeat(np.arange(len(homes.size)), homes.size)
    kind, number = homes.kind[home], rank_in_group(homes.size)
    mixture = (
        _RACE
        * skewed(rng, (len(county), 6), 0.9)
        * skewed(rng, (int(county[-1]) + 1, 6), 0.7)[county]
    )
    of_home = choose_by_row(rng, mixture, homes.district)
    first = np.flatnonzero((homes.size > 0) & (homes.kind == 0))[:6]
    of_home[first] = np.arange(6)  # each race in every state
    race = np.where(kind > 0, choose_by_row(rng, mixture, homes.district[home]), of_home[home])
    decade = choose_by_row(rng, _AGES, kind)
    age = 10 * decade + (10 * rng.random(len(home))).astype(np.int64)
    head = (kind == 0) & (number == 0)
    age = np.where(head, np.maximum(age, 18 + age % 7), age)
    related = np.where(kind > 0, 13, np.where(head, 1, np.where(number == 1, 2, 3)))
    rate = (0.3 * rng.random(int(county[-1]) + 1) ** 3)[county][homes.district[home]]
    origin = rng.random(len(home)) < rate, 1 + (4 * rng.random(len(home)) ** 2).astype(np.int64)
    hispan = np.where(origin[0] & (race == 0), origin[1], 0)
    return {
        "YEAR": 1940,
        "DATANUM": 2,
        "SERIAL": serial + home,
        "PERNUM": 1 + number,
        "PERWT": 100,
        "RELATE": related,
        "RELATED": related * 100 + 1,
        "AGE": age,
        "SEX": 1 + (rng.random(len(home)) < 0.498),
        "MARST": np.where((age >= 18) & (number < 2), 1, 6),
        "RACE": race + 1,
        "RACED": _RACED[race],
        "HISPAN": hispan,
        "HISPAND": hispan * 100,
        "CITIZEN": np.where(
            rng.random(len(home)) < 0.91, 0, 1 + choose(rng, np.array([4, 1, 3.0, 1.0]), len(home))
        ),
    }


# --- characters


def _records(kind: str, width: int, rows: int, values: Mapping[str, Ints | int]) -> Bytes:
    """Lines with their ends, ``(rows, width + 1)``; numeric fields without a value are zero."""
    out = np.full((rows, width + 1), ord("0"), dtype=np.uint8)
    out[:, 0], out[:, width] = ord(kind), ord("\n")
    for field, number in values.items():
        column, size = _LAYOUT[field]
        digits = np.atleast_1d(number)[:, None] // 10 ** np.arange(size - 1, -1, -1) % 10
        out[:, column - 1 : column - 1 + size] += digits.astype(np.uint8)
    return out


def _histid(rng: np.random.Generator, rows: int) -> Bytes:
    """Random identifiers in the form of HISTID: 8-4-4-4-12 hexadecimal digits."""
    out = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)[
        (16 * rng.random((rows, 36))).astype(np.int64)
    ]
    out[:, [8, 13, 18, 23]] = ord("-")
    return out


def _interleave(h: Bytes, p: Bytes, size: Ints) -> bytes:
    """Each H line, then the ``size`` P lines that belong to it."""
    wide, narrow = p.shape[1], h.shape[1]
    start = np.arange(len(h)) * narrow + (np.cumsum(size) - size) * wide
    home = np.repeat(np.arange(len(h)), size)
    out = np.empty(h.size + p.size, dtype=np.uint8)
    out[start[:, None] + np.arange(narrow)] = h
    out[(start[home] + narrow + rank_in_group(size) * wide)[:, None] + np.arange(wide)] = p
    return out.tobytes()
