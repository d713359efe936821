"""Errors of what the public has of protected tables, in sums that add up over groups of places.

For each use (:mod:`das.tools.protection.uses`) and level the public has an estimate: the published value
where every line that it is made of is shown, else the guess of an attack, summed. A column that is
not shown whole counts as withheld, whether its guess is right or not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Closed, Frozen
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.tools.protection.published import ProtectedTables
from das.tools.protection.table_set import TableSet
from das.tools.protection.uses import TableUse, TiledUse

#: Runs of consecutive lowest places as the areas that people draw themselves, and their "level".
AREA, AREAS = 15, "areas"

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class UseTally(Closed, Frozen):
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
    def of(use: str, level: str, cluster: Ints, clusters: int, truth: Ints, estimate: Ints,
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
class LineTally(Closed, Frozen):
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
            (use.name, level): TiledUse.of(use, self.tables, level)
            for use in self.uses
            for level in self.tables.tables
        }

    @cached_property
    def asked_lines(self) -> dict[str, TiledUse]:
        """By level; none where the published tables are those that were asked for."""
        if self.tables is self.asked:
            return {}
        return {
            level: TiledUse.of(TableUse.of_lines(self.asked, level), self.tables, level)
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
    out = []
    for use in at.uses:
        below: tuple[Ints, Ints, Bools] | None = None
        for level in reversed(spine.levels[spine.index(cluster) :]):
            known = use.counts(every["truth"][level])
            guessed = use.counts(every["guess"][level])
            if level in published.levels:
                lines = at.tables.lines(level).counts(every["guess"][level])
                found = at.tiled[use.name, level].estimate(published.levels[level], lines, guessed)
            elif below is not None:
                found = _summed(spine, level, below[1], below[2])
            else:
                found = guessed, np.zeros(guessed.shape, dtype=bool)
            below = known, *found
            inside = every["truth"][level].totals() > 0
            of = spine.up(level, cluster)
            out.append(UseTally.of(use.name, level, of, spine.units(cluster), *below, inside))
            if level == lowest:
                out.append(_areas(use.name, spine, cluster, below, inside))
    return tuple(out)


def _summed(spine: Spine, level: str, estimate: Ints, shown: Bools) -> tuple[Ints, Bools]:
    """Of the units of ``level``, from those of the level below."""
    starts = spine.children(spine.levels[spine.index(level) + 1])[:-1]
    return np.add.reduceat(estimate, starts), np.logical_and.reduceat(shown, starts)


def _areas(
    use: str, spine: Spine, cluster: str, of: tuple[Ints, Ints, Bools], inhabited: Bools
) -> UseTally:
    """Runs of :data:`AREA` consecutive lowest places within a unit of ``cluster``; the last takes
    what is left over. They cut across the levels between."""
    lowest = spine.levels[-1]
    up, units = spine.up(lowest, cluster), spine.units(cluster)
    first = np.searchsorted(up, np.arange(units))
    size = np.bincount(up, minlength=units)
    run = np.minimum((np.arange(len(up)) - first[up]) // AREA, np.maximum(size // AREA, 1)[up] - 1)
    starts = np.flatnonzero(np.diff(up, prepend=-1) | np.diff(run, prepend=-1))
    truth, estimate = (np.add.reduceat(v, starts) for v in of[:2])
    shown = np.logical_and.reduceat(of[2], starts)
    inside = np.logical_or.reduceat(inhabited, starts)
    return UseTally.of(use, AREAS, up[starts], units, truth, estimate, shown, inside)


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

        def counted(which: Bools, of: Ints = of, units: int = units) -> Ints:
            return np.bincount(of, which.sum(axis=1), units).astype(np.int64)

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
