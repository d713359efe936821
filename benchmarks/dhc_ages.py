"""Ages of 28 real tracts under four plans, next to a production run of the Bureau: classes of five
years, single years under 20, single years, the median age, 65 and over.

The plans are production's; the same with measurements of single cells from the first pass on
(``estimation.cells``); ``dhc-best`` on ``pl94-2010-best``; and that with both, and the prior of
shares at blocks. All have the same seeds. Production's plan has no Prim and no Tract_Subset_Group
here. Errors are means over the units of a level and the classes, of one sex or both. Total, 0-17, and
65 and over by block may not be worse than under production's plan, by more than two standard
errors. The redistricting release determines the first two, so these have more seeds."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import CONFIG, CONFIG_BEST, Figures, compared, no_data, shared_data
from benchmarks.tracts import LEVELS, PL94_FIXED, TRACTS, TractWorld, redistricted, run_universe
from das.estimate.fixed_counts import FixedCounts
from das.files import packaged
from das.model.histogram import Histogram
from das.model.plan import Strategy
from das.model.redistricting import PL94
from das.publications.dhc.figures import median_age
from das.publications.dhc.model import strategy
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.spec import DhcSpec
from das.spec import load, of_kind

AGES, TEENS = 116, 20
Errors = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class AgePlan:
    """A DHC's persons on a redistricting release."""

    name: str
    persons: Strategy
    below: Path
    shares: bool = False

    def ages(self, world: TractWorld, seed: int, workers: int) -> Mapping[str, Histogram]:
        before = redistricted(world.truth, world.spine, seed, self.below)
        fixed = FixedCounts.from_histogram(DHCP, PL94_FIXED, before, world.spine)
        return run_universe(
            "persons",
            world.truth,
            world.spine,
            self.persons,
            fixed,
            seed,
            workers,
            shares=self.shares,
        ).counts


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dhc_ages", description=__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--below", type=int, default=8, help="runs of the redistricting releases")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args(arguments)
    figures, data = Figures("dhc_ages"), shared_data(TRACTS)
    if data is None:
        figures.skipped("all", no_data(TRACTS))
        return
    world = TractWorld.read(data)
    _print_below(figures, world, given.below)
    errors: dict[str, list[Errors]] = {}
    for seed in range(1, given.repeats + 1):
        for plan in plans():
            found = plan.ages(world, seed, given.workers)
            errors.setdefault(plan.name, []).append(dict(_errors(world, found)))
    bureau = dict(_errors(world, world.bureau.upward(world.spine))) if errors else {}
    for level, what in bureau:
        each = {name: np.array([e[level, what] for e in runs]) for name, runs in errors.items()}
        means = {name: float(e.mean()) for name, e in each.items()}
        ratio, error = compared(each["best"], each["production"])
        figures(
            f"{level}: {what}, dhc-best relative to production",
            ratio,
            "times",
            at_most=1.0 + 2 * error if level == "Block" and what == "65+" else None,
            standard_error=error,
            bureau=bureau[level, what],
            runs=given.repeats,
            **means,
        )


def _print_below(figures: Figures, world: TractWorld, runs: int) -> None:
    """Counts by block that the redistricting release determines."""
    query = DHCP.query("votingage")
    truth, bureau = (h.answer(query) for h in (world.truth, world.bureau))
    found = {
        config: [
            redistricted(world.truth, world.spine, seed, config).answer(PL94.query("votingage"))
            for seed in range(1, runs + 1)
        ]
        for config in (CONFIG, CONFIG_BEST)
    }
    for what, counted in (("total", slice(None)), ("0-17", slice(1))):
        theirs, ours = (
            np.array([_mean((h - truth)[:, counted].sum(axis=1)) for h in found[config]])
            for config in (CONFIG, CONFIG_BEST)
        )
        ratio, error = compared(ours, theirs)
        figures(
            f"Block: {what}, pl94-2010-best relative to production",
            ratio,
            "times",
            at_most=1.0 + 2 * error,
            standard_error=error,
            bureau=_mean((bureau - truth)[:, counted].sum(axis=1)),
            production=float(theirs.mean()),
            best=float(ours.mean()),
            runs=runs,
        )


def plans() -> Iterator[AgePlan]:
    text, _ = packaged.configuration(Path("dhc-best"))
    changes = [f"geography.levels={list(LEVELS)}"]
    spec = of_kind(DhcSpec, load(text, where="dhc-best", overrides=changes), "dhc-best")
    best = spec.universe("persons").strategy
    yield AgePlan("production", strategy.persons(), CONFIG)
    yield AgePlan("cells_first", strategy.persons().cells_first(), CONFIG)
    yield AgePlan("best", best, CONFIG_BEST)
    yield AgePlan("best_cells_first_shares", best.cells_first(), CONFIG_BEST, shares=True)


def _errors(
    world: TractWorld, found: Mapping[str, Histogram]
) -> Iterator[tuple[tuple[str, str], float]]:
    truth = world.truth.upward(world.spine)
    for level in ("Tract", "Block_Group", "Block"):
        ours, theirs = (
            h[level].answer(DHCP.query("sex * age")).reshape(-1, 2, AGES) for h in (found, truth)
        )
        off = ours - theirs
        years = np.arange(0, 90, 5)
        both = np.add.reduceat(off.sum(axis=1), years, axis=1)
        yield (level, "five-year ages"), _mean(both)
        yield (level, "single years under 20, by sex"), _mean(off[:, :, :TEENS])
        yield (level, "single years under 18, by sex"), _mean(off[:, :, :18])
        yield (level, "single years, by sex"), _mean(off[:, :, :100])
        yield (level, "total"), _mean(off.sum(axis=(1, 2)))
        yield (level, "0-17"), _mean(off.sum(axis=1)[:, :18].sum(axis=1))
        yield (level, "65+"), _mean(off.sum(axis=1)[:, 65:].sum(axis=1))
        if level != "Block":
            medians = [
                np.array([median_age(x) or np.nan for x in h.sum(axis=1)]) for h in (ours, theirs)
            ]
            yield (level, "median age, years"), float(np.nanmean(np.abs(medians[0] - medians[1])))


def _mean(off: NDArray[np.int64]) -> float:
    return float(np.abs(off).mean())


if __name__ == "__main__":
    main()
