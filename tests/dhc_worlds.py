"""Simulated worlds of the DHC over a tree, a few thousand persons each; and the
budgets of the levels of that tree.
"""

from __future__ import annotations

import numpy as np

from das.files.simulators.people import generator
from das.model import tabulation
from das.model.budget import Neighbours
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine, UnitClasses
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.plan import Plan, Strategy
from das.model.redistricting import PL94
from das.model.spine import Spine
from das.publications.dhc.simulation.records import SimulatedDhc, simulate

LEVELS = ("State", "County", "Tract", "Block")
SIZES = (3, 12, 60)  #: counties, tracts, blocks
#: Whose budget each level has.
BUDGETS = dict(zip(LEVELS, ("State", "County", "Tract_Subset", "Block"), strict=True))


def tree(counties: int, tracts: int, blocks: int) -> Spine:
    block = np.arange(blocks)
    tract, county = block * tracts // blocks, block * counties // blocks
    named = {"Tract": tract, "County": county, "Block": block}
    return Spine.from_frame({k: [f"{x:04d}" for x in v] for k, v in named.items()}, list(LEVELS))


def world(seed: int, blocks: int = SIZES[2]) -> SimulatedDhc:
    """Blocks of some households each, a fifth of them with group quarters."""
    rng = np.random.default_rng(seed)
    occupied = rng.integers(0, 25, size=blocks)
    adults, minors = occupied + rng.poisson(occupied), rng.poisson(0.6 * occupied)
    blocks_of, cells = [], []
    for b in range(blocks):
        races = rng.integers(0, 9, size=adults[b] + minors[b])
        here = [
            ((int(i < adults[b])) * 2 + int(rng.random() < 0.3)) * 63 + r
            for i, r in enumerate(races)
        ]
        kind = int(rng.choice([1, 2, 4, 5, 6, 7]))
        here += [((kind * 2 + int(rng.random() < 0.8)) * 2) * 63] * (
            int(rng.integers(1, 9)) if rng.random() < 0.2 else 0
        )
        blocks_of += [b] * len(here)
        cells += here
    persons = Histogram.from_triplets(
        blocks,
        PL94.cells,
        np.array(blocks_of),
        np.array(cells),
        np.ones(len(cells), dtype=np.int64),
    )
    return simulate(generator(seed), persons, occupied + 3, occupied)


def counts(
    people: SimulatedDhc, homes: SimulatedDhc, spine: Spine
) -> dict[str, dict[str, Histogram]]:
    """Persons of one world, units and households of another."""
    lowest = {"persons": people.persons(), "units": homes.units(), "households": homes.households()}
    return {name: h.upward(spine) for name, h in lowest.items()}


def sealed(of: dict[str, dict[str, Histogram]]) -> dict[str, dict[str, Confidential[Histogram]]]:
    return {name: {level: Confidential(h) for level, h in hs.items()} for name, hs in of.items()}


def budgeted(of: Strategy) -> Strategy:
    """A strategy of production over the levels of :func:`tree`."""
    return Strategy(of.schema, {level: of.rho[name] for level, name in BUDGETS.items()}, of.outer)


def on_tree(of: Strategy, measured: MeasuredSpine) -> Plan:
    """How each unit of a tree is measured, only children bypassed."""
    paths = tabulation.conceivable(LEVELS)
    plan = Plan.from_allocation(
        of.cost,
        DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        of.allocation,
        tabulation.classes(LEVELS, paths),
        paths,
    )
    return plan.along(UnitClasses.from_tree(measured).paths)
