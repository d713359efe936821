"""The files below a folder, without an object for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def files_below(folder: Path) -> list[str]:
    """The path of every file below a folder, from there, in the order of
    ``sorted(folder.rglob("*"))``: by folders, then names. A link to a file counts. A link to a
    folder is not followed, and a folder that cannot be read has no files.
    """
    return ["/".join(parts) for parts in sorted(_below(os.fspath(folder), ()))]


def _below(folder: str, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    with suppress(PermissionError, FileNotFoundError, NotADirectoryError), os.scandir(folder) as it:
        for entry in it:
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, (*above, entry.name))
            elif _is_file(entry):
                yield (*above, entry.name)


def _is_file(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):  # a link in a circle
        return entry.is_file()
    return False
