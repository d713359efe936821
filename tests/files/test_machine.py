"""What the machine has, and gets back."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from das.files import machine


def held() -> int:
    """The megabytes that this process holds."""
    status = dict(
        x.split(":", 1) for x in Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    )
    return int(status["VmRSS"].split()[0]) >> 10


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="asks /proc, and the GNU allocator"
)
def test_memory_that_was_freed_goes_back() -> None:
    kept = []
    every = [
        np.ones(12_500) for _ in range(4_000)
    ]  # 400 MB in pieces of 100 kB, which the allocator keeps for itself
    kept = every[::100]
    full = held()
    del every
    machine.give_back()
    assert held() < full - 300
    assert len(kept) == 40


def test_where_the_system_cannot_be_asked_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> None:
        raise OSError("no such library")

    monkeypatch.setattr(machine.ctypes, "CDLL", none)
    machine.give_back()
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda _: object())
    machine.give_back()


def test_the_peak_is_at_least_what_was_held() -> None:
    much = np.ones(20_000_000)
    assert machine.peak() >= much.nbytes
