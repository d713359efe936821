"""A world cut into an upper tree and subtrees, each with only its own data. Its passes exchange
results through a file."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.engine import InProcess
from das.estimate import size_bias
from das.estimate.descent import topdown
from das.estimate.family import Estimator, Family
from das.estimate.information import Information
from das.estimate.pooled import DescendantMeasurements, PooledSource
from das.estimate.summed import Unbiased
from das.estimate.upward_pass import upward_pass
from das.geography.invariants import Invariants, lowest_level_for
from das.model.constraint import LevelBounds, Limits
from das.model.histogram import Histogram
from das.model.measurement import Measurement, Measurements, MeasurementSource
from das.model.post_processing import BiasCorrection
from das.model.release import Release
from das.model.schema import Schema
from das.model.solution import Certificate
from das.model.spine import Spine
from das.model.universe import Universe
from das.rounding import Marginal

Ints = NDArray[np.int64]
Arrays = Mapping[str, NDArray[Any]]
Estimates = Mapping[tuple[str, str], tuple[NDArray[np.float64], NDArray[np.float64]]]
Walk = tuple[MeasurementSource, Estimator]


def filed(arrays: Arrays) -> Arrays:
    """Written and read again."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    return dict(np.load(file))


@dataclass(frozen=True, eq=False)
class Noted(Estimator):
    """Another estimator, with a note of every answer to the last bit."""

    inner: Estimator
    notes: list[str] = field(default_factory=list)

    def estimate(self, family: Family) -> tuple[NDArray[np.float64], Certificate]:
        return self.estimates([family])[0]

    def estimates(
        self, families: Sequence[Family]
    ) -> list[tuple[NDArray[np.float64], Certificate]]:
        said = self.inner.estimates(families)
        for family, (x, _) in zip(families, said, strict=True):
            self.notes.append(sha256(x.tobytes() + family.cell.tobytes()).hexdigest())
        return said

    def marginals(self, family: Family) -> tuple[Marginal, ...]:
        return self.inner.marginals(family)

    def part(self, level: str, start: int, stop: int) -> Estimator:
        return Noted(self.inner.part(level, start, stop), self.notes)


@dataclass(frozen=True, eq=False)
class Walked:
    """What came of a tree: histograms by level, notes of its estimates, unbiased estimates by level
    and query, and the correction.
    """

    histograms: Mapping[str, Histogram]
    notes: list[str]
    unbiased: Estimates
    correction: BiasCorrection | None
    solves: Mapping[str, int]

    def is_bit_by_bit(self, other: Walked) -> None:
        assert list(self.histograms) == list(other.histograms)
        for level, h in self.histograms.items():
            assert h.same_as(other.histograms[level]), level
        assert sorted(self.notes) == sorted(other.notes)
        assert self.unbiased.keys() == other.unbiased.keys()
        for key, found in self.unbiased.items():
            assert all(map(np.array_equal, found, other.unbiased[key])), key
        assert self.correction == other.correction
        assert self.solves == other.solves


@dataclass(frozen=True, eq=False)
class Tree:
    """All of a tree, or a part of it, and what is measured and known of its own levels."""

    spine: Spine
    source: Measurements
    known: Invariants
    universe: Universe
    measured: Callable[[str], NDArray[np.bool_]] | None = None

    @cached_property
    def bounds(self) -> dict[str, LevelBounds]:
        return self.known.bounds(self.universe.schema, self.spine)

    def walk(self, method: Estimator, *, informed: bool, correct: bool = False) -> Walked:
        """As a whole."""
        given, notes, unbiased = (self.spine, self.bounds, self.universe), Noted(method), {}
        source: MeasurementSource = self.source
        if informed:
            known = upward_pass(self.source, *given)
            unbiased = {
                (level, q.name): (value, error) for level, q, value, error in known.unbiased()
            }
            notes = Noted(known.estimator(method))
        else:
            source = PooledSource.over_chains(
                self.source, self.spine, self.bounds, self.universe.schema, self.measured
            )
        release = topdown(source, *given, notes, correct=correct)
        return Walked(
            release.histograms, notes.notes, unbiased, release.correction, _solves({}, release)
        )


@dataclass(frozen=True, eq=False)
class Cut:
    """A tree cut at ``level``; ``units`` of it are those of each subtree."""

    whole: Tree
    level: str
    units: Sequence[Ints]

    @property
    def schema(self) -> Schema:
        return self.whole.universe.schema

    @cached_property
    def end(self) -> str:
        """Down to where the upper tree's tree goes."""
        k = self.whole.known
        totals = [level for level, q, _ in k.counts if q.name == "total"] + (
            [k.joint[0]] if k.joint else []
        )
        return lowest_level_for(
            self.whole.spine.levels, self.level, totals, limited=k.limits is not None
        )

    @cached_property
    def kept(self) -> list[list[Ints]]:
        """Of each subtree by level the numbers of its units in the whole tree."""
        return [self.whole.spine.kept(self.level, units) for units in self.units]

    @cached_property
    def subtrees(self) -> list[Tree]:
        return [self._subtree(i) for i in range(len(self.units))]

    def _subtree(self, number: int) -> Tree:
        whole, kept = self.whole, self.kept[number]
        spine, depth = (
            whole.spine.restricted(self.level, self.units[number]),
            whole.spine.index(self.level),
        )
        below = whole.spine.levels[depth + 1 :]
        at = dict(zip(whole.spine.levels, kept, strict=True))
        source = Measurements(
            {
                (level, q): Measurement(level, q, 0, m.values[at[level]], m.variance[at[level]])
                for (level, q), m in whole.source.held.items()
                if level in below
            }
        )
        k = whole.known
        limits = None if k.limits is None else Limits.from_bounds(*k.limits.some(kept[-1]))
        counts = tuple(
            (level, q, values[at[level]]) for level, q, values in k.counts if level in below
        )
        joint = (
            (k.joint[0], k.joint[1].some(at[k.joint[0]]))
            if k.joint and k.joint[0] in below
            else None
        )
        every = whole.measured
        measured = None if every is None else lambda level: every(level)[at[level]]
        return Tree(spine, source, Invariants(limits, counts, joint), whole.universe, measured)

    @cached_property
    def upper_tree(self) -> Tree:
        """Of what subtrees tell, and what is measured and known of its own levels."""
        whole = self.whole
        here = whole.spine.truncated(self.level).levels
        joint = whole.known.joint
        own = Invariants(
            None,
            tuple(c for c in whole.known.counts if c[0] in here),
            joint if joint and joint[0] in here else None,
        )
        told = [
            Invariants.of_arrays(
                self.schema, filed(s.known.up(self.schema, s.spine, self.end).to_arrays())
            )
            for s in self.subtrees
        ]
        units = [kept[whole.spine.index(self.end)] for kept in self.kept]
        source = Measurements({key: m for key, m in whole.source.held.items() if key[0] in here})
        return Tree(
            whole.spine.truncated(self.end),
            source,
            own.with_subtrees(told, units),
            whole.universe,
            whole.measured,
        )

    def walk(self, method: Estimator, *, informed: bool, correct: bool = False) -> Walked:
        """The upper tree, and then each subtree."""
        notes: list[str] = []
        above, walks, unbiased = (
            self._informed(method, notes) if informed else self._pooled(method, notes)
        )
        upper_tree, universe = self.upper_tree, self.whole.universe
        release = topdown(
            above[0], upper_tree.spine, upper_tree.bounds, universe, above[1], to=self.level
        )
        solves = _solves({}, release)
        published = [
            {self.level: _rows(release.histograms[self.level], units)} for units in self.units
        ]
        correction: BiasCorrection | None = None
        if correct:
            published, correction = self._correction(walks, published, solves)
        below = [
            topdown(
                source,
                s.spine,
                s.bounds,
                universe,
                own,
                correct=correction or False,
                published=given,
            )
            for s, (source, own), given in zip(self.subtrees, walks, published, strict=True)
        ]
        histograms = dict(release.histograms)
        for depth in range(self.depth + 1, len(self.whole.spine)):
            level = self.whole.spine.levels[depth]
            every = Histogram.concatenate([r.histograms[level] for r in below])
            histograms[level] = _rows(every, self._order(depth))
        for subtree in below:
            _solves(solves, subtree)
        return Walked(histograms, notes, unbiased, correction, solves)

    @property
    def depth(self) -> int:
        return self.whole.spine.index(self.level)

    def _order(self, depth: int) -> Ints:
        """Sorts units of all subtrees, one after the other, as the whole tree has them."""
        return np.argsort(np.concatenate([kept[depth] for kept in self.kept]))

    def _informed(self, method: Estimator, notes: list[str]) -> tuple[Walk, list[Walk], Estimates]:
        """Sources and estimators of upper tree and subtrees, and the unbiased estimates."""
        universe = self.whole.universe
        said = [
            upward_pass(s.source, s.spine, s.bounds, universe, to=self.level) for s in self.subtrees
        ]
        up = [Information.of_arrays(filed(known.below(self.level).to_arrays())) for known in said]
        leaves = [Information.of_arrays(filed(known.leaves.to_arrays())) for known in said]
        said = [
            upward_pass(s.source, s.spine, s.bounds, universe, leaves=known, to=self.level)
            for s, known in zip(self.subtrees, leaves, strict=True)
        ]
        known = upward_pass(
            self.upper_tree.source,
            self.upper_tree.spine.truncated(self.level),
            self.upper_tree.bounds,
            universe,
            told=Information.concatenate(up).rows(self._order(self.depth)),
        )
        unbiased = {(level, q.name): (value, error) for level, q, value, error in known.unbiased()}
        *_, (_, above) = known.down()
        parts = [
            part.unbiased(Unbiased.of_arrays(filed(above.rows(units).to_arrays())))
            for part, units in zip(said, self.units, strict=True)
        ]
        for rows in zip(*parts, strict=True):
            level, query = rows[0][:2]
            order = self._order(self.whole.spine.index(level))
            values, errors = (np.concatenate([row[i] for row in rows])[order] for i in (2, 3))
            unbiased[level, query.name] = values, errors
        walks: list[Walk] = [
            (s.source, Noted(part.estimator(method), notes))
            for s, part in zip(self.subtrees, said, strict=True)
        ]
        return (self.upper_tree.source, Noted(known.estimator(method), notes)), walks, unbiased

    def _pooled(self, method: Estimator, notes: list[str]) -> tuple[Walk, list[Walk], Estimates]:
        own, schema, t = Noted(method, notes), self.schema, self.upper_tree
        handed = [
            DescendantMeasurements.below_level(
                s.source, s.spine, s.bounds, schema, self.level, s.measured
            )
            for s in self.subtrees
        ]
        handed_up = DescendantMeasurements.gathered(
            [DescendantMeasurements.of_arrays(filed(e.to_arrays())) for e in handed], self.units
        )
        source = PooledSource.over_chains(
            t.source,
            t.spine.truncated(self.level),
            t.bounds,
            schema,
            t.measured,
            handed_up=handed_up,
        )
        walks: list[Walk] = [
            (
                PooledSource.over_chains(
                    s.source, s.spine, s.bounds, schema, s.measured, under=self.level
                ),
                own,
            )
            for s in self.subtrees
        ]
        return (source, own), walks, {}

    def _correction(
        self, walks: list[Walk], published: list[dict[str, Histogram]], solves: dict[str, int]
    ) -> tuple[list[dict[str, Histogram]], BiasCorrection]:
        """Down to the lowest level but one, what is published of that; and what is seen of the
        lowest.
        """
        universe, (*_, up, lowest) = self.whole.universe, self.whole.spine.levels
        looks, out = [], []
        for s, (source, own), given in zip(self.subtrees, walks, published, strict=True):
            done = topdown(source, s.spine, s.bounds, universe, own, published=given, to=up)
            _solves(solves, done)
            parents = done.histograms[up]
            seen = size_bias.sample_households(
                source,
                s.spine,
                s.bounds[lowest],
                universe,
                parents,
                InProcess(),
                lowest=self.whole.spine.units(lowest),
            )
            looks.append(size_bias.DispersionSample.of_arrays(filed(seen.to_arrays())))
            out.append({up: parents})
        return out, size_bias.correction_from(looks)


def _solves(solves: dict[str, int], release: Release) -> dict[str, int]:
    """With those of a release."""
    for level, c in release.certificates.items():
        solves[level] = solves.get(level, 0) + c.estimation.solves
    return solves


def _rows(h: Histogram, units: Ints) -> Histogram:
    """Some units, in any order."""
    return Histogram.concatenate([h.rows(int(u), int(u) + 1) for u in units])
