"""The figures of Kazan and Reiter (2022) and of their supplement, as numbers of ours.

Where the paper sampled we sum. Figures of the hierarchy show the exact posterior and, under its own
name, the law of the sampler that made the published ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from das.risk.decisions import Truth, decision_map, decisions
from das.risk.hierarchy import METHODS, PosteriorMethod
from das.risk.joint import joint_marginal_posterior
from das.risk.one_level import decision_probability, marginal_posterior, posterior, ratio
from das.risk.recursion import Floats, Point, Uniform, UpperPrior
from studies.figure import Curve, Curves, FigureData
from studies.kazan_reiter import sums
from studies.kazan_reiter.post_processing import published_marginal
from studies.kazan_reiter.tiles import Mosaic, Tiles

_TOTAL = Fraction("2.56")
#: The detailed query's share at each level as the paper prints it (its table 1), lowest level
#: first.
RHO = tuple(
    _TOTAL * level * query
    for level, query in (
        (Fraction(165, 4099), Fraction(3945, 4097)),
        (Fraction(1256, 4099), Fraction(1288, 4099)),
        (Fraction(687, 4099), Fraction(241, 2051)),
        (Fraction(447, 4099), Fraction(754, 4097)),
        (Fraction(1440, 4099), Fraction(230, 4097)),
        (Fraction(104, 4099), Fraction(189, 241)),
    )
)
PRIORS = (Fraction(1, 2), Fraction(1, 5), Fraction(1, 10), Fraction(1, 50))
#: Other enumeration districts in the county of the paper's example.
OTHERS = 27
_R1, _R2 = float(RHO[0]), float(RHO[1])
_NAMES: Mapping[PosteriorMethod, str] = {
    "exact": "exact posterior",
    "gibbs-unconstrained": "sampler without X1 ≤ X2",
}
_GRID = np.geomspace(1e-3, 100, 241)
_USED = ("x", _R1, "2020: ρ₁ = 0.099")


def figure_1() -> FigureData:
    x = np.arange(-10.0, 11.0)
    return FigureData(
        "figure-1",
        [
            Curves(
                "Posterior of the truth",
                "published count x*",
                "P[X = 1 | x*]",
                _by_prior(x, lambda p: posterior(x, rho=_R1, prior=p), points=True),
            ),
            Curves(
                "Disclosure risk",
                "published count x*",
                "posterior / prior",
                _by_prior(x, lambda p: ratio(x, rho=_R1, prior=p), points=True),
                marks=[("y", 1, "")],
            ),
        ],
    )


def figure_2() -> FigureData:
    after = {p: marginal_posterior(rho=_GRID, prior=p) for p in PRIORS}
    return FigureData(
        "figure-2",
        [
            Curves(
                "Average posterior of the truth",
                "ρ₁",
                "P[X = 1], averaged over x*",
                _by_prior(_GRID, lambda p: after[p]),
                log_x=True,
                marks=[_USED],
            ),
            Curves(
                "Average disclosure risk",
                "ρ₁",
                "average posterior / prior",
                _by_prior(_GRID, lambda p: after[p] / float(p)),
                log_x=True,
                log_y=True,
                marks=[_USED],
            ),
        ],
    )


def figure_3() -> FigureData:
    grid = np.geomspace(1e-3, 100, 1201)  # the jumps want a fine one
    return FigureData(
        "figure-3",
        [
            Curves(
                "Decisions for the truth, 0-1 loss",
                "ρ₁",
                "probability",
                log_x=True,
                marks=[_USED],
                curves=_by_prior(grid, lambda p: decision_probability(rho=grid, prior=p)),
            )
        ],
    )


def figure_4() -> Mosaic:
    return Mosaic("figure-4", [_map(_NAMES[m], None, m) for m in METHODS])


def figure_5() -> FigureData:
    x2 = list(range(1, 16))
    return FigureData(
        "figure-5",
        [
            Curves(
                "Decisions for the truth X1 = 1",
                "true upper count",
                "probability",
                [
                    _curve(
                        _NAMES[m],
                        x2,
                        [_decided(k, _R2, m) for k in x2],
                        points=True,
                        dashed=m != "exact",
                    )
                    for m in METHODS
                ],
                marks=[
                    (
                        "y",
                        float(decision_probability(rho=_R1, prior=0.5)),
                        "without the upper level",
                    )
                ],
            )
        ],
    )


def figure_6() -> FigureData:
    rho2 = np.geomspace(0.03, 100, 29)
    curves = [
        _curve(
            f"{_NAMES[m]}, X2 = {k}",
            rho2,
            [_decided(k, float(r), m) for r in rho2],
            dashed=m != "exact",
        )
        for m in METHODS
        for k in (1, 2, 10)
    ]
    return FigureData(
        "figure-6",
        [
            Curves(
                "Decisions for the truth X1 = 1",
                "ρ₂",
                "probability",
                curves,
                log_x=True,
                marks=[
                    ("x", _R2, "2020: ρ₂ = 0.246"),
                    (
                        "y",
                        float(decision_probability(rho=_R1, prior=0.5)),
                        "without the upper level",
                    ),
                ],
            )
        ],
    )


def supplement_1() -> FigureData:
    n = list(range(1, len(RHO) + 1))
    p = np.array([float(q) for q in PRIORS])
    after = np.array([joint_marginal_posterior(rho=RHO[:k], prior=p) for k in n]).T
    rows = dict(zip(PRIORS, after, strict=True))
    return FigureData(
        "supplement-1",
        [
            Curves(
                "Average posterior of the truth",
                "levels at which the target is unique",
                "P[X = 1]",
                _by_prior(n, lambda q: rows[q], points=True),
            ),
            Curves(
                "Average disclosure risk",
                "levels at which the target is unique",
                "average posterior / prior",
                _by_prior(n, lambda q: rows[q] / float(q), points=True),
            ),
        ],
    )


def supplement_2() -> FigureData:
    s = np.geomspace(0.05, 10, 121)
    return FigureData(
        "supplement-2",
        [
            Curves(
                "Variance of the discrete Gaussian",
                "variance parameter σ²",
                "variance",
                [
                    _curve("variance", s, [sums.variance(rho=float(1 / (2 * v))) for v in s]),
                    _curve("σ²", s, s, dashed=True),
                ],
                log_x=True,
                log_y=True,
            )
        ],
    )


def supplement_4() -> Mosaic:
    return Mosaic(
        "supplement-4",
        [
            _map(f"{words}: {_NAMES[m]}", upper, m)
            for words, upper in (("uniform", None), ("uniform up to 10", Uniform(10)))
            for m in METHODS
        ],
    )


def supplement_5() -> Mosaic:
    return Mosaic(
        "supplement-5", [_map(f"certain of X2 = {k}", Point(k), "exact") for k in (1, 25)]
    )


def supplement_6() -> FigureData:
    upper = list(range(1, 101))
    grid = np.geomspace(1e-2, 10, 31)

    def risk(k: int, rho1: float) -> float:
        return 2 * published_marginal(k, rho1=rho1, d=OTHERS, prior=0.5)

    alone, both = (
        2 * float(joint_marginal_posterior(rho=r, prior=0.5)) for r in ([_R1], [_R1, _R1 / OTHERS])
    )
    over = [
        _curve(f"published, upper count {k}", grid, [risk(k, float(r)) for r in grid], dashed=True)
        for k in (1, 10, 100)
    ]
    noisy = [2 * float(marginal_posterior(rho=float(r), prior=0.5)) for r in grid]
    return FigureData(
        "supplement-6",
        [
            Curves(
                "Average risk at ρ₁ = 0.099",
                "published upper count",
                "average posterior / prior",
                [_curve("published", upper, [risk(k, _R1) for k in upper])],
                marks=[("y", alone, "noisy x1* alone"), ("y", both, "noisy x1* and y1*")],
            ),
            Curves(
                "Average risk by ρ₁",
                "ρ₁",
                "average posterior / prior",
                [_curve("noisy x1* alone", grid, noisy), *over],
                log_x=True,
                marks=[_USED],
            ),
        ],
    )


FIGURES: Mapping[str, Callable[[], FigureData | Mosaic]] = {
    "figure-1": figure_1,
    "figure-2": figure_2,
    "figure-3": figure_3,
    "figure-4": figure_4,
    "figure-5": figure_5,
    "figure-6": figure_6,
    "supplement-1": supplement_1,
    "supplement-2": supplement_2,
    "supplement-4": supplement_4,
    "supplement-5": supplement_5,
    "supplement-6": supplement_6,
}


def _by_prior(
    x: Sequence[float] | Floats, y: Callable[[Fraction], Floats], points: bool = False
) -> list[Curve]:
    return [_curve(f"p = {p}", x, y(p), points=points) for p in PRIORS]


def _curve(
    label: str,
    x: Sequence[float] | Floats,
    y: Sequence[float] | Floats,
    dashed: bool = False,
    points: bool = False,
) -> Curve:
    return Curve(label, [float(v) for v in x], [float(v) for v in y], dashed, points)


def _decided(x2: int, rho2: float, method: PosteriorMethod) -> float:
    made = decisions(Truth(1, x2), rho1=_R1, rho2=rho2, d=OTHERS, prior=0.5, method=method)
    return made.with_hierarchy


def _map(title: str, upper: UpperPrior | None, method: PosteriorMethod) -> Tiles:
    """The whole 9 x 9 x 61 grid of figure 4 in one panel: decisions grow with x1*, so the least x1*
    for 1 says all.
    """
    x1, x2, y1 = np.arange(-3, 6), np.arange(-3, 6), np.arange(-30, 31)
    made = decision_map(
        x1, x2, y1, rho1=_R1, rho2=_R2, d=OTHERS, prior=0.5, upper=upper, method=method
    )
    least = np.where(made.any(axis=0), x1[made.argmax(axis=0)], x1[-1] + 1)
    low, high = -1, 5
    words = [f"≤ {low}", *(str(v) for v in range(low + 1, high)), f"≥ {high}"]
    return Tiles(
        title,
        "y1*, noisy count of the other units",
        "x2*",
        [int(v) for v in y1],
        [int(v) for v in x2],
        np.clip(least, low, high) - low,
        words,
    )
