"""The families of a slice of units, and what an estimator says of each: one piece of work."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das.errors import SolverError
from das.estimate.estimator import Array, Estimator, answer
from das.estimate.family import Batch, Family
from das.model.constraint import Bounds
from das.model.estimate import Estimate
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.prior import HousingPrior
from das.model.schema import Schema
from das.model.solution import Certificate


def families(
    source: MeasurementSource,
    schema: Schema,
    level: str,
    parents: Histogram | None,
    starts: NDArray[np.int64],
    bounds: Bounds,
    prior: HousingPrior | None = None,
) -> Iterator[Family]:
    """Parent ``i`` of ``parents`` has the children ``starts[i]:starts[i + 1]`` of ``level``; without ``parents``, the
    root. ``bounds`` covers exactly those children, ``starts[0]:starts[-1]``."""
    first = int(starts[0])
    batch = Batch(source, schema, level, first, int(starts[-1]))
    for i, (start, stop) in enumerate(pairwise(starts.tolist())):
        if parents is None:
            cell, count = np.flatnonzero(bounds.possible & (bounds.upper[0, bounds.group] > 0)), None
        else:
            row = parents.rows(i, i + 1)
            cell, count = row.cell, row.count
        yield Family(batch, np.arange(start, stop), cell, count, bounds.rows(start - first, stop - first), prior)


def estimated(family: Family, estimator: Estimator) -> Estimate:
    """What the estimator says of a family, checked. It is not asked about children that can hold nobody, nor about an
    only one that can hold somebody.

    Raises:
        SolverError: it answers an array of another shape, or one that is negative, not finite, or does not sum to
            the parent.
    """
    x, certificate, able = np.zeros((len(family), len(family.cell))), Certificate(), family.able
    if family.parent is not None and able.sum() == 1:
        x[able] = family.parent
    elif len(family.cell) and able.any():
        inner = family.some(able)
        found, certificate = answer(estimator, inner)
        x[able] = _of_shape(found, (len(inner), len(inner.cell)), family, estimator)
    return Estimate(int(family.unit[0]), family.cell, family.parent, x, certificate)


def _of_shape(x: Array, shape: tuple[int, int], family: Family, estimator: Estimator) -> Array:
    if np.shape(x) != shape:
        raise SolverError(f"{type(estimator).__name__} answers an array of shape {np.shape(x)}, not {shape}",
                          where=f"{family.level}, children from number {family.unit[0]}")  # fmt: skip
    return x
