"""Areas of blocks: how long ``das area`` takes on Rhode Island, and how often its intervals hold
the truth.

The time is of the whole command, on a finished run of the state: its state-house districts with the
columns that a page of them has. The coverage is of random areas of Bristol County (single blocks,
blocks here and there, runs of blocks across block groups) over seeded measurements; nothing is
estimated but the areas. Standardized errors have variance 1 if the standard errors are right."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import das
from benchmarks.common import CONFIG, RHODE_ISLAND, Figures, no_data, shared_data
from benchmarks.published import bounds
from das.engine import Silent
from das.estimate import margins_of_error
from das.estimate.areas.estimates import AreaEstimates, estimates
from das.model.ledger import Ledger
from das.model.measurement import Measurement, Measurements
from das.noise.entropy import seeded
from das.release.area_counts import VOTING_AGE
from das.release.replicate_source import wide
from das.spec import RunSpec, parse
from das.stages import Stages
from das.tables import universe_tables
from das.truth.measure import measure
from das.truth.preparation import Prepared, prepare

BRISTOL = RHODE_ISLAND.with_name("ri2010_bristol_44001.pl.zip")
SECONDS = 5.0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.area", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="seeded measurements")
    parser.add_argument("--areas", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3, help="of the command")
    given = parser.parse_args(arguments)
    figures = Figures("area")
    if (data := shared_data(BRISTOL)) is None:
        figures.skipped("coverage", no_data(BRISTOL))
    else:
        for spine in ("tabulation", "optimized"):
            _coverage(
                figures,
                parse(CONFIG.read_text("utf-8"), where="c", overrides=[f"geography.spine={spine}"]),
                data,
                given.runs,
                given.areas,
            )
    if (data := shared_data(RHODE_ISLAND)) is None:
        figures.skipped("seconds", no_data(RHODE_ISLAND))
    elif given.repeats:
        _seconds(figures, data, given.repeats)


# --- coverage
# ------------------------------------------------------------------------------------------------


def _coverage(figures: Figures, spec: RunSpec, data: Path, runs: int, areas: int) -> None:
    prepared = prepare(spec, [data], Stages(), Silent())
    spec, spine = spec.on(prepared.trees), spec.geography.spine
    u, tree = spec.persons, prepared.trees["persons"]
    member = _random(np.random.default_rng(1), tree.spine.units("Block"), areas)
    fields = {f: m for t in universe_tables(u) for f, m in zip(t.columns, t.masks, strict=True)}
    columns = np.array([fields[f] for f in ("P0010001", *VOTING_AGE)])
    lowest = prepared.measured["persons"]["Block"].open("intervals are held against the truth")
    true = member @ lowest.answer(u.schema.query("detailed")) @ columns.T.astype(np.int64)
    z, inside, uncertain = [], [], []
    for seed in range(1, runs + 1):
        found = _found(spec, prepared, member, columns, seed)
        error = np.sqrt(found.variance)
        value, margin = margins_of_error.whole(wide(0.9, u.wide), found.value, error)
        some = error > 1e-6
        uncertain.append(some.mean())
        inside.append((np.abs(value - true) <= margin)[some].mean())
        z.append((found.value - true)[some] / error[some])
    share, spread = np.array(inside), np.concatenate(z)
    figures(
        f"coverage of 90 % intervals, {spine}",
        float(share.mean()),
        "share",
        at_least=0.87,
        runs=runs,
        areas=areas,
        between_runs=float(share.std(ddof=1)) if runs > 1 else 0.0,
        uncertain=float(np.mean(uncertain)),
    )
    figures(
        f"coverage of 90 % intervals, {spine}, not more", float(share.mean()), "share", at_most=0.93
    )
    figures(
        f"variance of standardized errors, {spine}",
        float((spread**2).mean()),
        "1",
        mean=float(spread.mean()),
    )


def _random(rng: np.random.Generator, blocks: int, areas: int) -> NDArray[np.int64]:
    """Single blocks, blocks here and there, and runs of blocks, ``(areas, blocks)``."""
    out = np.zeros((areas, blocks), dtype=np.int64)
    for i, row in enumerate(out):
        if i % 4 == 0:
            row[rng.integers(blocks)] = 1
        elif i % 4 == 1:
            row[rng.random(blocks) < rng.uniform(0.01, 0.5)] = 1
        else:
            start = rng.integers(blocks - 1)
            row[start : start + rng.integers(5, blocks // 3)] = 1
    return out


def _found(
    spec: RunSpec,
    prepared: Prepared,
    member: NDArray[np.int64],
    columns: NDArray[np.bool_],
    seed: int,
) -> AreaEstimates:
    u, tree = spec.persons, prepared.trees["persons"]
    held: list[Measurement] = []
    ledger = Ledger(u.plan.cost, paths=u.plan.paths)
    for level in tree.spine.levels:
        held += measure(
            prepared.measured[u.name][level],
            level,
            u.name,
            u.schema,
            tree,
            u.plan,
            seeded(seed * 100 + len(held)),
            ledger,
        )
    area, unit = np.nonzero(member)
    return estimates(
        Measurements.from_measurements(held),
        tree.spine,
        bounds(spec, prepared),
        u.schema,
        columns,
        area,
        unit,
        len(member),
    )


# --- time
# ----------------------------------------------------------------------------------------------------


def _seconds(figures: Figures, data: Path, repeats: int) -> None:
    for spine in ("tabulation", "optimized"):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            spec = das.load_spec(
                CONFIG, ["run.seed=1", "output.report=false", f"geography.spine={spine}"]
            )
            das.run(spec, run, paths=data, workers=2)
            command = [
                sys.executable,
                "-m",
                "das",
                "area",
                str(run),
                "--kind",
                "SLDL",
                "--statistics",
                "total",
                *(a for f in VOTING_AGE for a in ("--statistics", f)),
                "--out",
                str(Path(folder) / "o.csv"),
            ]
            each = []
            for _ in range(repeats):
                began = perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                each.append(perf_counter() - began)
            figures(
                f"das area, Rhode Island, 75 districts x 10 columns, {spine}",
                median(each),
                "s",
                at_most=SECONDS,
                least=min(each),
            )


if __name__ == "__main__":
    main()
