"""Runs that are stopped at chosen places, and what such a run must not leave behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class Killed(BaseException):
    """As if the process had been: no step of ours catches it."""


class Step:
    """Where a run is stopped: before a function is called for the ``n``-th time."""

    def __init__(self, owner: Any, name: str, n: int = 1) -> None:
        self.owner, self.name, self.left = owner, name, n

    def arm(self, patch: pytest.MonkeyPatch) -> None:
        real: Callable[..., Any] = getattr(self.owner, self.name)

        def counted(*args: Any, **named: Any) -> Any:
            self.left -= 1
            if not self.left:
                raise Killed
            return real(*args, **named)

        patch.setattr(self.owner, self.name, counted)


def left_over(out: Path) -> list[str]:
    """What belongs to a run that is under way."""
    names = ("work", "confidential/work", "confidential/noise.key", "confidential/claimed")
    return [n for n in names if (out / n).exists()] + [str(p) for p in out.rglob(".*")]
