"""The constrained descent with full information: what it holds on to, and that it uses what is
below.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from das.errors import PrivacyError
from das.estimate.batch import estimated, families
from das.estimate.upward_pass import upward_pass
from das.geography import bounds as geography
from das.model.budget import Neighbours, PlannedMeasurement
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.plan import Plan
from das.model.redistricting import PL94
from das.model.spine import Spine
from das.model.universe import PERSONS, Universe
from tests.estimate.world import memory, passes, random_spine, random_world

QUERIES = ("total", "hhgq", "hispanic * cenrace", "detailed")
VARIANCE = {"total": 4.0, "hhgq": 50.0, "hispanic * cenrace": 50.0, "detailed": 20.0}


@pytest.mark.parametrize("seed", range(3))
def test_a_root_without_a_known_total_keeps_the_unbiased_one(seed: int) -> None:
    """Non-negativity would otherwise leak into it: hundreds of persons in 14,000."""
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 2, 3)
    world = random_world(rng, PL94, spine, size=2000.0, facilities=0.3, empty=0.0)
    bounds = world.bounds()
    source = world.measured(rng, QUERIES, lambda level, q: VARIANCE[q])
    known = upward_pass(source, spine, bounds, world.universe())
    value, error = next(
        (v, e) for level, q, v, e in known.unbiased() if (level, q.name) == ("L0", "total")
    )
    (root,) = families(source, PL94, "L0", None, spine.children("L0"), bounds["L0"].dense())
    method = known.estimator(passes(spine, [["total"], QUERIES[1:]]))
    x = estimated([root], method.part("L0", 0, 1))[0].x.sum()
    assert abs(x - value[0, 0]) < 0.2
    assert abs(x - world.truth["L0"].totals()[0]) < 6 * error[0, 0] + 0.2


def test_large_counts_are_not_drawn_towards_zero() -> None:
    """A vague prior must not weigh on what is measured: 1.5e8 persons of one cell, noise of
    variance 5,000.
    """
    rng = np.random.default_rng(7)
    zero = np.zeros(1, dtype=np.int64)
    states = np.array([f"{i:02d}" for i in range(10)])
    spine = Spine(("US", "State"), (np.array(["US"]), states), (zero, np.zeros(10, dtype=np.int64)))
    truth = np.zeros((10, PL94.cells), dtype=np.int64)
    truth[:, 126] = 15_000_000
    bounds = geography.bounds(PL94, spine, None, None, None)
    queries = {n: PL94.query(n) for n in ("total", "detailed")}
    z = []
    for _ in range(12):
        held = {}
        for level, x in (("US", truth.sum(axis=0)[None]), ("State", truth)):
            for name, query in queries.items():
                answers = query.answer(x)
                noise = np.rint(rng.normal(size=answers.shape) * 5000**0.5).astype(np.int64)
                held[level, name] = (answers + noise, np.full(len(answers), 5000.0))
        known = upward_pass(memory(held), spine, bounds, Universe(PERSONS, PL94))
        value, error = next(
            (v, e) for level, q, v, e in known.unbiased() if (level, q.name) == ("US", "detailed")
        )
        z.append((value[0, 126] - truth[:, 126].sum()) / error[0, 126])
    assert abs(np.mean(z)) < 5 / len(z) ** 0.5  # it was -10.9


def test_a_plan_cannot_charge_less_than_its_noise_costs() -> None:
    dear = PlannedMeasurement("US", "total", DISCRETE_GAUSSIAN, Fraction(1), Fraction(1, 100))
    with pytest.raises(PrivacyError, match="does not cost 1/100"):
        Plan(Neighbours.BOUNDED, (dear,))
