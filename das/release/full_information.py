"""The two passes of full-information estimation over the files of a release: up the tree, and down again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress, in_order
from das.estimate import information as full
from das.estimate.information import FromBelow, Information, Unbiased
from das.estimate.modes import Modes
from das.files.measurements import nmf
from das.files.measurements.source import open_source
from das.files.release import estimates
from das.files.run import run_directory
from das.model.constraint import Bounds
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.spec import Universe

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Collapsed:
    """What is known of every level above the lowest: by the subtree of each unit, and by its children alone."""

    modes: Modes
    information: Mapping[str, Information]
    below: Mapping[str, FromBelow]


@dataclass(frozen=True)
class _Leaves:
    """A slice of the lowest units, for one worker."""

    release: Path
    universe: str
    schema: Schema
    level: str
    queries: tuple[str, ...]
    modes: Modes
    bounds: Bounds
    start: int
    stop: int
    parent: NDArray[np.int64]


def collapse(
    release: Path, spine: Spine, universe: Universe, bounds: Mapping[str, Bounds], pool: Executor, progress: Progress
) -> Collapsed:
    """The pass up: each level says what it knows of the one above."""
    queries = {level: _queries(universe, level) for level in spine.levels}
    modes = Modes.of(universe.schema, [q for by_name in queries.values() for q in by_name.values()])
    lowest = spine.levels[-1]
    progress.stage(f"collect {universe.name}: {lowest}", spine.units(lowest))
    parts = []
    for units, part in in_order(pool, _collect, _leaves(release, spine, universe, modes, bounds[lowest])):
        parts.append(part)
        progress.advance(units)
    below = {spine.levels[-2]: FromBelow.concatenate(parts)}
    information: dict[str, Information] = {}
    source = nmf.NmfReader(run_directory.nmf_folder(release, universe.name), spine)
    for depth in range(len(spine) - 2, -1, -1):
        level, n = spine.levels[depth], len(spine.codes[depth])
        information[level] = full.own(source, level, modes, queries[level], bounds[level], 0, n, below[level])
        if depth:
            up = spine.levels[depth - 1]
            below[up] = full.sum_up(modes, information[level], spine.parent[depth], spine.units(up))
    return Collapsed(modes, information, below)


def write_estimates(known: Collapsed, spine: Spine, universe: Universe, folder: Path, progress: Progress) -> None:
    """The pass down: unbiased estimates of every level above the lowest, with their standard errors, to files."""
    progress.stage(f"unbiased estimates: {universe.name}", len(spine) - 1)
    above: Unbiased | None = None
    for depth, level in enumerate(spine.levels[:-1]):
        if above is None:
            above = full.root(known.modes, known.information[level])
        else:
            up = spine.levels[depth - 1]
            above = full.descend(known.modes, known.information[level], spine.parent[depth], above,
                                 known.below[up], known.information[up].support)  # fmt: skip
        estimates.write(folder, level, universe.schema, spine, _answers(known.modes, above, universe, level))
        progress.advance()


def _answers(modes: Modes, unbiased: Unbiased, universe: Universe, level: str) -> Iterator[tuple[Query, Array, Array]]:
    queries = {"total": universe.schema.query("total"), **_queries(universe, level)}
    for query in queries.values():
        yield query, *full.answers(modes, unbiased, query)


def _queries(universe: Universe, level: str) -> dict[str, Query]:
    return {d.query: universe.schema.query(d.query) for d in universe.plan.at(level)}


def _leaves(release: Path, spine: Spine, universe: Universe, modes: Modes, bounds: Bounds) -> Iterator[_Leaves]:
    level = spine.levels[-1]
    queries = _queries(universe, level)
    for start, stop in spine.batches(level, sum(q.answers for q in queries.values())):
        yield _Leaves(release, universe.name, universe.schema, level, tuple(queries), modes,
                      bounds.rows(start, stop), start, stop, spine.parent[-1][start:stop])  # fmt: skip


def _collect(leaves: _Leaves) -> tuple[int, FromBelow]:
    """How many units, and what they say of their parents."""
    source = open_source(leaves.release, leaves.universe)
    queries = {name: leaves.schema.query(name) for name in leaves.queries}
    own = full.own(source, leaves.level, leaves.modes, queries, leaves.bounds, leaves.start, leaves.stop)
    parent = leaves.parent - leaves.parent[0]
    return leaves.stop - leaves.start, full.sum_up(leaves.modes, own, parent, int(parent[-1]) + 1)
