"""A reader who types the commands of the documentation in a folder, over official files, and what
became of each command."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.accept import printed

#: Seconds that what a command started may take to end after it.
GRACE = 2.0
DAS = Path(sys.executable).with_name("das")


@dataclass(frozen=True)
class Step:
    """A command: the ``page`` that prints its ``line`` (none: it is no `das`, but a benchmark), and ``more`` words, whose
    options some page prints; what is ``given`` for placeholders, where ``@name`` is what an earlier step wrote; the
    ``files`` that it needs besides, by their names in the folder; what it writes (``out``: without,
    the newest run of ``runs/``). ``called``: another name that the documentation then has for it."""

    name: str
    page: str
    line: str
    given: Mapping[str, str] = field(default_factory=dict)
    more: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    out: str = ""
    called: str = ""


@dataclass(frozen=True)
class Done:
    """What became of a command. ``left``: processes and files that it left behind."""

    step: Step
    words: tuple[str, ...]
    folder: Path
    code: int
    stdout: str
    stderr: str
    left: tuple[str, ...]
    seconds: float
    processor: float
    peak_mb: float

    @property
    def out(self) -> Path:
        """What it wrote: a folder or a file."""
        return self.folder / self.step.out

    @property
    def release(self) -> Path:
        return self.out / "release" if (self.out / "release").is_dir() else self.out

    def __str__(self) -> str:
        return f"das {shlex.join(self.words)}\nexit {self.code}\n{self.stdout[-2000:]}{self.stderr[-3000:]}"


class Absent(Exception):
    """A file of the official data is not there."""


class Reader:
    """One chain of commands in one folder; each is done once, after those before it."""

    def __init__(self, folder: Path, data: Path | None) -> None:
        self.folder, self._data = folder, data
        self._done: dict[str, Done] = {}

    def done(self, steps: tuple[Step, ...], name: str) -> Done:
        """Do what is not done yet, up to the step of that name."""
        for step in steps:
            if step.name not in self._done:
                self._done[step.name] = self._do(step)
            if step.name == name:
                return self._done[name]
            if (code := self._done[step.name].code) != 0 and step.out:
                raise AssertionError(f"{step.name}, which comes before, ended with {code}")
        raise KeyError(name)

    def _do(self, step: Step) -> Done:
        for name, source in step.files.items():
            self._put(name, source)
        given = {
            k: str(self._done[v[1:]].out) if v.startswith("@") else v.format(folder=self.folder)
            for k, v in step.given.items()
        }
        words = printed.words(step.line, given, step.more)
        (self.folder / "tmp").mkdir(exist_ok=True)
        before = self._names()
        began = time.perf_counter()
        with (
            (self.folder / ".stdout").open("w+") as out,
            (self.folder / ".stderr").open("w+") as err,
        ):
            process = subprocess.Popen(
                [DAS, *words] if step.page else [sys.executable, *words],
                cwd=self.folder if step.page else printed.ROOT,
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=os.environ | {"TMPDIR": str(self.folder / "tmp"), "HOME": str(self.folder)},
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.perf_counter() - began
            left = [f"process {p}" for p in _processes_of(process.pid)]
            out.seek(0), err.seek(0)
            said = out.read(), err.read()
        left += [f"file tmp/{p.name}" for p in (self.folder / "tmp").iterdir()]
        new = sorted(self._names() - before)
        if not step.out:
            runs = [n for n in new if n.startswith("runs/")]
            step = Step(**{**vars(step), "out": runs[-1] if runs else ""})
        allowed = (step.out, step.out.partition("/")[0], "runs")
        left += [f"file {n}" for n in new if n not in allowed and not n.startswith(f"{step.out}-")]
        if step.called and not (link := self.folder / step.called).exists():
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(self.folder / step.out)
        peak = used.ru_maxrss / (1 << 10)
        return Done(
            step,
            tuple(words),
            self.folder,
            process.returncode,
            *said,
            tuple(left),
            seconds,
            used.ru_utime + used.ru_stime,
            peak,
        )

    def _names(self) -> set[str]:
        tops = [p for p in self.folder.iterdir() if not p.name.startswith(".")]
        found = [*tops, *(self.folder / "runs").glob("*")]
        return {str(p.relative_to(self.folder)) for p in found if p.name != "tmp"}

    def _put(self, name: str, source: str) -> None:
        """A file or a folder of the official data, under the name that the documentation has."""
        here = self.folder / name
        if here.exists():
            return
        root = printed.ROOT if source.startswith(("data/", "configs")) else self._data
        there = root / source if root else None
        if there is None or not there.exists():
            raise Absent(source)
        here.parent.mkdir(parents=True, exist_ok=True)
        if there.is_dir():
            shutil.copytree(there, here, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(there, here)


def _processes_of(session: int) -> list[str]:
    """What still runs of a session, after a moment; it is ended."""
    until = time.perf_counter() + GRACE
    while (found := _running(session)) and time.perf_counter() < until:
        time.sleep(0.05)
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return [str(pid) for pid in found]


def _running(session: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(after[3]) == session and after[0] != "Z":
            found.append(int(path.parent.name))
    return found
