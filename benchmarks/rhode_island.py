"""Rhode Island, 2010, with the production settings: seconds by stage, memory, errors next to the
Bureau's, certificates.

Whole runs are ``das run configs/pl94-2010.toml`` in a folder that is deleted afterwards. The stages
that have a target of their own are then timed alone, in this process and on one thread."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from time import process_time

import numpy as np

from benchmarks import published_errors
from benchmarks.common import CONFIG, METRICS, RHODE_ISLAND, Figures, no_data, shared_data, timed
from benchmarks.published_errors import COMPARED, Counts
from benchmarks.whole_run import WholeRun, whole_run
from das import spec as specification
from das.engine import Silent
from das.files.measurements import nmf
from das.files.run import tallies
from das.model.error_rows import ErrorRow
from das.model.ledger import Ledger
from das.model.measurement import Measurement
from das.noise import entropy
from das.publications.published import public as from_release
from das.release.opened import open_release
from das.spec import RunSpec
from das.stages import Stages
from das.truth import files, preparation
from das.truth.measure import measure

QUERIES = (
    "total",
    "votingage",
    "hispanic",
    "cenrace",
    "votingage * hispanic * cenrace",
    "detailed",
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rhode_island", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="whole runs, for the errors")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    figures, data = Figures("rhode_island"), shared_data(RHODE_ISLAND)
    if data is None:
        figures.skipped("all", no_data(RHODE_ISLAND))
        return
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            whole_run(data, Path(folder) / f"run-{i}", workers=given.workers)
            for i in range(given.repeats)
        ]
        _times(figures, runs, given.workers)
        _certificates(figures, runs)
        _errors(figures, [tallies.read_errors(r.directory.errors) for r in runs])
        _beside_the_bureau(figures, [published_errors.ours(r) for r in runs])
        _reading(figures, runs[-1])
        _blocks(figures, runs[-1], Path(folder))
        _measuring(figures, data, Path(folder))


def _times(figures: Figures, runs: Sequence[WholeRun], workers: int) -> None:
    rows = tallies.read_errors(runs[-1].directory.errors)
    units = {r.level: r.n for r in rows if r.query == "total" and r.bin == "all"}
    figures(
        "whole run",
        median(r.seconds for r in runs),
        "s",
        at_most=30,
        cpu_seconds=median(r.cpu for r in runs),
        each=[round(r.seconds, 1) for r in runs],
        workers=workers,
        units=units,
        persons=_persons(runs[-1]),
    )
    for stage in runs[0].stages():
        figures(f"stage: {stage}", median(r.stages()[stage] for r in runs), "s", workers=workers)
    peaks = [r.peak_mb for r in runs if r.peak_mb is not None]
    largest = max(r.largest_process_mb() for r in runs)
    figures(
        "peak memory of all processes",
        max(peaks, default=largest),
        "MB",
        at_most=3 * 1024,
        largest_process_mb=largest,
    )


def _persons(run: WholeRun) -> int:
    true = files.read(run.directory.confidential / "truth" / "persons.parquet")
    return int(true.open("to say how many persons the run had").count.sum())


def _certificates(figures: Figures, runs: Sequence[WholeRun]) -> None:
    levels = [c for r in runs for u in r.manifest["certificates"].values() for c in u.values()]
    solves = [c["estimation"] for c in levels]
    figures(
        "worst relative duality gap",
        max(c["worst_gap"] for c in solves),
        "relative",
        at_most=1e-6,
        solves=sum(c["solves"] for c in solves),
        inaccurate=sum(c["inaccurate"] for c in solves),
        worst_violation_persons=max(c["worst_residual"] for c in solves),
    )
    figures(
        "roundings that had to widen",
        sum(c["rounding"]["widened"] for c in levels),
        "solves",
        solves=sum(c["rounding"]["solves"] for c in levels),
    )


def _errors(figures: Figures, runs: Sequence[Sequence[ErrorRow]]) -> None:
    """Mean absolute errors of some queries, means over the runs; ``noisy`` is ``None`` where none
    was measured.
    """
    tables = [{(r.level, r.query, r.source): r for r in rows if r.bin == "all"} for rows in runs]
    for level, query, source in tables[0]:
        if source == "postprocessed" and query in QUERIES:
            here = [t[level, query, source] for t in tables]
            noisy = [t[level, query, "nmf"].mae for t in tables if (level, query, "nmf") in t]
            figures(
                f"mean absolute error, {level}, {query}",
                mean(r.mae for r in here),
                "persons",
                noisy=mean(noisy) if noisy else None,
                bias=mean(r.bias for r in here),
                answers=here[0].n,
                runs=len(runs),
            )


def _beside_the_bureau(figures: Figures, runs: Sequence[Mapping[tuple[str, str], Counts]]) -> None:
    path = shared_data(METRICS)
    if path is None:
        figures.skipped("errors beside the Bureau's", no_data(METRICS))
        return
    theirs = published_errors.bureau(path)
    for c in COMPARED:
        mae, deviation = published_errors.mean_absolute(runs, c.level, c.counted)
        of = c.of or "all units"
        figures(
            f"beside the Bureau's: {c.level}, {c.counted}{c.of and f' (theirs: {c.of})'}",
            mae,
            "persons (mean absolute error)",
            where="Rhode Island",
            units=len(runs[0][c.level, c.counted]),
            deviation_between_runs=deviation,
            runs=len(runs),
            bureau=theirs[c].mae,
            bureau_where=f"nation, {of}",
            bureau_units=theirs[c].units,
            bureau_table=c.table,
        )


# --- stages alone
# ---------------------------------------------------------------------------------------------


def _measuring(figures: Figures, data: Path, folder: Path) -> None:
    """Measure the persons at every level, and write what was measured."""
    spec = specification.parse(CONFIG.read_text(encoding="utf-8"), where=str(CONFIG))
    prepared = preparation.prepare(spec, [data], Stages(), Silent())
    _measure_all(spec, prepared)  # thresholds and caches
    t = timed(partial(_measure_all, spec, prepared), 3)
    levels, tree = _measure_all(spec, prepared), prepared.trees["persons"].spine
    drawn = sum(m.values[np.isfinite(m.variance)].size for ms in levels.values() for m in ms)
    units = sum(tree.units(level) for level in levels)
    figures(
        "measuring alone: 11 queries, all levels",
        t.seconds,
        "s",
        at_most=4,
        cpu_seconds=t.cpu,
        units=units,
        draws=drawn,
    )
    root = folder / "nmf"

    def write() -> None:
        for level, found in levels.items():
            nmf.write(root, level, spec.persons.schema, tree, iter(found))
        nmf.write_constraints(root, spec.persons.schema, tree, prepared.constraints["persons"])

    t = timed(write, 3)
    size = sum(p.stat().st_size for p in root.rglob("*.parquet")) / 1e6
    figures("writing noisy measurement files", t.seconds, "s", at_most=10, cpu_seconds=t.cpu)
    least = sum(
        _bits(float(v)) * int(n) * m.values.shape[1]
        for ms in levels.values()
        for m in ms
        for v, n in zip(
            *np.unique(m.variance[np.isfinite(m.variance)], return_counts=True), strict=True
        )
    )
    figures(
        "noisy measurement files",
        size,
        "MB",
        at_most=45,
        bytes_per_value=size * 1e6 / drawn,
        entropy_of_the_noise_mb=least / 8e6,
    )


def _bits(sigma_sq: float) -> float:
    """The entropy of a discrete Gaussian, in bits: no file of such noise is smaller."""
    k = np.arange(int(14 * sigma_sq**0.5) + 3)
    p = np.exp(-(k**2) / (2 * sigma_sq)) * np.where(k == 0, 1, 2)
    p /= p.sum()
    each = p / np.where(k == 0, 1, 2)
    return float(-(p[p > 0] * np.log2(each[p > 0])).sum())


def _measure_all(spec: RunSpec, prepared: preparation.Prepared) -> dict[str, list[Measurement]]:
    tree = prepared.trees["persons"]
    u = spec.on(prepared.trees).persons
    ledger, source = Ledger(u.plan.cost, paths=u.plan.paths), entropy.system()
    return {
        level: list(measure(h, level, u.name, u.schema, tree, u.plan, source, ledger))
        for level, h in prepared.measured[u.name].items()
    }


def _reading(figures: Figures, run: WholeRun) -> None:
    opened = open_release(run.directory.release)
    level, persons, times = opened.spine.levels[-1], opened.after.persons, {}
    units = opened.tree(persons).spine.units(level)
    for query in opened.source(persons).queries(level):
        times[query] = timed(
            partial(opened.source(persons).read, level, query, 0, units), 3
        ).seconds
    slowest = max(times, key=lambda q: times[q])
    figures(
        "reading one query of one level",
        times[slowest],
        "s",
        at_most=1,
        level=level,
        query=slowest,
        total_seconds=times["total"],
    )


class _Clock:
    """Progress that notes the processor's time at which each stage begins."""

    def __init__(self) -> None:
        self.began: list[tuple[str, float]] = []

    def stage(self, name: str, total: int | None) -> None:
        del total
        self.began.append((name, process_time()))

    def advance(self, n: int = 1) -> None:
        del n


def _blocks(figures: Figures, run: WholeRun, folder: Path) -> None:
    """Everything after measurement on one core; the blocks' share of it."""
    opened, clock = open_release(run.directory.release), _Clock()
    lowest = opened.spine.levels[-1]
    from_release.estimate_from(run.directory.release, folder / "again", workers=1, progress=clock)
    seconds = {a[0]: b[1] - a[1] for a, b in pairwise(clock.began)}
    for universe, target in (("persons", 3000.0), ("housing", None)):
        levels = {
            name: s for name, s in seconds.items() if name.startswith(f"estimate {universe}: ")
        }
        s, blocks = levels[f"estimate {universe}: {lowest}"], opened.spine.units(lowest)
        figures(
            f"estimating and rounding {universe}, {lowest}",
            blocks / s,
            "blocks/s/core",
            at_least=target,
            blocks=blocks,
            cpu_seconds=s,
            cpu_seconds_of_all_levels=sum(levels.values()),
        )


if __name__ == "__main__":
    main()
