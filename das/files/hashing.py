"""A file that is written and not kept: what its SHA-256 would be."""

from __future__ import annotations

import hashlib
from io import RawIOBase
from typing import IO, Any, cast


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
