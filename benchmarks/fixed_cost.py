"""The fixed cost of a run of any size, compared with the same run by an earlier commit.

Both commits run in turn, each in its own process with compiled byte code. So other load on the
machine affects both; the first pair warms up and does not count. Seconds are those of the
processor, user and system, of all processes; ratios are medians over pairs. With ``--rhode-island``
the run is Rhode Island's, with its reports."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.common import RHODE_ISLAND, ROOT, Figures, no_data, shared_data
from benchmarks.whole_run import WholeRun, measured

#: Stages that draw pages, or gather what they show.
PAGES = ("report of the release", "errors by place", "report")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fixed_cost", description=__doc__)
    parser.add_argument("--against", type=Path, help="a checkout of another commit")
    parser.add_argument("--repeats", type=int, default=5, help="pairs that count")
    parser.add_argument("--rhode-island", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args(arguments)
    figures, what = Figures("fixed_cost"), ["run", "pl94-2010"]
    if given.rhode_island:
        data = shared_data(RHODE_ISLAND)
        if data is None:
            figures.skipped("all", no_data(RHODE_ISLAND))
            return
        what = [*what, "--data", str(data)]
    name = "Rhode Island" if given.rhode_island else "packaged extract"
    sources = [ROOT, *([given.against.resolve()] if given.against else [])]
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            [
                measured(what, Path(folder, f"{i}-{k}"), workers=given.workers, source=source)
                for k, source in enumerate(sources)
            ]
            for i in range(given.repeats + 1)
        ][1:]
    _said(figures, name, runs)


def _said(figures: Figures, name: str, pairs: Sequence[Sequence[WholeRun]]) -> None:
    ours = [pair[0] for pair in pairs]
    figures(f"{name}: processor", median(r.cpu for r in ours), "s")
    figures(
        f"{name}: wall", median(r.seconds for r in ours), "s", least=min(r.seconds for r in ours)
    )
    if any(r.peak_mb is None for pair in pairs for r in pair):
        figures.skipped(f"{name}: memory", "the system does not say")
    else:
        figures(f"{name}: memory", median(r.peak_mb or 0 for r in ours), "MB")
    if len(pairs[0]) < 2:
        return
    for what, of, most in (
        ("processor", lambda r: r.cpu, 0.6),
        ("wall", lambda r: r.seconds, None),
        ("pages", lambda r: _seconds(r, PAGES), None),
        ("memory", lambda r: r.peak_mb or 1.0, 1.0),
    ):
        ratios = [of(mine) / of(other) for mine, other in pairs]
        before = median(of(other) for _, other in pairs)
        figures(f"{name}: {what}, ratio", median(ratios), "", at_most=most, before=before)
    share = median(_seconds(r, PAGES) / sum(r.stages().values()) for r in ours)
    figures(f"{name}: pages, share of the stages", share, "", at_most=0.1)


def _seconds(run: WholeRun, stages: Sequence[str]) -> float:
    return sum(run.stages().get(s, 0.0) for s in stages)


if __name__ == "__main__":
    main()
