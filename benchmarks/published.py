"""Published counts of a run that happens in memory, over data that were prepared once, and how far they are from the truth."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor

from das.estimate.descent import full_information, topdown
from das.estimate.passes import Passes
from das.estimate.pooled import Pooled
from das.model.histogram import Histogram
from das.model.ledger import Ledger
from das.model.level_bounds import LevelBounds
from das.model.measurement import Measurements
from das.noise import entropy
from das.release.post import bounds_of
from das.spec import RunSpec
from das.truth.measure import measure
from das.truth.preparation import Prepared


def published(spec: RunSpec, prepared: Prepared, seed: int, pool: Executor) -> Histogram:
    """The persons of the lowest published units."""
    spec = spec.on(prepared.trees)
    u, tree = spec.persons, prepared.trees[spec.persons.name]
    ledger, source = Ledger(u.plan.cost, paths=u.plan.paths), entropy.seeded(seed)
    noisy = Measurements.of(
        m for level, h in prepared.measured[u.name].items()
        for m in measure(h, level, u.name, u.schema, tree, u.plan, source.of(level), ledger)
    )  # fmt: skip
    after, limits = spec.after, bounds(spec, prepared)
    passes, prior = Passes(u.passes, after.tolerance), after.prior != "none"
    if after.method == "full-information":
        out = full_information(
            noisy, tree.spine, limits, u, passes, pool, tolerance=after.tolerance, housing_prior=prior
        )
    else:
        pooled = Pooled.of(noisy, tree.spine, limits, u.schema, tree.measured)
        out = topdown(pooled, tree.spine, limits, u, passes, pool, housing_prior=prior)
    return tree.published(out.histograms[tree.spine.levels[-1]], len(prepared.spine.codes[-1]))


def bounds(spec: RunSpec, prepared: Prepared) -> dict[str, LevelBounds]:
    """Of the units of the tree that is measured."""
    u, spine = spec.persons, prepared.trees[spec.persons.name].spine
    known = {level: {c.name: (c.sign, c.bound) for c in prepared.constraints[u.name] if c.level == level}
             for level in spine.levels}  # fmt: skip
    return bounds_of(u.schema, spine, known)


def both(prepared: Prepared, universe: str, lowest: Histogram) -> Iterator[tuple[str, Histogram, Histogram]]:
    """Of every level and kind of area the true histogram and the published one."""
    bottom, levels = prepared.spine.levels[-1], lowest.upward(prepared.spine)
    true = {lv: h.open("to hold published counts against it") for lv, h in prepared.truth[universe].items()}
    for level, h in levels.items():
        yield level, true[level], h
    for a in prepared.areas:
        yield a.kind, a.histogram(true[bottom]), a.histogram(lowest)
