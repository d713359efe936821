r"""What the subtree of each unit says of it, exactly, on the few directions that some sums of cells
need.

As in :mod:`das.estimate.information`, the subtree of a child c says :math:`x_c \sim (\mu_c, C_c)`,
and the children of u :math:`s_u = \sum \mu_c`, :math:`S_u = \sum C_c` of it. With the unit's own
precision :math:`\Lambda` and right-hand side b,

.. math:: C_u = (I + S\Lambda)^{-1} S, \qquad \mu_u = s + C_u (b - \Lambda s),

which needs no inverse of S: below known totals S is singular, and all is exact still. Let a total,
or the answers to a query, be known: :math:`E x = g`. Let T be a basis of the rows of E, and
:math:`x_0` any vector with :math:`E x_0 = g`. Then C and mu become

.. math:: C - GC, \qquad \mu + G(x_0 - \mu), \qquad G = CT(T'CT)^{+}T'.

*Only children* are their parents. A unit above one lowest unit and nothing else is the end of a
*chain*: precisions and right-hand sides of a chain are added, and only its top needs an inverse. So
a lowest unit without siblings need not be measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from das.estimate.areas.directions import Array, Directions, Ints
from das.estimate.information import inhabited
from das.estimate.least_squares import LEAST_VARIANCE
from das.fold import Tiers
from das.model.constraint import LevelBounds
from das.model.measurement import MeasurementSource
from das.model.query import Query
from das.model.spine import Spine

Mask = NDArray[np.bool_]
#: The variance along what a lowest unit's own measurements do not see. Columns that need it are not
#: estimated.
_VAGUE = 1e9
#: What is below this is rounding error, in eigenvalues relative to the largest, and in weights of a
#: column.
_NONE, _UNSEEN = 1e-9, 1e-7


@dataclass(frozen=True, eq=False)
class Chains:
    """Of units above one lowest unit and nothing else, ``unit`` ``(chains,)``, the information of
    all of the chain; ``whole``: every cell is measured."""

    unit: Ints
    precision: Array
    rhs: Array
    support: Mask
    whole: Mask


@dataclass(frozen=True, eq=False)
class Lowest:
    """The lowest units: the distinct covariances ``(kinds, used, d, d)``, the ``kind`` of each
    unit, and ``told``, the estimates of the columns from its own measurements ``(units, columns)``.
    Chains are not filled in."""

    covariance: Array
    kind: Ints
    told: Array
    chains: Chains


@dataclass(frozen=True, eq=False)
class SubtreeMoments:
    """What is known of the units of a tier from themselves and from below: ``covariance`` C
    ``(units, used, d, d)`` and ``mean`` mu ``(units, d, directions)``; those of chains that go on
    are not filled in."""

    covariance: Array
    mean: Array
    chains: Chains


@dataclass(frozen=True, eq=False)
class Below:
    """What the children of the units of a tier say: S ``(units, used, d, d)``, s ``(units, d,
    directions)``, and ``chains`` of children, which are left out of both."""

    covariance: Array
    mean: Array
    chains: Chains


@dataclass
class AreaAlgebra:
    """``known``: by level, the finest query whose answers are known. ``unseen``
    ``(columns,)`` becomes True where a column needs what nothing at the lowest level sees."""

    source: MeasurementSource
    spine: Spine
    bounds: Mapping[str, LevelBounds]
    queries: Mapping[str, Mapping[str, Query]]
    known: Mapping[str, Query]
    directions: Directions
    tiers: Tiers
    unseen: Mask = field(init=False)

    def __post_init__(self) -> None:
        self.unseen = np.zeros(self.directions.columns, dtype=bool)

    # --- the lowest level

    def lowest(self) -> tuple[Lowest, Below]:
        """The lowest units, batch by batch, and what they say of those above (nothing, of a tree of
        one level)."""
        to, parent = self.directions, self.tiers.parents[-1]
        shape = (len(to.used), to.contrasts.d, to.contrasts.d)
        n = len(self.tiers.parents[-2]) if len(self.tiers) > 1 else 1
        covariance, mean = np.zeros((n, *shape)), np.zeros((n, to.contrasts.d, len(to)))
        answers = sum(q.answers for q in self.queries[self.spine.levels[-1]].values())
        found: list[Lowest] = []
        kinds = 0
        slices = self.spine.batches(self.spine.levels[-1], answers)
        for start, (some, each) in map(self._some_of_lowest, slices):
            alone = np.zeros(len(each), dtype=bool)
            alone[some.chains.unit - start] = True
            rows = np.flatnonzero(~alone)
            _add(covariance, parent[start + rows], some.kind[rows], some.covariance)
            np.add.at(mean, parent[start + rows], each[rows])
            found.append(replace(some, kind=some.kind + kinds))
            kinds += len(some.covariance)
        of_kinds, kind, told = (
            np.concatenate([getattr(f, a) for f in found]) for a in ("covariance", "kind", "told")
        )
        chains = _joined([f.chains for f in found])
        return Lowest(of_kinds, kind, told, chains), Below(covariance, mean, chains)

    def _some_of_lowest(self, ends: tuple[int, int]) -> tuple[int, tuple[Lowest, Array]]:
        """Of a slice of the lowest units its start, what they say, and their means ``(units, d,
        directions)``."""
        (start, stop), to, level = ends, self.directions, self.spine.levels[-1]
        weight, rhs, whole = self._own(level, start, stop)
        allowed = inhabited(to.contrasts, self.bounds[level].rows(start, stop))
        rhs[~allowed] = 0.0
        alone = self.tiers.alone[-1][start:stop] | (len(self.tiers) == 1)  # a chain of one
        found, kind = self._kinds(level, weight, allowed, whole, ~alone)
        mean = np.zeros_like(rhs)
        for t in range(len(found)):
            rows = np.flatnonzero((kind == t) & ~alone)
            mean[rows] = to.apply(found[t], rhs[rows])
        if self.tiers.total[-1] is not None:
            gain = self._gains(found, self.known[level])
            mean += to.apply(gain[kind], self._point(len(self.tiers) - 1, start, stop) - mean)
            found = found - gain @ found
        end = np.flatnonzero(alone)
        chains = Chains(
            start + end, self._precision(level, weight[end]), rhs[end], allowed[end], whole[end]
        )
        return start, (Lowest(found, kind, to.dot(to.weight, mean), chains), mean)

    def _kinds(
        self, level: str, weight: Array, allowed: Mask, whole: Mask, needed: Mask
    ) -> tuple[Array, Ints]:
        """The distinct covariances of some lowest units, and which each has; 0 for those that are
        not ``needed``."""
        pattern = np.concatenate([allowed, weight], axis=1)
        _, first, kind = np.unique(pattern, axis=0, return_index=True, return_inverse=True)
        kind = kind.ravel()
        used = np.bincount(kind, weights=needed, minlength=len(first)) > 0
        precision = self._precision(level, weight[first])
        out = np.zeros_like(precision)
        out[used] = self._inverse(precision[used], allowed[first[used]], whole[first[used]])
        return out, kind

    def _own(self, level: str, start: int, stop: int) -> tuple[Array, Array, Mask]:
        """Of some units' own measurements the precisions of the queries ``(units, queries)``, the
        right-hand side ``(units, d, directions)``, and whether every cell is measured."""
        weight = np.zeros((stop - start, len(self.queries[level])))
        rhs = np.zeros((stop - start, self.directions.contrasts.d, len(self.directions)))
        whole = np.zeros(stop - start, dtype=bool)
        for i, (name, query) in enumerate(self.queries[level].items()):
            m = self.source.read(level, name, start, stop)
            weight[:, i] = 1.0 / np.maximum(m.variance, LEAST_VARIANCE)
            seen = weight[:, i] > 0
            values = m.values.astype(float)
            if not seen.all():
                values[~seen] = 0.0
            rhs += weight[:, i, None, None] * self.directions.adjoint(query, values)
            whole |= seen & all(g.is_detailed for g in query.groupings)
        return weight, rhs, whole

    def _precision(self, level: str, weight: Array) -> Array:
        to = self.directions
        shape = (len(to.used), to.contrasts.d, to.contrasts.d)
        grams = np.array([to.query(q).ravel() for q in self.queries[level].values()])
        return np.asarray(weight @ grams.reshape(weight.shape[1], int(np.prod(shape)))).reshape(
            -1, *shape
        )

    def _inverse(self, precision: Array, allowed: Mask, whole: Mask) -> Array:
        """Covariances of units from precisions ``(units, used, d, d)``. Where a unit's measurements
        do not see all of its cells, almost nothing is known of the rest. Columns that need the rest
        are noted."""
        eye = np.eye(precision.shape[-1])
        out = self.directions.contrasts.inverse(
            precision + eye * ~whole[:, None, None, None], allowed
        )
        for i in np.flatnonzero(~whole).tolist():
            for m in range(len(self.directions.used)):
                out[i, m] = self._seen(precision[i, m], allowed[i], m)
        return out

    def _seen(self, precision: Array, allowed: Mask, m: int) -> Array:
        to, inside = self.directions, np.where(allowed[:, None] & allowed, precision, 0.0)
        value, vector = np.linalg.eigh(inside)
        none = value <= _NONE * max(float(value[-1]), 1e-300)
        lost = vector[:, none] * allowed[:, None]
        here = np.flatnonzero(to.contrast[to.at] == m)
        self.unseen[to.column[here[(np.abs(to.weight[here] @ lost) > _UNSEEN).any(axis=1)]]] = True
        seen = vector[:, ~none]
        return np.asarray((seen / value[~none]) @ seen.T + _VAGUE * (lost @ lost.T))

    # --- what is known

    def _gains(self, covariance: Array, query: Query) -> Array:
        """G of the formula, of each covariance."""
        gain = np.zeros_like(covariance)
        for m, gram in enumerate(self.directions.query(query)):
            value, vector = np.linalg.eigh(gram)
            t = vector[:, value > _NONE * max(float(value[-1]), 1e-300)]
            if t.shape[1]:
                c = covariance[:, m] @ t
                gain[:, m] = c @ pseudo_inverse(t.T @ c) @ t.T
        return gain

    def _point(self, depth: int, start: int, stop: int) -> Array:
        """x_0: the known answers, each spread evenly over its cells."""
        total, level = self.tiers.total[depth], self.tiers.level[depth]
        assert total is not None
        query = self._known(depth)
        values = total[start:stop, None]
        if query.answers > 1:
            values = self.bounds[level].limits.some(slice(start, stop))[0]
        return self.directions.adjoint(
            query, values / np.bincount(query.index, minlength=query.answers)
        )

    def _known(self, depth: int) -> Query:
        return self.known.get(
            self.tiers.level[depth], self.directions.contrasts.schema.query("total")
        )

    def _follows(self, depth: int) -> bool:
        """Whether what is known of a tier follows from what is known of the one below."""
        if depth + 1 >= len(self.tiers) or self.tiers.total[depth + 1] is None:
            return False
        return self._known(depth).answers <= self._known(depth + 1).answers

    # --- from a tier to the one above

    def combine(self, tier: int, known: SubtreeMoments) -> Below:
        """What the units of a tier, which is not the lowest, say of those above."""
        parent, n = self.tiers.parents[tier], self.tiers.units(tier - 1)
        keep = np.ones(len(parent), dtype=bool)
        keep[known.chains.unit] = ~self.tiers.alone[tier][known.chains.unit]
        covariance = np.zeros((n, *known.covariance.shape[1:]))
        mean = np.zeros((n, *known.mean.shape[1:]))
        np.add.at(covariance, parent[keep], known.covariance[keep])
        np.add.at(mean, parent[keep], known.mean[keep])
        return Below(covariance, mean, known.chains)

    def condition(self, tier: int, told: Below) -> SubtreeMoments:
        """What the units of a tier say: from S, s and the chains below them, and their own
        measurements."""
        to, level, n = self.directions, self.tiers.level[tier], len(told.mean)
        if level:
            weight, rhs, whole = self._own(level, 0, n)
            own = self._precision(level, weight)
        else:
            own, rhs = np.zeros_like(told.covariance), np.zeros_like(told.mean)
            whole = np.zeros(n, dtype=bool)
        parent, chains = self.tiers.parents[tier + 1], told.chains
        on = self.tiers.alone[tier + 1][chains.unit]
        unit, allowed = parent[chains.unit[on]], chains.support[on]
        both = (rhs[unit] + chains.rhs[on]) * allowed[..., None]
        longer = Chains(
            unit, own[unit] + chains.precision[on], both, allowed, whole[unit] | chains.whole[on]
        )
        c = np.linalg.solve(np.eye(to.contrasts.d) + told.covariance @ own, told.covariance)
        c = (c + np.swapaxes(c, -1, -2)) / 2
        mean = told.mean + to.apply(c, rhs - to.apply(own, told.mean))
        return self.ended(tier, SubtreeMoments(c, mean, longer))

    def ended(self, depth: int, said: SubtreeMoments) -> SubtreeMoments:
        """The same with the chains that end there, and with what is known."""
        to, chains = self.directions, said.chains
        ends = ~self.tiers.alone[depth][chains.unit]
        at, c, mean = chains.unit[ends], said.covariance.copy(), said.mean.copy()
        c[at] = self._inverse(chains.precision[ends], chains.support[ends], chains.whole[ends])
        mean[at] = to.apply(c[at], chains.rhs[ends])
        if self.tiers.total[depth] is not None:
            rows = at if self._follows(depth) else np.arange(len(mean))
            gain = self._gains(c[rows], self._known(depth))
            mean[rows] += to.apply(gain, self._point(depth, 0, len(mean))[rows] - mean[rows])
            c[rows] -= gain @ c[rows]
        return SubtreeMoments(c, mean, chains)


def pseudo_inverse(covariance: Array) -> Array:
    """A symmetric generalized inverse of covariances ``(..., d, d)``: from the pseudo-inverse of
    their correlations."""
    scale = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0.0))
    one = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    value, vector = np.linalg.eigh(covariance * one[..., :, None] * one[..., None, :])
    inverse = np.divide(1.0, value, out=np.zeros_like(value), where=value > _NONE)
    return np.asarray(
        (one[..., :, None] * vector * inverse[..., None, :])
        @ (np.swapaxes(vector, -1, -2) * one[..., None, :])
    )


def _add(out: Array, home: Ints, kind: Ints, each: Array) -> None:
    """Add to each home what the units of it have, ``each`` by kind: of ten thousand units a dozen
    kinds."""
    pair, count = np.unique(home * max(len(each), 1) + kind, return_counts=True)
    np.add.at(out, pair // len(each), count[:, None, None, None] * each[pair % len(each)])


def _joined(chains: list[Chains]) -> Chains:
    return Chains(
        *(
            np.concatenate([getattr(c, a) for c in chains])
            for a in ("unit", "precision", "rhs", "support", "whole")
        )
    )
