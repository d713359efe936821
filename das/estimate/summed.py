r"""Measurements of published units, added up from those of the measured units.

The two can differ (:mod:`das.model.measured_spine`). Then a published unit is a disjoint union of
the fewest possible units that were measured (:class:`das.model.measured_spine.Cover`). The sum of their noisy answers is an unbiased answer for the published unit. Its variance is
the sum of theirs, because noise of different units is independent.

If the measured tree cuts a published block group, this sums over blocks. It does not use what the
measurements of all other units say about the block group; :mod:`das.estimate.areas` does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.estimate.family import Message
from das.estimate.information import Contrasts, Information, moved, posterior, share_of_total
from das.fold import only
from das.model.measured_spine import Cover, Ints, MeasuredSpine
from das.model.measurement import Measurement, MeasurementSource, of_values
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.solve import grouped


@dataclass(frozen=True, eq=False)
class SummedSource:
    """The source of a published spine, from that of the tree that was measured."""

    source: MeasurementSource
    tree: MeasuredSpine
    published: Spine
    schema: Schema
    _slices: dict[tuple[str, int], Ints] = field(default_factory=dict, repr=False)
    _queries: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def _covers(self) -> Mapping[str, Cover]:
        up = {
            level: self.published.up(self.published.levels[-1], level)[self.tree.place]
            for level in self.published.levels
        }
        return {
            level: Cover.from_places(self.tree.spine, home, self.tree.measured)
            for level, home in up.items()
        }

    def queries(self, level: str) -> tuple[str, ...]:
        """The queries with which some unit of the level is measured, at any level of the tree whose
        units make it up."""
        if level not in self._queries:
            depths = np.unique(self._covers[level].depth).tolist()
            names = (self.source.queries(self.tree.spine.levels[d]) for d in depths)
            self._queries[level] = tuple(dict.fromkeys(n for queries in names for n in queries))
        return self._queries[level]

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        """The same as :meth:`some`, for the units ``start:stop``."""
        return replace(self.some(level, query, np.arange(start, stop)), start=start)

    def batches(self, level: str, answers: int) -> Iterator[Ints]:
        """All units of a level, in pieces and in the order of the measured tree. So each batch of
        the tree, with ``answers`` answers a unit, is read once, not again for every piece of the
        level."""
        depth, unit = self._covers[level].first(self.published.units(level))
        order = np.lexsort((unit, depth))
        depth, unit = depth[order], unit[order]
        batch = np.zeros(len(order), dtype=np.int64)
        for i in np.unique(depth[depth >= 0]).tolist():
            starts = [a for a, _ in self.tree.spine.batches(self.tree.spine.levels[i], answers)]
            batch[depth == i] = np.searchsorted(starts, unit[depth == i], side="right")
        cuts = (np.diff(depth) != 0) | (np.diff(batch) != 0)
        yield from np.split(order, np.flatnonzero(cuts) + 1)

    def some(self, level: str, query: str, units: Ints) -> Measurement:
        """The summed measurements of some units, in their order. A unit has an infinite variance if
        some unit of the tree in it was not measured. A unit without any unit of the tree has
        nobody, and no measurement."""
        cover = self._covers[level].some(units)
        alone = len(cover.unit) == len(units)  # each is one unit of the tree, or some are none
        values: NDArray[Any] | None = None
        variance, asked = np.zeros(len(units)), np.zeros(len(units), dtype=np.int64)
        for depth, name in enumerate(self.tree.spine.levels):
            if query not in self.source.queries(name):
                continue
            here = np.flatnonzero(cover.depth == depth)
            place, unit = cover.place[here], cover.unit[here]
            for some in self._runs(name, query, unit):
                m = self.source.read(name, query, int(unit[some[0]]), int(unit[some[-1]]) + 1)
                at = _slice(unit[some] - m.start)
                if alone and np.array_equal(place[some], np.arange(len(units))):
                    values = m.values[at]  # nothing is copied
                else:
                    if values is None:
                        values = np.zeros((len(units), m.values.shape[1]), dtype=np.int64)
                    values = values.astype(np.result_type(values, m.values), copy=False)
                    _add(values, place[some], m.values[at])
                _add(variance, place[some], m.variance[at])
                _add(asked, place[some], np.ones(len(some), dtype=np.int64))
        if values is None:
            values = np.zeros((len(units), 1), dtype=np.int64)
        whole = (asked == np.bincount(cover.place, minlength=len(units))) & (asked > 0)
        known = whole & np.isfinite(variance)
        if not known.all():
            values = np.where(known[:, None], values, 0)
        return of_values(level, query, 0, values, np.where(known, variance, np.inf))

    def part(self, level: str, start: int, stop: int) -> SummedSource:
        del level, start, stop
        return self

    def _runs(self, level: str, query: str, unit: Ints) -> Iterator[Ints]:
        """The indices of ``unit`` in runs of one batch each, in order, so that each batch is read
        once."""
        answers = self.schema.query(query).answers
        if (level, answers) not in self._slices:
            starts = [start for start, _ in self.tree.spine.batches(level, answers)]
            self._slices[level, answers] = np.array(starts, dtype=np.int64)
        if len(unit):
            order = np.argsort(unit, kind="stable")
            batch = np.searchsorted(self._slices[level, answers], unit[order], side="right")
            yield from np.split(order, np.flatnonzero(np.diff(batch)) + 1)


def _add(to: NDArray[Any], at: Ints, what: NDArray[Any]) -> None:
    """``to[at] += what``, even if ``at`` has duplicates."""
    if np.bincount(at).max(initial=0) <= 1:
        to[_slice(at)] += what
    elif what.ndim == 1:
        np.add.at(to, at, what)
    else:  # rows, by the sums of each place
        order = np.argsort(at, kind="stable")
        first = np.flatnonzero(np.diff(at[order], prepend=-1))
        to[at[order[first]]] += np.add.reduceat(what[_slice(order)], first, axis=0)


def _slice(at: Ints) -> Ints | slice:
    """The same places as a slice, if they are consecutive, so that nothing is copied."""
    if len(at) and (np.diff(at) == 1).all():
        return slice(int(at[0]), int(at[-1]) + 1)
    return at


# The way down of full information: what all measurements of a tree say of its units. The algebra
# is told in :mod:`das.estimate.information`.

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Unbiased(Message):
    """Estimates of some units given every measurement: ``mean`` ``(units, d, n..)``, ``variance``
    an operator."""

    mean: Array
    variance: Array

    def rows(self, keep: slice | NDArray[np.int64]) -> Unbiased:
        return Unbiased(self.mean[keep], self.variance[keep])


def root(contrasts: Contrasts, information: Information) -> Unbiased:
    covariance, mean = posterior(contrasts, information)
    return Unbiased(mean, covariance)


def descend(
    contrasts: Contrasts,
    information: Information,
    parent: NDArray[np.intp],
    above: Unbiased,
    below: Information,
) -> Unbiased:
    """The children's estimates from those of their parents (``above``) and what the children had
    said of these (``below``). ``parent`` numbers both from 0."""
    mean, variance = above.mean[parent], above.variance[parent]
    some = np.flatnonzero(~only(parent))
    if not len(some):
        return Unbiased(mean, variance)
    known, up = information.rows(some), parent[some]
    c, mu = posterior(contrasts, known)
    gain = c @ below.precision[up]
    mean[some] = mu + contrasts.apply(
        c, (contrasts.apply(below.precision, above.mean) - below.rhs)[up]
    )
    if known.total is not None:
        free = contrasts.inverse(known.precision, known.support)
        mean[some] = moved(mean[some], share_of_total(contrasts, free)[0], known.total)
    variance[some] = c - gain @ c + gain @ variance[some] @ np.swapaxes(gain, -1, -2)
    return Unbiased(mean, variance)


def answers(contrasts: Contrasts, unbiased: Unbiased, query: Query) -> tuple[Array, Array]:
    """Value and standard error of a query's answers, ``(units, answers)`` both."""
    index = contrasts.answers(query)
    flat = unbiased.mean.reshape(len(unbiased.mean), -1)
    value = grouped(flat, index.ravel(), query.answers)
    factor = np.array(
        [
            [_factor(query, contrasts, i, contrast) for i, contrast in enumerate(kind)]
            for kind in contrasts.kinds
        ]
    )
    weight = factor.prod(axis=1) if contrasts.plain else np.ones(1)
    inner = np.einsum("m,umij->uij", weight, unbiased.variance)
    group = np.unique(index[:, 0], return_inverse=True)[
        1
    ]  # answers differ on dense levels as their first plain cell does
    member = (group[None, :] == np.arange(group.max() + 1)[:, None]).astype(float)
    variance = np.einsum("gi,uij,gj->ug", member, inner, member)
    error = np.zeros((query.answers, len(flat)))
    error[index] = np.sqrt(np.maximum(variance, 0.0)).T[group][:, None, :]
    return value, error.T


def _factor(query: Query, contrasts: Contrasts, axis: int, contrast: bool) -> float:
    """What a contrast's value counts for in the variance of one answer, along one plain axis."""
    n = contrasts.sizes[axis]
    if query.groupings[contrasts.plain[axis]].is_total:
        return 0.0 if contrast else float(n)
    return 1 - 1 / n if contrast else 1 / n
