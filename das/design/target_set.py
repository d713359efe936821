r"""A user's targets for a plan, and the optimization problem that they make
(:mod:`das.design.optimize`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from das.design.model import Estimand, LevelQuery, Model
from das.design.problem import LossLimits, Problem
from das.errors import SpecError

Array = NDArray[np.float64]
Objective = Literal["best", "least", "spare"]

#: What holds for every level and query that is measured.
EVERYTHING = "everything"
#: A measurement that is worth less than this part of what the average one is adds nothing.
_REDUNDANT = 1e-7
#: What is left of a limit on privacy loss next to what is held, at least.
_LEFT = 1e-9


@dataclass(frozen=True)
class AccuracyTarget:
    """One target: its weight, and the largest standard deviation, in persons (``sd``) or as a
    multiple of the present one (``ratio``)."""

    estimand: Estimand
    weight: float = 1.0
    sd: float | None = None
    ratio: float | None = None


@dataclass(frozen=True, eq=False)
class LossLimit:
    """``row`` ``(measurements,)``: how much of the rho of each a change of one record sees.
    ``most``: the limit on the sum. ``says`` names the guard."""

    says: str
    row: Array
    most: float


@dataclass(frozen=True)
class TargetSet:
    """``best``: of a given total; ``least``: the smallest total that meets all limits, no target
    worse than now where it says nothing else; ``spare``: what adds nothing is spent anew, every
    other measurement stays. ``guard``: by level, or for :data:`EVERYTHING`, how many times its
    present standard deviation no query that is measured may exceed. ``keep``: draws that are not to
    become smaller; ``hold``: draws that stay what they are."""

    objective: Objective
    targets: tuple[AccuracyTarget, ...]
    guard: Mapping[str, float] = field(default_factory=dict)
    keep: tuple[LevelQuery, ...] = ()
    hold: tuple[LevelQuery, ...] = ()

    def estimands(self, pairs: Sequence[LevelQuery]) -> tuple[Estimand, ...]:
        """The targets', then those of every measurement."""
        wished = [w.estimand for w in self.targets]
        return (*wished, *(a for a in (Estimand(*pair) for pair in pairs) if a not in wished))

    def problem(
        self, model: Model, now: Array, start: Array, losses: Sequence[LossLimit] = ()
    ) -> Problem:
        """``now``: rho of each measurement as it is, ``start``: what the search begins with.

        Raises:
            SpecError: there is nothing left to make better, or what is held and kept alone exceeds
                one of ``losses``."""
        f = model.variances(model.measurements.precision(now))
        weight, limit = self._asked(model, f)
        held = np.array([pair in self.hold for pair in model.measurements.pairs])
        if held.all():
            raise SpecError(
                "every measurement is held: there is nothing to share out",
                where="hold",
                remedy="hold less",
            )
        stays = held | np.array([pair in self.keep for pair in model.measurements.pairs])
        if self.objective == "spare":
            stays |= ~redundant(model, now, f)
            if stays.all():
                raise SpecError(
                    "every measurement buys something: there is nothing to spare",
                    where="objective",
                    remedy='take "best" or "least"',
                )
        kept = np.where(stays, now, 0.0)
        if self.objective == "least":
            return Problem(model, weight, limit, kept, held, np.maximum(start, kept))
        if kept.sum() >= start.sum():
            raise SpecError(
                f"the kept measurements take rho = {kept.sum():.4g} of {start.sum():.4g}",
                where="keep",
                remedy="keep less, or allow more rho",
            )
        return limit_losses(Problem(model, weight, limit, kept, held, start), losses)

    def _asked(self, model: Model, f: Array) -> tuple[Array, Array]:
        """How much each estimand counts, and the most that its variance may be, now ``f``;
        ``(estimands,)`` all."""
        weight, limit = np.zeros(len(model.estimands)), np.full(len(model.estimands), np.inf)
        for i, target in enumerate(self.targets):
            as_now = self.objective == "least" and target.sd is None and target.ratio is None
            ratio = 1.0 if as_now else target.ratio
            weight[i] = target.weight
            limit[i] = min(
                np.inf if target.sd is None else target.sd**2,
                np.inf if ratio is None else ratio**2 * f[i],
            )
        for i, estimand in enumerate(model.estimands):
            most = self.guard.get(estimand.place, self.guard.get(EVERYTHING))
            if not estimand.areas and most is not None:
                limit[i] = min(limit[i], most**2 * f[i])
        known = f == 0
        weight[known], limit[known] = 0.0, np.inf
        if not weight.any():
            raise SpecError(
                "every target is published exactly: nothing can be improved",
                where="target",
                remedy="name targets that are estimated",
            )
        return (
            np.zeros_like(weight) if self.objective == "least" else weight / weight.sum()
        ), limit


def limit_losses(problem: Problem, losses: Sequence[LossLimit]) -> Problem:
    """With limits on privacy loss. Those that follow from others are left out; where a limit on
    the total is all that remains, it is the total."""
    if not losses:
        return problem
    free = (~problem.held).astype(float)
    rows = [loss.row * free for loss in losses] + [free]
    room = [loss.most - float(loss.row @ problem.kept) for loss in losses] + [problem.room]
    for loss, left in zip(losses, room, strict=False):
        if (loss.row * free).any() and left <= _LEFT * loss.most:
            raise SpecError(
                "what is held or kept takes all of it",
                where=loss.says,
                remedy="hold and keep less, or allow a larger epsilon",
            )
    # the total comes first: of two limits that say the same it is the other that is left out
    kept: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: (room[i], i < len(losses))):
        if rows[i].any() and not any((rows[i] <= rows[k]).all() for k in kept):
            kept.append(i)
    if len(kept) == 1 and (rows[kept[0]] == free).all():
        x = problem.spread(0.0)
        return replace(problem, start=problem.kept + x * (room[kept[0]] / x.sum()))
    some = [*(i for i in kept if i < len(losses)), len(losses)]
    return replace(
        problem,
        loss=LossLimits(np.array([rows[i] for i in some]), np.array([room[i] for i in some])),
    )


def redundant(model: Model, now: Array, f: Array) -> NDArray[np.bool_]:
    """The measurements that add nothing: no variance of any level and query would change without
    them, ``(measurements,)``."""
    measurements = model.measurements
    every = np.array(
        [not a.areas and v > 0 for a, v in zip(model.estimands, f, strict=True)], dtype=float
    )
    _, h = model.gradient(measurements.precision(now), every / max(every.sum(), 1))
    worth = np.bincount(measurements.of_pair, weights=np.abs(h), minlength=len(measurements.pairs))
    return worth * now.sum() < _REDUNDANT
