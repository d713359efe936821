"""Estimation in memory: from noisy measurements and what is public to counts of every level and
records.

Nothing here can see the truth: it is the descent of every release (:mod:`das.estimate.descent`),
from a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.api.arrays.known import joint_bounds
from das.api.arrays.levels import ByLevel
from das.api.arrays.noisy import Noisy, expect
from das.api.arrays.result import LevelCounts, LevelEstimates, Result
from das.engine import Progress, executor
from das.engine.display import display
from das.errors import InputError, SolverError
from das.estimate import descent
from das.estimate.family import Array, Estimator, Family
from das.estimate.passes import Passes
from das.estimate.pooled import PooledSource
from das.estimate.upward_pass import upward_pass
from das.model.constraint import LevelBounds
from das.model.post_processing import METHODS, PRIORS
from das.model.query import Query
from das.model.schema import Schema
from das.model.solution import Certificate
from das.model.spine import Spine
from das.model.universe import PERSONS, Universe


def _check_choice(method: object, prior: str) -> None:
    """Raises :class:`InputError` for a method or a prior that there is not."""
    if isinstance(method, str) and method not in METHODS:
        raise InputError(
            f"there is no method {method!r}",
            where="topdown",
            remedy=f"say {' or '.join(map(repr, METHODS))}, or give an estimator",
        )
    if prior not in PRIORS:
        raise InputError(
            f"there is no prior {prior!r}",
            where="topdown",
            remedy=f"say {' or '.join(map(repr, PRIORS))}",
        )


def topdown(
    noisy: Noisy,
    spine: Spine,
    bounds: Mapping[str, LevelBounds] | None = None,
    method: str | Estimator | Callable[[Family], Array] = "topdown",
    *,
    prior: str = "none",
    workers: int = 1,
    progress: bool | Progress = False,
) -> Result:
    """Estimate the counts of every level, from the root down: nonnegative integers that add up and
    meet every bound.

    What the measurements know, ``noisy.exact`` and the bounds of a release that was read, is met;
    ``bounds`` are those of :func:`das.bounds`, for other known facts. ``method``: ``"topdown"``,
    the production passes, each level from its own measurements given the level above;
    ``"full-information"``, as :func:`das.full_information`; or an estimator of one's own. That is a
    function of a family (:class:`das.estimate.family.Family`) that answers an array ``(children,
    cells)``, none below zero, with the parent's counts as sums over the children; or an object of a
    subclass of :class:`das.Estimator`, whose method answers the same. Its answer is rounded,
    repaired and checked like ours.

    ``prior``: an assumption about the lowest units, for our two methods. ``"housing"``: people live
    approximately where the housing units are. The bounds must then be made from ``structures``, and
    the detailed query measured there.

    With several ``workers``, call it under ``if __name__ == "__main__":``, and define a function of
    your own in a module. ``progress`` is that of ``das.run``.

    Raises:
        InputError: another spine than that of the measurements, a level without one, an unknown
            method, or a prior that nothing is known for.
        InfeasibleError: bounds that contradict each other, or what the measurements know.
        SolverError: an estimator whose answer is none.
    """
    expect(
        noisy,
        Noisy,
        "topdown",
        "give what das.measure, das.read_noisy or das.Noisy.from_measurements returns",
    )
    expect(spine, Spine, "topdown", "give the spine of the measurements, as a second argument")
    noisy.check(spine)
    _check_choice(method, prior)
    here = joint_bounds(noisy, spine, bounds)
    universe = _universe(noisy.schema, here)
    estimates: dict[str, LevelEstimates] = {}
    with display(progress) as shown, executor(workers) as pool:
        own = _estimator(method, noisy, spine)
        if method == "full-information" and len(spine) > 1:
            from_below = upward_pass(noisy.source, spine, here, universe, pool, shown)
            estimates = _estimates(from_below.unbiased(), noisy, spine)
            own = from_below.estimator(own)
            source = noisy.source
        else:
            source = PooledSource.over_chains(noisy.source, spine, here, noisy.schema)
        release = descent.topdown(
            source, spine, here, universe, own, pool, shown, housing_prior=prior != "none"
        )
    counts = {
        lv: LevelCounts(h, lv, noisy.schema, spine, noisy.private)
        for lv, h in release.histograms.items()
    }
    return Result(
        noisy.schema,
        spine,
        ByLevel(counts),
        here,
        release.certificates,
        ByLevel(estimates),
        noisy.private,
    )


def full_information(
    noisy: Noisy,
    spine: Spine,
    bounds: Mapping[str, LevelBounds] | None = None,
    *,
    prior: str = "none",
    workers: int = 1,
    progress: bool | Progress = False,
) -> Result:
    """Like ``topdown``, but every measurement of the tree informs every unit above and below it.
    The result's ``estimates`` are unbiased, with standard errors, for every level except the
    lowest. The detailed query must be measured at the lowest level."""
    return topdown(
        noisy, spine, bounds, "full-information", prior=prior, workers=workers, progress=progress
    )


@dataclass(frozen=True, eq=False)
class _Function(Estimator):
    """A function as an estimator."""

    function: Callable[[Family], Array]

    def estimate(self, family: Family) -> tuple[Array, Certificate]:
        name, found = getattr(self.function, "__name__", repr(self.function)), self.function(family)
        try:
            x = np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError):
            raise SolverError(
                f"{name} answers a {type(found).__name__}, and no array", where=family.level
            ) from None
        if x.shape != (shape := (len(family), len(family.cell))):
            raise SolverError(
                f"{name} answers an array of shape {x.shape}, not {shape}", where=family.level
            )
        return x, Certificate()


def _estimator(
    method: str | Estimator | Callable[[Family], Array], noisy: Noisy, spine: Spine
) -> Estimator:
    if isinstance(method, str):
        return Passes.by_rule(noisy.source, spine, noisy.schema)
    if isinstance(method, type):
        raise InputError(
            f"{method.__name__} is a class, and no estimator",
            where="topdown",
            remedy=f"give an object of it: {method.__name__}()",
        )
    if not isinstance(method, Estimator) and callable(method):
        return _Function(method)
    return method  # the descent refuses what is none


def _universe(schema: Schema, known: Mapping[str, LevelBounds]) -> Universe:
    """The universe, with the sums that rounding keeps: the published schemas' own, unless they
    cross what is known exactly.
    """
    chain = PERSONS.publication(schema).chain or ()
    if any(b.exact and not _nest(b.group, schema.query(q)) for b in known.values() for q in chain):
        chain = ()
    return Universe(PERSONS, schema, chain=chain, marginals=not chain)


def _nest(group: NDArray[np.intp], query: Query) -> bool:
    pairs = len(np.unique(group.astype(np.int64) * query.answers + query.index))
    return pairs == max(len(np.unique(group)), query.answers)


def _estimates(
    unbiased: Iterable[tuple[str, Query, Array, Array]], noisy: Noisy, spine: Spine
) -> dict[str, LevelEstimates]:
    by_level: dict[str, dict[str, tuple[Array, Array]]] = {}
    for level, query, value, error in unbiased:
        by_level.setdefault(level, {})[query.name] = value, error
    return {
        lv: LevelEstimates(answers, lv, noisy.schema, spine, noisy.private)
        for lv, answers in by_level.items()
    }
