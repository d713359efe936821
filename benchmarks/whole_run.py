"""A whole run of the pipeline in processes of its own: seconds by stage, and the memory of all of
them together.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.common import CONFIG, ROOT
from das.files.run.run_directory import RunDirectory

_LOOK = (
    0.2  # seconds between looks at the memory; more where a look takes long, as of many gigabytes
)
_SHARE = 0.005  # of the time, for looking


@dataclass(frozen=True)
class CommandCost:
    """``seconds`` on the wall from start to end of the command, ``cpu`` of all its processes,
    ``peak_mb`` of all of them at one time (shared pages counted once), ``None`` where the system
    does not say."""

    seconds: float
    cpu: float
    peak_mb: float | None


@dataclass(frozen=True)
class WholeRun(CommandCost):
    """A command that makes a run, and what that says of itself."""

    directory: RunDirectory
    manifest: dict[str, Any]

    def stages(self) -> dict[str, float]:
        """Seconds of each stage."""
        return {str(s["name"]): float(s["seconds"]) for s in self.manifest["stages"]}

    def largest_process_mb(self) -> float:
        return max(float(s["peak_mb"]) for s in self.manifest["stages"])


def whole_run(
    data: Path, out: Path, *, workers: int, config: Path = CONFIG, more: Sequence[str] = ()
) -> WholeRun:
    """``das run`` on ``data``, with ``more`` options. Raises ``RuntimeError`` with its message if
    it fails.
    """
    return measured(["run", str(config), "--data", str(data)], out, workers=workers, more=more)


def measured(
    arguments: Sequence[str],
    out: Path,
    *,
    workers: int,
    more: Sequence[str] = (),
    source: Path = ROOT,
    program: Sequence[str] = ("-m", "das"),
) -> WholeRun:
    """Any command of ``das`` that makes a run in ``out``, by the code of the checkout ``source``;
    or of a ``program`` that takes the same arguments."""
    cost = command_cost(arguments, out, workers=workers, more=more, source=source, program=program)
    directory = RunDirectory(out)
    return WholeRun(**vars(cost), directory=directory, manifest=directory.read_manifest())


def command_cost(
    arguments: Sequence[str],
    out: Path,
    *,
    workers: int,
    more: Sequence[str] = (),
    source: Path = ROOT,
    program: Sequence[str] = ("-m", "das"),
) -> CommandCost:
    """What any command of ``das`` takes that writes to ``out``. Raises ``RuntimeError`` with its
    message if it fails."""
    command = [
        sys.executable,
        *program,
        *arguments,
        "--out",
        str(out),
        "--workers",
        str(workers),
        "--quiet",
        *more,
    ]
    _adopt()
    others = _children(os.getpid())
    before, began, peak = _cpu_of_children(), perf_counter(), 0.0
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            cwd=source,
            env=_as_installed(),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # so that what it leaves behind is told from a cluster's workers
        )
        try:
            while process.poll() is None:
                looked = perf_counter()
                peak = max(peak, _megabytes(process.pid))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(_LOOK, (perf_counter() - looked) / _SHARE))
        except BaseException:
            process.terminate()
            raise
        seconds = perf_counter() - began
        _wait_for_all_but(others)
        errors.seek(0)
        if process.returncode:
            raise RuntimeError(errors.read().decode(errors="replace").strip())
    return CommandCost(seconds, _cpu_of_children() - before, peak or None)


@cache
def _byte_code() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="das-byte-code-")


def _as_installed() -> dict[str, str]:
    """The environment of a command. Where Python is told to write no byte code, each process would
    compile all modules, which those of a user do not: they have a folder of their own for it."""
    out = dict(os.environ)
    if out.pop("PYTHONDONTWRITEBYTECODE", None):
        out["PYTHONPYCACHEPREFIX"] = _byte_code().name
    return out


def _adopt() -> None:
    """What this process's children leave behind becomes its own: their time counts, once they are
    waited for (Linux).
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _wait_for_all_but(others: Collection[int]) -> None:
    """Wait for what the command has left behind. Workers of a cluster of this process are in its
    session. They may have been started anew meanwhile, and do not end."""
    own = os.getsid(0)
    while left := {p for p in _children(os.getpid()) - set(others) if _session(p) != own}:
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _megabytes(pid: int) -> float:
    """Proportional set size of a process and its descendants; 0 where ``/proc`` does not tell."""
    total = 0.0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                total = int(line.split()[1]) / 1024
        for child in _children(pid):
            total += _megabytes(child)
    except (OSError, ValueError):  # it has ended meanwhile, or there is no /proc
        return total
    return total


def _children(pid: int) -> set[int]:
    """None where ``/proc`` does not tell."""
    found: set[int] = set()
    with suppress(OSError, ValueError):
        for task in os.listdir(f"/proc/{pid}/task"):
            found |= set(
                map(
                    int,
                    Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii").split(),
                )
            )
    return found
