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
queries; otherwise nothing determines :math:`c'x`. The ranks are those of sums of whole numbers,
without the variances, which can differ by twenty powers of ten. The weights depend on no count.
Units that are measured with the same variances and can hold the same dwellings (nearly all of a
level) share their weights. Matrices are in the algebra of :mod:`das.estimate.contrasts`.

:mod:`das.release.table_noise` computes what the plan alone says about a whole level, and about
areas of many units, without reading any measurement. Its standard errors are never less than these.

*Intervals.* The true count is a whole number :math:`t`. Rounding the estimate :math:`\hat t`
changes nothing in :math:`|\hat t - t| < k + 1/2`. So :math:`\mathrm{round}(\hat t) \pm k` with
:math:`k = \lceil z s - 1/2 \rceil` has at least the coverage of :math:`\hat t \pm z s`.

*The public range of the count* is from a to b (:mod:`das.model.count_range`). Let :math:`Px` be the
number in that range that is nearest to x. Then :math:`|P\hat t - t| \le |\hat t - t|`, because P
moves no number away from a number in the range. So :math:`P\hat t \pm k`, cut at a and b, contains
t whenever :math:`\hat t \pm k` does. It is never empty, and is a single number only if a = b or
k = 0. Cutting :math:`\hat t \pm k` itself would leave nothing of an interval below zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.estimate.contrasts import Contrasts
from das.estimate.information import alike, inhabited
from das.estimate.least_squares import LEAST_VARIANCE
from das.model.level_bounds import LevelBounds
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
#: So many units are taken together: their values are copied.
_ROWS = 512
#: What is below this is rounding error, in eigenvalues relative to the largest and in coefficients
#: of a column.
_NONE = 1e-8
#: The name of what is exact, which no query has.
_EXACT = ""


@dataclass(frozen=True, eq=False)
class MarginWeights:
    """The weights of all columns, for units of one pattern: ``measured`` by query ``(answers,
    columns)``, and ``exact`` ``(answers, columns)`` for the query that is known. ``error``
    ``(columns,)`` is the standard error, and ``known`` says whether anything determines the
    column."""

    measured: Mapping[str, Array]
    exact: Array | None
    error: Array
    known: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LevelMargins:
    """One level: its queries, what bounds say of its units, and ``exact``, the query whose answers
    these hold.
    """

    name: str
    schema: Schema
    queries: Mapping[str, Query]
    bounds: LevelBounds
    exact: Query | None

    @staticmethod
    def of(
        name: str,
        schema: Schema,
        source: MeasurementSource,
        bounds: LevelBounds,
        partition: Query | None = None,
    ) -> LevelMargins:
        """The margins of a level. ``partition``: if the bounds are exact, the query whose answers
        they give.
        """
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
        contrasts = Contrasts.of(self.schema, told_by)
        allowed = inhabited(contrasts, self.bounds.some(units))
        each = [np.maximum(m.variance, LEAST_VARIANCE) for m in held.values()]
        variance = np.array(each).reshape(-1, len(units)).T
        pattern, first = alike(allowed, variance)
        value, error = (np.full((len(units), len(columns)), np.nan) for _ in range(2))
        asked: dict[tuple[str | bytes, ...], MarginColumns] = {}
        for number, one in enumerate(first):
            rows = np.flatnonzero(pattern == number)
            seen = {n: float(v) for n, v in zip(held, variance[one], strict=True) if np.isfinite(v)}
            key = (*seen, allowed[one].tobytes())
            if key not in asked:
                queries = {n: self.queries[n] for n in seen}
                asked[key] = MarginColumns.of(contrasts, queries, self.exact, columns, allowed[one])
            w = asked[key].weights(seen)
            found = np.zeros((len(rows), len(columns)))
            for name, weight in w.measured.items():
                told = np.flatnonzero(weight.any(axis=1))  # an eighth without group quarters
                for i in range(0, len(rows), _ROWS):
                    some = held[name].values[np.ix_(rows[i : i + _ROWS], told)]
                    found[i : i + _ROWS] += some.astype(float) @ weight[told]
            if w.exact is not None:
                found += self._exactly(units[rows]) @ w.exact
            value[rows] = np.where(w.known, found, np.nan)
            error[rows] = np.where(w.known, w.error, np.nan)
        return value, error

    def _exactly(self, units: NDArray[np.intp]) -> Ints:
        if self.bounds.total is not None and self.exact is not None and self.exact.answers == 1:
            return self.bounds.total[units, None]
        return self.bounds.limits.some(units)[0]


@dataclass(frozen=True, eq=False)
class MarginColumns:
    """Columns ``(columns, cells)`` of units that were asked the same ``queries``, and may hold the
    same dense levels: all that no variance enters. ``parts`` are those of the columns in each
    contrast, ``bases`` what spans T in it, ``(d, any)``."""

    contrasts: Contrasts
    queries: Mapping[str, Query]
    exact: Query | None
    columns: NDArray[np.bool_]
    inside: NDArray[np.bool_]
    parts: Sequence[Array]
    bases: Sequence[Array]
    known: NDArray[np.bool_]

    @staticmethod
    def of(
        contrasts: Contrasts,
        queries: Mapping[str, Query],
        exact: Query | None,
        columns: NDArray[np.bool_],
        allowed: NDArray[np.bool_],
    ) -> MarginColumns:
        """``exact`` is the query that is known exactly, ``allowed`` are the dense levels."""
        inside = np.repeat(allowed, columns.shape[1] // contrasts.d)[contrasts.place]
        if contrasts.d > MOST:
            nothing = np.zeros(0, dtype=bool)
            return MarginColumns(contrasts, queries, exact, columns, inside, (), (), nothing)
        c = _tensor(contrasts, columns & inside)
        none = np.zeros((len(contrasts.kinds), contrasts.d, contrasts.d))
        seen = sum((contrasts.query(q) for q in queries.values()), none)
        fixed = none if exact is None else contrasts.query(exact)
        reached, bases, level = none.copy(), [], np.flatnonzero(allowed)
        for m in range(len(contrasts.kinds)):
            at = np.ix_(level, level)
            inner, reached[m][at] = _spanned(seen[m][at], fixed[m][at])
            bases.append(np.zeros((contrasts.d, inner.shape[1])))
            bases[m][level] = inner
        parts = contrasts.parts(c)
        off = np.abs(c - contrasts.applied(reached, parts)).reshape(len(c), -1)
        known = off.max(axis=1, initial=0.0) < _NONE * 100
        return MarginColumns(contrasts, queries, exact, columns, inside, parts, bases, known)

    def weights(self, variance: Mapping[str, float]) -> MarginWeights:
        """The weights of all columns, if the queries have these variances."""
        contrasts, columns = self.contrasts, self.columns
        if contrasts.d > MOST:
            measured_by = {name: (q, variance[name]) for name, q in self.queries.items()}
            return _single(measured_by, self.exact, columns, self.inside)
        nothing = np.zeros((len(contrasts.kinds), contrasts.d, contrasts.d))
        precision = sum(
            (contrasts.query(q) / variance[n] for n, q in self.queries.items()), nothing
        )
        covariance = nothing.copy()
        for m, t in enumerate(self.bases):
            if t.size:
                covariance[m] = t @ np.linalg.solve(t.T @ precision[m] @ t, t.T)
        z = contrasts.applied(covariance, self.parts)
        measured = {
            name: contrasts.sums(q, z).T / variance[name] for name, q in self.queries.items()
        }
        total = sum(
            (variance[name] * (w**2).sum(axis=0) for name, w in measured.items()),
            np.zeros(len(columns)),
        )
        of_exact = None
        if self.exact is not None:  # x_0 spreads each answer evenly over its cells
            c, inside = (
                _tensor(contrasts, x & self.inside) for x in (columns, np.ones((1, 1), dtype=bool))
            )
            rest = (c - contrasts.applied(precision @ covariance, self.parts)) * inside
            room = np.maximum(_sums(self.exact, self.inside[None]), 1)
            of_exact = contrasts.sums(self.exact, rest).T / room
        return MarginWeights(measured, of_exact, np.sqrt(total), self.known)


def _tensor(contrasts: Contrasts, columns: NDArray[np.bool_]) -> Array:
    return columns[:, contrasts.order].reshape(-1, contrasts.d, *contrasts.sizes).astype(float)


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
    with ``scale`` are null.
    """
    value, vector = np.linalg.eigh(gram)
    none = value <= _NONE * np.trace(scale)
    return vector[:, none], vector[:, ~none]


def _single(
    queries: Mapping[str, tuple[Query, float]],
    exact: Query | None,
    columns: NDArray[np.bool_],
    inside: NDArray[np.bool_],
) -> MarginWeights:
    """Each column as a sum of answers of the query that gives it the least variance: of the cells
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
    measured = {name: p * (best == name) for name, p in parts.items()}
    of_exact, known = measured.pop(_EXACT, None), np.isfinite(least)
    return MarginWeights(measured, of_exact, np.sqrt(np.where(known, least, 0.0)), known)


def whole(wide: float, value: Array, error: Array) -> tuple[Ints, Ints]:
    """Estimates as whole numbers, and their margins of ``wide`` standard errors: ``UNKNOWN`` where
    they are NaN.
    """
    known = np.isfinite(error)
    margin = np.ceil(wide * np.where(known, error, 0.0) - 0.5).astype(np.int64)
    return np.rint(np.where(known, value, 0.0)).astype(np.int64), np.where(known, margin, UNKNOWN)


def ends(value: Ints, margin: Ints, least: Ints, most: Ints) -> tuple[Ints, Ints]:
    """Both ends of the intervals about estimates that are in their range already, cut at ``least``
    and ``most``; of what is ``UNKNOWN`` the most is below the least."""
    known = margin >= 0
    low, high = np.maximum(value - margin, least), np.minimum(value + margin, most)
    return np.where(known, low, 0), np.where(known, high, UNKNOWN)
