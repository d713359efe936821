"""A figure of a page as an ``<svg>`` element: axes, marks and words, laid out in one pass.

Everything stays in the units of the data until the end. By then the words around the axes are
known, and the axes get the remaining room. Text stays text; a table of character widths gives its
width, so no font is opened. The same chart gives the same bytes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from das.model.frozen import NoRepr
from das.model.not_private import COLUMN, Private
from das.report.panel import (
    EDGE,
    HATCHED,
    INCH,
    INK,
    LINE,
    RULE,
    Axis,
    MarkStyle,
    Panel,
    Words,
    boxes,
    element,
    hatch,
    key,
    moved,
    path_of,
    pt,
    series,
    stroked,
    text,
    width_of,
    wrapped,
)

#: How long a tick is and how far off its number stands; the size of the words of a legend.
TICK, PAD, _LEGEND = 3.5, 3.5, 8.0


class Chart:
    """A figure with one pair of axes, ``width`` by ``height`` inches. What is drawn later lies
    above, and a higher ``z`` above a lower one."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = INCH * width, INCH * height
        self.x, self.y = Axis(), Axis()
        self.title, self.columns = "", 0
        self.title_size = 10.0
        #: Fixed room at the left and below, for figures that are side by side.
        self.left: float | None = None
        self.below: float | None = None
        self._marks: list[tuple[int, bool, Callable[[Panel], str]]] = []
        self._words: list[Words] = []
        self._legend: list[tuple[str, MarkStyle, bool]] = []

    # --- what is drawn

    def plot(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        look: MarkStyle,
        label: str = "",
        *,
        z: int = 2,
        clip: bool = True,
    ) -> None:
        """A line through points, or marks at them, or both."""
        xs, ys = [float(x) for x in xs], [float(y) for y in ys]
        self.x.take(xs)
        self.y.take(ys)
        self._marks.append((z, clip, lambda panel: series(panel, xs, ys, look)))
        self.name(label, look)

    def bars(
        self,
        rows: Sequence[tuple[float, float, float, float]],
        look: MarkStyle,
        label: str = "",
        *,
        z: int = 1,
        hatched: bool = False,
    ) -> None:
        """Boxes: left, right, and the two ends upwards."""
        for x0, x1, y0, y1 in rows:
            self.x.take((x0, x1))
            self.y.take((y0, y1))
        self._marks.append((z, True, lambda panel: boxes(panel, rows, look, hatched=hatched)))
        self.name(label, look, box=True)

    def area(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        face: str,
        edge: str = "none",
        *,
        opacity: float = 1.0,
    ) -> None:
        """A polygon; without a ``face`` (``none``) its outline."""
        xs, ys = [float(x) for x in xs], [float(y) for y in ys]
        self.x.take(xs)
        self.y.take(ys)

        def drawn(panel: Panel) -> str:
            end = "z" if face != "none" else ""
            line = f'stroke="{edge}" stroke-width="0.9" fill-opacity="{opacity:g}"'
            return f'<path fill="{face}" {line} d="{path_of(panel, xs, ys)}{end}"/>'

        self._marks.append((1, True, drawn))

    def errors(
        self, xs: Sequence[float], ys: Sequence[float], low: Sequence[float],
        high: Sequence[float], look: MarkStyle, *, cap: float = 3.0, across: bool = False,
    ) -> None:  # fmt: skip
        """Lines from ``low`` to ``high`` at each point, upwards or ``across``, with their ends."""
        rows = [tuple(map(float, row)) for row in zip(xs, ys, low, high, strict=True)]
        (self.x if across else self.y).take(v for row in rows for v in row[2:])

        def drawn(panel: Panel) -> str:
            parts = []
            for x, y, a, b in rows:
                if across:
                    at, one, other = panel.y(y), panel.x(a), panel.x(b)
                    ends = f"M{pt(one)} {pt(at)}H{pt(other)}" + "".join(
                        f"M{pt(e)} {pt(at - cap)}v{pt(2 * cap)}" for e in (one, other) if cap
                    )
                else:
                    at, one, other = panel.x(x), panel.y(a), panel.y(b)
                    ends = f"M{pt(at)} {pt(one)}V{pt(other)}" + "".join(
                        f"M{pt(at - cap)} {pt(e)}h{pt(2 * cap)}" for e in (one, other) if cap
                    )
                parts.append(ends)
            return stroked("".join(parts), look.color, look.width)

        self._marks.append((2, True, drawn))

    def rule(
        self,
        at: float,
        *,
        upright: bool = False,
        color: str = INK,
        width: float = 0.8,
        dash: str = "-",
        z: int = 2,
    ) -> None:
        """A line across the whole of the axes, or up."""
        (self.x if upright else self.y).take([at])

        def drawn(panel: Panel) -> str:
            path = (
                f"M{pt(panel.x(at))} {pt(panel.bottom)}V{pt(panel.top)}"
                if upright
                else f"M{pt(panel.left)} {pt(panel.y(at))}H{pt(panel.right)}"
            )
            return stroked(path, color, width, dash)

        self._marks.append((z, True, drawn))

    def say(self, words: Words) -> None:
        self._words.append(words)

    def rows(self, words: Sequence[str], *, grid: bool = False) -> None:
        """Words at 0, 1, 2, ... of the vertical axis, from the top, each line set by itself: it
        ends at the axis whatever the font of the reader."""
        self.y.low, self.y.high = len(words) - 0.4, -0.6
        self.y.ticks, self.y.grid = [(float(i), "") for i in range(len(words))], grid
        for y, word in enumerate(words):
            lines = word.splitlines()
            for i, line in enumerate(lines):
                down = -10 * ((len(lines) - 1) / 2 - i)
                self.say(Words(line, 0, y, -6, down, "end", size=9.0, of_x=True))

    def ends_at(self, text: str) -> None:
        """The label of the horizontal axis, ending where it ends: what is longer than the axis
        reaches below the words at its left, and is not cut."""
        self.x.label, self.x.at_end = text, True

    def finish(self, title: str, columns: int = 3) -> None:
        """The title, and the most columns of the legend (0: no legend)."""
        self.title, self.columns = title, columns

    def name(self, label: str, look: MarkStyle, *, box: bool = False) -> None:
        """A line of the legend: what looks like that."""
        if label:
            self._legend.append((label, look, box))

    # --- the layout

    def panel(self) -> Panel:
        """The axes take the room that their words, and a legend below them, leave."""
        ends = self.x.reach(), self.y.reach()
        below = EDGE + self._legend_height() + self._below_axis()
        first = Panel(
            EDGE + (1.4 * self.y.size if self.y.label else 0) + self._beside_axis(),
            EDGE + self._above_axis(),
            self.width - EDGE,
            self.height - (below if self.below is None else self.below),
            *ends,
            (self.x, self.y),
        )
        reached = [w.ends(first) for w in (*self._words, *self._tick_words())]
        over = max([0.0, *(b - (self.width - EDGE) for _, b in reached)])
        short_of = max([0.0, *(EDGE - a for a, _ in reached)])
        left = first.left + short_of if self.left is None else self.left
        return Panel(left, first.top, first.right - over, first.bottom, *ends, first.axes)

    def _tick_words(self) -> Iterator[Words]:
        for value, word in self.x.shown():
            yield Words(word, value, 0, 0, TICK + PAD, "middle", 0.75, self.x.size, of_y=True)
        for value, word in self.x.above:
            yield Words(word, value, 1, 0, -TICK - PAD, "middle", 0.0, self.x.size, of_y=True)

    def _beside_axis(self) -> float:
        widths = [width_of(w, self.y.size) for _, w in self.y.shown()]
        return max(widths) + TICK + PAD if any(widths) else 0.0

    def _below_axis(self) -> float:
        ticks = any(w for _, w in self.x.shown())
        label = 1.2 * 9 + 3 if self.x.label else 0.0
        return (TICK + PAD + 1.1 * self.x.size if ticks else 0.0) + label

    def _above_axis(self) -> float:
        second = TICK + PAD + 2.4 * 9 + 4 if self.x.above else 0.0
        lines = len(self._title_lines())
        return second + (1.2 * self.title_size * lines + 5 if lines else 0.0) + self._words_above()

    def _words_above(self) -> float:
        above = [w for w in self._words if w.of_y and w.y == 1 and w.dy < 0]
        return max((w.size - w.dy for w in above), default=0.0)

    def _title_lines(self) -> list[str]:
        lines = (textwrap.wrap(x, 2 * LINE, max_lines=2, placeholder=" …") for x in
                 self.title.splitlines())  # fmt: skip
        return [line for part in lines for line in part]

    # --- the legend, in columns below the axes

    def _legend_rows(self) -> list[list[tuple[str, MarkStyle, bool]]]:
        """By column."""
        if not self.columns or not self._legend:
            return []
        longest = max(len(label) for label, _, _ in self._legend)
        columns = min(self.columns, max(1, 3 * LINE // (longest + 6)))
        rows = -(-len(self._legend) // columns)
        return [self._legend[i : i + rows] for i in range(0, len(self._legend), rows)]

    def _legend_height(self) -> float:
        rows = self._legend_rows()
        return 1.5 * _LEGEND * len(rows[0]) + 7 if rows else 0.0

    def _legend_drawn(self) -> Iterator[str]:
        left, top = EDGE + 3.0, self.height - self._legend_height() + 4
        for column in self._legend_rows():
            widest = 0.0
            for i, (label, look, box) in enumerate(column):
                label, y = textwrap.shorten(label, 3 * LINE, placeholder=" …"), top + 12 * i
                yield key(left, y, look, box=box)
                yield text(label, left + 22, y + 0.35 * _LEGEND, _LEGEND)
                widest = max(widest, width_of(label, _LEGEND))
            left += 22 + widest + 14

    # --- the drawing

    def svg(self, name: str, description: str) -> str:
        """The figure: identifiers begin with ``name``, so that they are unique on a page."""
        return element(name, description, self.width, self.height, self.drawn(name))

    def drawn(self, name: str) -> str:
        """What is in the element."""
        panel = self.panel()
        corner = f'x="{pt(panel.left)}" y="{pt(panel.top)}"'
        size = f'width="{pt(panel.right - panel.left)}" height="{pt(panel.bottom - panel.top)}"'
        marks = sorted(self._marks, key=lambda mark: mark[0])
        inside = "".join(draw(panel) for _, clip, draw in marks if clip)
        over = "".join(draw(panel) for _, clip, draw in marks if not clip)
        face = f'fill="url(#{name}-hatch)"'
        return "\n".join(
            [
                f'<defs><clipPath id="{name}-box"><rect {corner} {size}/></clipPath>'
                + (hatch(name) if HATCHED in inside else "")
                + "</defs>",
                self._grid(panel),
                f'<g clip-path="url(#{name}-box)">{inside.replace(HATCHED, face)}</g>',
                over,
                self._lines(panel),
                *self._labels(panel),
                *(w.drawn(panel) for w in (*self._tick_words(), *self._words) if w.text),
                *self._title(panel),
                *self._legend_drawn(),
            ]
        )

    def _grid(self, panel: Panel) -> str:
        path = ""
        if self.x.grid:
            path += "".join(
                f"M{pt(panel.x(v))} {pt(panel.bottom)}V{pt(panel.top)}" for v, _ in self.x.shown()
            )
        if self.y.grid:
            path += "".join(
                f"M{pt(panel.left)} {pt(panel.y(v))}H{pt(panel.right)}" for v, _ in self.y.shown()
            )
        return stroked(path, RULE, 0.6) if path else ""

    def _lines(self, panel: Panel) -> str:
        """The two lines of the axes, with their ticks."""
        path = ""
        if self.x.line:
            path += f"M{pt(panel.left)} {pt(panel.bottom)}H{pt(panel.right)}" + "".join(
                f"M{pt(panel.x(v))} {pt(panel.bottom)}v{TICK}" for v, _ in self.x.shown()
            )
        if self.y.line:
            path += f"M{pt(panel.left)} {pt(panel.bottom)}V{pt(panel.top)}" + "".join(
                f"M{pt(panel.left)} {pt(panel.y(v))}h-{TICK}" for v, _ in self.y.shown()
            )
        if self.x.above:
            path += f"M{pt(panel.left)} {pt(panel.top)}H{pt(panel.right)}" + "".join(
                f"M{pt(panel.x(v))} {pt(panel.top)}v-{TICK}" for v, _ in self.x.above
            )
        return stroked(path, INK, 0.8) if path else ""

    def _labels(self, panel: Panel) -> Iterator[str]:
        if self.x.label:
            y = panel.bottom + self._below_axis() - 3
            middle = (panel.left + panel.right) / 2
            x, anchor = (panel.right, "end") if self.x.at_end else (middle, "middle")
            yield text(self.x.label, x, y, 9.0, anchor)
        if self.x.above_label:
            y, x = panel.top - TICK - PAD - 13, (panel.left + panel.right) / 2
            yield text(self.x.above_label, x, y, 9.0, "middle")
        if self.y.label:
            middle = (panel.top + panel.bottom) / 2
            yield text(self.y.label, EDGE + 0.8 * 9, middle, 9.0, "middle", turn=True)
        for value, word in self.y.shown():
            if word:
                x, y = panel.left - TICK - PAD, panel.y(value) + 0.35 * self.y.size
                yield text(word, x, y, self.y.size, "end")

    def _title(self, panel: Panel) -> Iterator[str]:
        for i, line in enumerate(self._title_lines()):
            y = EDGE + self.title_size * (0.9 + 1.2 * i)
            yield text(line, panel.left, y, self.title_size, bold=True)


#: A picture for a slide: inches, the size of its sentence and of its other words.
WIDE, HIGH, SAID, NOTED = 8.0, 4.5, 14.0, 8.0


@dataclass(frozen=True, repr=False)
class Picture(NoRepr):
    """The figure of a page that says the most, alone, as for a slide. Its sentence is above it; what
    it shows and where from is below. What is ``confidential`` or not ``private`` says so."""

    chart: Chart
    says: str
    source: str
    private: Private
    confidential: bool = False

    def svg(self) -> str:
        """The drawing, in a file of its own."""
        room, down = 0.95 * self.chart.width, EDGE
        marks = [COLUMN] * (not self.private) + ["Confidential"] * self.confidential
        lines = [(mark, NOTED, True) for mark in marks]
        lines += [(line, SAID, True) for line in wrapped(self.says, room, SAID, bold=True)]
        notes = [(line, NOTED, False) for line in wrapped(self.source, room, NOTED)]
        out = []
        for words, size, bold in lines:
            out.append(text(words, EDGE, down + size, size, bold=bold))
            down += 1.25 * size
        out.append(moved(self.chart.drawn("picture"), 0, down + EDGE))
        down += self.chart.height + 2 * EDGE
        for words, size, bold in notes:
            out.append(text(words, EDGE, down + size, size, bold=bold))
            down += 1.25 * size
        said = f"{self.says} {self.source}"
        return element("picture", said, self.chart.width, down + EDGE, "\n".join(out)) + "\n"
