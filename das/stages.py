"""A record of the stages of a run: seconds and peak memory, for the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from das.files.machine import peak


@dataclass
class Stages:
    """``seconds`` and ``peak_mb`` of each stage in the order in which they ended."""

    done: list[dict[str, str | float]] = field(default_factory=list)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = perf_counter()
        yield
        self.done.append(
            {"name": name, "seconds": round(perf_counter() - began, 3), "peak_mb": round(peak() / (1 << 20), 1)}
        )

    @property
    def seconds(self) -> float:
        return sum(float(s["seconds"]) for s in self.done)
