"""The two passes of full information over a tree: up it, to what each subtree knows of its root, and down again, to
unbiased estimates. The algebra is in :mod:`das.estimate.information`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.engine import InProcess, Progress, Silent, in_order
from das.errors import InputError
from das.estimate import information as full
from das.estimate.estimator import Array, Estimator
from das.estimate.information import FromBelow, Information, Unbiased
from das.estimate.informed import Informed
from das.estimate.modes import Modes
from das.model.constraint import Bounds
from das.model.level_bounds import LevelBounds
from das.model.measurement import MeasurementSource
from das.model.query import Query
from das.model.spine import Spine
from das.model.universe import Universe


@dataclass(frozen=True, eq=False)
class Collapsed:
    """What is known of every level above the lowest: by the subtree of each unit, and by its children alone.
    ``queries`` are those measured at each level."""

    spine: Spine
    modes: Modes
    queries: Mapping[str, Mapping[str, Query]]
    information: Mapping[str, Information]
    below: Mapping[str, FromBelow]

    def down(self) -> Iterator[tuple[str, Unbiased]]:
        """The pass down: of every level above the lowest, what all measurements of the tree say."""
        above: Unbiased | None = None
        for depth, level in enumerate(self.spine.levels[:-1]):
            known = self.information[level]
            if above is None:
                above = full.root(self.modes, known)
            else:
                up = self.spine.levels[depth - 1]
                above = full.descend(self.modes, known, self.spine.parent[depth], above, self.below[up],
                                     self.information[up].support)  # fmt: skip
            yield level, above

    def unbiased(self) -> Iterator[tuple[str, Query, Array, Array]]:
        """``(level, query, values, standard errors)`` of every level above the lowest, of the total and of the queries
        measured there, from all measurements of the tree; arrays ``(units, answers)``."""
        total = self.modes.schema.query("total")
        for level, known in self.down():
            for query in {"total": total, **self.queries[level]}.values():
                yield level, query, *full.answers(self.modes, known, query)

    def estimator(self, own: Estimator, tolerance: float = 0.1) -> Informed:
        """For the constrained descent; at the lowest level, where a unit has nothing below it, it is ``own``."""
        return Informed(self.modes, self.information, own, tolerance=tolerance)


def collapse(
    source: MeasurementSource,
    spine: Spine,
    bounds: Mapping[str, LevelBounds],
    universe: Universe,
    pool: Executor | None = None,
    progress: Progress | None = None,
) -> Collapsed:
    """The pass up: each level says what it knows of the one above.

    Raises:
        InputError: the spine has one level, or the detailed query is not measured at the lowest.
    """
    pool, progress, schema = pool or InProcess(), progress or Silent(), universe.schema
    queries = {level: {q: schema.query(q) for q in source.queries(level)} for level in spine.levels}
    lowest = spine.levels[-1]
    if len(spine) == 1 or all(q.answers < schema.cells for q in queries[lowest].values()):
        raise InputError(f"full information needs the detailed query at {lowest!r}, and a level above it",
                         where=f"measurements of {universe.name}",
                         remedy="measure 'detailed' there, or use the method 'topdown'")  # fmt: skip
    modes = Modes.of(schema, [q for by_name in queries.values() for q in by_name.values()])
    progress.stage(f"collect {universe.name}: {lowest}", spine.units(lowest))
    parts = []
    for units, part in in_order(pool, _collect, _leaves(source, spine, modes, queries[lowest], bounds[lowest])):
        parts.append(part)
        progress.advance(units)
    below = {spine.levels[-2]: FromBelow.concatenate(parts)}
    information: dict[str, Information] = {}
    for depth in range(len(spine) - 2, -1, -1):
        level, n = spine.levels[depth], len(spine.codes[depth])
        information[level] = full.own(source, level, modes, queries[level], bounds[level].dense(), 0, n, below[level])
        if depth:
            up = spine.levels[depth - 1]
            below[up] = full.sum_up(modes, information[level], spine.parent[depth], spine.units(up))
    return Collapsed(spine, modes, queries, information, below)


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
    source: MeasurementSource, spine: Spine, modes: Modes, queries: Mapping[str, Query], bounds: LevelBounds
) -> Iterator[_Leaves]:
    level = spine.levels[-1]
    for start, stop in spine.batches(level, sum(q.answers for q in queries.values())):
        yield _Leaves(source.part(level, start, stop), level, tuple(queries), modes, bounds.rows(start, stop),
                      start, stop, spine.parent[-1][start:stop])  # fmt: skip


def _collect(leaves: _Leaves) -> tuple[int, FromBelow]:
    """How many units, and what they say of their parents."""
    queries = {name: leaves.modes.schema.query(name) for name in leaves.queries}
    own = full.own(leaves.source, leaves.level, leaves.modes, queries, leaves.bounds, leaves.start, leaves.stop)
    parent = leaves.parent - leaves.parent[0]
    return leaves.stop - leaves.start, full.sum_up(leaves.modes, own, parent, int(parent[-1]) + 1)
