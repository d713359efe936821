"""Noisy answers, as estimation sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        estimates of both agree in every bit.
        """
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
    least that it holds.
    """
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
    level.
    """

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
    >>> Measurements.of([total]).read("State", "total", 1, 2).values
    array([[3]])
    """

    held: Mapping[tuple[str, str], Measurement]

    def __post_init__(self) -> None:
        for (level, query), m in self.held.items():
            if (level, query) != (m.level, m.query):
                raise InputError(
                    f"is held as that of {level}/{query}", where=f"{m.level}/{m.query}"
                )

    @staticmethod
    def of(measurements: Iterable[Measurement]) -> Measurements:
        """From measurements in any order; those of one level and query are slices that follow each
        other.
        """
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
