"""Limits on privacy loss: which are left out, the bound, and a general solver beside the search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from das.design.homogeneous import Homogeneous
from das.design.model import Choices, Estimand
from das.design.optimize import optimize
from das.design.problem import MET, LossLimits, Problem
from das.design.target_set import AccuracyTarget, LossLimit, TargetSet, limit_losses
from das.errors import SpecError
from tests.design.random_problems import Case, make, solved
from tests.estimate.world import PLAIN

GAP = 1e-3
PAIRS = [("A", "total"), ("A", "detailed"), ("B", "total"), ("B", "age"), ("B", "detailed")]
NOW = np.array([3.0, 1.0, 2.0, 0.5, 1.5])
TARGETS = (AccuracyTarget(Estimand("B", "total")), AccuracyTarget(Estimand("A", "detailed")))


def problem(hold: tuple[tuple[str, str], ...] = ()) -> Problem:
    target_set = TargetSet("best", TARGETS, hold=hold)
    measurements = Choices.alike(PAIRS, "all")
    asked = target_set.estimands(PAIRS)
    model = Homogeneous.for_schema(PLAIN, ("A", "B"), (1, 7), measurements, asked, -1)
    return target_set.problem(model, NOW, NOW)


def limit(row: list[float], most: float) -> LossLimit:
    return LossLimit("a guard", np.array(row), most)


def random_losses(rng: np.random.Generator, p: Problem) -> list[LossLimit]:
    """Of some measurements, each to a part of what the start spends on them, or to a little more.
    What is kept is always within them."""
    out = []
    for _ in range(int(rng.integers(1, 4))):
        row = (rng.random(len(p.start)) < 0.6).astype(float)
        kept, now = float(row @ p.kept), float(row @ p.start)
        if now > kept:
            out.append(limit(list(row), kept + (now - kept) * float(rng.uniform(0.3, 1.2))))
    return out


def test_a_general_solver_finds_nothing_better_within_the_limits() -> None:
    """With and without limits on variances as well, which the start meets."""
    tried = {True: 0, False: 0}
    for seed in range(70):
        case = make(seed, "tree" if seed % 30 == 29 else "numbers")
        p = case.problem
        if p.least or p.over(p.variances(p.start)).max() > 0:
            continue
        losses = random_losses(np.random.default_rng(seed), p)
        if p.limited.any():  # no tighter than the start, or nothing might meet both
            losses = [
                replace(loss, most=max(loss.most, float(loss.row @ p.start))) for loss in losses
            ]
        p = limit_losses(p, losses)
        if p.loss is None:
            continue
        found, other = optimize(p, GAP, 400), solved(Case(p, case.dense))
        tried[bool(p.limited.any())] += 1
        assert found.gap <= GAP, (seed, found.gap)
        assert p.exceeded(found.rho, found.variances) <= MET
        assert found.rho.sum() <= p.start.sum() * (1 + MET)
        assert found.bound <= other + 1e-5
        assert found.value <= other + GAP
    assert min(tried.values()) > 2, tried


def test_the_bound_holds_at_every_corner_of_the_limits() -> None:
    """For any multipliers, against the linear program that it bounds; it reaches it for the best."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        rows = np.vstack([rng.random((3, 6)) < 0.5, np.ones(6)]).astype(float)
        loss, c = LossLimits(rows, rng.uniform(0.5, 3, 4)), rng.uniform(0, 2, 6)
        best = linprog(-c, A_ub=rows, b_ub=loss.room)
        for multiplier in rng.exponential(size=(20, 4)):
            assert loss.costliest(c, multiplier) >= -best.fun - 1e-9
        of_best = -best.ineqlin.marginals * loss.room
        assert loss.costliest(c, of_best + 1e-15) == pytest.approx(-best.fun, rel=1e-6)


def test_a_limit_that_follows_from_another_is_left_out() -> None:
    p = problem()
    assert limit_losses(p, []) is p
    # the same as the total, and looser than it
    for most in (float(NOW.sum()), 100.0):
        same = limit_losses(p, [limit([1, 1, 1, 1, 1], most)])
        assert same.loss is None
        assert same.start.sum() == pytest.approx(NOW.sum())
    less = limit_losses(p, [limit([1, 1, 1, 1, 1], 4.0)])  # then there is less to share out
    assert less.loss is None
    assert less.start.sum() == pytest.approx(4.0)
    some = limit_losses(p, [limit([0, 1, 0, 1, 1], 2.0), limit([0, 0, 0, 1, 1], 2.5)])
    assert some.loss is not None
    assert some.loss.room.tolist() == pytest.approx([2.0, NOW.sum()])


def test_a_limit_on_all_but_what_is_held_is_the_total() -> None:
    """That of neighbours who agree, with the State's total as it is."""
    p = problem(hold=(("A", "total"),))
    found = limit_losses(p, [limit([0, 1, 1, 1, 1], 5.0), limit([1, 1, 1, 1, 1], 8.0)])
    assert found.loss is None
    assert found.start.sum() == pytest.approx(NOW.sum())
    tighter = limit_losses(p, [limit([0, 1, 1, 1, 1], 4.0), limit([1, 1, 1, 1, 1], 8.0)])
    assert tighter.start[0] == NOW[0]
    assert tighter.start[1:].sum() == pytest.approx(4.0)


def test_what_is_held_can_take_all_of_a_limit() -> None:
    with pytest.raises(SpecError, match="held or kept takes all of it"):
        limit_losses(problem(hold=(("A", "total"),)), [limit([1, 1, 0, 0, 0], 3.0)])
    # a limit on what is held alone is no limit on the others
    held_alone = limit_losses(problem(hold=(("A", "total"),)), [limit([1, 0, 0, 0, 0], 1.0)])
    assert held_alone.loss is None
