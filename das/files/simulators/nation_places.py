"""The places of a simulated state of 2020: as many counties, tracts, block groups and blocks as it
has, and areas across them.

Tracts follow the persons of a county; block groups, a few in every tract, and blocks, heavy-tailed
in every block group, are drawn. Counties of many persons have fewer blocks a person than others.
Water has tracts of its own in some counties. County subdivisions are runs of block groups; voting
districts nest in counties, and cities cross everything but the state. In counties where many are
American Indian or Alaska Native one area covers a run of blocks, and in Hawaii home lands do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.files.simulators.people import Ints, SimulatedBlocks, rank_in_group, skewed
from das.files.simulators.totals import RACES, StateTotals, share_out

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
    """Of each block, given how many each county has: the number of its voting district, and its
    code in the county.
    """
    number = np.maximum(1, blocks // BLOCKS_PER_VTD)
    county = np.repeat(np.arange(len(blocks)), blocks)
    inside = rank_in_group(blocks) * number[county] // blocks[county]
    return (np.cumsum(number) - number)[county] + inside, inside + 1


def _towns(rng: np.random.Generator, n: int) -> Ints:
    """Cities and towns: runs of blocks of very different lengths, that hold about two thirds of
    them. -1: none.
    """
    length = skewed(rng, 20 + 4 * n // BLOCKS_PER_TOWN, 1.2)
    ends = np.cumsum(1 + (length / length.mean() * BLOCKS_PER_TOWN).astype(np.int64))
    run = np.searchsorted(ends, np.arange(n), side="right")
    inside = rng.random(int(run[-1]) + 1) < 0.65
    inside[0] = True
    return np.where(inside[run], (np.cumsum(inside) - 1)[run], -1)


def _areas(rng: np.random.Generator, totals: StateTotals, blocks: Ints) -> Ints:
    """The code of the American Indian, Alaska Native or Native Hawaiian area of each block; 9999:
    none.
    """
    usps = totals.state.usps
    of = totals.races[:, RACES.index("nhpi" if usps == "HI" else "aian")] / totals.persons
    cover, start = np.minimum(0.9, 3 * of), rng.random(len(blocks))
    code, before = np.full(int(blocks.sum()), _NO_AREA), np.cumsum(blocks) - blocks
    for number, c in enumerate(np.flatnonzero(of >= AIAN_FROM)):
        long = max(1, int(cover[c] * blocks[c]))
        first = int(before[c]) + int(start[c] * (blocks[c] - long + 1))
        code[first : first + long] = _FIRST_CODE.get(usps, _RESERVATION) + number
    return code
