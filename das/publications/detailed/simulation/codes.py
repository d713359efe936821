"""Made-up codes of race and ethnicity, and the groups that contain them: as many as in 2020, and
arranged in the same way.

There are 1,755 codes. All except one belong to one detailed group of race, and nearly all to one
regional group. There are 2,996 tabulated iterations: alone, in combination, and of ethnicity. Some
have only a total, for nations and states. No name is real. With fewer codes everything shrinks in
proportion. The budgets are those of 2020.

Source for numbers and budgets: Haney et al. (2024), *SafeTab-P*, sections 2 and 6, tables 2 and
7."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from das.errors import InputError
from das.files import atomic
from das.files.simulators.header import StateTotals, share_out, totals
from das.files.simulators.nation_people import draw_state
from das.files.simulators.people import Floats, Ints, skewed, zipf
from das.model.names import STATES, State
from das.publications.detailed.files import config, geography, parameters
from das.publications.detailed.model.iterations import REGIONS, GroupLevel
from das.publications.detailed.model.tables import AdaptiveTable, Product

#: Codes, as in 2020, and the fewest that have every kind of group.
CODES, LEAST_CODES = 1755, 40
FIRST_CODE, NOT_HISPANIC = 1000, 9950
#: Of 1,754 codes of race: detailed groups, those with totals only both ways and "alone" alone, and
#: those in no regional group.
_GROUPS, _ONLY, _ALONE_ONLY, _APART = 1457, 354, 83, 17
_REGIONS, _REGIONS_ONLY = 24, 2
#: Of these codes those that are Hispanic, and their detailed groups; regional groups have all but
#: the first of these.
_HISPANIC, _ORIGINS, _ORIGINS_ONLY, _ORIGIN_REGIONS = 162, 30, 3, 4
_MAJOR = 6
#: Steps between codes: there is room for codes that are of nobody.
_STEP = 5

PAIR = {"alone": "True", "alone or in any combination": "False"}
FREE, ONLY, UNTABULATED = ("False", "False"), ("True", "False"), ("Null", "Null")

# --- codes


@dataclass(frozen=True, eq=False)
class _Group:
    """An iteration or, of race, a pair: its codes by their places, and the flags of those alone and
    in combination."""

    name: str
    level: int
    codes: Ints
    alone: tuple[str, str]
    combined: tuple[str, str]


def tables(codes: int = CODES) -> dict[str, str]:
    """The files of code tables, by name. Raises :class:`InputError` for a number of codes that
    cannot be."""
    if not LEAST_CODES <= codes <= CODES:
        raise InputError(
            f"{codes} codes", where="simulate", remedy=f"ask for {LEAST_CODES} to {CODES}"
        )
    number = FIRST_CODE + _STEP * np.arange(codes - 1)
    races, origins = list(_races(codes - 1)), list(_origins(codes - 1))
    race = list[list[str]]()
    ethnicity = list[list[str]]()
    members = list[list[str]]()
    iteration = 1000
    for group in races:
        for (words, alone), flags in zip(PAIR.items(), (group.alone, group.combined), strict=True):
            iteration += 1
            race.append([str(iteration), f"{group.name} {words}", str(group.level), alone, *flags])
            members += [[str(iteration), str(number[c])] for c in group.codes]
    for group in origins:
        iteration += 1
        ethnicity.append([str(iteration), group.name, str(group.level), *group.combined])
        members += [[str(iteration), str(number[c])] for c in group.codes]
    members.append([str(iteration), str(NOT_HISPANIC)])  # the last is that of nobody Hispanic
    names = [[str(n), f"Simulated {n}"] for n in number] + [
        [str(NOT_HISPANIC), "Simulated: not Hispanic"]
    ]
    last = ("DETAILED_ONLY", "COARSE_ONLY")
    return {
        parameters.CODES: _text(("RACE_ETH_CODE", "RACE_ETH_NAME"), names),
        parameters.RACE: _text(("ITERATION_CODE", "ITERATION_NAME", "LEVEL", "ALONE", *last), race),
        parameters.ETHNICITY: _text(
            ("ITERATION_CODE", "ITERATION_NAME", "LEVEL", *last), ethnicity
        ),
        parameters.MEMBERS: _text(("ITERATION_CODE", "RACE_ETH_CODE"), members),
    }


def _races(codes: int) -> Iterator[_Group]:
    """Major groups, regional ones, and detailed ones, as runs of codes: each detailed group is in
    one regional group or in none."""
    for i, part in enumerate(np.array_split(np.arange(codes), _MAJOR), 1):
        yield _Group(f"Race {i}", 0, part, UNTABULATED, UNTABULATED)
    groups = _part(_GROUPS, codes, 12)
    group = np.repeat(np.arange(groups), share_out(codes, zipf(groups, 1.5), least=1))
    regions, apart = _part(_REGIONS, codes, 3), _part(_APART, codes, 1)
    size = share_out(groups - apart, zipf(regions, 1.2), least=2)
    region = np.repeat(np.arange(regions), size)[
        ::-1
    ]  # of each group but the last: small ones have the largest groups
    for i in range(regions):
        flags = ONLY if i < _part(_REGIONS_ONLY, codes, 1) else FREE
        yield _Group(
            f"Region {i + 1}",
            1,
            np.flatnonzero(np.append(region, [-1] * apart)[group] == i),
            flags,
            flags,
        )
    only, alone = _part(_ONLY, codes, 1), _part(_ALONE_ONLY, codes, 1)
    for i in range(groups):
        last = groups - i  # those of one code
        yield _Group(
            f"Group {i + 1}",
            2,
            np.flatnonzero(group == i),
            ONLY if last <= only + alone else FREE,
            ONLY if last <= only else FREE,
        )


def _origins(codes: int) -> Iterator[_Group]:
    """Groups of ethnicity: the last codes are Hispanic. Those of the first detailed group are in no
    regional one."""
    count, groups = _part(_HISPANIC, codes, 8), _part(_ORIGINS, codes, 4)
    group = np.repeat(np.arange(groups), share_out(count, zipf(groups, 1), least=1))
    hispanic, regions = np.arange(codes - count, codes), _part(_ORIGIN_REGIONS, codes, 2)
    yield _Group("Hispanic", 0, hispanic, UNTABULATED, UNTABULATED)
    for i in range(regions):
        inside = (group > 0) & ((group - 1) * regions // (groups - 1) == i)
        yield _Group(f"Origin region {i + 1}", 1, hispanic[inside], FREE, FREE)
    for i in range(groups):
        flags = ONLY if groups - i <= _part(_ORIGINS_ONLY, codes, 1) else FREE
        yield _Group(f"Origin {i + 1}", 2, hispanic[group == i], flags, flags)
    yield _Group("Not Hispanic", 0, np.arange(codes - count), UNTABULATED, UNTABULATED)


def _part(of_all: int, codes: int, least: int) -> int:
    """The number of something for ``codes`` codes, if the full set has ``of_all``; ``least`` or
    more."""
    return max(least, round(of_all * codes / (CODES - 1)))


def _text(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join("|".join(row) + "\n" for row in (columns, *rows))


# --- the configuration

#: The budget of 2020 by product, for detailed groups of nations and states, those below, and
#: regional groups.
_SPENT = {"persons": (2.134, 0.159, 0.008), "households": (1.9208, 0.142869, 0.006915)}
#: Thresholds of the same.
_THRESHOLDS = ([471, 971, 6971], [971, 4971, 19971], [4971, 19971, 149971])
_FIRST, _CHANCE = 0.1, 0.9999
#: Regional groups of these are not tabulated.
_NOT_REGIONAL = "AIANNH"


def settings(product: Product, states: Sequence[State]) -> dict[str, Any]:
    """What ``config.json`` says, with budgets and thresholds of 2020."""
    out: dict[str, Any] = {"max_race_codes": 8}
    levels = [at for run in REGIONS for at in GroupLevel.of_run(run)]
    for table in product.tables:
        out |= {config.budget_key(product, table, at): _budget(product, at) for at in levels}
    for table in product.tables:
        key = product.letter if len(product.tables) == 1 else f"{product.letter}_{table.name}"
        out[f"thresholds_{key}"] = {at.key: _thresholds(table, at) for at in levels}
    if product.staged:
        out |= {
            f"privacy_budget_{product.letter}_stage_1_fraction": _FIRST,
            "zero_suppression_chance": _CHANCE,
        }
    return out | {"allow_negative_counts": True, "privacy_defn": "zcdp"} | _where(states)


def _budget(product: Product, at: GroupLevel) -> float:
    fine, coarse, regional = _SPENT[product.name]
    if at.level == 1:
        return 0 if at.region == _NOT_REGIONAL else regional
    return fine if at.fine else coarse


def _thresholds(table: AdaptiveTable, at: GroupLevel) -> list[int]:
    fine, coarse, regional = _THRESHOLDS
    return (regional if at.level == 1 else fine if at.fine else coarse)[: len(table.sizes) - 1]


def _where(states: Sequence[State]) -> dict[str, Any]:
    """The configuration's runs, their states and their files."""
    us = [s.fips for s in states if s.division]
    return {"run_us": bool(us), "run_pr": len(us) < len(states), "reader": "csv"} | (
        {"state_filter_us": us} if us else {}
    )


def write(
    folder: Path, product: Product, states: Sequence[State], codes: int, given: Path | None = None
) -> None:
    """A folder of parameters; with code tables, and budgets for the same product, of the folder
    ``given``."""
    said: Mapping[str, Any] = settings(product, states)
    if given is None:
        files = {name: text.encode() for name, text in tables(codes).items()}
    else:
        files = {name: (given / name).read_bytes() for name in parameters.FILES[1:]}
        found = json.loads((given / config.FILE).read_text(encoding="utf-8-sig"))
        if any(key.startswith(f"privacy_budget_{product.letter}_") for key in found):
            said = found | _where(states)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        atomic.write_bytes(folder / name, data)
    atomic.write_text(folder / config.FILE, json.dumps(said, indent=2) + "\n")


# The blocks of a state for the Detailed DHC, and the number of people in each: ``GRF-C.txt``.
#
# Places are those of the simulated nation (:mod:`das.files.simulators.nation_people`). Puerto Rico
# has totals of its own, close to those of 2020; its municipios are made up. American Indian areas can
# cross state borders: the first area of each state continues those of its division.

PUERTO_RICO = STATES[-1]
#: Of 2020, about: persons, counties, tracts, block groups, blocks.
_PUERTO_RICO = (3_285_874, 78, 939, 2_555, 41_987)
#: Names that stand for a list of states.
ALL = "ALL"
#: Standard deviations of the logarithm of a block's persons, between block groups and in them; the
#: share where nobody lives.
_GROUP_SIZE, _BLOCK_SIZE, EMPTY = 0.42, 1.05, 0.27
_RESERVATION, _OF_STATE = 10, 80


@dataclass(frozen=True, eq=False)
class GroupBlocks:
    """``(blocks,)``: the columns of ``GRF-C.txt`` as numbers, the ``persons`` of each, and its
    tract, numbered from 0."""

    columns: dict[str, Ints]
    persons: Ints
    tract: Ints

    def __len__(self) -> int:
        return len(self.persons)


def chosen(states: str) -> list[State]:
    """States by their postal abbreviations, PR among them, or ``all``. Raises :class:`InputError`
    for one that is none."""
    known = {s.usps: s for s in STATES}
    wanted = list(known) if states.upper() == ALL else states.upper().split(",")
    if wrong := [s for s in wanted if s not in known]:
        raise InputError(
            f"{wrong[0]!r} is no state",
            where="--states",
            remedy="give postal abbreviations, PR among them, as AZ,RI,PR; or all",
        )
    return [s for usps, s in known.items() if usps in wanted]


def state_totals(state: State, share: float = 1.0) -> StateTotals:
    """The totals of a state or of Puerto Rico, or of a share of it."""
    if state.division:
        return totals(state, share)
    persons, counties, tracts, groups, blocks = _PUERTO_RICO
    tracts, groups, blocks = (
        max(least, round(share * n)) for least, n in ((2, tracts), (4, groups), (60, blocks))
    )
    counties = min(counties, max(1, tracts // 2))
    people = share_out(max(600, round(share * persons)), zipf(counties, 0.6), least=1)
    none = np.zeros(counties, dtype=np.int64)
    return StateTotals(
        state,
        tracts,
        groups,
        blocks,
        {},
        1 + 2 * np.arange(counties),
        people,
        none,
        none,
        np.zeros((counties, 6), dtype=np.int64),
        none,
        none,
        none,
    )


def draw_blocks(rng: np.random.Generator, totals: StateTotals, persons: int) -> GroupBlocks:
    """The blocks of a state, with ``persons`` people."""
    at = draw_state(rng, totals)
    n = len(at)
    weight = skewed(rng, n, _BLOCK_SIZE) * (rng.random(n) >= EMPTY) * ~at.water
    weight *= skewed(rng, int(at.group[-1]) + 1, _GROUP_SIZE)[at.group]
    county = np.bincount(at.county, weight)
    weight *= (totals.persons / np.maximum(county, 1e-9))[at.county]
    columns = {
        "TABBLKST": np.full(n, int(totals.state.fips)),
        "TABBLKCOU": at.county_code,
        "TABTRACTCE": at.tract_code,
        "TABBLK": at.block_code,
        "PLACEFP": np.where(at.place < 0, geography.NO_PLACE, 100 + 20 * at.place),
        "AIANNHCE": _areas(totals.state, at.aian_code),
    }
    return GroupBlocks(columns, _shared(persons, weight), at.tract)


def _areas(state: State, code: Ints) -> Ints:
    """Reservations have a number in each state; here, codes in the nation."""
    number = code - _RESERVATION
    own = _RESERVATION + int(state.fips) * _OF_STATE + np.minimum(number, _OF_STATE - 1)
    return np.where(number >= 1000, code, np.where(number == 0, state.division, own))


def _shared(total: int, weight: Floats) -> Ints:
    """``total`` persons in proportion to ``weight``, rounded along the blocks."""
    edge = np.cumsum(weight)
    if edge[-1] <= 0:
        edge = np.arange(1, len(weight) + 1, dtype=np.float64)
    steps = np.floor(edge / edge[-1] * total).astype(np.int64)
    steps[edge >= edge[-1]] = total
    return np.diff(steps, prepend=0)
