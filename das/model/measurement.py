"""Noisy answers, as estimation sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, SolverError
from das.model.frozen import Frozen
from das.model.solution import Certificate


@dataclass(frozen=True, eq=False, repr=False)
class Measurement(Frozen):
    """Noisy answers of one query for the units ``start : start + len(values)`` of one level.

    ``values`` has shape ``(units, answers)`` (int64, may be negative); ``variance`` shape
    ``(units,)``, float, infinite where a unit was not measured."""

    numbers: ClassVar[type[np.generic]] = np.int64  #: what the values are

    level: str
    query: str
    start: int
    values: NDArray[Any]
    variance: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.variance.shape != self.values.shape[:1]:
            raise InputError(
                "values must be (units, answers) and variance (units,)",
                where=f"{self.level}/{self.query}",
            )
        if self.values.dtype != self.numbers or self.variance.dtype.kind != "f":
            raise InputError(
                f"values must be {np.dtype(self.numbers)} and variance floats",
                where=f"{self.level}/{self.query}",
            )
        if not (self.variance > 0).all():
            raise InputError("a variance is not positive", where=f"{self.level}/{self.query}")

    def __repr__(self) -> str:
        units, answers = self.values.shape
        return (
            f"<Measurement: {self.query!r} at {self.level}, {units:,} units x {answers:,} answers>"
        )

    def as_published(self) -> Measurement:
        """With the variance that the files of a release state (:func:`published_variance`):
        estimates of both agree in every bit."""
        return type(self)(
            self.level,
            self.query,
            self.start,
            self.values,
            published_variance(self.variance).astype(np.float64),
        )

    def rows(self, start: int, stop: int) -> Measurement:
        """The measurement of the units ``start:stop`` of the level, which must be among its
        units."""
        if not self.start <= start <= stop <= self.start + len(self.values):
            raise InputError(
                f"units {start} to {stop} are not all measured", where=f"{self.level}/{self.query}"
            )
        here = slice(start - self.start, stop - self.start)
        return type(self)(self.level, self.query, start, self.values[here], self.variance[here])


def published_variance(variance: NDArray[np.float64]) -> NDArray[np.float32]:
    """In single precision. What is below that (1e-70 occurs at rho = 1000) is published as the
    least that it holds."""
    return np.maximum(variance.astype(np.float32), np.finfo(np.float32).tiny)


class PooledMeasurement(Measurement):
    """Means of several measurements of the same answers: floats."""

    numbers = np.float64


def of_values(
    level: str, query: str, start: int, values: NDArray[Any], variance: NDArray[Any]
) -> Measurement:
    """What was read or added up: a measurement of integers, or a pooled one of floats."""
    of = Measurement if values.dtype == Measurement.numbers else PooledMeasurement
    return of(level, query, start, values, variance)


class MeasurementSource(Protocol):
    """Where estimation reads measurements from: a slice of units at a time, numbered as in their
    level."""

    def queries(self, level: str) -> tuple[str, ...]:
        """Names of the queries measured at ``level``."""
        ...

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        """The measurement of units ``start:stop``."""
        ...

    def part(self, level: str, start: int, stop: int) -> MeasurementSource:
        """What a task carries that reads units ``start:stop`` of ``level`` alone: it stands for
        itself, is small to pickle, and answers as this source does."""
        ...


@dataclass(frozen=True, eq=False)
class Measurements(Frozen):
    """A source in memory: by level and query, the measurement of the units of a level, or of a
    slice of them.

    >>> total = Measurement("State", "total", 0, np.array([[7], [3]]), np.array([2.0, 2.0]))
    >>> Measurements.from_measurements([total]).read("State", "total", 1, 2).values
    array([[3]])"""

    held: Mapping[tuple[str, str], Measurement]

    def __post_init__(self) -> None:
        for (level, query), m in self.held.items():
            if (level, query) != (m.level, m.query):
                raise InputError(
                    f"is held as that of {level}/{query}", where=f"{m.level}/{m.query}"
                )

    @staticmethod
    def from_measurements(measurements: Iterable[Measurement]) -> Measurements:
        """From measurements in any order; those of one level and query are slices that follow each
        other."""
        found: dict[tuple[str, str], list[Measurement]] = {}
        for m in measurements:
            found.setdefault((m.level, m.query), []).append(m)
        return Measurements({key: _joined(pieces) for key, pieces in found.items()})

    def queries(self, level: str) -> tuple[str, ...]:
        return tuple(query for here, query in self.held if here == level)

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        if (level, query) not in self.held:
            known = ", ".join(self.queries(level)) or "nothing"
            raise InputError(
                f"query {query!r} is not measured at level {level!r}",
                where="measurements",
                remedy=f"measured there: {known}",
            )
        return self.held[level, query].rows(start, stop)

    def part(self, level: str, start: int, stop: int) -> Measurements:
        return Measurements(
            {(level, q): self.read(level, q, start, stop) for q in self.queries(level)}
        )


def _joined(pieces: list[Measurement]) -> Measurement:
    """Slices of one level and query, put together."""
    first, *others = sorted(pieces, key=lambda m: m.start)
    if not others:
        return first
    where, end = f"{first.level}/{first.query}", first.start
    for m in (first, *others):
        if m.start != end:
            raise InputError(f"units {end} to {m.start} are missing, or there twice", where=where)
        if m.values.shape[1] != first.values.shape[1]:
            raise InputError("slices have different numbers of answers", where=where)
        end += len(m.values)
    values, variance = (
        np.concatenate([getattr(m, a) for m in (first, *others)]) for a in ("values", "variance")
    )
    return Measurement(first.level, first.query, first.start, values, variance)


# What estimation answers for one family of siblings.


@dataclass(frozen=True, eq=False)
class Estimate(Frozen):
    """Non-negative real counts of the children of one parent, on the cells that can be positive.

    ``children`` are the units ``start : start + len(x)`` of their level; ``cell`` ``(m,)``
    increasing; ``x`` ``(children, m)``, finite, >= 0, with columns summing to the parent's counts
    (not at the root)."""

    start: int
    cell: NDArray[np.int64]
    parent: NDArray[np.int64] | None
    x: NDArray[np.float64]
    certificate: Certificate

    def __post_init__(self) -> None:
        if not np.isfinite(self.x).all() or (self.x < 0).any():
            raise SolverError(
                "an estimate is negative or not finite", where=f"children from number {self.start}"
            )
        if self.parent is not None and np.abs(self.x.sum(axis=0) - self.parent).max(
            initial=0.0
        ) > 1e-6 * (1 + self.parent.max(initial=0)):
            raise SolverError(
                "an estimate does not sum to its parent", where=f"children from number {self.start}"
            )


# Sparse measurements, with only the requested noisy answers, and the sources that give them.
#
# With a million cells, an estimate looks at few answers. A source gives only the requested answers,
# and these make up the measurement. *Coordinates* are pairs of a unit of the level and an answer to
# the query. Answers are called ``cells`` for short; for the query ``detailed`` they are the cells.

Ints = NDArray[np.int64]


class SparseSource(Protocol):
    """Answers on demand: the same whenever they are asked for. Units are numbered as in their
    level."""

    def queries(self, level: str) -> tuple[str, ...]:
        """Names of the queries measured at ``level``."""
        ...

    def shape(self, level: str, query: str) -> tuple[int, int]:
        """The number of units of the level, and of answers to the query."""
        ...

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        """The variance of one answer of each unit, ``(units,)``; infinite if it is not measured."""
        ...

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        """The answers ``(n,)`` at some coordinates: ``cells`` ``(n,)`` of ``units`` ``(n,)``, in
        any order. Raises :class:`das.errors.DasError` for coordinates that do not exist."""
        ...


def places(
    units: NDArray[np.integer], cells: NDArray[np.integer], shape: tuple[int, int], where: str
) -> Ints:
    """The indices of coordinates in an array of this ``shape`` in C order, ``(n,)``. Raises
    :class:`InputError` for coordinates outside it."""
    for what, given, most in (("unit", units, shape[0]), ("answer", cells, shape[1])):
        if given.ndim != 1 or given.dtype.kind not in "iu" or len(given) != len(units):
            raise InputError(
                "units and answers are not two lists of integers, equally long", where=where
            )
        if len(given) and not (int(given.min()) >= 0 and int(given.max()) < most):
            raise InputError(
                f"there is no {what} {int(given.min() if given.min() < 0 else given.max())} of"
                f" {most}",
                where=where,
            )
    return units.astype(np.int64) * shape[1] + cells.astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class SparseMeasurement(Frozen):
    """Some noisy answers to one query at one level. ``at`` has their indices (increasing) in the
    array ``(units, answers)`` in C order. ``values`` has the answers (int64, can be negative).
    ``variance`` ``(units,)`` is infinite for a unit that was not measured; such a unit has no
    answers."""

    level: str
    query: str
    cells: int  #: answers of the query
    at: Ints
    values: Ints
    variance: NDArray[np.float64]

    def __post_init__(self) -> None:
        where = f"{self.level}/{self.query}"
        if any(x.dtype != np.int64 or x.ndim != 1 for x in (self.at, self.values)) or len(
            self.at
        ) != len(self.values):
            raise InputError(
                "coordinates and values are not int64, as many as one another", where=where
            )
        if (
            self.variance.ndim != 1
            or self.variance.dtype.kind != "f"
            or not (self.variance > 0).all()
        ):
            raise InputError("variances must be floats (units,), each positive", where=where)
        if len(self.at) and not (self.at[0] >= 0 and self.at[-1] < len(self.variance) * self.cells):
            raise InputError("a coordinate of no unit", where=where)
        if (self.at[1:] <= self.at[:-1]).any():
            raise InputError("coordinates do not increase", where=where)
        if not np.isfinite(self.variance[self.unit]).all():
            raise InputError("an answer of a unit that is not measured", where=where)

    @staticmethod
    def from_coordinates(
        level: str,
        query: str,
        shape: tuple[int, int],
        at: Ints,
        values: Ints,
        variance: NDArray[np.float64],
    ) -> SparseMeasurement:
        """From coordinates in any order, some of them several times. Raises :class:`InputError`
        where one has two values."""
        order = np.argsort(at, kind="stable")
        at, values = at[order], values[order]
        new = np.ones(len(at), dtype=bool)
        new[1:] = at[1:] != at[:-1]
        if (values[1:] != values[:-1])[~new[1:]].any():
            raise InputError("one answer with two values", where=f"{level}/{query}")
        return SparseMeasurement(level, query, shape[1], at[new], values[new], variance)

    def __repr__(self) -> str:
        return (
            f"<SparseMeasurement: {self.query!r} at {self.level}, {len(self.at):,} answers of"
            f" {len(self.variance):,} units>"
        )

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.variance), self.cells

    @property
    def unit(self) -> Ints:
        """The unit of each, ``(n,)``."""
        return self.at // self.cells

    @property
    def cell(self) -> Ints:
        """Which answer of its unit each is, ``(n,)``."""
        return self.at % self.cells

    @property
    def indptr(self) -> Ints:
        """Row pointers: unit ``u`` has ``at[indptr[u]:indptr[u+1]]``."""
        return np.searchsorted(self.at, np.arange(len(self.variance) + 1) * self.cells).astype(
            np.int64
        )

    def answers(self, units: Ints, cells: Ints) -> Ints:
        """The answers at some coordinates, which must all be known."""
        where = f"{self.level}/{self.query}"
        asked = places(units, cells, self.shape, where)
        found = np.searchsorted(self.at, asked)
        known = found < len(self.at)
        known[known] = self.at[found[known]] == asked[known]
        if not known.all():
            unit, cell = divmod(int(asked[np.argmin(known)]), self.cells)
            raise InputError(
                f"{np.count_nonzero(~known):,} of {len(known):,} answers were not measured, such"
                f" as answer {cell} of unit {unit}",
                where=where,
                remedy=(
                    "they can no longer be known: estimate from the measured ones, as the run did"
                ),
            )
        return self.values[found]


def not_measured(level: str, query: str, known: Iterable[str]) -> InputError:
    """That a level does not have a query, but the ``known``."""
    return InputError(
        f"query {query!r} is not measured at level {level!r}",
        where="measurements",
        remedy=f"measured there: {', '.join(known) or 'nothing'}",
    )


class RecordingSource:
    """A source that remembers what it was asked, and said: that is what a release must have. Its
    variances are those that the files of a release state
    (:func:`das.model.measurement.published_variance`): estimates of both agree in every bit."""

    def __init__(self, source: SparseSource) -> None:
        self._source = source
        self._said: dict[tuple[str, str], list[tuple[Ints, Ints]]] = {}
        self.queries, self.shape = source.queries, source.shape

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        return published_variance(self._source.variance(level, query)).astype(np.float64)

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        values = self._source.answers(level, query, units, cells)
        at = places(units, cells, self.shape(level, query), f"{level}/{query}")
        self._said.setdefault((level, query), []).append((at, values))
        return values

    def recorded(self, level: str) -> Iterator[SparseMeasurement]:
        """All answers given at a level, for each of its queries, even for queries without any
        request."""
        for query in self.queries(level):
            said = [(np.zeros(0, dtype=np.int64),) * 2, *self._said.get((level, query), [])]
            at, values = (np.concatenate(parts) for parts in zip(*said, strict=True))
            yield SparseMeasurement.from_coordinates(
                level, query, self.shape(level, query), at, values, self.variance(level, query)
            )
