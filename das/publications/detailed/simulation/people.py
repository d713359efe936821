"""Who lives in the blocks of a state: codes of race and ethnicity, ages and sexes; and the
households that are headed there.

Most people write one code, few have eight. The first is drawn from the mixture of a tract. A code's
weight in it starts from its frequency in the nation (Zipf's law, in an order of its own for each
seed). Two log-normal effects of the tract multiply it: one on the code and one on its regional
group, so that groups cluster. The next codes are drawn from the mixture of the same tract or,
equally often, from that of the nation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.files.simulators.people import Floats, Ints, choose, choose_by_row, generator, skewed, zipf
from das.model.constraint import packed
from das.model.names import text
from das.publications.detailed.files import geography, records, totals
from das.publications.detailed.model.iterations import (
    ACROSS,
    NO_CODE,
    RACE_CODES,
    GroupLevel,
    Kind,
    Regions,
    groups_of,
)
from das.publications.detailed.model.tables import OLDEST, Parameters

#: Shares of people by how many codes of race they write down.
MANY = np.array([0.72, 0.17, 0.065, 0.025, 0.01, 0.006, 0.003, 0.001])
#: How fast codes grow rare by their rank; and standard deviations of the logarithms of a tract's
#: effects.
_ZIPF, _ON_GROUP, _ON_CODE = 1.1, 0.8, 1.0
_FROM_NATION, HISPANIC, _ORIGIN_SPREAD = 0.5, 0.19, 0.8
#: Shares of ages 0-9, 10-19, ...; the last ones live to 115.
_AGES = np.array([12.0, 13.0, 13.6, 13.6, 12.2, 12.3, 11.6, 7.4, 3.4, 0.8, 0.1])
_ADULT, _HEADS = 18, 0.5
_TYPES, _TENURES = np.array([0.47, 0.05, 0.13, 0.28, 0.07]), np.array([0.41, 0.24, 0.33, 0.02])

RecordColumns = dict[str, Ints]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Codes of race, how common each is in the nation, and the regional group of each, numbered
    from 0; codes of ethnicity that are Hispanic and how common each is; and one that is not."""

    race: NDArray[np.int16]
    weight: Floats
    group: Ints
    origin: NDArray[np.int16]
    origin_weight: Floats
    neither: int

    @staticmethod
    def from_parameters(parameters: Parameters, seed: int) -> Mixture:
        """From any code tables. A code of no group of race is of ethnicity alone."""
        i, rng = parameters.iterations, generator(seed, 0)
        kind, level = i.kind[i.member], i.level[i.member]
        race = np.unique(i.race_code[kind != Kind.ETHNICITY])
        origin = np.unique(i.race_code[(kind == Kind.ETHNICITY) & (level > 0)])
        regional = np.unique(
            np.stack([i.race_code, i.member])[:, (kind == Kind.COMBINATION) & (level == 1)], axis=1
        )
        group = np.arange(10_000)
        group[regional[0]] = 10_000 + regional[1]
        every = np.unique(i.race_code)
        others = np.setdiff1d(every, np.union1d(race, origin))
        neither = others if len(others) else np.setdiff1d(every, origin)
        return Mixture(
            race,
            _common(rng, len(race)),
            np.unique(group[race], return_inverse=True)[1],
            origin,
            _common(rng, len(origin)),
            int(neither[0] if len(neither) else every[0]),
        )


def _common(rng: np.random.Generator, n: int) -> Floats:
    """How common each of n codes is: by a rank, in no order."""
    return zipf(n, _ZIPF)[np.argsort(rng.random(n), kind="stable")]


def draw_codes(
    rng: np.random.Generator, mixture: Mixture, tract: Ints
) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """Codes of race ``(people, 8)`` and of ethnicity, of people who live in these tracts, numbered
    from 0 without gaps."""
    tracts = int(tract.max(initial=0)) + 1
    here = mixture.weight * skewed(rng, (tracts, len(mixture.race)), _ON_CODE)
    here *= skewed(rng, (tracts, int(mixture.group.max()) + 1), _ON_GROUP)[:, mixture.group]
    many = 1 + choose(rng, MANY, len(tract))
    codes = np.full((len(tract), RACE_CODES), NO_CODE, dtype=np.int16)
    some = np.arange(len(tract))
    for place in range(RACE_CODES):
        some = some[many[some] > place]
        drawn = choose_by_row(rng, here, tract[some])
        if place:
            afar = np.flatnonzero(rng.random(len(some)) < _FROM_NATION)
            drawn[afar] = choose(rng, mixture.weight, len(afar))
        found = mixture.race[drawn]
        again = (codes[some, :place] == found[:, None]).any(axis=1)
        many[some[again]] = place  # nobody writes a code twice
        codes[some[~again], place] = found[~again]
    return codes, _origins(rng, mixture, tract)


def _origins(rng: np.random.Generator, mixture: Mixture, tract: Ints) -> NDArray[np.int16]:
    out = np.full(len(tract), mixture.neither, dtype=np.int16)
    if len(mixture.origin):
        rate = np.minimum(
            0.95, HISPANIC * skewed(rng, int(tract.max(initial=0)) + 1, _ORIGIN_SPREAD)
        )
        some = np.flatnonzero(rng.random(len(tract)) < rate[tract])
        out[some] = mixture.origin[choose(rng, mixture.origin_weight, len(some))]
    return out


def draw_persons(rng: np.random.Generator, codes: NDArray[np.int16]) -> RecordColumns:
    """The other columns of persons: ``QAGE``, ``QSEX``, ``HOUSEHOLDER``, ``CENRACE``."""
    n = len(codes)
    decade = choose(rng, _AGES, n)
    age = np.minimum(
        10 * decade + (rng.random(n) * np.where(decade == 10, 16, 10)).astype(np.int64), OLDEST
    )
    woman = rng.random(n) < 0.49 + 0.0015 * np.maximum(0, age - 40)
    head = (age >= _ADULT) & (rng.random(n) < _HEADS)
    return {
        "QAGE": age,
        "QSEX": 1 + woman,
        "HOUSEHOLDER": head.astype(np.int64),
        "CENRACE": race_of(codes),
    }


def draw_homes(rng: np.random.Generator, codes: NDArray[np.int16]) -> RecordColumns:
    """The columns of households: ``HOUSEHOLD_TYPE``, ``TEN``, ``HHRACE``."""
    n = len(codes)
    return {
        "HHRACE": race_of(codes),
        "HOUSEHOLD_TYPE": 1 + choose(rng, _TYPES, n),
        "TEN": 1 + choose(rng, _TENURES, n),
    }


def race_of(codes: NDArray[np.signedinteger[Any]]) -> Ints:
    """Some race from 1 to 63: one of six for a person who wrote one code, one of the other races
    for the rest."""
    one, two = (np.maximum(0, codes[:, i].astype(np.int64) // 1000 - 1) for i in (0, 1))
    return np.where(codes[:, 1] == NO_CODE, 1 + one % 6, 7 + (one * 8 + two) % 57)


# ``pop-group-totals.txt`` for simulated households: totals of groups of persons, as they could
# have been published before.
#
# They have no noise. A group has as many persons as its households would have, and is listed if its
# total is above the threshold for publication.

PERSONS_A_HOME, LEAST = 2.53, 21

CountedGroups = tuple[NDArray[np.int64], NDArray[np.int64]]


def write(folder: Path, parameters: Parameters) -> None:
    """From the households in the folder."""
    regions = geography.regions(folder, parameters)
    levels = [
        at
        for run in parameters.runs
        for at in GroupLevel.of_run(run)
        if len(regions.ids[at.region])
    ]
    across: dict[GroupLevel, list[CountedGroups]] = {at: [] for at in levels if at.region in ACROSS}
    with (folder / totals.FILE).open("w", encoding="utf-8", newline="\n") as out:
        out.write("REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT\n")
        for file in records.files(folder, parameters.product):
            for at, found in _counted(file, parameters, regions, levels).items():
                if at in across:
                    across[at].append(found)
                else:
                    out.write(_rows(at, parameters, regions, *found))
        for at, parts in across.items():
            out.write(_rows(at, parameters, regions, *_concatenated(parts)))


def _counted(
    file: Path, parameters: Parameters, regions: Regions, levels: list[GroupLevel]
) -> dict[GroupLevel, CountedGroups]:
    """The groups that somebody of a file is in, by their numbers, and how many households of them
    there are."""
    out: dict[GroupLevel, list[CountedGroups]] = {at: [] for at in levels}
    for batch in records.batches(file, parameters, regions):
        rows, combination = packed(
            batch.codes[:, : parameters.race_codes], batch.ethnicity[:, None]
        )
        for at in levels:
            indptr, member = groups_of(parameters.iterations, at, rows[:, :-1], rows[:, -1])
            region = regions.of_block[at.region][batch.block]
            some = np.flatnonzero(region >= 0)
            times = np.diff(indptr)[combination[some]]
            first = np.repeat(indptr[combination[some]] - (np.cumsum(times) - times), times)
            group = np.repeat(region[some].astype(np.int64), times) * len(
                parameters.iterations.measured_at(at)
            )
            out[at].append(
                np.unique(group + member[first + np.arange(len(first))], return_counts=True)
            )
    return {at: _concatenated(parts) for at, parts in out.items() if parts}


def _concatenated(parts: list[CountedGroups]) -> CountedGroups:
    group, at = np.unique(
        np.concatenate([np.zeros(0, dtype=np.int64), *(g for g, _ in parts)]), return_inverse=True
    )
    count = np.concatenate([np.zeros(0, dtype=np.int64), *(n for _, n in parts)])
    return group, np.bincount(at, count, minlength=len(group)).astype(np.int64)


def _rows(
    at: GroupLevel,
    parameters: Parameters,
    regions: Regions,
    group: NDArray[np.int64],
    households: NDArray[np.int64],
) -> str:
    iterations = parameters.iterations.measured_at(at)
    ids = text(regions.ids[at.region]).tolist()
    codes = parameters.iterations.code[iterations].tolist()
    count = np.round(households * PERSONS_A_HOME).astype(np.int64)
    kept = (count > LEAST) | at.fine
    region, member = np.divmod(group[kept], len(iterations))
    return "".join(
        f"{ids[r]}|{at.region}|{codes[i]}|{n}\n"
        for r, i, n in zip(region.tolist(), member.tolist(), count[kept].tolist(), strict=True)
    )
