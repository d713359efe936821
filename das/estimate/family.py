"""The children of one parent and what is known of them: what an estimator is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from das.estimate.pooled import PooledSource
from das.model.constraint import Bounds
from das.model.measurement import MeasurementSource
from das.model.post_processing import BiasCorrection
from das.model.query import Query
from das.model.schema import Schema
from das.model.solution import Certificate
from das.rounding import Marginal


@dataclass(frozen=True, eq=False)
class NoisyAnswers:
    """Noisy answers of one query for a few units: ``values`` ``(units, answers)``, integers, or
    floats where those of only children are pooled with their parents' (:mod:`das.estimate.pooled`);
    ``variance`` ``(units,)``, infinite where a unit was not measured."""

    query: Query
    values: NDArray[Any]
    variance: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Batch:
    """Units ``start:stop`` of a level. Each query is read when it is first needed."""

    source: MeasurementSource
    schema: Schema
    level: str
    start: int
    stop: int
    _read: dict[str, NoisyAnswers] = field(default_factory=dict, repr=False)

    def answers(self, query: str) -> NoisyAnswers:
        """The noisy answers to a query. At a level without measurements, every query has answers
        that say nothing."""
        if query not in self._read:
            asked = self.schema.query(query)
            if self.source.queries(self.level):
                m = self.source.read(self.level, query, self.start, self.stop)
                self._read[query] = NoisyAnswers(asked, m.values, m.variance)
            else:
                units = self.stop - self.start
                none = np.zeros((units, asked.answers), dtype=np.int64)
                self._read[query] = NoisyAnswers(asked, none, np.full(units, np.inf))
        return self._read[query]


@dataclass(frozen=True, eq=False)
class Family:
    """The children of one parent: ``unit`` ``(children,)``, their numbers in the level.

    ``cell`` ``(m,)``, increasing: the cells that can be positive, those that the parent has
    somebody in; ``parent`` ``(m,)``, its counts there. At the root, which has no parent,
    ``None``. ``bounds`` are those of the children, over the dwelling groups of all cells of the
    schema: ``bounds.group[cell]`` says in which group each cell is. ``correction``: of the size
    bias of the children, at the lowest level; ``None`` for none."""

    batch: Batch
    unit: NDArray[np.int64]
    cell: NDArray[np.int64]
    parent: NDArray[np.int64] | None
    bounds: Bounds
    correction: BiasCorrection | None = None

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def level(self) -> str:
        return self.batch.level

    @property
    def schema(self) -> Schema:
        return self.batch.schema

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries measured at the level."""
        return self.batch.source.queries(self.level)

    @property
    def inherited(self) -> tuple[str, ...]:
        """The queries that were measured only for only children below the level
        (``das.estimate.pooled``)."""
        source = self.batch.source
        return source.inherited(self.level) if isinstance(source, PooledSource) else ()

    def answers(self, query: str) -> NoisyAnswers:
        """The children's noisy answers. The cells of answer ``i`` are those with
        ``query.index[cell] == i``."""
        whole, here = self.batch.answers(query), self.unit - self.batch.start
        if here[-1] - here[0] == len(here) - 1:  # children that follow each other need no copy
            some = slice(here[0], here[-1] + 1)
            return NoisyAnswers(whole.query, whole.values[some], whole.variance[some])
        return NoisyAnswers(whole.query, whole.values[here], whole.variance[here])

    @property
    def able(self) -> NDArray[np.bool_]:
        """The children that can hold anybody, ``(children,)``."""
        here = np.zeros(self.bounds.groups, dtype=bool)
        here[self.bounds.group[self.cell]] = True
        able: NDArray[np.bool_] = np.any(self.bounds.upper[:, here] > 0, axis=1)
        if self.bounds.joint is not None:
            able &= self.bounds.joint.total[self.bounds.joint.part] > 0
        return able if self.bounds.total is None else able & (self.bounds.total > 0)

    def some(self, keep: NDArray[np.bool_]) -> Family:
        """The same parent with some of its children; the others hold nobody."""
        return replace(self, unit=self.unit[keep], bounds=self.bounds.some(keep))


# What an estimator is: ours (:mod:`das.estimate.passes`, :mod:`das.estimate.informed`), and
# anybody's own.

Array = NDArray[np.float64]


@runtime_checkable
class Estimator(Protocol):
    """Estimates the children of one parent, as real numbers. The descent
    (``das.estimate.descent``) walks the tree, and rounds, repairs and checks every answer. Write a
    subclass with a method ``estimate``. It must pickle if several processes share the work."""

    def estimate(self, family: Family) -> Array | tuple[Array, Certificate]:
        """Counts of the children, ``(children, cells)`` for ``family.cell``: finite, none below
        zero, and summing to ``family.parent`` over the children (there is none at the root). They
        should keep ``family.bounds``. Rounding enforces these, and moves far from an answer that
        does not keep them. Children that can hold nobody are not in the family. An only child is
        its parent and needs no answer: its measurements are pooled with its parent's.

        The array alone, or with it a certificate (:class:`das.model.solution.Certificate`) that
        counts the problems that were solved, and how well."""
        ...

    def estimates(self, families: Sequence[Family]) -> list[tuple[Array, Certificate]]:
        """Estimates of several families of one level, each by itself: one after the other,
        unless a subclass does better. No answer may depend on which families are together."""
        return [_with_certificate(self.estimate(family)) for family in families]

    def marginals(self, family: Family) -> tuple[Marginal, ...]:
        """The queries whose answers rounding keeps as near to the estimate as possible, besides
        its chain. Default: none."""
        del family
        return ()

    def part(self, level: str, start: int, stop: int) -> Estimator:
        """The part of this estimator that a task needs for units ``start:stop`` of ``level``.
        Default: all of it."""
        del level, start, stop
        return self


def _with_certificate(said: Array | tuple[Array, Certificate]) -> tuple[Array, Certificate]:
    """What it says of a family, with a certificate of nothing where it gives none."""
    return said if isinstance(said, tuple) else (said, Certificate())


# What an upper tree and its subtrees tell each other: arrays by name, as one file holds them.


@dataclass(frozen=True, eq=False)
class Message:
    """A value whose fields are arrays. A field can be ``None``."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that are not ``None``, by their names."""
        every = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: array for name, array in every.items() if array is not None}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The value from the arrays of ``to_arrays``."""
        return cls(**arrays)
