"""Intervals with the counts that they are to hold (:class:`Held`), of publications that are no
redistricting release: each function is one release, of a folder, a seed, and so many replicates.

``sdhc``: noise and least squares over made-up households of three states, one of them small, at the
90 % that it publishes. ``detailed``: estimates of simulated persons of one state, against the same
with a million times the budgets. ``dhc``: replicates on replicates of the redistricting release
(:mod:`benchmarks.dhc_coverage`)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import dhc_coverage
from benchmarks import sdhc as sdhc_benchmark
from das.publications.detailed.simulation import files as simulator

COVERAGE = 0.95
#: Simulated persons of the Detailed DHC, and how many times its budgets tell the truth.
PERSONS, TRUTH = 60_000, 10**6
#: Runs of noise of the S-DHC in a release.
NOISES = 50


@dataclass(frozen=True, eq=False)
class Held:
    """Intervals of one ``name``, and of names that they are part of ``also``: arrays of one shape.
    ``published`` where there is such a count."""

    name: str
    true: NDArray[Any]
    lower: NDArray[Any]
    upper: NDArray[Any]
    published: NDArray[Any] | None = None
    also: tuple[str, ...] = ()

    @staticmethod
    def of(
        name: str,
        true: NDArray[Any],
        lower: NDArray[Any],
        upper: NDArray[Any],
        uncertain: NDArray[np.bool_] | None = None,
        published: NDArray[Any] | None = None,
        also: tuple[str, ...] = (),
    ) -> Held:
        """Of counts that are not certain."""
        some = np.broadcast_to(True if uncertain is None else uncertain, true.shape)
        value = None if published is None else published[some]
        return Held(name, true[some], lower[some], upper[some], value, also)

    @property
    def by(self) -> Mapping[str, NDArray[Any]]:
        """The counts by which they are in classes."""
        told = {"true": self.true}
        return told if self.published is None else told | {"published": self.published}


def _sdhc(folder: Path, seed: int, replicates: int) -> Iterator[Held]:
    del replicates
    sdhc_benchmark.make_up(folder, 60_000, (0.6, 0.395, 0.005))
    ends = [
        (true, c.low, c.high)
        for _, _, cells in sdhc_benchmark.runs_of(folder, range(NOISES * seed, NOISES * (seed + 1)))
        for true, c in cells
        if c.error is not None
    ]
    yield Held("sdhc at 90 %", *np.array(ends, dtype=np.float64).T)


def _detailed(folder: Path, seed: int, replicates: int) -> Iterator[Held]:
    del replicates
    data = folder / "data"
    if not data.exists():
        simulator.write(data, seed=seed, states="RI", persons=PERSONS)
        given, exact = data / simulator.PARAMETERS, folder / "exact"
        config = json.loads(shutil.copytree(given, exact).joinpath("config.json").read_text())
        for key in config:
            if key.startswith("privacy_budget") and "fraction" not in key:
                config[key] *= TRUTH
        (exact / "config.json").write_text(json.dumps(config))
        for name, parameters in (("run", given), ("truth", exact)):
            at, out = str(folder / name), str(folder / f"estimates-{name}")
            told = [
                "--set",
                f"data.parameters={parameters}",
                "--set",
                f"run.seed={seed}",
                "--quiet",
            ]
            _das("run", "detailed-dhc", "--data", str(data / simulator.DATA), *told, "--out", at)
            _das("detailed", "estimate", at, "--out", out)
    for region in sorted(p.name for p in (folder / "estimates-run").iterdir() if p.is_dir()):
        found, exact = (
            pq.read_table(folder / f"estimates-{name}" / region).to_pandas()
            for name in ("run", "truth")
        )
        key = ["REGION_ID", "ITERATION_CODE", "AGESTART", "AGEEND", "SEX"]
        both = found.merge(exact, on=key, suffixes=("", " true"))
        true = np.rint(both["VALUE true"].to_numpy())
        yield Held(f"detailed, {region}", true, both["LOWER"].to_numpy(), both["UPPER"].to_numpy())


def _das(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "das", *arguments], check=True, stdout=subprocess.DEVNULL)


def _dhc(folder: Path, seed: int, replicates: int) -> Iterator[Held]:
    counts = folder.with_suffix(".npz")
    for universe, level, found in dhc_coverage.intervals(counts, seed, replicates, COVERAGE):
        true, lower, upper, there, published = found
        yield Held.of(f"dhc, {universe}, {level}", true, lower, upper, there, published)


#: By name.
SOURCES: Mapping[str, Callable[[Path, int, int], Iterator[Held]]] = {
    "sdhc": _sdhc,
    "detailed": _detailed,
    "dhc": _dhc,
}
