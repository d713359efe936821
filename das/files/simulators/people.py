"""A simulated population: random numbers, the places of a state, and the people in them.

A state is drawn as places first, then people one by one. Each draw is a uniform number looked up in
a cumulative distribution. So files depend on the seed alone, not on how a library samples a
binomial. No person drawn is real, but the shape is realistic: sizes are skewed at each level, and a
third of the blocks are empty. Some blocks have only group quarters. Counties, tracts and blocks are
segregated, and people combine up to six races."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from das.errors import InputError
from das.model.names import STATES, State

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Districts of each kind in a state; the houses of the legislature have borders of their own.
SEATS = {"CD": 2, "SLDU": 5, "SLDL": 12}
MINIMUM = 1_000  #: persons in a state: enough for every feature to occur

_COMBINATIONS = [c for n in range(1, 7) for c in combinations(range(6), n)]
_MEMBER = np.array([[r in c for c in _COMBINATIONS] for r in range(6)], dtype=float)
NUMBER_OF_RACES = _MEMBER.sum(axis=0).astype(np.int64)
#: White, Black, AIAN, Asian, NHPI, Some Other Race alone: national shares of 2010.
_SHARE = np.array([0.724, 0.126, 0.009, 0.048, 0.002, 0.062])
#: How common a combination of n races is, against the geometric mean of its races' shares.
_MIXING = np.array([0, 1, 0.022, 0.0012, 0.0003, 0.0003, 0.0005])
#: How likely people of each combination are Hispanic, against the place's share.
HISPANIC_FACTOR = (np.array([1.0, 0.25, 1.4, 0.2, 0.8, 6.0]) @ _MEMBER) / NUMBER_OF_RACES
#: Share of adults by kind of dwelling, in the order of the hhgq attribute; nobody under 18 in
#: nursing homes.
ADULTS = np.array([0.77, 1.0, 0.05, 1.0, 0.6, 0.985, 1.0, 0.9])
FACILITY_SIZE = np.array([0, 4.0, 0.5, 1.2, 0.6, 5.0, 2.5, 0.8])


# --- random numbers


def generator(*key: int) -> np.random.Generator:
    """``key`` begins with the seed. Raises :class:`InputError` for one below 0."""
    if key[0] < 0:
        raise InputError(f"seed {key[0]}", where="simulate", remedy="give a seed of 0 or more")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))


def skewed(rng: np.random.Generator, size: int | tuple[int, ...], sigma: float) -> Floats:
    """Log-normal weights, by Box and Muller from uniform numbers."""
    u, v = rng.random(size), rng.random(size)
    return np.exp(sigma * np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v))


def zipf(size: int, power: float) -> Floats:
    """Weights that fall with their rank, as Zipf's law has it."""
    return np.exp(-power * np.log(np.arange(1.0, size + 1)))


def choose(rng: np.random.Generator, weights: Floats, size: int) -> Ints:
    """``size`` draws from the categories ``0..len(weights)-1``."""
    cdf = np.cumsum(weights)
    return np.minimum(
        np.searchsorted(cdf, rng.random(size) * cdf[-1], side="right"), len(cdf) - 1
    ).astype(np.int64)


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


def rank_in_group(counts: Ints) -> Ints:
    """0, 1, 2, ... in each group, for groups of the given sizes."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


# --- states


def state_sizes(seed: int, states: int, persons: int) -> list[tuple[State, int]]:
    """Which states, and how many persons in each: sizes fall off like Zipf's law, and add up to
    ``persons``.

    Raises :class:`InputError` for a number of states or persons that cannot be simulated."""
    nation = [s for s in STATES if s.division]
    if not 1 <= states <= len(nation):
        raise InputError(f"{states} states", where="simulate", remedy=f"ask for 1 to {len(nation)}")
    if persons < MINIMUM * states:
        raise InputError(
            f"{persons} persons in {states} states",
            where="simulate",
            remedy=f"ask for at least {MINIMUM * states}, {MINIMUM} a state",
        )
    rng = generator(seed, 0)
    drawn = np.argsort(rng.random(len(nation)), kind="stable")[:states]
    weight = skewed(rng, states, 0.3) / (1 + np.arange(states)) ** 0.7
    edge = np.round(np.cumsum(weight) / weight.sum() * (persons - MINIMUM * states)).astype(
        np.int64
    )
    sizes = MINIMUM + np.diff(edge, prepend=0)
    return sorted((nation[i], int(n)) for i, n in zip(drawn, sizes, strict=True))


# --- places


@dataclass(frozen=True, eq=False)
class SimulatedBlocks:
    """The blocks of a state in order of their code; arrays of shape ``(blocks,)``.

    ``county``, ``cousub``, ``tract``, ``group``, ``place`` (-1: none) and ``vtd`` are the numbers
    of the units that contain a block. The ``*_code`` arrays hold official-looking numbers.
    ``seats``: districts of each kind in the state."""

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
    county_code: Ints
    vtd: Ints
    vtd_code: Ints
    seats: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.county)

    def district(self, kind: str, block: Ints) -> Ints:
        """The district of some blocks: runs of equally many blocks, that heed no place or block
        group. -1: no such house."""
        return (
            block * self.seats[kind] // len(self) if self.seats[kind] else np.full(len(block), -1)
        )


def _draw_tracts(rng: np.random.Generator, counties: int, groups: int) -> tuple[Ints, Ints, Ints]:
    """The county and code of each tract, and how many block groups it has. Every other county has
    a tract of water, of one."""
    tracts = spread(rng, max(counties, round(groups / 2.6)), skewed(rng, counties, 0.9))
    number, wet = rank_in_group(tracts), np.arange(0, counties, 2)
    county = np.concatenate([np.repeat(np.arange(counties), tracts), wet])
    code = np.concatenate([100 * (number + 1) + 2 * (number % 5 == 4), np.full(len(wet), 990000)])
    block_groups = 1 + choose(rng, np.array([0.12, 0.3, 0.3, 0.18, 0.07, 0.03]), len(code))
    order = np.lexsort((code, county))
    county, code = county[order], code[order]
    block_groups[code == 990000] = 1
    return county, code, block_groups


def draw_places(rng: np.random.Generator, blocks: int, reservations: int) -> SimulatedBlocks:
    groups = max(6, round(blocks / np.clip(blocks**0.5 / 4, 5, 31)))
    counties = max(2, min(150, round((groups / 2.6) ** 0.5)))
    t_county, t_code, t_groups = _draw_tracts(rng, counties, groups)
    g_tract = np.repeat(np.arange(len(t_code)), t_groups)
    g_water = t_code[g_tract] == 990000
    g_digit = np.where(g_water, 0, rank_in_group(t_groups) + 1)
    g_blocks = np.ones(len(g_tract), dtype=np.int64)
    g_blocks[~g_water] = np.minimum(
        spread(rng, blocks, skewed(rng, int((~g_water).sum()), 0.6)), 998
    )
    g_blocks[g_water] += choose(rng, np.ones(3), int(g_water.sum()))
    g_county = t_county[g_tract]
    size = np.bincount(g_county)
    parts = 1 + choose(rng, np.ones(4), counties)
    g_cousub = 4 * g_county + rank_in_group(size) * parts[g_county] // size[g_county]

    group = np.repeat(np.arange(len(g_tract)), g_blocks)
    tract = g_tract[group]
    n = len(group)
    return SimulatedBlocks(
        t_county[tract],
        g_cousub[group],
        tract,
        group,
        _runs(rng, n),
        t_code[tract],
        g_digit[group],
        1000 * g_digit[group] + rank_in_group(g_blocks) + (g_digit[group] == 0),
        _reservations(rng, n, reservations),
        g_water[group] | (rng.random(n) < 0.055),
        1 + 2 * t_county[tract],
        np.full(n, -1),
        np.full(n, -1),
        SEATS,
    )


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


# --- people


@dataclass(frozen=True, eq=False)
class Population:
    """What is counted in each block: ``counts`` ``(blocks, 2, 2, 63)`` persons by voting age,
    Hispanic and race; ``quarters`` ``(blocks, 8)`` by dwelling; ``homes`` ``(blocks, 2)`` occupied
    and vacant units."""

    counts: Ints
    quarters: Ints
    homes: Ints


def draw_population(rng: np.random.Generator, at: SimulatedBlocks, persons: int) -> Population:
    lived_in, quiet, facility = _uses(rng, at)
    kind = 1 + rank_in_group(np.array([len(facility)])) % 7
    inmates = np.zeros(len(at), dtype=np.int64)
    inmates[facility] = spread(
        rng, round(0.028 * persons), skewed(rng, len(facility), 0.9) * FACILITY_SIZE[kind]
    )
    weight = (
        skewed(rng, at.county.max() + 1, 0.6)[at.county]
        * skewed(rng, at.tract.max() + 1, 0.4)[at.tract]
        * skewed(rng, at.group.max() + 1, 0.3)[at.group]
        * skewed(rng, len(at), 1.0)
        * lived_in
    )
    housed = choose(rng, weight, persons - int(inmates.sum()))
    dwelling = np.zeros(len(at), dtype=np.int64)
    dwelling[facility] = kind
    block = np.concatenate([housed, np.repeat(np.arange(len(at)), inmates)])
    hhgq = np.concatenate([np.zeros(len(housed), dtype=np.int64), np.repeat(dwelling, inmates)])

    effects = ((at.county, 0.7), (at.tract, 0.8), (np.arange(len(at)), 0.5))
    share = vary(rng, np.tile(_SHARE, (len(at), 1)), effects)
    share[at.aian_code != 9999, 2] *= 60
    race = choose_by_row(rng, combined(share), block)
    race[:2] = 62, 57  # the rarest combinations occur in every state
    hispanic = rng.random(len(block)) < _hispanic_rate(rng, at)[block] * HISPANIC_FACTOR[race]
    adult = rng.random(len(block)) < adult_rate(ADULTS[0], hhgq, hispanic, race)
    cell = ((block * 2 + adult) * 2 + hispanic) * 63 + race
    counts = np.bincount(cell, minlength=252 * len(at)).reshape(len(at), 2, 2, 63)
    quarters = np.bincount(block * 8 + hhgq, minlength=8 * len(at)).reshape(len(at), 8)
    return Population(counts, quarters, _homes(rng, housed, quarters[:, 0], quiet))


def _uses(rng: np.random.Generator, at: SimulatedBlocks) -> tuple[NDArray[np.bool_], Ints, Ints]:
    """Which blocks have households; which are empty land; which hold group quarters (some of them
    alone)."""
    land = np.flatnonzero(~at.water)
    shuffled = land[np.argsort(rng.random(len(land)), kind="stable")]
    n = len(land)
    alone, mixed = max(2, n // 250), max(6, n // 80)
    empty = alone + max(2, int((0.24 + 0.1 * rng.random()) * n))
    lived_in = ~at.water
    lived_in[shuffled[:empty]] = False
    facility = np.sort(np.concatenate([shuffled[:alone], shuffled[empty : empty + mixed]]))
    return lived_in, shuffled[alone:empty], facility


def vary(rng: np.random.Generator, share: Floats, effects: Sequence[tuple[Ints, float]]) -> Floats:
    """Weights of the six races in each block, ``(blocks, 6)``, times log-normal effects of the
    units that contain it. An effect is given by the unit of every block, and the standard deviation
    of its logarithm."""
    for unit, sigma in effects:
        share = share * skewed(rng, (int(unit.max()) + 1, 6), sigma)[unit]
    return share


def combined(share: Floats) -> Floats:
    """From weights of the six races to weights of their 63 combinations, ``(blocks, 63)``."""
    return np.exp(np.log(share) @ (_MEMBER / NUMBER_OF_RACES)) * _MIXING[NUMBER_OF_RACES]


def adult_rate(
    household: Floats | float, hhgq: Ints, hispanic: NDArray[np.bool_], race: Ints
) -> Floats:
    """How likely each person is of voting age: by the kind of dwelling, in a ``household`` also by
    origin and race."""
    return np.where(hhgq == 0, household - 0.11 * hispanic - 0.2 * (race > 5), ADULTS[hhgq])


def _hispanic_rate(rng: np.random.Generator, at: SimulatedBlocks) -> Floats:
    county = 0.03 + 0.4 * rng.random(int(at.county.max()) + 1) ** 3
    return np.minimum(county[at.county] * skewed(rng, int(at.tract.max()) + 1, 0.4)[at.tract], 0.9)


def _homes(rng: np.random.Generator, housed: Ints, residents: Ints, quiet: Ints) -> Ints:
    """Occupied and vacant housing units: 2.6 persons a household, a tenth vacant, some seasonal
    homes."""
    heads = np.bincount(housed[rng.random(len(housed)) < 0.385], minlength=len(residents))
    occupied = np.where(residents > 0, np.maximum(heads, 1), 0)
    vacant = (
        occupied * 0.2 * rng.random(len(residents)) + (occupied > 0) * rng.random(len(residents))
    ).astype(np.int64)
    vacant[quiet] = np.maximum(0, (rng.random(len(quiet)) * 24).astype(np.int64) - 20)
    return np.stack([occupied, vacant], axis=1)


# The tables of redistricting files, from simulated people: P1 to P4, H1, and P5 (which 2010 calls
# P42 in Summary File 1).
#
# Sources: 2010 and 2020 Census Redistricting Data (P.L. 94-171) Summary Files, chapter 6; Summary
# File 1 of 2010, chapter 6.


def race_cells(people: Ints) -> list[Ints]:
    """Persons by the 63 combinations of races, ``(63, rows)``, to the 71 cells of table P1: a
    total, then a sub-total before each number of races."""
    counts = [people[n == NUMBER_OF_RACES] for n in range(1, 7)]
    sums = [part.sum(axis=0) for part in counts]
    several = sums[1] + sums[2] + sums[3] + sums[4] + sums[5]
    cells = [sums[0] + several, sums[0], *counts[0], several]
    for total, parts in zip(sums[1:], counts[1:], strict=True):
        cells += [total, *parts]
    return cells


def origin_cells(people: Ints) -> list[Ints]:
    """Persons by not Hispanic and Hispanic, and race, ``(2, 63, rows)``, to the cells of P1 and P2,
    71 + 73."""
    everyone, other = race_cells(people.sum(axis=0)), race_cells(people[0])
    return [*everyone, everyone[0], everyone[0] - other[0], *other]


def home_cells(homes: Ints) -> list[Ints]:
    """Occupied and vacant units, ``(2, rows)``, to the cells of H1: all, occupied, vacant."""
    return [homes[0] + homes[1], homes[0], homes[1]]


def quarters_cells(people: Ints) -> list[Ints]:
    """Persons by type of dwelling, ``(8, rows)``, to the ten cells of P5: those in group quarters,
    by type."""
    institutional, other = people[1:5].sum(axis=0), people[5:8].sum(axis=0)
    return [institutional + other, institutional, *people[1:5], other, *people[5:8]]


def delimited(columns: Sequence[pa.Array], delimiter: str) -> bytes:
    """Records of text without quotation marks or names; a missing value is empty."""
    out = io.BytesIO()
    options = csv.WriteOptions(
        include_header=False, quoting_style="none", delimiter=delimiter, batch_size=1 << 14
    )
    csv.write_csv(
        pa.table(list(columns), names=[str(i) for i in range(len(columns))]), out, options
    )
    return out.getvalue()
