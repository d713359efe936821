"""One axis of a figure: where a value stands, how far the axis reaches, and its ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

#: The part of an axis that is left free beyond the outermost values.
MARGIN = 0.05
#: Ticks of an axis, at most about.
MOST = 6

Tick = tuple[float, str]


def format_plain(value: float) -> str:
    """A tick as a reader writes it: 0.01, 1.5, 10,000."""
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}").replace("-", "−")


@dataclass
class Axis:
    """Linear, logarithmic (``log``), or logarithmic on both sides of zero (``threshold``: linear up
    to it). It reaches from ``low`` to ``high``, or as far as what it was ``taken`` to hold, and a
    ``margin`` beyond. ``ticks`` are values with their words; without them they are found. Ticks
    ``above`` are those of a second axis, on the other side."""

    label: str = ""
    at_end: bool = False
    log: bool = False
    threshold: float = 0.0
    low: float | None = None
    high: float | None = None
    margin: float = MARGIN
    ticks: Sequence[Tick] | None = None
    words: Callable[[float], str] = format_plain
    whole: bool = False
    most: int = MOST
    grid: bool = True
    line: bool = True
    size: float = 9.0
    above: Sequence[Tick] = ()
    above_label: str = ""
    _values: list[float] = field(default_factory=list)

    def take(self, values: Iterable[float]) -> None:
        """These are to be within its reach."""
        self._values += [float(v) for v in values]

    def forward(self, value: float) -> float:
        """Where a value stands on a line whose parts are alike."""
        if self.log:
            return math.log10(value) if value > 0 else -math.inf
        if self.threshold:
            part = abs(value) / self.threshold
            return math.copysign(part / 0.9 if part <= 1 else 1 / 0.9 + math.log10(part), value)
        return value

    def reach(self) -> tuple[float, float]:
        """Both ends, as :meth:`forward` has them; never the same."""
        held = [f for v in self._values if math.isfinite(f := self.forward(v))]
        held += [self.forward(v) for v, _ in self.ticks or ()]
        low, high = min(held, default=0.0), max(held, default=1.0)
        room = self.margin * (high - low) or 0.5
        return (
            low - room if self.low is None else self.forward(self.low),
            high + room if self.high is None else self.forward(self.high),
        )

    def shown(self) -> list[Tick]:
        """The ticks within its reach, with their words."""
        low, high = sorted(self.reach())
        near = 1e-9 * (high - low)
        found = [(v, self.words(v)) for v in self._found()] if self.ticks is None else self.ticks
        return [(v, w) for v, w in found if low - near <= self.forward(v) <= high + near]

    def _found(self) -> list[float]:
        low, high = sorted(self.reach())
        if self.log:
            return _of_log(low, high, self.most + 3)
        if self.threshold:
            return _of_both_sides(self, low, high)
        return even_steps(low, high, self.most, whole=self.whole)


def even_steps(low: float, high: float, most: int = MOST, *, whole: bool = False) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two ends, at most ``most`` steps apart.

    >>> even_steps(-3, 42), even_steps(0, 1.2, 3), even_steps(0, 2, whole=True)
    ([0.0, 10.0, 20.0, 30.0, 40.0], [0.0, 0.5, 1.0], [0.0, 1.0, 2.0])
    """
    power = math.floor(math.log10((high - low) / most))
    power = max(power, 0) if whole else power
    steps = ((k, n) for k in range(power, power + 3) for n in (1, 2, 5))
    power, n = next((k, n) for k, n in steps if high - low <= most * n * 10.0**k * (1 + 1e-9))
    step = n * 10.0**power
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _of_log(low: float, high: float, most: int) -> list[float]:
    """Powers of ten; where these are few, 2 and 5 between them, or even steps. Each has its number,
    so at least two numbers appear.
    """
    ends = 10.0**low, 10.0**high
    if ends[1] < 5 * ends[0]:
        return [v for v in even_steps(*ends, 5) if v > 0]
    every = -(-(math.floor(high) - math.ceil(low) + 1) // most)
    powers = range(math.floor(low), math.ceil(high) + 1)
    if ends[1] < 100 * ends[0]:
        return [n * 10.0**k for k in powers for n in (1, 2, 5)]
    return [10.0**k for k in powers if k % every == 0]


def _of_both_sides(axis: Axis, low: float, high: float) -> list[float]:
    """Zero and powers of ten on both sides, from the threshold up."""
    first = round(math.log10(axis.threshold))
    end = 10.0 ** (max(abs(low), abs(high)) - 1 / 0.9) * axis.threshold
    last = max(first, math.floor(math.log10(end) + 1e-9))
    sides = 2 if low < 0 < high else 1
    every = -(-sides * (last - first + 1) // (2 * axis.most))
    powers = [10.0**k for k in range(last, first - 1, -every)]
    return [-p for p in powers] + [0.0] + powers[::-1]


def classes(words: Sequence[str]) -> list[Tick]:
    """Ticks at 0, 1, 2, ..."""
    return [(float(i), w) for i, w in enumerate(words)]


def decades(largest: float, most: int = 5) -> list[float]:
    """Powers of ten from 1 to ``largest``, no more than ``most`` of them.

    >>> decades(2000), decades(3_000_000)
    ([1.0, 10.0, 100.0, 1000.0], [1.0, 100.0, 10000.0, 1000000.0])
    """
    n = len(str(int(max(largest, 1))))
    return [10.0**k for k in range(0, n, -(-n // most))]


def plain(values: Iterable[float]) -> Iterator[Tick]:
    """Ticks at these values."""
    return ((v, format_plain(v)) for v in values)
