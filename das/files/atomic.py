"""Files and folders that appear whole or not at all, and are on disk once they have appeared.

Each is written under a draft's name in the same folder (``.<name>.tmp``), forced to disk (fsync),
and renamed. Then the folder that has the name is forced to disk, too. So whatever kills the process
or the machine, the true name has what was there before, nothing, or the whole. What a later step
relies on cannot be lost before it. A kill can leave drafts behind; the same step, done again,
clears them away.

Only the owner can read what is made in the folder ``confidential`` of a run, from the first byte
and whatever the umask: 0700 for folders, 0600 for files. The folder itself keeps others out. The
modes of its content still hold after a copy or a move.

Two processes can do the same task of a run at once (:mod:`das.engine.tasks`). Within
:func:`attempt` no other process uses the same names for drafts. So each writes its own draft, and
the last to end gives it the true name. What a kill leaves behind is cleared when nobody is at work
(:func:`clear_drafts`). An attempt that comes too late, such as after its machine has slept, writes
nothing. That holds for files; only one process at a time can write a folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from io import RawIOBase
from pathlib import Path
from typing import Any
from uuid import uuid4

#: From this many files on, all are written to disk at once.
AT_ONCE = 4
#: The two folders of a run, each with its own readers.
_RELEASE, _CONFIDENTIAL = "release", "confidential"
_OWN_FOLDER, _OWN_FILE = 0o700, 0o600
#: Ends the names of drafts within an attempt.
_own: ContextVar[str] = ContextVar("own", default="")
#: Raises within an attempt that comes too late.
_in_time: ContextVar[Callable[[], None]] = ContextVar("in_time", default=lambda: None)


def is_confidential(path: Path) -> bool:
    """Whether ``path`` is in the folder ``confidential`` of a run: the last of the two folder names
    on the way to it decides.

    >>> [
    ...     is_confidential(Path(p))
    ...     for p in ("/a/confidential/b/c", "/confidential/run/release/c", "/a/confidential")
    ... ]
    [True, False, False]"""
    named = [part for part in path.absolute().parent.parts if part in (_RELEASE, _CONFIDENTIAL)]
    return named[-1:] == [_CONFIDENTIAL]


def draft_of(path: Path) -> Path:
    """The name that ``path`` is written under."""
    return path.with_name(f".{path.name}{_own.get()}.tmp")


@contextmanager
def attempt(in_time: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Within, no other process writes under the same draft's names, and nothing is begun or gets
    its name when ``in_time`` raises."""
    own, check = _own.set(f".{uuid4().hex}"), _in_time.set(in_time)
    try:
        yield
    finally:
        _own.reset(own)
        _in_time.reset(check)


def clear_drafts(folder_: Path) -> None:
    """Delete all drafts below a folder, of attempts that were killed. One that is still being
    written does not get its true name."""
    for left in sorted(folder_.rglob(".*.tmp")):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


@contextmanager
def file(path: Path, mode: int | None = None) -> Iterator[Path]:
    """A draft to write: it becomes ``path`` at the end, and is gone after an exception. ``mode``
    holds from the first byte."""
    with files([path], mode) as (draft,):
        yield draft


@contextmanager
def files(paths: Sequence[Path], mode: int | None = None) -> Iterator[list[Path]]:
    """Drafts to write, one for each path: none gets its name before all are on disk."""
    drafts = [draft_of(p) for p in paths]
    folders = list(dict.fromkeys(p.parent for p in paths))
    _make_folders(folders)
    try:
        for draft, path in zip(drafts, paths, strict=True):
            draft.unlink(missing_ok=True)
            if (own := _OWN_FILE if is_confidential(path) else mode) is not None:
                draft.touch(own, exist_ok=False)
        yield drafts
        _force_all(drafts)
        _in_time.get()()
        for draft, path in zip(drafts, paths, strict=True):
            draft.replace(path)
        for folder_ in folders:
            force(folder_)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """A draft to fill. At the end it becomes the folder ``path`` and replaces anything of that
    name; after an exception it is deleted."""
    draft, old = draft_of(path), path.with_name(f".{path.name}.old")
    make_folder(path.parent)
    for left in (draft, old):
        if left.exists():
            shutil.rmtree(left)
    closed = is_confidential(path)
    _make(draft)
    try:
        yield draft
        inside = [Path(below, name) for below, _, names in os.walk(draft) for name in names]
        within = [Path(below) for below, *_ in os.walk(draft, topdown=False)]
        for made, mode in (*((p, _OWN_FILE) for p in inside), *((p, _OWN_FOLDER) for p in within)):
            if closed:
                made.chmod(mode)
        _force_all(inside)
        for below in within:
            force(below)
        if path.exists():
            path.rename(old)  # whole, for a removal can be cut short
        draft.rename(path)
        force(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(draft, ignore_errors=True)
        raise


def remove_folder(path: Path) -> None:
    """Delete a folder. It disappears in one step, so nobody can take a half-deleted folder for a
    whole one."""
    old = draft_of(path)
    shutil.rmtree(old, ignore_errors=True)
    with suppress(OSError):  # it is not there, or a disk of its own
        path.rename(old)
    for left in (path, old):
        shutil.rmtree(left, ignore_errors=True)


def remove_file(path: Path) -> None:
    """It need not be there."""
    path.unlink(missing_ok=True)


def create(path: Path, data: bytes) -> bool:
    """Write ``path`` if it is not there, and say whether it was not; of two processes at once, one
    is told so.

    A disk that has no hard links writes it in any case, where it was not there at the beginning."""
    make_folder(path.parent)
    draft = draft_of(path)
    try:
        if is_confidential(path):
            draft.touch(_OWN_FILE)
        draft.write_bytes(data)
        force(draft)
        if path.exists():
            return False
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        except OSError:
            draft.replace(path)
        force(path.parent)
        return True
    finally:
        draft.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes, mode: int | None = None) -> None:
    with file(path, mode) as draft:
        draft.write_bytes(data)


def write_all(contents: Mapping[Path, bytes]) -> None:
    """Several files: none gets its name before all are on disk."""
    with files(list(contents)) as drafts:
        for draft, data in zip(drafts, contents.values(), strict=True):
            draft.write_bytes(data)


def write_text(path: Path, text: str, mode: int | None = None) -> None:
    write_bytes(path, text.encode(), mode)


def write_json(path: Path, value: Mapping[str, Any], mode: int | None = None) -> None:
    """Two spaces, and a last line end."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", mode)


def link(path: Path, new: Path) -> None:
    """A second name, in a draft, of a file that is never written again; a copy where the system has
    no such names."""
    try:
        os.link(path, new)
    except OSError:  # another file system, one without links, or another owner's file
        shutil.copyfile(path, new)


def make_folder(path: Path) -> None:
    """``path`` and what is missing above it, each on disk."""
    _make_folders([path])


def _make_folders(paths: Iterable[Path]) -> None:
    """All are made before what has their names is forced, each once: until it is, nothing relies on
    them."""
    _in_time.get()()
    above: dict[Path, None] = {}
    for path in paths:
        missing = [path] if not path.is_dir() else []
        while missing and not (parent := missing[-1].parent).is_dir():
            missing.append(parent)
        for folder_ in reversed(missing):
            _make(folder_, exist_ok=True)
            above[folder_.parent] = None
    for folder_ in above:
        force(folder_)


def _make(folder_: Path, *, exist_ok: bool = False) -> None:
    folder_.mkdir(_OWN_FOLDER if is_confidential(folder_) else 0o777, exist_ok=exist_ok)


def _force_all(paths: Sequence[Path]) -> None:
    """Several files to disk, each once: many at once, which a disk does in a quarter of the time
    that it needs for one after the other."""
    if len(paths) < AT_ONCE:
        for path in paths:
            force(path)
        return
    with ThreadPoolExecutor(min(len(paths), 8)) as pool:
        for _ in pool.map(force, paths):  # raises what went wrong
            pass


def force(path: Path) -> None:
    """A file's content, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# SHA-256 of a file, and of one that is written and not kept.


class HashingWriter(RawIOBase):
    """A file that keeps nothing but the ``digest`` of what is written.

    >>> h = HashingWriter()
    >>> h.write(b"abc"), h.digest[:8]
    (3, 'ba7816bf')"""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._sha256.update(data)
        return memoryview(data).nbytes

    @property
    def digest(self) -> str:
        return self._sha256.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb", buffering=0) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# The files below a folder, without an object for each.


def files_below(folder: Path) -> list[str]:
    """The path of every file below a folder, from there, in the order of
    ``sorted(folder.rglob("*"))``: by folders, then names. A link to a file counts. A link to a
    folder is not followed, and a folder that cannot be read has no files."""
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
