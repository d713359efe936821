"""Places for whole objects by name: buckets of S3 and Google Cloud, HDFS, a folder of this machine.

This is the one module that knows :mod:`pyarrow.fs`. It handles no credentials; those of the
environment apply.

An object appears whole or not at all. There are two kinds of stores.

* ``s3`` and ``gcs`` make an object from what has arrived when the stream is closed. So no exception
  can be allowed between the first byte and the last, because pyarrow cannot abandon a stream.
  Leaving ``with`` closes it, and so does the garbage collector; then half an object has its name.
  So a file is mapped into memory and written in a thread, where no signal raises. Only the
  connection can fail, and closing a failed stream makes no object. That is so while parts are sent
  in the background, as pyarrow does; and the size is checked afterwards.
* In ``local`` and ``hdfs`` files have names while they are written. They get their final names at
  the end."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from time import sleep
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from das.errors import StoreError, UserError

#: The kinds of stores, and whether a file has its name before it is whole there.
RENAMED = {"s3": False, "gcs": False, "local": True, "hdfs": True}
PAUSES = (1.0, 5.0)  #: seconds before an object is tried again
CHUNK = 1 << 25  #: bytes that are in memory of an object on its way

_DRAFT = ".das-draft"
_KNOWN = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, hdfs://HOST/FOLDER or file:///FOLDER"
R = TypeVar("R")


class _Torn(OSError):
    """What has the name is not the whole."""


@contextmanager
def _written(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Writes pieces of a file on this machine. A full disk is not a fault of the store, and a
    second attempt does not help: raises :class:`UserError`."""

    def write(piece: bytes) -> None:
        try:
            file.write(piece)
            file.flush()
        except OSError as error:
            raise _unwritten(path, error) from None

    try:
        file = path.open("wb")
    except OSError as error:
        raise _unwritten(path, error) from None
    try:
        yield write
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    try:
        file.close()
    except OSError as error:
        raise _unwritten(path, error) from None


def _unwritten(path: Path, error: OSError) -> UserError:
    return UserError(
        f"cannot be written ({error.strerror})",
        where=path,
        remedy="free some space on this machine, or choose another folder; files in the store stay",
    )


@dataclass(frozen=True, eq=False)
class Store:
    """All objects below ``base``, by their names under it. ``confidential``: on this machine they
    are their owner's alone; who reads a bucket, its settings decide."""

    url: str
    base: str
    _fs: Any = field(repr=False)
    confidential: bool = False

    @staticmethod
    def at(url: str, *, confidential: bool = False) -> Store:
        """The store that a URL names, in pyarrow's words. Raises :class:`UserError` where it names
        none."""
        if urlsplit(url).username is not None:
            raise UserError(
                "credentials are no part of the URL of a store: it is written down, and shown",
                where=_bare(url),
                remedy=(
                    "give them in the environment, such as AWS_ACCESS_KEY_ID and"
                    " AWS_SECRET_ACCESS_KEY"
                ),
            )
        try:
            system, base = _file_system(url)
        except (ValueError, OSError, NotImplementedError) as error:
            raise UserError(
                f"this is no store ({_first_line(error)})", where=url, remedy=f"name one: {_KNOWN}"
            ) from None
        if system.type_name not in RENAMED:
            raise UserError(
                "das does not know whether objects appear whole in a store of"
                f" {system.type_name!r}",
                where=url,
                remedy=f"use {_KNOWN}",
            )
        if not (base := base.rstrip("/")):
            raise UserError(
                "this names no bucket and no folder", where=url, remedy=f"name one: {_KNOWN}"
            )
        store = Store(
            url,
            str(Path(base).resolve()) if system.type_name == "local" else base,
            system,
            confidential,
        )
        if store.folder is not None and store.folder.exists() and not store.folder.is_dir():
            raise UserError("this is no folder", where=url, remedy=f"name one: {_KNOWN}")
        return store

    @property
    def folder(self) -> Path | None:
        """Where it is on this machine, if it is."""
        return Path(self.base) if self._fs.type_name == "local" else None

    def overlaps(self, other: Store) -> bool:
        """Whether one store is the other, or is inside it. Buckets of the same name on two hosts
        are taken for one."""
        a, b = PurePosixPath(self.base), PurePosixPath(other.base)
        return self._fs.type_name == other._fs.type_name and (
            a.is_relative_to(b) or b.is_relative_to(a)
        )

    def check(self) -> None:
        """Write a small object, and delete it. Raises :class:`UserError` where that cannot be done,
        or where others could read what is confidential."""
        self._refuse_open()
        path = self._path(f".das-{uuid4().hex}{_DRAFT}")  # where it stays, it is nobody's
        try:
            self._send(path, memoryview(b"das"))
            self._fs.delete_file(path)
        except OSError as error:
            raise UserError(
                f"nothing can be written there, or deleted ({_first_line(error)})",
                where=self.url,
                remedy=(
                    "make the bucket, or name another; look at the credentials in the environment"
                    " (AWS_*, GOOGLE_APPLICATION_CREDENTIALS) and at what they allow: to list, get,"
                    " put and delete objects"
                ),
            ) from None

    def sizes(self) -> dict[str, int]:
        """The bytes of each object, by name."""
        from pyarrow import fs

        found = self._tried(
            "listed",
            "",
            lambda: self._fs.get_file_info(
                fs.FileSelector(self.base, allow_not_found=True, recursive=True)
            ),
        )
        try:
            names = {
                i.path[len(self.base) :].lstrip("/"): i.size
                for i in found
                if i.type == fs.FileType.File
            }
        except UnicodeDecodeError as error:
            raise UserError(
                f"something there has a name that is no text in UTF-8 ({error.object!r})",
                where=self.url,
                remedy="take it away from the store, or give it another name",
            ) from None
        return {name: size for name, size in names.items() if not _is_draft(name)}

    def put(self, name: str, path: Path) -> None:
        """Make a file a whole object, replacing any of that name. Call it in a thread of its own,
        so that no signal can interrupt it. Raises :class:`StoreError`."""
        self._tried("written", name, lambda: self._put(self._path(name), path))

    def get(self, name: str, path: Path) -> None:
        """An object becomes a file, which is not whole after an exception. Raises
        :class:`StoreError`."""
        there = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._tried("read", name, lambda: self._get(there, path))

    def remove(self, name: str) -> None:
        """Delete an object. Raises :class:`StoreError`."""
        self._tried("deleted", name, lambda: self._fs.delete_file(self._path(name)))

    def _refuse_open(self) -> None:
        """Refuse a confidential folder that does not belong to this user, or that others can look
        into."""
        if not self.confidential or self.folder is None or not self.folder.exists():
            return
        there = self.folder.stat()
        if there.st_uid != os.geteuid() or there.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UserError(
                "others can read this folder, but the files to be copied there are confidential",
                where=self.url,
                remedy=f"name a folder that is not there yet, or: chmod 700 {self.folder}",
            )

    # --- one attempt each

    def _put(self, path: str, file: Path) -> None:
        if not (size := file.stat().st_size):
            self._send(path, memoryview(b""))
            return
        with (
            file.open("rb") as stream,
            mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as data,
        ):
            self._send(path, data)

    def _send(self, path: str, data: memoryview) -> None:
        draft = path
        if RENAMED[self._fs.type_name]:
            at = PurePosixPath(path)
            draft = str(at.with_name(f".{at.name}{_DRAFT}"))
            if self.confidential and self.folder is not None:
                _create_own(Path(draft), self.folder)
            else:
                self._fs.create_dir(str(at.parent), recursive=True)
        stream = self._fs.open_output_stream(draft, compression=None)
        try:
            for first in range(0, len(data), CHUNK):
                with data[first : first + CHUNK] as piece:
                    stream.write(piece)
                stream.flush()  # has sent it, or raises
            stream.close()
            if (there := self._fs.get_file_info(draft).size) != len(data):
                raise _Torn(f"{there} bytes have arrived of {len(data)}")
        except BaseException as error:
            with suppress(OSError):
                stream.close()
            if draft != path or isinstance(error, _Torn) or not isinstance(error, OSError):
                with suppress(OSError):
                    self._fs.delete_file(draft)
            raise
        if draft != path:
            self._fs.move(draft, path)

    def _get(self, path: str, file: Path) -> None:
        with self._fs.open_input_stream(path, compression=None) as stream, _written(file) as out:
            while piece := stream.read(CHUNK):
                out(piece)

    def _tried(self, what: str, name: str, act: Callable[[], R]) -> R:
        for pause in (*PAUSES, None):
            try:
                return act()
            except OSError as error:
                if pause is None:
                    raise StoreError(
                        f"{name or 'the store'} cannot be {what} ({_first_line(error)})",
                        where=self.url,
                        remedy=(
                            "check the connection and the permissions, and continue: files that"
                            " are there are kept"
                        ),
                    ) from None
                sleep(pause)
        raise AssertionError

    def _path(self, name: str) -> str:
        """Raises :class:`UserError` for a name that leads out of the store."""
        if not name or any(part in ("", ".", "..") for part in name.split("/")) or "\\" in name:
            raise UserError(
                f"{name!r} is no name of an object",
                where=self.url,
                remedy="take it away from the store",
            )
        return f"{self.base}/{name}"


def _create_own(path: Path, base: Path) -> None:
    """An empty file, and the folders between it and ``base``: their owner's alone, whatever the
    umask says."""
    base.parent.mkdir(parents=True, exist_ok=True)
    between = path.parent.relative_to(base).parts
    for depth in range(len(between) + 1):
        base.joinpath(*between[:depth]).mkdir(0o700, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(0o600, exist_ok=False)


def _is_draft(name: str) -> bool:
    return name.rpartition("/")[2].startswith(".") and name.endswith(_DRAFT)


def _file_system(url: str) -> tuple[Any, str]:
    from pyarrow import fs  # slow to load

    system, base = fs.FileSystem.from_uri(url)
    return system, base


def _bare(url: str) -> str:
    """Without what is before the host."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
