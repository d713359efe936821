"""The descent: from the root down, each level is estimated, rounded and checked within what was
published above it.

From arrays to arrays: measurements come from a source, which may be files elsewhere, and nothing
here knows of it. A level is walked in batches of whole families, each a task for a pool. Who
estimates a family is an
:class:`das.estimate.family.Estimator`; rounding, bounds and the failsafe are the same for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das.engine import InProcess, Progress, Silent, in_order
from das.errors import InfeasibleError, InputError
from das.estimate.batch import estimated, families, problem_batches
from das.estimate.family import Estimator, Family
from das.model.constraint import Bounds, LevelBounds
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.post_processing import BiasCorrection
from das.model.release import Release
from das.model.schema import Schema
from das.model.solution import Certificate, Certificates
from das.model.spine import Spine
from das.model.universe import Universe
from das.rounding import Marginal, Unrounded, descendants, repair, round_estimates

if TYPE_CHECKING:
    from das.estimate.upward_pass import SubtreeEstimates


def topdown(
    source: MeasurementSource,
    spine: Spine,
    bounds: Mapping[str, LevelBounds],
    universe: Universe,
    method: Estimator,
    pool: Executor | None = None,
    progress: Progress | None = None,
    *,
    correct: bool | BiasCorrection = False,
    published: Mapping[str, Histogram] | None = None,
    to: str | None = None,
) -> Release:
    """Integer histograms of every level, root first, from measurements of each: checked against
    every bound, with the worst certificates of each level.

    ``method`` estimates the families, such as :class:`das.estimate.passes.Passes`. Without a
    ``pool``, everything is done in this process. If they are to be
    ``correct``, the lowest units are estimated without their size bias
    (:mod:`das.estimate.size_bias`). How widely households spread about their housing is estimated
    from the measurements, and the release says it. ``correct`` can also be a correction that was
    found before, for all trees that it serves (:func:`das.estimate.size_bias.correction_from`).

    *An upper tree and subtrees* (:mod:`das.model.measured_spine`) give the same result as the whole tree,
    bit by bit. A family depends on the tree above only through its parent's counts. The
    descent of an upper tree ends at the level ``to`` (by default the lowest). Its release has the
    levels down to there. A subtree continues from the ``published`` counts of its units, given by
    the name of their level. Its release has its share of the levels above, and certificates only
    for the levels below. A ``published`` parent is not repaired again
    (:mod:`das.rounding.controlled`). A descent repairs the level at which it ends, if it knows totals
    below. If known totals are by several groups, an upper tree's ``spine`` and ``bounds`` must
    reach down to the lowest level with them (:func:`das.geography.invariants.lowest_level_for`).
    Otherwise no level below needs a repair.

    Raises:
        InputError: ``method`` is not an estimator, or a query that it needs is not measured.
            The lowest units are to be corrected, and are not estimated in one pass.
        InfeasibleError: the bounds contradict each other, or the ``published`` counts.
        SolverError: an estimate failed (:func:`das.estimate.batch.estimated`)."""
    _check(method)
    pool, progress = pool or InProcess(), progress or Silent()
    end = len(spine) if to is None else spine.index(to) + 1
    done = {} if published is None else _above(spine, published)
    correction: BiasCorrection | None = None
    certificates: dict[str, Certificates] = {}
    for depth in range(len(done), end):
        level = spine.levels[depth]
        above = done[spine.levels[depth - 1]] if depth else None
        if above is not None and correct and depth == len(spine) - 1:
            progress.stage(f"spread of {universe.name}: {level}", None)
            from das.estimate.size_bias import find_correction  # few need it

            given = correct if isinstance(correct, BiasCorrection) else None
            correction = given or find_correction(
                source, spine, bounds[level], universe, above, pool
            )
        progress.stage(f"estimate {universe.name}: {level}", spine.units(level))
        tasks = _tasks(source, spine, bounds, universe, method, level, above, correction)
        known = certificates.get(level, Certificates())
        done[level], certificates[level] = _solved(tasks, known, pool, progress)
        if depth + 1 < len(spine):
            done, repaired = repair(universe.schema, spine, bounds, done, level)
            if repaired.repaired and published is not None:
                raise _unlike(universe, level)
            certificates[spine.levels[depth + 1]] = Certificates(repaired, Certificate())
    here = spine.truncated(spine.levels[end - 1])
    return Release(
        here, done, {level: bounds[level] for level in here.levels}, certificates, correction
    )


def _check(method: object) -> None:
    if not isinstance(method, Estimator):
        raise InputError(
            f"{method!r} is no estimator",
            where="method",
            remedy=(
                "give an object of a subclass of Estimator; das.topdown takes a function of a"
                " family, too"
            ),
        )


def _unlike(universe: Universe, level: str) -> InfeasibleError:
    return InfeasibleError(
        "the units below cannot hold what is published above them",
        where=f"{universe.name}, {level}",
        remedy="compare the known totals of the levels with each other",
    )


def _above(spine: Spine, published: Mapping[str, Histogram]) -> dict[str, Histogram]:
    """What is published of one level, and its sums above, root first."""
    (level, counts), *others = published.items()
    if others or counts.units != spine.units(level):
        raise InputError("it is not of all units of one level", where=f"published of {level}")
    return counts.upward(spine.truncated(level))


def full_information(
    source: MeasurementSource,
    spine: Spine,
    bounds: Mapping[str, LevelBounds],
    universe: Universe,
    method: Estimator,
    pool: Executor | None = None,
    progress: Progress | None = None,
    *,
    tolerance: float = 0.1,
    correct: bool | BiasCorrection = False,
    keep: Callable[[SubtreeEstimates], None] | None = None,
) -> Release:
    """As :func:`topdown`, each unit estimated by what its whole subtree says, its total held to
    within ``tolerance``; ``method`` takes the lowest level. ``keep`` is called with what is known
    of every level above it before the descent: the unbiased estimates are
    :meth:`das.estimate.upward_pass.SubtreeEstimates.unbiased`."""
    from das.estimate.upward_pass import upward_pass  # no other method needs it

    known = upward_pass(source, spine, bounds, universe, pool, progress)
    if keep is not None:
        keep(known)
    own = known.estimator(method, tolerance)
    return topdown(source, spine, bounds, universe, own, pool, progress, correct=correct)


@dataclass(frozen=True, eq=False)
class _Task:
    """The families of a slice of units, for one worker. It carries published values only."""

    method: Estimator
    source: MeasurementSource
    schema: Schema
    level: str
    parents: Histogram | None
    starts: NDArray[np.int64]
    bounds: Bounds
    descendants: tuple[NDArray[np.int64], Bounds] | None
    chain: tuple[str, ...]
    marginals: bool
    objective: str
    correction: BiasCorrection | None


def _tasks(
    source: MeasurementSource,
    spine: Spine,
    bounds: Mapping[str, LevelBounds],
    universe: Universe,
    method: Estimator,
    level: str,
    above: Histogram | None,
    correction: BiasCorrection | None,
) -> Iterator[_Task]:
    schema, starts = universe.schema, spine.children(level)
    answers = sum(schema.query(q).answers for q in source.queries(level))
    for start, stop in spine.batches(level, answers or schema.cells):
        first, last = (int(i) for i in np.searchsorted(starts, [start, stop]))
        yield _Task(
            method.part(level, start, stop),
            source.part(level, start, stop),
            schema,
            level,
            None if above is None else above.rows(first, last),
            starts[first : last + 1],
            bounds[level].rows(start, stop),
            descendants(spine, bounds, level, start, stop),
            universe.chain,
            universe.marginals,
            universe.objective,
            correction,
        )


def _solved(
    tasks: Iterator[_Task], worst: Certificates, pool: Executor, progress: Progress
) -> tuple[Histogram, Certificates]:
    parts = []
    for part, c in in_order(pool, _solve, tasks):
        worst = worst.merge(c)
        parts.append(part)
        progress.advance(part.units)
    return Histogram.concatenate(parts), worst


def _solve(task: _Task) -> tuple[Histogram, Certificates]:
    chain = [task.schema.query(q) for q in task.chain]
    parts, worst, first = [], Certificates(), int(task.starts[0])
    every = families(
        task.source,
        task.schema,
        task.level,
        task.parents,
        task.starts,
        task.bounds,
        task.correction,
    )
    for batch in problem_batches(every):
        unrounded, certificates = [], []
        for family, estimate in zip(batch, estimated(batch, task.method), strict=True):
            a = estimate.start - first
            below = _some(task.descendants, a, a + len(family))
            marginals = _marginals(family) if task.marginals else task.method.marginals(family)
            unrounded.append(
                Unrounded(estimate, family.bounds, chain, below, marginals, task.objective)
            )
            certificates.append(estimate.certificate)
        for c, (rounded, certificate) in zip(certificates, round_estimates(unrounded), strict=True):
            worst = worst.merge(Certificates(c, certificate))
            parts.append(rounded)
    return Histogram.concatenate(parts), worst


def _marginals(family: Family) -> tuple[Marginal, ...]:
    """The measured queries whose sums the rounding keeps: those that are much coarser than the
    cells; with the deviation of their noise, the middle one where it differs among the children."""
    out = []
    for name in family.queries:
        query = family.schema.query(name)
        if 1 < query.answers <= family.schema.cells // 2:
            variance = family.answers(name).variance
            if (measured := np.isfinite(variance)).any():
                out.append(Marginal(query, float(np.median(variance[measured])) ** 0.5))
    return tuple(out)


def _some(
    descendants: tuple[NDArray[np.int64], Bounds] | None, a: int, b: int
) -> tuple[NDArray[np.int64], Bounds] | None:
    """The descendants of children ``a:b``."""
    if descendants is None:
        return None
    first, last = np.searchsorted(descendants[0], [a, b])
    return descendants[0][first:last] - a, descendants[1].rows(int(first), int(last))
