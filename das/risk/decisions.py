r"""What the intruder decides, over everything that may be published (Kazan and Reiter 2022, section
4.3; S4).

The log-odds grow with :math:`x_1^*`, so for each :math:`(x_2^*, y_1^*)` there is a least
:math:`x_1^*` that is decided for :math:`k + 1`. Probabilities are sums over :math:`(x_2^*, y_1^*)`
of the probability that the noise puts :math:`x_1^*` at or above that threshold. They are exact
except for noise beyond :data:`das.risk.recursion.NEAR`, less than 1e-15."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das.errors import InputError
from das.model.budget import Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.risk.hierarchy import UNBOUNDED, LogOdds, PosteriorMethod, log_odds_given, two_levels
from das.risk.recursion import MOST_VALUES, NEAR, TIE, Ints, Noise, Number, UpperPrior, log_odds


@dataclass(frozen=True)
class Truth:
    """The true counts of the two levels; the other units have ``x2 - x1``."""

    x1: int = 1
    x2: int = 1


@dataclass(frozen=True)
class Decisions:
    """How often the intruder decides for ``known + 1``, without (``alone``) and with the level
    above; and how often the level above turns his decision ``towards`` the truth and ``away`` from
    it."""

    alone: float
    with_hierarchy: float
    towards: float
    away: float


def decision_map(
    x1: ArrayLike,
    x2: ArrayLike,
    y1: ArrayLike,
    *,
    rho1: Number,
    rho2: Number,
    d: int,
    prior: Number,
    method: PosteriorMethod = "exact",
    known: int = 0,
    upper: UpperPrior | None = None,
    neighbours: Neighbours = UNBOUNDED,
) -> NDArray[np.bool_]:
    """Figure 4: whether X1 = known + 1 is decided, for every ``(x1*, x2*, y1*)`` of three lists:
    shape ``(len(x1), len(x2), len(y1))``."""
    x1, x2, y1 = (np.asarray(a, dtype=np.int64) for a in (x1, x2, y1))
    odds = _odds(x2, y1, rho1, rho2, d, prior, method, known, upper, neighbours)
    made = [odds(np.full(len(x2) * len(y1), float(a - known))) > TIE for a in x1]
    return np.array(made).reshape(len(x1), len(x2), len(y1))


def decisions(
    truth: Truth,
    *,
    rho1: Number,
    rho2: Number,
    d: int,
    prior: Number,
    method: PosteriorMethod = "exact",
    known: int = 0,
    upper: UpperPrior | None = None,
    neighbours: Neighbours = UNBOUNDED,
) -> Decisions:
    """Over all noise, given the true counts: ``x1`` is ``known`` or ``known + 1``, and ``x2`` at
    least that."""
    if truth.x1 not in (known, known + 1) or truth.x2 < truth.x1:
        raise InputError(
            f"true counts of {truth.x1} and {truth.x2} above it, where {known} are known",
            where="risk",
            remedy=f"the lower one is {known} or {known + 1}, the upper one no less",
        )
    rate1, rate2 = two_levels(rho1, rho2, d, upper, neighbours).rates
    own = Noise(DISCRETE_GAUSSIAN, rate1)
    z2, p2 = Noise(DISCRETE_GAUSSIAN, rate2).pmf(NEAR)
    zy, py = Noise(DISCRETE_GAUSSIAN, rate1 / d).pmf(NEAR)
    if len(z2) * len(zy) > MOST_VALUES:
        raise InputError(
            "noise as wide as this is not summed over two counts",
            where="risk",
            remedy="such counts say next to nothing: the decision is the prior's",
        )
    seen2, seen_y = truth.x2 + z2, truth.x2 - truth.x1 + zy
    odds = _odds(seen2, seen_y, rho1, rho2, d, prior, method, known, upper, neighbours)
    weight = np.multiply.outer(p2, py).ravel()
    span = own.half_width(NEAR) + 1
    above = truth.x1 - known
    hierarchical = _threshold(odds, len(weight), above - span, above + span)
    lone = _threshold(
        lambda u: float(log_odds(prior)) + rate1 * (2 * u - 1), 1, above - span, above + span
    )
    p_with, p_alone = own.survival(hierarchical - above), float(own.survival(lone - above)[0])
    up, down = (float(weight @ np.maximum(s * (p_with - p_alone), 0)) for s in (1, -1))
    towards, away = (up, down) if truth.x1 > known else (down, up)
    return Decisions(p_alone, float(weight @ p_with), towards, away)


def _odds(
    x2: Ints,
    y1: Ints,
    rho1: Number,
    rho2: Number,
    d: int,
    prior: Number,
    method: PosteriorMethod,
    known: int,
    upper: UpperPrior | None,
    neighbours: Neighbours,
) -> LogOdds:
    """The log-odds over the grid of ``x2`` and ``y1``, flattened."""
    grid = [a.ravel() for a in np.meshgrid(x2, y1, indexing="ij")]
    levels = two_levels(rho1, rho2, d, upper, neighbours)
    return log_odds_given(levels, [grid[0]], [grid[1]], prior, known, method)


def _threshold(odds: LogOdds, data: int, low: int, high: int) -> Ints:
    """The least u that is decided for k + 1, by bisection: ``low`` where all are, ``high + 1``
    where none is."""
    least, above = np.full(data, low), np.full(data, high + 1)
    while (open_ := least < above).any():
        middle = (least + above) // 2
        decided = odds(middle.astype(np.float64)) > TIE
        above = np.where(open_ & decided, middle, above)
        least = np.where(open_ & ~decided, middle + 1, least)
    return least
