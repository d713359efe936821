"""The input of a resumed run: what exists of it must be what the run began with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from das.errors import UserError
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory


def check_inputs(directory: RunDirectory, paths: Sequence[Path]) -> None:
    """Nothing of the input is read again: what was counted lies in the folder of the run. But
    who names ``paths`` means these: every file that was read must be there, as it was.

    Raises :class:`UserError`."""
    if not paths:
        return
    known = [(s["name"], s["sha256"]) for s in run_directory.read_json(directory.inputs)["inputs"]]
    names = {name for name, _ in known}
    there = {(f.name, run_directory.file_digest(f)) for f in _files(paths) if f.name in names}
    if lost := [name for name, sha256 in known if (name, sha256) not in there]:
        raise UserError(
            f"the input is not the one that this run began with: {lost[0]} is not there as it was",
            where=directory.root,
            remedy="resume with the inputs that the run began with, or start another run in a"
            " new folder",
        )


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from (f for f in path.rglob("*") if f.is_file())
        elif path.is_file():
            yield path
