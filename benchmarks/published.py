"""Published counts of a run that happens in memory, over data that were prepared once, and how far
they are from the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from itertools import islice

from das.estimate.descent import full_information, topdown
from das.estimate.passes import Passes
from das.estimate.pooled import PooledSource
from das.model.constraint import LevelBounds
from das.model.histogram import Histogram
from das.model.ledger import Ledger
from das.model.measurement import Measurements
from das.model.post_processing import BiasCorrection
from das.model.release import Release
from das.model.universe import PERSONS, Planned
from das.noise import entropy
from das.release.opened import known_of
from das.spec import RunSpec
from das.truth.measure import measure
from das.truth.preparation import Prepared


def noisy(
    spec: RunSpec, prepared: Prepared, seed: int, universe: str = PERSONS.name, to: str = ""
) -> Measurements:
    """What is measured of one universe, down to the level ``to``; ``spec`` knows the tree."""
    end = tuple(prepared.measured[universe]).index(to) + 1 if to else None
    u, tree = planned(spec, universe), prepared.trees[universe]
    ledger, source = Ledger(u.plan.cost, paths=u.plan.paths), entropy.seeded(seed)
    return Measurements.from_measurements(
        m
        for level, h in islice(prepared.measured[u.name].items(), end)
        for m in measure(h, level, u.name, u.schema, tree, u.plan, source, ledger)
    )


def planned(spec: RunSpec, universe: str) -> Planned:
    return next(u for u in spec.universes if u.name == universe)


def estimated(
    spec: RunSpec,
    prepared: Prepared,
    seed: int,
    pool: Executor,
    universe: str = PERSONS.name,
    *,
    correction: BiasCorrection | None = None,
    method: type[Passes] = Passes,
) -> Release:
    """Of the tree that is measured. ``correction``: another one than that of the specification;
    ``method``: what estimates by passes."""
    spec = spec.on(prepared.trees)
    u, tree, after = planned(spec, universe), prepared.trees[universe], spec.after
    limits, found = bounds(spec, prepared, universe), noisy(spec, prepared, seed, universe)
    correct = correction or (after.bias != "none" and universe == PERSONS.name)
    passes = method(u.passes, after.tolerance)
    if after.method == "full-information":
        return full_information(
            found, tree.spine, limits, u, passes, pool, tolerance=after.tolerance, correct=correct
        )
    pooled = PooledSource.over_chains(found, tree.spine, limits, u.schema, tree.measured)
    return topdown(pooled, tree.spine, limits, u, passes, pool, correct=correct)


def lowest(prepared: Prepared, universe: str, release: Release) -> Histogram:
    """What a release has of the lowest published units."""
    tree = prepared.trees[universe]
    return tree.published(release.histograms[tree.spine.levels[-1]], len(prepared.spine.codes[-1]))


def published(
    spec: RunSpec, prepared: Prepared, seed: int, pool: Executor, universe: str = PERSONS.name
) -> Histogram:
    """One universe in the lowest published units."""
    return lowest(prepared, universe, estimated(spec, prepared, seed, pool, universe))


def estimating(spec: RunSpec, **keys: object) -> RunSpec:
    """The same with other keys of ``[estimation]``."""
    changed = spec.model_copy(update={"estimation": spec.estimation.model_copy(update=keys)})
    changed.__dict__.pop("after", None)  # a copy has what was computed of the other
    return changed


def bounds(
    spec: RunSpec, prepared: Prepared, universe: str = PERSONS.name
) -> dict[str, LevelBounds]:
    """Of the units of the tree that is measured."""
    u, spine = planned(spec, universe), prepared.trees[universe].spine
    known = {
        level: {c.name: (c.sign, c.bound) for c in prepared.constraints[u.name] if c.level == level}
        for level in spine.levels
    }
    return known_of(u.schema, spine, known).bounds(u.schema, spine)


def both(
    prepared: Prepared, universe: str, found: Histogram
) -> Iterator[tuple[str, Histogram, Histogram]]:
    """Of every level and kind of area the true histogram and the published one."""
    bottom, levels = prepared.spine.levels[-1], found.upward(prepared.spine)
    true = {
        lv: h.open("to hold published counts against it")
        for lv, h in prepared.truth[universe].items()
    }
    for level, h in levels.items():
        yield level, true[level], h
    for a in prepared.areas:
        yield a.kind, a.histogram(true[bottom]), a.histogram(found)
