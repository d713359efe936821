"""A figure as numbers and words, before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Curve:
    """One line."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False
    points: bool = False


@dataclass(frozen=True)
class Curves:
    """A panel of lines. ``marks``: vertical or horizontal reference lines, each ``(axis, value,
    words)``. ``ticks``: what stands at 0, 1, ... of x.
    """

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False
    marks: Sequence[tuple[str, float, str]] = ()
    ticks: Sequence[str] = ()


@dataclass(frozen=True)
class FigureData:
    """Panels side by side."""

    name: str
    panels: Sequence[Curves]
