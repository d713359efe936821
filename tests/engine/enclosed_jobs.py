"""Jobs for an enclosed process, in a module that imports nothing of the truth."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import linalg

from das.engine.enclosed import Arrays, Conversation
from das.errors import InfeasibleError

Result = tuple[Mapping[str, Any], Arrays]


@dataclass(frozen=True)
class Surroundings:
    """Says all that the process can know of besides its job."""

    def perform(self, beyond: Conversation, pool: Any) -> Result:
        return {
            "modules": sorted(sys.modules),
            "folder": os.getcwd(),
            "arguments": sys.argv,
            "environment": dict(os.environ),
        }, {}


@dataclass(frozen=True)
class Multiplication:
    """Says in how many threads the linear algebra of NumPy and SciPy is, here and in a worker."""

    def perform(self, beyond: Conversation, pool: Any) -> Result:
        return {"threads": [_threads(), pool.submit(_threads).result()]}, {}


def _threads() -> int:
    """The most of any library, each asked by its own function."""
    numpy, scipy = (Path(m.__file__).parents[1] for m in (np, linalg))
    folders = (numpy / "numpy.libs", scipy.parent / "scipy.libs")
    found = [ctypes.CDLL(str(lib)) for folder in folders for lib in folder.glob("*openblas*")]
    names = ("openblas_get_num_threads", "openblas_get_num_threads64_")
    asked = (f"{before}{name}" for name in names for before in ("scipy_", ""))
    return max(getattr(lib, name)() for name in asked for lib in found if hasattr(lib, name))


@dataclass(frozen=True)
class Question:
    """Asks what it is told to ask."""

    number: int
    level: str
    query: str
    at: tuple[float, ...]

    def perform(self, beyond: Conversation, pool: Any) -> Result:
        at = np.array(self.at) if self.at else np.zeros(0, dtype=np.int64)
        return {}, beyond.ask({"question": [self.number, self.level, self.query]}, {"at": at})


@dataclass(frozen=True)
class Failure:
    def perform(self, beyond: Conversation, pool: Any) -> Result:
        print("a library that prints")
        raise InfeasibleError("no way", where="here", remedy="go back")


@dataclass(frozen=True)
class Forever:
    """Says where it is, and works until it is ended."""

    def perform(self, beyond: Conversation, pool: Any) -> Result:
        beyond.stage("forever", os.getpid())
        while True:
            pass
