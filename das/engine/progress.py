"""How long work reports its progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    def stage(self, name: str, total: int | None) -> None:
        """Begin a new stage with ``total`` units of work, or an unknown number."""
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


@dataclass(frozen=True)
class Pace:
    """``done`` of ``total`` units of work, in ``seconds``.

    >>> str(Pace(30, 120, 60.0)), str(Pace(0, 120, 60.0)), str(Pace(7, None, 60.0))
    ('25 %, 0.5/s, 3 min left', '0 %', '7')
    """

    done: float
    total: float | None
    seconds: float

    @property
    def rate(self) -> float | None:
        """Units a second; not known before the first is done."""
        return self.done / self.seconds if self.done > 0 and self.seconds > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds until the end, at the present rate."""
        return (
            None
            if self.total is None or self.rate is None
            else max(self.total - self.done, 0.0) / self.rate
        )

    def __str__(self) -> str:
        if self.total is None:
            return f"{self.done:,.10g}"
        out = [f"{100 * self.done / self.total if self.total else 100:.0f} %"]
        if self.rate is not None and self.left is not None:
            out += [
                f"{self.rate:,.3g}/s" if self.rate < 100 else f"{self.rate:,.0f}/s",
                f"{duration(self.left)} left",
            ]
        return ", ".join(out)


def duration(seconds: float) -> str:
    """A duration in words. Two digits are enough for somebody who waits.

    >>> [duration(s) for s in (0.4, 89, 91, 5400, 7260, 200_000)]
    ['0 s', '89 s', '2 min', '1 h 30 min', '2 h 01 min', '56 h']
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return (
        f"{minutes // 60} h {minutes % 60:02d} min"
        if minutes < 24 * 60
        else f"{minutes / 60:.0f} h"
    )
