"""Occupied and vacant housing units (table H3) of ``pl94-2010-best``, next to production's plan on
the spine of tabulation: the same records, paired seeds.

The DHC keeps these counts, so no plan of the DHC changes their errors. The optimized spine keeps
places and districts together, and the block groups of tabulation are sums of its own. Errors are
mean absolute errors of both counts over the units of a level."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.common import (
    CONFIG,
    CONFIG_BEST,
    RHODE_ISLAND,
    Figures,
    compared,
    no_data,
    shared_data,
)
from benchmarks.published import both, planned, published
from das import spec as specification
from das.engine import InProcess, Silent, executor, in_order
from das.model.universe import HOUSING
from das.stages import Stages
from das.truth.preparation import prepare

BRISTOL = Path("pl94_2010", "ri", "ri2010_bristol_44001.pl.zip")
#: A table of more than this part of production's error is a bar of the DHC that is missed.
WORST, LEVELS = 1.05, ("County", "Tract", "Block_Group", "Block")
Errors = Mapping[str, float]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.occupied", description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--whole", action="store_true", help="Rhode Island, not Bristol County")
    parser.add_argument("--set", action="append", default=[], dest="changes", help="to the best")
    given = parser.parse_args(arguments)
    figures, file = Figures("occupied"), RHODE_ISLAND if given.whole else BRISTOL
    if (data := shared_data(file)) is None:
        figures.skipped("all", no_data(file))
        return
    seeds = range(1, given.repeats + 1)
    production = "geography.spine=tabulation", "estimation.method=topdown"
    with executor(given.workers) as pool:
        before, after = (
            list(in_order(pool, partial(errors, config, tuple(changes), data), seeds))
            for config, changes in ((CONFIG, production), (CONFIG_BEST, given.changes))
        )
    for level in before[0]:
        theirs, ours = (np.array([e[level] for e in run]) for run in (before, after))
        ratio, error = compared(ours, theirs)
        figures(
            f"{level}: H3, mean absolute error relative to production's",
            ratio,
            "times",
            at_most=WORST if level in LEVELS else None,
            standard_error=error,
            production=float(theirs.mean()),
            best=float(ours.mean()),
            repeats=len(ours),
        )


def errors(config: Path, changes: tuple[str, ...], data: Path, seed: int) -> Errors:
    """Of one run with this seed, by level and kind of area."""
    spec = specification.parse(
        config.read_text(encoding="utf-8"), where=str(config), overrides=changes
    )
    prepared = prepare(spec, [data], Stages(), Silent())
    found = published(spec, prepared, seed, InProcess(), HOUSING.name)
    query = planned(spec, HOUSING.name).schema.query("detailed")
    return {
        kind: float(np.abs(out.answer(query) - true.answer(query)).mean())
        for kind, true, out in both(prepared, HOUSING.name, found)
    }


if __name__ == "__main__":
    main()
