"""How often the intervals that users see hold the true count, by class of size, and how wide they
are: one figure for every publication, level, and class of the true and of the published count.

Each of the ``--releases`` has noise of its own, and so have its replicates; the truth is the extract.
Counts that are certain are left out. ``error`` is the standard error of a coverage, with releases as
its clusters, because the counts of one release are not independent.

``counts``: the tables of ``das intervals``, by each rule. Required is what the default promises.
``short``: replicates with seven tenths of the noise, which must be found out. ``margins``: ``das tables --margins``.
``areas``: ``das area``, of runs of blocks that cut block groups, counts from replicates and from
measurements, and shares. ``estimates``: those of full information, with 1.96 standard errors.
``sdhc``, ``detailed`` and ``dhc`` are of :mod:`benchmarks.interval_sources`."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import das
from benchmarks.area import BRISTOL
from benchmarks.common import CONFIG, Figures, no_data, shared_data
from benchmarks.interval_sources import COVERAGE, SOURCES, Held
from benchmarks.whole_run import measured
from das import spec as specification
from das.accounting.document import NAME as STATEMENT
from das.engine import executor, in_order
from das.engine.choice import EngineChoice
from das.files.release.estimates import EstimateReader, folder_of
from das.model.areas import Areas
from das.model.histogram import Histogram
from das.model.names import encoded
from das.model.universe import Universe
from das.release.area_counts import Statistic, counts, statistics
from das.release.interval_writing import ReplicatedCounts
from das.release.intervals import Intervals
from das.release.opened import OpenedRelease, open_release
from das.release.own_replicates import OwnReplicates
from das.release.replicate_source import BY_TRUTH, PLAIN
from das.release.replicates import SeededNoise
from das.runs import pipeline
from das.spec import METHODS
from das.tables import universe_tables
from das.truth.assessment import truth_of

LEVELS = ("Tract", "Block_Group", "Block")
#: The first count of each class, and what it is called.
FIRST = (0, 1, 5, 10, 50, 250)
SIZES = ("0", "1-4", "5-9", "10-49", "50-249", "250+")
#: What the default promises of blocks and block groups, in classes of this many counts or more. Of
#: true zeros there is no upper bar: nearly all are published as 0.
AT_LEAST, AT_MOST, CELLS = 0.93, 0.97, 100
#: The scale of noise that must be found out, and what it must miss.
SHORT, FOUND_OUT = 0.7, 0.90
#: How many blocks the areas have, and how many areas there are of each size; shares.
RUNS, AREAS = (10, 40, 150), 150
SHARES = (
    "P0040002/P0040001",
    "P0020002/P0020001",
    "P0040006/P0040001",
    "P0010003/P0010001",
    "H0010003/H0010001",
)
#: Minutes and gigabytes of 25 replicates of Rhode Island on two cores.
MINUTES, GIGABYTES = 4, 1
Ints = NDArray[np.int64]
#: By source, by (``true`` or ``published``) and class: of each release, the counts, those held, and
#: the sum of widths.
Tallies = dict[tuple[str, str, str], list[NDArray[np.float64]]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.intervals", description=__doc__)
    parser.add_argument("--of", choices=(*PARTS, *SOURCES), action="append", help="default: all")
    parser.add_argument("--releases", type=int, default=4)
    parser.add_argument("--replicates", type=int, default=25)
    parser.add_argument("--data", type=Path, help="default: the smallest county of Rhode Island")
    parser.add_argument("--config", default=str(CONFIG))
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder of the runs, which go on where they were")
    parser.add_argument("--seconds", action="store_true", help="of the command alone")
    given = parser.parse_args(arguments)
    figures, asked = Figures("intervals"), given.of or (*PARTS, *SOURCES)
    given.data = given.data or shared_data(BRISTOL)
    with tempfile.TemporaryDirectory() as name:
        folder = given.keep or Path(name)
        if given.data is None:
            figures.skipped("releases", no_data(BRISTOL))
        elif given.seconds:
            _seconds(figures, given, folder)
        elif chosen := [part for part in PARTS if part in asked]:
            tallies: Tallies = {}
            for seed in range(1, given.releases + 1):
                release = _Release.of(given, folder / f"run-{seed}", seed)
                _tally(tallies, (one for part in chosen for one in PARTS[part](release)))
            _report(figures, tallies, releases=given.releases, replicates=given.replicates)
        for source in (s for s in SOURCES if s in asked and not given.seconds):
            tallies = {}
            for seed in range(1, given.releases + 1):
                _tally(
                    tallies, SOURCES[source](folder / f"{source}-{seed}", seed, given.replicates)
                )
            _report(figures, tallies, releases=given.releases)


def _tally(into: Tallies, found: Iterator[Held]) -> None:
    """The intervals of one release."""
    one: Tallies = {}
    for held in found:
        inside = (held.lower <= held.true) & (held.true <= held.upper)
        told = np.array([np.ones(held.true.shape), inside, held.upper - held.lower])
        for by, count in held.by.items():
            size = np.searchsorted(FIRST, count, side="right") - 1
            names = (held.name, *held.also)
            for i in np.unique(size):
                for name in names:
                    sums = one.setdefault((name, by, SIZES[i]), [np.zeros(3)])
                    sums[0] += told[:, size == i].sum(axis=1)
    for key, all_sums in one.items():
        into.setdefault(key, []).extend(all_sums)


def _report(figures: Figures, tallies: Tallies, **told: Any) -> None:
    for (name, by, size), each in sorted(tallies.items(), key=lambda x: x[0]):
        size_of, inside, width = np.array(each).T
        if (n := size_of.sum()) < CELLS:
            continue
        share, g = inside.sum() / n, len(each)
        error = (g / max(g - 1, 1) * ((inside - share * size_of) ** 2).sum()) ** 0.5 / n
        promised = name in PROMISED and by == "true"
        bars: dict[str, float | None] = {"at_least": AT_LEAST} if promised else {}
        if promised and size != "0":
            figures(f"{name}, {by} {size}: not more", float(share), "share", at_most=AT_MOST)
        if name in SHORTENED and by == "true" and size == "10-49":
            bars["at_most"] = FOUND_OUT
        more: dict[str, Any] = {
            "width": float(width.sum() / n),
            "counts": int(n),
            "error": float(error),
        }
        figures(f"{name}, {by} {size}: coverage", float(share), "share", **bars, **more, **told)


# --- a release, and what is published of it
# ------------------------------------------------------------------------------------------------

PROMISED = {f"intervals {BY_TRUTH}, {level}" for level in ("Block", "Block_Group")}
SHORTENED = {f"seven tenths of the noise {BY_TRUTH}, Block"}


@dataclass(frozen=True, eq=False)
class _Release:
    """A run with replicates, and with what it was made of."""

    run: Path
    opened: OpenedRelease
    source: OwnReplicates
    truth: dict[str, dict[str, Histogram]]
    drawn: list[dict[str, Histogram]]
    workers: int

    @staticmethod
    def of(given: argparse.Namespace, run: Path, seed: int) -> _Release:
        changes = [f"run.seed={seed}", "output.report=false", *given.changes]
        if not (run / "release" / STATEMENT).is_file():
            spec, engine = das.load_spec(given.config, changes), EngineChoice(workers=given.workers)
            pipeline.run(spec, run, paths=[given.data], engine=engine, resume=run.exists())
        if not (made := run / "release" / "intervals" / "manifest.json").is_file():
            noise = {"replicates": given.replicates, "seed": 1000 * seed}
            das.intervals(run, levels=LEVELS[:1], workers=given.workers, **noise)
        elif "rows" not in made.read_text():
            raise SystemExit(f"{made.parent} is not finished: take it away")
        opened, truth = truth_of(run)
        source = OwnReplicates.from_release(opened)
        names = [u.name for u in source.universes]
        drawn = zip(*map(source.replicates, source.universes), strict=True)
        said = "intervals are held against it"
        true = {u: {lv: of.open(said) for lv, of in levels.items()} for u, levels in truth.items()}
        each = [dict(zip(names, one, strict=True)) for one in drawn]
        return _Release(run, opened, source, true, each, given.workers)

    @property
    def universes(self) -> Sequence[Universe]:
        return self.opened.after.universes


def _counts(r: _Release) -> Iterator[Held]:
    return _of_rules(r, r.drawn, "intervals", (BY_TRUTH, PLAIN))


def _short(r: _Release) -> Iterator[Held]:
    with executor(r.workers) as pool:
        numbers = range(1, len(r.drawn) + 1)
        less = list(in_order(pool, partial(_short_replicate, r.run / "release"), numbers))
    return _of_rules(r, less, "seven tenths of the noise", (BY_TRUTH,))


def _of_rules(
    r: _Release, drawn: Sequence[dict[str, Histogram]], name: str, rules: Sequence[str]
) -> Iterator[Held]:
    published = r.source.published()
    for u in r.universes:
        found = [h[u.name].upward(r.opened.spine) for h in (published, *drawn)]
        bounds = r.opened.published_bounds(u)
        for table in universe_tables(u):
            for level in LEVELS:
                depth = r.opened.spine.index(level)
                above, here = (
                    [of[r.opened.spine.levels[d]] for of in found] for d in (depth - 1, depth)
                )
                parent = r.opened.spine.parent[depth]
                counted = ReplicatedCounts(table, here, above, parent, bounds[level])
                least, most = counted.limits(0, here[0].units) or (0, 1)
                true = table.values(r.truth[u.name][level])
                for rule in rules:
                    parts = [part for _, part in counted.intervals(COVERAGE, rule)]
                    value = np.concatenate([p.value for p in parts])
                    lower, upper = (
                        np.concatenate([getattr(p.interval, end) for p in parts])
                        for end in ("lower", "upper")
                    )
                    of_table = (f"{name} {rule}, {level}, {table.name}",)
                    yield Held.of(
                        f"{name} {rule}, {level}",
                        true,
                        lower,
                        upper,
                        np.asarray(least < most),
                        value,
                        of_table,
                    )


def _short_replicate(release: Path, number: int) -> dict[str, Histogram]:
    """With less noise."""
    opened = open_release(release)
    run = opened.run
    budget = run.persons.plan.cost / Fraction(str(SHORT)) ** 2
    changes = (f"budget.{run.persons.plan.mechanism.currency}={budget}",)
    less = specification.parse(run.dump(), where=run.run.name, overrides=changes)
    opened = replace(opened, spec=less.on({u.name: opened.tree(u) for u in opened.after.universes}))
    source = OwnReplicates.from_release(opened)
    return source.again(source.published(), SeededNoise(1000, number))


def _margins(r: _Release) -> Iterator[Held]:
    published = r.source.published()
    for u in r.universes:
        known = Intervals(r.opened, u, COVERAGE)
        levels = published[u.name].upward(r.opened.spine)
        for table in universe_tables(u):
            for level in LEVELS:
                at = known.of_units(level, table.masks)
                lower, upper = at.low, at.high
                uncertain = (upper >= 0) & (lower < upper)
                true, value = (table.values(h[level]) for h in (r.truth[u.name], levels))
                yield Held.of(f"tables --margins, {level}", true, lower, upper, uncertain, value)


def _estimates(r: _Release) -> Iterator[Held]:
    for u in r.universes:
        reader = EstimateReader(folder_of(r.opened.folder, u.name), r.opened.spine, r.opened.part)
        for level in LEVELS if r.opened.tree(u).alike else ():
            for name in reader.queries(level):
                value, error = reader.read(level, name, 0, r.opened.spine.units(level))
                true, reach = r.truth[u.name][level].answer(u.schema.query(name)), 1.96 * error
                yield Held.of(f"estimates, {level}", true, value - reach, value + reach, error > 0)


def _areas(r: _Release) -> Iterator[Held]:
    """Consecutive blocks, wherever block groups end; the same for all releases."""
    rng, blocks = np.random.default_rng(1), r.opened.spine.units("Block")
    names = [t.name for u in r.universes for t in universe_tables(u)]
    asked = statistics(r.source, [*names, *(f"share:{s}" for s in SHARES)])
    true = {
        (u.name, field): values
        for u in r.universes
        for t in universe_tables(u)
        for field, values in zip(t.columns, t.values(r.truth[u.name]["Block"]).T, strict=True)
    }
    for size in RUNS:
        start = rng.choice(blocks - size, AREAS, replace=False)
        unit = (start[:, None] + np.arange(size)).ravel()
        areas = Areas(
            "runs", encoded(list(map(str, start))), np.repeat(np.arange(AREAS), size), unit
        )

        def of(s: Statistic, size: int = size, start: Ints = start) -> Ints:
            sums = np.cumsum([0, *true[s.universe.name, s.field]])
            return sums[start + size] - sums[start]

        found, name = counts(r.source, areas, asked, COVERAGE), f"of {size} blocks"
        for c in found.columns:
            here, measured_ones = of(c.statistic), c.known & (c.low < c.high)
            if c.replicated is not None:
                made, wide = c.replicated.interval, measured_ones | ~c.known
                yield Held.of(f"area {name}", here, made.lower, made.upper, wide, c.value)
            yield Held.of(f"area, estimate, {name}", here, c.low, c.high, measured_ones, c.value)
        for x in found.computed:
            exact = x.computed.compute([of(s) for s in x.computed.counts])
            assert x.replicated is not None
            made = x.replicated.interval
            numbers = np.isfinite(exact) & np.isfinite(made.lower)
            yield Held.of(
                f"area, {x.computed.field}, {name}", exact, made.lower, made.upper, numbers
            )


#: What is looked at of a run, by name.
PARTS = {
    "counts": _counts,
    "short": _short,
    "margins": _margins,
    "areas": _areas,
    "estimates": _estimates,
}


# --- cost
# ----------------------------------------------------------------------------------------------------


def _seconds(figures: Figures, given: argparse.Namespace, folder: Path) -> None:
    for method in METHODS:
        run, changes = folder / method, [f"estimation.method={method}", "output.report=false"]
        spec = das.load_spec(given.config, ["run.seed=1", *changes, *given.changes])
        pipeline.run(spec, run, paths=[given.data], engine=EngineChoice(workers=given.workers))
        command = ["intervals", str(run), "--replicates", str(given.replicates)]
        found = measured(command, folder / f"of-{method}", workers=given.workers)
        bar = MINUTES if method == "topdown" else None
        name, told = f"{method}: {given.replicates} replicates", {"workers": given.workers}
        minutes: dict[str, Any] = {"at_most": bar, "cpu_seconds": found.cpu, **told}
        figures(f"{name}, all tables and levels", found.seconds / 60, "min", **minutes)
        if found.peak_mb is not None:
            gigabytes = found.peak_mb / 1000
            figures(f"{method}: memory of all processes", gigabytes, "GB", at_most=GIGABYTES)


if __name__ == "__main__":
    main()
