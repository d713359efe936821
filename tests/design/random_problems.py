"""Random problems of the best allocation, and what a general solver makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from das.design import trees
from das.design.homogeneous import Homogeneous
from das.design.model import Choices, Estimand
from das.design.problem import Problem
from das.design.target_set import AccuracyTarget, TargetSet
from das.errors import InputError, SpecError
from das.model.areas import Areas
from das.model.measured_spine import MeasuredSpine
from tests.design.dense import DenseTree, choices
from tests.estimate.world import PLAIN, random_spine, random_world

Array = NDArray[np.float64]
QUERIES = ("total", "age", "race", "detailed")


@dataclass(frozen=True, eq=False)
class Dense:
    """Variances and their slopes by one dense matrix: what an answer's variance has of each
    measurement is the square of its covariance with what was drawn."""

    grams: tuple[Array, ...]
    asked: tuple[Array, ...]

    @staticmethod
    def of(tree: DenseTree, estimands: tuple[Estimand, ...]) -> Dense:
        free = tree._directions
        grams = tuple(free.T @ g @ free for g in tree._measured)
        return Dense(grams, tuple(tree.asked(a) @ free for a in estimands))

    def logs(self, precision: Array) -> tuple[Array, Array]:
        inverse = np.linalg.inv(sum(p * g for p, g in zip(precision, self.grams, strict=True)))
        known = [a @ inverse for a in self.asked]
        f = np.array(
            [np.einsum("ij,ij->i", k, a).mean() for k, a in zip(known, self.asked, strict=True)]
        )
        slope = np.array([[((k @ g) * k).sum(axis=1).mean() for g in self.grams] for k in known])
        some = f > 1e-12
        return np.where(some, np.log(np.where(some, f, 1.0)), -np.inf), -slope / np.where(
            some, f, np.inf
        )[:, None]


@dataclass(frozen=True, eq=False)
class Case:
    """``dense`` is there for trees; numbers of units alone have their own slopes, which other tests
    hold.
    """

    problem: Problem
    dense: Dense | None

    def logs(self, rho: Array) -> tuple[Array, Array]:
        measurements = self.problem.model.measurements
        p = measurements.precision(rho)
        if self.dense is not None:
            f, slope = self.dense.logs(p)
        else:
            g, rows = self.problem.model.gradients(
                p, np.eye(len(self.problem.weight)), lambda: None
            )
            f, slope = np.where(g > 0, np.log(np.where(g > 0, g, 1.0)), -np.inf), -rows
        return f, slope @ measurements.slope(rho)


def make(seed: int, kind: str) -> Case:
    """A problem that can be solved: ``numbers`` of units, a ``tree`` with areas, or one with only
    ``children``.
    """
    for attempt in range(50):
        rng = np.random.default_rng([seed, attempt])
        try:
            found = _numbers(rng) if kind == "numbers" else _tree(rng, bypassed=kind == "children")
        except (SpecError, InputError):  # nothing to choose, or one unit alone
            continue
        if found is not None:
            return found
    raise AssertionError("no problem")


def _pairs(rng: np.random.Generator, levels: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(lv, q) for lv in levels for q in QUERIES if q == "detailed" or rng.random() < 0.6]


def _goal(
    rng: np.random.Generator, levels: tuple[str, ...], pairs: list[tuple[str, str]], areas: bool
) -> TargetSet:
    """Targets of some levels and of areas, guards, draws that are kept and held."""
    objectives: tuple[Literal["best", "least", "spare"], ...] = ("best", "least", "spare")
    objective = objectives[rng.choice(3, p=[0.6, 0.3, 0.1])]
    some = [(lv, q) for lv in levels for q in QUERIES if rng.random() < 0.4] or [
        (levels[-1], "detailed")
    ]
    targets = [AccuracyTarget(Estimand(*pair), float(rng.uniform(0.2, 3))) for pair in some]
    if areas:
        targets.append(
            AccuracyTarget(
                Estimand("half", str(rng.choice(["total", "race"])), areas=True),
                float(rng.uniform(0.2, 3)),
            )
        )
    guard = {}
    if rng.random() < 0.7:
        guard["everything"] = float(rng.choice([1.0, 1.1, 1.5, 5.0]))
    if rng.random() < 0.3:
        guard[str(rng.choice(levels))] = float(rng.choice([1.0, 2.0]))
    pick = [pairs[i] for i in rng.permutation(len(pairs))]
    keep = tuple(pick[:2]) if rng.random() < 0.3 else ()
    hold = (
        tuple(p for p in pairs if p[0] == levels[-1])
        if rng.random() < 0.2
        else tuple(pick[2:3]) * int(rng.random() < 0.3)
    )
    return TargetSet(objective, tuple(targets), guard, keep, hold)


def _numbers(rng: np.random.Generator) -> Case | None:
    levels = ("A", "B", "C", "D")[: rng.integers(2, 5)]
    units = tuple(int(n) for n in np.cumprod([1, *rng.integers(1, 12, len(levels) - 1)]))
    pairs = _pairs(rng, levels)
    target_set = _goal(rng, levels, pairs, areas=False)
    model = Homogeneous.for_schema(
        PLAIN,
        levels,
        units,
        Choices.alike(pairs, "all"),
        target_set.estimands(pairs),
        int(rng.integers(-1, 2)),
    )
    now = rng.exponential(size=len(pairs)) + 0.02
    return Case(target_set.problem(model, now, now), None)


def _tree(rng: np.random.Generator, *, bypassed: bool) -> Case | None:
    spine = random_spine(rng, 3, 3)
    world = random_world(rng, PLAIN, spine, empty=0.1)
    places = spine.units("L2")
    tree = (
        MeasuredSpine.bypassed(spine, np.arange(places))
        if bypassed
        else MeasuredSpine.from_published(spine)
    )
    if places < 3 or (bypassed and tree.alike):
        return None
    pairs = _pairs(rng, spine.levels)
    measurements = choices(tree, pairs)
    bounds = world.bounds(None if rng.random() < 0.5 else "L0")
    inside = rng.random((3, places)) < 0.5
    inside[:, 0] |= ~inside.any(axis=1)
    area, unit = np.nonzero(inside)
    areas = {"half": Areas("half", np.array(["a", "b", "c"]), area, unit)}
    target_set = _goal(rng, spine.levels, pairs, areas=bool(rng.random() < 0.6))
    estimands = target_set.estimands(pairs)
    model = trees.of_structures(PLAIN, tree, bounds, measurements, estimands, areas)
    dense = Dense.of(DenseTree.of(PLAIN, tree, measurements, bounds, areas), estimands)
    now = rng.exponential(size=len(pairs)) + 0.02
    return Case(target_set.problem(model, now, now), dense)


def solved(case: Case) -> float:
    """The least value that sequential quadratic programming finds, from the start and from even
    shares; infinite where it fails.
    """
    p = case.problem
    free, total = ~p.held, p.room
    limited = np.isfinite(p.limit) & np.isfinite(case.logs(p.spread(0.1) + p.kept)[0])
    some = p.weight > 0
    memory: dict[bytes, tuple[Array, Array]] = {}

    def rho(x: Array) -> Array:
        out = p.kept.copy()
        out[free] += np.maximum(x, 0.0) * total
        return out

    def logs(x: Array) -> tuple[Array, Array]:
        if (key := x.tobytes()) not in memory:
            memory.clear()
            f, slope = case.logs(rho(x))
            memory[key] = f, slope[:, free] * total
        return memory[key]

    def value(x: Array) -> float:
        return float(x.sum()) if p.least else float(p.weight[some] @ logs(x)[0][some])

    def slope(x: Array) -> Array:
        return np.ones(len(x)) if p.least else p.weight[some] @ logs(x)[1][some]

    def room(x: Array) -> Array:
        return np.log(p.limit[limited]) - logs(x)[0][limited]

    limits = {"type": "ineq", "fun": room, "jac": lambda x: -logs(x)[1][limited]}
    spent = {
        "type": "eq",
        "fun": lambda x: np.array([x.sum() - 1]),
        "jac": lambda x: np.ones((1, len(x))),
    }
    loss = p.loss
    seen = {"type": "ineq", "fun": lambda x: -(loss.over(rho(x) - p.kept) if loss else np.zeros(1))}
    held = [
        *([spent] if p.spends_all else []),
        *([limits] if limited.any() else []),
        *([] if loss is None else [seen]),
    ]
    best = np.inf
    for part in (0.1, 0.9):
        x = p.spread(part)[free] / total * (1.5 if p.least else 1.0)
        found = minimize(
            value,
            x,
            jac=slope,
            constraints=held,
            bounds=[(1e-9, 1e3 if p.least else 1.0)] * len(x),
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-10},
        )
        met = not limited.any() or room(found.x).min() > -1e-6
        met &= loss is None or loss.over(rho(found.x) - p.kept).max() < 1e-6
        if met and (not p.spends_all or abs(found.x.sum() - 1) < 1e-6):
            at = rho(found.x)
            best = min(best, float(at.sum()) if p.least else value(found.x))
    return best
