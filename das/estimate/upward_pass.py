"""The fold of full information over a tree: up it, to what each subtree knows of its root, and
down again, to unbiased estimates. The algebra is in :mod:`das.estimate.information`, the walk in
:mod:`das.fold`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from das.engine import InProcess, Progress, Silent, in_order
from das.errors import InputError
from das.estimate import information as full
from das.estimate.family import Array, Estimator
from das.estimate.information import Contrasts, Information
from das.estimate.informed import FullInformationEstimator
from das.estimate.summed import Unbiased, answers, descend, root
from das.fold import Tiers, down, up
from das.model.constraint import LevelBounds
from das.model.measurement import MeasurementSource
from das.model.query import Query
from das.model.spine import Spine
from das.model.universe import Universe

Queries = Mapping[str, Mapping[str, Query]]


@dataclass(frozen=True, eq=False)
class Gathering:
    """The steps of the way up, over a tree or over some families of its lowest units
    (:meth:`das.fold.Tiers.families`). ``start`` is the first of these units. ``queries`` are those
    measured at each level; ``bounds`` are those of these units."""

    contrasts: Contrasts
    tiers: Tiers
    source: MeasurementSource
    queries: Queries
    bounds: Mapping[str, LevelBounds]
    start: int = 0

    def condition(self, tier: int, told: Information | None) -> Information:
        """Condition units on their own measurements and known totals. Parts are not measured, and
        have only their known totals."""
        level, ends = self.tiers.level[tier], (self.start, self.start + self.tiers.units(tier))
        if told is None or level:
            of_level = self.contrasts, self.queries[level], self.bounds[level].dense()
            known = full.own(self.source, level, *of_level, *ends, told)
        else:
            known = replace(told, total=self.tiers.total[tier])
        return known.settled(self.tiers.alone[tier])

    def combine(self, tier: int, known: Information) -> Information:
        """What units, or parts, say of those above them."""
        return full.sum_up(
            self.contrasts, known, self.tiers.parents[tier], self.tiers.units(tier - 1)
        )

    def families(self, spine: Spine) -> Iterator[Gathering]:
        """The same over some of the lowest units at a time, for workers."""
        level = spine.levels[-1]
        queries, bounds = self.queries[level], self.bounds[level]
        for start, stop in spine.batches(level, max(1, sum(q.answers for q in queries.values()))):
            source, tiers = self.source.part(level, start, stop), self.tiers.families(start, stop)
            here = {level: bounds.part(start, stop)}
            yield Gathering(self.contrasts, tiers, source, {level: queries}, here, start)

    def collected(self) -> tuple[int, Information]:
        """How many lowest units there are in some families, and what they say of their parents."""
        lowest = len(self.tiers) - 1
        *_, (_, _, told) = up(self, None, lowest, 1)
        assert told is not None
        return self.tiers.units(lowest), told


@dataclass(frozen=True, eq=False)
class SubtreeEstimates:
    """The estimates of every tier above the lowest level: ``known`` from each unit's subtree,
    ``told`` from its children alone. An upper tree has these for all its levels. A subtree has them
    for the levels below the upper tree, and ``told`` also for its units of the upper tree.
    ``queries`` are those measured at each level."""

    spine: Spine
    contrasts: Contrasts
    tiers: Tiers
    queries: Queries
    known: Mapping[int, Information]
    told: Mapping[int, Information]

    @property
    def information(self) -> dict[str, Information]:
        """The estimates of the units of each level from their subtrees."""
        return {
            self.tiers.level[t]: known for t, known in self.known.items() if self.tiers.level[t]
        }

    def below(self, level: str) -> Information:
        """What those below the units of a level say of these."""
        return self.told[self.tiers.level.index(level)]

    @property
    def leaves(self) -> Information:
        """What the lowest units say of those above them."""
        return self.below(self.spine.levels[-2])

    def restrict(self, tier: int, above: Unbiased) -> Unbiased:
        """The step of the way down."""
        told, parent = self.told[tier - 1], self.tiers.parents[tier]
        return descend(self.contrasts, self.known[tier], parent, above, told)

    def down(self, above: Unbiased | None = None) -> Iterator[tuple[str, Unbiased]]:
        """The way down: of every level that is walked, root first, what all measurements of the
        tree say. That of a subtree goes on from what they say of the units above (``above``), which
        are those of the upper tree."""
        first, last = min(self.known, default=0), max(self.known, default=-1)
        if above is None:
            above, first = root(self.contrasts, self.known[0]), 1
            yield self.tiers.level[0], above
        for tier, found in down(self, above, first, last):
            if self.tiers.level[tier]:
                yield self.tiers.level[tier], found

    def unbiased(self, above: Unbiased | None = None) -> Iterator[tuple[str, Query, Array, Array]]:
        """``(level, query, values, standard errors)`` of every level that is walked, of the total
        and of the queries measured there, from all measurements of the tree; arrays ``(units,
        answers)``. ``above`` as in :meth:`down`."""
        total = self.contrasts.schema.query("total")
        for level, found in self.down(above):
            for query in {"total": total, **self.queries[level]}.values():
                yield level, query, *answers(self.contrasts, found, query)

    def estimator(self, own: Estimator, tolerance: float = 0.1) -> FullInformationEstimator:
        """For the constrained descent; at the lowest level, where a unit has nothing below it, it
        is ``own``."""
        information = self.information
        measured = {level: tuple(self.queries[level].values()) for level in information}
        return FullInformationEstimator(
            self.contrasts, information, measured, own, tolerance=tolerance
        )


def upward_pass(
    source: MeasurementSource,
    spine: Spine,
    bounds: Mapping[str, LevelBounds],
    universe: Universe,
    pool: Executor | None = None,
    progress: Progress | None = None,
    *,
    told: Information | None = None,
    leaves: Information | None = None,
    to: str | None = None,
    asked: Mapping[str, Sequence[str]] | None = None,
) -> SubtreeEstimates:
    """The way up: each level says what it knows of the one above.

    *An upper tree and subtrees* (:mod:`das.model.measured_spine`): that of a subtree ends with what is
    said of its units of the level ``to``, ``below(to)``, and goes no further up. That of an upper
    tree begins with what the subtrees so said of its lowest units, in their order (``told``). Both
    work in the algebra of all queries that the universe was asked (``universe.measurements``),
    whichever of them are in the source. ``asked``: by level the queries that units were asked
    anywhere, where the source has only those of a part's own.

    Nearly all of the cost is in what the lowest units say of those above them. ``leaves``: that,
    where an earlier way up the same tree has found it (:attr:`SubtreeEstimates.leaves`).

    Raises:
        InputError: the spine has one level, or the detailed query is not measured at the lowest,
            where units have siblings."""
    levels = spine.levels[0 if to is None else spine.index(to) + 1 :]
    way = _way(source, spine, {level: bounds[level] for level in levels}, universe)
    tiers = way.tiers
    if told is None:
        _check_lowest(way, spine, universe)
        told = leaves
        if told is None:
            told = _leaves(way, spine, universe, pool or InProcess(), progress or Silent())
        last = tiers.level.index(spine.levels[-2])
    else:
        last = len(tiers) - 1
    known, said = {}, {last: told}
    first = 0 if to is None else tiers.level.index(to) + 1
    for tier, here, above in up(way, told, last, first):
        known[tier] = here
        if above is not None:
            said[tier - 1] = above
    queries = way.queries
    if asked is not None:
        schema = universe.schema
        queries = {level: {q: schema.query(q) for q in asked.get(level, ())} for level in levels}
    return SubtreeEstimates(spine, way.contrasts, tiers, queries, known, said)


def _way(
    source: MeasurementSource, spine: Spine, bounds: Mapping[str, LevelBounds], universe: Universe
) -> Gathering:
    """Over the levels that have ``bounds``."""
    schema = universe.schema
    queries = {level: {q: schema.query(q) for q in source.queries(level)} for level in bounds}
    everywhere = {d.query: schema.query(d.query) for d in universe.measurements}
    measured = [q for by_name in queries.values() for q in by_name.values()]
    contrasts = Contrasts.for_queries(schema, [*everywhere.values(), *measured])
    return Gathering(contrasts, Tiers.of_bounds(spine, bounds), source, queries, bounds)


def _check_lowest(way: Gathering, spine: Spine, universe: Universe) -> None:
    """Raises :class:`InputError` if lowest units with siblings have no measurement of their
    cells."""
    lowest, cells = spine.levels[-1], universe.schema.cells
    queries = way.queries.get(lowest, {})
    alone = not queries and way.tiers.alone[-1].all()  # its parents are measured for it
    if len(spine) == 1 or not (alone or any(q.answers == cells for q in queries.values())):
        raise InputError(
            f"full information needs the detailed query at {lowest!r}, and a level above it",
            where=f"measurements of {universe.name}",
            remedy="measure 'detailed' there, or use the method 'topdown'",
        )


def _leaves(
    way: Gathering, spine: Spine, universe: Universe, pool: Executor, progress: Progress
) -> Information:
    """What the lowest units say of those above them."""
    level, told = spine.levels[-1], []
    progress.stage(f"collect {universe.name}: {level}", spine.units(level))
    for units, part in in_order(pool, Gathering.collected, way.families(spine)):
        told.append(part)
        progress.advance(units)
    return Information.concatenate(told)
