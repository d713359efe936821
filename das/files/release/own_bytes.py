"""A release is files and folders: everything in it has bytes of its own, which a digest can be
of."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from das.errors import ReleaseError
from das.model.source import ListedFile, TableFiles

#: What is no file, by what the system calls it.
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def require_plain(release: Path) -> None:
    """Every name in a release is a regular file, or a folder that holds something. A link shows
    bytes from elsewhere, which stay behind where the release is copied, or change; an empty folder
    has no digest; a pipe makes its reader wait forever. So this comes before anything in the folder
    is opened, and opens nothing itself.

    Raises:
        ReleaseError: the first name that is something else."""
    if not release.is_dir():
        raise ReleaseError(
            "there is no such folder",
            where=release,
            remedy="give the folder of a finished run, or its release/",
        )
    for folder, below, files in os.walk(release, onerror=_unreadable):
        if not below and not files and Path(folder) != release:
            raise _odd(Path(folder), "is an empty folder")
        for name in sorted((*below, *files)):
            mode = os.lstat(os.path.join(folder, name)).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise _odd(
                    Path(folder, name),
                    f"is {_KINDS.get(stat.S_IFMT(mode), 'no file')}, and no file of the release",
                )


def refuse_pipes(release: Path) -> None:
    """Nothing that a reader of a release could open is a pipe, a socket or a device: it would wait
    forever. Asked of every release that a user names, sealed or not; links and empty folders pass,
    for these need no seal. Below a folder that looks like no release nothing is looked at, for it
    may be all of a disk.

    Raises:
        ReleaseError: the first name that is something else."""
    refuse_special(release)
    if not release.is_dir() or not os.access(release, os.R_OK | os.X_OK):
        return  # the code that reads it says so
    names = {p.name for p in release.iterdir()}
    deep = "spec.toml" in names or any(n.startswith("nmf") or n.endswith(".parquet") for n in names)
    for folder, below, files in os.walk(release):
        for path in (Path(folder) / name for name in sorted((*below, *files))):
            if (kind := _kind(path)) not in (stat.S_IFREG, stat.S_IFDIR):
                raise _odd(path, f"is {_KINDS.get(kind, 'no file')}, and no file of a release")
        if not deep:
            return


def refuse_special(path: Path) -> None:
    """Raises :class:`ReleaseError` where ``path`` is a pipe, a socket or a device. Comes before it is
    opened: to open some of them waits for another process, or does something."""
    if (kind := _kind(path)) not in (stat.S_IFREG, stat.S_IFDIR):
        raise ReleaseError(
            f"is {_KINDS.get(kind, 'no file')}, and no file",
            where=path,
            remedy="give a file: what a pipe has said cannot be read again",
        )


def _kind(path: Path) -> int:
    """What a reader would open: of a link what it leads to. What is not there, or not to be
    reached, makes nobody wait."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):  # a name with a null byte
        return stat.S_IFREG


def _odd(path: Path, what: str) -> ReleaseError:
    return ReleaseError(
        what,
        where=path,
        remedy="take it away, or get the release again from where it was published",
    )


def _unreadable(error: OSError) -> NoReturn:
    raise ReleaseError(
        f"cannot be read ({error.strerror})",
        where=error.filename,
        remedy="change its permissions, or copy the release again",
    ) from None


# Files of a release and their sizes, as a page lists them.


def listed(out: Path, says: Mapping[str, str]) -> list[ListedFile]:
    """The files and folders under ``out`` that begin with a name of ``says``, each with its size
    and the text of that name."""
    return [
        ListedFile(path.name + "/" * path.is_dir(), _size(path), text)
        for name, text in says.items()
        for path in sorted(out.glob(f"{name}*"))
    ]


def tables(out: Path, named: Iterable[tuple[str, str]], levels: Iterable[str]) -> list[TableFiles]:
    """The CSV files of tables, given by name and title, at those levels where there are any."""
    levels = list(levels)
    found = [
        TableFiles(
            name,
            title,
            [
                (level, ListedFile(path, _size(out / path)))
                for level in levels
                if (out / (path := f"tables/{name}_{level}.csv")).is_file()
            ],
        )
        for name, title in named
    ]
    return [table for table in found if table.files]


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    return sum(f.stat().st_size for f in files)
