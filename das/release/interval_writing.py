"""Makes a folder of replicates, and intervals from it, one part of the tree at a time.

Any number of workers make the replicates, each replicate by itself. Finished replicates are kept,
so an interrupted run continues where it stopped.

For each part, the counts of the release and of all replicates are read, turned into intervals, and
summed from the lowest level up. The sums of a part at the level of the cut are kept; the levels
above add these up. So memory grows with a part times the number of replicates, not with the tree.
By the Bureau's rule every row is the same as without a cut. The rule whose intervals hold by true
value is made of the cells of each part by itself. Like ``das.release.post_processing``, nothing here can see
the truth."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress, executor, in_order
from das.errors import UserError
from das.files import atomic
from das.files.release import replicates
from das.files.release import replicates as interval_rows
from das.files.release.replicates import BASIS, CountedIntervals, IntervalWriter
from das.files.release.tables import GEOID
from das.files.run import run_directory
from das.model.constraint import LevelBounds, count_range
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.names import Codes
from das.model.not_private import Private, marked
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import Universe
from das.release.dictionary import (
    NAME,
    LineParts,
    marks,
    of_codes,
    of_file,
    of_files,
    of_universe,
    written,
)
from das.release.replicate_source import (
    BY_TABLE,
    BY_TRUTH,
    EARLIER,
    PAGE,
    IntervalOptions,
    ReplicateSource,
    file_of,
)
from das.replicates import BASES, ReplicateErrors, bases, interval
from das.replicates.by_truth import ShownCounts, factors, rule_of
from das.tables import Table

# Counts of one table, of the release and of its replicates, and the intervals that follow from
# them. Like ``das.release.post_processing``, nothing here can see the truth.

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
#: Values of a table that are held at once, of each sum.
BATCH = 1 << 22


@dataclass(frozen=True, eq=False)
class ReplicatedCounts(Frozen):
    """Counts of consecutive units of one level: those of the release, which are the first of
    ``found``, and those of its replicates.

    If there is a level ``above``, it has the same counts and each unit's ``parent`` there.
    ``bounds`` of the units show which counts are certain, and where a count cannot be. Iteration
    takes some units at a time."""

    table: Table
    found: Sequence[Histogram]
    above: Sequence[Histogram] | None
    parent: Ints
    bounds: LevelBounds | None = None
    exact: Mask | None = None  #: columns that are known exactly where there are no bounds
    keeps_earlier_counts: bool = False  #: whether counts of an earlier release are the same in all

    def intervals(self, coverage: float, rule: str) -> Iterator[tuple[int, CountedIntervals]]:
        """In the order of the units, from which one on. By the rule that holds by true value, the
        units must be all of their level."""
        by_truth = rule_of(self, len(self.table.columns), coverage) if rule == BY_TRUTH else None
        for start, stop in self._slices():
            value, limits = self._values(self.found[0], start, stop), self.limits(start, stop)
            spread = ReplicateErrors.over(
                value, (self._values(h, start, stop) for h in self.found[1:])
            )
            able = self._able(start, stop)
            if by_truth:
                made = by_truth.interval(self._shown(0, start, stop), spread, able)
                made = made if limits is None else made.clipped(*limits)
            else:
                factor = factors(spread, able, coverage) if rule == BY_TABLE else None
                made = interval(value, spread, coverage, factor, within=limits)
            basis = bases(spread, ~able, earlier=self.keeps_earlier_counts)
            yield start, CountedIntervals(value, spread, made, basis)

    def limits(self, start: int, stop: int) -> tuple[Ints, Ints] | None:
        """The least and the most that each count can be, ``(units, columns)`` both; nothing where
        nothing is known."""
        if self.bounds is None:
            return None
        columns = range(len(self.table.columns))
        least, most = count_range(
            self.bounds, np.stack([self.table.mask(j) for j in columns]), start, stop
        )
        return least, most * np.array(
            [self.table.times(j).max() for j in columns]
        )  # a record may be counted several times

    def __iter__(self) -> Iterator[tuple[Ints, Mask, Iterator[ShownCounts]]]:
        """What :func:`das.replicates.by_truth.rule_of` asks for."""
        for start, stop in self._slices():
            shown = (self._shown(n, start, stop) for n in range(1, len(self.found)))
            yield self._values(self.found[0], start, stop), self._able(start, stop), shown

    def _slices(self) -> Iterator[tuple[int, int]]:
        units = self.found[0].units
        step = max(1, BATCH // len(self.table.columns))
        return ((start, min(start + step, units)) for start in range(0, units, step))

    def _values(self, h: Histogram, start: int, stop: int) -> Ints:
        return self.table.values(h.rows(start, stop))

    def _shown(self, number: int, start: int, stop: int) -> ShownCounts:
        here = self.found[number].rows(start, stop)
        value = self.table.values(here)
        above = np.zeros_like(value)
        if self.above is not None:
            parent = self.parent[start:stop]
            first = int(parent[0])
            above = self.table.values(self.above[number].rows(first, int(parent[-1]) + 1))[
                parent - first
            ]
        return ShownCounts(value, above, here.totals())

    def _able(self, start: int, stop: int) -> Mask:
        """Where a count is not certain, ``(units, columns)``."""
        limits, shape = self.limits(start, stop), (stop - start, len(self.table.columns))
        if limits is not None:
            return np.asarray(limits[0] < limits[1])
        return (
            np.ones(shape, dtype=bool)
            if self.exact is None
            else np.broadcast_to(~self.exact, shape)
        )


def exact_columns(table: Table, schema: Schema, queries: Sequence[Query]) -> Mask:
    """Which columns are sums of exact answers to one of the ``queries``, or of impossible cells
    alone, ``(columns,)``."""
    possible = schema.possible
    out = np.zeros(len(table.columns), dtype=bool)
    for q in queries or (schema.query("total"),):
        mine, theirs = _pairs(table.query, q, possible)
        every = np.bincount(theirs, minlength=q.answers)
        for j in range(len(out)):
            times = table.times(j)[mine]
            counted = np.bincount(theirs, weights=times > 0, minlength=q.answers)
            whole = ((counted == 0) | (counted == every)).all() and not table.repeats(j)
            out[j] |= bool(not times.any() or (queries and whole))
    return out


def _pairs(one: Query, other: Query, possible: Mask) -> tuple[Ints, Ints]:
    """The answers to both queries that some possible cell is in, in order."""
    pair = one.index.astype(np.int64) * other.answers + other.index
    if one.answers * other.answers <= len(pair):  # sorting them takes longer
        there = np.zeros(one.answers * other.answers, dtype=bool)
        there[pair[possible]] = True
        pairs = np.flatnonzero(there)
    else:
        pairs = np.unique(pair[possible])
    mine, theirs = np.divmod(pairs, other.answers)
    return mine, theirs


#: Lowest units of a part times the files that are read of it, unless one unit alone has more: about
#: twelve counts each.
PART = 1 << 23
#: Units ``start`` to ``stop`` of a level.
Slice = tuple[int, int]


class ReplicateMaker(Protocol):
    """Who makes replicates. It goes to the processes that do."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What tells replicates from those of anything else."""

    @property
    def own(self) -> Path | None:
        """The folder of intervals of the release that they are of."""

    @property
    def private(self) -> Private: ...

    @property
    def universes(self) -> tuple[Universe, ...]: ...

    def counts(self, number: int) -> tuple[Codes, Mapping[str, Histogram]]:
        """A replicate, or as number 0 the release: codes of units, and their counts by universe."""

    def source(self, out: Path, files: int) -> ReplicateSource:
        """What intervals are of, when ``out`` has all ``files``. Raises :class:`InputError` where
        these do not go together."""


def make(
    maker: ReplicateMaker,
    out: Path,
    asked: IntervalOptions,
    *,
    workers: int,
    resume: bool,
    progress: Progress,
) -> dict[str, int]:
    """Write ``out``, replicates and intervals; returns the rows of each file. Where there are more
    replicates already than are asked for, they all count.

    Raises:
        UserError: ``out`` has something else in it, or is in a release; no such table or level.
        ReleaseError: replicates that are there were altered."""
    begin(out, maker, resume)
    with run_directory.RunDirectory(out).lock():
        return _make(maker, out, asked, workers, progress)


def _make(
    maker: ReplicateMaker, out: Path, asked: IntervalOptions, workers: int, progress: Progress
) -> dict[str, int]:
    asked = replace(asked, count=max(asked.count, replicates.largest(out)))
    numbers = range(asked.count + 1)
    left = [n for n in numbers if not all(p.exists() for p in _paths(maker, out, n))]
    progress.stage("replicates", len(numbers))
    progress.advance(len(numbers) - len(left))
    with executor(min(workers, max(len(left), 1))) as pool:
        for _ in in_order(pool, partial(_made, maker, out), left, ahead=2 * workers):
            progress.advance()
    source = maker.source(out, len(numbers))
    return write_intervals(source, out, maker.identity, asked, progress)


def _made(maker: ReplicateMaker, out: Path, number: int) -> None:
    """One of the files of each universe, by whatever process."""
    codes, found = maker.counts(number)
    for u, path in zip(maker.universes, _paths(maker, out, number), strict=True):
        replicates.write(path, codes, u.schema, found[u.name], private=maker.private)


def _paths(maker: ReplicateMaker, out: Path, number: int) -> list[Path]:
    return [replicates.path_of(out, u.kind.folder, number) for u in maker.universes]


def begin(out: Path, maker: ReplicateMaker, resume: bool) -> None:
    """The manifest says from the first what the folder is of; in a release it is its own."""
    if maker.own is None or out.resolve() != maker.own.resolve():
        run_directory.refuse_inside_release(out)
    manifest = out / replicates.MANIFEST
    if not manifest.is_file():
        if resume:
            run_directory.refuse_to_resume(out)
        run_directory.refuse_full(out)
        atomic.write_json(manifest, marked(maker.identity, maker.private))
        return
    before = run_directory.read_json(manifest)
    replicates.check_kept(out, before)
    told = {EARLIER: None, **maker.identity}  # without an earlier release: nothing of one
    if other := [key for key, value in told.items() if before.get(key) != value]:
        raise UserError(
            f"has intervals of {_other(other[0], before, maker.identity)}",
            where=out,
            remedy="take the folder away, or name another --out",
        )
    if run_directory.RunDirectory(out).is_locked():
        what, remedy = replicates.BEING_MADE
        raise UserError(what, where=out, remedy=remedy)
    if not resume and "rows" not in before:
        raise UserError(
            "was begun, and not finished", where=out, remedy="go on with --resume, or take it away"
        )


def _other(key: str, before: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    """What a folder belongs to, if that differs from ``said``."""
    then, now = before.get("sources"), said.get("sources")
    if isinstance(then, dict) and isinstance(now, dict):
        changed = [n for n in {**then, **now} if then.get(n) != now.get(n)]
        names = [one["name"] for n in changed for one in now.get(n) or then.get(n) or []]
        return f"other files: {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
    return f"another {key}: {before.get(key)}"


# --- intervals


@dataclass(frozen=True, eq=False)
class _Writing:
    """What is written of one universe: by level the tables that are asked for."""

    of: ReplicateSource
    universe: Universe
    paths: Sequence[Path]  #: of the release and of its replicates
    tables: Mapping[str, Sequence[tuple[Table, IntervalWriter]]]
    bounds: Mapping[str, LevelBounds]  #: by level, where any are known
    asked: IntervalOptions
    progress: Progress

    @property
    def spine(self) -> Spine:
        return self.of.spine

    @cached_property
    def codes(self) -> tuple[Codes, ...]:
        """What the units of each level are called."""
        return tuple(replicates.codes_of(self.spine, level) for level in self.spine.levels)

    def tree(self, depth: int, slices: Sequence[Slice]) -> None:
        """All levels, part by part down from ``depth``. Raises :class:`ReleaseError` where a file
        has units that the tree has not."""
        tops = [self.part(depth, top, whole=len(slices) == 1) for top in slices]
        found = [
            Histogram.concatenate(list(parts))
            for parts in zip(*(top for top, _ in tops), strict=True)
        ]
        for path, read in zip(self.paths, np.sum([read for _, read in tops], axis=0), strict=True):
            if read != replicates.rows(path):
                raise replicates.foreign(path)
        self.upward(depth, found)

    def part(self, depth: int, top: Slice, *, whole: bool) -> tuple[list[Histogram], list[int]]:
        """Units ``top`` of the level at ``depth`` and everything below; returns their counts, and
        how many were read of each file. Those of the level itself have their intervals with those
        of all parts."""
        at = [top]
        for level in self.spine.levels[depth + 1 :]:
            ends = self.spine.children(level)
            at.append((int(ends[at[-1][0]]), int(ends[at[-1][1]])))
        codes = self.codes[-1][slice(*at[-1])]
        found = [
            replicates.read(path, codes, self.universe.schema, part=not whole)
            for path in self.paths
        ]
        read = [len(h.count) for h in found]
        for d in range(len(self.spine) - 1, depth, -1):
            here, (first, last) = at[d - depth], at[d - depth - 1]
            parent = self.spine.parent[d][slice(*here)] - first
            above = [h.up(parent, last - first) for h in found]
            self.rows(d, here[0], found, above, parent)
            found = above
        return found, read

    def upward(self, depth: int, histograms: list[Histogram]) -> None:
        """The level at ``depth``, and all above it."""
        for d in range(depth, -1, -1):
            parent = self.spine.parent[d]
            above = [h.up(parent, len(self.spine.codes[d - 1])) for h in histograms] if d else None
            self.rows(d, 0, histograms, above, parent)
            histograms = above or histograms

    def rows(
        self,
        depth: int,
        first: int,
        histograms: Sequence[Histogram],
        above: Sequence[Histogram] | None,
        parent: Ints,
    ) -> None:
        """Intervals of the units of a level from ``first`` on: of the release, the first of
        the ``histograms``, from its replicates."""
        level = self.spine.levels[depth]
        for table, writer in self.tables.get(level, ()):
            bounds = self.bounds.get(level)
            if bounds is not None and histograms[0].units < len(bounds):
                bounds = bounds.part(first, first + histograms[0].units)
            exact = self.of.exact(self.universe, table, level)
            counts = ReplicatedCounts(
                table, histograms, above, parent, bounds, exact, self.of.keeps_earlier_counts
            )
            for start, part in counts.intervals(self.asked.coverage, self.asked.rule):
                at = first + start
                writer.add(self.codes[depth][at : at + len(part.value)], part)
            self.progress.advance()


def write_intervals(
    source: ReplicateSource,
    out: Path,
    said: Mapping[str, Any],
    asked: IntervalOptions,
    progress: Progress,
) -> dict[str, int]:
    """From the replicates in a folder that was begun with ``said``; its manifest then has all
    digests. Tables and levels that are there of the same replicates, coverage and rule stay.
    Returns the rows of each file that was written."""
    chosen = source.chosen(asked.tables, asked.levels)
    depth, slices = parts_of(source.spine, max(1, PART // (asked.count + 1)))
    pieces = (len(slices) if source.spine.index(level) > depth else 1 for _, _, level in chosen)
    progress.stage("intervals", sum(pieces))
    with ExitStack() as stack:
        writers = {
            (table.name, level): stack.enter_context(
                interval_rows.writing(out / file_of(table, level), table, private=source.private)
            )
            for _, table, level in chosen
        }
        for u in {u.name: u for u, _, _ in chosen}.values():
            by_level: dict[str, list[tuple[Table, IntervalWriter]]] = {}
            for t, level in ((t, lv) for other, t, lv in chosen if other.name == u.name):
                by_level.setdefault(level, []).append((t, writers[t.name, level]))
            paths = [replicates.path_of(out, u.kind.folder, n) for n in range(asked.count + 1)]
            writing = _Writing(source, u, paths, by_level, source.bounds(u), asked, progress)
            writing.tree(depth, slices)
    rows = {file_of(table, level): writers[table.name, level].rows for _, table, level in chosen}
    told = {"replicates": asked.count, "coverage": asked.coverage, "rule": asked.rule}
    every = _before(out, told) | rows
    interval_rows.keep(out, every)
    if len(slices) == 1:  # a page that is looked at has room for no more
        there = {t.name for _, t, level in source.chosen() if file_of(t, level) in every}
        for name, text in source.described(out, asked, there).items():
            atomic.write_text(out / name, text)
    listed = told | {"says": source.says(asked.rule), "rows": every}
    listed |= {"digests": run_directory.tree_digests(out)}
    atomic.write_json(out / replicates.MANIFEST, marked(dict(said) | listed, source.private))
    return rows


def _before(out: Path, told: Mapping[str, Any]) -> dict[str, int]:
    """The rows of the files that a folder has of the same replicates, coverage and rule, as
    ``told``; all others go."""
    manifest = out / replicates.MANIFEST
    said = run_directory.read_json(manifest) if manifest.is_file() else {}
    if any(said.get(key) != value for key, value in told.items()):
        return {}
    return {name: n for name, n in said.get("rows", {}).items() if (out / name).is_file()}


def parts_of(spine: Spine, most: int) -> tuple[int, list[Slice]]:
    """The depth at which a tree is cut, and the units of that level in each part.

    The cut is at the first level whose units each have at most ``most`` lowest units. Consecutive
    units share a part while they have at most ``most`` lowest units together."""
    ends = [np.arange(spine.units(spine.levels[-1]) + 1)]
    for level in spine.levels[:0:-1]:
        ends.insert(0, ends[0][spine.children(level)])
    depth = next((d for d, end in enumerate(ends) if np.diff(end).max() <= most), len(ends) - 1)
    end, start, out = ends[depth], 0, []
    while start < len(end) - 1:
        stop = max(start + 1, int(np.searchsorted(end, end[start] + most, side="right")) - 1)
        out.append((start, stop))
        start = stop
    return depth, out


# ``intervals/dictionary.csv``: what every file of the intervals of a release means, each of its
# columns, and each code in them.
#
# The lines of :mod:`das.release.dictionary`. The dictionary of a release is sealed with it, so it
# cannot list later additions. File names start at ``intervals/``.

FILES = {
    replicates.MANIFEST: "how the intervals were made and from which release, and digests of all"
    " other files here",
    NAME: "this file",
    PAGE: "look up a place: its published counts with their intervals, and its noisy measurements",
}
PLACE = (
    "the Bureau's standard identifier, which joins to TIGER; of a level that has none, the code of"
    " the unit"
)
#: Columns of intervals, in their order.
COLUMNS = {
    GEOID: PLACE,
    "variable": "the column of the table",
    "label": "what it counts",
    "value": "the published count",
    "lower": "lower end of its interval",
    "upper": "upper end of its interval",
    "moe": "margin of error: half the width of the interval before its ends are made whole",
    "rmse": "root mean squared difference of the replicates from the published count",
    "bias": "mean difference of the replicates from the published count",
    "bias_subtracted": "whether the interval is about the published count less the bias",
    "replicates": "how many replicates there are",
    BASIS: "what the interval rests on; ends are missing of what is not covered",
}


def text(source: ReplicateSource, tables: Collection[str], *, paged: bool) -> str:
    """The file for intervals of the ``tables`` of these names; ``paged`` says whether a page comes
    with them."""
    private = source.private
    files = {name: says for name, says in FILES.items() if paged or name != PAGE}
    out = [*of_universe("", of_files(files))]
    for u in source.universes:
        made_up = source.assigned(u)
        lines = list(_replicates(u, private))
        for table in (t for other, t in source.tables if other.name == u.name):
            if table.name in tables:
                lines += _table(u, table, [made_up[a] for a in table.assigned], private)
        out += of_universe(u.name, lines)
    return written(out, private)


def _table(
    universe: Universe, table: Table, made_up: list[str], private: Private
) -> Iterator[LineParts]:
    file = f"{table.name}_*.parquet"
    what, rows = f"{table.name}: {table.title} ({universe.records})", "one row for each count"
    yield from of_file(file, f"{what}, {rows} that is not 0 everywhere", COLUMNS)
    yield from of_codes(file, "variable", table.columns, table.labels)
    yield from of_codes(file, BASIS, BASES, BASES.values())
    yield from marks(file, made_up, private)


def _replicates(universe: Universe, private: Private) -> Iterator[LineParts]:
    file = f"{replicates.NAME}/{universe.kind.folder}/replicate=*/part-*.parquet"
    says = (
        f"replicates of {universe.records}, and as number 000 the release: one row for each cell of a unit"
        " of the lowest level in which anybody is"
    )
    yield from of_file(file, says, {GEOID: PLACE})
    for a in universe.schema.attributes:
        yield "column", file, a.name, "", a.title
        yield from of_codes(file, a.name, a.levels, a.labels)
    yield "column", file, replicates.COUNT, "", "how many there are in the cell"
    yield from marks(file, [], private)
