"""A record of the stages of a run: seconds and peak memory, for the manifest; and the pages that
could not be made."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from das.errors import ReleaseError
from das.files import atomic
from das.files.machine import peak


@dataclass
class Stages:
    """``seconds`` and ``peak_mb`` of each stage in the order in which they first ended; of one that
    came again, as reading does for each state, in all. ``notes``: a sentence for each page that
    could not be made."""

    done: list[dict[str, str | float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

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

    @contextmanager
    def page(self, name: str, path: Path) -> Iterator[None]:
        """A stage that writes the page ``path``. A page is for looking at: no published number
        rests on it, and the budget is spent when it is made. So a page that fails is left out, with
        a note; the run goes on. Files that cannot be read or written stop the run as everywhere,
        because a later attempt can fix that.

        The note has the kind of the error and the line it came from, not its text, which may quote
        a confidential count."""
        try:
            with self(name):
                yield
        except (ReleaseError, OSError):
            raise
        except Exception as error:
            atomic.remove_file(path)
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.notes.append(
                f"the page {path} could not be made, and is left out; everything else is whole."
                f" Please report it: {type(error).__name__} in {Path(last.filename).name}, line"
                f" {last.lineno}"
            )

    @property
    def seconds(self) -> float:
        return sum(float(s["seconds"]) for s in self.done)
