r"""What noise means for groups of a given size, and the budgets and thresholds that a target needs.

*Margins.* A level keeps the cells of a table within m with probability c if its budget is

.. math:: r = \frac{s}{1 - \gamma}\, r^*(m, c),

with :math:`r^*` the least cost of one draw that does, on the exact distribution
(:func:`das.accounting.planning.least_cost`). The convention of the paper is :math:`r^* = z^2/2m^2`,
z = 1.96 (section 6.1), and conversely :math:`m = \lfloor z\sigma \rfloor`. By corollary 2 both keep
the margin. For the first this is right (up to an m of some 2,600, as it has 1.92 instead of
1.9208). For the second it is not, because the tail bound behind it holds at whole numbers:
:math:`\lfloor 10.99 \rfloor = 10` has 93.9 %.

*Sizes.* A table of k cells for a group of n has a mean relative L1 error of :math:`k\,E|X|/n`. It
is below :math:`\tau` from :math:`n = k\,E|X|/\tau` on. The spreadsheet of the paper, SafeTEx,
turned targets into thresholds (section 6.3). Its formulas are not published; this one is the
simplest.

*Publication.* Below states, a group with only a total is published if that total is larger than T,
the smallest x with :math:`P[X \le x] \ge p`. A group of n is published with probability :math:`P[X
> T - n]` (equation 12).

Source: Haney et al. (2024), *SafeTab-P*, sections 5.3.2, 6.1 and 6.3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf, isqrt

import numpy as np
from numpy.typing import NDArray

from das.accounting.planning import least_cost, rounded_up
from das.errors import SpecError
from das.model.budget import Neighbours, QueryNoise
from das.model.mechanisms import COVERAGE, Mechanism
from das.publications.detailed.model.iterations import GroupLevel
from das.publications.detailed.model.tables import FIRST, ONLY, LevelPlan, Parameters
from das.publications.detailed.planning.losses import Tails

#: How often a margin of error holds, and the normal quantile that the paper takes for it.
Z = Fraction("1.96")


def least_budget(
    mechanism: Mechanism, most: int, stability: int, first: Fraction, coverage: float = COVERAGE
) -> Fraction:
    """The least budget of a level whose cells are within ``most`` with probability ``coverage``,
    rounded up to four digits.

    >>> from das.model.mechanisms import DISCRETE_GAUSSIAN
    >>> [float(least_budget(DISCRETE_GAUSSIAN, m, 9, Fraction(1, 10))) for m in (3, 11, 50)]
    [1.529, 0.1449, 0.007531]"""
    return rounded_up(
        least_cost(mechanism, Neighbours.UNBOUNDED, most, coverage) * stability / (1 - first)
    )


def conventional_margin(sigma_sq: Fraction, z: Fraction = Z) -> int:
    r"""The margin of error by the convention of the paper, :math:`\lfloor z\sigma \rfloor`,
    exactly."""
    return isqrt(int(z**2 * sigma_sq))


def relative_error(noise: QueryNoise, cells: int, people: int) -> float:
    """The mean of the sum of the absolute errors of a table, over how many people are in it."""
    return cells * noise.mechanism.mean_abs(noise.variance) / people if people > 0 else inf


def least_population(noise: QueryNoise, cells: int, error: float) -> int:
    """How many people a table must count for a mean relative error of at most ``error``."""
    return ceil(cells * noise.mechanism.mean_abs(noise.variance) / error)


def cells_of(plan: LevelPlan) -> QueryNoise:
    """The noise of the cells of the tables of a level."""
    return plan.measurement(plan.table.name)


def thresholds(plan: LevelPlan, error: float) -> tuple[int, ...]:
    """From how many people on each table has a mean relative error of at most ``error``."""
    noise = cells_of(plan)
    return tuple(least_population(noise, cells, error) for cells in plan.table.answers[1:])


def sizes(plan: LevelPlan, people: int) -> NDArray[np.float64]:
    """The probability of each table size for a group of ``people`` people: ``(sizes,)``, which sums
    to 1. Without a first stage, ``people`` is the group's earlier published total, and the size is
    certain."""
    if not plan.first:
        return np.eye(len(plan.thresholds) + 1)[int(plan.size(np.array([people]))[0])]
    tails = Tails.from_noise(plan.measurement(FIRST))
    reached = np.array([1.0, *(tails.above(t - people - 1) for t in plan.thresholds), 0.0])
    return reached[:-1] - reached[1:]


def suppression(plan: LevelPlan, chance: Fraction) -> int | None:
    """What the total of a group without a table has to exceed to be published; nothing where all
    are.

    ``chance`` is how often a group of nobody is not, at least."""
    if not chance or not plan.first or plan.at.fine:
        return None
    return Tails.from_noise(cells_of(plan)).quantile(chance)


def published(plan: LevelPlan, chance: Fraction, people: int) -> float:
    """The probability that a group of ``people`` people is published, if the second stage measures
    only its total."""
    least = suppression(plan, chance)
    return 1.0 if least is None else Tails.from_noise(cells_of(plan)).above(least - people)


def published_at_all(plan: LevelPlan, chance: Fraction, people: int) -> float:
    """The probability that a group is published, if it can have a table. The noise of the two
    stages is independent."""
    without = float(sizes(plan, people)[0])
    return 1 - without + without * published(plan, chance, people)


@dataclass(frozen=True)
class StageNoise:
    """The noise of one query of a level. ``margin`` holds with the probability that was asked for
    or more, which is ``held``; ``convention`` is the margin of the paper, and holds with
    ``convention_held``."""

    noise: QueryNoise
    margin: int
    held: float
    convention: int
    convention_held: float

    @staticmethod
    def from_noise(noise: QueryNoise, coverage: float) -> StageNoise:
        tails, margin = Tails.from_noise(noise), noise.margin(coverage)
        usual = conventional_margin(noise.mechanism.continuous_variance(noise.parameter))
        return StageNoise(
            noise, margin, tails.probability_within(margin), usual, tails.probability_within(usual)
        )


@dataclass(frozen=True)
class TableSize:
    """A table of ``cells`` cells, for groups from ``threshold`` people on. ``error``: its mean
    relative L1 error at the threshold. ``chance``: the probability that a group at the threshold
    has it. ``surely``: the number of people from which a group has it with the requested
    probability."""

    cells: int
    threshold: int
    error: float
    chance: float
    surely: int


@dataclass(frozen=True)
class LevelOutlook:
    """How the groups of one level come out. ``stages`` are by query; ``suppression`` as the
    function of that name."""

    plan: LevelPlan
    stages: Mapping[str, StageNoise]
    suppression: int | None
    tables: tuple[TableSize, ...]

    @staticmethod
    def from_plan(plan: LevelPlan, chance: Fraction, coverage: float = COVERAGE) -> LevelOutlook:
        stages = {
            d.query: StageNoise.from_noise(d, coverage)
            for d in plan.measurements
            if d.query != ONLY or plan.at.fine
        }
        return LevelOutlook(plan, stages, suppression(plan, chance), tuple(_tables(plan, coverage)))


def _tables(plan: LevelPlan, coverage: float) -> list[TableSize]:
    noise = cells_of(plan)
    after = Tails.from_noise(plan.measurement(FIRST)).quantile(coverage) if plan.first else 0
    return [
        TableSize(
            cells,
            at,
            relative_error(noise, cells, at),
            float(sizes(plan, at)[number:].sum()),
            at + after,
        )
        for number, (cells, at) in enumerate(
            zip(plan.table.answers[1:], plan.thresholds, strict=True), 1
        )
    ]


def outlooks(
    parameters: Parameters, run: str, coverage: float = COVERAGE
) -> tuple[LevelOutlook, ...]:
    """The planning rows of every level of a run, for each table."""
    return tuple(
        LevelOutlook.from_plan(plan, parameters.chance, coverage) for plan in parameters.plans(run)
    )


def planned(
    parameters: Parameters,
    margins: Mapping[GroupLevel, int],
    coverage: float = COVERAGE,
    error: Fraction | None = None,
) -> Parameters:
    """The parameters with the least budgets that keep the cells of every table of these levels
    within ``margins``. Other budgets stay. With ``error``, the thresholds of all levels are those
    from which each table has at most this mean relative error.

    Raises :class:`SpecError` for a level that has no thresholds, or a margin below 0."""
    for at, most in margins.items():
        if not all(at in by_level for by_level in parameters.thresholds.values()):
            raise SpecError("there are no thresholds for this level", where=at.name)
        if most < 0:
            raise SpecError(f"a margin of {most} is below 0", where=at.name)
    first = parameters.first if parameters.product.staged else Fraction(0)
    wished = {
        at: least_budget(
            parameters.mechanism,
            most,
            parameters.iterations.stability(at, parameters.race_codes),
            first,
            coverage,
        )
        for at, most in margins.items()
    }
    changed = replace(
        parameters, budgets={name: {**old, **wished} for name, old in parameters.budgets.items()}
    )
    return (
        changed
        if error is None
        else replace(changed, thresholds=_thresholds(changed, float(error)))
    )


def _thresholds(
    parameters: Parameters, error: float
) -> dict[str, dict[GroupLevel, tuple[int, ...]]]:
    if error <= 0:
        raise SpecError(f"an error of {error} is not above 0", where="error")
    out = {name: dict(old) for name, old in parameters.thresholds.items()}
    for plan in (p for run in parameters.runs for p in parameters.plans(run)):
        out[plan.table.name][plan.at] = thresholds(plan, error)
    return out
