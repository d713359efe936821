"""Kills of every publication: while it measures, before each of its writes; and during whole runs,
at random moments.

The first is the model of :mod:`tests.interruptions`, which knows every draw of noise. After each
kill a run is resumed with its key, without it, and with another truth; advice in messages is
followed to the end. The second are processes of the command line that get SIGKILL; half of them
lose their key as well."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.common import ROOT, Figures
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from tests.detailed import runs
from tests.interruptions import Fate, Publication, Told, attempt, endure, every, fates
from tests.worlds import Worlds

#: What happens after a kill, before the run is resumed.
AFTER = (
    Fate(),
    Fate(lose_key=True),
    Fate(alter=True),
    Fate(lose_key=True, alter=True, accept=True),
)
#: Attempts of one run that are killed in a random sequence.
KILLS = 5
_PATIENCE = 900.0


def while_measuring(
    folder: Path, figures: Figures, step: int, sequences: int, only: str, seed: int
) -> None:
    """Every publication is killed before each ``step``-th write, in each of the ways of
    :data:`AFTER`; then in random ``sequences``.
    """
    for name, make in every(Worlds(folder / "worlds"), folder / "given").items():
        if not name.startswith(only):
            continue
        publication, began, told, here = make(), monotonic(), Told(), folder / name
        publication.begin(here / "begun")
        writes = _writes(publication, here)
        for write in range(1, writes + 1, step) if step else ():
            for after in AFTER:
                fate = Fate(write, after.lose_key, after.alter, after.accept)
                endure(publication, here / "begun", here, iter([fate]), random.Random(write), told)
        for i in range(sequences):
            order = random.Random(seed * 1_000_003 + i)
            endure(
                publication,
                here / "begun",
                here,
                fates(order, writes, order.randint(1, KILLS)),
                order,
                told,
            )
        figures(
            f"measuring killed, {name}",
            told.kills,
            "kills",
            **_said(told),
            writes=writes,
            seconds=monotonic() - began,
        )
        shutil.rmtree(here)


def _writes(publication: Publication, here: Path) -> int:
    """How often an attempt that nothing stops changes what the disk holds."""
    below, above = 0, 64
    while _ends(publication, here, above):
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if _ends(publication, here, middle) else (below, middle)
    return below


def _ends(publication: Publication, here: Path, write: int) -> bool:
    """Whether one is killed before a write of this number."""
    run = here / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(here / "begun", run)
    ended, said = attempt(publication, run, here / "counting.jsonl", write, False)
    if ended not in ("killed", "closed"):
        raise RuntimeError(said)
    return ended == "killed"


def _said(told: Told) -> dict[str, Any]:
    return {
        k: dict(v) if isinstance(v, Counter) else v for k, v in vars(told).items() if k != "kills"
    }


# --- whole runs
# --------------------------------------------------------------------------------------------------


@dataclass
class WholeRun:
    """A command that makes a run in ``out``; what was endured of it."""

    name: str
    arguments: Sequence[str]
    out: Path
    order: random.Random
    seconds: float = 0.0
    told: Counter[str] = field(default_factory=Counter)

    def undisturbed(self) -> None:
        began = monotonic()
        code, said = self._attempt([], None)
        if code:
            raise RuntimeError(said)
        self.seconds = monotonic() - began
        self._check(lost=False)

    def endure(self, kills: int) -> None:
        """One run, killed up to so often. Raises ``RuntimeError`` for what must not be."""
        more: list[str] = []
        directory, lost, key_lost = RunDirectory(self.out), False, False
        self.told["runs"] += 1
        while True:
            after = self.order.uniform(0.0, self.seconds) if kills else None
            code, said = self._attempt(more, after)
            kills -= 1 if kills else 0
            if code == 0:
                break
            more = ["--resume"]
            if code == -signal.SIGKILL:
                self.told["kills"] += 1
                if directory.noise_key.exists() and self.order.random() < 0.5:
                    key_lost |= directory.ledger.exists()
                    directory.noise_key.unlink()
                    self.told["keys_lost"] += 1
                if not directory.inputs.exists():  # whatever looks sees that nothing was begun
                    shutil.rmtree(self.out, ignore_errors=True)
                    more = []
            elif code == 2 and "--accept-spent" in said:
                if not key_lost:
                    raise RuntimeError(f"its key is there: {said}")
                self.told["refused"] += 1
                lost, more = True, ["--resume", "--accept-spent"]
            elif code == 2 and "delete the folder" in said and not directory.ledger.exists():
                shutil.rmtree(self.out, ignore_errors=True)
                more = []
            else:
                raise RuntimeError(f"{self.name} {more}: exit {code}: {said}")
        self.told["spent_again"] += lost
        self._check(lost=lost)

    def _attempt(self, more: Sequence[str], after: float | None) -> tuple[int, str]:
        process = subprocess.Popen(
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
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _, said = process.communicate(timeout=_PATIENCE if after is None else after)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
        return process.returncode, said

    def _check(self, *, lost: bool) -> None:
        """The release is verified; its statement has all that the ledger has, and no more is lost
        than must be.
        """
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
        faults = {
            "a draw is not stated": len(stated) != sum(len(a.events) for a in entries.attempts),
            "its cost is another": sum(Fraction(x["rho"]) for x in stated)
            != sum(e.cost for a in entries.attempts for e in a.events),
            "something is lost, and was not accepted": bool(entries.lost()) and not lost,
            "its key is left": directory.noise_key.exists(),
        }
        if wrong := [what for what, so in faults.items() if so]:
            raise RuntimeError(f"{self.name}: {wrong}")
        shutil.rmtree(self.out)


def whole_runs(folder: Path, figures: Figures, kills: int, only: str, order: random.Random) -> None:
    """This many kills of runs of each publication."""
    worlds = Worlds(folder / "worlds")
    earlier, given = worlds.run(data="one thousand"), runs.given(folder / "given-whole")
    plain = ["--set", "output.report=false"]
    commands = {
        "redistricting": ["run", "pl94-2010", "--data", str(worlds.data("one thousand")), *plain],
        "detailed groups": ["detailed", "run", *map(str, given)],
        "dhc": [
            "run",
            "dhc-2020",
            "--data",
            str(worlds.linked()),
            "--set",
            f"constraints.from={earlier}",
            *plain,
        ],
    }
    for name, arguments in commands.items():
        if not name.startswith(only) or not kills:
            continue
        began, whole = monotonic(), WholeRun(name, arguments, folder / "whole", order)
        whole.undisturbed()
        while whole.told["kills"] < kills:
            whole.endure(order.randint(1, 3))
        figures(
            f"whole runs killed, {name}",
            whole.told["kills"],
            "kills",
            **{k: n for k, n in whole.told.items() if k != "kills"},
            seconds=monotonic() - began,
        )
