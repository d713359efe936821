"""Whether the ledger of an interrupted run is that of its plan, and what it lists is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from das.errors import ReleaseError
from das.files.run import run_directory
from das.files.run.ledger import Entries, StageKey
from das.files.run.run_directory import RunDirectory
from das.model.ledger import Event


class DueStage(Protocol):
    """What a plan draws at a stage, and in which subtrees."""

    @property
    def events(self) -> tuple[Event, ...]: ...

    @property
    def subtrees(self) -> tuple[int, ...]: ...


def check_draws(
    entries: Entries, planned: Mapping[StageKey, DueStage], directory: RunDirectory
) -> None:
    """Check that the plan has every draw in an interrupted run's ledger. Check that an attempt with
    a measured part has all draws of its stage, once.
    """
    for a in entries.attempts:
        due = planned.get(a.stage)
        events = due.events if due else ()
        parts = due.subtrees if due else ()
        events = events if a.measured else events[: len(a.events)]
        if (
            tuple(a.events) != events
            or a.parts != len(parts)
            or not a.measured.keys() <= set(parts)
        ):
            raise ReleaseError(
                f"what it says of {a.universe} at {a.level} is not what the plan draws there",
                where=directory.ledger,
                remedy="a ledger that was altered proves nothing: start a new run",
            )


def check_files(entries: Entries, directory: RunDirectory) -> None:
    """Check that every acknowledged file is there, as it was written."""
    for path, sha256 in entries.files().items():
        file = directory.release / path
        if not file.is_file() or run_directory.file_digest(file) != sha256:
            raise ReleaseError(
                "these measurements are not those that the ledger says were written",
                where=file,
                remedy="they were altered or lost: start a new run in another folder",
            )
