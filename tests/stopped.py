"""Runs that are stopped at chosen places, and what such a run must not leave behind."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


class Killed(BaseException):
    """As if the process had been: no step of ours catches it."""


class Step:
    """Where a run is stopped: before a function is called for the ``n``-th time."""

    def __init__(self, owner: Any, name: str, n: int = 1) -> None:
        self.owner, self.name, self.left = owner, name, n

    def arm(self, patch: pytest.MonkeyPatch) -> None:
        real: Callable[..., Any] = getattr(self.owner, self.name)

        def counted(*args: Any, **named: Any) -> Any:
            self.left -= 1
            if not self.left:
                raise Killed
            return real(*args, **named)

        patch.setattr(self.owner, self.name, counted)


def left_over(out: Path) -> list[str]:
    """What belongs to a run that is under way."""
    names = ("work", "confidential/work", "confidential/noise.key", "confidential/claimed")
    return [n for n in names if (out / n).exists()] + [str(p) for p in out.rglob(".*")]


# --- processes
# --------------------------------------------------------------------------------------------------


@contextmanager
def adopting() -> Iterator[None]:
    """Whatever a process that this one started leaves running becomes a child of this one."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def children() -> dict[int, str]:
    """Processes of this one that run."""
    out = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, rest = stat.read_text().rpartition(")")
            state, parent = rest.split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                out[int(stat.parent.name)] = (stat.parent / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return out


def descendants(pid: int) -> list[int]:
    """All processes that a process has begun. The one that workers are forked from counts as a
    worker."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in map(
                int, Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii").split()
            ):
                found += [*descendants(child), child]
    except (OSError, ValueError):
        pass
    return found
