"""Where something was read from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """An input file as it was read: name, size in bytes and SHA-256."""

    name: str
    size: int
    sha256: str
