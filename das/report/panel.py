"""Where the axes of a figure are, and what stands there: words, series and boxes by their values."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import escape

# One axis of a figure: where a value stands, how far the axis reaches, and its ticks.

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
    ([0.0, 10.0, 20.0, 30.0, 40.0], [0.0, 0.5, 1.0], [0.0, 1.0, 2.0])"""
    power = math.floor(math.log10((high - low) / most))
    power = max(power, 0) if whole else power
    steps = ((k, n) for k in range(power, power + 3) for n in (1, 2, 5))
    power, n = next((k, n) for k, n in steps if high - low <= most * n * 10.0**k * (1 + 1e-9))
    step = n * 10.0**power
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _of_log(low: float, high: float, most: int) -> list[float]:
    """Powers of ten; where these are few, 2 and 5 between them, or even steps. Each has its number,
    so at least two numbers appear."""
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
    ([1.0, 10.0, 100.0, 1000.0], [1.0, 100.0, 10000.0, 1000000.0])"""
    n = len(str(int(max(largest, 1))))
    return [10.0**k for k in range(0, n, -(-n // most))]


def plain(values: Iterable[float]) -> Iterator[Tick]:
    """Ticks at these values."""
    return ((v, format_plain(v)) for v in values)


# What figures are made of, as SVG: words and how wide they are, lines, marks of a series.

INK, RULE = "#222222", "#d4d4d4"
#: Points in an inch, and those that are free at the edges of a figure.
INCH, EDGE = 72.0, 3.0
#: Most characters of a line next to an axis or below a figure, and most lines there; the rest is
#: left out.
LINE, LINES = 24, 2
#: Advance widths of DejaVu Sans, in hundredths of its size, from the blank to the tilde: as wide as
#: a reader's sans serif may be.
_WIDTHS = [
    *(32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64),
    *(64, 64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86),
    *(75, 79, 60, 79, 69, 63, 61, 73, 68, 99, 69, 61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63),
    *(62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64),
    *(34, 64, 84),
]
_OTHER, _IDEOGRAPH, _BOLD = 70, 105, 1.11
_DASHES = {"-": "", "--": "5.5 2.4", "-.": "6.4 1.6 1 1.6", ":": "1.2 1.8"}


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """About how wide a line is, in points."""
    parts = (
        _WIDTHS[i] if 0 <= (i := ord(c) - 32) < 95 else _OTHER if i < 0x2E00 else _IDEOGRAPH
        for c in text
    )
    return sum(parts) * size * (_BOLD if bold else 1.0) / 100


def wrapped(text: str, room: float, size: float, *, bold: bool = False) -> list[str]:
    """Lines of at most ``room`` points each.

    >>> wrapped("one two three", 50, 10)
    ['one two', 'three']"""
    out: list[str] = []
    for word in text.split():
        longer = f"{out[-1]} {word}" if out else word
        if out and width_of(longer, size, bold=bold) <= room:
            out[-1] = longer
        else:
            out.append(word)
    return out


def short(text: str) -> str:
    """Words in two lines of 24 characters; what does not fit into them is left out.

    >>> short("Voting age by Hispanic origin by Race").splitlines()
    ['Voting age by Hispanic', 'origin by Race']"""
    if len(text) <= LINE and "\n" not in text:
        return text
    return "\n".join(textwrap.wrap(text, LINE, max_lines=LINES, placeholder=" …")) or text[:LINE]


@dataclass(frozen=True)
class MarkStyle:
    """How a series is drawn: its color and the style of its marks, a line and a mark or neither."""

    color: str
    line: str = ""
    mark: str = ""
    face: str | None = None
    size: float = 6.0
    width: float = 1.3
    edge: float = 1.0


def text(
    words: str,
    x: float,
    y: float,
    size: float,
    anchor: str = "start",
    color: str = INK,
    *,
    bold: bool = False,
    turn: bool = False,
) -> str:
    """One line of text; with ``turn`` it is read upwards."""
    style = f"font-size: {size:g}px; text-anchor: {anchor}" + "; font-weight: bold" * bold
    turned = f' transform="rotate(-90 {pt(x)} {pt(y)})"' if turn else ""
    where = f'x="{pt(x)}" y="{pt(y)}"{turned}'
    return f'<text style="{style}; fill: {color}" {where}>{escape(words)}</text>'


def element(name: str, description: str, width: float, height: float, inside: str) -> str:
    """The ``<svg>`` itself, white, ``width`` by ``height`` points."""
    box = f'width="{pt(width)}pt" height="{pt(height)}pt" viewBox="0 0 {pt(width)} {pt(height)}"'
    return (
        f'<svg role="img" aria-label="{escape(description)}" {box} id="{name}-figure"'
        f' xmlns="http://www.w3.org/2000/svg">\n<rect width="100%" height="100%" fill="#fff"/>\n'
        f"{inside}\n</svg>"
    )


def moved(inside: str, right: float, down: float) -> str:
    """A drawing, moved to the right and down by this many points."""
    return f'<g transform="translate({pt(right)} {pt(down)})">{inside}</g>'


#: What a hatched box is filled with until the name of its figure is known.
HATCHED = 'fill="hatched"'


def hatch(name: str) -> str:
    return (
        f'<pattern id="{name}-hatch" width="4" height="4" patternUnits="userSpaceOnUse">'
        '<rect width="4" height="4" fill="#fff"/>'
        '<path d="M-1 1L1 -1M0 4L4 0M3 5L5 3" stroke="#D55E00" stroke-width="0.8"/></pattern>'
    )


def pt(value: float) -> str:
    """A hundredth of a point is enough.

    >>> pt(12.0), pt(0.123), pt(-0.001)
    ('12', '0.12', '0')"""
    shown = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown


def stroked(path: str, color: str, width: float, dash: str = "-") -> str:
    dashes = f' stroke-dasharray="{_DASHES[dash]}"' if _DASHES[dash] else ""
    return f'<path fill="none" stroke="{color}" stroke-width="{width:g}"{dashes} d="{path}"/>'


def marked(path: str, look: MarkStyle) -> str:
    face = look.color if look.face is None else look.face
    edge = f'stroke="{look.color}" stroke-width="{look.edge:g}"'
    return f'<path fill="{face}" {edge} d="{path}"/>'


def mark(kind: str, x: float, y: float, size: float) -> str:
    """The outline of one mark, ``size`` points across."""
    r = size / 2
    if kind == "o":
        turn = f"a{pt(r)} {pt(r)} 0 1 0 "
        return f"M{pt(x - r)} {pt(y)}{turn}{pt(size)} 0{turn}{pt(-size)} 0z"
    if kind == "x":
        return f"M{pt(x - r)} {pt(y - r)}l{size:g} {size:g}m{-size:g} 0l{size:g} {-size:g}"
    corners = _CORNERS[kind]
    return "M" + "L".join(f"{pt(x + r * a)} {pt(y + r * b)}" for a, b in corners) + "z"


def _star(points: int, inner: float) -> list[tuple[float, float]]:
    turns = ((math.pi * i / points, inner if i % 2 else 1.2) for i in range(2 * points))
    return [(r * math.sin(a), -r * math.cos(a)) for a, r in turns]


_T = 0.33
_CORNERS: dict[str, list[tuple[float, float]]] = {
    "s": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "^": [(0, -1), (1, 1), (-1, 1)],
    "v": [(0, 1), (1, -1), (-1, -1)],
    "D": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    "P": [
        *((-_T, -1), (_T, -1), (_T, -_T), (1, -_T), (1, _T), (_T, _T)),
        *((_T, 1), (-_T, 1), (-_T, _T), (-1, _T), (-1, -_T), (-_T, -_T)),
    ],
    "X": [
        *((-1, -0.5), (-0.5, -1), (0, -0.5), (0.5, -1), (1, -0.5), (0.5, 0)),
        *((1, 0.5), (0.5, 1), (0, 0.5), (-0.5, 1), (-1, 0.5), (-0.5, 0)),
    ],
    "*": _star(5, 0.5),
}


def key(x: float, y: float, look: MarkStyle, *, box: bool) -> str:
    """What stands before a label of the legend."""
    if box:
        face = look.color if look.face is None else look.face
        edge = f'stroke="{look.color}" stroke-width="{look.width:g}"'
        return f'<rect x="{pt(x)}" y="{pt(y - 3)}" width="16" height="6" fill="{face}" {edge}/>'
    out = ""
    if look.line:
        out += stroked(f"M{pt(x)} {pt(y)}h16", look.color, look.width, look.line)
    if look.mark:
        out += marked(mark(look.mark, x + 8, y, look.size), look)
    return out


@dataclass(frozen=True)
class Panel:
    """Where the axes are in the figure, in points from its upper left corner."""

    left: float
    top: float
    right: float
    bottom: float
    x_ends: tuple[float, float]
    y_ends: tuple[float, float]
    axes: tuple[Axis, Axis]

    def x(self, value: float) -> float:
        a, b = self.x_ends
        part = (self.axes[0].forward(value) - a) / (b - a)
        return self.left + min(max(part, -1.0), 2.0) * (self.right - self.left)

    def y(self, value: float) -> float:
        a, b = self.y_ends
        part = (self.axes[1].forward(value) - a) / (b - a)
        return self.bottom - min(max(part, -1.0), 2.0) * (self.bottom - self.top)


@dataclass(frozen=True)
class Words:
    """Text at a place in the data or, with ``of_x`` and ``of_y``, at a part of an axis. It can be
    moved downwards and to the right by a number of points.

    ``anchor`` is ``start``, ``middle`` or ``end``. ``rise`` is the height of the place within the
    text: 0 at its baseline, 0.35 in its middle, 0.75 at its top."""

    text: str
    x: float
    y: float
    dx: float = 0.0
    dy: float = 0.0
    anchor: str = "start"
    rise: float = 0.35
    size: float = 8.0
    bold: bool = False
    color: str = INK
    of_x: bool = False
    of_y: bool = False

    def place(self, panel: Panel) -> tuple[float, float]:
        x = panel.left + self.x * (panel.right - panel.left) if self.of_x else panel.x(self.x)
        y = panel.bottom - self.y * (panel.bottom - panel.top) if self.of_y else panel.y(self.y)
        return x + self.dx, y + self.dy + self.rise * self.size

    def ends(self, panel: Panel) -> tuple[float, float]:
        """From where to where it reaches across."""
        x, wide = self.place(panel)[0], width_of(self.text, self.size, bold=self.bold)
        start = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * wide
        return start, start + wide

    def drawn(self, panel: Panel) -> str:
        x, y = self.place(panel)
        return text(self.text, x, y, self.size, self.anchor, self.color, bold=self.bold)


def path_of(panel: Panel, xs: Sequence[float], ys: Sequence[float]) -> str:
    return "M" + "L".join(f"{pt(panel.x(x))} {pt(panel.y(y))}" for x, y in zip(xs, ys, strict=True))


def series(panel: Panel, xs: Sequence[float], ys: Sequence[float], look: MarkStyle) -> str:
    out = ""
    if look.line and len(xs) > 1:
        out += stroked(path_of(panel, xs, ys), look.color, look.width, look.line)
    if look.mark and len(xs):
        at = ((panel.x(x), panel.y(y)) for x, y in zip(xs, ys, strict=True))
        out += marked("".join(mark(look.mark, x, y, look.size) for x, y in at), look)
    return out


def boxes(
    panel: Panel,
    rows: Sequence[tuple[float, float, float, float]],
    look: MarkStyle,
    *,
    hatched: bool,
) -> str:
    parts = []
    for x0, x1, y0, y1 in rows:
        a, b, c, d = panel.x(x0), panel.x(x1), panel.y(y0), panel.y(y1)
        parts.append(f"M{pt(a)} {pt(c)}H{pt(b)}V{pt(d)}H{pt(a)}z")
    face = HATCHED if hatched else f'fill="{look.color if look.face is None else look.face}"'
    edge = f'stroke="{look.color}" stroke-width="{look.width:g}"'
    return f'<path {face} {edge} d="{"".join(parts)}"/>' if parts else ""
