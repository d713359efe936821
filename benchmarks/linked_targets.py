"""A link that is moved towards the totals of an S-DHC: average household sizes by tenure and by race
of the householder, before and after, against the truth.

A county of Rhode Island stands for a State (:mod:`benchmarks.county_runs`), or a run of the DHC is
named with its records. The S-DHC has production's budgets."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.common import ROOT, Figures, no_data, shared_data
from benchmarks.county_runs import BRISTOL_CODE, county_runs, file_of
from das.engine import Silent, executor
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.publications.dhc import release_files
from das.publications.dhc.agreement.counted import Floats, Ints, household_attributes
from das.publications.dhc.files import linked as reader
from das.publications.dhc.files.linked import linked_household
from das.publications.dhc.model.households import ATTRIBUTE, TENURE, TENVACGQ
from das.publications.dhc.model.members import HEADS
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.release import OpenedDhc, open_dhc
from das.tools.link.people import HomePersons
from das.tools.link.population import LinkedPopulation
from das.tools.link.release import LinkOptions, linked_counts
from das.tools.link.targets import LinkTargets

Figure = Callable[..., None]
ATTRIBUTES = {"tenure": TENURE.name, "race": "race"}
#: Groups with fewer households are left out: their averages are those of a few.
LEAST = 500
#: Persons of a household that are counted, as in the S-DHC.
MOST = 18


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counties", nargs="+", default=[BRISTOL_CODE], help="such as 001 005")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--keep", type=Path, help="a folder for the runs, used again if there")
    parser.add_argument("--run", type=Path, help="a run of the DHC instead of counties")
    parser.add_argument("--records", type=Path, help="its records")
    parser.add_argument("--linked", type=Path, help="its link, if there is one already")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    figures = Figures("linked_targets")
    if given.run is not None:
        _state(figures, given.run, given.records, given.workers, linked=given.linked)
        return
    for county in given.counties:
        if (data := shared_data(file_of(county))) is None:
            figures.skipped(f"targets of county {county}", no_data(file_of(county)))
            continue
        for seed in given.seeds:
            with tempfile.TemporaryDirectory() as made:
                folder = (given.keep or Path(made)) / f"{county}-{seed}"
                folder.mkdir(parents=True, exist_ok=True)
                county_runs(data, county, folder, seed)
                each = partial(figures, county=county, seed=seed)
                _state(each, folder / "dhc", folder / "records", given.workers, seed)


def _state(
    figures: Figure,
    run: Path,
    records: Path,
    workers: int,
    seed: int = 0,
    linked: Path | None = None,
) -> None:
    with tempfile.TemporaryDirectory() as made:
        sdhc = Path(made, "sdhc")
        _sdhc(records, sdhc, seed)
        opened = open_dhc(run / "release")
        before = _made(opened, workers) if linked is None else _read(linked, opened.spine)
        _measure(figures, opened, before, _true_sizes(records, opened.spine), sdhc / "release")


def _sdhc(records: Path, out: Path, seed: int) -> None:
    given = ["run", "sdhc-2020", "--data", records, "--out", out, "--set", f"run.seed={seed + 200}"]
    line = [sys.executable, "-m", "das", *map(str, given), "--quiet"]
    subprocess.run(line, cwd=ROOT, check=True, capture_output=True)


def _made(opened: OpenedDhc, workers: int) -> LinkedPopulation:
    published = release_files.read_counts(opened.folder, opened.spine)
    with executor(workers) as pool:
        return linked_counts(opened, published, pool, Silent(), LinkOptions())


def _read(folder: Path, spine: Spine) -> LinkedPopulation:
    """A link from its files."""
    found = reader.tables(folder)
    at = spine.find(spine.levels[-1], found.codes)
    rows, units, blocks = found.people.rows, found.units, len(spine.codes[-1])
    home, place, block = (
        linked_household(rows, found.homes.rows),
        at[found.people.block],
        at[found.homes.block],
    )
    inside, away = np.flatnonzero(home >= 0), np.flatnonzero(home < 0)
    inside = inside[np.argsort(home[inside], kind="stable")]
    levels = {name: level[inside] for name, level in rows.levels().items()}
    occupied = np.bincount(block, minlength=blocks)
    return LinkedPopulation(
        HomePersons(place[inside], **levels),
        home[inside],
        found.cell,
        block,
        household_attributes(found.cell)[ATTRIBUTE],
        Histogram.from_triplets(blocks, DHCP.cells, place[away], rows.cell[away], rows.count[away]),
        Histogram.from_triplets(
            blocks, TENVACGQ.cells, at[units.block], units.rows.cell, units.rows.count
        ),
        occupied,
        occupied,
        0,
    )


def _measure(
    figures: Figure, opened: OpenedDhc, before: LinkedPopulation, truth: dict[str, Ints], sdhc: Path
) -> None:
    began = process_time()
    after = LinkTargets.read(sdhc, opened).steered(before, 0)
    seconds = process_time() - began
    changed = int((before.cell != after.cell).sum())
    figures("households that change", changed / len(after.cell), "share", cpu_seconds=seconds)
    _errors(figures, opened.spine, truth, before, after)
    alike = [_alike(x) for x in (before, after)]
    figures(
        "members of the race and origin of their householder", alike[1], "share", before=alike[0]
    )


def _errors(
    figures: Figure,
    spine: Spine,
    truth: dict[str, Ints],
    before: LinkedPopulation,
    after: LinkedPopulation,
) -> None:
    """Mean errors, weighted with households, and the largest of groups that are not small."""
    for name, attribute in ATTRIBUTES.items():
        for level in ("State", "Tract"):
            unit = _units(spine, level)
            true, many = _averages(unit[truth["block"]], truth[attribute], truth["size"])
            large = many >= (LEAST if level == "State" else 0)
            error = [
                np.abs(_averages(unit[x.block], _levels(x, attribute), x.size, len(true))[0] - true)
                for x in (before, after)
            ]
            known = large & ~np.isnan(error[0]) & ~np.isnan(error[1])
            old, new = (float((e * many)[known].sum() / many[known].sum()) for e in error)
            largest = [float(e[known].max()) for e in error]
            figures(
                f"error of average household size by {name}, {level}",
                new,
                "persons",
                before=old,
                **(
                    {"largest": largest[1], "largest_before": largest[0]}
                    if level == "State"
                    else {}
                ),
            )


def _units(spine: Spine, level: str) -> Ints:
    out = np.arange(len(spine.codes[-1]))
    for depth in range(len(spine) - 1, spine.index(level), -1):
        out = np.asarray(spine.parent[depth])[out]
    return out


def _levels(linked: LinkedPopulation, attribute: str) -> Ints:
    return household_attributes(linked.cell)[attribute]


def _true_sizes(folder: Path, spine: Spine) -> dict[str, Ints]:
    """Block, size and attributes of each household of the records."""
    found = reader.tables(folder)
    home = linked_household(found.people.rows, found.homes.rows)
    size = np.bincount(home[home >= 0], minlength=len(found.cell))
    block = spine.find(spine.levels[-1], found.codes)[found.homes.block]
    there = block >= 0
    of = household_attributes(found.cell[there])
    return {"block": block[there], "size": size[there], **of}


def _averages(unit: Ints, group: Ints, size: Ints, width: int = 0) -> tuple[Floats, Floats]:
    """Average and number by unit and group, one after the other; ten groups a unit."""
    at = unit * 10 + group
    width = max(width, int(at.max(initial=0)) + 1)
    many = np.bincount(at, minlength=width)[:width]
    total = np.bincount(at, weights=np.minimum(size, MOST), minlength=width)[:width]
    return np.where(many > 0, total / np.maximum(many, 1), np.nan), many.astype(float)


def _alike(linked: LinkedPopulation) -> float:
    people, home = linked.people, linked.household
    head = np.isin(people.relgq, HEADS)
    kind = people.hispanic * 63 + people.cenrace
    of_head = np.zeros(len(linked.cell), dtype=np.int64)
    of_head[home[head]] = kind[head]
    return float((kind == of_head[home])[~head].mean())


if __name__ == "__main__":
    main()
