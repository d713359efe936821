"""Small random worlds in memory: a tree, dwellings, people, and their noisy measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from das.estimate.descent import topdown
from das.estimate.family import Estimator
from das.estimate.passes import Passes
from das.geography import bounds as geography
from das.model.constraint import JointTotals, LevelBounds, Limits
from das.model.histogram import Histogram
from das.model.measurement import Measurement, Measurements, MeasurementSource
from das.model.redistricting import E2E_1940, PL94
from das.model.release import Release
from das.model.schema import Attribute, Schema
from das.model.solution import Certificate, Certificates
from das.model.spine import Spine
from das.model.universe import PERSONS, Universe

SMALL = Schema(
    "small",
    (
        Attribute("home", ("household", "a", "b")),
        Attribute("age", ("u", "o")),
        Attribute("race", ("x", "y", "z")),
    ),
    impossible=({"home": ("b",), "age": ("u",)},),
    dwelling="home",
)
PLAIN = Schema("plain", (Attribute("age", ("u", "o")), Attribute("race", ("x", "y", "z"))))
CHAINS = {
    "small": ("home * race", "home"),
    "plain": ("race",),
    "pl94": ("hhgq * hispanic * cenrace", "hhgq * hispanic"),
    "1940-e2e": ("hhgq * hispanic * race", "hhgq * hispanic"),
}


#: Values and variances, by level and query.
Held = Mapping[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.float64]]]


def memory(held: Held) -> Measurements:
    """The measurements of whole levels."""
    return Measurements.from_measurements(
        Measurement(*key, 0, *value) for key, value in held.items()
    )


@dataclass(frozen=True)
class World:
    schema: Schema
    spine: Spine
    truth: Mapping[str, Histogram]
    structures: NDArray[np.int64] | None

    def bounds(
        self, total_level: str | None = None, part: NDArray[np.intp] | None = None, **switches: bool
    ) -> dict[str, LevelBounds]:
        """With the totals of the units of a level known or, with ``part``, of some of them
        together.
        """
        total: NDArray[np.int64] | JointTotals | None = None
        if total_level is not None:
            total = self.truth[total_level].totals()
            if part is not None:
                total = JointTotals(part, np.bincount(part, weights=total).astype(np.int64))
        found = geography.lowest(self.schema, self.structures, **switches)
        return geography.bounds(
            self.schema,
            self.spine,
            None if found is None else Limits.from_bounds(*found),
            total,
            total_level,
        )

    def measured(
        self,
        rng: np.random.Generator,
        queries: Sequence[str],
        variance: float | Callable[[str, str], float],
        *,
        noise: float = 1.0,
    ) -> Measurements:
        """Answers with noise of ``variance``, times ``noise``: 0 for answers that are right."""
        held = {}
        for level in self.spine.levels:
            for q in queries:
                v = variance(level, q) if callable(variance) else variance
                true = self.truth[level].answer(self.schema.query(q))
                error = np.rint(noise * rng.normal(0, np.sqrt(v), true.shape)).astype(np.int64)
                held[level, q] = (true + error, np.full(len(true), float(v)))
        return memory(held)

    def universe(self, *, chain: bool = True) -> Universe:
        return Universe(
            PERSONS, self.schema, chain=CHAINS.get(self.schema.name, ()) if chain else ()
        )

    def descend(
        self,
        source: MeasurementSource,
        bounds: Mapping[str, LevelBounds],
        method: Estimator | Sequence[Sequence[str]],
        *,
        chain: bool = True,
    ) -> tuple[Release, Certificate, Certificate]:
        """The release from root to lowest level, with the worst certificates of estimation and of
        rounding; ``method`` may be the passes of every level."""
        if not isinstance(method, Estimator):
            method = passes(self.spine, method)
        release = topdown(source, self.spine, bounds, self.universe(chain=chain), method)
        worst = reduce(Certificates.merge, release.certificates.values())
        return release, worst.estimation, worst.rounding


def random_spine(rng: np.random.Generator, depth: int, most: int) -> Spine:
    codes, parents = [np.array(["R"])], [np.zeros(1, dtype=np.int64)]
    for _ in range(depth - 1):
        sizes = rng.integers(1, most + 1, len(codes[-1]))
        parent = np.repeat(np.arange(len(sizes)), sizes)
        rank = np.concatenate([np.arange(n) for n in sizes])
        parents.append(parent.astype(np.int64))
        codes.append(
            np.array([f"{codes[-1][p]}{r:02d}" for p, r in zip(parent, rank, strict=True)])
        )
    return Spine(tuple(f"L{i}" for i in range(depth)), tuple(codes), tuple(parents))


def random_world(
    rng: np.random.Generator,
    schema: Schema,
    spine: Spine,
    *,
    size: float = 3.0,
    facilities: float = 0.3,
    empty: float = 0.3,
) -> World:
    """First dwellings (a share ``empty`` of the places has no housing, a share ``facilities`` of
    each type of facility), then people: ``size`` of them in each place's housing, one at least in
    each facility."""
    places = spine.units(spine.levels[-1])
    dense = np.zeros((places, schema.cells), dtype=np.int64)
    if schema.dwelling is None:
        group, structures = np.zeros(schema.cells, dtype=np.intp), None
        people = np.where(rng.random((places, 1)) < empty, 0, rng.poisson(size, (places, 1)))
    else:
        group, groups = (
            schema.level_of(schema.dwelling),
            len(schema.attribute(schema.dwelling).levels),
        )
        structures = (rng.random((places, groups)) < facilities) * rng.integers(
            1, 4, (places, groups)
        )
        structures[:, 0] = rng.poisson(2, places) * (rng.random(places) > empty)
        crowd = rng.poisson(size, (places, groups)) * (rng.random((places, groups)) < 0.3)
        people = np.where(structures > 0, structures + crowd, 0)
        people[:, 0] = np.where(structures[:, 0] > 0, rng.poisson(size, places), 0)
    for g in range(people.shape[1]):
        cells = np.flatnonzero(schema.possible & (group == g))
        for u in np.flatnonzero(people[:, g]):
            np.add.at(dense[u], rng.choice(cells, people[u, g]), 1)
    unit, cell = np.nonzero(dense)
    lowest = Histogram.from_triplets(places, schema.cells, unit, cell, dense[unit, cell])
    truth = {spine.levels[-1]: lowest}
    for depth in range(len(spine) - 1, 0, -1):
        lowest = lowest.up(spine.parent[depth], len(spine.codes[depth - 1]))
        truth[spine.levels[depth - 1]] = lowest
    return World(schema, spine, truth, structures)


def passes(spine: Spine, names: Sequence[Sequence[str]], **options: float) -> Passes:
    """The same passes at every level."""
    return Passes({level: tuple(map(tuple, names)) for level in spine.levels}, **options)


SCHEMAS = {s.name: s for s in (SMALL, PLAIN, E2E_1940, PL94)}
