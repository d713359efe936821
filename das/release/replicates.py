"""Replicates of a release: the algorithm runs again on what it published, with noise that is
public.

The published histogram stands in for the truth. Plan, invariants, bounds, estimation and rounding
are those of the release. The noise is a function of a public seed and is independent of the
release's own noise. So replicates reveal nothing beyond the release and cost no budget, and anyone
who makes them gets the same ones. :mod:`das.replicates.by_truth` says what they show.

A replicate is a function of the release, the seed and its number: the files are the same for any
number of workers. Finished replicates are kept, so an interrupted run continues where it stopped.
Like ``das.release.post_processing``, nothing here can see the truth."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress
from das.files.release import replicates, statement
from das.files.run.ledger import INTERVALS
from das.model.budget import PlannedMeasurement
from das.model.histogram import Histogram, SparseAnswers
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import (
    Measurement,
    Measurements,
    not_measured,
    places,
    published_variance,
)
from das.model.names import Codes
from das.model.not_private import Private
from das.model.spine import BATCH, Spine
from das.model.universe import Universe
from das.noise import entropy
from das.noise.coordinates import LIMIT, CoordinateNoise
from das.noise.entropy import ChunkLabel, CoordinateLabel
from das.noise.samplers import SAMPLERS, VERSION, noisy_answers
from das.release import interval_writing
from das.release.publications import source_of
from das.release.replicate_source import (
    EARLIER,
    IntervalOptions,
    PlannedUniverse,
    ReleaseSource,
    digest_of,
)
from das.release.seal import seal_intervals
from das.version import __version__

Ints = NDArray[np.int64]
#: Values of one chunk of noise, about. The chunks of a batch (:data:`das.model.spine.BATCH`) are held:
#: its families are estimated side by side, query by query, and ask for each of them again and again.
CHUNK = 1 << 20


@dataclass(frozen=True)
class SeededNoise:
    """The noise of one replicate (:class:`das.release.replicate_source.PublicNoise`)."""

    seed: int
    replicate: int

    def whole(
        self, universe: PlannedUniverse, tree: MeasuredSpine, counts: Mapping[str, Histogram]
    ) -> NewNoise:
        return NewNoise(universe, tree, counts, self)

    def on_request(
        self, universe: PlannedUniverse, spine: Spine, counts: Mapping[str, Histogram]
    ) -> NewNoiseOnDemand:
        return NewNoiseOnDemand(universe, spine, counts, self)

    @property
    def entropy(self) -> entropy.Entropy:
        return entropy.seeded(self.seed)

    def label(self, universe: str, level: str, first: bytes, last: bytes) -> ChunkLabel:
        """What names the noise of some units of a level, from the ``first`` to the ``last``."""
        return ChunkLabel(universe, level, self.replicate, first, last, b"replicate", VERSION, b"")


@dataclass(frozen=True, eq=False)
class NewNoise:
    """A source of measurements of ``counts``, which are public, by level of the tree.

    Each chunk of units is drawn when it is requested. Seed, replicate, universe, level and units
    name its random stream. So the answer is the same for any caller, in any order, any number of
    times."""

    universe: PlannedUniverse
    tree: MeasuredSpine
    counts: Mapping[str, Histogram]
    noise: SeededNoise
    _chunks: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    _held: OrderedDict[tuple[str, int], Measurements] = field(default_factory=OrderedDict)

    def queries(self, level: str) -> tuple[str, ...]:
        there, plan = self.tree.classes(level), self.universe.plan
        return tuple(dict.fromkeys(d.query for d in plan.at(level) if d.unit_class in there))

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        found = []
        for first, last in self._slices(level):
            a, b = max(first, start), min(last, stop)
            if a < b:
                found.append(self._drawn(level, first, last).read(level, query, a, b))
        return Measurements.from_measurements(found).read(level, query, start, stop)

    def part(self, level: str, start: int, stop: int) -> NewNoise:
        """Itself: a replicate is made by one process."""
        del level, start, stop
        return self

    def _slices(self, level: str) -> list[tuple[int, int]]:
        if level not in self._chunks:
            schema = self.universe.schema
            answers = sum(schema.query(q).answers for q in self.queries(level))
            self._chunks[level] = list(self.tree.spine.batches(level, max(answers, 1), CHUNK))
        return self._chunks[level]

    def _drawn(self, level: str, start: int, stop: int) -> Measurements:
        if (level, start) in self._held:
            self._held.move_to_end((level, start))
            return self._held[level, start]
        while len(self._held) >= BATCH // CHUNK + 2:
            self._held.popitem(last=False)
        u, classes = self.universe, self.tree.classes(level)
        codes = self.tree.spine.codes[self.tree.spine.index(level)]
        draws = [
            (d, classes[d.unit_class][start:stop])
            for d in u.plan.at(level)
            if d.unit_class in classes
        ]
        label = self.noise.label(u.name, level, bytes(codes[start]), bytes(codes[stop - 1]))
        queries = {q: u.schema.query(q) for q in self.queries(level)}
        rows, bits = self.counts[level].rows(start, stop), self.noise.entropy.chunk(label)
        drawn = noisy_answers(level, start, rows, queries, draws, bits)
        found = Measurements.from_measurements(m.as_published() for m in drawn)
        self._held[level, start] = found
        return found


@dataclass(frozen=True, eq=False)
class NewNoiseOnDemand:
    r"""A :class:`das.model.measurement.SparseSource` on ``counts``, which are public, by
    level of the tree:

    .. math:: y_{ui} = (Qh_u)_i + X_{ui}, \qquad X_{ui} \text{ of the law of the plan at that level and query},

    where X is a function of seed, replicate, universe, level, query and coordinate alone. So the
    answer is the same for any caller, in any order, any number of times
    (:mod:`das.noise.coordinates`). Variances are those that the files of a release state."""

    universe: PlannedUniverse
    spine: Spine
    counts: Mapping[str, Histogram]
    noise: SeededNoise
    _answers: dict[tuple[str, str], SparseAnswers] = field(default_factory=dict)
    _streams: dict[tuple[str, str, int], CoordinateNoise] = field(default_factory=dict)

    def queries(self, level: str) -> tuple[str, ...]:
        return tuple(d.query for d in self.universe.plan.at(level))

    def shape(self, level: str, query: str) -> tuple[int, int]:
        asked = self.universe.schema.query(self._draw(level, query).query)
        return self.spine.units(level), asked.answers

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        each = np.full(self.spine.units(level), self._draw(level, query).variance)
        return published_variance(each).astype(np.float64)

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        """Answers of ``counts`` and their noise, ``(n,)``. Raises :class:`InputError` for what is
        not measured."""
        shape = self.shape(level, query)
        at = places(units, cells, shape, f"{self.universe.name}, {level}, {query}")
        if (level, query) not in self._answers:
            asked = self.universe.schema.query(query)
            self._answers[level, query] = self.counts[level].sparse(asked)
        out = self._answers[level, query].read(at)
        size = max(1, LIMIT // shape[1]) * shape[1]  # of a stream, which has whole units
        stream = at // size
        for number in np.unique(stream).tolist():
            here = stream == number
            out[here] += self._stream(level, query, number, size).at(at[here] - number * size)
        return out

    def _draw(self, level: str, query: str) -> PlannedMeasurement:
        for d in self.universe.plan.at(level):
            if d.query == query:
                return d
        raise not_measured(level, query, self.queries(level))

    def _stream(self, level: str, query: str, number: int, size: int) -> CoordinateNoise:
        if (level, query, number) not in self._streams:
            codes = self.spine.codes[self.spine.index(level)]
            each = size // self.universe.schema.query(query).answers
            first, last = number * each, min((number + 1) * each, len(codes)) - 1
            chunk = self.noise.label(
                self.universe.name, level, bytes(codes[first]), bytes(codes[last])
            )
            blocks = self.noise.entropy.blocks(CoordinateLabel(chunk, query))
            d = self._draw(level, query)
            self._streams[level, query, number] = CoordinateNoise(
                blocks, size, SAMPLERS[d.mechanism.name], d.parameter
            )
        return self._streams[level, query, number]


# --- a folder of them


@dataclass(frozen=True)
class ReleaseRerun:
    """Makes those of a release and a seed (:class:`das.release.interval_writing.ReplicateMaker`),
    by any process that has the release."""

    release: Path
    digest: str
    seed: int
    earlier: Path | None = None

    @property
    def identity(self) -> dict[str, str | int]:
        said: dict[str, str | int] = {
            "release": self.digest,
            "seed": self.seed,
            "version": __version__,
        }
        return said if self.earlier is None else {**said, EARLIER: digest_of(self.earlier)}

    @property
    def own(self) -> Path:
        return self.release / INTERVALS

    @property
    def private(self) -> Private:
        return self.source().private

    @property
    def universes(self) -> tuple[Universe, ...]:
        return self.source().universes

    def counts(self, number: int) -> tuple[Codes, Mapping[str, Histogram]]:
        source, published = self.source(), _published(self.release, self.digest, self.earlier)
        noise = SeededNoise(self.seed, number)
        found = source.again(published, noise) if number else published
        return replicates.codes_of(source.spine, source.spine.levels[-1]), found

    def source(self, out: Path | None = None, files: int = 0) -> ReleaseSource:
        del out, files
        return _opened(self.release, self.digest, self.earlier)


def rule_of(release: Path) -> str:
    """The rule of its intervals, unless another is asked for."""
    return _opened(release, digest_of(release), None).rule


def make(
    release: Path,
    out: Path,
    asked: IntervalOptions,
    *,
    workers: int,
    resume: bool,
    progress: Progress,
    earlier: Path | None = None,
) -> dict[str, int]:
    """Write ``out``; returns the rows of each table and level. Where there are more replicates
    already than are asked for, they all count. ``earlier``: the release that this one rests on,
    whose errors the intervals then cover.

    Raises:
        UserError: ``out`` has something else in it, or intervals of another seed or release; no
            such table or level; measurements of another publisher, whose budget nobody states; or
            it is the release's own folder, and the release is signed.
        ReleaseError: ``earlier`` is another release than the one that this one rests on."""
    own = out.resolve() == (release / INTERVALS).resolve()
    if own:
        statement.refuse_signed(release)  # the list of intervals comes under its seal
    maker = ReleaseRerun(release, digest_of(release), asked.seed, earlier)
    maker.source().chosen(asked.tables, asked.levels)
    maker.source().planned()  # what cannot be made is refused before anything is written
    rows = interval_writing.make(
        maker, out, asked, workers=workers, resume=resume, progress=progress
    )
    if own:
        seal_intervals(release)
    return rows


@lru_cache(maxsize=1)
def _opened(release: Path, digest: str, earlier: Path | None) -> ReleaseSource:
    """What lies at a path may be another release the next time: it is known by its ``digest``."""
    del digest
    return source_of(release, "intervals").on(earlier)


@lru_cache(maxsize=1)
def _published(release: Path, digest: str, earlier: Path | None) -> Mapping[str, Histogram]:
    return _opened(release, digest, earlier).published()
