"""What a task has made, in its answer: files by their path in the run, with their SHA-256.

So a resumed run knows whether the files in the task store still exist: a file that was cut short,
or lost with a disk, is made again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from das.engine.tasks import Answer
from das.files.run.run_directory import file_digest

MADE = "made"  #: the key of an answer


def of(root: Path, paths: Iterable[Path]) -> dict[str, dict[str, str]]:
    """For an answer: files, and all files in folders, of the run in ``root``."""
    files = (
        p
        for path in paths
        for p in ([path] if path.is_file() else sorted(path.rglob("*")))
        if p.is_file()
    )
    return {MADE: {p.relative_to(root).as_posix(): file_digest(p) for p in files}}


def is_whole(root: Path, answer: Answer) -> bool:
    """Whether all is there that it says was made."""
    files = ((root / path, sha256) for path, sha256 in answer.get(MADE, {}).items())
    return all(path.is_file() and file_digest(path) == sha256 for path, sha256 in files)
