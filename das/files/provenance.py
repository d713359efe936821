"""Whether what a folder holds is private: what its specification says, and what its measurement
files say of themselves.

A file of measurements that was moved, copied or sent by itself still says that its noise was seeded
(:func:`das.files.parquet.mark`). That it does not say so proves nothing: without a specification
nobody knows who drew the noise, and how."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from das.files.parquet import is_marked
from das.model.not_private import UNKNOWN, Private, weakest

_ROOTS = ("", "nmf*/", "release/nmf*/")


_MARKED = (
    "nmf*/*.parquet/**/*.parquet",
    "tied-*.parquet",
    "estimates*/**/*.parquet",
    "microdata/*/*.parquet",
)


def marked_files(release: Path) -> list[Path]:
    """The files of a release that say of themselves whether they were seeded."""
    return sorted(path for pattern in _MARKED for path in release.glob(pattern) if path.is_file())


def privacy_of(path: Path) -> Private:
    """Of a run, a release, a folder of either, or measurement files by themselves."""
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
