"""The cost of a cluster of Dask compared with processes of this machine: the same run, cut into
subtrees, by both engines in turn.

The run is a simulated state of 2020 with about 10^5 blocks (Montana), two workers each. The cluster
is this machine's, over TLS. It exists before the runs begin, like one that many runs use; its
start-up time is a figure of its own. Both runs end with the same bytes."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.common import CONFIG, ROOT, Figures
from das import spec
from das.engine.choice import DASK, LOCAL, EngineChoice
from das.files.run.run_directory import RunDirectory, file_digest
from das.files.simulators import census_2020
from das.files.simulators.header import chosen, totals
from das.runs import pipeline
from das.truth import prepared
from tests.engine import certificates

#: What Dask may cost: a share of the time without it, and seconds.
SHARE, SECONDS = 0.1, 5.0
#: About this many tasks in a stage.
TASKS = 12
WORKERS = 2
CHANGES = (
    "run.seed=1",
    'data.reader="pl94-2020"',
    "geography.spine=optimized",
    "output.report=false",
)
#: These differ between two runs: they tell when, and how long.
TIMES = ("privacy.json", "privacy.html")
_ATTEMPT = "from benchmarks.engines import attempt; attempt()"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__)
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs by each engine, of which medians are told"
    )
    parser.add_argument("--state", default="MT", help="which state (postal abbreviation)")
    parser.add_argument("--share", type=float, default=1.0, help="of its persons and blocks")
    given = parser.parse_args(arguments)
    figures = Figures("engines")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        census_2020.write(folder / "data", seed=1, share=given.share, states=[given.state])
        blocks = totals(chosen([given.state])[0], given.share).blocks
        began = perf_counter()
        with cluster(certificates.write(folder / "tls")) as address:
            figures("a cluster begins", perf_counter() - began, "s", workers=WORKERS)
            _compare(figures, folder, address, given.repeats, blocks)


def _compare(figures: Figures, folder: Path, address: str, repeats: int, blocks: int) -> None:
    """Runs in turn, the first one of each pair another each time. Raises ``RuntimeError`` where
    results differ.
    """
    options = {
        LOCAL: ["--workers", str(WORKERS)],
        DASK: ["--scheduler", address, "--tls", str(folder / "tls")],
    }
    runs: dict[str, list[_Run]] = {LOCAL: [], DASK: []}
    for i in range(repeats):
        for name in (LOCAL, DASK)[:: -1 if i % 2 else 1]:
            runs[name].append(_run(folder / f"{name}-{i}", name, str(blocks), *options[name]))
    first, *others = (r.results for of in runs.values() for r in of)
    if any(r != first for r in others):
        raise RuntimeError("the engines have made different results")
    took = {name: median(r.seconds for r in of) for name, of in runs.items()}
    told = {"blocks": blocks, "workers": WORKERS, "repeats": repeats}
    for name, of in runs.items():
        stages = {stage: median(r.stages.get(stage, 0.0) for r in of) for stage in of[0].stages}
        figures(
            f"a run by {name}", took[name], "s", **told, all=[r.seconds for r in of], stages=stages
        )
    more = took[DASK] - took[LOCAL]
    figures("Dask costs", took[DASK] / took[LOCAL], "times", **told)
    figures("Dask costs", more, "s", at_most=SHARE * took[LOCAL] + SECONDS, **told)


@dataclass(frozen=True)
class _Run:
    """``seconds`` of the whole command and of its ``stages``; digests of everything released except
    times.
    """

    seconds: float
    stages: Mapping[str, float]
    results: Mapping[str, str]


def _run(out: Path, engine: str, blocks: str, *options: str) -> _Run:
    """One, in a process of its own; its folder is gone afterwards."""
    began = perf_counter()
    command = [sys.executable, "-c", _ATTEMPT, str(out), blocks, "--engine", engine, *options]
    subprocess.run(command, cwd=ROOT, check=True)
    seconds, directory = perf_counter() - began, RunDirectory(out)
    stages = {str(s["name"]): float(s["seconds"]) for s in directory.read_manifest()["stages"]}
    files = (p for p in sorted(directory.release.rglob("*")) if p.is_file() and p.name not in TIMES)
    found = _Run(seconds, stages, {str(p.relative_to(out)): file_digest(p) for p in files})
    shutil.rmtree(out)
    return found


def attempt() -> None:
    """In the main process of a run."""
    out, blocks, *options = sys.argv[1:]
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--scheduler")
    parser.add_argument("--tls", type=Path)
    given = parser.parse_args(options)
    prepared.LARGEST = int(blocks) // 4
    choice = EngineChoice(
        given.engine, given.workers, given.scheduler, given.tls, size=int(blocks) // TASKS
    )
    of = spec.parse(CONFIG.read_text(encoding="utf-8"), where="engines", overrides=CHANGES)
    pipeline.run(of, Path(out), paths=[Path(out).parent / "data"], engine=choice)


@contextmanager
def cluster(tls: Path, workers: int = WORKERS) -> Iterator[str]:
    """Worker processes of Dask that may see the truth: the address of their scheduler, when all are
    there. ``tls`` has their certificates.
    """
    import dask
    import distributed

    from das.engine.dask import RESOURCE

    os.environ["PYTHONPATH"] = str(ROOT)
    files = {
        f"tls_{who}_{what}": str(tls / f"{what}.pem")
        for who in ("scheduler", "worker", "client")
        for what in ("cert", "key")
    }
    security = distributed.Security(
        tls_ca_file=str(tls / "ca.pem"), require_encryption=True, **files
    )
    # such a cluster gives up a worker that is being started anew some seconds after another was
    # lost
    with (
        dask.config.set(
            {"distributed.deploy.lost-worker-timeout": "1 hour", "temporary-directory": str(tls)}
        ),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            resources={RESOURCE: 1},
            protocol="tls://",
            security=security,
            host="127.0.0.1",
            dashboard_address=":0",
            memory_limit=0,
            silence_logs=50,
            local_directory=str(tls),
        ) as made,
    ):
        yield made.scheduler_address


if __name__ == "__main__":
    main()
