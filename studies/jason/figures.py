"""JASON's figures as numbers and words, before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from studies.figure import Curve, Curves, FigureData
from studies.jason.experiments import Needed, Point

_RIGHT = "fraction of bits recovered"
_LEVELS: Sequence[tuple[str, Callable[[Point], float]]] = (
    ("mean", lambda p: p.mean),
    ("10% decile", lambda p: p.p10),
    ("90% decile", lambda p: p.p90),
)


def figure_4_1(points: Sequence[Point]) -> FigureData:
    bits = points[0].bits
    curves = [
        Curve(name, [p.queries for p in points], [of(p) for p in points], points=True)
        for name, of in _LEVELS
    ]
    curves.append(
        Curve(
            "P[all bits are determined], theory",
            [p.queries for p in points],
            [p.theory or 0.0 for p in points],
            dashed=True,
        )
    )
    return FigureData(
        "figure-4-1",
        [
            Curves(
                f"{bits} bits, no noise",
                "queries",
                _RIGHT,
                curves,
                marks=[("x", bits / 2, "n/2"), ("y", 0.5, "chance")],
            )
        ],
    )


def figure_4_2(needed: Sequence[Needed]) -> FigureData:
    bits = [float(p.bits) for p in needed]
    found = Curve("to recover all bits", bits, [p.queries for p in needed], points=True)
    half = Curve("n/2: determined with probability 1/2", bits, [b / 2 for b in bits], dashed=True)
    each = Curve("to recover all bits", bits, [p.per_bit for p in needed], points=True)
    return FigureData(
        "figure-4-2",
        [
            Curves("No noise", "bits n", "queries needed", [found, half]),
            Curves(
                "The same for each bit (figure 4-3)",
                "bits n",
                "queries needed / n",
                [each, replace(half, y=[0.5] * len(bits))],
            ),
        ],
    )


def figure_4_4(points: Sequence[Point]) -> FigureData:
    panels = []
    for bits in dict.fromkeys(p.bits for p in points):
        curves = []
        for noise in dict.fromkeys(p.noise for p in points):
            here = [p for p in points if (p.bits, p.noise) == (bits, noise)]
            short = noise.partition(", ")[2]
            curves.append(
                Curve(short, [p.queries for p in here], [p.mean for p in here], points=True)
            )
            curves.append(
                Curve(
                    f"{short}, theory",
                    [p.queries for p in here],
                    [p.theory or 0.0 for p in here],
                    dashed=True,
                )
            )
        panels.append(
            Curves(
                f"{bits} bits", "queries", _RIGHT, curves, log_x=True, marks=[("y", 0.5, "chance")]
            )
        )
    return FigureData("figure-4-4", panels)


def figure_5_7(points: Sequence[Point]) -> FigureData:
    curves, theory = [], []
    for queries in dict.fromkeys(p.queries for p in points):
        here = [p for p in points if p.queries == queries and p.epsilon is not None]
        x, name = [p.epsilon or 0.0 for p in here], f"{queries / here[0].bits:g} queries a bit"
        curves.append(Curve(name, x, [p.mean for p in here], points=True))
        theory.append(Curve(f"{name}, theory", x, [p.theory or 0.0 for p in here], dashed=True))
    bits = points[0].bits
    return FigureData(
        "figure-5-7",
        [
            Curves(
                f"{bits} bits, Laplace noise",
                "epsilon of one query",
                _RIGHT,
                [*curves, *theory],
                log_x=True,
                marks=[("y", 0.5, "chance")],
            )
        ],
    )
