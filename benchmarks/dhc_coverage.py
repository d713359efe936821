"""How often intervals of the DHC contain the truth: replicates on the published redistricting counts
(``fixed``), and replicates on replicates of the redistricting release (``chain``, ``das intervals
--earlier``).

Each release is of other simulated records, with other noise, and so are its replicates: releases
are independent, counts of one release are not. ``error`` is the standard error of a coverage, with
releases as its clusters; ``replicates_to_release`` the root mean squared error that replicates show
over that of the release. Intervals are by the rule ``table`` at 90 % (``chain by ct``: by that of
the Bureau), of every line of some tables. By level, universe and true size, and by table, for classes of :data:`FEW` counts or more. A count that
is 0 in the truth, the release and all replicates is not counted, nor is one that is exact. Where
all replicates have the published count, the interval is that point. Blocks are large, so that there
are counts of 100 and more."""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Figures
from benchmarks.dhc_best import BEST, LEVELS, PRODUCTION
from das.engine import executor, in_order
from das.engine.choice import EngineChoice
from das.files import packaged
from das.files.run.run_directory import RunDirectory
from das.files.simulators import census_2010
from das.model.histogram import Histogram
from das.publications.dhc.release import open_dhc
from das.publications.dhc.replicates import DhcReplicates
from das.publications.dhc.spec import DhcSpec
from das.publications.dhc.truth import simulated as simulator
from das.release.replicate_source import BY_TABLE, PLAIN
from das.release.replicates import SeededNoise
from das.replicates import ReplicateErrors, interval
from das.replicates.by_truth import factors
from das.runs import pipeline
from das.spec import load, of_kind
from das.spec import parse as parsed
from das.truth import files as truth_file

TABLES = ("P1", "P12", "P17", "H3", "H4", "P16", "H9", "H13")
COVERAGE, OFF, FIXED_AT_MOST = 0.9, 0.015, 0.8
#: What is required of blocks' counts of 100 and more.
LARGE, LARGE_COVERAGE = "true count 100 and more", 0.88
#: Columns that the earlier release determines, by level and table: persons, and occupied units; and
#: how the class of those with a width is called.
TOTALS, WIDTH = {("Block", "P1"): 0, ("Block", "H3"): 1}, "width"
#: Of a class with fewer counts nothing is said.
FEW = 200
#: Classes of true counts, from one on.
SIZES = (0, 1, 10, 100)
KINDS = ("fixed", "chain")
#: By name: the kind of replicates, and the rule.
INTERVALS = {
    "fixed": ("fixed", BY_TABLE),
    "chain": ("chain", BY_TABLE),
    "chain by ct": ("chain", PLAIN),
}
#: By name: the configuration of the DHC, that of the redistricting release, and changes to it.
PLANS = {"production": PRODUCTION, "best": BEST}
Ints = NDArray[np.int64]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dhc_coverage", description=__doc__)
    parser.add_argument("--releases", type=int, default=6)
    parser.add_argument("--replicates", type=int, default=25)
    parser.add_argument("--persons", type=int, default=4000)
    parser.add_argument("--per-block", type=int, default=200)
    parser.add_argument("--plan", choices=PLANS, default="production")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder of the counts of releases that are made")
    given = parser.parse_args(arguments)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        kept = given.keep or Path(folder, "counts")
        kept.mkdir(parents=True, exist_ok=True)
        for seed in range(1, given.releases + 1):
            name = f"{given.plan}-{given.persons}-{given.per_block}-{given.replicates}-{seed}.npz"
            if not (counts := kept / name).is_file():
                made = _releases(
                    given.plan, given.persons, given.per_block, Path(folder, str(seed)), seed
                )
                np.savez_compressed(counts, **_counts(made, seed, given.replicates, given.workers))
            found.append(_tallied(ReleasedCounts.read(counts)))
    _print(Figures("dhc_coverage"), found, plan=given.plan, replicates=given.replicates)


# --- releases and replicates
# ------------------------------------------------------------------------------------------------


def _releases(
    plan: str, persons: int, per_block: int, folder: Path, seed: int
) -> tuple[Path, Path]:
    """A redistricting run and a run of the DHC on it, of records of their own."""
    config, below, changes = PLANS[plan]
    data, records, earlier, out = (folder / name for name in ("data", "linked", "pl94", "dhc"))
    census_2010.write(data, seed=seed, states=1, persons=persons, per_block=per_block)
    simulator.simulate([data], records, seed=seed)
    plain = [f"run.seed={seed}", "output.report=false"]
    text = below.read_text(encoding="utf-8")
    spec = parsed(text, where=str(below), overrides=[*plain, *changes])
    pipeline.run(spec, earlier, paths=[data], engine=EngineChoice(workers=1))
    text, _ = packaged.configuration(Path(config))
    on = [*plain, f"constraints.from={earlier}", f"geography.levels={list(LEVELS)}"]
    dhc = of_kind(DhcSpec, load(text, where=config, overrides=on), config)
    pipeline.run(dhc, out, paths=[records], workers=1)
    return earlier, out


def _replicate(
    made: tuple[Path, Path], seed: int, item: tuple[str, int]
) -> tuple[str, dict[str, Histogram]]:
    """One replicate of either kind, of the lowest units. One that fails stops the benchmark."""
    kind, number = item
    earlier, out = made
    plain = DhcReplicates.from_release(open_dhc(out / "release"))
    source = plain.on(earlier / "release" if kind == "chain" else None)
    return kind, source.again(source.published(), SeededNoise(seed, number))


def _counts(
    made: tuple[Path, Path], seed: int, replicates: int, workers: int, kinds: Sequence[str] = KINDS
) -> Mapping[str, Any]:
    """By universe, table and level, as :class:`ReleasedCounts` has them."""
    source, run = DhcReplicates.from_release(open_dhc(made[1] / "release")), RunDirectory(made[1])
    drawn: dict[str, list[dict[str, Histogram]]] = {kind: [] for kind in kinds}
    items = [(kind, n) for n in range(1, replicates + 1) for kind in kinds]
    with executor(workers) as pool:
        for kind, one in in_order(pool, partial(_replicate, made, seed), items, ahead=2 * workers):
            drawn[kind].append(one)
    out: dict[str, Any] = {}
    published = source.published()
    for u, table, level in source.chosen(TABLES):
        truth = truth_file.read(run.truth_of(u.name)).open("to compare")
        lowest = [truth, published[u.name], *(d[u.name] for kind in kinds for d in drawn[kind])]
        name = f"{u.name} {table.name} {level}"
        out[name] = np.array([table.values(h.upward(source.spine)[level]) for h in lowest])
        out[f"exact {name}"] = source.exact(u, table, level)
    return out


# --- coverage
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ReleasedCounts:
    """Of one release. ``counts`` by universe, table and level: the truth, the release and the
    replicates of each kind, ``(2 + kinds * replicates, units, columns)``; ``exact``, ``(columns,)``."""

    counts: Mapping[tuple[str, str, str], Ints]
    exact: Mapping[tuple[str, str, str], NDArray[np.bool_]]

    @staticmethod
    def read(path: Path) -> ReleasedCounts:
        with np.load(path) as found:
            split = {tuple(name.split()): found[name] for name in found}
        return ReleasedCounts(
            {(key[0], key[1], key[2]): v for key, v in split.items() if len(key) == 3},
            {(key[1], key[2], key[3]): v for key, v in split.items() if len(key) == 4},
        )


def intervals(
    path: Path, seed: int, replicates: int, coverage: float
) -> Iterator[tuple[str, str, tuple[NDArray[Any], ...]]]:
    """Of a release of production's plan, kept at ``path``, by the default rule on replicates of
    both releases: universe, level, and the truth, the ends, where they are of something, and what
    was published."""
    if not path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            made = _releases("production", 4000, 200, Path(folder), seed)
            np.savez_compressed(path, **_counts(made, seed, replicates, 1, KINDS[1:]))
    found = ReleasedCounts.read(path)
    for key, (truth, value, *drawn) in found.counts.items():
        able = np.broadcast_to(~found.exact[key], truth.shape)
        errors = ReplicateErrors.over(value, drawn)
        ends = interval(value, errors, coverage, factors(errors, able, coverage))
        there = np.any([truth, value, *drawn], axis=0) & able
        yield key[0], key[2], (truth, ends.lower, ends.upper, there, value)


#: Kind, level, universe and class.
Key = tuple[str, str, str, str]
#: Of each class: counts, intervals that contain the truth, and sums of widths, of mean squared errors
#: of the replicates, and of squared errors of the release, ``(5,)``.
Tally = NDArray[np.float64]
Tallies = Mapping[Key, Tally]


def _tallied(made: ReleasedCounts) -> Tallies:
    out = defaultdict[Key, Tally](lambda: np.zeros(5))
    for key, counts in made.counts.items():
        (universe, table, level), (truth, value, *drawn) = key, counts
        replicates = len(drawn) // len(KINDS)
        able = np.broadcast_to(~made.exact[key], truth.shape)
        for name, (kind, rule) in INTERVALS.items():
            first = KINDS.index(kind) * replicates
            some = drawn[first : first + replicates]
            errors = ReplicateErrors.over(value, some)
            factor = factors(errors, able, COVERAGE) if rule == BY_TABLE else None
            ends = interval(value, errors, COVERAGE, factor)
            width, square = ends.upper - ends.lower, (value - truth) ** 2
            inside = (ends.lower <= truth) & (truth <= ends.upper)
            there = np.any([truth, value, *some], axis=0) & able
            told = there, inside, width, errors.second / replicates, square
            for of, here in _classes(truth, table):
                out[name, level, universe, of] += [x[here & there].sum() for x in told]
            if (level, table) in TOTALS:
                column = TOTALS[level, table]
                published = value[:, column] > 0
                wide = published & (width[:, column] > 0)
                out[name, level, universe, WIDTH] += published.sum(), wide.sum(), 0, 0, 0
    return out


def _classes(truth: Ints, table: str) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """By true size, all, and by table."""
    of_size = np.searchsorted(SIZES, truth, side="right") - 1
    for i, first in enumerate(SIZES):
        last = f"-{SIZES[i + 1] - 1}" if i + 1 < len(SIZES) else " and more"
        yield f"true count {first}{last if i else ''}", of_size == i
    for name in ("all", table):
        yield name, np.ones_like(of_size, dtype=bool)


def _print(figures: Figures, found: Sequence[Tallies], **more: object) -> None:
    """The least coverages first: a class fails by itself. Tables have no bar of their own."""
    keys, none = sorted({key for hits in found for key in hits}), np.zeros(5)
    every = {key: np.array([hits.get(key, none) for hits in found]) for key in keys}
    shown = {key: of for key, of in every.items() if key[3] != WIDTH and of[:, 0].sum() >= FEW}
    classes = {key: of for key, of in shown.items() if key[3] not in TABLES}
    large = {key: of for key, of in classes.items() if (key[1], key[3]) == ("Block", LARGE)}
    for name in INTERVALS:
        mine = {key: of for key, of in classes.items() if key[0] == name}
        others = {key: of for key, of in mine.items() if key not in large}
        if name == "fixed":
            _least(figures, f"{name}: the least of a class", mine, at_most=FIXED_AT_MOST)
            continue
        bars = (COVERAGE - OFF, LARGE_COVERAGE) if name == "chain" else (None, None)
        _least(figures, f"{name}: the least of a class", others, at_least=bars[0])
        blocks = {key: of for key, of in mine.items() if key in large}
        _least(figures, f"{name}: the least of blocks, {LARGE}", blocks, at_least=bars[1])
    for (kind, _, universe, name), of in every.items():
        if name == WIDTH:
            share = float(of[:, 1].sum() / of[:, 0].sum())
            bar = {"at_least": 1.0} if kind == "chain" else {}
            figures(f"{kind}: blocks' totals of {universe} with a width", share, "share", **bar)
    for (kind, level, universe, name), of in shown.items():
        _figure(figures, f"{kind}, {level}, {universe}, {name}", of, **more)


def _least(figures: Figures, name: str, some: Tallies, **bar: float | None) -> None:
    if not some:
        figures.skipped(name, f"no class has {FEW} counts")
        return
    least = min(some, key=lambda key: _coverage(some[key])[0])
    _figure(figures, name, some[least], **bar, least=", ".join(least[1:]))


def _figure(figures: Figures, name: str, of: Tally, **more: Any) -> None:
    share, error = _coverage(of)
    counts, _, width, replicates, release = of.sum(axis=0)
    more |= {"error": error, "counts": int(counts), "width": float(width / counts)}
    more["replicates_to_release"] = float((replicates / release) ** 0.5)
    figures(name, share, "share", releases=len(of), **more)


def _coverage(of: Tally) -> tuple[float, float]:
    """The share of counts that are held, of :math:`n_i` in release i :math:`h_i`, and its standard
    error as of a ratio of sums of independent releases, :math:`\\sqrt{g / (g - 1) \\sum_i (h_i - r
    n_i)^2} / \\sum_i n_i`."""
    counts, held = of[:, :2].sum(axis=0)
    share = float(held / counts)
    square = float(((of[:, 1] - share * of[:, 0]) ** 2).sum())
    releases = len(of)
    return share, (releases / max(releases - 1, 1) * square) ** 0.5 / float(counts)


if __name__ == "__main__":
    main()
