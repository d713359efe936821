"""Ctrl-C and SIGTERM at random moments, to the process or to all of its group: a command ends soon,
with 130 or 143 and one message (or it had ended), without a traceback, and what it says is so: with
``--resume`` a run goes on to its end; an estimate leaves nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter, sleep

from benchmarks.common import ROOT
from benchmarks.fuzz.judge import Verdict
from das import load_spec
from das.files.simulators import census_2010
from das.publications.detailed.simulation import files
from das.publications.dhc.truth import simulated
from das.runs import pipeline

#: Seconds from a signal to the end, and those of a whole command.
SOON, WHOLE = 60, 1800
#: One of this many cases is resumed and run to its end.
RESUMED = 5
ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143}
COMMANDS = ("dhc", "intervals", "estimate", "detailed")


@dataclass
class Signals:
    """Of one command: ``words`` without its folder ``out``, which comes last. ``seconds`` it takes,
    once that is known.
    """

    words: Sequence[str]
    resumes: bool
    seconds: float = 0.0

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        out = at / "out"
        if not self.seconds:
            began = perf_counter()
            done = self._run(out)
            if done.returncode:
                return Verdict("does not run", done.stderr), "run"
            self.seconds = perf_counter() - began
            shutil.rmtree(out)
        which, group = rng.choice(list(ENDS)), rng.random() < 0.5
        wait = self.seconds * (rng.random() ** 2 if rng.random() < 0.5 else rng.random())
        asked = (
            f"{which.name} to {'all' if group else 'it'} after {wait:.2f} of {self.seconds:.1f} s"
        )
        with subprocess.Popen(
            self._line(out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=ROOT,
        ) as running:
            sleep(wait)
            if running.poll() is None:
                (os.killpg if group else os.kill)(running.pid, which)
            try:
                _, said = running.communicate(timeout=SOON)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                return Verdict(f"runs {SOON} s after the signal", running.communicate()[1]), asked
        return self._judged(running.returncode, which, said, out, rng), asked

    def _judged(
        self, code: int, which: signal.Signals, said: str, out: Path, rng: Random
    ) -> Verdict:
        # before Python has put its own in place, the system's way with a signal is the end
        if code not in (0, 2, ENDS[which], -which):
            return Verdict(f"exit {code}", said)
        if code == -which and "/das/" not in said:  # Python itself was loading
            return Verdict("right")
        if "Traceback" in said or "Aborted" in said:
            return Verdict("prints a traceback", said)
        if code in ENDS.values() and not said.startswith("das: "):
            return Verdict("ends without a word", said)
        if not self.resumes and code and out.exists() and not (out / "manifest.json").exists():
            return Verdict("leaves something", said)
        if self.resumes and code and rng.randrange(RESUMED) == 0:
            again = (
                ["--resume"]
                if "--resume" in said or (out / "release" / "ledger.jsonl").exists()
                else []
            )
            if not again:
                shutil.rmtree(out, ignore_errors=True)
            done = self._run(out, *again)
            if done.returncode:
                return Verdict("does not go on", f"{said}\n---\n{done.stderr}")
        return Verdict("right")

    def _line(self, out: Path, *more: str) -> list[str]:
        return [sys.executable, "-m", "das", *self.words, "--out", str(out), *more]

    def _run(self, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._line(out, *more),
            capture_output=True,
            text=True,
            timeout=WHOLE,
            check=False,
            cwd=ROOT,
        )


def made(command: str, folder: Path) -> Signals:
    """A command and what it begins from."""
    if command == "detailed":
        parameters, records = files.write(folder / "given", seed=1, states="RI,VT", persons=3000)
        named = ["--data", str(records), "--set", f"data.parameters={parameters}"]
        return Signals(["run", "detailed-dhc", *named, "--workers", "2", "--quiet"], True)
    data = census_2010.write(folder / "pl", seed=1, states=1, persons=1000)
    changes = ["run.seed=1", "output.report=false", "geography.spine=tabulation"]
    run = folder / "run"
    pipeline.run(load_spec(ROOT / "configs" / "pl94-2010.toml", changes), run, paths=data)
    if command == "estimate":
        return Signals(["estimate", "--from", str(run), "--workers", "2", "--quiet"], False)
    if command == "intervals":
        return Signals(
            ["intervals", str(run), "--replicates", "3", "--workers", "2", "--quiet"], True
        )
    simulated.simulate(data, folder / "linked", seed=1)
    return Signals(
        [
            "run",
            "dhc-2020",
            "--set",
            "run.seed=1",
            "--set",
            "output.report=false",
            "--set",
            f"constraints.from={run}",
            "--data",
            str(folder / "linked"),
            "--quiet",
        ],
        True,
    )
