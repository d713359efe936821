"""Sparse measurements, with only the requested noisy answers, and the sources that give them.

With a million cells, an estimate looks at few answers. A source gives only the requested answers,
and these make up the measurement. *Coordinates* are pairs of a unit of the level and an answer to
the query. Answers are called ``cells`` for short; for the query ``detailed`` they are the cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.measurement import published_variance

Ints = NDArray[np.int64]


class SparseSource(Protocol):
    """Answers on demand: the same whenever they are asked for. Units are numbered as in their
    level.
    """

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
    :class:`InputError` for coordinates outside it.
    """
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
    def of(
        level: str,
        query: str,
        shape: tuple[int, int],
        at: Ints,
        values: Ints,
        variance: NDArray[np.float64],
    ) -> SparseMeasurement:
        """From coordinates in any order, some of them several times. Raises :class:`InputError`
        where one has two values.
        """
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


@dataclass(frozen=True, eq=False)
class SparseMeasurements(Frozen):
    """A source in memory.

    >>> at, values = np.array([1, 5]), np.array([-2, 7])
    >>> some = SparseMeasurement("State", "age", 3, at, values, np.array([4.0, 4.0]))
    >>> SparseMeasurements.of([some]).answers("State", "age", np.array([1]), np.array([2]))
    array([7])
    """

    held: Mapping[tuple[str, str], SparseMeasurement]

    @staticmethod
    def of(measurements: Iterable[SparseMeasurement]) -> SparseMeasurements:
        return SparseMeasurements({(m.level, m.query): m for m in measurements})

    def queries(self, level: str) -> tuple[str, ...]:
        return tuple(query for here, query in self.held if here == level)

    def shape(self, level: str, query: str) -> tuple[int, int]:
        return self._of(level, query).shape

    def variance(self, level: str, query: str) -> NDArray[np.float64]:
        return self._of(level, query).variance

    def answers(self, level: str, query: str, units: Ints, cells: Ints) -> Ints:
        return self._of(level, query).answers(units, cells)

    def _of(self, level: str, query: str) -> SparseMeasurement:
        if (level, query) not in self.held:
            raise not_measured(level, query, self.queries(level))
        return self.held[level, query]


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

    def of(self, level: str) -> Iterator[SparseMeasurement]:
        """All answers given at a level, for each of its queries, even for queries without any
        request.
        """
        for query in self.queries(level):
            said = [(np.zeros(0, dtype=np.int64),) * 2, *self._said.get((level, query), [])]
            at, values = (np.concatenate(parts) for parts in zip(*said, strict=True))
            yield SparseMeasurement.of(
                level, query, self.shape(level, query), at, values, self.variance(level, query)
            )
