"""Prices are those of the bound: what a target costs is by how much the least total falls with its
limit, by finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import das
from das.design.homogeneous import Homogeneous
from das.design.model import Choices, Estimand
from das.design.optimize import optimize
from das.design.problem import Problem
from das.design.target_set import AccuracyTarget, TargetSet

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
UNITS = (1, 52, 3221, 73057, 217740, 6_500_000)
MARGINALS = (
    "total",
    "votingage",
    "hispanic",
    "cenrace",
    "hispanic * cenrace",
    "votingage * cenrace",
    "votingage * hispanic",
    "votingage * hispanic * cenrace",
)
#: The step, in logs of a limit, and how exactly the differences are taken.
STEP, GAP = 0.02, 1e-6


def national() -> Problem:
    """All levels and marginals of production's plan, no worse than they are: totals of the nation
    and the States are exact."""
    persons = das.load_spec("configs/pl94-2010.toml", ["geography.spine=tabulation"]).persons
    rho = {(d.level, d.query): float(d.cost) for d in persons.plan.plain}
    every = [(lv, q) for lv in LEVELS for q in MARGINALS if q != "total" or lv not in LEVELS[:2]]
    target_set = TargetSet("least", tuple(AccuracyTarget(Estimand(*pair)) for pair in every))
    measurements = Choices.alike(tuple(rho), "all")
    asked = target_set.estimands(measurements.pairs)
    model = Homogeneous.for_schema(persons.schema, LEVELS, UNITS, measurements, asked, 1)
    now = np.array(list(rho.values()))
    return target_set.problem(model, now, now)


def test_a_price_is_what_the_total_falls_by_on_the_national_list() -> None:
    problem = national()
    found = optimize(problem, 2e-4, 3000)
    assert found.gap <= 2e-4
    assert found.price.sum() == pytest.approx(1)
    price = {str(e): p for e, p in zip(problem.model.estimands, found.price, strict=True)}
    # not one price for all, which is where a search begins
    assert price["Tract:hispanic * cenrace"] > 5 * price["County:hispanic * cenrace"]
    costliest = np.argsort(-found.price)[:3]
    for i in [*costliest, int(np.argsort(-found.price)[12])]:
        logs = []
        for sign in (-1, 1):
            limit = problem.limit.copy()
            limit[i] *= np.exp(sign * STEP)
            logs.append(np.log(optimize(replace(problem, limit=limit), GAP, 5000).value))
        slope = (logs[0] - logs[1]) / (2 * STEP)
        assert found.price[i] == pytest.approx(slope, rel=0.01, abs=5e-4), i


def test_a_search_that_is_cut_off_has_the_prices_of_its_bound() -> None:
    """The gap says how far it is; its prices are not those that it begins with."""
    problem = national()
    found = optimize(problem, 2e-4, 10)
    assert found.gap > 2e-4
    begun = problem.limited / problem.limited.sum()
    assert np.abs(found.price - begun).max() > 0.01
