"""Maps of decisions as tiles, for print; the numbers stand on them, so that color is not
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from studies.curves import STYLE, saved


@dataclass(frozen=True, eq=False)
class Tiles:
    """A panel of tiles: ``classes[i, j]`` is the number of one of ``words`` at ``y[i]``, ``x[j]``;
    ordered classes.
    """

    title: str
    x_label: str
    y_label: str
    x: Sequence[int]
    y: Sequence[int]
    classes: NDArray[np.int64] = field(repr=False)
    words: Sequence[str] = ()


@dataclass(frozen=True)
class Mosaic:
    """Panels of tiles below each other, on one axis."""

    name: str
    panels: Sequence[Tiles]


@mpl.rc_context(STYLE)
def draw(figure: Mosaic, kind: str) -> bytes:
    """The figure as an ``svg``, ``pdf`` or ``png`` file; the same figure gives the same bytes."""
    fig = Figure(figsize=(7.0, 0.9 + 1.9 * len(figure.panels)), layout="constrained")
    axes = np.atleast_1d(fig.subplots(len(figure.panels), 1, sharex=True))
    for tile, ax in zip(figure.panels, axes, strict=True):
        _tiles(ax, tile)
    axes[-1].set_xlabel(figure.panels[-1].x_label)
    _tile_legend(fig, figure.panels[0])
    return saved(fig, figure.name, kind)


def _tiles(ax: Axes, panel: Tiles) -> None:
    colors = mpl.colormaps["cividis"](np.linspace(0.05, 1, len(panel.words)))
    edges = [np.append(np.array(v) - 0.5, v[-1] + 0.5) for v in (panel.x, panel.y)]
    ax.pcolormesh(
        *edges,
        panel.classes,
        cmap=ListedColormap(colors),
        vmin=-0.5,
        vmax=len(panel.words) - 0.5,
        edgecolors="white",
        linewidth=0.3,
    )
    for i, j in np.argwhere(np.ones(panel.classes.shape, dtype=bool)):
        starts = j == 0 or panel.classes[i, j] != panel.classes[i, j - 1]
        run = np.flatnonzero(panel.classes[i, j:] != panel.classes[i, j])
        length = int(run[0]) if len(run) else panel.classes.shape[1] - j
        if starts and length >= 4:  # the number itself, so that color is not needed
            k = panel.classes[i, j]
            ax.text(
                panel.x[j] + (length - 1) / 2,
                panel.y[i],
                panel.words[k],
                ha="center",
                va="center",
                fontsize=6.5,
                color="white" if k < len(panel.words) / 2 else "black",
            )
    ax.grid(visible=False)
    ax.set_yticks(panel.y)
    ax.tick_params(labelsize=7)
    ax.set_title(panel.title, loc="left", fontsize=9.5, fontweight="bold")
    ax.set_ylabel(panel.y_label)


def _tile_legend(fig: Figure, panel: Tiles) -> None:
    colors = mpl.colormaps["cividis"](np.linspace(0.05, 1, len(panel.words)))
    handles = [Patch(color=c, label=w) for c, w in zip(colors, panel.words, strict=True)]
    fig.legend(
        handles=handles,
        loc="outside lower left",
        ncols=len(handles),
        frameon=False,
        fontsize=8,
        title="least x1* that is decided for X1 = 1",
        title_fontsize=8,
        alignment="left",
    )
