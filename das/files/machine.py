"""What the machine has."""

from __future__ import annotations

import os
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
