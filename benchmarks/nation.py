"""A simulated nation with the production settings: minutes and memory, by stage and method, of all
of it or of a share.

The nation is that of ``das data simulate nation``: 8.1 million blocks, 331 million persons, housing
units too, over the optimized spine of 2020. A run that was stopped goes on (``--keep``), and its
figures are then of what was left."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from benchmarks.common import Figures
from benchmarks.engines import cluster
from benchmarks.whole_run import whole_run
from das.files.release import spine as spine_file
from das.files.simulators import census_2020
from das.spec import METHODS
from tests.engine import certificates

BLOCKS = 8_132_968  #: of 2020
#: Minutes of the whole on two cores, reports and evaluation included; and gigabytes.
MINUTES = {"topdown": 60, "full-information": 100}
GIGABYTES = 8


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nation", description=__doc__)
    parser.add_argument("--share", default="0.1", help="of every state; 1 is all of it")
    parser.add_argument("--method", choices=METHODS, action="append", help="default: both")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engine", choices=("local", "dask"), default="local")
    parser.add_argument("--data", type=Path, help="a nation that was simulated before")
    parser.add_argument(
        "--keep", type=Path, help="a folder that is kept: a run that was stopped there goes on"
    )
    given = parser.parse_args(arguments)
    figures = Figures("nation")
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = given.data or folder / f"nation-{given.share}"
        if given.data is None:
            census_2020.write(data, seed=1, share=float(given.share), workers=given.workers)
        tls = folder / "tls"
        with (
            cluster(certificates.write(tls), given.workers)
            if given.engine == "dask"
            else nullcontext() as address
        ):
            engine = (
                ["--engine", "dask", "--scheduler", address, "--tls", str(tls)] if address else []
            )
            for method in given.method or METHODS:
                out = folder / f"run-{method}-{given.share}"
                _measured(figures, data, out, method, given.workers, engine)


def _measured(
    figures: Figures, data: Path, out: Path, method: str, workers: int, engine: Sequence[str]
) -> None:
    """The processes of a cluster are not the command's: of them are neither the processor minutes
    nor the memory."""
    more = [
        *engine,
        "--set",
        'data.reader="pl94-2020"',
        "--set",
        "geography.spine=optimized",
        "--set",
        f"estimation.method={method}",
    ]
    resumed = (out / "release").exists()
    run = whole_run(data, out, workers=workers, more=[*more, *(["--resume"] if resumed else [])])
    blocks = spine_file.read(run.directory.release / "spine.parquet").units("Block")
    share = blocks / BLOCKS
    told = {"blocks": blocks, "workers": workers, "resumed": resumed}
    for stage, seconds in run.stages().items():
        figures(f"{method}: {stage}", seconds, "s", **told)
    figures(
        f"{method}: all",
        run.seconds / 60,
        "minutes",
        at_most=MINUTES[method] * share,
        cpu_minutes=run.cpu / 60,
        cpu_seconds_per_1000_blocks=1000 * run.cpu / blocks,
        **told,
    )
    figures(
        f"{method}: memory of all processes",
        (run.peak_mb or run.largest_process_mb()) / 1000,
        "GB",
        at_most=GIGABYTES,
        largest_process_gb=run.largest_process_mb() / 1000,
        **told,
    )


if __name__ == "__main__":
    main()
