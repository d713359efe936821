"""Householders that both files of a DHC measure: errors of either file, and of the skeleton.

The runs are those of :mod:`benchmarks.linked` (Bristol County, real redistricting counts and made-up
records). At each level householders by a few attributes are compared with the truth: as the persons'
file has them, the households' file, and the skeleton that is estimated from both."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.common import Figures, no_data, shared_data, short
from benchmarks.county_runs import BRISTOL_CODE, county_runs
from benchmarks.evaluation import BRISTOL
from benchmarks.linked import LEVELS, _records
from das.engine import Silent, executor
from das.link.population import tracts
from das.link.skeleton_cells import SKELETON, homes, householders
from das.link.skeleton_measured import dense
from das.model.dhc.households import TENURE
from das.model.histogram import Histogram
from das.release import dhc_files
from das.release.dhc import open_dhc
from das.release.linking import places
from das.release.skeleton import joint_skeleton

#: What householders are counted by; persons do not tell tenure.
_BY = (
    *("alone", "sex", "hhage", "hisp", "race", "alone * sex", "sex * hhage", "hisp * race"),
    *("alone * hhage", "hhage * race", TENURE.name, f"hhage * {TENURE.name}"),
    *(f"race * hisp * {TENURE.name}", f"alone * {TENURE.name}"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--keep", type=Path, help="a folder for the runs, used again if there")
    given = parser.parse_args()
    figures, data = Figures("skeleton"), shared_data(BRISTOL)
    if data is None:
        figures.skipped("skeleton of a county", no_data(BRISTOL))
        return
    for seed in given.seeds:
        with tempfile.TemporaryDirectory() as made:
            folder = (given.keep or Path(made)) / f"{BRISTOL_CODE}-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            county_runs(data, BRISTOL_CODE, folder, seed)
            _measure(figures, folder, seed)


def _measure(figures: Figures, folder: Path, seed: int) -> None:
    opened = open_dhc(folder / "dhc" / "release")
    spine = opened.spine
    published = dhc_files.read_counts(opened.folder, spine)
    truth = homes(_records(folder / "records", spine)["households"]).upward(spine)
    groups, tract = places(spine)
    codes = [bytes(c) for c in spine.codes[spine.index("Tract")]]
    began = process_time()
    with executor(1) as pool:
        todo = tracts(published, groups, tract, codes)
        found = joint_skeleton(spine, opened.spec, published, todo, pool, Silent())
    figures(
        "householders estimated from both files",
        process_time() - began,
        "CPU seconds",
        seed=seed,
        families=found.families,
        free=found.free,
        inaccurate=found.inaccurate,
    )
    files = {
        "persons": householders(published["persons"]).upward(spine),
        "households": homes(published["households"]).upward(spine),
        "skeleton": found.counts,
    }
    for level in LEVELS[:-1]:
        _errors(figures, level, seed, truth, files)


def _errors(
    figures: Figures,
    level: str,
    seed: int,
    truth: Mapping[str, Histogram],
    files: Mapping[str, Mapping[str, Histogram]],
) -> None:
    """Mean absolute errors; the figure is that of the skeleton over the better file's, on
    average."""
    right, ratios, lines = dense(truth[level]), [], {}
    for name in _BY:
        query = SKELETON.query(name)
        errors = {
            file: float(np.abs(query.answer(dense(h[level]) - right)).mean())
            for file, h in files.items()
            if file != "persons" or TENURE.name not in name
        }
        own = errors["skeleton"]
        ratios.append(own / max(0.1, min(e for f, e in errors.items() if f != "skeleton")))
        lines[name] = [short(errors[f]) for f in errors]
    figures(
        f"error of householders over the better file's, {level}",
        float(np.mean(ratios)),
        "ratio",
        at_most=1.0,
        seed=seed,
        persons_households_skeleton=lines,
    )


if __name__ == "__main__":
    main()
