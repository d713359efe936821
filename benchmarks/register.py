"""Runs in one register that are killed: no entry is lost, none is there twice, and the cap is never
passed.

Three runs at a time, of a small extract, enter one register with a witness, each in a process of its
own. SIGKILL goes to one that has not measured everything, at a random moment, half of the time in
the milliseconds around its entry. It is then resumed, or begun again where it has no folder yet. A
finished run makes room for the next. The register has room for some of the runs only, so that the
last are refused while others enter. After each kill the register is checked: every line, the cap,
and the witness. Every ledger must have its entry, under its own key. At the end each finished run
must be in the register once. Then the register is restored from a backup of each of its lines, and
every run must be refused.

Then runs are killed before each of their writes, one after another (``--every``)."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from benchmarks.common import ROOT, Figures
from das import spec
from das.errors import RegisterError
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from das.model.mechanisms import RHO
from das.register import file as register
from das.register.book import Cap, Entry, Opening
from das.register.entering import RegisterOptions
from das.register.file import RegisterFile, RegisterLink
from das.runs import pipeline

CONFIG, DATA = ROOT / "configs" / "1940.toml", ROOT / "data" / "ext1940"
CHANGES = ("output.report=false",)
#: Runs at a time.
AT_ONCE = 3
#: Of a run that has measured everything.
AFTER = ("estimating", "at its end")
#: How a run in a process of its own ends.
DONE, REFUSED, BROKEN = 0, 2, 3
_WRITES = ("write", "fsync", "replace", "unlink", "ftruncate", "mkdir", "link", "rename")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.register", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="this many kills of concurrent runs")
    parser.add_argument(
        "--every", type=int, default=7, help="also before each write of this multiple; 0: none"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    given = parser.parse_args(arguments)
    figures = Figures("register")
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), random.Random(given.seed))
        began = monotonic()
        while trial.kills < given.kills:
            trial.once(given.kills)
        figures(
            "kills of three concurrent runs", trial.kills, "kills", at_least=given.kills,
            seconds=monotonic() - began, **trial.told(),
        )  # fmt: skip
        figures("restored registers refused", trial.backups, "backups")
    if given.every:
        with tempfile.TemporaryDirectory() as folder:
            trial, began = Trial(Path(folder), random.Random(given.seed)), monotonic()
            writes = trial.before_each_write(given.every)
            figures("killed before a write", trial.kills, "kills", writes=writes,
                    seconds=monotonic() - began, **trial.told())  # fmt: skip


@dataclass
class Going:
    """A run that a process is at work on."""

    out: Path
    pid: int
    until: float  #: when it is to be killed
    aimed: float | None = None  #: or so long after it has begun


@dataclass
class Trial:
    """Registers and their runs in ``folder``, and what was endured."""

    folder: Path
    order: random.Random
    kills: int = 0
    backups: int = 0
    finished: int = 0
    refused: int = 0
    entries: int = 0
    unfinished: int = 0
    during: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0  #: of a run that nobody kills
    number: int = 0

    def __post_init__(self) -> None:
        self.spec = spec.parse(CONFIG.read_text(encoding="utf-8"), where="c", overrides=CHANGES)
        self.cost = sum((u.plan.cost for u in self.spec.universes), Fraction(0))
        began = monotonic()
        office, _ = self._opened(1)
        if self._wait(self._start(office, self.folder / "alone")) != DONE:
            raise RuntimeError("a run that nobody kills does not end")
        self.seconds = monotonic() - began

    def told(self) -> dict[str, Any]:
        return {
            "runs_finished": self.finished,
            "runs_refused": self.refused,
            "entries": self.entries,
            "entries_of_runs_without_end": self.unfinished,
            "during": dict(self.during),
        }

    def once(self, kills: int) -> None:
        """One register, with room for six runs, until nine were tried."""
        office, here = self._opened(6)
        waiting = [here / f"run{i}" for i in range(9)]
        going: list[Going] = []
        over: dict[Path, int] = {}
        while waiting or going:
            while waiting and len(going) < AT_ONCE:
                out = waiting.pop(0)
                going.append(self._going(office, out, quick=self.kills >= kills))
            sleep(0.002)
            for run in list(going):
                code = self._ended(run)
                if run.aimed is not None and self._begun(run.out):
                    run.until, run.aimed = monotonic() + run.aimed, None
                if code is None and (run.aimed is not None or monotonic() < run.until):
                    continue
                if code is None and _state(RunDirectory(run.out)) in AFTER:
                    run.until = float("inf")  # it has nothing to do with the register any more
                    continue
                going.remove(run)
                if code is None:
                    self._kill(run)
                    waiting.insert(0, run.out)
                    self._check(office, here)
                else:
                    if code == BROKEN:
                        raise RuntimeError(f"{run.out} ended with {code}")
                    over[run.out] = code
        self._conclude(office, here, over)
        self._restore(office, here)
        shutil.rmtree(here)

    def before_each_write(self, step: int) -> int:
        """A run alone is killed before each ``step``-th of its writes, and resumed. Returns how many
        writes there are."""
        at = 1
        while True:
            office, here = self._opened(1)
            out = here / "run"
            code = self._wait(self._start(office, out, at))
            if code != DONE:
                self.kills += 1
                self._check(office, here)
                again = self._wait(self._start(office, out))
                if again != DONE:
                    raise RuntimeError(f"killed before write {at}, it is not resumed: {again}")
            self._conclude(office, here, {out: DONE})
            shutil.rmtree(here)
            if code == DONE:
                return at
            at += step

    # --- processes

    def _opened(self, room: int) -> tuple[RegisterOptions, Path]:
        self.number += 1
        here = self.folder / f"register{self.number}"
        here.mkdir()
        path, witness = here / "register.jsonl", here / "elsewhere" / "head"
        cap = Cap(RHO, self.cost * room)
        opening = Opening(f"{self.number}", cap, "p", witness=str(witness))
        register.create(path, opening)
        return RegisterOptions(path), here

    def _going(self, office: RegisterOptions, out: Path, *, quick: bool) -> Going:
        """Half of the moments are around the entry, which comes when the run has begun."""
        aimed = (
            self.order.uniform(0.0, 0.1 * self.seconds)
            if self.order.random() < 0.5 and not quick
            else None
        )
        life = float("inf") if quick else self.seconds * self.order.uniform(0.0, 1.0)
        going = Going(out, 0, monotonic() + life, None if self._begun(out) else aimed)
        return replace(going, pid=self._start(office, out))

    @staticmethod
    def _begun(out: Path) -> bool:
        return RunDirectory(out).can_go_on()

    def _start(
        self, office: RegisterOptions, out: Path, write: int = 0, *, said: bool = True
    ) -> int:
        """Begin or resume a run in a process; killed before a write of this number."""
        directory = RunDirectory(out)
        resume = directory.can_go_on()
        if not resume:
            shutil.rmtree(out, ignore_errors=True)
        pid = os.fork()
        if pid:
            return pid
        code = BROKEN
        try:
            if write:
                _killed_before(write)
            pipeline.run(
                self.spec, out, paths=[DATA], resume=resume,
                register=None if resume else office,
            )  # fmt: skip
            code = DONE
        except RegisterError as error:
            code = REFUSED if "the cap of this register" in str(error) else BROKEN
            if code == BROKEN and said:
                print(error, file=sys.stderr)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
        os._exit(code)

    @staticmethod
    def _wait(pid: int) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    @staticmethod
    def _ended(run: Going) -> int | None:
        pid, status = os.waitpid(run.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def _kill(self, run: Going) -> None:
        with suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGKILL)
        if self._wait(run.pid) == -signal.SIGKILL:
            self.kills += 1
            self.during[_state(RunDirectory(run.out))] += 1

    # --- what must hold

    def _check(self, office: RegisterOptions, here: Path) -> dict[str, Entry]:
        """Now: the register is whole, and whatever was drawn is in it, once."""
        file = register.read(office.path)
        register.check_caps(file)
        found = list(file.register.entries.values())
        if len({e.id for e in found}) != len(found):
            raise RuntimeError("a run is entered twice")
        by_id = {e.id: e for e in found}
        for out in sorted(here.glob("run*")):
            directory = RunDirectory(out)
            if not directory.ledger.exists():
                continue
            link = RegisterLink.read(directory)
            if link is None or link.run not in by_id:
                raise RuntimeError(f"{out.name} has a ledger, and no entry")
            keys = {a.key for a in LedgerFile(directory.ledger).entries.attempts}
            if keys - {by_id[link.run].key}:
                raise RuntimeError(f"{out.name} has another key than it entered")
        return by_id

    def _conclude(self, office: RegisterOptions, here: Path, over: dict[Path, int]) -> None:
        by_id = self._check(office, here)
        done = {out for out, code in over.items() if code == DONE}
        for out in done:
            link = RegisterLink.read(RunDirectory(out))
            if (
                link is None
                or link.head is None
                or by_id.pop(link.run).spending.stated != self.cost
            ):
                raise RuntimeError(f"{out.name} is finished, and was lost")
            register.read(office.path).check_known(link.head, out)
        if any(RunDirectory(o).ledger.exists() for o, code in over.items() if code == REFUSED):
            raise RuntimeError("a refused run has a ledger")
        self.finished += len(done)
        self.refused += sum(code == REFUSED for code in over.values())
        self.entries += len(done) + len(by_id)
        self.unfinished += len(by_id)

    def _restore(self, office: RegisterOptions, here: Path) -> None:
        """The register as it was after each of its lines is refused: when it is read, and by a run
        that is to enter."""
        latest = office.path.read_bytes()
        lines = latest.splitlines(keepends=True)
        for n in range(1, len(lines)):
            office.path.write_bytes(b"".join(lines[:n]))
            if not _refuses(lambda: register.read(office.path)):
                raise RuntimeError("a restored backup was taken for the register")
            if self._wait(self._start(office, here / "other", said=False)) != BROKEN:
                raise RuntimeError("a run entered a restored backup")
            self.backups += 1
        office.path.write_bytes(latest)


def _refuses(read: Callable[[], RegisterFile]) -> bool:
    try:
        read()
    except RegisterError as error:
        return "restored backup" in str(error)
    return False


def _state(directory: RunDirectory) -> str:
    """How far a run had come."""
    if directory.manifest.exists():
        return "at its end"
    if directory.ledger.exists():
        done = LedgerFile(directory.ledger).entries.closed
        return "estimating" if done else "measuring"
    if directory.noise_key.exists():
        return "entering"
    return "reading" if not directory.can_go_on() else "begun"


def _killed_before(write: int) -> None:
    """In this process, from now on."""
    count = iter(range(1, 10**9))

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def counting(*args: object, **named: object) -> object:
            if next(count) == write:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **named)

        return counting

    for name in _WRITES:
        setattr(os, name, counted(getattr(os, name)))


if __name__ == "__main__":
    main()
