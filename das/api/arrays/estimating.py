"""Estimation in memory: from noisy measurements and what is public to counts of every level and
records.

Nothing here can see the truth: it is the descent of every release (:mod:`das.estimate.descent`),
from a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from das.api.arrays.known import joint_bounds
from das.api.arrays.levels import ByLevel
from das.api.arrays.levels import query as spelt
from das.api.arrays.noisy import Noisy, expect
from das.api.frames import tidy
from das.engine import Progress, executor
from das.engine.display import display
from das.errors import InputError, SolverError
from das.estimate import descent
from das.estimate.family import Array, Estimator, Family
from das.estimate.passes import Passes
from das.estimate.pooled import PooledSource
from das.estimate.upward_pass import upward_pass
from das.microdata import expand
from das.model.constraint import LevelBounds
from das.model.histogram import Histogram
from das.model.names import BESIDE
from das.model.not_private import CELL, COLUMN, Private
from das.model.post_processing import BIASES, METHODS
from das.model.query import Query
from das.model.schema import Schema
from das.model.solution import Certificate, Certificates
from das.model.spine import Spine
from das.model.universe import PERSONS, Universe

# What estimation gives back: published counts of every level, records, and unbiased estimates with
# their errors.


@dataclass(frozen=True, eq=False, repr=False)
class LevelCounts:
    """Published counts of one level: integers, none negative. ``histogram`` holds them, units by
    cells, sparse."""

    histogram: Histogram
    level: str
    schema: Schema
    spine: Spine
    private: Private = True

    def __repr__(self) -> str:
        return (
            f"<LevelCounts: {self.level}, {self.histogram.units:,} units x {self.histogram.cells:,}"
            " cells>"
        )

    def answer(self, query: str) -> NDArray[np.int64]:
        """The answers to a query, ``(units, answers)``, units in the order of the spine."""
        return self.histogram.answer(self.schema.query(spelt(query, self.schema, where=self.level)))

    def to_frame(self, query: str | None = None) -> pd.DataFrame:
        """A row for each unit and answer to ``query``: level, geocode, name, query, attributes,
        label, value. Without a query, a row for each cell of the whole histogram that somebody is
        in."""
        if query is not None:
            asked = self.schema.query(spelt(query, self.schema, where=self.level))
            return tidy(
                self.spine,
                self.level,
                self.schema,
                asked,
                {"value": self.histogram.answer(asked)},
                private=self.private,
            )
        h, depth = self.histogram, self.spine.index(self.level)
        places = {"geocode": self.spine.geocodes(self.level), "name": self.spine.names[depth]}
        out: dict[str, Any] = {"level": self.level} | {
            n: texts.astype(object)[h.unit] for n, texts in places.items()
        }
        levels = np.unravel_index(h.cell, self.schema.shape)
        parts = list(zip(self.schema.attributes, levels, strict=True))
        out |= {"query": "detailed"} | {
            a.name: np.array(a.levels, dtype=object)[at] for a, at in parts
        }
        labels = [np.array(a.labels, dtype=object)[at] for a, at in parts]
        out["label"] = [BESIDE.join(words) for words in zip(*labels, strict=True)]
        return pd.DataFrame(out | {"value": h.count} | ({} if self.private else {COLUMN: CELL}))


@dataclass(frozen=True, eq=False, repr=False)
class LevelEstimates:
    """Unbiased estimates of one level, from all measurements of the tree: by query, the values
    and their standard errors, both ``(units, answers)``. They can be negative, and need not add
    up exactly."""

    answers: Mapping[str, tuple[Array, Array]]
    level: str
    schema: Schema
    spine: Spine
    private: Private = True

    def __repr__(self) -> str:
        return f"<LevelEstimates: {self.level}, {', '.join(self.answers)}>"

    def to_frame(self, query: str | None = None) -> pd.DataFrame:
        """A row for each unit and answer, of one query or of all: as :func:`das.read_estimates`."""
        frames = []
        for name in (
            self.answers
            if query is None
            else [spelt(query, self.schema, tuple(self.answers), self.level)]
        ):
            value, error = self.answers[name]
            columns: dict[str, NDArray[Any]] = {"value": value, "standard_error": error}
            frames.append(
                tidy(
                    self.spine,
                    self.level,
                    self.schema,
                    self.schema.query(name),
                    columns,
                    private=self.private,
                )
            )
        return pd.concat(frames, ignore_index=True)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Counts of every level that agree with each other and with the bounds, and the same counts as
    records.

    ``certificates`` say how well each level was estimated and rounded. With full information,
    ``estimates`` has all levels except the lowest."""

    schema: Schema
    spine: Spine
    histograms: Mapping[str, LevelCounts]
    bounds: Mapping[str, LevelBounds] = field(default_factory=dict)
    certificates: Mapping[str, Certificates] = field(default_factory=dict)
    estimates: Mapping[str, LevelEstimates] = field(default_factory=dict)
    private: Private = True

    def __repr__(self) -> str:
        total = int(self.histograms[self.spine.levels[0]].histogram.count.sum())
        seeded = "" if self.private else ", seeded: NOT PRIVATE"
        return f"<Result: {total:,} records at {len(self.spine)} levels{seeded}>"

    def microdata(self, *, labels: bool = False) -> pd.DataFrame:
        """A row for each record. It has the code of its lowest unit, in a column named after
        that level, and a column for each attribute. The column has the level's code or, with
        ``labels``, its label. ``das.count`` of the codes gives the counts again."""
        lowest = self.spine.levels[-1]
        unit, cell = expand(self.histograms[lowest].histogram)
        out: dict[str, Any] = {lowest: self.spine.geocodes(lowest).astype(object)[unit]}
        for a, at in zip(
            self.schema.attributes, np.unravel_index(cell, self.schema.shape), strict=True
        ):
            out[a.name] = pd.Categorical.from_codes(at, list(a.labels if labels else a.levels))
        return pd.DataFrame(out | ({} if self.private else {COLUMN: CELL}))


def _check_choice(method: object, bias: str) -> None:
    """Raises :class:`InputError` for a method or a treatment of bias that there is not."""
    if isinstance(method, str) and method not in METHODS:
        raise InputError(
            f"there is no method {method!r}",
            where="topdown",
            remedy=f"say {' or '.join(map(repr, METHODS))}, or give an estimator",
        )
    if bias not in BIASES:
        raise InputError(
            f"bias cannot be {bias!r}",
            where="topdown",
            remedy=f"say {' or '.join(map(repr, BIASES))}",
        )
    if bias != "none" and not isinstance(method, str | Passes):
        raise InputError(
            "only our own methods correct the size bias",
            where="topdown",
            remedy="leave bias at 'none', or take one of the methods " + " and ".join(METHODS),
        )


def topdown(
    noisy: Noisy,
    spine: Spine,
    bounds: Mapping[str, LevelBounds] | None = None,
    method: str | Estimator | Callable[[Family], Array] = "topdown",
    *,
    bias: str = "none",
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

    ``bias``, for our two methods. ``"corrected"``: the lowest units are estimated without their size
    bias. All their queries must then be estimated in one pass, ``"detailed"`` among them. Bounds made from
    ``structures`` let it use housing units, too.

    With several ``workers``, call it under ``if __name__ == "__main__":``, and define a function of
    your own in a module. ``progress`` is that of ``das.run``.

    Raises:
        InputError: another spine than that of the measurements, a level without one, an unknown
            method, or a correction of what is estimated in several passes.
        InfeasibleError: bounds that contradict each other, or what the measurements know.
        SolverError: an estimator whose answer is none."""
    expect(
        noisy,
        Noisy,
        "topdown",
        "give what das.measure, das.read_noisy or das.Noisy.from_measurements returns",
    )
    expect(spine, Spine, "topdown", "give the spine of the measurements, as a second argument")
    noisy.check(spine)
    _check_choice(method, bias)
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
            source, spine, here, universe, own, pool, shown, correct=bias != "none"
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
    bias: str = "none",
    workers: int = 1,
    progress: bool | Progress = False,
) -> Result:
    """Like ``topdown``, but every measurement of the tree informs every unit above and below it.
    The result's ``estimates`` are unbiased, with standard errors, for every level except the
    lowest. The detailed query must be measured at the lowest level."""
    return topdown(
        noisy, spine, bounds, "full-information", bias=bias, workers=workers, progress=progress
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
    cross what is known exactly."""
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
