"""Larger and larger simulated 2010 extracts: what a thousand blocks cost, which must not grow with
the extract.

10^4 and 10^5 blocks, with ``--large`` 10^6 too: three states (twenty-four for 10^6), 42 persons a
block as in Rhode Island, the whole pipeline with the production settings. The extracts are made for
the run and deleted."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import Figures
from benchmarks.whole_run import whole_run
from das.files.release import spine as spine_file
from das.files.simulators import census_2010 as simulate_2010
from das.files.simulators.census_2010 import PERSONS_PER_BLOCK

#: Blocks asked for, and the number of states that they lie in.
SIZES = {10_000: 3, 100_000: 3}
LARGE = {1_000_000: 24}
GROWTH = 1.25  # what a busy machine may add


@dataclass(frozen=True)
class Measured:
    """Seconds for a thousand blocks by stage, and megabytes for a thousand blocks at the peak."""

    blocks: int
    seconds: dict[str, float]
    megabytes: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument(
        "--large",
        action="store_true",
        help="also 10^6 blocks (3 * 10^5 take five minutes, half of it to make them)",
    )
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    given = parser.parse_args(arguments)
    figures = Figures("scaling")
    sizes = SIZES | (LARGE if given.large else {})
    found = [_measured(figures, blocks, states, given.workers) for blocks, states in sizes.items()]
    for last in found[1:]:
        first = found[0]
        label = f"from {first.blocks} to {last.blocks} blocks"
        for stage in (
            s for s in last.seconds if s in first.seconds
        ):  # a run that is cut has others
            ratio = last.seconds[stage] / max(first.seconds[stage], 1e-3)
            figures(
                f"growth of seconds per block, {stage}, {label}", ratio, "times", at_most=GROWTH
            )
        figures(
            f"growth of memory per block, {label}",
            last.megabytes / first.megabytes,
            "times",
            at_most=GROWTH,
        )


def _measured(figures: Figures, blocks: int, states: int, workers: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "extract"
        persons = blocks * PERSONS_PER_BLOCK
        simulate_2010.write(data, seed=blocks, states=states, persons=persons)
        run = whole_run(data, Path(folder) / "run", workers=workers)
        spine = spine_file.read(run.directory.release / "spine.parquet")
    thousands = spine.units(spine.levels[-1]) / 1000
    whole = {"whole run": run.seconds, "whole run, processors": run.cpu}
    seconds = {stage: s / thousands for stage, s in (run.stages() | whole).items()}
    for stage, s in seconds.items():
        figures(
            f"{stage}, {blocks:.0e} blocks",
            s,
            "s per 1000 blocks",
            blocks=int(1000 * thousands),
            persons=persons,
            states=states,
            workers=workers,
            seconds=s * thousands,
        )
    peak = run.peak_mb or run.largest_process_mb()
    figures(
        f"peak memory, {blocks:.0e} blocks",
        peak,
        "MB",
        megabytes_per_1000_blocks=peak / thousands,
        largest_process_mb=run.largest_process_mb(),
    )
    return Measured(int(1000 * thousands), seconds, peak / thousands)


if __name__ == "__main__":
    main()
