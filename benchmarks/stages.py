"""The command ``das`` with a line of JSON on stderr for each stage: seconds, and the most memory that
the process had during it (Linux)."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from time import perf_counter, process_time

from das.__main__ import run
from das.engine import display

_PROCESS = Path("/proc/self")


class Stages(display.Lines):
    """What is shown without a terminal."""

    _cpu = 0.0

    def stage(self, name: str, total: int | None) -> None:
        super().stage(name, total)
        self._cpu = process_time()

    def advance(self, n: int = 1) -> None:
        """Nothing is said before the end of a stage."""

    def finish(self) -> None:
        """End the stage."""
        if self._stage is not None:
            line = {
                "stage": self._stage[0],
                "seconds": perf_counter() - self._began,
                "cpu": process_time() - self._cpu,
                "mb": _peak(),
            }
            self._say(json.dumps(line))
            self._stage = None


def _peak() -> float | None:
    """Megabytes, since this was asked before."""
    with suppress(OSError, StopIteration):
        lines = (_PROCESS / "status").read_text(encoding="utf-8").splitlines()
        found = next(line for line in lines if line.startswith("VmHWM"))
        (_PROCESS / "clear_refs").write_text("5", encoding="utf-8")
        return int(found.split()[1]) / 1024
    return None


if __name__ == "__main__":
    sys.argv[0] = "das"
    display.Lines = Stages  # type: ignore[misc]
    run()
