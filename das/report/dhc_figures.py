"""Figures of the page of the DHC: pyramids of age, and shares of households."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from das.report.dhc_page import Ints, PlaceProfiles, median_age
from das.report.figures import INK, RULE, STYLE, figure, finish, short, svg, y_words

MALE, FEMALE = "#0072B2", "#D55E00"
#: Older than the last year are one class.
LAST = 100
_EDGES = (*range(0, 90, 5),)
#: Face, and what can be read on it; in the order of the classes.
_FACES = (
    ("#0072B2", "white"),
    ("#8CC4E8", INK),
    ("#009E73", "white"),
    ("#F0C35A", INK),
    ("#D55E00", "white"),
    ("#D0D0D0", INK),
)
#: From which share on a part has its number in it.
_SAID = 0.07


@mpl.rc_context(STYLE)
def pyramid(places: PlaceProfiles) -> str:
    """Of the root, by year of age, with three ages of life beside."""
    men, women = _to(places.ages[0], LAST)
    fig, ax = figure(4.9, 6.1)
    edges = np.arange(LAST + 2)
    for values, colour in ((-men, MALE), (women, FEMALE)):
        ax.stairs(values, edges, orientation="horizontal", fill=True, color=colour)
    most = max(1, int(men.max(initial=0)), int(women.max(initial=0)))
    ax.set_xlim(-1.3 * most, 1.3 * most)
    ax.set_ylim(0, LAST + 1)
    ax.axvline(0, color="white", linewidth=0.8)
    for x, word, colour in ((-1.28, "men", MALE), (1.28, "women", FEMALE)):
        ax.annotate(
            f"{word}\n{int((men if x < 0 else women).sum()):,}",
            (x * most, LAST - 1),
            ha="left" if x < 0 else "right",
            va="top",
            color=colour,
            fontweight="bold",
        )
    _ages_of_life(ax, men + women, 1.28 * most)
    _symmetric(ax, lambda x: f"{abs(x):,.0f}")
    ax.set_yticks([*range(0, LAST, 10), LAST], [*map(str, range(0, LAST, 10)), f"{LAST}+"])
    ax.set_ylabel("age")
    ax.set_xlabel("persons of each year of age")
    middle = median_age(places.ages[0].sum(axis=0))
    finish(
        fig,
        ax,
        places.names[0] + ("" if middle is None else f": half are younger than {middle:.1f}"),
        legend=False,
    )
    return svg(fig, "pyramid", f"Age pyramid of {places.names[0]}")


def _ages_of_life(ax: Axes, by_age: Ints, x: float) -> None:
    total = int(by_age.sum())
    for first, stop, word in (
        (0, 18, "under 18"),
        (18, 65, "18 to 64"),
        (65, len(by_age), "65 and over"),
    ):
        if first:
            ax.axhline(first, color=INK, linewidth=0.6, linestyle=(0, (1, 2)))
        if total:
            ax.annotate(
                f"{word}\n{100 * int(by_age[first:stop].sum()) / total:.1f} %",
                (x, (first + min(stop, 85)) / 2),
                ha="right",
                va="center",
                fontsize=8,
            )


@mpl.rc_context(STYLE)
def pyramids(places: PlaceProfiles) -> str:
    """Of units, in classes of five years as shares of their persons; the outline is the root."""
    n = len(places.names) - 1
    columns = n if n <= 5 else 4
    rows = -(-n // columns)
    fig = Figure(figsize=(9.6, 0.35 + 2.15 * rows), layout="constrained")
    axes = fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    share = np.stack([_five_years(a) for a in places.ages])
    most = 1.1 * max(share.max(initial=0.0), 0.01)
    for i, ax in enumerate(axes):
        if i >= n:
            ax.set_visible(False)
            continue
        edges = np.array([*_EDGES, 90])
        for sign, sex, colour in ((-1, 0, MALE), (1, 1, FEMALE)):
            ax.stairs(
                sign * share[i + 1, sex],
                edges,
                orientation="horizontal",
                fill=True,
                color=colour,
                alpha=0.75,
            )
            ax.stairs(
                sign * share[0, sex],
                edges,
                orientation="horizontal",
                color=INK,
                linewidth=0.9,
                baseline=None,
            )
        ax.set_xlim(-most, most)
        ax.set_title(
            f"{short(places.names[i + 1], 1)}\n{int(places.persons[i + 1]):,}",
            fontsize=9,
            loc="left",
        )
        ax.set_yticks([0, 20, 40, 60, 80])
        ax.tick_params(labelbottom=i + columns >= n)
        _symmetric(ax, lambda x: f"{abs(100 * x):.3g} %")
    return svg(fig, "pyramids", f"Age pyramids in five years; outline: {places.names[0]}")


def _five_years(ages: Ints) -> NDArray[np.float64]:
    """Shares by sex of all persons, ``(2, 18)``, the last of 85 and over."""
    return np.add.reduceat(ages, _EDGES, axis=1) / max(1, int(ages.sum()))


def _to(ages: Ints, last: int) -> Ints:
    return np.concatenate([ages[:, :last], ages[:, last:].sum(axis=1, keepdims=True)], axis=1)


def _symmetric(ax: Axes, words: Callable[[float], str]) -> None:
    ax.xaxis.set_major_locator(MaxNLocator(4, symmetric=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: words(x)))
    ax.grid(axis="y", visible=False)


@mpl.rc_context(STYLE)
def shares(names: Sequence[str], counts: Ints, labels: Sequence[str], title: str, name: str) -> str:
    """A bar for each unit, of the shares of its households in classes, with their number at its
    end.
    """
    total = counts.sum(axis=1)
    share = counts / np.maximum(total, 1)[:, None]
    left = np.cumsum(share, axis=1) - share
    fig, ax = figure(4.9, 1.15 + 0.26 * len(names) + 0.16 * -(-len(labels) // 2))
    for j, (label, (face, ink)) in enumerate(zip(labels, _FACES, strict=False)):
        ax.barh(
            range(len(names)),
            share[:, j],
            left=left[:, j],
            height=0.74,
            color=face,
            label=label,
            edgecolor="white",
            linewidth=0.5,
        )
        for y in np.flatnonzero(share[:, j] >= _SAID).tolist():
            ax.annotate(
                f"{100 * share[y, j]:.0f}",
                (left[y, j] + share[y, j] / 2, y),
                ha="center",
                va="center_baseline",
                color=ink,
                fontsize=8,
            )
    for y, households in enumerate(total.tolist()):
        ax.annotate(
            f"{households:,}", (1.01, y), va="center_baseline", fontsize=8, annotation_clip=False
        )
    ax.set_xlim(0, 1)
    if len(names) > 1:
        ax.axhline(0.5, color=RULE, linewidth=0.8)
    ax.grid(visible=False)
    ax.spines[["left", "bottom"]].set_visible(False)
    y_words(ax, [short(n, 1) for n in names])
    ax.set_xticks([])
    ax.tick_params(length=0)
    finish(fig, ax, f"{title}, % of households", 2)
    return svg(fig, name, f"{title} by place, shares of households")
