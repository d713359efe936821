"""SHA-256 of a file, and of one that is written and not kept."""

from __future__ import annotations

import hashlib
from io import RawIOBase
from pathlib import Path
from typing import IO, Any, cast

#: The bytes of a file that are read at once.
_PIECE = 1 << 20


class _Hashing(RawIOBase):
    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.sha256.update(data)
        return memoryview(data).nbytes


class HashingWriter:
    """``file`` takes what is written; ``digest`` is of all of it.

    >>> h = HashingWriter()
    >>> h.file.write(b"abc")
    3
    >>> h.digest[:8]
    'ba7816bf'
    """

    def __init__(self) -> None:
        self._raw = _Hashing()
        self.file = cast(IO[bytes], self._raw)

    @property
    def digest(self) -> str:
        return self._raw.sha256.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    total = hashlib.sha256()
    with open(path, "rb", buffering=0) as stream:
        while piece := stream.read(_PIECE):
            total.update(piece)
    return total.hexdigest()
