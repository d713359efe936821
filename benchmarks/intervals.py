"""Intervals of published counts on Rhode Island, or on its smallest county: how often they hold the
truth, how wide they are, what they cost.

Several releases with their replicates, by both methods; the truth is the extract. Coverage is of
each table by itself and of all together, by class of the published count (which a reader knows) and
of the true one, every small count a class of its own: pooled classes hide what does not hold. Areas
are runs of blocks that cut block groups: counts and shares. Replicates with seven tenths of the
noise must be found out."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import das
from benchmarks.area import BRISTOL
from benchmarks.common import CONFIG, RHODE_ISLAND, Figures, no_data, shared_data, short
from benchmarks.whole_run import measured
from das import pipeline
from das import spec as specification
from das.accounting.document import NAME as STATEMENT
from das.engine import executor, in_order
from das.engine.choice import EngineChoice
from das.evaluate.coverage import BY, FIRST, SIZES, CoverageTally
from das.model.histogram import Histogram
from das.release.opened import open_release
from das.release.own_replicates import OwnReplicates
from das.release.replicate_source import BY_TRUTH, COUNT_RULES
from das.release.replicated_counts import ReplicatedCounts
from das.release.replicates import SeededNoise
from das.replicates import ReplicateErrors, interval
from das.replicates.area_functions import share
from das.spec import METHODS
from das.tables import of as tables_of
from das.truth.assessment import truth_of

LEVELS = ("Tract", "Block_Group", "Block")
#: What the coverage is to be, of blocks with 100 and more, and of any other class with so many
#: counts; what seven tenths of the noise must miss.
AT_LEAST, OF_LARGE_BLOCKS, CELLS, FOUND_OUT = 0.90, 0.88, 500, 0.90
#: The scale of noise that must be found out.
SHORT = 0.7
#: What the rule that holds by true value is to hold above blocks, and how much wider than ct it may
#: be there.
BY_TRUE, WIDER = 0.88, 1.25
#: Minutes and gigabytes of 25 replicates of Rhode Island on two cores.
MINUTES, GIGABYTES = 4, 1

#: All tables together, in coarser classes.
ALL = "all"
#: Where the classes begin that are shown by table.
EACH = (0, 1, 2, 3, 4, 5, 6, 8, 11, 25, 100)
#: How many blocks the areas have, and how many areas there are of each size; what is counted of
#: them, and the shares.
RUNS, AREAS = (10, 40, 150), 150
COUNTED = ("P0010001", "P0010003", "P0020002", "P0040001", "H0010003")
SHARES = (
    ("P0040002", "P0040001"),
    ("P0020002", "P0020001"),
    ("P0040006", "P0040001"),
    ("P0010003", "P0010001"),
    ("H0010003", "H0010001"),
)

#: By level and table.
Tallies = dict[tuple[str, str], CoverageTally]
#: By what is counted and the blocks of an area: whether the truth was held, and the width.
AreaTally = dict[tuple[str, int], list[tuple[bool, float]]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.intervals", description=__doc__)
    parser.add_argument("--releases", type=int, default=8)
    parser.add_argument("--replicates", type=int, default=25)
    parser.add_argument("--county", action="store_true", help="the smallest county alone")
    parser.add_argument("--method", choices=METHODS, action="append", help="default: both")
    parser.add_argument(
        "--rule",
        choices=COUNT_RULES,
        action="append",
        help="default: ct and pratt, of the same replicates",
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder of the runs, which go on where they were")
    parser.add_argument("--seconds", action="store_true", help="of the command alone")
    given = parser.parse_args(arguments)
    figures, wanted = Figures("intervals"), BRISTOL if given.county else RHODE_ISLAND
    if (data := shared_data(wanted)) is None:
        figures.skipped("intervals", no_data(wanted))
        return
    with tempfile.TemporaryDirectory() as name:
        if given.seconds:
            _seconds(figures, data, Path(name), given.replicates, given.workers)
            return
        for method in given.method or METHODS:
            _coverage(figures, data, given.keep or Path(name), method, given)


# --- coverage
# ------------------------------------------------------------------------------------------------


def _coverage(
    figures: Figures, data: Path, folder: Path, method: str, given: argparse.Namespace
) -> None:
    rules = given.rule or ["ct", BY_TRUTH]
    right: dict[str, Tallies] = {rule: {} for rule in rules}
    less_noise: dict[str, Tallies] = {rule: {} for rule in rules}
    areas: AreaTally = {}
    for seed in range(1, given.releases + 1):
        run = folder / f"{method}-{seed}"
        if not (run / "release" / STATEMENT).is_file():
            spec = das.load_spec(
                CONFIG, [f"run.seed={seed}", f"estimation.method={method}", "output.report=false"]
            )
            pipeline.run(
                spec,
                run,
                paths=[data],
                engine=EngineChoice(workers=given.workers),
                resume=run.exists(),
            )
        das.intervals(
            run,
            replicates=given.replicates,
            seed=1000 * seed,
            coverage=0.9,
            levels=LEVELS[:1],
            workers=given.workers,
            resume=(run / "release" / "intervals" / "manifest.json").is_file(),
        )
        opened = open_release(run / "release")
        source = OwnReplicates.of(opened)
        drawn = zip(*map(source.replicates, source.universes), strict=True)
        replicates = [
            {u.name: h for u, h in zip(source.universes, of, strict=True)} for of in drawn
        ]
        _tally(run, replicates, right)
        _of_areas(run, replicates, areas)
        if seed == 1:  # one release shows it
            with executor(given.workers) as pool:
                less = partial(_replicate, run / "release", 1000, SHORT)
                _tally(run, list(in_order(pool, less, range(1, given.replicates + 1))), less_noise)
    for rule, found in right.items():
        told: dict[str, Any] = {
            "method": method,
            "rule": rule,
            "releases": given.releases,
            "replicates": given.replicates,
        }
        for level in LEVELS:
            _report(figures, found[level, ALL], level, told)
            for table in (name for lv, name in found if lv == level and name != ALL):
                _by_table(figures, found[level, table], level, table, told)
            if rule == BY_TRUTH and "ct" in right:
                wider = float(found[level, ALL].width.sum() / right["ct"][level, ALL].width.sum())
                figures(
                    f"{level}: mean width beside that of ct",
                    wider,
                    "times",
                    at_most=None if level == "Block" else WIDER,
                    **told,
                )
            of_short = less_noise[rule][level, ALL]
            classes = [(of_short.held[0, j], of_short.size[0, j]) for j in range(1, len(SIZES))]
            least = min(
                (held / size for held, size in classes if size >= CELLS), default=float("nan")
            )
            figures(
                f"{level}: least coverage of seven tenths of the noise",
                float(least),
                "share",
                at_most=FOUND_OUT if rule == "ct" else None,
                **told,
            )
    for (what, blocks), each in areas.items():
        held, width = np.array(each, dtype=np.float64).T
        figures(
            f"runs of {blocks} blocks, {what}: coverage",
            float(held.mean()),
            "share",
            method=method,
            rule="ct",
            width=float(width.mean()),
            counts=len(each),
        )


def _replicate(release: Path, seed: int, scale: float, number: int) -> dict[str, Histogram]:
    """With noise of another ``scale``."""
    opened = open_release(release)
    run = opened.run
    budget = run.persons.plan.cost / Fraction(str(scale)) ** 2
    changes = (f"budget.{run.persons.plan.mechanism.currency}={budget}",)
    less = specification.parse(run.dump(), where=run.run.name, overrides=changes)
    opened = replace(opened, spec=less.on({u.name: opened.tree(u) for u in opened.after.universes}))
    source = OwnReplicates.of(opened)
    return source.again(source.published(), SeededNoise(seed, number))


def _tally(run: Path, drawn: Sequence[dict[str, Histogram]], into: dict[str, Tallies]) -> None:
    opened, truth = truth_of(run)
    counts = OwnReplicates.of(opened).published()
    for u in opened.after.universes:
        levels, bounds = (
            [h[u.name].upward(opened.spine) for h in (counts, *drawn)],
            opened.published_bounds(u),
        )
        for table in tables_of(u):
            for level in LEVELS:
                true = table.values(truth[u.name][level].open("intervals are held against it"))
                depth = opened.spine.index(level)
                found, above = (
                    [of[opened.spine.levels[d]] for of in levels] for d in (depth, depth - 1)
                )
                parent = opened.spine.parent[depth]
                counted = ReplicatedCounts(table, found, above, parent, bounds[level])
                for rule, tallies in into.items():
                    value, lower, upper = (
                        np.concatenate(x)
                        for x in zip(
                            *(
                                (part.value, part.interval.lower, part.interval.upper)
                                for _, part in counted.intervals(0.9, rule)
                            ),
                            strict=True,
                        )
                    )
                    for name, first in ((ALL, FIRST), (table.name, EACH)):
                        into_one = tallies.setdefault((level, name), CoverageTally(first))
                        into_one.add(true, value, lower.astype(np.int64), upper.astype(np.int64))


def _of_areas(run: Path, drawn: Sequence[dict[str, Histogram]], into: AreaTally) -> None:
    """Consecutive blocks, wherever block groups end; the same for all releases."""
    opened, truth = truth_of(run)
    counts, lowest = OwnReplicates.of(opened).published(), opened.spine.levels[-1]
    needed = {*COUNTED, *(c for pair in SHARES for c in pair)}
    every: dict[
        str, NDArray[np.int64]
    ] = {}  # of the truth, the release and its replicates, (2 + replicates, blocks)
    for u in opened.after.universes:
        true = truth[u.name][lowest].open("intervals of areas are held against it")
        for table in tables_of(u):
            wanted = [j for j, c in enumerate(table.columns) if c in needed]
            if wanted:
                values = [
                    table.values(h)[:, wanted]
                    for h in (true, counts[u.name], *(d[u.name] for d in drawn))
                ]
                every |= dict(
                    zip(
                        [table.columns[j] for j in wanted],
                        np.moveaxis(np.array(values), 2, 0),
                        strict=True,
                    )
                )
    rng, blocks = np.random.default_rng(1), opened.spine.units(lowest)
    for size in RUNS:
        for start in rng.integers(0, blocks - size, AREAS).tolist():
            sums = {
                c: v[:, start : start + size].sum(axis=1, keepdims=True) for c, v in every.items()
            }
            asked: dict[str, NDArray[Any]] = {c: sums[c] for c in COUNTED}
            asked |= {f"share {a}/{b}": share(sums[a] * 1.0, sums[b] * 1.0) for a, b in SHARES}
            for what, (true, value, *again) in asked.items():
                made = interval(value, ReplicateErrors.of(value, np.array(again)), 0.9)
                if np.isfinite(made.margin).all() and np.isfinite(true).all():
                    held = bool(made.lower[0] <= true[0] <= made.upper[0])
                    into.setdefault((what, size), []).append(
                        (held, float(made.upper[0] - made.lower[0]))
                    )


def _by_table(
    figures: Figures, found: CoverageTally, level: str, table: str, told: dict[str, Any]
) -> None:
    """One line for a table: each class with its coverage, mean width and counts."""
    for i, by in enumerate(BY):
        classes = {
            f"{first}": short(
                [
                    float(found.held[i, j] / found.size[i, j]),
                    float(found.width[i, j] / found.size[i, j]),
                    int(found.size[i, j]),
                ]
            )
            for j, first in enumerate(EACH)
            if found.size[i, j]
        }
        sure = [
            found.held[i, j] / found.size[i, j]
            for j in range(len(EACH))
            if found.size[i, j] >= CELLS
        ]
        least = min(sure, default=float("nan"))
        figures(
            f"{level}, {table}, by {by} count: least coverage",
            float(least),
            "share",
            classes=classes,
            **told,
        )


def _report(figures: Figures, found: CoverageTally, level: str, told: dict[str, Any]) -> None:
    for i, by in enumerate(BY):
        for j, size in enumerate(SIZES):
            if found.size[i, j] < CELLS:
                continue
            least = None
            if by == "published":
                least = OF_LARGE_BLOCKS if (level, FIRST[j]) == ("Block", 100) else AT_LEAST
            elif told["rule"] == BY_TRUTH and level != "Block":
                least = BY_TRUE
            figures(
                f"{level}, {by} {size}: coverage",
                float(found.held[i, j] / found.size[i, j]),
                "share",
                at_least=least,
                width=float(found.width[i, j] / found.size[i, j]),
                counts=int(found.size[i, j]),
                **told,
            )


# --- cost
# ----------------------------------------------------------------------------------------------------


def _seconds(figures: Figures, data: Path, folder: Path, replicates: int, workers: int) -> None:
    for method in METHODS:
        run = folder / method
        spec = das.load_spec(
            CONFIG, ["run.seed=1", f"estimation.method={method}", "output.report=false"]
        )
        pipeline.run(spec, run, paths=[data], engine=EngineChoice(workers=workers))
        found = measured(
            ["intervals", str(run), "--replicates", str(replicates)],
            folder / f"of-{method}",
            workers=workers,
        )
        bar = MINUTES if method == "topdown" else None
        figures(
            f"{method}: {replicates} replicates, all tables and levels",
            found.seconds / 60,
            "min",
            at_most=bar,
            cpu_seconds=found.cpu,
            workers=workers,
        )
        if found.peak_mb is not None:
            figures(
                f"{method}: memory of all processes", found.peak_mb / 1000, "GB", at_most=GIGABYTES
            )


if __name__ == "__main__":
    main()
