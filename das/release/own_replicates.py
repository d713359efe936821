"""Replicates of a release of counts over a tree, and the page of its intervals.

The release is measured and estimated again as before: by its plan, over the measured tree, within
its invariants and bounds. Invariants and bounds are public, so they also limit the intervals. The
page of the release is sealed and stays unchanged; the page here is the same look-up with one more
column. Like ``das.release.post_processing``, nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from markupsafe import Markup

from das import tables
from das.engine import InProcess, Silent
from das.files.release import replicates
from das.model.areas import Areas
from das.model.constraint import LevelBounds, range_of_areas
from das.model.histogram import Histogram
from das.model.query import Query
from das.model.release import Release
from das.model.spine import Spine
from das.model.universe import Planned, Universe
from das.release import interval_writing, page
from das.release.interval_writing import ReplicatedCounts
from das.release.opened import OpenedRelease
from das.release.post_processing import estimate, on_published
from das.release.replicate_source import ENOUGH, PAGE, IntervalOptions, PublicNoise, ReleaseSource
from das.replicates import ReplicateErrors, ReplicateInterval, interval
from das.report import answers
from das.report.answers import Answers, LookUp
from das.report.template import render
from das.tables import Table

ENDS = ("lower", "upper")
#: By level, counts of the release or of a replicate.
CountsByLevel = Mapping[str, Histogram]


@dataclass(frozen=True, eq=False)
class OwnReplicates(ReleaseSource):
    """Replicates of the release that was ``opened``."""

    opened: OpenedRelease

    @staticmethod
    def from_release(opened: OpenedRelease) -> OwnReplicates:
        every = tuple(
            (u, t)
            for u in opened.after.universes
            for t in tables.universe_tables(u, opened.assigned(u.name))
        )
        return OwnReplicates(opened.spine, every, opened.after.private, opened.folder, opened)

    @property
    def name(self) -> str:
        return self.opened.after.name

    @property
    def measured(self) -> OpenedRelease:
        return self.opened

    def areas(self) -> tuple[Areas, ...]:
        return self.opened.areas()

    def assigned(self, universe: Universe) -> dict[str, str]:
        return self.opened.assigned(universe.name)

    def bounds(self, universe: Universe) -> Mapping[str, LevelBounds]:
        return self.opened.published_bounds(universe)

    def planned(self) -> Sequence[Planned]:
        return self.opened.run.universes

    def queries(self, universe: Universe) -> Mapping[str, tuple[str, ...]]:
        every = [(n.level, n.query) for n in universe.measurements]
        return {
            level: tuple(dict.fromkeys(q for at, q in every if at == level))
            for level in self.spine.levels
        }

    def published(self) -> Mapping[str, Histogram]:
        return {u.name: self.counts(u) for u in self.universes}

    def counts(self, universe: Universe) -> Histogram:
        return self.opened.published(universe)

    def again(
        self, counts: Mapping[str, Histogram], noise: PublicNoise, pool: Executor | None = None
    ) -> dict[str, Histogram]:
        out, done = {}, dict[str, Release]()
        for u, planned in zip(self.opened.after.universes, self.planned(), strict=True):
            tree = self.opened.tree(u)
            levels = tree.of_published(counts[u.name]).upward(tree.spine)
            source = noise.whole(planned, tree, levels)
            done[u.name] = estimate(
                self.opened, u, pool or InProcess(), Silent(), source=source, done=done
            )
            out[u.name] = on_published(self.opened, u, done[u.name])[self.spine.levels[-1]]
        return out

    def described(
        self, out: Path, asked: IntervalOptions, tables: Collection[str]
    ) -> Mapping[str, str]:
        after = self.opened.after
        held = {u.name: self._held(out, u, asked.count) for u in after.universes}
        published = page.shown(self.opened, {name: found[0] for name, found in held.items()})
        shown = with_intervals(self, published, held, asked)
        html = render(
            "intervals.html",
            to_release="../",
            private=after.private,
            name=after.name,
            percent=f"{100 * asked.coverage:g}",
            replicates=asked.count,
            enough=ENOUGH,
            says=self.says(asked.rule),
            areas=[a.kind for a in shown.areas],
            lookup=Markup(answers.data(shown, coverage=asked.coverage)),
            left_out=[lv for lv in shown.spine.levels if lv not in shown.whole],
        )
        return {interval_writing.NAME: interval_writing.text(self, tables, paged=True), PAGE: html}

    def _held(self, out: Path, universe: Universe, count: int) -> list[CountsByLevel]:
        """The release, and its replicates after it."""
        codes = replicates.codes_of(self.spine, self.spine.levels[-1])
        paths = [replicates.path_of(out, universe.kind.folder, n) for n in range(count + 1)]
        return [replicates.read(path, codes, universe.schema).upward(self.spine) for path in paths]


def with_intervals(
    source: OwnReplicates,
    shown: LookUp,
    held: Mapping[str, Sequence[CountsByLevel]],
    asked: IntervalOptions,
) -> LookUp:
    """What a page shows, with the interval of every published answer; ``held`` are the counts of
    the release and of its replicates, by universe."""
    spine, universes = source.spine, source.opened.after.universes
    lowest = spine.levels[-1]
    schemas = {u.name: u.schema for u in universes}
    bounds = {u.name: source.bounds(u) for u in universes}
    kinds = {areas.kind: areas for areas in shown.areas}
    off = {
        (name, areas.kind): [areas.histogram(levels[lowest]) for levels in found]
        for name, found in held.items()
        for areas in shown.areas
    }

    def with_bounds(a: Answers) -> Answers:
        query, found = schemas[a.universe].query(a.query), held[a.universe]
        if a.level not in kinds:
            made = _on_tree(a, query, found, spine, bounds[a.universe][a.level], asked)
        else:
            counts = off[a.universe, a.level]
            masks = query.index == np.arange(query.answers)[:, None]
            within = range_of_areas(bounds[a.universe][lowest], spine, kinds[a.level], masks)
            spread = ReplicateErrors.over(a.published, (h.answer(query) for h in counts[1:]))
            made = [interval(a.published, spread, asked.coverage, within=within)]
        lower, upper = (np.concatenate([getattr(m, end) for m in made]) for end in ENDS)
        return replace(a, lower=lower.astype(np.int64), upper=upper.astype(np.int64))

    return replace(shown, answers=tuple(with_bounds(a) for a in shown.answers))


def _on_tree(
    a: Answers,
    query: Query,
    releases: Sequence[CountsByLevel],
    spine: Spine,
    bounds: LevelBounds,
    asked: IntervalOptions,
) -> list[ReplicateInterval]:
    """Of all answers to a query at a level, as if they were a table."""
    each, depth = np.arange(query.answers), spine.index(a.level)
    names = tuple(map(str, each))
    table = Table(a.query, a.title, names, names, query, np.arange(len(each) + 1), each)
    upward = [[of[level] for of in releases] for level in spine.levels[depth::-1]]
    above = upward[1] if depth else None
    counts = ReplicatedCounts(table, upward[0], above, spine.parent[depth], bounds)
    return [part.interval for _, part in counts.intervals(asked.coverage, asked.rule)]
