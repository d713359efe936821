"""One problem of least squares over the children of a parent, as it is given and as it is
solved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from das.solve.contradictions import refuse_contradictions
from das.solve.curvature import Curvature
from das.solve.kinds import Kinds
from das.solve.layered import LayeredGram
from das.solve.partitions import Partitions, PartitionsCurvature
from das.solve.parts import Parts

Array = NDArray[np.float64]

_SKEW = 10.0  # the measure of a row stays within this factor of its squared length


@dataclass(frozen=True, eq=False)
class ChildrenQP:
    """The arguments of :func:`das.solve.children.children_qp`."""

    gram: Array | Partitions | Kinds | LayeredGram
    rhs: Array
    parent: Array | None
    groups: NDArray[np.generic] | None = None
    lower: Array | None = None
    upper: Array | None = None
    support: NDArray[np.bool_] | None = None
    parts: NDArray[np.intp] | None = None
    totals: NDArray[Any] | None = None


class CheckedQP:
    """A problem checked, its matrices factored, and the rows and their bounds in units that one
    weight serves.

    Raises:
        ValueError: something is not finite, or of another shape.
        InfeasibleError: see :mod:`das.solve.contradictions`.
    """

    def __init__(self, p: ChildrenQP) -> None:
        self.rhs = np.asarray(p.rhs, dtype=float)
        self.children, self.cells = self.rhs.shape
        if not np.isfinite(self.rhs).all():
            raise ValueError("gram and rhs must be finite")
        self.curvature = _curvature(p.gram, self.children)
        self.parent = None if p.parent is None else np.asarray(p.parent, dtype=float)
        self.support = p.support
        self.parts = Parts.of(p.parts, p.totals, self.children)
        rows = _rows(p.groups, self.cells)
        shape = (self.children, len(rows))
        if any(b is not None and np.shape(b) != shape for b in (p.lower, p.upper)):
            raise ValueError(f"lower and upper must have shape {shape}")
        low = np.full(shape, -np.inf) if p.lower is None else np.asarray(p.lower, dtype=float)
        high = np.full(shape, np.inf) if p.upper is None else np.asarray(p.upper, dtype=float)
        refuse_contradictions(self.parent, rows, low, high, self.support, self.parts)
        if len(self.parts):  # the last row
            rows = np.concatenate([rows, np.ones((1, self.cells))])
            low, high = (
                np.pad(b, ((0, 0), (0, 1)), constant_values=inf)
                for b, inf in ((low, -np.inf), (high, np.inf))
            )
        held: Any = csr_array(rows) if isinstance(p.gram, Partitions) else rows
        self.size = self._sizes(held)
        self.rows: Any = held / self.size[:, None]
        self.lower, self.upper = low / self.size, high / self.size

    @property
    def alone(self) -> bool:
        """Whether it is solved by itself: it has no matrix, or totals of several children."""
        return isinstance(self.curvature, PartitionsCurvature) or len(self.parts) > 0

    @cached_property
    def kinds(self) -> list[NDArray[np.intp]]:
        """The children of each kind."""
        if isinstance(self.curvature, PartitionsCurvature) or len(self.curvature.gram) == 1:
            return [np.arange(self.children)]
        return [np.flatnonzero(self.curvature.kind == k) for k in range(len(self.curvature.gram))]

    def _sizes(self, rows: Any) -> Array:
        """What the rows are divided by, so that one weight serves all: the standard deviation of a
        row's sum in those of a typical cell, sqrt(b'G^-1 b), but not far from its length."""
        if not rows.shape[0]:
            return np.zeros(0)
        variance = self.curvature.typical * self.curvature.variances(rows)
        length = np.maximum(rows.sum(axis=1), 1.0)
        return np.asarray(np.sqrt(np.clip(variance, length / _SKEW, length * _SKEW)))


def _curvature(
    gram: Array | Partitions | Kinds | LayeredGram, children: int
) -> Curvature | PartitionsCurvature:
    if isinstance(gram, Partitions):
        return PartitionsCurvature(gram)
    return Curvature(gram if isinstance(gram, Kinds) else np.asarray(gram, dtype=float), children)


def sparse_rows(groups: NDArray[np.generic] | None, cells: int) -> csr_array:
    """The groups as rows ``(groups, cells)``, from a partition without a dense matrix."""
    if groups is None or np.ndim(groups) == 2:
        return csr_array(_rows(groups, cells))
    g = np.asarray(groups)
    here = np.flatnonzero(g >= 0)
    return csr_array(
        (np.ones(len(here)), (g[here], here)), shape=(int(g.max(initial=-1)) + 1, cells)
    )


def _rows(groups: NDArray[np.generic] | None, cells: int) -> Array:
    if groups is None:
        return np.zeros((0, cells))
    g = np.asarray(groups)
    if g.ndim == 2:
        return g.astype(float)
    return (g[None, :] == np.arange(int(g.max(initial=-1)) + 1)[:, None]).astype(float)
