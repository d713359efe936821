"""The DHC: persons, units and households of Rhode Island end to end, and persons of 28 real tracts
next to the Bureau's run.

Rhode Island has its real redistricting counts of 2010, with persons and households made up to
match. The redistricting pipeline runs first, and its published counts are held fixed. Outer passes
follow with the production budgets of the given levels (State, County, Tract, Block_Group, Block).
Noise is drawn on demand. For the tracts the reconstructed counts of 2010 are the truth. The output
of a production run of the Bureau on the same census is compared with ours; relationships are made
up."""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import das
from benchmarks.common import CONFIG, RHODE_ISLAND, Figures, no_data, shared_data
from benchmarks.tracts import (
    LEVELS,
    PL94_FIXED,
    TRACTS,
    TractWorld,
    UniverseRun,
    age_errors,
    redistricted,
    run_universe,
)
from das.engine.choice import EngineChoice
from das.estimate.fixed_counts import FixedCounts
from das.files import packaged
from das.files.run.run_directory import RunDirectory
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.publications.dhc.model import strategy
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.release import open_dhc
from das.publications.dhc.release_files import read_counts
from das.publications.dhc.spec import DhcSpec
from das.publications.dhc.truth import simulated
from das.release import verify
from das.runs import pipeline
from das.spec import load, of_kind
from das.truth import files as truth_file

Ints = NDArray[np.int64]
#: Minutes, gigabytes, megabytes of the release; errors predicted from the budgets (tenure by State,
#: County, Tract), and how far off they may be.
MINUTES, GIGABYTES, MEGABYTES = 15, 8, 200
TENURE_ERRORS, OFF = {"State": 9.9, "County": 2.9, "Tract": 2.0}, 0.2
#: Mean absolute errors of the Bureau's run on the tracts, by block, and what sampling leaves open.
BLOCK_ERRORS, OPEN = {"total": 2.53, "0-17": 1.07, "65+": 1.32}, 0.03


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dhc", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="runs of the tracts")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--keep", type=Path, help="a folder for the run of the State; else one that is deleted"
    )
    parser.add_argument("--only", choices=("tracts", "rhode-island"))
    given = parser.parse_args(arguments)
    figures = Figures("dhc")
    for name, data, work in (
        ("tracts", TRACTS, _tracts),
        ("rhode-island", RHODE_ISLAND, _rhode_island),
    ):
        if given.only in (None, name):
            if (path := shared_data(data)) is None:
                figures.skipped(name, no_data(data))
            else:
                work(figures, path, given)


def _check(
    ran: UniverseRun, spine: Spine, schema: Schema, fixed_query: str, fixed: Histogram
) -> None:
    """Whatever must hold exactly. Raises ``RuntimeError``."""
    query = schema.query(fixed_query)
    for depth, level in enumerate(spine.levels):
        h = ran.counts[level]
        if not schema.possible[h.cell].all():
            raise RuntimeError(f"{level}: a structural zero is not zero")
        if depth and not h.up(spine.parent[depth], spine.units(spine.levels[depth - 1])).same_as(
            ran.counts[spine.levels[depth - 1]]
        ):
            raise RuntimeError(f"{level}: children are not their parents")
    lowest = ran.counts[spine.levels[-1]]
    if not Histogram.from_triplets(
        lowest.units, query.answers, lowest.unit, query.at(lowest.cell), lowest.count
    ).same_as(fixed):
        raise RuntimeError("counts that are held fixed differ")


def _certified(ran: UniverseRun) -> dict[str, Any]:
    every = list(ran.certificates.values())
    return {
        "inaccurate": sum(c.estimation.inaccurate for c in every),
        "widened": sum(c.rounding.widened for c in every),
        "worst_gap": max(c.estimation.worst_gap for c in every),
        "families": sum(c.estimation.solves for c in every),
        "asked": ran.asked,
    }


# --- Rhode Island
# ----------------------------------------------------------------------------------------------


def _rhode_island(figures: Figures, data: Path, given: argparse.Namespace) -> None:
    """From redistricting files to a release that is verified: the commands that a user types, in
    one process.
    """
    with tempfile.TemporaryDirectory(dir=given.keep) as folder:
        earlier, records, out = (Path(folder) / name for name in ("pl94", "linked", "dhc"))
        changes = ["run.seed=1", "geography.spine=tabulation", "output.report=false"]
        began = perf_counter()
        pipeline.run(
            das.load_spec(CONFIG, changes),
            earlier,
            paths=[data],
            engine=EngineChoice(workers=given.workers),
        )
        figures("Rhode Island, redistricting", (perf_counter() - began) / 60, "min")
        began = perf_counter()
        simulated.simulate([data], records, seed=1)
        figures("Rhode Island, simulated", (perf_counter() - began) / 60, "min")
        spec = _spec(
            f"constraints.from={earlier}", "run.seed=1", f"geography.levels={list(LEVELS)}"
        )
        began = perf_counter()
        pipeline.run(spec, out, paths=[records], workers=given.workers)
        minutes, manifest = (perf_counter() - began) / 60, RunDirectory(out).read_manifest()
        stages = {s["name"]: round(s["seconds"], 1) for s in manifest["stages"]}
        figures(
            "Rhode Island, all",
            minutes,
            "min",
            at_most=MINUTES,
            workers=given.workers,
            stages=stages,
        )
        peak = (
            sum(
                resource.getrusage(who).ru_maxrss
                for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
            )
            / 1e6
        )
        figures(
            "Rhode Island: largest process and largest worker together",
            peak,
            "GB",
            at_most=GIGABYTES,
        )
        release = out / "release"
        size = sum(p.stat().st_size for p in release.rglob("*") if p.is_file()) / 1e6
        parts = {
            p.name: round(sum(f.stat().st_size for f in p.rglob("*") if f.is_file()) / 1e6, 1)
            for p in release.iterdir()
        }
        figures("Rhode Island: release", size, "MB", at_most=MEGABYTES, parts=parts)
        certificates = [
            c["estimation"] for levels in manifest["certificates"].values() for c in levels.values()
        ]
        figures(
            "Rhode Island: worst relative gap",
            max(c["worst_gap"] for c in certificates),
            "",
            at_most=1e-6,
            families=sum(c["solves"] for c in certificates),
            inaccurate=sum(c["inaccurate"] for c in certificates),
        )
        began = perf_counter()
        verify.statement(release)  # every constraint holds, or this is an error
        figures("Rhode Island: verified", perf_counter() - began, "s")
        whole, looked_at = _revealed(release)
        figures(
            "Rhode Island: numbers that were looked at",
            looked_at / 1e6,
            "million",
            drawn_whole=whole,
        )
        _tenure_errors(figures, out)


def _revealed(release: Path) -> tuple[int, int]:
    """How many numbers are paid for, which a full draw would make, and how many of them estimation
    has asked for.
    """
    opened = open_dhc(release)
    whole = looked_at = 0
    for u in opened.spec.universes:
        source = opened.source(u)
        for level in opened.spine.levels:
            whole += sum(e.units * e.answers for e in opened.events(u, level))
            looked_at += sum(len(source.read(level, q).at) for q in source.queries(level))
    return whole, looked_at


def _tenure_errors(figures: Figures, out: Path) -> None:
    """Errors of one run, next to those that the budgets predict and those that the Bureau found in
    its own."""
    spine = open_dhc(out / "release").spine
    published = read_counts(out / "release", spine)["units"].upward(spine)
    truth = truth_file.read(RunDirectory(out).truth_of("units")).open("to compare").upward(spine)
    for level, predicted in TENURE_ERRORS.items():
        error = float(
            np.abs(published[level].dense()[:, :4] - truth[level].dense()[:, :4])[:, :3].mean()
        )
        figures(
            f"Rhode Island: tenure by {level}, mean absolute error",
            error,
            "units",
            at_most=predicted * (1 + OFF),
            predicted=predicted,
            official={"State": 9.2, "County": 2.55, "Tract": 2.04}[level],
        )


def _spec(*changes: str) -> DhcSpec:
    text, _ = packaged.configuration(Path("dhc-2020"))
    return of_kind(DhcSpec, load(text, where="dhc-2020", overrides=changes), "dhc-2020")


# --- 28 tracts
# -------------------------------------------------------------------------------------------------


def _tracts(figures: Figures, data: Path, given: argparse.Namespace) -> None:
    world = TractWorld.read(data)
    spine, truth, bureau = world.spine, world.truth, world.bureau
    errors: dict[str, list[dict[str, float]]] = {level: [] for level in ("Tract", "Block")}
    full = _spec("estimation.method=full-information").estimation.most
    small: dict[int, list[float]] = {
        0: [],
        full: [],
    }  # errors of measured queries by tract, without and with all levels
    ran = {}
    for seed in range(1, given.repeats + 1):
        before = redistricted(truth, spine, seed)
        fixed = FixedCounts.from_histogram(DHCP, PL94_FIXED, before, spine)
        for most, of_small in small.items():
            ran[most] = run_universe(
                "persons", truth, spine, strategy.persons(), fixed, seed, given.workers, most
            )
            _check(ran[most], spine, DHCP, PL94_FIXED, before)
            of_small.append(
                _smallage_errors(truth.upward(spine)["Tract"], ran[most].counts["Tract"])
            )
        for level, found in errors.items():
            found.append(age_errors(truth, ran[0].counts["Block"], spine, level))
    figures("28 tracts, persons", ran[0].seconds, "s", **_certified(ran[0]))
    figures(
        "28 tracts: full information, errors of ages by sex and of relationships by tract beside"
        " those without",
        float(np.mean(small[full]) / np.mean(small[0])),
        "times",
        at_most=1.0,
        asked=_certified(ran[full])["asked"],
        repeats=given.repeats,
    )
    for level, found in errors.items():
        beside = age_errors(truth, bureau, spine, level)
        for what, theirs in beside.items():
            ours = float(np.mean([f[what] for f in found]))
            bar = theirs * (1 + OPEN) if level == "Block" and what in BLOCK_ERRORS else None
            figures(
                f"28 tracts, {level}: {what}, mean absolute error",
                ours,
                "persons",
                at_most=bar,
                bureau=theirs,
                repeats=given.repeats,
            )


def _smallage_errors(truth: Histogram, found: Histogram) -> float:
    """The mean absolute error of an answer, over two queries that are measured by themselves."""
    queries = [DHCP.query(q) for q in ("age_38_groups * sex", "popSehsdTargetsRelship")]
    return float(np.mean([np.abs(truth.answer(q) - found.answer(q)).mean() for q in queries]))


if __name__ == "__main__":
    main()
