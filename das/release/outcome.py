"""What a command has made: a run, or a release estimated again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from das.files.run.run_directory import RunDirectory
from das.model.error_rows import ErrorRow
from das.model.not_private import Private


@dataclass(frozen=True)
class Outcome:
    """What a run has written, and how well it did; whatever its publication does not have is empty.

    ``rows``: errors by universe, over units that are not the published ones where ``apart``; ``beside``: how errors compare with those of another run, a record
    a line, with ``beside_title``; ``tables``: how many rows each has; ``cost``: sentences on what
    changes of records cost. Without the truth there are no errors. ``notes``: what of published
    files could not be taken over as it stands, and pages that could not be made. ``was_finished``:
    this was to resume a run that had ended, and nothing was done. ``private``: the noise was not
    seeded."""

    directory: RunDirectory
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    was_finished: bool = False
    private: Private = True
    rows: Mapping[str, Sequence[ErrorRow]] = field(default_factory=dict, repr=False)
    apart: bool = field(default=False, repr=False)
    beside: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    beside_title: str = field(default="", repr=False)
    tables: Mapping[str, int] = field(default_factory=dict, repr=False)
    cost: Sequence[str] = field(default=(), repr=False)
