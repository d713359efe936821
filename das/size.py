r"""The memory and time that a run will take, estimated beforehand from the schema, the plan and the
tree.

Memory is what the largest piece of work holds, in bytes. That piece has :math:`C` children of one
parent, with :math:`n` cells and :math:`m` answers to queries that are not the cells. The arrays of
the solver are :math:`C \times n`. Its matrices are :math:`n \times n` up to 2,048 cells, and
:math:`m \times m` beyond. Full information holds :math:`2^p` matrices of :math:`d \times d` for
each unit above the lowest level. It also holds matrices of :math:`n \times n` for each parent, for
any number of cells (:mod:`das.estimate.information`). :math:`n` counts the cells where the parent has
somebody. The factors were fitted to measured runs, and hold within a factor of two. The times are
for one core, and rougher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import UserError
from das.files.machine import memory as machine
from das.model.post_processing import MANY
from das.model.spine import Spine
from das.model.universe import Planned
from das.spec import RunSpec

Array = NDArray[np.float64]
Held = Mapping[str, NDArray[np.int64]]

_BASE = 400e6  # what is loaded, and the reports
_BATCH = 4_000_000 * 8  # the values of one batch
_BATCHES = 6  # held at a time
_ARRAYS = 14  # children x cells, of the solver and the rounding
_MATRICES = 7  # cells x cells
_CORRECTED = 1.4  # times the work of the lowest level: 2.60 to 3.55 s for Rhode Island's blocks
_CONTRASTS = 6  # copies of a level's information
_FLOPS = 5e9  # a second, on one core
_ITERATIONS = 150


@dataclass(frozen=True)
class Size:
    """What a universe takes: its cells, the bytes of the largest piece of work, and the seconds of
    one core. ``where`` is the level that takes most."""

    universe: str
    cells: int
    memory: float
    seconds: float
    where: str


def sizes(
    spec: RunSpec,
    spines: Mapping[str, Spine] | None = None,
    held: Mapping[str, Held] | None = None,
    own: Sequence[str] | None = None,
) -> list[Size]:
    """The size of each universe, from its measured tree. ``held`` is the number of occupied cells
    of each unit at each level. Without the trees, only the root counts, which gives a lower bound.
    A part has levels that are not its ``own``; only its own levels count."""
    own = spec.geography.levels[: None if spines else 1] if own is None else own
    return [
        _size(spec, u, (spines or {}).get(u.name), (held or {}).get(u.name), own)
        for u in spec.universes
    ]


def _size(
    spec: RunSpec, universe: Planned, spine: Spine | None, held: Held | None, own: Sequence[str]
) -> Size:
    cells, levels = universe.schema.cells, spec.geography.levels
    full = spec.estimation.method == "full-information"
    found, seconds = [(0.0, own[0])], 1.0
    if full:
        from das.estimate.information import Contrasts  # with the solver, slow to load

        queries_of = [universe.schema.query(d.query) for d in universe.plan.measurements]
        contrasts = Contrasts.for_queries(universe.schema, queries_of)
    for depth, level in ((levels.index(level), level) for level in own):
        queries = [
            universe.schema.query(q).answers
            for q in dict.fromkeys(d.query for d in universe.plan.at(level))
        ]
        units, children, there = 1, np.ones(1), np.full(1, float(cells))
        if spine is not None and depth:
            units, children = spine.units(level), np.diff(spine.children(level)).astype(float)
            there = np.full(len(children), float(cells))
            if held is not None:
                there = held[levels[depth - 1]].astype(float)
        last = depth == len(levels) - 1
        informed, answers = full and not last, sum(q for q in queries if q < cells)
        memory, work = _families(children, there, answers, len(queries), informed)
        if spec.estimation.bias != "none" and universe is spec.persons and last:
            memory, work = 2 * memory, _CORRECTED * work
        values = units * sum(queries)
        found += [(memory, level), (_BATCHES * min(_BATCH, 8.0 * values), level)]
        seconds += work + values * 4e-7
        if informed:
            numbers = units * (len(contrasts.kinds) * contrasts.d**2 + 3 * cells)
            found.append((8.0 * _CONTRASTS * numbers, level))
            seconds += units * len(contrasts.kinds) * contrasts.d**3 * 8 / _FLOPS
    memory, where = max(found)
    return Size(universe.name, cells, _BASE + memory, seconds, where)


def _families(
    children: Array, cells: Array, answers: int, queries: int, full: bool
) -> tuple[float, float]:
    """Bytes of the largest family, and seconds of all; ``children`` and ``cells`` of each."""
    dense = np.full(len(cells), True) if full else cells <= MANY
    memory = 8.0 * _ARRAYS * children * cells
    memory += np.where(dense, 8.0 * _MATRICES * cells**2, 24.0 * answers**2 + 9.0 * answers * cells)
    per_child = np.where(dense, 2 * cells**2, 20.0 * queries * cells + 2.0 * answers**2)
    work = np.where(dense, 3 * cells**3, 3.0 * answers**3) + _ITERATIONS * children * per_child
    only = children == 1  # an only child is its parent
    if len(children) > 1:
        work = np.where(only, 0.0, work)
    return float(memory.max(initial=0.0)), float(work.sum()) / _FLOPS + 2e-3 * len(cells)


def refuse_beyond(sizes: Sequence[Size], workers: int) -> None:
    """Raise :class:`UserError` if memory is too small, before anything is measured."""
    limit = machine()
    largest = max(sizes, key=lambda s: s.memory)
    needed = largest.memory + (max(workers, 1) - 1) * max(largest.memory - _BASE, _BASE)
    if limit is not None and needed > limit:
        raise UserError(
            f"this run needs about {needed / 1e9:.1f} GB of memory at {largest.where!r}"
            f" ({largest.universe}: {largest.cells:,} cells), and this machine has"
            f" {limit / 1e9:.1f}",
            where="memory",
            remedy=(
                "nothing was measured; use fewer workers, coarser attributes or the method"
                " 'topdown', put a level between those where a place has many parts, or give"
                " --ignore-memory"
            ),
        )
