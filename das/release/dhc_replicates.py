"""Replicates of a release of the demographic file: it is estimated again from answers about what it
published, with noise that is public.

As of any release (:mod:`das.release.replicates`), and as the file itself is measured: of the
answers to a plan only those exist that an estimate looks at (:mod:`das.noise.coordinates`). What is
tied is that of the release, in every replicate: so the errors of what was published before, in the
redistricting counts, are in none of them. Households rest on the units of the same replicate.

Nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from das.model.answers import SparseAnswers
from das.model.budget import Draw
from das.model.histogram import Histogram
from das.model.measurement import published_variance
from das.model.sparse_measurement import not_measured, places
from das.model.spine import Spine
from das.noise import entropy
from das.noise.coordinates import LIMIT, CoordinateNoise
from das.noise.label import ChunkLabel, CoordinateLabel
from das.noise.samplers import SAMPLERS, VERSION
from das.release.dhc import EstimatedDhc, OpenedDhc
from das.spec.dhc import DhcUniverse

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RedrawnOnRequest:
    r"""A :class:`das.model.sparse_measurement.SparseSource` on ``counts``, which are public, by
    level of the tree:

    .. math:: y_{ui} = (Qh_u)_i + X_{ui}, \qquad X_{ui} \text{ of the law of the plan at that level and query},

    where X follows from seed, replicate, universe, level, query and coordinate alone: the same
    whoever asks, in which order, and however often. Variances are those that the files of a release
    state."""

    universe: DhcUniverse
    spine: Spine
    counts: Mapping[str, Histogram]
    seed: int
    replicate: int
    _answers: dict[tuple[str, str], SparseAnswers] = field(default_factory=dict)
    _noise: dict[tuple[str, str, int], CoordinateNoise] = field(default_factory=dict)

    def queries(self, level: str) -> tuple[str, ...]:
        return tuple(d.query for d in self.universe.plan.at(level))

    def shape(self, level: str, query: str) -> tuple[int, int]:
        return (
            self.spine.units(level),
            self.universe.schema.query(self._draw(level, query).query).answers,
        )

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        each = np.full(self.spine.units(level), self._draw(level, query).variance)
        return published_variance(each).astype(np.float64)

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        """Answers of ``counts`` and their noise, ``(n,)``. Raises :class:`InputError` for what is
        not measured.
        """
        shape = self.shape(level, query)
        at = places(units, cells, shape, f"{self.universe.name}, {level}, {query}")
        if (level, query) not in self._answers:
            self._answers[level, query] = self.counts[level].sparse(
                self.universe.schema.query(query)
            )
        out = self._answers[level, query].read(at)
        size = max(1, LIMIT // shape[1]) * shape[1]  # of a stream, which has whole units
        stream = at // size
        for number in np.unique(stream).tolist():
            here = stream == number
            out[here] += self._stream(level, query, number, size).at(at[here] - number * size)
        return out

    def _draw(self, level: str, query: str) -> Draw:
        for d in self.universe.plan.at(level):
            if d.query == query:
                return d
        raise not_measured(level, query, self.queries(level))

    def _stream(self, level: str, query: str, number: int, size: int) -> CoordinateNoise:
        if (level, query, number) not in self._noise:
            codes, each = (
                self.spine.codes[self.spine.index(level)],
                size // self.universe.schema.query(query).answers,
            )
            first, last = number * each, min((number + 1) * each, len(codes)) - 1
            chunk = ChunkLabel(
                self.universe.name,
                level,
                self.replicate,
                bytes(codes[first]),
                bytes(codes[last]),
                b"replicate",
                VERSION,
                b"",
            )
            blocks, d = (
                entropy.seeded(self.seed).blocks(CoordinateLabel(chunk, query)),
                self._draw(level, query),
            )
            self._noise[level, query, number] = CoordinateNoise(
                blocks, size, SAMPLERS[d.mechanism.name], d.parameter
            )
        return self._noise[level, query, number]


def replicate(
    opened: OpenedDhc,
    counts: Mapping[str, Histogram],
    number: int,
    seed: int,
    pool: Executor | None = None,
) -> dict[str, Histogram]:
    """The replicate ``number`` of published ``counts`` of the lowest level, by universe: what the
    release publishes of it if they are the truth. Families are solved in ``pool``, or in this
    process: the same numbers."""
    done: dict[str, EstimatedDhc] = {}
    for u in opened.spec.universes:
        source = RedrawnOnRequest(
            u, opened.spine, counts[u.name].upward(opened.spine), seed, number
        )
        done[u.name] = opened.estimate(u, source, done, pool)
    return {name: estimated.counts[opened.spine.levels[-1]] for name, estimated in done.items()}
