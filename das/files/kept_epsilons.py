"""Files of kept epsilons (:mod:`das.accounting.kept`): one comes with the package, the other is the
user's.

The package has what the commands of packaged configurations ask. ``python -m docs.kept`` makes it,
and a test computes it again. All else are lines of a file in the user's cache folder,
``DAS_CACHE`` or ``~/.cache/das``. It is named after the code that computed its values, so another
version does not read it. A damaged line is not read, and a folder that cannot be written keeps
nothing."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from das import accounting
from das.accounting.kept import KEEPER
from das.accounting.worst import WorstLoss
from das.version import __version__

#: The values that come with the package, by key: low, high, and the changes that have it.
PACKAGED = Path(__file__).with_suffix(".json")
#: The environment variable that names the folder of the user's file.
FOLDER = "DAS_CACHE"
#: Set, nothing that came with the package is read: for the command that makes it.
WITHOUT = "DAS_WITHOUT_PACKAGED_EPSILONS"
#: A file that has grown above this many bytes begins anew.
MOST_BYTES = 8_000_000


def use() -> None:
    """Keep values in the files from here on."""
    KEEPER.set(KeptEpsilons(user_file()))


def user_file() -> Path:
    """The file of the values that this code has computed for this user."""
    folder = os.environ.get(FOLDER)
    return (Path(folder) if folder else Path.home() / ".cache" / "das") / f"epsilons-{_code()}.txt"


class KeptEpsilons(MutableMapping[str, WorstLoss]):
    """The values of the package and of a file, which gets a line for each new one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known = {**written_in(path), **_packaged()}

    def __getitem__(self, key: str) -> WorstLoss:
        return self._known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __delitem__(self, key: str) -> None:
        raise TypeError("a kept epsilon is not forgotten")

    def __setitem__(self, key: str, value: WorstLoss) -> None:
        """Add a line in one write, which other processes do not cut."""
        self._known[key] = value
        said = json.dumps([key, value.low, value.high, value.at])
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and self.path.stat().st_size > MOST_BYTES:
                self.path.unlink()
            with self.path.open("ab", buffering=0) as file:
                file.write(f"{_sha256(said)} {said}\n".encode("ascii"))


def written_in(path: Path) -> dict[str, WorstLoss]:
    """The values of a file whose lines are whole: each begins with its own digest."""
    out: dict[str, WorstLoss] = {}
    with suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding="ascii").splitlines():
            digest, _, said = line.partition(" ")
            if digest == _sha256(said):
                key, low, high, at = json.loads(said)
                out[key] = WorstLoss(low, high, tuple(at))
    return out


def _packaged() -> dict[str, WorstLoss]:
    text = "{}" if os.environ.get(WITHOUT) else PACKAGED.read_text(encoding="utf-8")
    return {
        key: WorstLoss(low, high, tuple(at)) for key, (low, high, at) in json.loads(text).items()
    }


@cache
def _code() -> str:
    """The first digits of the SHA-256 of all that computes a value: the room, and NumPy."""
    whole = hashlib.sha256(f"{__version__} {np.__version__}".encode())
    for path in sorted(Path(accounting.__file__).parent.glob("*.py")):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()
