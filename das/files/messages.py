"""Results that the parts of a run exchange: arrays by name, in one file that appears whole.

The format is ``.npz`` without Python objects: a reader gets numbers and texts only, even from an
untrusted file.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files import atomic

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
    {'x': array([1.])}
    """
    return {
        name[len(head) + 1 :]: array
        for name, array in arrays.items()
        if name.startswith(f"{head}:")
    }


def named(head: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The inverse of :func:`parted`."""
    return {f"{head}:{name}": array for name, array in arrays.items()}
