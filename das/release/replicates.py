"""Replicates of a release: the algorithm is run again on what it published, with noise that is
public.

The published histogram stands in for the truth; plan, invariants, bounds, estimation and rounding
are those of the release. Its noise is a function of a seed that anybody may know, and has nothing
to do with the noise of the release: so replicates tell nothing that the release does not, cost no
budget, and come out the same for whoever makes them (:mod:`das.replicates.errors` says what they
tell).

A function of the release, the seed and the number: the same files for any number of workers. What
was made before is kept, so whatever stops it, it goes on. Like ``das.release.post``, nothing here
can see the truth."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

from das.engine import InProcess, Progress, Silent, executor, in_order
from das.files.microdata import reading as microdata
from das.files.release import replicates, signature
from das.files.run.ledger import INTERVALS
from das.model.budget import Plan
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement, Measurements
from das.model.schema import Schema
from das.noise import entropy
from das.noise.answers import noisy_answers
from das.noise.label import ChunkLabel
from das.noise.samplers import VERSION
from das.release import dhc_files, dhc_replicates
from das.release.dhc import OpenedDhc
from das.release.interval_writing import write_intervals
from das.release.post import Opened, estimate, on_published
from das.release.replicated import (
    AnyOpened,
    AskedIntervals,
    Tabulated,
    begin,
    digest_of,
    open_either,
)
from das.release.seal import seal_intervals
from das.version import __version__

#: Values of one chunk of noise, about; of each level no more than two are held.
CHUNK = 1 << 20


@dataclass(frozen=True, eq=False)
class Redrawn:
    """A source of measurements of ``counts``, which are public, by level of the tree. Each chunk of
    units is drawn when it is asked for, from a stream that is named by seed, replicate, universe,
    level and units: the same whoever asks, in which order, and however often."""

    universe: str
    schema: Schema
    tree: MeasuredSpine
    plan: Plan
    counts: Mapping[str, Histogram]
    seed: int
    replicate: int
    _chunks: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    _held: dict[str, list[tuple[int, Measurements]]] = field(default_factory=dict)

    def queries(self, level: str) -> tuple[str, ...]:
        there = self.tree.classes(level)
        return tuple(dict.fromkeys(d.query for d in self.plan.at(level) if d.unit_class in there))

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        found = []
        for first, last in self._slices(level):
            a, b = max(first, start), min(last, stop)
            if a < b:
                found.append(self._drawn(level, first, last).read(level, query, a, b))
        return Measurements.of(found).read(level, query, start, stop)

    def part(self, level: str, start: int, stop: int) -> Redrawn:
        """Itself: a replicate is made by one process."""
        del level, start, stop
        return self

    def _slices(self, level: str) -> list[tuple[int, int]]:
        if level not in self._chunks:
            answers = sum(self.schema.query(q).answers for q in self.queries(level))
            self._chunks[level] = list(self.tree.spine.batches(level, max(answers, 1), CHUNK))
        return self._chunks[level]

    def _drawn(self, level: str, start: int, stop: int) -> Measurements:
        held = self._held.setdefault(level, [])
        for at, found in held:
            if at == start:
                return found
        held[:-1] = []
        codes, classes = (
            self.tree.spine.codes[self.tree.spine.index(level)],
            self.tree.classes(level),
        )
        draws = [
            (d, classes[d.unit_class][start:stop])
            for d in self.plan.at(level)
            if d.unit_class in classes
        ]
        label = ChunkLabel(
            self.universe,
            level,
            self.replicate,
            bytes(codes[start]),
            bytes(codes[stop - 1]),
            b"replicate",
            VERSION,
            b"",
        )
        queries = {q: self.schema.query(q) for q in self.queries(level)}
        bits = entropy.seeded(self.seed).chunk(label)
        drawn = noisy_answers(
            level, start, self.counts[level].rows(start, stop), queries, draws, bits
        )
        held.append((start, Measurements.of(m.as_published() for m in drawn)))
        return held[-1][1]


def published(release: AnyOpened) -> dict[str, Histogram]:
    """The published counts of the lowest level, by universe."""
    if isinstance(release, OpenedDhc):
        return dhc_files.read_counts(release.folder, release.spine)
    codes = release.spine.codes[-1]
    return {
        u.name: microdata.read(release.folder / "microdata" / u.kind.folder, u, codes)
        for u in release.after.universes
    }


def plans_of(release: Opened) -> dict[str, Plan]:
    """What was measured, by universe. Raises :class:`UserError` for measurements of another
    publisher.
    """
    return {u.name: u.plan for u in release.run.universes}


def replicate(
    release: AnyOpened, counts: Mapping[str, Histogram], number: int, seed: int
) -> dict[str, Histogram]:
    """The replicate ``number`` of published ``counts``: what the algorithm publishes of the lowest
    level if they are the truth.

    Raises:
        UserError: measurements of another publisher, whose budget nobody states.
    """
    if isinstance(release, OpenedDhc):
        return dhc_replicates.replicate(release, counts, number, seed)
    plans, out = plans_of(release), {}
    for u in release.after.universes:
        tree = release.tree(u)
        levels = tree.of_published(counts[u.name]).upward(tree.spine)
        source = Redrawn(u.name, u.schema, tree, plans[u.name], levels, seed, number)
        result = estimate(release, u, InProcess(), Silent(), source=source)
        out[u.name] = on_published(release, u, result)[release.spine.levels[-1]]
    return out


# --- a folder of them
# ---------------------------------------------------------------------------------------


def make(
    release: Path,
    out: Path,
    asked: AskedIntervals,
    *,
    workers: int,
    resume: bool,
    progress: Progress,
) -> dict[str, int]:
    """Write ``out``; returns the rows of each table and level. Where there are more replicates
    already than are asked for, they all count.

    Raises:
        UserError: ``out`` has something else in it, or intervals of another seed or release; no
            such table or level; or it is the release's own folder, and the release is signed.
    """
    own = out.resolve() == (release / INTERVALS).resolve()
    if own:
        signature.refuse_signed(release)  # the list of intervals comes under its seal
    opened = open_either(release)
    of = Tabulated.of(opened)
    of.chosen(asked.tables, asked.levels)
    said = {"release": digest_of(release), "seed": asked.seed, "version": __version__}
    if isinstance(opened, Opened):
        plans_of(opened)  # what cannot be made is refused before anything is written
    counts = published(opened)
    begin(out, said, resume, of.private, release / INTERVALS)
    asked = dataclasses.replace(asked, count=max(asked.count, replicates.largest(out)))
    for u in of.universes:
        first = replicates.path_of(out, u.kind.folder, 0)
        if not first.exists():
            codes = replicates.codes_of(opened.spine, opened.spine.levels[-1])
            replicates.write(first, codes, u.schema, counts[u.name], private=of.private)
    left = [
        n
        for n in range(1, asked.count + 1)
        if not all(replicates.path_of(out, u.kind.folder, n).exists() for u in of.universes)
    ]
    progress.stage("replicates", asked.count)
    progress.advance(asked.count - len(left))
    with executor(min(workers, max(len(left), 1))) as pool:
        for _ in in_order(
            pool,
            partial(_made, release, digest_of(release), out, asked.seed),
            left,
            ahead=2 * workers,
        ):
            progress.advance()
    rows = write_intervals(of, out, said, asked, progress)
    if own:
        seal_intervals(release)
    return rows


def _made(release: Path, digest: str, out: Path, seed: int, number: int) -> None:
    """One replicate, by whatever process."""
    opened, counts = _opened(release, digest)
    of, found = Tabulated.of(opened), replicate(opened, counts, number, seed)
    codes = replicates.codes_of(of.spine, of.spine.levels[-1])
    for u in of.universes:
        path = replicates.path_of(out, u.kind.folder, number)
        replicates.write(path, codes, u.schema, found[u.name], private=of.private)


@lru_cache(maxsize=1)
def _opened(release: Path, digest: str) -> tuple[AnyOpened, dict[str, Histogram]]:
    """What lies at a path may be another release the next time: it is known by its ``digest``."""
    del digest
    opened = open_either(release)
    return opened, published(opened)
