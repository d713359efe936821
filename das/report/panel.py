"""Where the axes of a figure are, and what stands there: words, series and boxes by their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from das.report.axis import Axis
from das.report.ink import HATCHED, INK, Look, mark, marked, pt, stroked, text, width_of


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
    colour: str = INK
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
        return text(self.text, x, y, self.size, self.anchor, self.colour, bold=self.bold)


def path_of(panel: Panel, xs: Sequence[float], ys: Sequence[float]) -> str:
    return "M" + "L".join(f"{pt(panel.x(x))} {pt(panel.y(y))}" for x, y in zip(xs, ys, strict=True))


def series(panel: Panel, xs: Sequence[float], ys: Sequence[float], look: Look) -> str:
    out = ""
    if look.line and len(xs) > 1:
        out += stroked(path_of(panel, xs, ys), look.colour, look.width, look.line)
    if look.mark and len(xs):
        at = ((panel.x(x), panel.y(y)) for x, y in zip(xs, ys, strict=True))
        out += marked("".join(mark(look.mark, x, y, look.size) for x, y in at), look)
    return out


def boxes(
    panel: Panel, rows: Sequence[tuple[float, float, float, float]], look: Look, *, hatched: bool
) -> str:
    parts = []
    for x0, x1, y0, y1 in rows:
        a, b, c, d = panel.x(x0), panel.x(x1), panel.y(y0), panel.y(y1)
        parts.append(f"M{pt(a)} {pt(c)}H{pt(b)}V{pt(d)}H{pt(a)}z")
    face = HATCHED if hatched else f'fill="{look.colour if look.face is None else look.face}"'
    edge = f'stroke="{look.colour}" stroke-width="{look.width:g}"'
    return f'<path {face} {edge} d="{"".join(parts)}"/>' if parts else ""
