"""Runs that are killed. The release must be as if nothing had happened: each part is drawn once,
and what cannot be drawn again is counted.

First every publication is killed while it measures (:mod:`benchmarks.kills_measuring`), and whole
runs of it and of every tool at random moments (:mod:`benchmarks.kills_whole`). Then come runs in
subtrees, with workers. SIGKILL goes to worker processes of a cluster of Dask, and of this machine,
half of them while they measure, half while they estimate. If any worker is at work, it is one of
these. Then it goes to the main process, at random moments, half of the time with a cluster, whose
workers outlive it. A scheduler is killed with all its workers, too, and the run goes on without a
cluster. Ended runs are resumed (``--resume``).

Half of the runs are seeded, and must give the same bytes as an undisturbed run; half are private.
In each, the measurements at a kill must be those at the end, byte by byte. The ledger must have
each part once, at the cost of the plan, and ``das account verify`` must pass. A faulty run ends the
command with an error."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from benchmarks.common import CONFIG, ROOT, Figures
from benchmarks.kills_measuring import while_measuring
from benchmarks.kills_whole import whole_runs
from das import spec
from das.engine.choice import EngineChoice
from das.errors import DasError
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory, file_digest
from das.files.run.task_store import TaskStore
from das.files.simulators import census_2010
from das.runs import pipeline
from das.truth import prepared
from tests.stopped import descendants

#: A run with more lowest units than this is cut, and a task has this many.
LARGEST, SIZE = 16, 8
KINDS = {"seeded": ("run.seed=5",), "keyed": ()}
CHANGES = (
    "output.report=false",
    "geography.spine=tabulation",
    "estimation.method=full-information",
)
#: These differ between two runs: they tell when, and how long.
TIMES = ("privacy.json", "privacy.html")
#: What is there while a run is under way.
PASSING = ("work", "confidential/work", "confidential/noise.key", "confidential/claimed")
_ATTEMPT = "from benchmarks.kills import attempt; attempt()"
_PATIENCE = 600.0
#: Workers are killed in these stages, at most this many in a run, so that it continues.
STAGES, EACH = ("measure", "subtrees"), 5
WAIT = 5.0
#: What is said where the first worker of all is killed, which cannot be told from a mistake in a
#: script, and where a scheduler is killed before the run has reached it.
_EARLY = "ended before they began", "no scheduler answers"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description=__doc__)
    parser.add_argument(
        "--every",
        type=int,
        default=1,
        help="measuring is killed before each write whose number is a multiple; 0: before none",
    )
    parser.add_argument(
        "--random",
        type=int,
        default=100,
        help="so many random sequences of kills for each publication",
    )
    parser.add_argument("--whole", type=int, default=20, help="so many kills of each whole command")
    parser.add_argument(
        "--only",
        default="",
        help="publications and commands whose names begin so; of runs in subtrees none but with ''",
    )
    parser.add_argument(
        "--dask", type=int, default=50, help="so many kills of workers of a cluster"
    )
    parser.add_argument(
        "--local", type=int, default=10, help="so many kills of workers of this machine"
    )
    parser.add_argument(
        "--heads",
        type=int,
        default=20,
        help="so many kills of the main process, half of them with each engine",
    )
    parser.add_argument(
        "--schedulers", type=int, default=10, help="so many kills of a scheduler with its workers"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    given = parser.parse_args(arguments)
    figures, order = Figures("kills"), random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        while_measuring(Path(folder), figures, given.every, given.random, given.only, given.seed)
        whole_runs(Path(folder), figures, given.whole, given.only, order)
    if given.only or not given.dask + given.local + given.heads + given.schedulers:
        return
    with tempfile.TemporaryDirectory() as folder:
        census_2010.write(Path(folder) / "data", seed=2010, states=3, persons=3000)
        trial = Trial(Path(folder), order)
        began = monotonic()
        trial.undisturbed = trial.run("seeded", [], lambda _: None)
        trial.seconds = monotonic() - began
        half = given.heads // 2
        for what, engine, kills in (
            ("schedulers", "dask", given.schedulers),
            ("workers", "dask", given.dask),
            ("workers", "local", given.local),
            ("main processes", "dask", half),
            ("main processes", "local", given.heads - half),
        ):
            began = monotonic()
            done = (
                trial.lose_schedulers(kills)
                if what == "schedulers"
                else trial.repeat(kills, engine, worker=what == "workers")
            )
            figures(
                f"{what} killed, {engine}",
                done.kills,
                "kills",
                at_least=kills,
                **done.told(),
                seconds=monotonic() - began,
            )


@dataclass
class Done:
    """What was endured: ``ended``, attempts that a kill ended; ``in_work``, kills of who was at
    work at a task.
    """

    kills: int = 0
    runs: int = 0
    ended: int = 0
    in_work: int = 0
    during: Counter[str] = field(default_factory=Counter)

    def told(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "resumed": self.ended,
            "in_work": self.in_work,
            "during": dict(self.during),
        }


@dataclass
class Trial:
    """Runs in ``folder``; ``undisturbed`` has the digests of the release that a seeded one is to
    be, ``seconds`` is how long one takes.
    """

    folder: Path
    order: random.Random
    undisturbed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    seen: dict[str, str] = field(
        default_factory=dict
    )  #: digests of the measurements that were there at kills of this run

    @property
    def out(self) -> Path:
        return self.folder / "run"

    def repeat(self, kills: int, engine: str, *, worker: bool) -> Done:
        """Runs of both kinds until there were ``kills`` kills."""
        done = Done()
        with _cluster() if engine == "dask" and kills else _nobody() as (address, pids):
            options = (
                ["--engine", "dask", "--scheduler", address] if address else ["--workers", "2"]
            )
            while done.kills < kills:
                kind = tuple(KINDS)[done.runs % 2]

                def endure(head: subprocess.Popen[bytes]) -> None:
                    if worker:
                        self._kill_workers(
                            head, done, kills, pids or (lambda: descendants(head.pid))
                        )
                    else:
                        self._kill_head(head, done, kills)

                self._made(kind, options, endure, done)
        return done

    def lose_schedulers(self, kills: int) -> Done:
        """Of a cluster the scheduler is killed with all its workers, at random moments; the run goes
        on with processes of this machine."""
        done = Done()
        while done.kills < kills:
            with _cluster_apart() as (address, cluster):
                options = ["--engine", "dask", "--scheduler", address]

                endure = partial(self._kill_cluster, cluster, options, done)
                self._made(tuple(KINDS)[done.runs % 2], options, endure, done)
        return done

    def _made(
        self,
        kind: str,
        options: Sequence[str],
        endure: Callable[[subprocess.Popen[bytes]], None],
        done: Done,
    ) -> None:
        found = self.run(kind, options, endure, done)
        done.runs += 1
        if kind == "seeded" and found != self.undisturbed:
            other = sorted(set(found.items()) ^ set(self.undisturbed.items()))
            raise RuntimeError(f"other results: {other[:4]}")

    def run(
        self,
        kind: str,
        options: Sequence[str],
        endure: Callable[[subprocess.Popen[bytes]], None],
        done: Done | None = None,
    ) -> dict[str, str]:
        """One run, with as many attempts as it takes. Returns the digests of its release, except
        for times.
        """
        out, attempts, self.seen = self.out, 0, {}
        if out.exists():
            raise RuntimeError("a task of the run before came late, and has written")
        while not (out / "manifest.json").exists():
            resume = ["--resume"] if RunDirectory(out).can_go_on() else []
            if out.exists() and not resume:
                shutil.rmtree(out)
            with (self.folder / "said").open("wb") as said:
                head = subprocess.Popen(
                    [sys.executable, "-c", _ATTEMPT, str(out), kind, *options, *resume],
                    cwd=ROOT,
                    stderr=said,
                )
                endure(head)
                code = head.wait(_PATIENCE)
            text = (self.folder / "said").read_text(errors="replace")
            early = any(words in text for words in _EARLY)
            if (code not in (0, 3, -signal.SIGKILL) and not early) or attempts > 100:
                raise RuntimeError(text)
            attempts += 1
        if done is not None:
            done.ended += attempts - 1
        if [*out.glob("work"), *out.rglob(".*.tmp")]:  # killed after its last file
            subprocess.run(
                [sys.executable, "-c", _ATTEMPT, str(out), kind, *options, "--resume"],
                cwd=ROOT,
                check=True,
            )
        self._look()
        check(out, kind)
        release = out / "release"
        found = {
            str(p.relative_to(release)): file_digest(p)
            for p in sorted(release.rglob("*"))
            if p.is_file() and p.name not in TIMES
        }
        shutil.rmtree(out)
        return found

    def _kill_workers(
        self, head: subprocess.Popen[bytes], done: Done, kills: int, pids: Callable[[], list[int]]
    ) -> None:
        """In whichever stage has been spared more; rather who is at work than who is not."""
        here: Counter[str] = Counter()
        while head.poll() is None and done.kills < kills:
            sleep(self.order.uniform(0.0, 0.5))
            stage = self._stage()
            if (
                stage in STAGES
                and here[stage] < EACH
                and 2 * done.during[stage] < kills + kills % 2
            ):
                at_work = self._at_work(stage, pids)
                if (
                    (found := at_work or pids())
                    and not TaskStore(self.out).is_over(stage)
                    and _kill(self.order.choice(found))
                ):
                    here[stage] += 1
                    done.in_work += bool(at_work)
                    self._note(done, stage)

    def _stage(self) -> str:
        """That which is under way: the last that has begun."""
        return (TaskStore(self.out).stages() or ["begin"])[-1]

    def _at_work(self, stage: str, pids: Callable[[], list[int]]) -> list[int]:
        """Those who are at a task: it is waited for, as long as a worker needs to begin."""
        task_store, until = TaskStore(self.out), monotonic() + WAIT
        while not task_store.is_over(stage) and monotonic() < until:
            with suppress(DasError):  # the run has ended meanwhile
                if found := {a.process for a in task_store.standing(stage).at_work} & {*pids()}:
                    return sorted(found)
            sleep(0.01)
        return []

    def _look(self) -> None:
        """A measurement stays the same, whichever process measures it again."""
        for path in sorted(self.out.glob("release/nmf*/*.parquet/DPQuery/**/part-*.parquet")):
            name, sha256 = str(path.relative_to(self.out)), file_digest(path)
            if self.seen.setdefault(name, sha256) != sha256:
                raise RuntimeError(f"{name} was measured twice, and differs")

    def _kill_head(self, head: subprocess.Popen[bytes], done: Done, kills: int) -> None:
        if done.kills >= kills:
            return
        try:
            head.wait(self.order.uniform(1.0, self.seconds))
        except subprocess.TimeoutExpired:
            workers = descendants(head.pid)
            head.kill()
            self._note(done, self._stage())
            until = monotonic() + 30
            while left := [pid for pid in workers if _lives(pid)]:
                if monotonic() > until:
                    raise RuntimeError(
                        f"workers outlive the process that they work for: {left}"
                    ) from None
                sleep(0.1)

    def _kill_cluster(
        self, cluster: int, options: list[str], done: Done, head: subprocess.Popen[bytes]
    ) -> None:
        """Once: the next attempt has other ``options``."""
        with suppress(subprocess.TimeoutExpired):
            if "--engine" in options:
                head.wait(self.order.uniform(1.0, self.seconds))
            return
        os.killpg(cluster, signal.SIGKILL)
        options[:] = ["--workers", "2"]
        self._note(done, self._stage())

    def _note(self, done: Done, stage: str) -> None:
        done.kills += 1
        done.during[stage] += 1
        self._look()


def check(out: Path, kind: str) -> None:
    """A finished run has each part drawn once, at the cost of its plan, and nothing of its work.
    Raises ``RuntimeError``.
    """
    chosen, directory = _spec(kind), RunDirectory(out)
    lines = [json.loads(line) for line in directory.ledger.read_text(encoding="utf-8").splitlines()]
    parts = [x["part"] for x in lines if "part" in x]
    often = Counter((p["universe"], p["level"], p["shard"]) for p in parts)
    entries, cost = (
        LedgerFile(directory.ledger).entries,
        sum((u.plan.cost for u in chosen.universes), Fraction(0)),
    )
    said = json.loads((directory.release / "privacy.json").read_text(encoding="utf-8"))
    subprocess.run(
        [sys.executable, "-m", "das", "account", "verify", str(out)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    faults = {
        "a part has two lines": max(often.values()) > 1,
        "a stage was drawn twice": bool(entries.lost()),
        "a part is not what the ledger says": any(
            file_digest(directory.release / path) != sha256
            for path, sha256 in entries.files().items()
        ),
        "it costs another sum": Fraction(said["rho"]["total"]) != cost,
        "its manifest is of other files": (
            directory.read_manifest()["outputs"] != directory.digests()
        ),
        "something is left": any((out / name).exists() for name in PASSING) or any(out.rglob(".*")),
    }
    if wrong := [what for what, so in faults.items() if so]:
        raise RuntimeError(f"{kind}: {wrong}: {[str(p) for p in out.rglob('.*')]}")


def attempt() -> None:
    """In the main process of a run: go on with it or begin it, cut small. Exit code 3 where it lost
    too many workers.
    """
    out, kind, *options = sys.argv[1:]
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", default="local")
    parser.add_argument("--scheduler")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args(options)
    prepared.LARGEST = LARGEST
    choice = EngineChoice(given.engine, given.workers, given.scheduler, size=SIZE)
    try:
        pipeline.run(
            _spec(kind),
            Path(out),
            paths=[Path(out).parent / "data"],
            engine=choice,
            resume=given.resume,
        )
    except DasError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def _spec(kind: str) -> spec.RunSpec:
    return spec.parse(
        CONFIG.read_text(encoding="utf-8"), where="kills", overrides=[*CHANGES, *KINDS[kind]]
    )


@contextmanager
def _nobody() -> Iterator[tuple[str, None]]:
    yield "", None


@contextmanager
def _cluster() -> Iterator[tuple[str, Callable[[], list[int]]]]:
    """Two worker processes of Dask that may see the truth: the address of their scheduler, and who
    they are now.
    """
    import dask
    import distributed

    from das.engine.dask import RESOURCE

    os.environ["PYTHONPATH"] = str(ROOT)
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            resources={RESOURCE: 1},
            host="127.0.0.1",
            dashboard_address=":0",
            memory_limit=0,
            silence_logs=50,
        ) as made,
    ):
        yield (
            made.scheduler_address,
            lambda: [
                n.process.pid
                for n in made.workers.values()
                if n.process is not None and n.process.pid
            ],
        )


@contextmanager
def _cluster_apart() -> Iterator[tuple[str, int]]:
    """Such a cluster in a group of processes of its own: its address, and the number of the group."""
    code = "from benchmarks import kills; c = kills._cluster(); print(c.__enter__()[0], flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; input()"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as made:
        assert made.stdout is not None
        try:
            yield made.stdout.readline().strip(), made.pid
        finally:
            with suppress(ProcessLookupError):
                os.killpg(made.pid, signal.SIGKILL)


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _lives(pid: int) -> bool:
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
            != "Z"
        )
    except OSError:
        return False


if __name__ == "__main__":
    main()
