"""What the machine has."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path


def memory() -> float | None:
    """The bytes of memory that this process may have, where the system says so."""
    try:
        own = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return None
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            own = min(own, float(Path(path).read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue
    return own


def give_back() -> None:
    """Memory that was freed goes back to the system, where that can be asked for. The GNU allocator
    keeps it otherwise, in the gaps between what is in use: of a nation that is read by threads as
    much again as is held."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def peak() -> int:
    """The most bytes that this process, or a worker that has ended, has held.

    Linux tells it of this program in ``VmHWM``; its ``getrusage`` begins at what the process held
    that started it."""
    unit = 1 if sys.platform == "darwin" else 1 << 10
    own, children = (
        resource.getrusage(w).ru_maxrss * unit
        for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    try:
        status = dict(
            x.split(":", 1)
            for x in Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        )
        own = int(status["VmHWM"].split()[0]) << 10
    except (OSError, ValueError, KeyError):
        pass
    return max(own, children)
