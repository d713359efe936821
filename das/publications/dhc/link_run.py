"""The link of a run whose configuration has ``[link]``. What links is loaded only then."""

from __future__ import annotations

from importlib import import_module

from das.engine import Progress
from das.files.run.run_directory import RunDirectory, read_json
from das.publications.dhc.spec import DhcLink
from das.release.replicate_source import digest_of
from das.stages import Stages


def link_run(
    directory: RunDirectory,
    asked: DhcLink | None,
    *,
    workers: int,
    stages: Stages,
    progress: Progress,
) -> None:
    """Link the release of a run as its configuration asks, if it does. A link of this release that
    is there is whole, and stays: a run that was stopped goes on behind it."""
    if asked is None:
        return
    linking = import_module("das.tools.link.release")
    done = directory.linked / linking.FIGURES
    if done.is_file() and read_json(done)["release"] == digest_of(directory.release):
        return
    with stages("link"):
        linking.link_release(
            directory.release,
            directory.linked,
            linking.LinkOptions.from_configuration(asked),
            workers=workers,
            progress=progress,
        )
