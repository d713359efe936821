"""Runs of one county of Rhode Island: its real redistricting counts of 2010, with persons and
households made up to match; a redistricting run and one of the DHC with production's budgets, both
with public seeds."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from benchmarks.common import RHODE_ISLAND, ROOT
from benchmarks.evaluation import BRISTOL

TREE = 'geography.levels=["State", "County", "Tract", "Block_Group", "Block"]'
BRISTOL_CODE = "001"


def file_of(county: str) -> Path:
    """The redistricting file with a county, of three digits."""
    return BRISTOL if county == BRISTOL_CODE else RHODE_ISLAND


def county_runs(data: Path, county: str, folder: Path, seed: int) -> None:
    """Make ``folder/records``, ``folder/pl94`` and ``folder/dhc``, unless they are there."""
    _runs(of_county(data, county, folder), folder, seed)


def of_county(data: Path, county: str, folder: Path) -> Path:
    """The lines of one county in a redistricting file of a state."""
    if county == BRISTOL_CODE:
        return data
    out = folder / "county.pl.zip"
    with zipfile.ZipFile(data) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        names = [n for n in source.namelist() if n.endswith(".pl")]
        geography = next(n for n in names if "geo" in n)
        lines = source.read(geography).decode("latin-1").splitlines(keepends=True)
        kept = [x for x in lines if x[29:32] == county]
        numbers = {x[18:25] for x in kept}
        target.writestr(geography, "".join(kept).encode("latin-1"))
        for name in names:
            if name != geography:
                rows = source.read(name).decode("latin-1").splitlines(keepends=True)
                kept = [x for x in rows if x.split(",", 5)[4] in numbers]
                target.writestr(name, "".join(kept).encode("latin-1"))
    return out


def _runs(data: Path, folder: Path, seed: int) -> None:
    if (folder / "dhc" / "manifest.json").is_file():
        return
    pl94, records = folder / "pl94", folder / "records"
    for command in (
        ["run", "pl94-2010", "--data", data, "--out", pl94, "--set", f"run.seed={seed}"],
        ["data", "simulate", "dhc", "--blocks", data, "--out", records, "--seed", seed],
        [
            *("run", "dhc-2020", "--set", f"constraints.from={pl94}", "--data", records),
            *("--out", folder / "dhc", "--set", f"run.seed={seed + 100}", "--set", TREE),
        ],
    ):
        subprocess.run(
            [sys.executable, "-m", "das", *map(str, command)],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
