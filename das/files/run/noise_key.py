"""The run key that keyed noise follows from (:mod:`das.noise.entropy`), while measuring lasts.

``confidential/noise.key`` has 32 bytes and only its owner can read it. It is on disk before the
first line of the ledger, and deleted when the last part is measured. Anyone who has it and the
release has the truth. So it is in no manifest, message or log. As a value it is confidential: it is
neither printed nor pickled to a worker, which reads the file."""

from __future__ import annotations

import os
from pathlib import Path

from das.errors import PrivacyError
from das.files import atomic
from das.model.confidential import Confidential

_BYTES = 32


def create(path: Path) -> Confidential[bytes]:
    """A new key, when it is on disk."""
    key = os.urandom(_BYTES)
    atomic.write_bytes(path, key, 0o600)
    atomic.force(path.parent.parent)
    return Confidential(key)


def read(path: Path) -> Confidential[bytes] | None:
    """The key; none if there is no such file, or no key in it.

    Raises:
        PrivacyError: it is there, and cannot be read: whether what follows is a second draw must
            not depend on that."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PrivacyError(
            f"the run key cannot be read ({error.strerror})",
            where=path,
            remedy="give its owner the right to read it, and resume",
        ) from None
    return Confidential(key) if len(key) == _BYTES else None


def delete(path: Path) -> None:
    """Gone, and the folder forced to disk."""
    path.unlink(missing_ok=True)
    atomic.force(path.parent)
