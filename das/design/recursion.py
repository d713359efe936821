r"""A model of a real tree: variances of the best estimates of levels and areas as functions of the
plan, and their gradient.

Least squares of the tree is :mod:`das.design.passes`; what is here is what each node is measured
with (:class:`das.design.grams.Grams`), and what each estimand is a mean of. Of :math:`F = \sum_a
w_a \log f_a` the derivatives by V of nodes and by slopes of areas go back through the passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from das.design.areas import AreaTargets, Slopes
from das.design.grams import Coordinates, Grams
from das.design.model import Choices, Estimand
from das.design.passes import Pass, TreePasses
from das.design.tree import Placement, Tree
from das.model.schema import Schema

Array = NDArray[np.float64]
#: What is below this is rounding error, in variances relative to the sum of what they are made of.
_LITTLE = 1e-13

#: Contrasts are gone through one by one where their matrices together take more bytes than this.
TOGETHER = 1e9


@dataclass(frozen=True, eq=False)
class Recursion:
    """A model (:class:`das.design.model.Model`) of a tree. ``every``: variances are means over all
    answers of all units, or over those that a unit may have somebody in. ``areas``: by kind, what
    is needed for aims at these. Contrasts are apart from each other: a model of some of them has
    ``part_of`` the matrices of all, and ``totals`` if the first contrast is among them."""

    schema: Schema
    tree: Tree
    coordinates: Coordinates
    measurements: Choices
    estimands: tuple[Estimand, ...]
    levels: tuple[str, ...]
    every: bool
    areas: Mapping[str, AreaTargets]
    part_of: tuple[Grams, Grams] | None = None
    totals: bool = True

    @cached_property
    def queries(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                (*(q for _, q in self.measurements.pairs), *(a.query for a in self.estimands))
            )
        )

    @cached_property
    def _grams(self) -> tuple[Grams, Grams]:
        """The matrices of the inner nodes and of the kinds."""
        if self.part_of is not None:
            return self.part_of
        queries = [self.schema.query(q) for q in self.queries]
        return (
            Grams.of(self.tree.inner, self.coordinates, queries),
            Grams.of(self.tree.leaves, self.coordinates, queries),
        )

    @cached_property
    def _ones(self) -> Array:
        return np.ones(len(self.coordinates.multiplicity))

    @cached_property
    def parts(self) -> tuple[Recursion, ...]:
        """This, or where its matrices are large one model for each contrast."""
        contrasts = len(self.coordinates.multiplicity)
        if contrasts == 1 or self.tree.bytes(contrasts) <= TOGETHER:
            return (self,)
        return tuple(self._part(slice(m, m + 1)) for m in range(contrasts))

    @property
    def modes_at_once(self) -> int:
        return 1 if len(self.parts) > 1 else len(self.coordinates.multiplicity)

    def _part(self, contrasts: slice) -> Recursion:
        inner, leaves = self._grams
        return replace(
            self,
            coordinates=self.coordinates.part(contrasts),
            areas={k: a.part(contrasts) for k, a in self.areas.items()},
            part_of=(inner.part(contrasts), leaves.part(contrasts)),
            totals=contrasts.start == 0,
        )

    # --- up and down
    # ------------------------------------------------------------------------------------------

    @cached_property
    def _passes(self) -> TreePasses:
        return TreePasses(self.tree, self.totals)

    def passes(self, precision: Array) -> Pass:
        """Both ways over the tree."""
        return self._passes.of(*self._own(precision))

    def _own(self, precision: Array) -> tuple[Array, Array]:
        """The precisions of their own measurements, of inner nodes and kinds."""
        of_class = np.zeros((len(self.measurements.places), len(self.queries)))
        for i, (k, q) in enumerate(self.measurements.members):
            of_class[k, self.queries.index(q)] += precision[i]
        layouts = (self.tree.inner, self.tree.leaves)
        inner, leaves = (
            g.apply(one.classes @ of_class, self._ones)
            for g, one in zip(self._grams, layouts, strict=True)
        )
        return inner, leaves

    # --- estimands
    # -------------------------------------------------------------------------------------------------

    @cached_property
    def _share(self) -> Array:
        """What one answer of one unit, or area, counts for in the mean that an estimand is,
        ``(estimands,)``.
        """
        return np.array([1.0 / max(self._counted(a), 1) for a in self.estimands])

    def _counted(self, estimand: Estimand) -> int:
        """The answers that an estimand is a mean over."""
        query = self.schema.query(estimand.query)
        if estimand.areas:
            return query.answers * (
                len(estimand.some) if estimand.some else self.areas[estimand.place].cut.areas
            )
        if self.every:
            return query.answers * self.tree.units[estimand.place]
        label, level = self.coordinates.label(query), self.levels.index(estimand.place)
        total = 0
        for layout, times in (
            (self.tree.inner, np.ones(len(self.tree.parent))),
            (self.tree.leaves, self.tree.children),
        ):
            node = np.repeat(np.arange(len(layout.size)), layout.size)
            pair = np.unique(node * len(label) + label[layout.coordinate]) // len(label)
            total += int(times[pair] @ layout.levels[pair, level])
        return total * query.answers // len(np.unique(label))

    def _level_weights(self, layout: Placement, each: Array) -> Array:
        """For each node and query, the weights of its levels:
        ``(estimands,) -> (nodes, queries)``."""
        by_level = np.zeros((len(self.levels), len(self.queries)))
        for a, w in zip(self.estimands, each, strict=True):
            if not a.areas:
                by_level[self.levels.index(a.place), self.queries.index(a.query)] += w
        return layout.levels @ by_level

    def _area_weights(self, kind: str, areas: int, each: Array) -> Array:
        """The weights of each area of a kind and query, ``(areas, queries)``."""
        out = np.zeros((areas, len(self.queries)))
        for a, w in zip(self.estimands, each, strict=True):
            if a.areas and a.place == kind:
                out[list(a.some) if a.some else slice(None), self.queries.index(a.query)] += w
        return out

    def variances(self, precision: Array) -> Array:
        value, size = np.zeros(len(self.estimands)), np.zeros(len(self.estimands))
        for part in self.parts:
            found = part.passes(precision)
            more = part._sums(found, part._slopes(found))
            value, size = value + more[0], size + more[1]
        return self._mean(value, size)

    def gradient(self, precision: Array, weight: Array) -> tuple[Array, Array]:
        f, rows = self.gradients(precision, weight[None], lambda: None)
        return f, rows[0]

    def gradients(
        self, precision: Array, weights: Array, tick: Callable[[], None]
    ) -> tuple[Array, Array]:
        f = self.variances(precision) if len(self.parts) > 1 else None
        rows = np.zeros((len(weights), len(precision)))
        for part in self.parts:
            found = part.passes(precision)
            slopes = part._slopes(found)
            if f is None:
                f = self._mean(*part._sums(found, slopes))
            for i in np.flatnonzero(weights.any(axis=1)):
                each = np.divide(weights[i], f, out=np.zeros_like(f), where=f > 0) * self._share
                rows[i] += part._of_measurements(*part._adjoint(found, slopes, each))
                tick()
        assert f is not None
        return f, rows

    def _slopes(self, found: Pass) -> dict[str, Slopes]:
        return {
            kind: areas.slopes(found.leaf, found.c, found.k) for kind, areas in self.areas.items()
        }

    def _sums(self, found: Pass, slopes: Mapping[str, Slopes]) -> tuple[Array, Array]:
        """The sum whose mean each estimand is; and the sizes of its terms."""
        tree, scale = self.tree, self.coordinates.multiplicity
        kinds = self._passes.of_kinds(found)
        by_level, most = (
            self._by((tree.inner.levels, tree.leaves.levels), both, scale, self._of_levels)
            for both in ((found.v, kinds), (np.abs(found.v), np.abs(kinds)))
        )
        by_area = {
            kind: areas.variances(slopes[kind], found.c, scale)
            for kind, areas in self.areas.items()
        }
        out = np.empty((2, len(self.estimands)))
        for i, a in enumerate(self.estimands):
            query = self.queries.index(a.query)
            if a.areas:
                here = list(a.some) if a.some else slice(None)
                out[:, i] = [x[here, query].sum() for x in by_area[a.place]]
            else:
                out[:, i] = [x[self.levels.index(a.place), query] for x in (by_level, most)]
        return out[0], out[1]

    def _mean(self, value: Array, size: Array) -> Array:
        """The means of sums; 0 where only rounding error is left."""
        return np.where(value > _LITTLE * size, value, 0.0) * self._share

    def _by(
        self,
        members: tuple[NDArray[np.bool_], NDArray[np.bool_]],
        matrices: tuple[Array, Array],
        scale: Array,
        queries: Sequence[int] | None = None,
    ) -> Array:
        """What each query has of the matrices of inner nodes and kinds, summed over their levels or
        classes.
        """
        inner, leaves = (
            one.T.astype(float) @ g.adjoint(x, scale, queries)
            for one, g, x in zip(members, self._grams, matrices, strict=True)
        )
        return np.asarray(inner + leaves)

    @cached_property
    def _of_levels(self) -> list[int]:
        """The queries that targets ask for levels."""
        return sorted({self.queries.index(a.query) for a in self.estimands if not a.areas})

    def _of_measurements(self, inner: Array, leaves: Array) -> Array:
        """From what precisions of nodes are worth to that of class measurements, ``(I,)``."""
        worth = self._by(
            (self.tree.inner.classes, self.tree.leaves.classes), (inner, leaves), self._ones
        )
        return np.array([-worth[k, self.queries.index(q)] for k, q in self.measurements.members])

    def _adjoint(
        self, found: Pass, slopes: Mapping[str, Slopes], each: Array
    ) -> tuple[Array, Array]:
        """The derivatives by the precisions of inner nodes and of kinds of ``each`` times the sums
        that estimands are means of.
        """
        tree, scale = self.tree, self.coordinates.multiplicity
        bar_v = self._grams[0].apply(self._level_weights(tree.inner, each), scale)
        of_kinds = self._grams[1].apply(self._level_weights(tree.leaves, each), scale)
        bar_c, bar_k, bar_leaf = (np.zeros_like(x) for x in (bar_v, bar_v, of_kinds))
        for kind, areas in self.areas.items():
            weight = self._area_weights(kind, areas.cut.areas, each)
            areas.adjoint(slopes[kind], weight, scale, found.c, found.k, (bar_c, bar_k, bar_leaf))
        return self._passes.back(found, (bar_v, bar_c, bar_k), of_kinds, bar_leaf)
