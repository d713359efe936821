r"""Measurements of only children, pooled with those of their parents.

An only child has the histogram of its parent. So has the only one of several children that can hold
somebody: the others' bounds, which are public, say that nobody is there. A *chain* is a unit, its
only child, the only child of that, and so on. The descent estimates only the unit at the top of the
chain; those below it have the same counts. Their measurements are measurements of the top. Let
:math:`\sigma_i^2` be the variances of one query at the measured units :math:`i` of the chain. Then

.. math:: m = \sigma^2 \sum_i \frac{m_i}{\sigma_i^2}, \qquad \frac1{\sigma^2} = \sum_i \frac1{\sigma_i^2}.

This loses nothing. Least squares needs only :math:`\sum_i Q'Q/\sigma_i^2` and :math:`\sum_i
Q'm_i/\sigma_i^2`, which are :math:`Q'Q/\sigma^2` and :math:`Q'm/\sigma^2`. A query that was
measured only below the top is one more query of the top.

*An upper tree and subtrees* (:mod:`das.model.measured_spine`): a chain can cross the border. Then the
subtree passes up the measurements of its part of the chain (:class:`DescendantMeasurements`). The
upper tree, which has the top, adds them to its own, in the same order as in the whole tree.

On an optimized spine a chain already has one measured unit (:mod:`das.model.tabulation`), so this
changes nothing. Full information does not need it: there an only child gives all its information to
its parent (:mod:`das.estimate.information`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.model.constraint import LevelBounds
from das.model.frozen import Frozen
from das.model.measurement import (
    Measurement,
    Measurements,
    MeasurementSource,
    PooledMeasurement,
    SparseSource,
    of_values,
)
from das.model.schema import Schema
from das.model.spine import Spine

Ints = NDArray[np.int64]
WhichUnits = Callable[[str], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class OnlyChildren:
    """Units of a level, each the top of a chain, and the ``descendant`` of each, at the lower
    ``level``: its only descendant there that may hold somebody. Both increase; the descendants are
    in one batch, which ``source`` reads at once."""

    level: str
    unit: Ints
    descendant: Ints
    source: MeasurementSource

    def of_units(self, start: int, stop: int) -> OnlyChildren:
        """The measurements of the units ``start:stop``."""
        here = slice(*np.searchsorted(self.unit, [start, stop]).tolist())
        return replace(self, unit=self.unit[here], descendant=self.descendant[here])

    @property
    def extent(self) -> tuple[str, int, int]:
        """The level and the slice of units that the descendants are in."""
        return self.level, int(self.descendant[0]), int(self.descendant[-1]) + 1

    def part(self) -> OnlyChildren:
        return replace(self, source=self.source.part(*self.extent))


@dataclass(frozen=True, eq=False)
class DescendantMeasurements:
    """What the descendants of some units of one level were asked at levels below, root first: by
    level the ``unit`` of each descendant, increasing, and ``source`` with the descendants' own
    measurements, numbered as ``unit`` lists them."""

    unit: Mapping[str, Ints]
    source: Measurements

    @staticmethod
    def below_level(
        source: MeasurementSource,
        spine: Spine,
        bounds: Mapping[str, LevelBounds],
        schema: Schema,
        level: str,
        measured: WhichUnits | None = None,
    ) -> DescendantMeasurements:
        """The measurements that a subtree passes to the upper tree: those below units of ``level``
        with only one child that can hold somebody, and so on down."""
        units, held = {}, []
        every = np.arange(spine.units(level))
        for below, unit, descendant in _descendants(
            spine, _only_children(spine, bounds), spine.index(level), every
        ):
            keep = slice(None) if measured is None else measured(below)[descendant]
            if found := list(_batches(source, spine, schema, below, unit[keep], descendant[keep])):
                units[below] = np.concatenate([h.unit for h in found])
                held += [_one_by_one(found, below, query) for query in source.queries(below)]
        return DescendantMeasurements(units, Measurements.from_measurements(held))

    @staticmethod
    def gathered(
        parts: Sequence[DescendantMeasurements], units: Sequence[Ints]
    ) -> DescendantMeasurements:
        """The measurements for the lowest units of an upper tree, joined from its subtrees.
        ``units`` are the numbers of each subtree's units there."""
        unit, held = {}, []
        for level in dict.fromkeys(level for p in parts for level in p.unit):
            some = [
                (p, here[p.unit[level]])
                for p, here in zip(parts, units, strict=True)
                if level in p.unit
            ]
            number = np.concatenate([u for _, u in some])
            order = np.argsort(number)
            unit[level] = number[order]
            for query in some[0][0].source.queries(level):
                read = [p.source.held[level, query] for p, _ in some]
                values, variance = (
                    np.concatenate([getattr(m, name) for m in read])
                    for name in ("values", "variance")
                )
                held.append(of_values(level, query, 0, values[order], variance[order]))
        return DescendantMeasurements(unit, Measurements.from_measurements(held))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """As one file holds them."""
        out: dict[str, NDArray[Any]] = dict(self.unit)
        for (level, query), m in self.source.held.items():
            out |= {f"{level}/{query}/values": m.values, f"{level}/{query}/variance": m.variance}
        return out

    @staticmethod
    def of_arrays(arrays: Mapping[str, NDArray[Any]]) -> DescendantMeasurements:
        """The value from the arrays of ``to_arrays``."""
        names = [name.split("/") for name in arrays]
        held = [
            of_values(
                level,
                query,
                0,
                arrays[f"{level}/{query}/values"],
                arrays[f"{level}/{query}/variance"],
            )
            for level, query in dict.fromkeys((n[0], n[1]) for n in names if len(n) > 1)
        ]
        return DescendantMeasurements(
            {n[0]: arrays[n[0]] for n in names if len(n) == 1}, Measurements.from_measurements(held)
        )


@dataclass(frozen=True, eq=False)
class PooledSource:
    """A source that answers for the top of each chain with all that was measured of it; for any
    other unit, as ``source`` does. Pooled values are floats. ``descendants``: by the level of the
    tops."""

    source: MeasurementSource
    schema: Schema
    descendants: Mapping[str, tuple[OnlyChildren, ...]]

    @staticmethod
    def over_chains(
        source: MeasurementSource,
        spine: Spine,
        bounds: Mapping[str, LevelBounds],
        schema: Schema,
        measured: WhichUnits | None = None,
        *,
        handed_up: DescendantMeasurements | None = None,
        under: str | None = None,
    ) -> MeasurementSource:
        """Over the chains of a tree, by the bounds of its units; the source itself where there are
        none. ``measured`` says of each level which units are, ``(units,)``: of others nothing is
        read. An upper tree is given the ``handed_up`` of its lowest units; of a subtree, only
        chains with their tops ``under`` the level of the upper tree are told."""
        found: dict[str, tuple[OnlyChildren, ...]] = {}
        only = _only_children(spine, bounds)
        for depth in range(0 if under is None else spine.index(under) + 1, len(spine)):
            level, tops = spine.levels[depth], _tops(spine, only, depth)
            here: list[OnlyChildren] = []
            for below, unit, descendant in _descendants(spine, only, depth, tops):
                keep = slice(None) if measured is None else measured(below)[descendant]
                here += _batches(source, spine, schema, below, unit[keep], descendant[keep])
            if handed_up is not None:
                here += _handed(handed_up, *_last(spine, only, depth, tops))
            if here:
                found[level] = tuple(here)
        return PooledSource(source, schema, found) if found else source

    def queries(self, level: str) -> tuple[str, ...]:
        return (*self.source.queries(level), *self.inherited(level))

    def inherited(self, level: str) -> tuple[str, ...]:
        """The queries that descendants of units of ``level`` were asked, and no unit of the level
        itself."""
        below = dict.fromkeys(
            q for h in self.descendants.get(level, ()) for q in h.source.queries(h.level)
        )
        return tuple(q for q in below if q not in self.source.queries(level))

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        inherited = query in self.inherited(level)
        own = (self._none if inherited else self.source.read)(level, query, start, stop)
        precision = 1.0 / own.variance
        values = precision[:, None] * np.where(np.isfinite(own.variance)[:, None], own.values, 0)
        pooled = np.zeros(stop - start, dtype=bool)
        for h in self._of_units(level, start, stop):
            if query in h.source.queries(h.level):
                m = h.source.read(h.level, query, *h.extent[1:])
                at = h.descendant - m.start
                known = np.isfinite(m.variance[at])
                unit, weight = h.unit[known] - start, 1.0 / m.variance[at[known]]
                precision[unit] += weight
                values[unit] += weight[:, None] * m.values[at[known]]
                pooled[unit] = True
        if not pooled.any():
            return own
        out, variance = own.values.astype(np.float64), own.variance.copy()
        out[pooled] = values[pooled] / precision[pooled, None]
        variance[pooled] = 1.0 / precision[pooled]
        return PooledMeasurement(level, query, start, out, variance)

    def part(self, level: str, start: int, stop: int) -> MeasurementSource:
        own = self.source.part(level, start, stop)
        here = tuple(h.part() for h in self._of_units(level, start, stop))
        return PooledSource(own, self.schema, {level: here}) if here else own

    def _of_units(self, level: str, start: int, stop: int) -> Iterator[OnlyChildren]:
        some = (h.of_units(start, stop) for h in self.descendants.get(level, ()))
        return (h for h in some if len(h.unit))

    def _none(self, level: str, query: str, start: int, stop: int) -> Measurement:
        """An empty measurement, for a query that only descendants were measured with."""
        values = np.zeros((stop - start, self.schema.query(query).answers), dtype=np.int64)
        return Measurement(level, query, start, values, np.full(stop - start, np.inf))


def _only_children(spine: Spine, bounds: Mapping[str, LevelBounds]) -> list[Ints]:
    """:func:`_only` for each level except the lowest, root first."""
    return [
        _only(parent, bounds[level], len(above))
        for level, parent, above in zip(
            spine.levels[1:], spine.parent[1:], spine.codes, strict=False
        )
    ]


def _tops(spine: Spine, only: Sequence[Ints], depth: int) -> Ints:
    """The units at ``depth`` that are no such descendant."""
    units = np.arange(len(spine.codes[depth]))
    return units if depth == 0 else np.flatnonzero(only[depth - 1][spine.parent[depth]] != units)


def _descendants(
    spine: Spine, only: Sequence[Ints], depth: int, unit: Ints
) -> Iterator[tuple[str, Ints, Ints]]:
    """A level below ``depth``, which of the units have a descendant there, and the descendant of
    each."""
    descendant = unit
    for below, child in zip(spine.levels[depth + 1 :], only[depth:], strict=True):
        descendant = child[descendant]
        unit, descendant = unit[descendant >= 0], descendant[descendant >= 0]
        if not len(unit):
            return
        yield below, unit, descendant


def _last(spine: Spine, only: Sequence[Ints], depth: int, unit: Ints) -> tuple[Ints, Ints]:
    """Which of the units have a descendant at the lowest level, or are there themselves, and the
    descendant of each."""
    if depth == len(spine) - 1:
        return unit, unit
    *_, (below, some, descendant) = (
        ("", unit[:0], unit[:0]),
        *_descendants(spine, only, depth, unit),
    )
    return (some, descendant) if below == spine.levels[-1] else (unit[:0], unit[:0])


def _handed(
    handed_up: DescendantMeasurements, unit: Ints, descendant: Ints
) -> Iterator[OnlyChildren]:
    """What is handed to some units of an upper tree whose lowest descendants are these."""
    for level, owner in handed_up.unit.items():
        at = np.searchsorted(owner, descendant)
        there = at < len(owner)
        there[there] = owner[at[there]] == descendant[there]
        if there.any():
            yield OnlyChildren(level, unit[there], at[there], handed_up.source)


def _one_by_one(descendants: Sequence[OnlyChildren], level: str, query: str) -> Measurement:
    """What some descendants of one level were asked, numbered from 0."""
    values, variance = [], []
    for h in descendants:
        m = h.source.read(level, query, *h.extent[1:])
        values.append(m.values[h.descendant - m.start])
        variance.append(m.variance[h.descendant - m.start])
    return of_values(level, query, 0, np.concatenate(values), np.concatenate(variance))


def _only(parent: Ints, bounds: LevelBounds, parents: int) -> Ints:
    """The one child of each parent that can hold somebody, ``(parents,)``; -1 if many or none."""
    able = np.flatnonzero(bounds.able)
    alone = able[np.bincount(parent[able], minlength=parents)[parent[able]] == 1]
    out = np.full(parents, -1, dtype=np.int64)
    out[parent[alone]] = alone
    return out


def _batches(
    source: MeasurementSource,
    spine: Spine,
    schema: Schema,
    level: str,
    unit: Ints,
    descendant: Ints,
) -> Iterator[OnlyChildren]:
    """The descendants of each batch of their level, as that is written and read."""
    if not (queries := source.queries(level)) or not len(unit):
        return
    answers = sum(schema.query(q).answers for q in queries)
    starts = np.array([start for start, _ in spine.batches(level, answers)])
    first = np.flatnonzero(np.diff(np.searchsorted(starts, descendant, side="right"), prepend=-1))
    for units, descendants in zip(
        np.split(unit, first[1:]), np.split(descendant, first[1:]), strict=True
    ):
        yield OnlyChildren(level, units, descendants, source)


# Uses sparse measurements below a unit together with the unit's own.
#
# Estimation goes down: a unit's answers :math:`Q h_u` are estimated from its own measurement, without
# those of its descendants. But each descendant's measurement is one of a part of the unit. In an
# *upward* pass the measurement :math:`m_u` with variance :math:`\sigma_u^2` is replaced by
#
# .. math:: z_u = v_u \Bigl(\frac{m_u}{\sigma_u^2} + \frac{\sum_c z_c}{\sum_c v_c}\Bigr), \qquad
# \frac1{v_u} = \frac1{\sigma_u^2} + \frac1{\sum_c v_c},
#
# over the children c of u, from the lowest level up (there :math:`z = m`). The descent then uses z
# and v instead of m and :math:`\sigma^2`. For one query on a tree without bounds, this gives the
# least squares of all measurements of the tree at once. The reasons: z is the best linear estimate of
# :math:`Qh_u` from the subtree of u. Siblings' subtrees share no noise. Given the parent, nothing
# outside its subtree says more. (With bounds and several queries the estimate is only approximately
# that; the variances are exact.)
#
# Two parts of this are done:
#
# * An *only child* is its parent, for every query. Every request for the parent also requests the
# child, cell by cell. This requests no further coordinates, and wastes nothing that was paid for.
# * For queries with few answers (``most``), all units are used. This requests all their answers, at
# all levels. For queries with many answers it would request each answer in each unit, which nobody
# can store.
#
# The used answers have the distribution of a full measurement, as for any requests that depend only
# on earlier answers (:mod:`das.noise.coordinates`).
#
# If a tree is cut (:mod:`das.model.measured_spine`), each part goes upward by itself. The subtrees give the
# upper tree their sums for its lowest units (:class:`FromBelow`), and it requests nothing else below
# the cut.

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FromBelow(Frozen):
    r"""What the children of the lowest units of an upper tree say of them, by query: :math:`\sum_c
    v_c` as ``variance`` ``(units,)``, infinite where nothing of it is used; :math:`\sum_c z_c` as
    ``sums`` ``(units, answers)``, of queries with few answers. ``only`` ``(units,)``: the units
    with one child, whose ``answers(query, units, cells)`` are asked for one by one."""

    only: NDArray[np.bool_]
    variance: Mapping[str, Floats]
    sums: Mapping[str, Floats]
    answers: Callable[[str, Ints, Ints], NDArray[Any]]


class Upward:
    """A source of real numbers with their variances, to use instead of the ``source`` of
    measurements. For queries with at most ``most`` answers all descendants count; for other
    queries, only children alone. A query counts down to the first level without it. A level has no answers to a
    query that it does not measure. ``told``: in an upper tree, what
    its subtrees say about its lowest units."""

    def __init__(
        self, source: SparseSource, spine: Spine, most: int = 0, told: FromBelow | None = None
    ) -> None:
        self._source, self._spine, self._most, self._told = source, spine, most, told
        self.queries, self.shape = source.queries, source.shape
        self._variances: dict[tuple[str, str], Floats] = {}
        self._dense: dict[tuple[str, str], Floats] = {}

    def variance(self, level: str, query: str) -> Floats:
        key = level, query
        if key not in self._variances:
            own = self._source.variance(level, query)
            if not self._is_last(level):
                own = 1 / (1 / own + 1 / self.variance_below(level, query))
            self._variances[key] = own
        return self._variances[key]

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> NDArray[Any]:
        """The best estimates at some coordinates, ``(n,)``. Raises as the source does."""
        if self.sums_all(level, query):
            return self._table(level, query)[units, cells]
        own = self._source.answers(level, query, units, cells)
        if self._is_last(level) or not (only := self.only(level)[units]).any():
            return own
        if not self._is_measured_below(level, query):
            return own
        out = own.astype(float)
        lower = self.answers_of_only(level, query, units[only], cells[only])
        weight = (
            self.variance(level, query)[units[only]]
            / self._source.variance(level, query)[units[only]]
        )
        out[only] = weight * out[only] + (1 - weight) * lower
        return out

    def sums_all(self, level: str, query: str) -> bool:
        """Whether all descendants count."""
        return self.shape(level, query)[1] <= self._most

    def only(self, level: str) -> NDArray[np.bool_]:
        """The units that have one child, ``(units,)``."""
        if (below := self._below(level)) is None:
            return self._from_subtrees.only
        return np.diff(self._spine.children(below)) == 1

    def variance_below(self, level: str, query: str) -> Floats:
        """The variance of the sum over each unit's children; infinite if it is not used."""
        if not self._is_measured_below(level, query):
            return np.full(self.shape(level, query)[0], np.inf)
        if (below := self._below(level)) is None:
            return self._from_subtrees.variance[query]
        sums = np.add.reduceat(self.variance(below, query), self._spine.children(below)[:-1])
        return sums if self.sums_all(below, query) else np.where(self.only(level), sums, np.inf)

    def sums_below(self, level: str, query: str) -> Floats:
        """The sums over the children of each unit, ``(units, answers)``."""
        if (below := self._below(level)) is None:
            return self._from_subtrees.sums[query]
        return np.add.reduceat(self._table(below, query), self._spine.children(below)[:-1], axis=0)

    def answers_of_only(self, level: str, query: str, units: Ints, cells: Ints) -> NDArray[Any]:
        """The answers of the only children of ``units``, ``(n,)``."""
        if (below := self._below(level)) is None:
            return self._from_subtrees.answers(query, units, cells)
        return self.answers(below, query, self._spine.children(below)[:-1][units], cells)

    def _is_measured_below(self, level: str, query: str) -> bool:
        below = self._below(level)
        there = self._from_subtrees.variance if below is None else self.queries(below)
        return query in there

    @property
    def _from_subtrees(self) -> FromBelow:
        if self._told is None:
            raise ValueError("nothing is below the lowest level of this tree")
        return self._told

    def _is_last(self, level: str) -> bool:
        """Whether nothing is known from below of a level."""
        return self._told is None and self._below(level) is None

    def _below(self, level: str) -> str | None:
        depth = self._spine.index(level) + 1
        return self._spine.levels[depth] if depth < len(self._spine) else None

    def _table(self, level: str, query: str) -> Floats:
        """All answers of a level, ``(units, answers)``."""
        key = level, query
        if key not in self._dense:
            units, answers = self.shape(level, query)
            at = np.arange(units * answers)
            own = self._source.answers(level, query, *np.divmod(at, answers))
            out = own.reshape(units, answers).astype(float)
            if not self._is_last(level) and self._is_measured_below(level, query):
                sums = self.sums_below(level, query)
                weight = self.variance(level, query) / self._source.variance(level, query)
                out = weight[:, None] * out + (1 - weight)[:, None] * sums
            self._dense[key] = out
        return self._dense[key]
