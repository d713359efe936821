"""The link of a whole state: minutes, memory, and blocks that disagree.

Rhode Island has its real redistricting counts of 2010, with persons and households made up to
match. A redistricting run and a run of the DHC with production's budgets come first, with public
seeds, unless a release is named. Then ``das link`` is measured, from its start to its last file."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import das
from benchmarks.common import CONFIG, RHODE_ISLAND, Figures, no_data, shared_data
from benchmarks.whole_run import CommandCost, command_cost, whole_run
from das.files.run.run_directory import read_json
from das.publications.dhc.truth import simulated
from das.runs import pipeline
from das.tools.link.release import FIGURES

LEVELS = ["State", "County", "Tract", "Block_Group", "Block"]
#: The bars, with two workers.
SECONDS, MEGABYTES = 180, 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", type=Path, help="a run or release; else one is made")
    parser.add_argument("--out", type=Path, help="a new folder to keep the link in")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    figures = Figures("linked_state")
    data = shared_data(RHODE_ISLAND)
    if data is None and given.release is None:
        figures.skipped("link of a state", no_data(RHODE_ISLAND))
        return
    with tempfile.TemporaryDirectory() as made:
        release = given.release or _release(Path(data or ""), Path(made), given.workers)
        out = given.out or Path(made, "linked")
        cost = command_cost(["link", str(release)], out, workers=given.workers)
        _figures(figures, cost, out, given.workers)


def _release(data: Path, folder: Path, workers: int) -> Path:
    earlier, records, out = (folder / name for name in ("pl94", "records", "dhc"))
    changes = ["run.seed=1", "geography.spine=tabulation", "output.report=false"]
    pipeline.run(das.load_spec(CONFIG, changes), earlier, paths=[data], workers=workers)
    simulated.simulate([data], records, seed=1)
    asked = [f"constraints.from={earlier}", "run.seed=1", f"geography.levels={LEVELS}"]
    whole_run(
        records,
        out,
        workers=workers,
        config=Path("dhc-2020"),
        more=[x for change in asked for x in ("--set", change)],
    )
    return out


def _figures(figures: Figures, cost: CommandCost, out: Path, workers: int) -> None:
    said = read_json(out / FIGURES)
    about = {"workers": workers, "persons": said["persons_in_households"]}
    figures("das link, on the wall", cost.seconds, "s", at_most=SECONDS, **about)
    figures("das link, of the processors", cost.cpu, "s", at_most=2 * SECONDS, **about)
    if cost.peak_mb is not None:
        figures("memory of all processes", cost.peak_mb, "MB", at_most=MEGABYTES)
    odd = said["blocks_that_disagree"]
    figures("blocks that disagree", odd["linked"], "blocks", at_most=0, before=odd["published"])
    moved = said["households_in_other_blocks"] / said["households"]
    figures("households in another block", moved, "share", at_most=0.01)


if __name__ == "__main__":
    main()
