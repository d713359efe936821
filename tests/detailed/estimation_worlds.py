"""Releases of the Detailed DHC with made-up truth and noise that is drawn here: only their folders
are real.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.files.run import run_directory
from das.publications.detailed.files import geography, measurements
from das.publications.detailed.files import parameters as parameter_files
from das.publications.detailed.model.iterations import ACROSS, REGIONS, GroupLevel
from das.publications.detailed.model.records import GroupMeasurement
from das.publications.detailed.model.tables import FIRST, ONLY, PRODUCTS, LevelPlan
from das.publications.detailed.release import OpenedGroups, open_groups, write_public
from tests.detailed.runs import configured
from tests.files.detailed import folders

ETHNICITY = (
    folders.ETHNICITY + "3012|Guatemalan|2|False|False\n3013|Belizean|2|True|False\n3020|South"
    " American|1|False|False\n"
)
MEMBERS = folders.MEMBERS + "3010|2020\n3012|2020\n3013|1000\n3020|1010\n"
#: Block; place; area. County 01003 is one tract, and area 0001; place 00100 is tract 000001 of
#: 01001; area 0002 crosses states.
BLOCKS = """\
010010000010001 00100 9999
010010000010002 00100 9999
010010000020001 00200 0002
010010000020002 99999 9999
010030000010001 00300 0001
010030000010002 00300 0001
020010000010001 00100 0002
020010000020001 00400 9999
720010000010001 00100 9999
"""
LEAVES = 46


def configuration(
    thresholds: tuple[int, ...], fine: float, coarse: float, regional: float, pure: bool = False
) -> str:
    every = [at for run in REGIONS for at in GroupLevel.of_run(run)]
    out: dict[str, object] = {
        "max_race_codes": 8,
        "thresholds_p": {at.key: list(thresholds) for at in every},
    }
    for at in every:
        out[f"privacy_budget_p_{at}"] = regional if at.level == 1 else fine if at.fine else coarse
    return json.dumps(
        out
        | {
            "privacy_budget_p_stage_1_fraction": 0.1,
            "zero_suppression_chance": 0.9999,
            "allow_negative_counts": True,
            "run_us": True,
            "run_pr": True,
            "reader": "csv",
            "state_filter_us": ["01", "02"],
            "privacy_defn": "puredp" if pure else "zcdp",
        }
    )


@dataclass(frozen=True, eq=False)
class World:
    """``truth`` ``(blocks, iterations, leaves)``."""

    opened: OpenedGroups
    truth: NDArray[np.int64]

    def of(self, kind: str, region: int) -> NDArray[np.int64]:
        """Of a region, ``(iterations, leaves)``."""
        return self.truth[self.opened.regions.of_block[kind] == region].sum(axis=0)

    def counts(self, plan: LevelPlan, some: NDArray[np.int32]) -> NDArray[np.int64]:
        members = self.opened.spec.parameters.iterations.measured_at(plan.at)
        return np.stack([self.of(plan.at.region, int(r))[members] for r in some])


def world(
    folder: Path,
    rng: np.random.Generator,
    mean: float = 2.0,
    *,
    thresholds: tuple[int, ...] = (60, 300, 900),
    fine: float = 2.134,
    coarse: float = 0.159,
    regional: float = 0.02,
    pure: bool = False,
    scale: float = 1.0,
) -> World:
    """A release with ``mean`` persons in a leaf of a block and an iteration, more or less.
    ``scale`` times the noise that it claims.
    """
    texts = folders.texts() | {
        "config.json": configuration(thresholds, fine, coarse, regional, pure),
        "ethnicity-characteristic-iterations.txt": ETHNICITY,
        "race-and-ethnicity-code-to-iteration.txt": MEMBERS,
    }
    given = folders.written(folder / "parameters", texts)
    rows = [line.split() for line in BLOCKS.splitlines()]
    lines = ["TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|PLACEFP|AIANNHCE"]
    lines += [f"{b[:2]}|{b[2:5]}|{b[5:11]}|{b[11:]}|{p}|{a}" for b, p, a in rows]
    data = folders.written(folder / "data", {"GRF-C.txt": "\n".join(lines) + "\n"})
    parameters = parameter_files.read(given, PRODUCTS["persons"])
    spec = configured(run={"name": "made up"}).on(parameters)
    release = folder / "release"
    release.mkdir()
    write_public(release, spec, given, geography.regions(data, parameters))
    opened = open_groups(release)
    iterations = parameters.iterations
    level = rng.choice([0.0, 0.3, 1.0, 4.0], size=(1, len(iterations), 1)) * mean
    truth = rng.poisson(np.broadcast_to(level, (len(rows), len(iterations), LEAVES)))
    code = iterations.code.tolist()
    truth[:, code.index("3010")] = truth[:, code.index("3011")] + truth[:, code.index("3012")]
    out = World(opened, truth)
    measure(out, rng, scale)
    return out


def measure(made: World, rng: np.random.Generator, scale: float = 1.0) -> None:
    """Draw all measurements, anew."""
    opened = made.opened
    for plan in opened.spec.plans:
        for subtree in opened.subtrees(plan):
            ids = opened.regions.ids[plan.at.region]
            some = (
                np.arange(len(ids), dtype=np.int32)
                if plan.at.region in ACROSS
                else opened.regions.of_state(plan.at.region, opened.regions.states[subtree - 1])
            )
            found = measured(plan, opened, made.counts(plan, some), ids[some], rng, scale)
            file = measurements.path(
                run_directory.nmf_folder(opened.folder, opened.name), plan, subtree, 0
            )
            measurements.write(file, found, plan, opened.codes[plan.level], private=True)


def measured(
    plan: LevelPlan,
    opened: OpenedGroups,
    truth: NDArray[np.int64],
    ids: NDArray[np.bytes_],
    rng: np.random.Generator,
    scale: float,
) -> GroupMeasurement:
    """``truth`` ``(regions, iterations, leaves)``."""
    iterations = opened.spec.parameters.iterations
    only = iterations.detailed_only[iterations.measured_at(plan.at)]
    alone, flat = np.tile(only, len(ids)), truth.reshape(-1, truth.shape[-1])
    total = flat.sum(axis=1)
    first = np.where(alone, 0, total + noise(plan, FIRST, len(total), rng, scale))
    size = np.where(alone, 0, plan.size(first)).astype(np.int8)
    parts = [
        np.bincount(plan.table.sizes[k], weights=row, minlength=plan.table.answers[k]).astype(
            np.int64
        )
        for row, k in zip(flat, size.tolist(), strict=True)
    ]
    values, indptr = (
        np.concatenate(parts),
        np.concatenate([[0], np.cumsum([len(p) for p in parts])]),
    )
    single = np.repeat(alone, np.diff(indptr))
    values[single] += noise(plan, ONLY, int(single.sum()), rng, scale)
    values[~single] += noise(plan, plan.table.name, int((~single).sum()), rng, scale)
    return GroupMeasurement(ids, only, first, size, indptr, values)


def noise(
    plan: LevelPlan, query: str, size: int, rng: np.random.Generator, scale: float = 1.0
) -> NDArray[np.int64]:
    draw = plan.measurement(query)
    cost = float(draw.mechanism.cost(draw.parameter, 1)) / scale**draw.mechanism.power
    last = int((60 / cost) ** (1 / draw.mechanism.power)) + 1
    k = np.arange(-last, last + 1)
    p = np.exp(-cost * np.abs(k) ** float(draw.mechanism.power))
    return np.asarray(rng.choice(k, size=size, p=p / p.sum()))


__all__ = ["World", "measure", "world"]
