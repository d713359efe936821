"""Whole commands that get SIGKILL at random moments: runs of every publication, and every tool that
makes a folder.

Half of the kills go to the main process, half to one that it has started. After each, what the
message says is done: resume, or the same command again, or delete the folder and begin anew. In the
end a seeded command must have made the bytes of an undisturbed one. A private run, which may lose
its key as well, must verify, and its statement must have all that its ledger has. No process may
outlive the one that was killed. A command that ends well leaves no temporary file."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep

from benchmarks.common import CONFIG, ROOT, Figures
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory, file_digest
from tests.detailed import runs
from tests.jobs import frontier_small
from tests.sdhc.folders import made_up
from tests.stopped import adopting, children, descendants
from tests.worlds import Worlds

_PATIENCE, _SOON = 900.0, 30.0
#: These differ between two runs: they tell when, and how long.
TIMES = ("privacy.json", "privacy.html", "manifest.json")
#: Scores of a study have the seconds of an attack, and so have lines of its tables.
UNTOLD, _SECONDS = (".npz",), b"seconds a unit"
_PLAIN, _SEED = ("--set", "output.report=false"), ["--set", "run.seed=1"]
_TWO = ("--workers", "2")
#: Refusals one after another that are too many.
_REFUSALS = 3


@dataclass
class WholeRun:
    """A command that makes the folder ``out``, how it goes on (``more``), and what was endured of
    it. Of a run that is ``private`` the books are checked, of anything else the bytes."""

    name: str
    arguments: Sequence[str]
    out: Path
    order: random.Random
    more: Sequence[str] = ("--resume",)
    private: bool = False
    seconds: float = 0.0
    expected: dict[str, str] = field(default_factory=dict)
    told: Counter[str] = field(default_factory=Counter)

    @property
    def is_run(self) -> bool:
        return (self.out / "release" / "ledger.jsonl").exists()

    def undisturbed(self) -> None:
        began = monotonic()
        code, said, _ = self._attempt([], None)
        if code:
            raise RuntimeError(said)
        self.seconds = monotonic() - began
        self.expected = self._digests()
        self._check(lost=False)

    def endure(self, kills: int) -> None:
        """One folder, made in attempts of which so many are killed. Raises ``RuntimeError`` for what
        must not be."""
        more: Sequence[str] = ()
        lost = key_lost = False
        directory, refusals = RunDirectory(self.out), 0
        self.told["runs"] += 1
        while True:
            after = self.order.uniform(0.0, self.seconds) if kills else None
            code, said, killed = self._attempt(more, after)
            kills -= 1 if kills else 0
            refusals = refusals + 1 if code and not killed else 0
            if code == 0:
                break
            if "Traceback" in said or refusals > _REFUSALS:
                raise RuntimeError(f"{self.name} {more}: exit {code}: {said}")
            if killed and code in (2, 3, -signal.SIGKILL):
                more = self.more
                if self.private and directory.noise_key.exists() and self.order.random() < 0.5:
                    key_lost |= directory.ledger.exists()
                    directory.noise_key.unlink()
                    self.told["keys_lost"] += 1
            elif code == 2 and "--accept-spent" in said:
                if not key_lost:
                    raise RuntimeError(f"its key is there: {said}")
                lost, more = True, ["--resume", "--accept-spent"]
            elif code == 2 and not more and self._digests() == self.expected:
                break  # it was whole when it was killed
            elif code == 2 and not self.is_run and _advised(said):
                shutil.rmtree(self.out, ignore_errors=True)
                more = ()
            else:
                raise RuntimeError(f"{self.name} {more}: exit {code}: {said}")
            self.told["refused"] += not killed
        self.told["spent_again"] += lost
        self._check(lost=lost)

    def _attempt(self, more: Sequence[str], after: float | None) -> tuple[int, str, bool]:
        """The exit code, what was said, and whether a process was killed ``after`` this time."""
        own = self.out.with_name("tmp")
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        before, killed = set(children()), False
        running = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "das",
                *self.arguments,
                "--out",
                str(self.out),
                "--quiet",
                *more,
            ],
            cwd=ROOT,
            env=os.environ | {"TMPDIR": str(own)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _, said = running.communicate(timeout=_PATIENCE if after is None else after)
        except subprocess.TimeoutExpired:
            killed = self._kill(running.pid)
            _, said = running.communicate(timeout=_PATIENCE)
        until = monotonic() + (_SOON if running.returncode else 0)
        while left := {p: c for p, c in children().items() if p not in before}:
            if monotonic() > until:
                raise RuntimeError(f"{self.name}: it is left running: {left}")
            sleep(0.05)
        if there := sorted(p.name for p in own.iterdir()):
            self.told["temporary_left_by_killed"] += 1
            if running.returncode == 0:
                raise RuntimeError(f"{self.name}: temporary files are left: {there}")
        return running.returncode, said, killed

    def _kill(self, pid: int) -> bool:
        """The main process, or one that it has started."""
        others = descendants(pid)
        victim = self.order.choice(others) if others and self.order.random() < 0.5 else pid
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.told["kills"] += 1
        self.told["of_others"] += victim != pid
        return True

    def _digests(self) -> dict[str, str]:
        """What was made, except for times. Of a run, its release."""
        top = self.out / "release" if self.is_run else self.out
        files = (p for p in sorted(top.rglob("*")) if p.is_file() and p.name not in TIMES)
        return {str(p.relative_to(top)): _digest(p) for p in files if p.suffix not in UNTOLD}

    def _check(self, *, lost: bool) -> None:
        """It is whole, and nothing else is there. A release is verified; its statement has all that
        the ledger has, and no more is lost than must be.
        """
        hidden = [str(p) for p in self.out.parent.rglob(".*.tmp")]
        faults = {f"something is left: {hidden}": bool(hidden)}
        if not self.private:
            other = sorted({n for n, _ in self._digests().items() ^ self.expected.items()})
            faults |= {f"other bytes: {other[:5]}": bool(other)}
        if self.is_run:
            subprocess.run(
                [sys.executable, "-m", "das", "account", "verify", str(self.out)],
                cwd=ROOT,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            directory = RunDirectory(self.out)
            entries = LedgerFile(directory.ledger).entries
            said = json.loads((directory.release / "privacy.json").read_text(encoding="utf-8"))
            stated = [*said["ledger"], *said["spent_by_interrupted_attempts"]]
            faults |= {
                "a draw is not stated": len(stated) != sum(len(a.events) for a in entries.attempts),
                "its cost is another": sum(Fraction(x["rho"]) for x in stated)
                != sum(e.cost for a in entries.attempts for e in a.events),
                "something is lost, and was not accepted": bool(entries.lost()) and not lost,
                "its key is left": directory.noise_key.exists(),
            }
        if wrong := [what for what, so in faults.items() if so]:
            raise RuntimeError(f"{self.name}: {wrong}")
        shutil.rmtree(self.out)


def _digest(path: Path) -> str:
    if path.suffix != ".csv":
        return file_digest(path)
    lines = (line for line in path.read_bytes().splitlines(True) if _SECONDS not in line)
    return sha256(b"".join(lines)).hexdigest()


def _advised(said: str) -> bool:
    """Whether a message says that nothing is lost with the folder, or that there is none."""
    return any(
        x in said
        for x in ("delete the folder", "nothing to resume", "choose a new folder", "take it away")
    )


@dataclass(frozen=True)
class Given:
    """What the commands begin from, made when it is asked for. Each command is its words, how it
    goes on, and whether it is private."""

    folder: Path

    @cached_property
    def worlds(self) -> Worlds:
        return Worlds(self.folder / "worlds")

    def run(self) -> str:
        return str(self.worlds.run("run.seed=1", data="one thousand"))

    def redistricting(self) -> list[str]:
        return [str(CONFIG), "--data", str(self.worlds.data("one thousand")), *_PLAIN]

    def dhc(self) -> list[str]:
        earlier = ["--set", f"constraints.from={self.worlds.run(data='one thousand')}"]
        return ["run", "dhc-2020", "--data", str(self.worlds.linked()), *_PLAIN, *earlier, *_TWO]

    def groups(self, product: str) -> list[str]:
        given = runs.given(self.folder / product, product)
        return ["run", "detailed-dhc", *runs.named(*given, product), *_TWO]

    def sdhc(self) -> list[str]:
        return ["run", "sdhc-2020", "--data", str(made_up(1, 60).write(self.folder / "phsafe"))]

    def sweep(self) -> list[str]:
        grid = ["--rho", "1,2", "--method", "topdown,full-information"]
        return ["sweep", *self.redistricting(), *_SEED, *grid, *_TWO]

    def frontier(self) -> list[str]:
        (folder := self.folder / "study").mkdir()
        return ["frontier", str(frontier_small.write(folder)), *_TWO]

    def every(self) -> dict[str, tuple[Callable[[], list[str]], Sequence[str], bool]]:
        go_on = ("--resume",)
        publications: dict[str, Callable[[], list[str]]] = {
            "redistricting": lambda: ["run", *self.redistricting(), *_TWO],
            "detailed persons": lambda: self.groups("persons"),
            "detailed households": lambda: self.groups("households"),
            "dhc": self.dhc,
            "s-dhc": self.sdhc,
        }

        def seeded(words: Callable[[], list[str]]) -> Callable[[], list[str]]:
            return lambda: [*words(), *_SEED]

        made = {n: (words, go_on, True) for n, words in publications.items()}
        made |= {f"{n}, seeded": (seeded(of), go_on, False) for n, of in publications.items()}
        return made | {
            "intervals": (
                lambda: ["intervals", self.run(), "--replicates", "3", *_TWO],
                go_on,
                False,
            ),
            "sweep": (self.sweep, go_on, False),
            "frontier": (self.frontier, (), False),
            "estimate": (lambda: ["estimate", "--from", self.run(), *_PLAIN, *_TWO], (), False),
            "link": (lambda: ["link", str(self.worlds.dhc()), *_TWO], (), False),
        }


def whole_runs(folder: Path, figures: Figures, kills: int, only: str, order: random.Random) -> None:
    """This many kills of each command."""
    if not kills:
        return
    for name, (words, more, private) in Given(folder / "given").every().items():
        if not name.startswith(only):
            continue
        (here := folder / f"whole {name}").mkdir()
        whole = WholeRun(name, words(), here / "out", order, more, private)
        began = monotonic()
        with adopting():
            whole.undisturbed()
            while whole.told["kills"] < kills:
                whole.endure(order.randint(1, 3))
        figures(
            f"whole commands killed, {name}",
            whole.told["kills"],
            "kills",
            at_least=kills,
            **{k: n for k, n in whole.told.items() if k != "kills"},
            seconds=monotonic() - began,
        )
        shutil.rmtree(here)
