"""What a long piece of work says of its progress."""

from __future__ import annotations


class Told:
    """Every stage in order: its name, its total, and how far it went."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None, int]] = []

    def stage(self, name: str, total: int | None) -> None:
        self.stages.append((name, total, 0))

    def advance(self, n: int = 1) -> None:
        assert n >= 0
        name, total, done = self.stages[-1]
        self.stages[-1] = name, total, done + n
