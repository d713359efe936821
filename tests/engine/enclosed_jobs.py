"""Jobs for an enclosed process, in a module that imports nothing of the truth."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from das.engine.channel import Arrays
from das.engine.enclosed import Conversation
from das.errors import InfeasibleError

Result = tuple[Mapping[str, Any], Arrays]


@dataclass(frozen=True)
class Surroundings:
    """Says all that the process can know of besides its job."""

    def perform(self, beyond: Conversation, pool: Any) -> Result:
        own = [p for p in Path("/proc/self/fd").iterdir() if p.is_symlink() and int(p.name) > 2]
        return {
            "modules": sorted(sys.modules),
            "folder": os.getcwd(),
            "arguments": sys.argv,
            "environment": dict(os.environ),
            "files": [f for f in map(os.readlink, own) if f.startswith("/")],
        }, {}


@dataclass(frozen=True)
class Reading:
    """Tries to read a file, in this process and in a worker that it has started."""

    path: str

    def perform(self, beyond: Conversation, pool: Any) -> Result:
        tries = [_tried(self.path), *pool.map(_tried, [self.path])]
        return {"read": tries, "code": _tried(__file__)}, {}


def _tried(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()[:3]
    except OSError as error:
        return type(error).__name__


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
