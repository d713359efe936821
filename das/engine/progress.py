"""What a long piece of work says while it goes on."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def stage(self, name: str, total: int | None) -> None:
        """A new stage begins; ``total`` units of work, or unknown."""
        ...

    def advance(self, n: int = 1) -> None: ...


class Silent:
    """Says nothing."""

    def stage(self, name: str, total: int | None) -> None:
        del name, total

    def advance(self, n: int = 1) -> None:
        del n


#: What is told where nobody asks.
SILENT = Silent()
