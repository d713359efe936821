"""What people read out of published tables: counts as sums of lines, each made of the fewest lines
of one table.

A *use* is a set of columns, each the count of the records in a set of cells. Where some
lines of one table make up a column without overlap, the public has the sum of their values. Where
no table has such lines, it has a guess alone: the attack's, or for sums of groups what tables of other
areas make one expect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.errors import SpecError
from das.model.frozen import Frozen, NoRepr
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.tools.protection.published import LevelLines, LineMatrix, ProtectedTables, TableSet

Ints = NDArray[np.int64]
#: Bounds follow from bounds so often, at most.
ROUNDS = 50


@dataclass(frozen=True, eq=False)
class TableUse(Frozen):
    """``matrix``: whether column ``j`` counts cell ``k``, ``(columns, cells)``; ``labels`` name the
    columns, ``(columns,)``."""

    name: str
    title: str
    labels: tuple[str, ...]
    matrix: sparse.csr_array

    @staticmethod
    def of_query(name: str, title: str, schema: Schema, query: str) -> TableUse:
        """The answers to a query of the schema."""
        q = schema.query(query)
        ones = np.ones(schema.cells, dtype=np.int64)
        at = (np.asarray(q.index), np.arange(schema.cells))
        matrix = sparse.csr_array((ones, at), shape=(q.answers, schema.cells))
        return TableUse(name, title or q.title, tuple(q.captions("; ")), matrix)

    @staticmethod
    def of_tables(name: str, title: str, tables: TableSet, wanted: tuple[str, ...]) -> TableUse:
        """Every line of some tables, wherever in the set they are. Raises :class:`SpecError` for a
        table that the set has not."""
        known = {t.name: t for ts in tables.tables.values() for t in ts}
        if odd := [w for w in wanted if w not in known]:
            raise SpecError(
                f"there is no table {odd[0]!r}",
                where=f"uses.{name}.tables",
                remedy=f"there are {', '.join(known)}",
            )
        chosen = [known[w] for w in wanted]
        masks = sparse.vstack([sparse.csr_array(t.masks) for t in chosen], format="csr")
        labels = tuple(f"{t.name}: {label}" for t in chosen for label in t.labels)
        return TableUse(name, title or ", ".join(wanted), labels, masks.astype(np.int64))

    @staticmethod
    def of_lines(tables: TableSet, level: str) -> TableUse:
        """Every line of a level."""
        lines = tables.lines(level)
        return TableUse("lines", "lines", lines.names, lines.matrix)

    def counts(self, h: Histogram) -> NDArray[np.int64]:
        """The columns of a histogram, ``(units, columns)``."""
        rows = sparse.csr_array((h.count, h.cell, h.indptr), shape=(h.units, h.cells))
        return np.asarray((rows @ self.matrix.T).toarray())


@dataclass(frozen=True, eq=False)
class TiledUse(Frozen):
    """A use at a level: ``tiles`` says whether column ``j`` is made of line ``i`` there, ``(columns,
    lines)``; ``tiled`` whether there are such lines, ``(columns,)``."""

    use: TableUse
    tiles: sparse.csr_array
    tiled: NDArray[np.bool_]

    @staticmethod
    def from_tables(use: TableUse, tables: TableSet, level: str) -> TiledUse:
        """For every column the fewest lines of one table at ``level`` that make it up."""
        lines, size = tables.lines(level), np.asarray(use.matrix.sum(axis=1)).ravel()
        best: list[list[int]] = [[] for _ in size]
        for j, chosen, whole in disjoint_lines(use.matrix, lines):
            if whole and (not best[j] or len(chosen) < len(best[j])):
                best[j] = sorted(chosen)
        column = np.repeat(np.arange(len(best)), [len(b) for b in best])
        line = np.array([i for b in best for i in b], dtype=np.int64)
        ones = np.ones(len(line), dtype=np.int64)
        matrix = sparse.csr_array((ones, (column, line)), shape=(len(best), len(lines)))
        return TiledUse(use, matrix, np.array([bool(b) for b in best]) | (size == 0))

    def estimate(
        self, lines: LevelLines, guessed_lines: NDArray[np.int64], guessed: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """What the public has for each unit and column, and whether all of it is published;
        ``(units, columns)`` both. ``guessed_lines`` and ``guessed`` are a guess of the lines and of
        the columns, for what is not shown."""
        shown = lines.shown
        values = np.where(shown, lines.value, guessed_lines)
        whole = (~shown).astype(np.int64) @ self.tiles.T
        summed = values @ self.tiles.T
        return np.where(self.tiled, summed, guessed), self.tiled & (whole == 0)


def disjoint_lines(
    matrix: sparse.csr_array, lines: LineMatrix, proper: bool = False
) -> Iterator[tuple[int, list[int], bool]]:
    """For every column of ``matrix`` ``(columns, cells)`` and every table: lines within the column
    that do not overlap, the largest first, and whether they make it up. ``proper``: the columns are
    the lines, and none is part of itself."""
    size = np.asarray(lines.matrix.sum(axis=1)).ravel()
    common = sparse.csr_array(matrix @ lines.matrix.T)  # cells in common, (columns, lines)
    column, within = common.nonzero()
    inside = (common.data == size[within]) & ~(proper & (column == within))
    column, within = column[inside], within[inside]
    order = np.lexsort((within, -size[within], lines.table[within], column))
    of_cells = np.split(lines.matrix.indices, lines.matrix.indptr[1:-1])
    cells = np.diff(matrix.indptr)
    key = column * (int(lines.table.max()) + 1) + lines.table[within]
    for some in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        chosen, covered = [], set[int]()
        for i in within[some].tolist():
            mine = of_cells[i].tolist()
            if covered.isdisjoint(mine):
                covered.update(mine)
                chosen.append(i)
        if chosen:
            yield int(column[some[0]]), chosen, len(covered) == cells[column[some[0]]]


def narrowed(lines: LineMatrix, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
    """The bounds of lines, ``(units, lines)``, that follow from each other: a line is at least the
    sum of lines within it that do not overlap, and just that where they make it up. Where the least
    is above the most, no counts have these bounds.

    So rounding is undone, where each number is rounded by itself. Source: C. West, Vecna, R. Chowdhury,
    Random (Un)rounding (arXiv 2307.13859), with 624 exact values of the 2021 Canadian census."""
    found = list(disjoint_lines(lines.matrix, lines, proper=True))
    whole, exact = (np.array([f[i] for f in found], dtype=np.int64) for i in (0, 2))
    sums = np.repeat(np.arange(len(found)), [len(chosen) for _, chosen, _ in found])
    part = np.array([i for _, chosen, _ in found for i in chosen], dtype=np.int64)
    matrix = sparse.csr_array((np.ones_like(part), (sums, part)), (len(found), len(lines)))
    every, known = np.flatnonzero(exact), exact[sums] > 0
    low, up = lower.T.copy(), upper.T.copy()
    for _ in range(ROUNDS):
        before = low.copy(), up.copy()
        least, most = matrix @ low, matrix @ up
        np.maximum.at(low, whole, least)
        np.minimum.at(up, whole[every], most[every])
        np.minimum.at(up, part, (before[1][whole] - least)[sums] + before[0][part])
        need = (before[0][whole] - most)[sums[known]] + before[1][part[known]]
        np.maximum.at(low, part[known], need)
        if np.array_equal(low, before[0]) and np.array_equal(up, before[1]):
            break
    return low.T, up.T


# Errors of what the public has of protected tables, in sums that add up over groups of places.
#
# For each use (:mod:`das.tools.protection.uses`) and level the public has an estimate: the published value
# where every line that it is made of is shown, else the guess of an attack, summed. A column that is
# not shown whole counts as withheld, whether its guess is right or not.

#: Runs of consecutive lowest places as the areas that people draw themselves, and their "level".
AREA, AREAS = 15, "areas"

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class UseTally(NoRepr, Frozen):
    """Of a use at a level, by cluster: ``units`` with persons, ``(clusters,)``; and by column the
    sums of absolute, squared and signed errors, of the true counts, and of how many are
    ``withheld``, ``(clusters, columns)``. A signed error is estimate minus truth."""

    use: str
    level: str
    units: Ints
    absolute: Ints
    square: Ints
    signed: Ints
    true: Ints
    withheld: Ints

    @staticmethod
    def from_counts(use: str, level: str, cluster: Ints, clusters: int, truth: Ints, estimate: Ints,
           published: Bools, inhabited: Bools) -> UseTally:  # fmt: skip
        """From ``(units, columns)``, of the units that are ``inhabited``, ``(units,)``."""
        at, error = cluster[inhabited], (estimate - truth)[inhabited]

        def summed(values: Ints) -> Ints:
            out = np.zeros((clusters, values.shape[1]), dtype=np.int64)
            np.add.at(out, at, values)
            return out

        return UseTally(
            use,
            level,
            np.bincount(at, minlength=clusters).astype(np.int64),
            summed(np.abs(error)),
            summed(error**2),
            summed(error),
            summed(truth[inhabited]),
            summed((~published[inhabited]).astype(np.int64)),
        )


@dataclass(frozen=True, eq=False, repr=False)
class LineTally(NoRepr, Frozen):
    """Lines of a level by cluster, ``(clusters,)``: all of units with persons, those that are
    withheld, and those whose true count is not zero, all and withheld."""

    level: str
    lines: Ints
    withheld: Ints
    positive: Ints
    positive_withheld: Ints


@dataclass(frozen=True, eq=False)
class UsesAtLevels:
    """Which lines of the published ``tables`` make up each use, at each level with tables; and each
    line of the tables that were ``asked`` for, where a method publishes others. Found once."""

    tables: TableSet
    uses: tuple[TableUse, ...]
    asked: TableSet

    @cached_property
    def tiled(self) -> dict[tuple[str, str], TiledUse]:
        return {
            (use.name, level): TiledUse.from_tables(use, self.tables, level)
            for use in self.uses
            for level in self.tables.tables
        }

    @cached_property
    def asked_lines(self) -> dict[str, TiledUse]:
        """By level; none where the published tables are those that were asked for."""
        if self.tables is self.asked:
            return {}
        return {
            level: TiledUse.from_tables(TableUse.of_lines(self.asked, level), self.tables, level)
            for level in self.asked.tables
            if level in self.tables.tables
        }


def use_tallies(
    at: UsesAtLevels, published: ProtectedTables, guess: Histogram, truth: Histogram, cluster: str
) -> tuple[UseTally, ...]:
    """The errors of every use at the level ``cluster`` and below, and in areas of consecutive
    lowest places, by unit of ``cluster``."""
    spine = published.spine
    lowest = spine.levels[-1]
    every = {"truth": truth.upward(spine), "guess": guess.upward(spine)}
    known = published.expected
    levels = spine.levels[spine.index(cluster) :]
    expected = (
        {} if known is None else {v: known.above(spine.up(lowest, v)).histogram() for v in levels}
    )
    out = []
    for use in at.uses:
        best = every["guess"] if known is None or not known.tells(use.matrix) else expected
        below: tuple[Ints, Ints, Bools] | None = None
        for level in reversed(levels):
            true = use.counts(every["truth"][level])
            guessed = use.counts(best[level])
            if level in published.levels:
                lines = at.tables.lines(level).counts(best[level])
                found = at.tiled[use.name, level].estimate(published.levels[level], lines, guessed)
            elif below is not None:
                starts = spine.children(spine.levels[spine.index(level) + 1])[:-1]
                found = np.add.reduceat(below[1], starts), np.logical_and.reduceat(below[2], starts)
            else:
                found = guessed, np.zeros(guessed.shape, dtype=bool)
            below = true, *found
            inside = every["truth"][level].totals() > 0
            of = spine.up(level, cluster)
            out.append(
                UseTally.from_counts(use.name, level, of, spine.units(cluster), *below, inside)
            )
            if level == lowest:
                out.append(_areas(use.name, spine, cluster, below, inside))
    return tuple(out)


def _areas(
    use: str, spine: Spine, cluster: str, columns: tuple[Ints, Ints, Bools], inhabited: Bools
) -> UseTally:
    """Runs of :data:`AREA` consecutive lowest places within a unit of ``cluster``; the last takes
    what is left over. They cut across the levels between."""
    lowest = spine.levels[-1]
    up, units = spine.up(lowest, cluster), spine.units(cluster)
    first = np.searchsorted(up, np.arange(units))
    size = np.bincount(up, minlength=units)
    run = np.minimum((np.arange(len(up)) - first[up]) // AREA, np.maximum(size // AREA, 1)[up] - 1)
    starts = np.flatnonzero(np.diff(up, prepend=-1) | np.diff(run, prepend=-1))
    truth, estimate = (np.add.reduceat(v, starts) for v in columns[:2])
    shown = np.logical_and.reduceat(columns[2], starts)
    inside = np.logical_or.reduceat(inhabited, starts)
    return UseTally.from_counts(use, AREAS, up[starts], units, truth, estimate, shown, inside)


def line_tallies(
    at: UsesAtLevels, published: ProtectedTables, truth: Histogram, cluster: str
) -> tuple[LineTally, ...]:
    """What is withheld of the tables that were asked for, at the level ``cluster`` and below."""
    spine, out = published.spine, []
    every = truth.upward(spine)
    for level in spine.levels[spine.index(cluster) :]:
        if level not in at.asked.tables:
            continue
        known = at.asked.lines(level).counts(every[level])
        shown = _shown(at, published, level, known)
        inside = (every[level].totals() > 0)[:, None]
        of, units = spine.up(level, cluster), spine.units(cluster)

        def counted(which: Bools, unit: Ints = of, units: int = units) -> Ints:
            return np.bincount(unit, which.sum(axis=1), units).astype(np.int64)

        positive = inside & (known > 0)
        out.append(
            LineTally(
                level,
                counted(np.broadcast_to(inside, shown.shape)),
                counted(inside & ~shown),
                counted(positive),
                counted(positive & ~shown),
            )
        )
    return tuple(out)


def _shown(at: UsesAtLevels, published: ProtectedTables, level: str, known: Ints) -> Bools:
    """Whether the public has each line that was asked for, ``(units, lines)``."""
    if level not in published.levels:
        return np.zeros(known.shape, dtype=bool)
    lines = published.levels[level]
    if at.tables is at.asked:
        return lines.shown
    return at.asked_lines[level].estimate(lines, lines.value, known)[1]
