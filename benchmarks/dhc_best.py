"""``dhc-best`` on ``pl94-2010-best`` next to production's DHC on production's redistricting release:
the same records, paired seeds, errors of what is published by level.

Records are simulated over the real redistricting counts of counties of Rhode Island (Bristol alone,
unless others are named), so ratios are what counts. For every seed both redistricting releases are
made, and both DHC on them. ``dhc-best`` can rest on others ``--below``. On ``default``, which is
``pl94-2010`` as it is, or on ``full``, its measurements with full information, it is next to
production's DHC on ``default``.
Errors are mean absolute errors of all lines of each published table and of some queries, over the
units of a level. Every table that is worse than production's by more than 2 % is listed.

The end is a step of the second stage (:mod:`benchmarks.second_stage`): which tables and queries are
short, which of them no query with few answers tells, and which shares are next."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import CONFIG, CONFIG_BEST, Figures, compared, no_data, shared_data
from benchmarks.county_runs import BRISTOL_CODE, file_of, of_county
from benchmarks.paying import paying
from benchmarks.second_stage import MeasuredGroup, missing, next_shares, raised
from das.engine import executor, in_order
from das.engine.choice import EngineChoice
from das.engine.tasks import SILENT
from das.estimate.outer import OuterEstimates
from das.files import packaged
from das.model.ledger import Ledger
from das.noise import entropy
from das.publications.dhc.release_files import levels_of, tables_of
from das.publications.dhc.spec import DhcSpec, DhcUniverse
from das.publications.dhc.truth import simulated as simulator
from das.publications.dhc.truth.oracle import OnDemandMeasurement
from das.publications.dhc.truth.preparation import EarlierRelease, PreparedDhc, prepare
from das.runs import pipeline
from das.spec import load, of_kind
from das.spec import parse as parsed
from das.truth.prepared import over

BRISTOL = Path("pl94_2010", "ri", "ri2010_bristol_44001.pl.zip")
LEVELS = ("State", "County", "Tract", "Block_Group", "Block")
#: The configuration of the DHC, that of the redistricting release, and changes to the latter.
PRODUCTION = ("dhc-2020", CONFIG, ("geography.spine=tabulation",))
BEST = ("dhc-best", CONFIG_BEST, ())
_DEFAULT = ("dhc-2020", CONFIG, ())
#: By what ``dhc-best`` rests on: what it is compared with, and itself.
BELOW = {
    "best": (PRODUCTION, BEST),
    "production": (PRODUCTION, ("dhc-best", *PRODUCTION[1:])),
    "default": (_DEFAULT, ("dhc-best", *_DEFAULT[1:])),
    "full": (_DEFAULT, ("dhc-best", CONFIG, ("estimation.method=full-information",))),
}
#: Queries by universe, besides the published tables.
QUERIES = {
    "persons": {
        "five-year ages": "age_5_years",
        "ages": "age_23_groups",
        "0-17, 18-64, 65 and over": "age_18_64_116",
        "age by sex and race": "sex * age_23_groups * race7",
        "relationships": "popSehsdTargetsRelship",
    },
    "households": {
        "size": "hhsize_all",
        "age of householder": "hhage",
        "elderly": "elderly",
        "couples": "coupled_hh_type",
        "race by tenure": "race * hhtenshort_2lev",
        "origin by tenure": "hisp * hhtenshort_2lev",
    },
    "units": {"tenure and vacancy": "tenvacgq"},
}
#: By level and group: the most that an error may be, as a part of production's.
BARS = {
    ("Tract", "five-year ages"): 0.55,
    ("Block_Group", "five-year ages"): 0.55,
    ("Tract", "size"): 0.4,
    ("Tract", "age of householder"): 0.4,
    ("Tract", "elderly"): 0.2,
}
#: No table may be worse by more than the one; beyond the other it is listed.
WORST, LISTED = 1.05, 1.02
Key = tuple[str, str]
Errors = Mapping[Key, float]
#: Prints a figure, with the county and what is below.
Printed = Callable[..., None]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dhc_best", description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--config", default="dhc-best", help="instead of dhc-best")
    parser.add_argument("--below", nargs="+", choices=tuple(BELOW), default=["best"])
    parser.add_argument("--counties", nargs="+", default=[BRISTOL_CODE], help="such as 001 005")
    given = parser.parse_args(arguments)
    for county in given.counties:
        if (data := shared_data(file_of(county))) is None:
            Figures("dhc_best").skipped(county, no_data(file_of(county)))
            continue
        with tempfile.TemporaryDirectory() as folder, executor(given.workers) as pool:
            file, records = of_county(data, county, Path(folder)), Path(folder, "linked")
            simulator.simulate([file], records, seed=1)
            for below in given.below:
                theirs, ours = BELOW[below]
                runs = (Run(*theirs), Run(given.config, *ours[1:]))
                work = partial(_pair, runs, file, records, Path(folder, below))
                seeds = range(1, given.repeats + 1)
                found = list(in_order(pool, work, seeds, ahead=2 * given.workers))
                figures = partial(Figures("dhc_best"), county=county, below=below)
                _print(figures, found, runs[1].spec(1))


@dataclass(frozen=True)
class Run:
    """A DHC on a redistricting release."""

    config: str
    below: Path
    changes: tuple[str, ...]

    def errors(self, data: Path, records: Path, out: Path, seed: int) -> Errors:
        earlier = parsed(
            self.below.read_text(encoding="utf-8"),
            where=str(self.below),
            overrides=(*self.changes, f"run.seed={seed}", "output.report=false"),
        )
        pipeline.run(earlier, out, paths=[data], engine=EngineChoice(workers=1))
        spec = self.spec(seed)
        release = EarlierRelease.read(out / "release", spec)
        prepared = prepare(spec, records, release, SILENT)
        return dict(_errors(prepared, estimated(prepared, seed)))

    def spec(self, seed: int) -> DhcSpec:
        text, _ = packaged.configuration(Path(self.config))
        changes = [f"run.seed={seed}", f"geography.levels={list(LEVELS)}"]
        return of_kind(DhcSpec, load(text, where=self.config, overrides=changes), self.config)


def _pair(
    runs: Sequence[Run], data: Path, records: Path, folder: Path, seed: int
) -> tuple[Errors, ...]:
    """The errors of each run with one seed."""
    return tuple(
        run.errors(data, records, folder / f"{seed}-{i}", seed) for i, run in enumerate(runs)
    )


def estimated(
    prepared: PreparedDhc, seed: int, universes: Collection[str] = tuple(QUERIES)
) -> Mapping[str, OuterEstimates]:
    """Some universes, in memory, over their measured trees; their ledgers are paid in full."""
    opened = prepared.opened(Path())
    done: dict[str, OuterEstimates] = {}
    for u in (u for u in prepared.spec.universes if u.name in universes):
        ledger, tree = Ledger(u.plan.cost, paths=u.plan.paths), opened.tree(u)
        pay = paying(ledger, u.name, u.schema, tree, u.plan)
        truth = over(tree, prepared.lowest[u.name])
        source = OnDemandMeasurement(
            truth, u.name, u.schema, tree, u.plan, entropy.seeded(seed), pay
        )
        done[u.name] = opened.estimate(u, source, done)
    return done


def _errors(
    prepared: PreparedDhc, done: Mapping[str, OuterEstimates]
) -> Iterator[tuple[Key, float]]:
    """The mean absolute error of every table and query, by level."""
    for u in prepared.spec.universes:
        truth = prepared.lowest[u.name].open("to compare").upward(prepared.spine)
        for level in LEVELS:
            pair = truth[level], done[u.name].counts[level]
            for t in tables_of(u.name):
                if level in levels_of(t, prepared.spine):
                    yield (level, t.name), mae(*(t.values(h) for h in pair))
            for name, query in QUERIES[u.name].items():
                yield (level, name), mae(*(h.answer(u.schema.query(query)) for h in pair))


def mae(truth: NDArray[np.int64], found: NDArray[np.int64]) -> float:
    return float(np.abs(truth - found).mean())


def _print(figures: Printed, found: Sequence[tuple[Errors, ...]], best: DhcSpec) -> None:
    of_universe = {u.name: list(_groups(u, found)) for u in best.universes}
    groups = [g for some in of_universe.values() for g in some]
    named = {name for queries in QUERIES.values() for name in queries}
    for g in groups:
        if g.name not in named:
            continue
        before, after = (np.array([f[i][g.level, g.name] for f in found]) for i in (0, 1))
        figures(
            f"{g.level}: {g.name}, mean absolute error relative to production's",
            g.ratio,
            "times",
            at_most=BARS.get((g.level, g.name)),
            standard_error=g.error,
            production=float(before.mean()),
            best=float(after.mean()),
            repeats=len(found),
        )
    worst = [g for g in groups if g.name not in named and g.ratio > LISTED]
    for g in sorted(worst, key=lambda g: -g.ratio):
        figures(
            f"{g.level}: table {g.name} is worse than production's",
            g.ratio,
            "times",
            at_most=WORST,
            standard_error=g.error,
        )
    if not worst:
        figures("the worst table", LISTED, "times", at_most=WORST)
    for u in best.universes:
        _second_stage(figures, best, u, of_universe[u.name])


def _groups(u: DhcUniverse, found: Sequence[tuple[Errors, ...]]) -> Iterator[MeasuredGroup]:
    """All that is compared of a universe, but of the State: it is the county again."""
    lines = {t.name: t.query for t in tables_of(u.name)}
    lines |= {name: u.schema.query(query) for name, query in QUERIES[u.name].items()}
    for level, name in found[0][0]:
        before, after = (np.array([f[i][level, name] for f in found]) for i in (0, 1))
        if name in lines and level != "State" and before.any():
            yield MeasuredGroup(level, name, lines[name], *compared(after, before))


def _second_stage(
    figures: Printed, best: DhcSpec, u: DhcUniverse, groups: Sequence[MeasuredGroup]
) -> None:
    """What is short, and the shares that are next at levels where something is. Counts that the
    release below determines do not depend on any share."""
    fixed = u.schema.query(u.fixed_query)
    below = [g for g in groups if g.lines.sums(fixed)]
    groups = [g for g in groups if g not in below]
    measured = {lv: [u.schema.query(q) for q in u.strategy.rho[lv]] for lv in LEVELS}
    rises = raised(groups, measured, WORST)
    shares = {
        level: {
            q: str(r)
            for q, r in next_shares(
                u.strategy.rho[level],
                best.production(u.name)[level],
                {q: factor for (at, q), factor in rises.items() if at == level},
            ).items()
        }
        for level in dict.fromkeys(level for level, _ in rises)
    }
    figures(
        f"second stage: groups of {u.name} that are short",
        len([g for g in groups if g.short(WORST)]),
        "groups",
        at_most=0,
        missing=[f"{g.level}: {g.name}" for g in missing(groups, measured, WORST)],
        of_the_release_below=[f"{g.level}: {g.name}" for g in below if g.short(WORST)],
        shares=shares,
    )


if __name__ == "__main__":
    main()
