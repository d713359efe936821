"""The DHC at any size: what a block costs from one county's worth to four states, memory of a
worker, the same bytes by one process and by two workers of a cluster, and runs that are killed.

States are simulated (redistricting extracts of 2010, with persons and households made up to match),
and so small that the whole runs here. They are cut as a nation is: at counties. A worker is two
processes, that with the truth and that which estimates (:mod:`das.publications.dhc.truth.oracle`), and its memory is
that of both. Seconds are of processors, of all processes of ``das run`` by one process.

SIGKILL then goes to runs of a small world, at random moments: to the main process, a worker, or an
estimating process, half of the time with a cluster of Dask. Each is resumed until it ends, with the
bytes of an undisturbed run. A faulty run ends the command with an error."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import das
from benchmarks.common import CONFIG, ROOT, Figures
from benchmarks.kills import _cluster, _nobody
from benchmarks.nation import BLOCKS
from benchmarks.whole_run import measured
from das.engine.choice import EngineChoice
from das.files.release import spine as spine_file
from das.files.run.run_directory import RunDirectory, file_digest
from das.files.simulators import census_2010
from das.files.simulators.census_2010 import PERSONS_PER_BLOCK
from das.publications.dhc.truth import simulated
from das.runs import pipeline
from das.truth import prepared
from tests.stopped import descendants

#: Blocks of a county, of a state, and how many states.
COUNTY, STATE, STATES = 300, 1_200, 4
#: A run with more lowest units than this is cut, a task has about this many.
LARGEST = 250
#: Gigabytes of a worker; and how much more a block may cost in the larger run, with what a busy
#: machine may add.
GIGABYTES, GROWTH = 3.0, 1.25
#: The small world that is killed.
SMALL, SMALL_LARGEST = 3_000, 16
_PROGRAM = ("-c", "from benchmarks.dhc_states import attempt; attempt()")
#: These differ between two runs: they tell when, and how long.
_TIMES = ("privacy.json", "privacy.html")
_LOOK = 0.1
_PATIENCE = 900.0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dhc_states", description=__doc__)
    parser.add_argument(
        "--times", type=float, default=1.0, help="a multiple of the numbers of blocks"
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1, help="of the moments of kills")
    parser.add_argument("--keep", type=Path, help="a folder for the runs; else one that is deleted")
    given = parser.parse_args(arguments)
    figures = Figures("dhc_states")
    with tempfile.TemporaryDirectory(dir=given.keep) as folder:
        if given.times > 0:
            _sizes(figures, Path(folder), given.times)
        _kills(figures, Path(folder), given.kills, random.Random(given.seed))


@dataclass(frozen=True)
class World:
    """Simulated states in a folder: a redistricting release, and linked records on it."""

    folder: Path
    largest: int

    @staticmethod
    def made(folder: Path, states: int, persons: int, largest: int) -> World:
        extract = folder / "extract"
        census_2010.write(extract, seed=states, states=states, persons=persons)
        changes = ["run.seed=1", "geography.spine=tabulation", "output.report=false"]
        one = EngineChoice(workers=1)
        pipeline.run(das.load_spec(CONFIG, changes), folder / "pl94", paths=[extract], engine=one)
        simulated.simulate([extract], folder / "linked", seed=1)
        return World(folder, largest)

    @property
    def blocks(self) -> int:
        spine = spine_file.read(self.folder / "pl94" / "release" / "spine.parquet")
        return spine.units(spine.levels[-1])

    def command(self, *options: str) -> list[str]:
        """The arguments of :func:`attempt` that make or resume its run."""
        sets = [f"constraints.from={self.folder / 'pl94'}", "run.seed=1", "output.report=false"]
        return [
            str(self.largest),
            *("run", "dhc-2020", "--data", str(self.folder / "linked")),
            *(word for s in sets for word in ("--set", s)),
            *("--partition", str(self.largest), *options),
        ]


def attempt() -> None:
    """In the main process of a run that is cut small."""
    from das.__main__ import run

    largest, *command = sys.argv[1:]
    prepared.LARGEST = int(largest)
    sys.argv = ["das", *command]
    run()


def results(out: Path) -> dict[str, str]:
    """Digests of everything released except times."""
    release = RunDirectory(out).release
    files = (p for p in sorted(release.rglob("*")) if p.is_file() and p.name not in _TIMES)
    return {str(p.relative_to(release)): file_digest(p) for p in files}


# --- sizes
# -------------------------------------------------------------------------------------------------


def _sizes(figures: Figures, folder: Path, times: float) -> None:
    sizes = {"a county": (1, COUNTY), "a state": (1, STATE), "four states": (STATES, STATE)}
    each: dict[str, float] = {}
    for name, (states, blocks) in sizes.items():
        persons = round(times * states * blocks * PERSONS_PER_BLOCK)
        world = World.made(folder / name.replace(" ", "-"), states, persons, round(times * LARGEST))
        out = world.folder / "run"
        run = measured(world.command(), out, workers=1, program=_PROGRAM)
        each[name] = run.cpu / world.blocks
        subtrees = len(spine_file.read_sizes(out / "release" / "spine.parquet"))
        told = {"blocks": world.blocks, "states": states, "persons": persons, "subtrees": subtrees}
        figures(f"{name}, a block", 1000 * each[name], "processor ms", seconds=run.cpu, **told)
    growth = each["four states"] / each["a county"]
    figures("a block, from a county to four states", growth, "times", at_most=GROWTH)
    hours = each["four states"] * BLOCKS / 3600
    figures("the nation, from four states", hours, "core-hours", blocks=BLOCKS)
    _by_dask(figures, world, results(out))


def _by_dask(figures: Figures, world: World, expected: dict[str, str]) -> None:
    """The same run by two workers of a cluster. Raises ``RuntimeError`` where bytes differ."""
    out, began = world.folder / "by-dask", monotonic()
    with _cluster() as (address, pids), Watch(pids) as watch:
        options = ["--engine", "dask", "--scheduler", address, "--out", str(out), "--quiet"]
        command = [sys.executable, *_PROGRAM, *world.command(*options)]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    if results(out) != expected:
        raise RuntimeError("two workers have made other bytes than one process")
    figures("bytes of two Dask workers are those of one process", 1, "yes", files=len(expected))
    figures(
        "peak memory of a worker, with its estimating process",
        watch.peak / 1e9,
        "GB",
        at_most=GIGABYTES,
        estimating_gb=watch.estimating / 1e9,
        blocks=world.blocks,
        minutes=(monotonic() - began) / 60,
    )


class Watch:
    """Looks at the memory of some processes, each with all that it has started: the largest sum,
    and the largest of those that were started."""

    def __init__(self, pids: Callable[[], list[int]] | None) -> None:
        self._pids, self._end = pids or list, Event()
        self._thread = Thread(target=self._look, daemon=True)
        self.peak = self.estimating = 0.0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(_LOOK):
            for pid in self._pids():
                others = [_resident(p) for p in descendants(pid)]
                self.estimating = max([self.estimating, *others])
                self.peak = max(self.peak, _resident(pid) + sum(others))


def _resident(pid: int) -> float:
    """Bytes of a process in memory; 0 where it has ended."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    return 0.0


# --- kills
# -------------------------------------------------------------------------------------------------


def _kills(figures: Figures, folder: Path, kills: int, order: random.Random) -> None:
    if not kills:
        return
    world = World.made(folder / "small", 2, SMALL, SMALL_LARGEST)
    began = monotonic()
    measured(world.command(), world.folder / "undisturbed", workers=1, program=_PROGRAM)
    seconds, expected = monotonic() - began, results(world.folder / "undisturbed")
    for engine, many in (("local", kills - kills // 2), ("dask", kills // 2)):
        done: Counter[str] = Counter()
        runs, attempts = 0, 0
        with _cluster() if engine == "dask" else _nobody() as (address, pids):
            options = (
                ["--scheduler", address, "--engine", "dask"] if address else ["--workers", "2"]
            )
            while done.total() < many:
                attempts += _endure(world, options, pids, done, many, seconds, order)
                runs += 1
                if results(world.folder / "run") != expected:
                    raise RuntimeError("a run that was killed has other bytes")
                shutil.rmtree(world.folder / "run")
        figures(
            f"kills endured, {engine}",
            done.total(),
            "kills",
            at_least=many,
            of=dict(done),
            runs=runs,
            resumed=attempts - runs,
        )


def _endure(
    world: World,
    options: Sequence[str],
    pids: Callable[[], list[int]] | None,
    done: Counter[str],
    most: int,
    seconds: float,
    order: random.Random,
) -> int:
    """One run to its end, of which each attempt is killed while kills are left. Returns the number
    of attempts. Raises ``RuntimeError`` for an error that a kill does not explain."""
    out, attempts, here = world.folder / "run", 0, 0
    while not (out / "manifest.json").exists():
        resume = ["--resume"] if RunDirectory(out).can_go_on() else []
        if out.exists() and not resume:
            shutil.rmtree(out)
        words = world.command("--out", str(out), *options, *resume, "--quiet")
        with tempfile.TemporaryFile() as said:
            head = subprocess.Popen(
                [sys.executable, *_PROGRAM, *words],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
            killed = False
            with suppress(subprocess.TimeoutExpired):
                head.wait(
                    order.uniform(0.5, seconds) if done.total() < most and here < 5 else _PATIENCE
                )
            if head.poll() is None and done.total() < most:
                killed = _kill_one(head.pid, pids, done, order)
                here += killed
            code = head.wait(_PATIENCE)
            said.seek(0)
            text = said.read().decode(errors="replace")
        attempts += 1
        if (code and not (killed and code in (2, 3, -signal.SIGKILL))) or "Traceback" in text:
            raise RuntimeError(f"exit code {code}: {text}")
    return attempts


def _kill_one(
    head: int, pids: Callable[[], list[int]] | None, done: Counter[str], order: random.Random
) -> bool:
    """The main process, a worker, or an estimating process: the kind that has been spared most."""
    workers = [p for p in (pids() if pids else descendants(head)) if not _is_estimator(p)]
    every: dict[str, list[int]] = {
        "main process": [head],
        "worker": workers,
        "estimating process": [
            p for w in {head, *workers} for p in descendants(w) if _is_estimator(p)
        ],
    }
    kind = min((k for k, some in every.items() if some), key=lambda k: done[k])
    try:
        os.kill(order.choice(every[kind]), signal.SIGKILL)
    except ProcessLookupError:
        return False
    done[kind] += 1
    return True


def _is_estimator(pid: int) -> bool:
    with suppress(OSError):
        return b"das.engine.enclosed import" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


if __name__ == "__main__":
    main()
