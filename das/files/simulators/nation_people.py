"""The people and homes of a simulated state of 2020, county by county, to the totals of each.

Who lives in a block is drawn person by person, from the block's own mixture of races and origins:
that of its county, times log-normal effects of tract, block group and block. How many live there is
drawn as weights, and the county's total is shared out by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.files.simulators.header import RACES, StateTotals, share_out
from das.files.simulators.people import (
    FACILITY_SIZE,
    HISPANIC_FACTOR,
    NUMBER_OF_RACES,
    Floats,
    Ints,
    SimulatedBlocks,
    adult_rate,
    choose,
    choose_by_row,
    combined,
    generator,
    rank_in_group,
    skewed,
    vary,
)

CELLS = 252  #: voting age x Hispanic x race
EMPTY = 0.27  #: share of land without a household
PERSONS_AT_ONCE = 400_000
#: Standard deviations of the logarithm of a block's persons: between block groups, and between
#: blocks of one.
_GROUP_SIZE, _BLOCK_SIZE = 0.42, 1.05
#: Standard deviations of the logarithms of the races' odds, between tracts, block groups, and
#: blocks.
_TRACT_RACE, _GROUP_RACE, _BLOCK_RACE = 0.9, 0.45, 0.7
#: How common each type of group quarters is, in the order of the hhgq attribute.
_FACILITIES = np.array([0.0, 0.08, 0.08, 0.35, 0.05, 0.08, 0.02, 0.34])
PERSONS_PER_FACILITY = 50
_TRACT_ORIGIN, _BLOCK_ORIGIN = 0.5, 0.4  #: for the Hispanic share
_HEADS = 0.385  #: households a person
_KINSHIP = 0.92  #: how often a person is of the race and origin of who heads the household


@dataclass(frozen=True, eq=False)
class SparsePopulation:
    """``number`` persons of ``cell`` in ``block``, in order of blocks and cells; ``quarters`` ``(8,
    blocks)`` persons by dwelling; ``homes`` ``(2, blocks)`` occupied and vacant units."""

    block: Ints
    cell: NDArray[np.uint8]
    number: NDArray[np.int32]
    quarters: NDArray[np.int32]
    homes: NDArray[np.int32]


def draw_people(key: tuple[int, ...], at: SimulatedBlocks, totals: StateTotals) -> SparsePopulation:
    """All counties; each has a generator of its own, from ``key`` and its code."""
    entries: list[tuple[Ints, NDArray[np.uint8], NDArray[np.int32]]] = []
    quarters, homes = np.zeros((8, len(at)), dtype=np.int32), np.zeros((2, len(at)), dtype=np.int32)
    ends = np.cumsum(np.bincount(at.county))
    for c, end in enumerate(ends):
        here = slice(int(ends[c - 1]) if c else 0, int(end))
        rng = generator(*key, int(totals.county[c]))
        county = _County(here, at, totals, c)
        quarters[:, here], homes[:, here] = _dwellings(rng, county)
        entries += _drawn(rng, county, quarters[:, here])
    block, cell, number = (np.concatenate(part) for part in zip(*entries, strict=True))
    return SparsePopulation(block, cell, number, quarters, homes)


class _County:
    """One county: its blocks, numbered from 0, and its totals."""

    def __init__(self, here: slice, at: SimulatedBlocks, totals: StateTotals, c: int) -> None:
        self.first = here.start
        self.tract, self.group = (
            at.tract[here] - at.tract[here.start],
            at.group[here] - at.group[here.start],
        )
        self.water, self.aian = at.water[here], at.aian_code[here] != 9999
        self.persons, self.quarters = int(totals.persons[c]), int(totals.quarters[c])
        self.units, self.occupied = int(totals.units[c]), int(totals.occupied[c])
        self.adults, self.hispanic = (
            totals.adults[c] / self.persons,
            totals.hispanic[c] / self.persons,
        )
        self.races = (totals.races[c] + 0.002 * self.persons / 6 + 0.5) / self.persons
        self.several = max(0.005, 1 - totals.races[c].sum() / self.persons)

    def __len__(self) -> int:
        return len(self.tract)


# --- how many


def _shared(rng: np.random.Generator, total: int, weight: Floats) -> Ints:
    """``total`` things in proportion to ``weight``, rounded along the blocks with a random
    start."""
    edge = np.cumsum(weight)
    if total <= 0 or edge[-1] <= 0:
        return np.zeros(len(weight), dtype=np.int64)
    steps = np.floor(edge / edge[-1] * total + rng.random()).astype(np.int64)
    steps[edge >= edge[-1]] = total
    return np.diff(np.minimum(steps, total), prepend=0)


def _dwellings(rng: np.random.Generator, county: _County) -> tuple[Ints, Ints]:
    """Persons by dwelling ``(8, blocks)``, and occupied and vacant units ``(2, blocks)``, of a
    county."""
    n, land = len(county), np.flatnonzero(~county.water)
    land = land if len(land) else np.arange(n)
    shuffled = land[np.argsort(rng.random(len(land)), kind="stable")]
    homes = max(
        1, min(len(land) - int(EMPTY * len(land)), county.occupied)
    )  # blocks that have some: no more than there are
    full, empty = np.split(shuffled, [homes])
    lived_in = np.zeros(n, dtype=bool)
    lived_in[full] = True
    weight = skewed(rng, n, _BLOCK_SIZE) * lived_in
    of_group = np.bincount(county.group, weight)
    weight *= (skewed(rng, len(of_group), _GROUP_SIZE) / np.maximum(of_group, 1e-9))[county.group]

    facilities = min(-(-county.quarters // PERSONS_PER_FACILITY), max(1, len(land) // 20))
    alone = min(facilities // 5, len(empty))
    facility = np.concatenate([empty[:alone], full[: facilities - alone]])
    kind = choose(rng, _FACILITIES, len(facility))
    inmates = share_out(
        county.quarters, skewed(rng, len(facility), 0.9) * FACILITY_SIZE[kind], least=1
    )
    quarters = np.zeros((8, n), dtype=np.int64)
    quarters[kind, facility] = inmates if county.quarters else 0
    quarters[0] = _shared(rng, county.persons - int(quarters.sum()), weight)
    return quarters, _homes(rng, county, quarters[0], empty[alone:])


def _homes(rng: np.random.Generator, county: _County, residents: Ints, empty: Ints) -> Ints:
    """Occupied units: from one to one for each resident. Vacant units: mostly in blocks with
    residents, and some where nobody lives."""
    lived_in = residents > 0
    occupied = lived_in + _shared(
        rng,
        min(county.occupied, int(residents.sum())) - int(lived_in.sum()),
        np.maximum(residents - 1.0, 0),
    )
    weight = skewed(rng, len(county), 0.8) * occupied
    weight[empty[: len(empty) // 30]] = 12.0
    return np.stack([occupied, _shared(rng, county.units - int(occupied.sum()), weight)])


# --- who


def _drawn(
    rng: np.random.Generator, county: _County, quarters: NDArray[np.int32]
) -> Iterator[tuple[Ints, NDArray[np.uint8], NDArray[np.int32]]]:
    """The persons of a county, some blocks at a time: block, cell and number of each positive
    cell."""
    persons = quarters.sum(axis=0, dtype=np.int64)
    share = _races(rng, county, persons)
    several, factor = _calibrated(share, persons, county.several)
    effect = skewed(rng, int(county.tract[-1]) + 1, _TRACT_ORIGIN)[county.tract] * skewed(
        rng, len(county), _BLOCK_ORIGIN
    )
    hispanic = (
        county.hispanic / factor * effect * (county.persons / max(1e-9, float(effect @ persons)))
    )
    household = county.adults + 0.11 * county.hispanic + 0.2 * county.several
    for begin, end in _pieces(persons):
        here = slice(begin, end)
        weights = combined(share[here]) * np.where(NUMBER_OF_RACES > 1, several, 1.0)
        block, cell = _one_by_one(rng, quarters[:, here], weights, hispanic[here], household)
        counts = np.bincount(block * CELLS + cell, minlength=CELLS * (end - begin))
        found = np.flatnonzero(counts)
        yield (
            county.first + begin + found // CELLS,
            (found % CELLS).astype(np.uint8),
            counts[found].astype(np.int32),
        )


def _races(rng: np.random.Generator, county: _County, persons: Ints) -> Floats:
    """Shares of the six races in each block, ``(blocks, 6)``, that average to those of the
    county."""
    whole = county.races / county.races.sum()
    effects = (
        (county.tract, _TRACT_RACE),
        (county.group, _GROUP_RACE),
        (np.arange(len(county)), _BLOCK_RACE),
    )
    share = vary(rng, np.tile(whole, (len(county), 1)), effects)
    share[county.aian, 2] *= 8
    for _ in range(4):  # proportional fitting
        share /= share.sum(axis=1, keepdims=True)
        share *= whole / np.maximum(persons @ share / max(1, persons.sum()), 1e-9)
    return share / share.sum(axis=1, keepdims=True)


def _calibrated(share: Floats, persons: Ints, several: float) -> tuple[float, float]:
    """The factor on the weights of two or more races that gives them a share of ``several``, and
    how Hispanic people then are.

    The second value is the probability of being Hispanic, relative to the county's share. Both are
    estimated from some of the blocks."""
    some = np.unique(np.linspace(0, len(share) - 1, 1000).astype(np.int64))
    weights = (persons[some] + 1e-3) @ combined(share[some])
    more = several / (1 - several) * weights[:6].sum() / weights[6:].sum()
    weights[6:] *= more
    return float(more), float(weights @ HISPANIC_FACTOR / weights.sum())


def _one_by_one(
    rng: np.random.Generator,
    quarters: NDArray[np.int32],
    weights: Floats,
    hispanic: Floats,
    household: float,
) -> tuple[Ints, Ints]:
    """Each person's block, numbered from 0, and cell. Households are persons that follow each
    other; most of one are alike."""
    here = quarters.T.ravel()
    block = np.repeat(np.repeat(np.arange(len(weights)), 8), here)
    hhgq = np.repeat(np.tile(np.arange(8), len(weights)), here)
    number, kin = np.arange(len(block)), rng.random(len(block))
    head = (kin < _HEADS) | (hhgq > 0)
    head[1:] |= block[1:] != block[:-1]
    head[:1] = True
    like = np.where(
        rng.random(len(block)) < _KINSHIP, np.maximum.accumulate(np.where(head, number, 0)), number
    )
    race = choose_by_row(rng, weights, block)
    origin = rng.random(len(block)) < hispanic[block] * HISPANIC_FACTOR[race]
    race, origin = race[like], origin[like]
    adult = rng.random(len(block)) < adult_rate(household, hhgq, origin, race)
    return block, ((adult * 2) + origin) * 63 + race


def _pieces(persons: Ints) -> Iterator[tuple[int, int]]:
    """Runs of blocks that hold about ``PERSONS_AT_ONCE`` persons."""
    piece = (np.cumsum(persons) - persons) // PERSONS_AT_ONCE
    cut = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(persons)]
    yield from pairwise(cut)


# The places of a simulated state of 2020: as many counties, tracts, block groups and blocks as it
# has, and areas across them.
#
# Tracts follow the persons of a county; block groups, a few in every tract, and blocks, heavy-tailed
# in every block group, are drawn. Counties of many persons have fewer blocks a person than others.
# Water has tracts of its own in some counties. County subdivisions are runs of block groups; voting
# districts nest in counties, and cities cross everything but the state. In counties where many are
# American Indian or Alaska Native one area covers a run of blocks, and in Hawaii home lands do.

BLOCKS_PER_TOWN, BLOCKS_PER_VTD = 200, 46
MOST_GROUPS, MOST_BLOCKS = 9, 999  #: in a tract, in a block group: what the codes have room for
WATER_FROM = 12  #: a county needs this many tracts to have one of water; every other one has
WATER = 0.055  #: share of blocks that are water, besides those in tracts of water
AIAN_FROM = 0.02  #: share of persons in a county that has an area
#: First code of the areas: of Alaska native villages, Hawaiian home lands, Oklahoma tribal
#: statistical areas, reservations.
_FIRST_CODE = {"AK": 6000, "HI": 5000, "OK": 5500}
_RESERVATION, _NO_AREA = 10, 9999


def _tracts(in_county: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Of each tract its county, whether it is water, and its code."""
    county, number = np.repeat(np.arange(len(in_county)), in_county), rank_in_group(in_county)
    last = number == in_county[county] - 1
    water = last & (in_county[county] >= WATER_FROM) & (county % 2 == 0)
    return county, water, np.where(water, 990000, 100 * (number + 1) + 2 * (number % 5 == 4))


def draw_state(rng: np.random.Generator, totals: StateTotals) -> SimulatedBlocks:
    """The blocks of a state in the order of their codes."""
    in_county = share_out(totals.tracts, totals.persons, least=1)
    t_county, t_water, t_code = _tracts(in_county)
    room = np.where(t_water, 1, MOST_GROUPS)
    t_groups = share_out(totals.groups, skewed(rng, len(t_code), 0.4), least=1, most=room)

    g_tract = np.repeat(np.arange(len(t_code)), t_groups)
    g_water, g_county = t_water[g_tract], t_county[g_tract]
    g_digit = np.where(g_water, 0, rank_in_group(t_groups) + 1)
    crowd = (totals.persons / np.bincount(g_county))[g_county]  # persons a block group
    rural = (totals.persons.astype(float) ** -0.25)[g_county]
    weight = skewed(rng, len(g_tract), 0.7) * crowd * rural * np.where(g_water, 0.1, 1.0)
    g_blocks = share_out(totals.blocks, weight, least=1, most=MOST_BLOCKS)

    size = np.bincount(g_county)
    parts = 2 + np.minimum(28, np.round(1.5 * in_county**0.5).astype(np.int64))
    within = rank_in_group(size) * parts[g_county] // size[g_county]
    g_cousub = (np.cumsum(parts) - parts)[g_county] + within
    group = np.repeat(np.arange(len(g_tract)), g_blocks)
    tract = g_tract[group]
    county, n, digit = t_county[tract], len(group), g_digit[group]
    vtd, vtd_code = _voting_districts(np.bincount(county))
    return SimulatedBlocks(
        county,
        g_cousub[group],
        tract,
        group,
        _towns(rng, n),
        t_code[tract],
        digit,
        1000 * digit + rank_in_group(g_blocks) + (digit == 0),
        _areas(rng, totals, np.bincount(county)),
        g_water[group] | (rng.random(n) < WATER),
        totals.county[county],
        vtd,
        vtd_code,
        totals.seats,
    )


def _voting_districts(blocks: Ints) -> tuple[Ints, Ints]:
    """The voting district of each block, given the number of blocks in each county: its number, and
    its code in the county."""
    number = np.maximum(1, blocks // BLOCKS_PER_VTD)
    county = np.repeat(np.arange(len(blocks)), blocks)
    inside = rank_in_group(blocks) * number[county] // blocks[county]
    return (np.cumsum(number) - number)[county] + inside, inside + 1


def _towns(rng: np.random.Generator, n: int) -> Ints:
    """Cities and towns: runs of blocks of very different lengths, that hold about two thirds of
    them. -1: none."""
    length = skewed(rng, 20 + 4 * n // BLOCKS_PER_TOWN, 1.2)
    ends = np.cumsum(1 + (length / length.mean() * BLOCKS_PER_TOWN).astype(np.int64))
    run = np.searchsorted(ends, np.arange(n), side="right")
    inside = rng.random(int(run[-1]) + 1) < 0.65
    inside[0] = True
    return np.where(inside[run], (np.cumsum(inside) - 1)[run], -1)


def _areas(rng: np.random.Generator, totals: StateTotals, blocks: Ints) -> Ints:
    """The code of the American Indian, Alaska Native or Native Hawaiian area of each block; 9999:
    none."""
    usps = totals.state.usps
    of = totals.races[:, RACES.index("nhpi" if usps == "HI" else "aian")] / totals.persons
    cover, start = np.minimum(0.9, 3 * of), rng.random(len(blocks))
    code, before = np.full(int(blocks.sum()), _NO_AREA), np.cumsum(blocks) - blocks
    for number, c in enumerate(np.flatnonzero(of >= AIAN_FROM)):
        long = max(1, int(cover[c] * blocks[c]))
        first = int(before[c]) + int(start[c] * (blocks[c] - long + 1))
        code[first : first + long] = _FIRST_CODE.get(usps, _RESERVATION) + number
    return code
