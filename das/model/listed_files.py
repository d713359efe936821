"""Files of a release, as a page lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ListedFile:
    """A file of the release, or a folder with a slash at its end: ``path`` from the page, ``size`` in
    bytes.
    """

    path: str
    size: int
    says: str = ""

    @property
    def linked(self) -> bool:
        """A server need not list a folder."""
        return not self.path.endswith("/")


@dataclass(frozen=True)
class TableFiles:
    """One published table: its name and title, and its file at each level."""

    name: str
    title: str
    files: Sequence[tuple[str, ListedFile]]
