r"""Estimates of sums of cells, with their standard errors, from all of a unit's own measurements
together.

A unit's measurements are :math:`m_q = Q_q x + z_q`, :math:`\mathrm{Var}\, z_q = \sigma_q^2 I`. Its
structural zeros and the dwellings that it lacks are known exactly. So are the answers :math:`g =
Ex` to one query (its total, or the finest invariant). Write :math:`J = \sum_q Q_q'Q_q/\sigma_q^2`.
Let the columns of :math:`T` span the directions that :math:`E` leaves free and some query measures.
With :math:`C = T (T'JT)^{-1} T'` and any :math:`x_0` such that :math:`Ex_0 = g`, the best linear
unbiased estimate of the sum :math:`c'x`, and its variance, are

.. math:: c'x_0 + c'C\,\Bigl(\sum_q Q_q'm_q/\sigma_q^2 - Jx_0\Bigr)
          = \sum_q w_q'm_q + w_E'g,\qquad \sum_q \sigma_q^2 |w_q|^2,

with :math:`w_q = Q_qCc/\sigma_q^2`, if :math:`c` is a combination of rows of :math:`E` and of the
queries; otherwise nothing determines :math:`c'x`. Where :math:`c` is constant along a plain axis,
so are the weights, and the answers are summed along it first. The ranks are those of sums of whole numbers,
without the variances, which can differ by twenty powers of ten. The weights depend on no count.
Units that are measured with the same variances and can hold the same dwellings (nearly all of a
level) share their weights. Matrices are in the algebra of :mod:`das.estimate.information`.

*Intervals.* The true count is a whole number :math:`t`. Rounding the estimate :math:`\hat t`
changes nothing in :math:`|\hat t - t| < k + 1/2`. So :math:`\mathrm{round}(\hat t) \pm k` with
:math:`k = \lceil z s - 1/2 \rceil` has at least the coverage of :math:`\hat t \pm z s`.

*The public range of the count* is from a to b (:mod:`das.model.constraint`). Let :math:`Px` be the
number in that range that is nearest to x. Then :math:`|P\hat t - t| \le |\hat t - t|`, because P
moves no number away from a number in the range. So :math:`P\hat t \pm k`, cut at a and b, contains
t whenever :math:`\hat t \pm k` does. It is never empty, and is a single number only if a = b or
k = 0. Cutting :math:`\hat t \pm k` itself would leave nothing of an interval below zero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.estimate.information import Contrasts, alike, inhabited
from das.estimate.least_squares import LEAST_VARIANCE
from das.model.constraint import LevelBounds
from das.model.measurement import Measurement, MeasurementSource
from das.model.query import Query
from das.model.schema import Schema

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

#: More levels of the dense axes than this are not decomposed: each column then has the best single
#: measurement alone.
MOST = 512
#: The margin of a column that nothing determines.
UNKNOWN = -1
#: Units that are taken together, since their values are copied; and patterns of units.
_ROWS, _TOGETHER = 512, 16
#: What is below this is rounding error, in eigenvalues relative to the largest and in coefficients
#: of a column.
_NONE = 1e-8
#: The name of what is exact, which no query has.
_EXACT = ""


@dataclass(frozen=True, eq=False)
class MarginWeights:
    """The weights of some columns, for several patterns of units: by query, and for what is known
    exactly, ``(patterns, answers, columns)``. Answers are summed along the axes where the columns
    are constant. ``error`` ``(patterns, columns)`` is the standard error, and ``known``
    ``(columns,)`` says whether anything determines the column."""

    of: Mapping[str, Array]
    error: Array
    known: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AlikeColumns:
    """Columns that are constant along the same plain axes, as the weights of their answers are:
    ``number`` ``(columns,)``, their masks ``(columns, cells)``, and the axes of the schema along
    which answers are ``summed``."""

    number: Ints
    masks: NDArray[np.bool_]
    summed: tuple[int, ...]

    @staticmethod
    def group_columns(contrasts: Contrasts, columns: NDArray[np.bool_]) -> list[AlikeColumns]:
        """Those that are summed along few axes come first."""
        if contrasts.d > MOST:
            return [AlikeColumns(np.arange(len(columns)), columns, ())]
        cells = columns.reshape(len(columns), *contrasts.schema.shape)
        varies = np.zeros((len(columns), len(contrasts.plain)), dtype=bool)
        for i, axis in enumerate(contrasts.plain):
            first = np.take(cells, [0], axis=1 + axis)
            varies[:, i] = (cells != first).reshape(len(columns), -1).any(axis=1)
        kinds, kind = np.unique(varies, axis=0, return_inverse=True)
        found = []
        for k in np.argsort(-kinds.sum(axis=1), kind="stable").tolist():
            number = np.flatnonzero(kind.ravel() == k)
            summed = tuple(a for a, kept in zip(contrasts.plain, kinds[k], strict=True) if not kept)
            found.append(AlikeColumns(number, columns[number], summed))
        return found

    def tensor(self, contrasts: Contrasts) -> Array:
        """``(columns, d, n_1, ..., n_m)``, with length 1 along the axes ``summed``."""
        out = self.masks[:, contrasts.order].reshape(-1, contrasts.d, *contrasts.sizes)
        here = tuple(slice(1) if a in self.summed else slice(None) for a in contrasts.plain)
        return out[:, :, *here].astype(float)

    def repeats(self, query: Query) -> int:
        """How many answers of a query are summed to one."""
        return int(np.prod([query.shape[axis] for axis in self.summed], dtype=int))


class Marginals:
    """Answers of some units, summed along axes: from answers that are summed along fewer, where
    there are any."""

    def __init__(self, query: Query, values: NDArray[np.generic]) -> None:
        self._query = query
        self._known: dict[tuple[int, ...], NDArray[np.generic]] = {(): values}

    def summed(self, axes: tuple[int, ...]) -> NDArray[np.generic]:
        """``(units, answers)``."""
        if axes not in self._known:
            near = max((k for k in self._known if set(k) <= set(axes)), key=len)
            shape = [1 if a in near else n for a, n in enumerate(self._query.shape)]
            values = self._known[near].reshape(-1, *shape)
            rest = tuple(1 + a for a in axes if shape[a] > 1)
            self._known[axes] = values.sum(axis=rest).reshape(len(values), -1)
        return self._known[axes]


@dataclass(frozen=True, eq=False)
class LevelMargins:
    """One level: its queries, what bounds say of its units, and ``exact``, the query whose answers
    these hold."""

    name: str
    schema: Schema
    queries: Mapping[str, Query]
    bounds: LevelBounds
    exact: Query | None

    @staticmethod
    def for_level(
        name: str,
        schema: Schema,
        source: MeasurementSource,
        bounds: LevelBounds,
        partition: Query | None = None,
    ) -> LevelMargins:
        """The margins of a level. ``partition``: if the bounds are exact, the query whose answers
        they give."""
        queries = {q: schema.query(q) for q in source.queries(name)}
        total = schema.query("total") if bounds.total is not None else None
        return LevelMargins(
            name,
            schema,
            queries,
            bounds,
            partition if bounds.exact and partition is not None else total,
        )

    def read(
        self, source: MeasurementSource, columns: NDArray[np.bool_], start: int, stop: int
    ) -> tuple[Array, Array]:
        """Estimates of columns ``(columns, cells)`` for units ``start:stop``, and their standard
        errors, both ``(units, columns)``; NaN where nothing determines them."""
        held = {name: source.read(self.name, name, start, stop) for name in self.queries}
        return self.from_measurements(held, columns, np.arange(start, stop))

    def from_measurements(
        self, held: Mapping[str, Measurement], columns: NDArray[np.bool_], units: Ints
    ) -> tuple[Array, Array]:
        """Estimates and standard errors for any ``units``, from their measurements ``held``, by
        query."""
        told_by = [*self.queries.values(), *([self.exact] if self.exact else [])]
        contrasts = Contrasts.for_queries(self.schema, told_by)
        allowed = inhabited(contrasts, self.bounds.some(units))
        each = [np.maximum(m.variance, LEAST_VARIANCE) for m in held.values()]
        variance = np.array(each).reshape(-1, len(units)).T
        pattern, first = alike(allowed, variance)
        answers = {n: Marginals(self.queries[n], m.values) for n, m in held.items()}
        if self.exact is not None:
            answers[_EXACT] = Marginals(self.exact, self._exactly(units))
        value, error = (np.full((len(units), len(columns)), np.nan) for _ in range(2))
        groups = AlikeColumns.group_columns(contrasts, columns)
        order = np.argsort(pattern, kind="stable")
        ends = np.searchsorted(pattern[order], np.arange(len(first) + 1))
        for names, inside, numbers in self._alike(allowed[first], variance[first]):
            asked = {n: self.queries[n] for n in names}
            margins = PatternMargins.for_queries(contrasts, asked, self.exact, inside)
            at = [list(self.queries).index(n) for n in names]
            for some in np.split(numbers, range(_TOGETHER, len(numbers), _TOGETHER)):
                told = variance[first[some]][:, at]
                for w, group in zip(margins.weights(told, groups), groups, strict=True):
                    for i, number in enumerate(some.tolist()):
                        rows = order[ends[number] : ends[number + 1]]
                        where = np.ix_(rows, group.number)
                        found = self._found(answers, w, i, rows, group)
                        value[where] = np.where(w.known, found, np.nan)
                        error[where] = np.where(w.known, w.error[i], np.nan)
        return value, error

    def _alike(
        self, allowed: NDArray[np.bool_], variance: Array
    ) -> Iterator[tuple[list[str], NDArray[np.bool_], Ints]]:
        """Patterns ``(patterns, ..)`` with the same queries and dense levels: these, and the
        numbers of the patterns."""
        seen = np.isfinite(variance)
        kinds, kind = np.unique(np.hstack([seen, allowed]), axis=0, return_inverse=True)
        for number, one in enumerate(kinds):
            names = [n for n, there in zip(self.queries, one, strict=False) if there]
            yield names, one[seen.shape[1] :], np.flatnonzero(kind.ravel() == number)

    @staticmethod
    def _found(
        answers: Mapping[str, Marginals], w: MarginWeights, i: int, rows: Ints, group: AlikeColumns
    ) -> Array:
        """Estimates in units ``rows`` of pattern ``i``, ``(rows, columns)``."""
        found = np.zeros((len(rows), len(group.number)))
        for name, weights in w.of.items():
            values, weight = answers[name].summed(group.summed), weights[i]
            told = np.flatnonzero(weight.any(axis=1))  # an eighth without group quarters
            for first in range(0, len(rows), _ROWS):
                some = values[np.ix_(rows[first : first + _ROWS], told)]
                found[first : first + _ROWS] += some.astype(float) @ weight[told]
        return found

    def _exactly(self, units: NDArray[np.intp]) -> Ints:
        if self.bounds.total is not None and self.exact is not None and self.exact.answers == 1:
            return self.bounds.total[units, None]
        return self.bounds.limits.some(units)[0]


@dataclass(frozen=True, eq=False)
class PatternMargins:
    """Units that were asked the same ``queries``, and may hold the same dense levels ``allowed``:
    all that no variance enters. ``bases`` are what spans T in each contrast, ``(d, any)``;
    ``reached`` projects on all that is known or measured."""

    contrasts: Contrasts
    queries: Mapping[str, Query]
    exact: Query | None
    allowed: NDArray[np.bool_]
    bases: Sequence[Array]
    reached: Array

    @staticmethod
    def for_queries(
        contrasts: Contrasts,
        queries: Mapping[str, Query],
        exact: Query | None,
        allowed: NDArray[np.bool_],
    ) -> PatternMargins:
        """``exact`` is the query that is known exactly."""
        if contrasts.d > MOST:
            return PatternMargins(contrasts, queries, exact, allowed, (), np.zeros(0))
        none = np.zeros((len(contrasts.kinds), contrasts.d, contrasts.d))
        seen = sum((contrasts.query(q) for q in queries.values()), none)
        fixed = none if exact is None else contrasts.query(exact)
        reached, bases, level = none.copy(), [], np.flatnonzero(allowed)
        for m in range(len(contrasts.kinds)):
            at = np.ix_(level, level)
            inner, reached[m][at] = _spanned(seen[m][at], fixed[m][at])
            bases.append(np.zeros((contrasts.d, inner.shape[1])))
            bases[m][level] = inner
        return PatternMargins(contrasts, queries, exact, allowed, bases, reached)

    def weights(self, variance: Array, groups: Sequence[AlikeColumns]) -> list[MarginWeights]:
        """The weights of each group of columns, if the queries have these variances, ``(patterns,
        queries)``."""
        contrasts = self.contrasts
        if contrasts.d > MOST:
            return [self._singles(variance, group.masks) for group in groups]
        nothing = np.zeros((len(variance), len(contrasts.kinds), contrasts.d, contrasts.d))
        precision = sum(
            (
                contrasts.query(q) / v[:, None, None, None]
                for v, q in zip(variance.T, self.queries.values(), strict=True)
            ),
            nothing,
        )
        covariance = nothing.copy()
        for m, t in enumerate(self.bases):
            if t.size:
                covariance[:, m] = t @ np.linalg.solve(t.T @ precision[:, m] @ t, t.T)
        each = (precision[:, None], covariance[:, None])  # of every column
        return [self._weights(variance, *each, group) for group in groups]

    def _weights(
        self, variance: Array, precision: Array, covariance: Array, group: AlikeColumns
    ) -> MarginWeights:
        contrasts = self.contrasts
        inside = self.allowed.reshape(-1, *(1 for _ in contrasts.plain))
        c = group.tensor(contrasts) * inside
        parts = contrasts.parts(c)
        off = np.abs(c - contrasts.applied(self.reached, parts)).reshape(len(c), -1)
        z = contrasts.applied(covariance, parts)
        of, total = {}, np.zeros((len(variance), len(c)))
        for v, (name, q) in zip(variance.T, self.queries.items(), strict=True):
            w = contrasts.sums(q, z) / v[:, None, None]
            total += group.repeats(q) * v[:, None] * (w**2).sum(axis=-1)
            of[name] = np.swapaxes(w, 1, 2)
        if self.exact is not None:  # x_0 spreads each answer evenly over its cells
            rest = (c - contrasts.applied(precision @ covariance, parts)) * inside
            room = contrasts.sums(self.exact, np.broadcast_to(inside, c.shape[1:]).astype(float))
            w = contrasts.sums(self.exact, rest) / np.maximum(room, 1)
            of[_EXACT] = np.swapaxes(w, 1, 2)
        known = off.max(axis=1, initial=0.0) < _NONE * 100
        return MarginWeights(of, np.sqrt(total), known)

    def _singles(self, variance: Array, columns: NDArray[np.bool_]) -> MarginWeights:
        """The best single measurement of each column."""
        inside = np.repeat(self.allowed, columns.shape[1] // self.contrasts.d)[self.contrasts.place]
        each = []
        for v in variance.tolist():
            told = {n: (q, x) for (n, q), x in zip(self.queries.items(), v, strict=True)}
            each.append(_single(told, self.exact, columns, inside))
        of = {n: np.stack([w.of[n] for w in each]) for n in each[0].of}
        return MarginWeights(of, np.stack([w.error for w in each]), each[0].known)


def _sums(query: Query, columns: NDArray[np.generic]) -> Array:
    """The answers that each column gives, ``(answers, columns)``."""
    return np.asarray(query.answer(columns.astype(float, copy=False)), dtype=np.float64).T


def _spanned(seen: Array, fixed: Array) -> tuple[Array, Array]:
    """T of the formula, and the projection on all that is known or seen, on one contrast."""
    free, known = _split(fixed, fixed)
    _, inner = _split(free.T @ seen @ free, seen)
    t = free @ inner
    basis = np.hstack([known, t])
    return t, basis @ basis.T


def _split(gram: Array, scale: Array) -> tuple[Array, Array]:
    """Orthonormal bases of the null space and of the range. Directions that are negligible compared
    with ``scale`` are null."""
    value, vector = np.linalg.eigh(gram)
    none = value <= _NONE * np.trace(scale)
    return vector[:, none], vector[:, ~none]


def _single(
    queries: Mapping[str, tuple[Query, float]],
    exact: Query | None,
    columns: NDArray[np.bool_],
    inside: NDArray[np.bool_],
) -> MarginWeights:
    """For one pattern, each column as a sum of answers of the query that gives it the least variance: of the cells
    ``inside``, all others being 0. What the ``exact`` query tells has none."""
    n = len(columns)
    every = {n: (q, 0.0) for n, q in ((_EXACT, exact),) if q is not None} | dict(queries)
    best, least, parts = np.full(n, None, dtype=object), np.full(n, np.inf), {}
    for name, (query, v) in every.items():
        room = _sums(query, inside[None])
        part = np.where(
            room > 0, _sums(query, columns & inside) / np.maximum(room, 1), 0.0
        )  # 1 where all of an answer is in it
        whole = np.isin(part, (0.0, 1.0)).all(axis=0)
        variance = np.where(whole, v * part.sum(axis=0), np.inf)
        best, least = np.where(variance < least, name, best), np.minimum(variance, least)
        parts[name] = part
    of, known = {name: p * (best == name) for name, p in parts.items()}, np.isfinite(least)
    return MarginWeights(of, np.sqrt(np.where(known, least, 0.0)), known)


def whole(wide: float, value: Array, error: Array) -> tuple[Ints, Ints]:
    """Estimates as whole numbers, and their margins of ``wide`` standard errors: ``UNKNOWN`` where
    they are NaN."""
    known = np.isfinite(error)
    margin = np.ceil(wide * np.where(known, error, 0.0) - 0.5).astype(np.int64)
    return np.rint(np.where(known, value, 0.0)).astype(np.int64), np.where(known, margin, UNKNOWN)


def ends(value: Ints, margin: Ints, least: Ints, most: Ints) -> tuple[Ints, Ints]:
    """Both ends of the intervals about estimates that are in their range already, cut at ``least``
    and ``most``; of what is ``UNKNOWN`` the most is below the least."""
    known = margin >= 0
    low, high = np.maximum(value - margin, least), np.minimum(value + margin, most)
    return np.where(known, low, 0), np.where(known, high, UNKNOWN)
