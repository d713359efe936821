"""A record of the stages of a run: seconds and peak memory, for the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from das.files.machine import peak


@dataclass
class Stages:
    """``seconds`` and ``peak_mb`` of each stage in the order in which they first ended; of one that came again, as reading does
    for each state, in all."""

    done: list[dict[str, str | float]] = field(default_factory=list)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = perf_counter()
        yield
        before = next((s for s in self.done if s["name"] == name), None)
        seconds = perf_counter() - began + (float(before["seconds"]) if before else 0.0)
        found: dict[str, str | float] = {
            "name": name,
            "seconds": round(seconds, 3),
            "peak_mb": round(peak() / (1 << 20), 1),
        }
        if before is None:
            self.done.append(found)
        else:
            before.update(found)

    @property
    def seconds(self) -> float:
        return sum(float(s["seconds"]) for s in self.done)
