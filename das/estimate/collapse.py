"""The two passes of full information over a tree: up it, to what each subtree knows of its root,
and down again, to unbiased estimates. The algebra is in :mod:`das.estimate.information`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das.engine import InProcess, Progress, Silent, in_order
from das.errors import InputError
from das.estimate import information as full
from das.estimate.estimator import Array, Estimator
from das.estimate.information import Information, only
from das.estimate.informed import Informed
from das.estimate.modes import Modes
from das.estimate.unbiased import Unbiased, answers, descend, root
from das.model.constraint import Bounds, JointTotals
from das.model.level_bounds import LevelBounds
from das.model.measurement import MeasurementSource
from das.model.query import Query
from das.model.spine import Spine
from das.model.universe import Universe


@dataclass(frozen=True, eq=False)
class KnownParts:
    """The parts of a level whose totals are known jointly: of each of its units the ``part``, of
    each part its ``parent``, and what the units of a part say of it."""

    part: NDArray[np.intp]
    parent: NDArray[np.int64]
    information: Information

    @staticmethod
    def of(
        modes: Modes, known: Information, joint: JointTotals, parent: NDArray[np.int64]
    ) -> KnownParts:
        """From what the units know, and the parent of each."""
        home = joint.homes(parent)
        told = full.sum_up(modes, known, joint.part, len(home))
        return KnownParts(joint.part, home, replace(told, total=joint.total).settled(only(home)))


@dataclass(frozen=True, eq=False)
class Collapsed:
    """What is known of every level above the lowest: by the subtree of each unit, and by its
    children alone (``below``); in a trunk of all of its levels, in a shard of those that are below
    the trunk, and ``below`` of its units of that, too. ``queries`` are those measured at each
    level; ``parts`` are of the level with joint totals, if there is one."""

    spine: Spine
    modes: Modes
    queries: Mapping[str, Mapping[str, Query]]
    information: Mapping[str, Information]
    below: Mapping[str, Information]
    parts: Mapping[str, KnownParts]

    @property
    def leaves(self) -> Information:
        """What the lowest units say of those above them."""
        return self.below[self.spine.levels[-2]]

    def down(self, above: Unbiased | None = None) -> Iterator[tuple[str, Unbiased]]:
        """The pass down: of every level that is walked, root first, what all measurements of the
        tree say. That of a shard goes on from what they say of the units above (``above``), which
        are those of the trunk."""
        for depth, level in enumerate(self.spine.levels):
            if level not in self.information:
                continue
            known = self.information[level]
            if above is None:
                above = root(self.modes, known)
            else:
                above = self.descend(level, known, above, self.below[self.spine.levels[depth - 1]])
            yield level, above

    def descend(
        self, level: str, known: Information, above: Unbiased, below: Information
    ) -> Unbiased:
        """One level of the pass down, of which the units know ``known``."""
        parent = self.spine.parent[self.spine.index(level)]
        if level in self.parts:
            parts = self.parts[level]
            above = descend(self.modes, parts.information, parts.parent, above, below)
            parent, below = parts.part, parts.information
        return descend(self.modes, known, parent, above, below)

    def unbiased(self, above: Unbiased | None = None) -> Iterator[tuple[str, Query, Array, Array]]:
        """``(level, query, values, standard errors)`` of every level that is walked, of the total
        and of the queries measured there, from all measurements of the tree; arrays ``(units,
        answers)``. ``above`` as in :meth:`down`."""
        total = self.modes.schema.query("total")
        for level, known in self.down(above):
            for query in {"total": total, **self.queries[level]}.values():
                yield level, query, *answers(self.modes, known, query)

    def estimator(self, own: Estimator, tolerance: float = 0.1) -> Informed:
        """For the constrained descent; at the lowest level, where a unit has nothing below it, it
        is ``own``.
        """
        measured = {level: tuple(self.queries[level].values()) for level in self.information}
        return Informed(self.modes, self.information, measured, own, tolerance=tolerance)


def collapse(
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
) -> Collapsed:
    """The pass up: each level says what it knows of the one above.

    *A trunk and shards* (:mod:`das.model.shards`): that of a shard ends with what is said of its
    units of the level ``to``, ``below[to]``, and goes no further up. That of a trunk begins with
    what the shards so said of its lowest units, in their order (``told``). Both work in the algebra
    of all queries that the universe was asked (``universe.draws``), whichever of them are in the
    source. ``asked``: by level the queries that units were asked anywhere, where the source has
    only those of a part's own.

    Nearly all of the cost is in what the lowest units say of those above them. ``leaves``: that,
    where an earlier pass up the same tree has found it (:attr:`Collapsed.leaves`).

    Raises:
        InputError: the spine has one level, or the detailed query is not measured at the lowest,
            where units have siblings.
    """
    pool, progress, schema = pool or InProcess(), progress or Silent(), universe.schema
    first = 0 if to is None else spine.index(to) + 1
    queries = {
        level: {q: schema.query(q) for q in source.queries(level)} for level in spine.levels[first:]
    }
    everywhere = {d.query: schema.query(d.query) for d in universe.draws}
    modes = Modes.of(
        schema,
        [*everywhere.values(), *(q for by_name in queries.values() for q in by_name.values())],
    )
    last, lowest = len(spine) - 1, spine.levels[-1]
    if told is None:
        alone = (
            not queries[lowest] and _alone(bounds[lowest].joint, spine.parent[last]).all()
        )  # its parents are measured for it
        if len(spine) == 1 or not (
            alone or any(q.answers == schema.cells for q in queries[lowest].values())
        ):
            raise InputError(
                f"full information needs the detailed query at {lowest!r}, and a level above it",
                where=f"measurements of {universe.name}",
                remedy="measure 'detailed' there, or use the method 'topdown'",
            )
        last -= 1
        given = (source, spine, modes, queries[lowest], bounds[lowest], universe, pool, progress)
        told = _of_leaves(*given) if leaves is None else leaves
    below, information, parts = {spine.levels[last]: told}, {}, {}
    for depth in range(last, first - 1, -1):
        level, n, parent = spine.levels[depth], len(spine.codes[depth]), spine.parent[depth]
        known = full.own(
            source, level, modes, queries[level], bounds[level].dense(), 0, n, below[level]
        )
        joint = bounds[level].joint
        information[level] = known = known.settled(_alone(joint, parent) & (depth > 0))
        if joint is not None:
            parts[level] = KnownParts.of(modes, known, joint, parent)
        if depth:
            up = spine.levels[depth - 1]
            below[up] = _told(modes, known, parts.get(level), parent, spine.units(up))
    if asked is not None:
        queries = {level: {q: schema.query(q) for q in asked.get(level, ())} for level in queries}
    return Collapsed(spine, modes, queries, information, below, parts)


def _of_leaves(
    source: MeasurementSource,
    spine: Spine,
    modes: Modes,
    queries: Mapping[str, Query],
    bounds: LevelBounds,
    universe: Universe,
    pool: Executor,
    progress: Progress,
) -> Information:
    """What the lowest units say of those above them."""
    level, told = spine.levels[-1], []
    progress.stage(f"collect {universe.name}: {level}", spine.units(level))
    for units, part in in_order(pool, _collect, _leaves(source, spine, modes, queries, bounds)):
        told.append(part)
        progress.advance(units)
    return Information.concatenate(told)


def _alone(joint: JointTotals | None, parent: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The units that are only children, of their parent or of a part of its children."""
    return only(parent if joint is None else joint.part)


def _told(
    modes: Modes,
    known: Information,
    parts: KnownParts | None,
    parent: NDArray[np.int64],
    parents: int,
) -> Information:
    """What units, or the parts that they make up, say of their parents."""
    if parts is None:
        return full.sum_up(modes, known, parent, parents)
    return full.sum_up(modes, parts.information, parts.parent, parents)


@dataclass(frozen=True, eq=False)
class _Leaves:
    """A slice of the lowest units, for one worker."""

    source: MeasurementSource
    level: str
    queries: tuple[str, ...]
    modes: Modes
    bounds: Bounds
    start: int
    stop: int
    parent: NDArray[np.int64]


def _leaves(
    source: MeasurementSource,
    spine: Spine,
    modes: Modes,
    queries: Mapping[str, Query],
    bounds: LevelBounds,
) -> Iterator[_Leaves]:
    level = spine.levels[-1]
    for start, stop in spine.batches(level, max(1, sum(q.answers for q in queries.values()))):
        yield _Leaves(
            source.part(level, start, stop),
            level,
            tuple(queries),
            modes,
            bounds.rows(start, stop),
            start,
            stop,
            spine.parent[-1][start:stop],
        )


def _collect(leaves: _Leaves) -> tuple[int, Information]:
    """How many units, and what they say of their parents."""
    queries = {name: leaves.modes.schema.query(name) for name in leaves.queries}
    own = full.own(
        leaves.source, leaves.level, leaves.modes, queries, leaves.bounds, leaves.start, leaves.stop
    )
    parent = leaves.parent - leaves.parent[0]
    joint = leaves.bounds.joint
    known = own.settled(_alone(joint, parent))
    parts = None if joint is None else KnownParts.of(leaves.modes, known, joint, parent)
    return leaves.stop - leaves.start, _told(
        leaves.modes, known, parts, parent, int(parent[-1]) + 1
    )
