"""Estimation in a process without the truth: it asks for each measured answer
(:mod:`das.engine.enclosed`).

A question names a part of the tree, a level, a query and coordinates; the answer is as many
integers. What is public is in the job: trees, fixed counts, variances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.engine.enclosed import Conversation, received
from das.estimate.outer import OuterProblem, RefinedEstimates, known_below
from das.estimate.pooled import Upward
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.measurement import SparseSource, places
from das.model.post_processing import SharesPrior
from das.model.solution import Certificates
from das.model.spine import Spine

Ints = NDArray[np.int64]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class PartOutline(Frozen):
    """What is measured of part ``number`` of a tree, without any answer: by level and query the
    number of answers of a unit, and the variance of each unit."""

    number: int
    spine: Spine
    answers: Mapping[str, Mapping[str, int]]
    variance: Mapping[str, Mapping[str, NDArray[np.float64]]]

    @staticmethod
    def from_source(
        source: SparseSource, spine: Spine, levels: Sequence[str], number: int = 0
    ) -> PartOutline:
        queries = {level: source.queries(level) for level in levels}
        return PartOutline(
            number,
            spine,
            {lv: {q: source.shape(lv, q)[1] for q in qs} for lv, qs in queries.items()},
            {lv: {q: source.variance(lv, q) for q in qs} for lv, qs in queries.items()},
        )

    def has(self, level: str, query: str, at: NDArray[Any]) -> bool:
        """Whether the ``at`` are indices of answers in this part."""
        if query not in self.answers.get(level, {}) or at.dtype != np.int64 or at.ndim != 1:
            return False
        size = self.spine.units(level) * self.answers[level][query]
        return not len(at) or bool(at.min() >= 0 and at.max() < size)


class AskingSource:
    """A :class:`das.model.measurement.SparseSource` that asks beyond the wall."""

    def __init__(self, part: PartOutline, beyond: Conversation) -> None:
        self._part, self._beyond = part, beyond

    def queries(self, level: str) -> tuple[str, ...]:
        return tuple(self._part.answers[level])

    def shape(self, level: str, query: str) -> tuple[int, int]:
        return self._part.spine.units(level), self._part.answers[level][query]

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        return self._part.variance[level][query]

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        at = places(units, cells, self.shape(level, query), f"{level}/{query}")
        question = {"question": [self._part.number, level, query]}
        found: Ints = self._beyond.ask(question, {"at": at})["answers"]
        return found


@dataclass(frozen=True, eq=False)
class EstimationJob(Frozen):
    """Estimate a problem whose measured tree is ``part``."""

    problem: OuterProblem
    part: PartOutline

    def perform(self, beyond: Conversation, pool: Executor) -> tuple[Mapping[str, Any], Arrays]:
        @cache
        def upward(subtree: int) -> Upward:
            part: PartOutline = received(beyond.ask({"part": subtree})["part"])
            return Upward(AskingSource(part, beyond), part.spine, self.problem.most)

        source = AskingSource(self.part, beyond)
        return to_message(self.problem.estimated(source, pool, beyond, upward))


@dataclass(frozen=True, eq=False)
class UpwardJob(Frozen):
    """Find what a subtree knows about its units of ``level`` (:func:`known_below`)."""

    part: PartOutline
    most: int
    level: str

    def perform(self, beyond: Conversation, pool: Executor) -> tuple[Mapping[str, Any], Arrays]:
        del pool
        spine = self.part.spine
        upward = Upward(AskingSource(self.part, beyond), spine, self.most)
        return {}, known_below(upward, spine, self.level)


def to_message(estimates: RefinedEstimates) -> tuple[Mapping[str, Any], Arrays]:
    """Words and arrays; :func:`of_message` is the inverse."""
    arrays = {f"kind:{k}": a for k, a in estimates.by_kind.to_arrays().items()}
    for number, h in enumerate(estimates.counts.values()):
        arrays |= {f"{number}:{k}": a for k, a in h.to_arrays().items()}
    prior = estimates.prior
    if prior is not None:
        arrays |= {f"prior:{k}": a for k, a in prior.to_arrays().items()}
    certificates = {level: asdict(c) for level, c in estimates.certificates.items()}
    return {
        "levels": list(estimates.counts),
        "certificates": certificates,
        "prior": prior and prior.level,
    }, arrays


def of_message(head: Mapping[str, Any], arrays: Arrays) -> RefinedEstimates:
    def named(name: str) -> dict[str, NDArray[Any]]:
        at = len(name) + 1
        return {k[at:]: a for k, a in arrays.items() if k.startswith(f"{name}:")}

    return RefinedEstimates(
        {lv: Histogram.of_arrays(named(str(i))) for i, lv in enumerate(head["levels"])},
        {level: Certificates.from_dicts(c) for level, c in head["certificates"].items()},
        head["prior"] and SharesPrior(head["prior"], **named("prior")),
        by_kind=Histogram.of_arrays(named("kind")),
    )
