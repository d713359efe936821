"""Results that the parts of a run exchange: arrays by name, in one file that appears whole.

The format is ``.npz`` without Python objects: a reader gets numbers and texts only, even from an
untrusted file."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import ALTERED
from das.errors import PrivacyError, ReleaseError
from das.files import atomic
from das.model.not_private import COLUMN, UNKNOWN, Private, weakest

Arrays = Mapping[str, NDArray[Any]]


def write(path: Path, arrays: Arrays, mode: int | None = None, *, small: bool = False) -> None:
    """``small``: compressed."""
    save = np.savez_compressed if small else np.savez
    with atomic.file(path, mode) as draft, draft.open("wb") as stream:
        save(stream, **arrays)  # type: ignore[arg-type]


def read(path: Path) -> dict[str, NDArray[Any]]:
    """Raises :class:`ReleaseError` where there is none, or it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ReleaseError(
            f"a message between parts of a run cannot be read ({error})",
            where=path,
            remedy="go on with the run by --resume, or start a new one",
        ) from None


def parted(arrays: Arrays, head: str) -> dict[str, NDArray[Any]]:
    """Those whose names begin with ``head`` and a colon, under what follows.

    >>> parted({"a:x": np.zeros(1), "b:x": np.ones(1)}, "b")
    {'x': array([1.])}"""
    return {
        name[len(head) + 1 :]: array
        for name, array in arrays.items()
        if name.startswith(f"{head}:")
    }


def named(head: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The inverse of :func:`parted`."""
    return {f"{head}:{name}": array for name, array in arrays.items()}


# Where in the text of a JSON file a value stands, for messages that name the line.

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')

RecordKey = str | int


def line_of(text: str, path: tuple[RecordKey, ...]) -> int:
    """The line, from 1, on which the value at ``path`` (keys and indices) begins; where there is
    none, that of the longest part of the path that is there. ``text`` is valid JSON.

    >>> line_of('{"a": 1,\\n "b": [2,\\n 3]}', ("b", 1))
    3"""
    found = {p: at for p, at in _values(text) if p == path[: len(p)]}
    return text.count("\n", 0, found[max(found, key=len)]) + 1


def _values(text: str) -> Iterator[tuple[tuple[RecordKey, ...], int]]:
    """Every value, as its path and its offset, in order."""
    path: list[RecordKey] = []
    open_: list[str] = []
    key_next = False
    for token in _TOKEN.finditer(text):
        t = token[0]
        if t in "}]":
            open_.pop()
            path.pop()
        elif t == ",":
            if open_[-1] == "[":
                path[-1] = int(path[-1]) + 1
            key_next = open_[-1] == "{"
        elif t == ":":
            key_next = False
        elif key_next:
            path[-1] = json.loads(t)
        else:
            yield tuple(path), token.start()
            if t in "{[":
                open_.append(t)
                path.append("" if t == "{" else 0)
                key_next = t == "{"


# Whether the content of a folder is private, from its specification and from the marks in its
# measurement files.
#
# A file of measurements that was moved, copied or sent by itself still says that its noise was seeded
# (:func:`das.files.parquet.mark`). That it does not say so proves nothing: without a specification
# nobody knows who drew the noise, and how.

_ROOTS = ("", "nmf*/", "release/nmf*/")

#: What the seed of a run cannot undo: its input, copies of public files as they were given, and its
#: place in a register, whose entry says it.
_AS_GIVEN = (
    "confidential/truth/",
    "confidential/register.json",
    "parameters/",
    "pop-group-totals.txt",
)
#: The mark is within the first bytes of a text: a page has its style before it.
_HEAD = 1 << 20
_FORGOTTEN = "the run was seeded, and this file does not say so"


def check_marks(release: Path, private: Private) -> None:
    """Check that the Parquet files of a release say whether the run was seeded, as its
    specification does. Raises :class:`ReleaseError`."""
    from das.files.parquet import refuse_marked  # pyarrow, which few commands need

    for path in sorted(release.rglob("*.parquet")):
        if path.is_file():
            refuse_marked(path, private)
            if not private and not _says_it(path):
                raise ReleaseError(_FORGOTTEN, where=path, remedy=ALTERED)


def check_marked(root: Path, names: Iterable[str], private: Private) -> None:
    """The one check before a release is sealed, or a run ends: each file of a seeded one says so.

    Raises :class:`PrivacyError` for a file whose writer forgot it."""
    for name in () if private else names:
        if not name.removeprefix("release/").startswith(_AS_GIVEN) and not _says_it(root / name):
            raise PrivacyError(
                _FORGOTTEN,
                where=root / name,
                remedy="publish none of it, and report this as an error in das",
            )


def _says_it(path: Path) -> bool:
    if path.suffix == ".parquet":
        from das.files.parquet import is_marked, metadata  # pyarrow, which few commands need

        return is_marked(path) or COLUMN in metadata(path).schema.names
    with path.open("rb") as file:
        return COLUMN.encode() in file.read(_HEAD)


def privacy_of(path: Path) -> Private:
    """Whether a run, a release, a folder of either, or a set of measurement files is private."""
    from das.files.parquet import is_marked  # pyarrow, which few commands need

    seeded = any(is_marked(file) for file in _samples(path))
    return weakest([_said(path), not seeded])


def _said(path: Path) -> Private:
    """What the specification of the run or release says, or the one above a folder of it."""
    for folder in (path / "release", path, path.parent):
        try:
            spec = tomllib.loads((folder / "spec.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # not there, or not readable: the reader that needs it says so
        if isinstance(run := spec.get("run"), dict) and "seed" in run:
            return False
        if isinstance(published := spec.get("published"), dict):
            return False if published.get("private") is False else UNKNOWN
        return True
    return UNKNOWN


def _samples(path: Path) -> Iterator[Path]:
    """The first file of each level's measurements, and of its constraints: all files of one folder
    are written by one run."""
    for root in _ROOTS:
        for folder in sorted(path.glob(f"{root}*.parquet/*/")):
            yield from islice((p for p in sorted(folder.rglob("*.parquet")) if p.is_file()), 1)
