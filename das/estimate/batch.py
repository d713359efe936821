"""The families of a slice of units, and what an estimator says of each: one piece of work."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das.errors import SolverError
from das.estimate.family import Array, Batch, Estimator, Family
from das.model.constraint import Bounds
from das.model.histogram import Histogram
from das.model.measurement import Estimate, MeasurementSource
from das.model.post_processing import BiasCorrection
from das.model.schema import Schema
from das.model.solution import Certificate, Solution
from das.solve import ChildrenQP, children_qps
from das.solve.problem import answered

#: Entries of matrices and counts of the families that are estimated together: some ten times as
#: many bytes of memory.
_TOGETHER = 1 << 20


def families(
    source: MeasurementSource,
    schema: Schema,
    level: str,
    parents: Histogram | None,
    starts: NDArray[np.int64],
    bounds: Bounds,
    correction: BiasCorrection | None = None,
) -> Iterator[Family]:
    """Parent ``i`` of ``parents`` has the children ``starts[i]:starts[i + 1]`` of ``level``;
    without ``parents``, the root. ``bounds`` covers exactly those children,
    ``starts[0]:starts[-1]``."""
    first = int(starts[0])
    batch = Batch(source, schema, level, first, int(starts[-1]))
    for i, (start, stop) in enumerate(pairwise(starts.tolist())):
        if parents is None:
            cell = np.flatnonzero(bounds.possible & (bounds.upper[0, bounds.group] > 0))
            count = None
        else:
            row = parents.rows(i, i + 1)
            cell, count = row.cell, row.count
        yield Family(
            batch,
            np.arange(start, stop),
            cell,
            count,
            bounds.rows(start - first, stop - first),
            correction,
        )


def problem_batches(families: Iterable[Family]) -> Iterator[list[Family]]:
    """The families in order, as many at a time as are estimated together: those of many cells by
    themselves."""
    some, size = list[Family](), 0
    for family in families:
        more = len(family.cell) * (len(family.cell) + len(family))
        if some and size + more > _TOGETHER:
            yield some
            some, size = [], 0
        some.append(family)
        size += more
    if some:
        yield some


def estimated(families: Sequence[Family], estimator: Estimator) -> list[Estimate]:
    """What the estimator says of each of some families of a level, checked. It is not asked about
    children that can hold nobody, nor about an only one that can hold somebody.

    Raises:
        SolverError: it answers an array of another shape, or one that is negative, not finite, or
            does not sum to the parent."""
    able = [family.able for family in families]
    asked = {
        i: family if able[i].all() else family.some(able[i])
        for i, family in enumerate(families)
        if len(family.cell) and able[i].sum() > (0 if family.parent is None else 1)
    }
    said = dict(zip(asked, estimator.estimates(list(asked.values())), strict=True))
    out = []
    for i, family in enumerate(families):
        x, certificate = np.zeros((len(family), len(family.cell))), Certificate()
        if i in said:
            found, certificate = said[i]
            x[able[i]] = _of_shape(found, (len(asked[i]), len(family.cell)), family, estimator)
        elif family.parent is not None and able[i].any():
            x[able[i]] = family.parent
        out.append(Estimate(int(family.unit[0]), family.cell, family.parent, x, certificate))
    return out


def _of_shape(x: Array, shape: tuple[int, int], family: Family, estimator: Estimator) -> Array:
    if np.shape(x) != shape:
        raise SolverError(
            f"{type(estimator).__name__} answers an array of shape {np.shape(x)}, not {shape}",
            where=f"{family.level}, children from number {family.unit[0]}",
        )
    return x


# Least squares of many families at once: each asks for its problems one after the other, all are
# answered together.

#: The problems of one family, and what comes of their solutions.
Steps = Generator[ChildrenQP, Solution, tuple[Array, Certificate]]


class LeastSquaresEstimator(Estimator):
    """One that asks for solutions, to a relative duality gap of ``accuracy``."""

    accuracy: float

    def steps(self, family: Family) -> Steps:
        """Yields each problem of the family, and is sent its solution."""
        raise NotImplementedError

    def estimate(self, family: Family) -> tuple[Array, Certificate]:
        return self.estimates([family])[0]

    def estimates(self, families: Sequence[Family]) -> list[tuple[Array, Certificate]]:
        return solve_jointly([self.steps(family) for family in families], self.accuracy)


def solve_jointly(families: Sequence[Steps], accuracy: float) -> list[tuple[Array, Certificate]]:
    """What comes of each of the families, whose first problems are solved together, then their
    second ones, and so on."""
    solved = partial(children_qps, tol=accuracy)
    said = answered(dict(enumerate(families)), solved)
    return [said[i] for i in range(len(families))]
