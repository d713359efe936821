"""Messages between two processes over a pipe: a few words as JSON, and arrays of numbers.

Nothing that is received is ever run. There is no pickle here, so a process that reads from one it
does not trust gets numbers and texts, or an error."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]

_LENGTH = struct.Struct("<Q")
#: Kinds of numbers and texts: no array of Python objects is made of bytes.
_KINDS = "biufSU"


class Channel:
    """Both ends of a conversation: what one sends, the other receives, in order."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader, self._writer = reader, writer

    def send(self, head: Mapping[str, Any], arrays: Arrays | None = None) -> None:
        """Raises :class:`OSError` if nobody is there to read it."""
        given = {name: np.asarray(a, order="C") for name, a in (arrays or {}).items()}
        about = {name: (a.dtype.str, a.shape) for name, a in given.items()}
        text = json.dumps([head, about]).encode()
        self._writer.write(_LENGTH.pack(len(text)) + text)
        for a in given.values():
            if a.size:
                self._writer.write(a.reshape(-1).view(np.uint8).data)
        self._writer.flush()

    def receive(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The next message. Raises :class:`EOFError` if the other end is gone, and
        :class:`ValueError` for what is no message."""
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        head, about = json.loads(self._exactly(size))
        return head, {name: self._array(*described) for name, described in about.items()}

    def _array(self, code: str, shape: list[int]) -> NDArray[Any]:
        dtype = np.dtype(code)
        if dtype.kind not in _KINDS or any(n < 0 for n in shape):
            raise ValueError(f"an array {shape} of {code!r}")
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._exactly(count * dtype.itemsize), dtype).reshape(shape)

    def _exactly(self, size: int) -> bytes:
        found = self._reader.read(size) if size else b""
        if len(found) < size:
            raise EOFError("the other end of a channel is gone")
        return found
