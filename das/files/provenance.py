"""Whether the content of a folder is private, from its specification and from the marks in its
measurement files.

A file of measurements that was moved, copied or sent by itself still says that its noise was seeded
(:func:`das.files.parquet.mark`). That it does not say so proves nothing: without a specification
nobody knows who drew the noise, and how."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from das.accounting.document import ALTERED
from das.errors import PrivacyError, ReleaseError
from das.files.parquet import is_marked, metadata, refuse_marked
from das.model.not_private import COLUMN, UNKNOWN, Private, weakest

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
        return is_marked(path) or COLUMN in metadata(path).schema.names
    with path.open("rb") as file:
        return COLUMN.encode() in file.read(_HEAD)


def privacy_of(path: Path) -> Private:
    """Whether a run, a release, a folder of either, or a set of measurement files is private."""
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
    are written by one run.
    """
    for root in _ROOTS:
        for folder in sorted(path.glob(f"{root}*.parquet/*/")):
            yield from islice((p for p in sorted(folder.rglob("*.parquet")) if p.is_file()), 1)
