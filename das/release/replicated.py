"""``intervals/`` of a release: replicates, and intervals of every published count from them.

    replicates (das.release.replicates, each by itself) -> errors of each table and level -> intervals

Reading them needs no noise. Like ``das.release.post``, nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das import tables
from das.accounting.document import NAME as STATEMENT
from das.engine import Progress
from das.errors import ReleaseError, UserError
from das.files.release import interval_rows, replicates
from das.files.release.interval_rows import IntervalRows
from das.files.run import run_directory
from das.files.run.ledger import INTERVALS
from das.model.histogram import Histogram
from das.model.level_bounds import LevelBounds
from das.model.spine import Spine
from das.model.universe import Universe
from das.release.post import Opened
from das.replicates import RULES, ReplicateErrors, check_rule, interval
from das.replicates.by_truth import ShownCounts, regions
from das.tables import Table

#: Values of a table that are held at once, of each sum.
BATCH = 1 << 22
#: Replicates that do for shares, extremes and intervals of many areas at once.
ENOUGH = 50
#: The rule of intervals that hold by true value as well (:mod:`das.replicates.by_truth`). It is of the counts of a whole level, and those of
#: :data:`das.replicates.RULES` of any statistic.
BY_TRUTH = "pratt"
COUNT_RULES = (*RULES, BY_TRUTH)
#: What must stand beside intervals.
SAYS = (
    "Of disclosure avoidance alone: not of coverage or response errors of the census.",
    "Approximate, and by published value: true counts that are small and were published as 0 are missed more often.",
    "Each by itself: of many intervals together some miss.",
)
_BY_TRUE_VALUE = "Approximate, and by published and by true value alike, over the cells of a level."


@dataclass(frozen=True)
class AskedIntervals:
    """What is asked for: ``count`` replicates of ``seed``, the ``rule`` and ``coverage`` of intervals, and of which tables and levels (all,
    where none is named)."""

    count: int
    seed: int
    coverage: float
    rule: str = "ct"
    tables: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 2 or self.seed < 0:
            raise UserError(f"{self.count} replicates of seed {self.seed}", where="intervals",
                            remedy="two replicates at the least, and a seed of 0 or more")  # fmt: skip
        check_rule(self.coverage, self.rule, COUNT_RULES)


def says(rule: str) -> tuple[str, ...]:
    """What must stand beside intervals by a ``rule``."""
    return (SAYS[0], _BY_TRUE_VALUE, SAYS[2]) if rule == BY_TRUTH else SAYS


def digest_of(release: Path) -> str:
    """What tells the release from any other."""
    return run_directory.file_digest(release / STATEMENT)


def replicates_of(opened: Opened, u: Universe) -> Iterator[Histogram]:
    """The replicates that a release has, in order: those of which its intervals are; none where it has none, or not yet."""
    out, said = opened.folder / INTERVALS, _said(opened)
    codes = replicates.codes_of(opened.spine, opened.spine.levels[-1])
    for n in range(1, 1 + int(said.get("replicates", 0))):
        yield replicates.read(replicates.path_of(out, u.kind.folder, n), codes, u.schema)


def intervals_of(opened: Opened) -> Iterator[tuple[Universe, Table, str, tuple[NDArray[np.int64], ...]]]:
    """Of each table and level of which the release has intervals: published values and the ends of their intervals,
    ``(units, columns)`` each."""
    out = opened.folder / INTERVALS
    if not _said(opened):
        return
    for u, table, level in chosen_of(opened, AskedIntervals(2, 0, 0.9)):
        if (path := out / file_of(table, level)).is_file():
            yield u, table, level, interval_rows.read(path, table, replicates.codes_of(opened.spine, level))


def _said(opened: Opened) -> dict[str, Any]:
    """What the manifest of the intervals of a release says; nothing where it has none. Raises :class:`ReleaseError` where they are
    another release's, or altered."""
    out = opened.folder / INTERVALS
    if not (out / replicates.MANIFEST).is_file():
        return {}
    said = run_directory.read_json(out / replicates.MANIFEST)
    if said.get("release") != digest_of(opened.folder):
        raise ReleaseError(
            "these replicates are of another release", where=out, remedy="take the folder away, and make them again"
        )
    replicates.check(out)
    return said


def file_of(table: Table, level: str) -> str:
    return f"{table.name}_{level}.parquet"


# --- intervals -----------------------------------------------------------------------------------------------


def chosen_of(opened: Opened, asked: AskedIntervals) -> list[tuple[Universe, Table, str]]:
    """Of each table and level that is asked for."""
    every = [(u, t) for u in opened.after.universes for t in tables.of(u, opened.assigned(u.name))]
    for name, known, what in (
        (asked.tables, [t.name for _, t in every], "tables"),
        (asked.levels, opened.spine.levels, "levels"),
    ):
        if lost := [n for n in name if n not in known]:
            raise UserError(
                f"there is no {lost[0]!r}",
                where=f"--{what.removesuffix('s')}",
                remedy=f"the {what} are {', '.join(known)}",
            )
    return [(u, t, level) for u, t in every if not asked.tables or t.name in asked.tables
            for level in opened.spine.levels if not asked.levels or level in asked.levels]  # fmt: skip


def write_intervals(
    opened: Opened, out: Path, asked: AskedIntervals, chosen: Sequence[tuple[Universe, Table, str]], progress: Progress
) -> dict[str, int]:
    rows: dict[str, int] = {}
    progress.stage("intervals", len(chosen))
    spine = opened.spine
    codes = replicates.codes_of(spine, spine.levels[-1])
    for u in opened.after.universes:
        of_u = [(table, level) for other, table, level in chosen if other is u]
        if not of_u:
            continue
        paths = [replicates.path_of(out, u.kind.folder, n) for n in range(asked.count + 1)]
        found, bounds = (
            [replicates.read(path, codes, u.schema).upward(spine) for path in paths],
            opened.published_bounds(u),
        )
        for table, level in of_u:
            name, counts = file_of(table, level), ReplicatedCounts(spine, table, level, found, bounds[level])
            parts = counts.intervals(asked.coverage, asked.rule)
            rows[name] = interval_rows.write(out / name, table, parts, private=opened.after.private)
            progress.advance()
    interval_rows.keep(out, rows)  # others are of other replicates, or of another coverage
    return rows


@dataclass(frozen=True, eq=False)
class ReplicatedCounts:
    """Counts of a table at one level of ``spine``: of the release, the first of ``found``, and of its replicates; each has a histogram of every
    level. Where ``bounds`` forbid a unit to have any, a count is none by structure. Walked some units at a time."""

    spine: Spine
    table: Table
    level: str
    found: Sequence[Mapping[str, Histogram]]
    bounds: LevelBounds | None = None

    def intervals(self, coverage: float, rule: str) -> Iterator[IntervalRows]:
        """With the interval of each count by a ``rule``, in the order of the units."""
        codes = replicates.codes_of(self.spine, self.level)
        by_truth = regions(self, len(self.table.columns), coverage) if rule == BY_TRUTH else None
        for start, stop in self._slices():
            release, *others = (self._shown(levels, start, stop) for levels in self.found)
            value = release.value
            first, second = np.zeros_like(value), np.zeros_like(value)
            for other in others:
                d = other.value - value
                first += d
                second += d * d
            spread = ReplicateErrors(len(others), first, second)
            made = interval(value, spread, coverage, "ct" if by_truth else rule)
            if by_truth:
                made = by_truth.widened(made, release, self._able(start, stop))
            yield IntervalRows(codes[start:stop], value, spread, made)

    def __iter__(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_], Iterator[ShownCounts]]]:
        """What :func:`das.replicates.by_truth.regions` asks for."""
        for start, stop in self._slices():
            value = self.table.values(self.found[0][self.level].rows(start, stop))
            yield value, self._able(start, stop), (self._shown(levels, start, stop) for levels in self.found[1:])

    def _slices(self) -> Iterator[tuple[int, int]]:
        return self.spine.batches(self.level, len(self.table.columns) * len(self.found), BATCH)

    def _shown(self, levels: Mapping[str, Histogram], start: int, stop: int) -> ShownCounts:
        here, depth = levels[self.level].rows(start, stop), self.spine.index(self.level)
        value = self.table.values(here)
        above = np.zeros_like(value)
        if depth:
            parent = self.spine.parent[depth][start:stop]
            first = int(parent[0])
            above = self.table.values(levels[self.spine.levels[depth - 1]].rows(first, int(parent[-1]) + 1))[
                parent - first
            ]
        return ShownCounts(value, above, here.totals())

    def _able(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Where a count may be positive by the bounds, ``(units, columns)``."""
        if self.bounds is None:
            return np.ones((stop - start, len(self.table.columns)), dtype=bool)
        column = np.repeat(np.arange(len(self.table.columns)), np.diff(self.table.indptr))
        there = self.bounds.possible[self.table.cell]
        room = np.zeros((self.bounds.groups, len(self.table.columns)), dtype=np.int64)
        np.add.at(room, (self.bounds.group[self.table.cell[there]], column[there]), 1)
        _, upper = self.bounds.limits.some(slice(start, stop))
        able: NDArray[np.bool_] = ((upper > 0).astype(np.int64) @ room) > 0
        return able if self.bounds.total is None else able & (self.bounds.total[start:stop, None] > 0)
