"""With and without the prior of shares, on the same noise, on persons of 28 real tracts: who gains
by block, who loses, and how often intervals hold the truth.

Each run makes the redistricting counts and the DHC's persons, with ``estimation.prior`` at "none"
and "shares". Published counts of blocks are compared with the truth by class: by how many persons
of a group live there, where the group is more than half, and in *enclaves*: more than half of a
block (of its adults, for groups of adults), and less than a fifth of its block group. Groups are
classes of age, and the 65 and over of each race. (Numbers of a race under and over 18 are held
fixed: no prior changes them.) Errors of a production run of the Bureau are next to them.

A ``ratio`` below 1 is the prior's gain. ``worse`` says that the difference of errors, over the runs,
is more than three standard errors above zero. One line has the error with the fixed weight w = 100,
in multiples of the detailed query's rho.

*Intervals* (``--replicates``) are of one release of every fourth tract, by the rule ``ct`` at 90 %.
Each replicate is on a replicate of the redistricting counts. Their coverage is by the true count."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import process_time

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Figures, no_data, shared_data
from benchmarks.tracts import (
    PL94_FIXED,
    TRACTS,
    TractWorld,
    UniverseRun,
    age_errors,
    redistricted,
    run_universe,
)
from das.estimate.fixed_counts import FixedCounts
from das.model.histogram import Histogram
from das.model.post_processing import SharesPrior
from das.publications.dhc.model import strategy
from das.publications.dhc.model.persons import DHCP
from das.replicates import ReplicateErrors, interval

#: What 65 and over by block may be off, with the fixed weight and with the estimated one; and
#: totals, next to those without a prior.
BAR, SAME = 1.15, 1.0
WEIGHT = 100.0
AGES = {"0-4": (0, 5), "18-24": (18, 25), "25-44": (25, 45), "65+": (65, 200), "75+": (75, 200)}
#: Of 63 combinations of races and of origin, the groups whose 65 and over are counted.
RACES: Mapping[str, Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]] = {
    "Hispanic": lambda race, origin: origin == 1,
    "White": lambda race, origin: (race == 0) & (origin == 0),
    "Black": lambda race, origin: (race == 1) & (origin == 0),
    "AIAN": lambda race, origin: (race == 2) & (origin == 0),
    "Asian": lambda race, origin: (race == 3) & (origin == 0),
    "two or more": lambda race, origin: (race > 5) & (origin == 0),
}
COUNTS = ((0, 0), (1, 4), (5, 9), (10, 19), (20, 49), (50, None))
COVERAGE = 0.9
Ints = NDArray[np.int64]
Errors = Mapping[str, Ints]  #: by what is counted where: published less true


class FixedWeight(SharesPrior):
    """A prior whose ``spread`` is the weight itself, the same below every parent."""

    def weight(self, number: int, unit: int, alone: float) -> float:
        return float(self.spread[number, unit])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dhc_prior", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--replicates", type=int, default=0, help="of each kind; 0: no intervals")
    given = parser.parse_args(arguments)
    figures, data = Figures("dhc_prior"), shared_data(TRACTS)
    if data is None:
        figures.skipped("all", no_data(TRACTS))
        return
    world = TractWorld.read(data)
    found = [_pair(figures, world, seed, given.workers) for seed in range(1, given.repeats + 1)]
    if found:
        _print(figures, world, found)
    if given.replicates:
        _intervals(figures, TractWorld.read(data, 4), given.replicates, given.workers)


def estimated(
    world: TractWorld, truth: Histogram, seed: int, workers: int, shares: bool | SharesPrior
) -> UniverseRun:
    """The DHC's persons, on redistricting counts with noise of the same seed."""
    before = redistricted(truth, world.spine, seed)
    fixed = FixedCounts.from_histogram(DHCP, PL94_FIXED, before, world.spine)
    persons = strategy.persons()
    return run_universe("persons", truth, world.spine, persons, fixed, seed, workers, shares=shares)


def _pair(figures: Figures, world: TractWorld, seed: int, workers: int) -> tuple[Errors, Errors]:
    """The errors without and with the prior."""
    ran, seconds = [], []
    for shares in (False, True):
        began = process_time()
        ran.append(estimated(world, world.truth, seed, workers, shares))
        seconds.append(process_time() - began)
    if seed == 1:
        _print_first(figures, world, ran, seconds)
        if (prior := ran[1].prior) is not None:
            _fixed_weight(figures, world, prior, workers)
    none, with_prior = (dict(_errors(world, r.counts["Block"])) for r in ran)
    return none, with_prior


def _print_first(
    figures: Figures, world: TractWorld, ran: Sequence[UniverseRun], seconds: Sequence[float]
) -> None:
    """What must not change, what it costs, and the spread."""
    same = all(
        ran[0].counts[level].same_as(ran[1].counts[level]) for level in world.spine.levels[:-1]
    )
    figures("levels above the block that differ", float(not same), "", at_most=0)
    if (prior := ran[1].prior) is not None:
        figures("processor, next to that without", seconds[1] / seconds[0], "times", s=seconds[1])
        for number in range(len(prior.spread)):
            figures(
                f"spread, pass {number + 1}",
                float(prior.spread[number, 0]),
                "times",
                standard_error=float(prior.error[number, 0]),
                seen=int(prior.seen[number, 0]),
            )
    figures(
        "cells with somebody",
        float(len(ran[1].counts["Block"].cell)),
        "cells",
        none=len(ran[0].counts["Block"].cell),
        truth=len(world.truth.cell),
    )


def _fixed_weight(figures: Figures, world: TractWorld, like: SharesPrior, workers: int) -> None:
    rho = float(strategy.persons().rho["Block"]["detailed"])
    given = FixedWeight(like.level, np.full_like(like.spread, WEIGHT * rho), like.error, like.seen)
    found = estimated(world, world.truth, 1, workers, given).counts["Block"]
    off = age_errors(world.truth, found, world.spine, "Block")
    figures(
        f"65+ by block, w = {WEIGHT:g}: mean absolute error", off["65+"], "persons", at_most=BAR
    )


def _errors(world: TractWorld, published: Histogram) -> Iterator[tuple[str, Ints]]:
    """Errors of the groups by class of block, and by level above."""
    spine, truth = world.spine, world.truth
    home = spine.parent[-1]
    ours, theirs = (dict(_counts(h)) for h in (published, truth))
    everybody, adults = theirs["total"], theirs["18 and over"]
    for name, value in ours.items():
        there, error = theirs[name], value - theirs[name]
        yield f"{name}, all blocks", error
        if name in ("total", "18 and over"):
            continue
        for words, here in _classes(there):
            yield f"{name}, {words} in the block", error[here]
        of = everybody if name == "0-4" else adults
        most = (2 * there > of) & (of > 0)
        yield f"{name}, more than half", error[most]
        around = np.bincount(home, weights=there)[home] < 0.2 * np.bincount(home, weights=of)[home]
        yield f"{name}, enclaves", error[most & around]


def _classes(there: Ints) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """The classes of true counts, in words, and the blocks of each."""
    for low, high in COUNTS:
        words = f"{low} and more" if high is None else f"{low}" if low == high else f"{low}-{high}"
        yield words, (there >= low) & (there <= (there.max(initial=0) if high is None else high))


def _counts(h: Histogram) -> Iterator[tuple[str, Ints]]:
    _, _, age, origin, race = np.unravel_index(h.cell, DHCP.shape)

    def of(some: NDArray[np.bool_]) -> Ints:
        return np.bincount(h.unit, h.count * some, minlength=h.units).astype(np.int64)

    yield "total", of(age >= 0)
    yield "18 and over", of(age >= 18)
    for name, (first, stop) in AGES.items():
        yield name, of((age >= first) & (age < stop))
    for name, member in RACES.items():
        yield f"65+ {name}", of((age >= 65) & member(race, origin))


def _print(figures: Figures, world: TractWorld, found: Sequence[tuple[Errors, Errors]]) -> None:
    bureau = dict(_errors(world, world.bureau))
    for name in found[0][0]:
        if len(found[0][0][name]) < 5:
            continue
        mae = [np.array([np.abs(run[i][name]).mean() for run in found]) for i in (0, 1)]
        bias = [float(np.mean([run[i][name].mean() for run in found])) for i in (0, 1)]
        if not mae[0].any():
            continue
        figures(
            name,
            float(mae[1].mean() / mae[0].mean()),
            "ratio of mean absolute errors",
            at_most=SAME if name == "total, all blocks" else None,
            none=float(mae[0].mean()),
            shares=float(mae[1].mean()),
            bureau=float(np.abs(bureau[name]).mean()),
            bias_none=bias[0],
            bias_shares=bias[1],
            worse=worse(mae[1] - mae[0]),
            blocks=len(found[0][0][name]),
            runs=len(found),
        )
    off = float(np.mean([np.abs(run[1]["65+, all blocks"]).mean() for run in found]))
    figures("65+ by block, estimated weight: mean absolute error", off, "persons", at_most=BAR)


# --- intervals
# --------------------------------------------------------------------------------------------------


def _intervals(figures: Figures, world: TractWorld, replicates: int, workers: int) -> None:
    theirs = dict(_counts(world.truth))
    for word, shares in (("none", False), ("shares", True)):
        release = estimated(world, world.truth, 1, workers, shares).counts["Block"]
        drawn = [
            dict(_counts(estimated(world, release, 1000 + n, workers, shares).counts["Block"]))
            for n in range(replicates)
        ]
        value = dict(_counts(release))
        for name in ("total", *AGES):
            errors = ReplicateErrors.over(value[name], [d[name] for d in drawn])
            made, true = interval(value[name], errors, COVERAGE), theirs[name]
            inside = (made.lower <= true) & (true <= made.upper)
            for words, here in _classes(true):
                if here.sum() < 50:
                    continue
                figures(
                    f"{word}: {name}, true count {words}",
                    float(inside[here].mean()),
                    "coverage at 90 %",
                    width=float((made.upper - made.lower)[here].mean()),
                    blocks=int(here.sum()),
                    replicates=replicates,
                )


def worse(difference: NDArray[np.float64]) -> bool:
    if len(difference) < 2:
        return False
    return bool(difference.mean() > 3 * difference.std(ddof=1) / len(difference) ** 0.5)


if __name__ == "__main__":
    main()
