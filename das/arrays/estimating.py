"""Estimation in memory: from noisy measurements and what is public to counts of every level and records.

Nothing here can see the truth: it is the descent of every release (:mod:`das.estimate.descent`), from a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das.arrays.noisy import Noisy, expect, whole
from das.arrays.result import LevelCounts, LevelEstimates, Result
from das.engine import Progress, executor
from das.engine.display import display
from das.errors import InputError
from das.estimate import descent
from das.estimate.collapse import collapse
from das.estimate.estimator import Array, Estimator
from das.estimate.family import Family
from das.estimate.passes import Passes
from das.geography.bounds import lowest
from das.geography.invariants import known_bounds
from das.model.constraint import Bounds
from das.model.kinds import PERSONS
from das.model.query import Query
from das.model.schema import Schema
from das.model.solution import Certificate
from das.model.spine import Spine
from das.model.universe import Universe

METHODS = ("topdown", "full-information")


def bounds(
    schema: Schema,
    spine: Spine,
    exact: Mapping[tuple[str, str], ArrayLike] | None = None,
    structures: ArrayLike | None = None,
) -> dict[str, Bounds]:
    """What each unit of each level may hold, from what is public.

    ``exact``: by level and query, counts that are known: integers ``(units, answers)``, or ``(units,)`` of totals; such
    as ``noisy.exact``. ``structures`` ``(lowest units, levels of the schema's dwelling)``: housing units in the first
    column, facilities by type in the others; nobody lives where there is none, and each facility holds somebody.

    Raises:
        InputError: arrays of another shape, or counts that contradict each other.
        InfeasibleError: no histogram meets all of it.
    """
    for key in exact or {}:
        expect(key, tuple, "bounds, exact", 'name a level and a query, such as ("State", "total")')
    known = [(level, schema.query(q), whole(counts, spine.units(level), schema.query(q).answers, f"bounds, {level}/{q}"))
             for (level, q), counts in (exact or {}).items()]  # fmt: skip
    _agree(spine, known)
    if structures is None:
        return known_bounds(schema, spine, known)
    if schema.dwelling is None:
        raise InputError("structures need a schema that says who lives in one", where="bounds",
                         remedy="name the schema's attribute of dwelling, or leave them out")  # fmt: skip
    width = len(schema.attribute(schema.dwelling).levels)
    held = whole(structures, spine.units(spine.levels[-1]), width, "bounds, structures")
    return known_bounds(schema, spine, known, lowest(schema, held))


def topdown(
    noisy: Noisy,
    spine: Spine,
    bounds: Mapping[str, Bounds] | None = None,
    method: str | Estimator | Callable[[Family], Array] = "topdown",
    *,
    workers: int = 1,
    progress: bool | Progress = False,
) -> Result:
    """LevelCounts of every level, from the root down: integers, none negative, which add up and meet every bound.

    ``bounds`` are those of :func:`das.bounds`; absent, those that ``noisy.exact`` gives. ``method``: ``"topdown"``, the
    production passes, each level from its own measurements given the level above; ``"full-information"``, as
    :func:`das.full_information`; or an estimator of one's own. That is a function of a family
    (:class:`das.estimate.family.Family`) that answers an array ``(children, cells)``, none below zero, with the parent's
    counts as sums over the children; or an object that is a :class:`das.estimate.estimator.Estimator`. Whatever it says
    is rounded, mended and checked as ours is.

    With several ``workers`` a script calls it under ``if __name__ == "__main__":``, and a function of one's own lies in a
    module. ``progress`` is that of :func:`das.run`.

    Raises:
        InputError: another spine than that of the measurements, a level without one, an unknown method.
        InfeasibleError: bounds that contradict each other.
        SolverError: an estimator whose answer is none.
    """
    expect(noisy, Noisy, "topdown", "give what das.measure, das.read_noisy or das.Noisy.of returns")
    expect(spine, Spine, "topdown", "give the spine of the measurements, as a second argument")
    noisy.check(spine)
    if isinstance(method, str) and method not in METHODS:
        raise InputError(f"there is no method {method!r}", where="topdown",
                         remedy=f"say {' or '.join(map(repr, METHODS))}, or give an estimator")  # fmt: skip
    here = _known(noisy, spine, bounds)
    universe = _universe(noisy.schema, here)
    estimates: dict[str, LevelEstimates] = {}
    with display(progress) as shown, executor(workers) as pool:
        own = _estimator(method, noisy, spine)
        if method == "full-information" and len(spine) > 1:
            collapsed = collapse(noisy.source, spine, here, universe, pool, shown)
            estimates = _estimates(collapsed.unbiased(), noisy, spine)
            own = collapsed.estimator(own)
        release = descent.topdown(noisy.source, spine, here, universe, own, pool, shown)
    counts = {lv: LevelCounts(h, lv, noisy.schema, spine, noisy.private) for lv, h in release.histograms.items()}
    return Result(noisy.schema, spine, counts, here, release.certificates, estimates, noisy.private)


def full_information(
    noisy: Noisy,
    spine: Spine,
    bounds: Mapping[str, Bounds] | None = None,
    *,
    workers: int = 1,
    progress: bool | Progress = False,
) -> Result:
    """As :func:`topdown`, with every measurement of the tree speaking for every unit above and below it. The result's
    ``estimates`` are unbiased, with standard errors, of every level but the lowest. The detailed query must be measured at
    the lowest level."""
    return topdown(noisy, spine, bounds, "full-information", workers=workers, progress=progress)


def _agree(spine: Spine, known: Sequence[tuple[str, Query, NDArray[np.int64]]]) -> None:
    """Totals that are known of two levels add up."""
    totals = {level: counts[:, 0] for level, query, counts in known if query.name == "total"}
    lowest_known = max(totals, key=spine.index, default="")
    for level, counts in totals.items():
        below = np.zeros(len(counts), dtype=np.int64)
        np.add.at(below, spine.up(lowest_known, level), totals[lowest_known])
        if not np.array_equal(below, counts):
            raise InputError(f"the totals of {lowest_known!r} do not add up to those of {level!r}", where="bounds",
                             remedy="give counts of one population")  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Function(Estimator):
    """A function as an estimator."""

    function: Callable[[Family], Array]

    def estimate(self, family: Family) -> tuple[Array, Certificate]:
        return np.asarray(self.function(family), dtype=np.float64), Certificate()


def _estimator(method: str | Estimator | Callable[[Family], Array], noisy: Noisy, spine: Spine) -> Estimator:
    if isinstance(method, str):
        return Passes.by_rule(noisy.source, spine, noisy.schema)
    if not isinstance(method, Estimator) and callable(method):
        return _Function(method)
    return method  # the descent refuses what is none


def _known(noisy: Noisy, spine: Spine, given: Mapping[str, Bounds] | None) -> Mapping[str, Bounds]:
    """The bounds of every level, of its units and cells."""
    found = bounds(noisy.schema, spine, noisy.exact) if given is None else given
    for level in spine.levels:
        if level not in found or len(found[level].lower) != spine.units(level) or len(found[level].group) != noisy.schema.cells:  # fmt: skip
            raise InputError(f"there are none for the units of {level!r}, or for other cells", where="bounds",
                             remedy="make them with das.bounds, of the same schema and spine")  # fmt: skip
    return found


def _universe(schema: Schema, known: Mapping[str, Bounds]) -> Universe:
    """With the sums that rounding keeps: the published schemas' own, unless they cross what is known exactly."""
    chain = PERSONS.publication(schema).chain or ()
    if any(b.exact and not _nest(b.group, schema.query(q)) for b in known.values() for q in chain):
        chain = ()
    return Universe(PERSONS, schema, chain=chain, margins=not chain)


def _nest(group: NDArray[np.intp], query: Query) -> bool:
    pairs = len(np.unique(group.astype(np.int64) * query.answers + query.index))
    return pairs == max(len(np.unique(group)), query.answers)


def _estimates(unbiased: object, noisy: Noisy, spine: Spine) -> dict[str, LevelEstimates]:
    by_level: dict[str, dict[str, tuple[Array, Array]]] = {}
    for level, query, value, error in unbiased:  # type: ignore[attr-defined]
        by_level.setdefault(level, {})[query.name] = value, error
    return {lv: LevelEstimates(answers, lv, noisy.schema, spine, noisy.private) for lv, answers in by_level.items()}
