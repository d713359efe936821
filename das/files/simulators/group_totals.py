"""``pop-group-totals.txt`` for simulated households: totals of groups of persons, as they could
have been published before.

They have no noise. A group has as many persons as its households would have, and is listed if its
total is above the threshold for publication."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.files.detailed import geography, records, totals
from das.model.adaptive import Parameters
from das.model.codes import text
from das.model.limits import packed
from das.model.population import ACROSS, GroupLevel, Regions, groups_of

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
    there are.
    """
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
                parameters.iterations.of(at)
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
    iterations = parameters.iterations.of(at)
    ids, codes = (
        text(regions.ids[at.region]).tolist(),
        parameters.iterations.code[iterations].tolist(),
    )
    count = np.round(households * PERSONS_A_HOME).astype(np.int64)
    kept = (count > LEAST) | at.fine
    region, member = np.divmod(group[kept], len(iterations))
    return "".join(
        f"{ids[r]}|{at.region}|{codes[i]}|{n}\n"
        for r, i, n in zip(region.tolist(), member.tolist(), count[kept].tolist(), strict=True)
    )
