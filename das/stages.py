"""A record of the stages of a run: seconds and peak memory, for the manifest."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter


@dataclass
class Stages:
    """``seconds`` and ``peak_mb`` of each stage in the order in which they ended."""

    done: list[dict[str, str | float]] = field(default_factory=list)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = perf_counter()
        yield
        self.done.append({"name": name, "seconds": round(perf_counter() - began, 3), "peak_mb": _peak_mb()})

    @property
    def seconds(self) -> float:
        return sum(float(s["seconds"]) for s in self.done)


def _peak_mb() -> float:
    """The most memory that this process, or a worker that has ended, has held."""
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    own, children = (resource.getrusage(w).ru_maxrss for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return round(max(own, children) / unit, 1)
