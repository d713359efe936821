"""Tables of detailed groups: SafeTab's toy folder, a million persons with code tables of the size
of 2020, and a nation from a share of it.

Persons are those of ``das data simulate detailed``, code tables too, unless the folder of 2020 is
named (``--parameters``). What a nation takes is told apart by what it follows: records (reading,
counting) and groups (noise, files, tables)."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter

from benchmarks.common import Figures, no_data, shared_data
from benchmarks.whole_run import WholeRun, measured
from das.publications.detailed.release import open_groups
from das.publications.detailed.simulation import files

#: Seconds of the toy, and of a million persons on two cores; gigabytes of these.
TOY_SECONDS, SECONDS, GIGABYTES = 2, 20, 2
TOY = Path("safetab", "p_toy", "GRF-C.txt")
#: What SafeTab-P takes for its toy, and says of a nation: seconds on one core, and hours on 192.
PEER_TOY, PEER_HOURS = 172, 9
#: The nation: persons, with Puerto Rico, and groups.
PERSONS = 334_735_155


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detailed", description=__doc__)
    parser.add_argument("--persons", type=int, default=1_000_000)
    parser.add_argument("--states", default="AZ,RI,PR", help="of these persons")
    parser.add_argument(
        "--share", type=float, help="of a nation, as 0.1; not made unless it is given"
    )
    parser.add_argument(
        "--parameters", type=Path, help="a folder of code tables in the place of made-up ones"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--keep", type=Path, help="a folder that is kept; what is simulated there is used again"
    )
    given = parser.parse_args(arguments)
    figures = Figures("detailed")
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _toy(figures, folder)
        if given.share is None:
            _million(figures, folder, given)
        else:
            _nation(figures, folder, given)


def _toy(figures: Figures, folder: Path) -> None:
    found = shared_data(TOY)
    if found is None:
        figures.skipped("toy", no_data(TOY))
        return
    out = _fresh(folder / "toy")
    run = measured(_named(found.parent / "input_dir_zcdp", found.parent), out, workers=1)
    figures(
        "toy, whole command",
        run.seconds,
        "s",
        at_most=TOY_SECONDS,
        cpu_seconds=run.cpu,
        safetab_seconds=PEER_TOY,
        **run.stages(),
    )


def _million(figures: Figures, folder: Path, given: argparse.Namespace) -> None:
    data = folder / f"persons-{given.persons}"
    if not data.exists():
        began = perf_counter()
        files.write(
            data, seed=1, states=given.states, persons=given.persons, given=given.parameters
        )
        figures("simulate", perf_counter() - began, "s", persons=given.persons)
    run = _run(data, folder / f"run-{given.persons}", given.workers)
    told = {"persons": given.persons, "groups": _groups(run), "workers": given.workers}
    figures(
        "whole command",
        run.seconds,
        "s",
        at_most=SECONDS * max(1.0, given.persons / 1e6),
        cpu_seconds=run.cpu,
        **told,
        **run.stages(),
    )
    figures("memory of all processes", _gigabytes(run), "GB", at_most=GIGABYTES, **told)


def _nation(figures: Figures, folder: Path, given: argparse.Namespace) -> None:
    data = folder / f"nation-{given.share}"
    if not data.exists():
        began = perf_counter()
        files.write(
            data,
            seed=1,
            states="all",
            share=given.share,
            given=given.parameters,
            workers=given.workers,
        )
        figures(
            "simulate a share of the nation",
            perf_counter() - began,
            "s",
            share=given.share,
            workers=given.workers,
        )
    run = _run(data, folder / f"nation-run-{given.share}", given.workers)
    told = {"share": given.share, "groups": _groups(run), "workers": given.workers}
    for stage, seconds in run.stages().items():
        figures(f"share of the nation: {stage}", seconds, "s", **told)
    figures("share of the nation: whole command", run.seconds, "s", cpu_seconds=run.cpu, **told)
    figures(
        "share of the nation: memory of all processes",
        _gigabytes(run),
        "GB",
        largest_process_gb=run.largest_process_mb() / 1000,
        **told,
    )
    figures(
        "nation, extrapolated",
        run.seconds / given.share / 3600,
        "h",
        at_most=PEER_HOURS,
        cpu_hours=run.cpu / given.share / 3600,
        safetab_hours_at_192_processors=PEER_HOURS,
        **told,
    )


def _run(data: Path, out: Path, workers: int) -> WholeRun:
    named = _named(data / files.PARAMETERS, data / files.DATA)
    return measured(named, _fresh(out), workers=workers)


def _named(parameters: Path, data: Path) -> list[str]:
    return ["run", "detailed-dhc", "--data", str(data), "--set", f"data.parameters={parameters}"]


def _fresh(out: Path) -> Path:
    """A name that is not taken."""
    number = sum(1 for _ in out.parent.glob(f"{out.name}*"))
    return out.with_name(f"{out.name}-{number}")


def _groups(run: WholeRun) -> int:
    opened = open_groups(run.directory.release)
    return sum(sum(opened.units(plan).values()) for plan in opened.spec.plans)


def _gigabytes(run: WholeRun) -> float:
    return (run.peak_mb or run.largest_process_mb()) / 1000


if __name__ == "__main__":
    main()
