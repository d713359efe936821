"""Several trees that share no measurement, estimated one by one from sparse measurements.

Published files can hold some states, or some counties, without a unit above them that is measured.
What is exact of each unit is known of the roots too. So nothing that is measured of one root says
anything of another: each tree has its own least squares, and together they have the same estimates
as one by one. Units of a level stand in the order of their parents, so those of one tree are
consecutive at every level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.engine import Progress
from das.estimate.fixed_counts import FixedCounts
from das.estimate.outer import OuterEstimates, refined
from das.estimate.pooled import Upward
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.measurement import SparseSource
from das.model.plan import OuterPass
from das.model.schema import Schema
from das.model.solution import Certificates
from das.model.spine import Spine
from das.publications.dhc.model import quarters
from das.publications.dhc.model.persons import DHCP

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SeparateTree(Frozen):
    """One tree: its ``spine``, and at each of its levels the number that its first unit has among
    all."""

    spine: Spine
    first: tuple[int, ...]

    @property
    def lowest(self) -> slice:
        """Its lowest units among all."""
        return slice(self.first[-1], self.first[-1] + len(self.spine.codes[-1]))


def separate_trees(spine: Spine, depth: int) -> Iterator[SeparateTree]:
    """The trees whose roots are the units at some ``depth``; at 0 the whole."""
    levels = spine.levels[depth:]
    homes = [spine.up(level, levels[0]) for level in levels]
    for root in range(spine.units(levels[0])):
        here = [(np.searchsorted(h, root), np.searchsorted(h, root, "right")) for h in homes]
        first = tuple(int(a) for a, _ in here)
        codes = [c[a:b] for c, (a, b) in zip(spine.codes[depth:], here, strict=True)]
        parents = [np.zeros(1, dtype=np.int64)]
        parents += [
            spine.parent[depth + i][a:b] - first[i - 1] for i, (a, b) in enumerate(here) if i
        ]
        yield SeparateTree(Spine(levels, tuple(codes), tuple(parents)), first)


class TreeAnswers:
    """A :class:`das.model.measurement.SparseSource` of one tree, from that of all."""

    def __init__(self, source: SparseSource, tree: SeparateTree) -> None:
        self._source, self._tree, self.queries = source, tree, source.queries

    def shape(self, level: str, query: str) -> tuple[int, int]:
        return self._tree.spine.units(level), self._source.shape(level, query)[1]

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        first = self._first(level)
        return self._source.variance(level, query)[first : first + self._tree.spine.units(level)]

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        return self._source.answers(level, query, units + self._first(level), cells)

    def _first(self, level: str) -> int:
        return self._tree.first[self._tree.spine.index(level)]


@dataclass(frozen=True, eq=False)
class ExactCounts(Frozen):
    """What is exact of the lowest units of all trees: the ``counts`` that answer ``query``, and
    where somebody can live, ``able`` ``(units, levels)`` of the schema's first attribute."""

    query: str
    counts: Histogram
    able: NDArray[np.bool_]


def estimated(
    source: SparseSource,
    tree: SeparateTree,
    schema: Schema,
    outer: Sequence[OuterPass],
    exact: ExactCounts,
    pool: Executor | None = None,
    progress: Progress | None = None,
) -> OuterEstimates:
    """One tree, from a source of its own units (:func:`das.estimate.outer.refined`); an only
    child's measurements are its parent's. ``exact`` is of all trees. Raises as ``refined`` does."""
    here = tree.lowest
    counts = exact.counts.rows(here.start, here.stop)
    fixed = FixedCounts.from_histogram(schema, exact.query, counts, tree.spine, exact.able[here])
    return refined(Upward(source, tree.spine), tree.spine, schema, outer, fixed, pool, progress)


def joined(parts: Sequence[OuterEstimates]) -> OuterEstimates:
    """The estimates of all trees, level by level."""
    counts, worst = {}, {}
    for level in parts[0].counts:
        counts[level] = Histogram.concatenate([p.counts[level] for p in parts])
        every = Certificates()
        for p in parts:
            every = every.merge(p.certificates[level])
        worst[level] = every
    return OuterEstimates(counts, worst)


# At least as many persons in each type of group quarters as it has facilities.
#
# Redistricting counts say how many live in each class of group quarters, and outer passes keep them
# (:mod:`das.estimate.fixed_counts`). A class has up to six types, and each facility holds somebody. A
# type with few persons can be estimated below its number of facilities. This bound runs across the
# redistricting counts of a class, so it is no part of their flows. Instead single persons are moved
# afterwards, within one redistricting count: from the type of the class that is furthest above its
# own bound, to the type that lacks one. A person keeps sex, origin and race, and the age where the
# other type can have it. Otherwise the age is the nearest one that it can have on the same side of
# 18. The exact counts stay, and so do the totals of every level, which are sums of the lowest.
#
# The production system repairs these bounds the same way, after its optimization, by the cheapest
# move in weighted squared error.

_HOME = len(DHCP.attribute("relgq").levels) - len(quarters.TYPES)
_STEP = DHCP.cells // DHCP.shape[0]
_AGE = DHCP.axis("age")
_ADULT = np.asarray(DHCP.query("votingage").groupings[_AGE].index)
_CLASS = np.array([quarters.HHGQ.levels.index(t.hhgq) for t in quarters.TYPES])


@dataclass(frozen=True, eq=False)
class FilledFacilities:
    """The ``counts``, how many persons were ``moved``, and how many facilities are left ``empty``:
    of classes that nobody in it can be moved in."""

    counts: Histogram
    moved: int = 0
    empty: int = 0


def filled(counts: Histogram, facilities: Ints) -> FilledFacilities:
    """Counts over ``dhcp`` with at least one person for each of the ``facilities`` ``(units, 24)``,
    where the persons of its class allow."""
    kind = counts.cell // _STEP - _HOME
    here = kind >= 0
    types = len(quarters.TYPES)
    place = counts.unit[here] * types + kind[here]
    lived = np.bincount(place, counts.count[here], counts.units * types).astype(np.int64)
    lived = lived.reshape(counts.units, types)
    moved, empty, parts, done = 0, 0, list[Histogram](), 0
    for unit in np.flatnonzero((lived < facilities).any(axis=1)).tolist():
        of = _Moves(counts.rows(unit, unit + 1), lived[unit] - facilities[unit])
        moved, empty = moved + of.made(), empty + int(-of.spare[of.spare < 0].sum())
        parts += [counts.rows(done, unit), of.rows]
        done = unit + 1
    if not done:
        return FilledFacilities(counts)
    whole = Histogram.concatenate([*parts, counts.rows(done, counts.units)])
    return FilledFacilities(whole, moved, empty)


class _Moves:
    """The counts of one unit by cell; ``spare`` ``(24,)``: persons of each type beyond its
    facilities."""

    def __init__(self, rows: Histogram, spare: Ints) -> None:
        away = rows.cell >= _HOME * _STEP
        self._home = rows.cell[~away], rows.count[~away]
        self._count = dict(zip(rows.cell[away].tolist(), rows.count[away].tolist(), strict=True))
        self.spare = spare.copy()

    @property
    def rows(self) -> Histogram:
        away = (np.array(list(x), dtype=np.int64) for x in (self._count, self._count.values()))
        cell, count = map(np.concatenate, zip(self._home, away, strict=True))
        return Histogram.from_triplets(1, DHCP.cells, np.zeros_like(cell), cell, count)

    def made(self) -> int:
        """Move persons until nothing can be moved; returns how many were."""
        moved = 0
        for kind in np.flatnonzero(self.spare < 0).tolist():
            while self.spare[kind] < 0 and self._moved_to(kind):
                moved += 1
        return moved

    def _moved_to(self, kind: int) -> bool:
        """Move one person to a type, if anybody can be."""
        others = np.flatnonzero((_CLASS[kind] == _CLASS) & (self.spare > 0))
        for other in others[np.argsort(-self.spare[others], kind="stable")].tolist():
            if (move := self._nearest(other, kind)) is not None:
                old, new = move
                self._count[old] -= 1
                self._count[new] = self._count.get(new, 0) + 1
                self.spare[[other, kind]] += [-1, 1]
                return True
        return False

    def _nearest(self, other: int, kind: int) -> tuple[int, int] | None:
        """The cell of a person of one type and that in the other, the ages as near as can be; of
        many with the same distance one of the largest count."""
        best: tuple[int, int, int, int] | None = None
        for cell, count in self._count.items():
            at = np.unravel_index(cell, DHCP.shape)
            if not count or at[0] != _HOME + other:
                continue
            age = int(at[_AGE])
            ages = np.flatnonzero(_possible(kind) & (_ADULT[age] == _ADULT))
            if not len(ages):
                continue
            new = int(ages[np.argmin(np.abs(ages - age))])
            there = [int(i) for i in at]
            there[0], there[_AGE] = _HOME + kind, new
            found = abs(new - age), -count, cell, int(np.ravel_multi_index(there, DHCP.shape))
            best = found if best is None else min(best, found)
        return None if best is None else best[2:]


def _possible(kind: int) -> NDArray[np.bool_]:
    """The ages that somebody in a type of group quarters can have, ``(ages,)``."""
    out = np.ones(DHCP.shape[_AGE], dtype=bool)
    level = DHCP.attribute("relgq").levels[_HOME + kind]
    for rule in DHCP.impossible:
        if level in rule["relgq"]:
            out[[DHCP.attribute("age").levels.index(a) for a in rule["age"]]] = False
    return out
