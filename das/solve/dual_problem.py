"""A problem of :class:`das.solve.partitions.LayeredGram` matrices, as :mod:`das.solve.dual` has it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from das.solve.certificate import ExactSums
from das.solve.contradictions import refuse_contradictions
from das.solve.layout import Incidence, of_index, stacked
from das.solve.partitions import LayeredGram, Parts
from das.solve.problem import ChildrenQP, sparse_rows

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# : most answers of the coarse queries, whose second derivatives are inverted child by child,
_CORE = 256
_WORK = 3e8  # multiplications for these inverses, where exact sums are among them
_CORES = 1 << 24  #: and most numbers of these inverses (130 MB)
# : what holds a sum between bounds near its last value, in typical curvatures of one of its cells
_SLACK = 0.01
_EQUAL = 1e-9  # bounds no further apart are one


class DualProblem:
    """Variables ``(cells, children)``: ``rhs``, ``curvature`` (one column where all children share
    it), ``able``; multipliers flat, as :class:`Incidence` has them: ``inverse`` weights of measured
    sums (0: exact), ``held`` of exact sums, ``free`` those that count. ``box`` are the places of
    sums between ``low`` and ``high``.

    Raises:
        ValueError, InfeasibleError: as :class:`das.solve.problem.CheckedQP`."""

    def __init__(self, p: ChildrenQP) -> None:
        assert isinstance(p.gram, LayeredGram)
        self.rhs = np.ascontiguousarray(np.asarray(p.rhs, dtype=float).T)
        self.cells, self.children = self.rhs.shape
        if not np.isfinite(self.rhs).all():
            raise ValueError("gram and rhs must be finite")
        if p.gram.cells != self.cells or p.gram.weight.shape[1] != self.children:
            raise ValueError(
                f"gram has weights of {p.gram.weight.shape[1]} children and {p.gram.cells} cells, "
                f"rhs {self.children} and {self.cells}"
            )
        self.parent = None if p.parent is None else np.asarray(p.parent, dtype=float)
        self.parts = Parts.checked(p.parts, p.totals, self.children)
        self.groups = groups = sparse_rows(p.groups, self.cells)
        lower, upper = _bounds(p, self.children, groups.shape[0])
        refuse_contradictions(self.parent, groups, lower, upper, p.support, self.parts)
        self.lower, self.upper = lower.T, upper.T
        self.able = self._able(p.support, groups)
        self.most = (
            np.full(self.able.shape, np.inf)
            if self.parent is None
            else self.able * self.parent[:, None]
        )
        self._measured(p.gram)
        self.rows = Incidence(
            stacked([self.queries, groups], self.cells), self.children, self.parts
        )
        self._multipliers(groups)
        self._nearby()
        of_rows = self.rows.of_rows
        exact = np.asarray(of_rows(self.exact)[self.measured :], dtype=bool)
        self.sums = ExactSums.from_groups(groups, of_rows(self.held)[self.measured :], exact)

    def _able(self, support: Mask | None, groups: csr_array) -> Mask:
        able = np.ones((self.cells, self.children), dtype=bool)
        if support is not None:
            able &= np.asarray(support).T
        if self.parent is not None:
            able &= (self.parent > 0)[:, None]
        if len(self.parts):
            able[:, self.parts.bound] &= (self.parts.total > 0)[self.parts.part[self.parts.bound]]
        return able & ~np.asarray(groups.T @ (self.upper <= 0) > 0)

    def _measured(self, gram: LayeredGram) -> None:
        """``queries`` ``(answers, cells)`` of several cells, those of coarse queries first
        (``core`` of them), their ``weight`` ``(answers, children)``, and the ``curvature`` that the
        other answers give."""
        weight = np.asarray(gram.weight, dtype=float)
        if (weight == weight[:, :1]).all():
            weight = weight[:, :1]
        found = of_index(gram.index, self.cells)
        order = sorted(range(len(found)), key=lambda q: found[q][0].shape[0])
        curvature = np.zeros((self.cells, weight.shape[1]))
        for (_, alone), w in zip(found, weight, strict=True):
            curvature[alone] += w
        self.queries = stacked([found[q][0] for q in order], self.cells)
        sizes = np.array([found[q][0].shape[0] for q in order], dtype=np.intp)
        self.weight = np.repeat(weight[order], sizes, axis=0)
        self.answers: Array | None = None
        if gram.answers:
            self.answers = np.concatenate([_several(gram, q) for q in order])
        most = min(_CORE, int(np.sqrt(_CORES / self.children)))
        self.core = int(sizes[np.cumsum(sizes) <= most].sum())
        if (bad := (curvature <= 0) & self.able).any():
            cell, child = np.argwhere(bad)[0]
            raise ValueError(
                f"child {child}, cell {cell}: layered matrices need a query of positive weight that"
                " tells it apart"
            )
        self.curvature = np.where(curvature > 0, curvature, 1.0)
        self.typical = float(np.median(self.curvature)) if curvature.size else 1.0

    def _multipliers(self, groups: csr_array) -> None:
        rows, measured = self.rows, len(self.weight)
        y = np.zeros(rows.size)
        self.inverse, self.held, self.free = y.copy(), y.copy(), y.astype(bool)
        weight = np.broadcast_to(self.weight, (measured, self.children))
        of_rows = rows.of_rows
        of_rows(self.inverse)[:measured] = np.divide(
            1.0, weight, out=np.ones(weight.shape), where=weight > 0
        )
        of_rows(self.free)[:measured] = (weight > 0) & (self.queries @ self.able > 0)
        low, high = np.maximum(self.lower, 0.0), np.minimum(self.upper, groups @ self.most)
        exact = high - low <= _EQUAL
        bound = (groups @ self.able > 0) & ((low > 0) | (self.upper < groups @ self.most))
        of_rows(self.held)[measured:] = np.where(exact, low, 0.0)
        of_rows(self.free)[measured:] = bound
        inside = np.zeros((rows.rows.shape[0], self.children), dtype=bool)
        inside[measured:] = bound & ~exact
        self.box = np.flatnonzero(inside)
        self.low, self.high = low[inside[measured:]], high[inside[measured:]]
        size = np.maximum(groups @ self.able, 1.0)[inside[measured:]]
        self.stiff = _SLACK * self.typical / size
        if self.parent is not None:
            rows.of_cells(self.held)[:] = self.parent
            rows.of_cells(self.free)[:] = self.able.any(axis=1)
        if len(self.parts):
            rows.of_parts(self.held)[:] = self.parts.total
            rows.of_parts(self.free)[:] = self.parts.total > 0
        self.measured = measured
        self.exact = self.free & (self.inverse == 0)

    def _nearby(self) -> None:
        """``near``: the rows whose second derivatives are inverted together, child by child: the
        coarse queries and, as far as there is room, the exact sums of the most variables."""
        exact = self.rows.of_rows(self.exact)[self.measured :].any(axis=1)
        size = np.diff(self.rows.rows.indptr)[self.measured :]
        room = int(min((_WORK / self.children) ** (1 / 3), (_CORES / self.children) ** 0.5))
        first = np.argsort(-np.where(exact, size, 0), kind="stable")
        some = first[: max(0, min(room - self.core, int(exact.sum())))] if self.core else first[:0]
        self.near = np.concatenate([np.arange(self.core), self.measured + np.sort(some)])
        self.near_of_cell = self.rows.rows[self.near].T.tocsr()

    @cached_property
    def back(self) -> tuple[csr_array, csr_array]:
        """The queries and the groups, transposed."""
        return self.queries.T.tocsr(), self.groups.T.tocsr()

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """The bounds without what is infinite or below 0."""
        high = np.nan_to_num(self.upper, posinf=np.inf, neginf=-np.inf)
        return np.maximum(np.nan_to_num(self.lower, posinf=np.inf, neginf=-np.inf), 0.0), high

    @cached_property
    def overlap(self) -> Array:
        """How many groups each cell is in, at least 1, ``(cells, 1)``."""
        return np.maximum(np.asarray(self.groups.sum(axis=0)), 1.0)[:, None]

    def sums_wanted(self, y: Array, center: Array, smoothing: float) -> tuple[Array, Array]:
        r"""What each sum should be at the multipliers ``y``, and the negative slopes of that: exact
        sums their own; one between bounds ``center - y/stiff``, clipped to them, with the corners
        rounded over some persons."""
        wanted, slope = self.held.copy(), self.inverse.copy()
        if len(self.box):
            at = center - y[self.box] / self.stiff
            if smoothing:
                from scipy.special import expit  # slow to load

                low, high = (at - self.low) / smoothing, (at - self.high) / smoothing
                wanted[self.box] = self.low + smoothing * (
                    np.logaddexp(0.0, low) - np.logaddexp(0.0, high)
                )
                slope[self.box] = (expit(low) - expit(high)) / self.stiff
            else:
                wanted[self.box] = np.clip(at, self.low, self.high)
                slope[self.box] = ((at > self.low) & (at < self.high)) / self.stiff
        return wanted - self.inverse * y, slope

    def centered(self, y: Array, center: Array) -> Array:
        """Where the sums between bounds are held near next."""
        return np.clip(center - y[self.box] / self.stiff, self.low, self.high)


def _several(gram: LayeredGram, query: int) -> Array:
    """What the answers of several cells should be, ``(answers, children)``."""
    index, answers = gram.index[query], np.asarray(gram.answers[query], dtype=float)
    return answers.T[np.bincount(index[index >= 0], minlength=answers.shape[1]) > 1]


def _bounds(p: ChildrenQP, children: int, groups: int) -> tuple[Array, Array]:
    shape = (children, groups)
    if any(b is not None and np.shape(b) != shape for b in (p.lower, p.upper)):
        raise ValueError(f"lower and upper must have shape {shape}")
    low = np.full(shape, -np.inf) if p.lower is None else np.asarray(p.lower, dtype=float)
    high = np.full(shape, np.inf) if p.upper is None else np.asarray(p.upper, dtype=float)
    return low, high


# Answers that sum to the parent and lie within the bounds, by scaling.

FEASIBLE = (
    1e-3  #: the largest violation of a bound by an answer that passes for feasible, in persons
)
_LEAST = 1e-3  # a sum is scaled by this factor at most, or its inverse
_ROUNDS = 5


def repaired(p: DualProblem, x: Array, rounds: int = 0) -> Array:
    """``x`` >= 0 with each cell scaled to the parent exactly, after some rounds of scaling into the
    bounds."""
    x = _summed(p, x)
    for _ in range(rounds if p.groups.shape[0] else 0):
        sums = p.groups @ x
        factor = np.divide(np.clip(sums, *p.limits), sums, out=np.ones_like(sums), where=sums > 0)
        scale = p.back[1] @ np.log(np.clip(factor, _LEAST, 1 / _LEAST))
        x = _summed(p, x * np.exp(scale / p.overlap))
    return x


def started(p: DualProblem) -> Array:
    """Where to start: what the parent, or else the measurements, give each child evenly, scaled
    into the bounds."""
    if p.parent is None:
        x = np.where(p.able, np.maximum(p.rhs, 0.0) / (p.curvature + p.back[0] @ p.weight), 0.0)
        return repaired(p, x + 1e-3 * p.able, _ROUNDS)
    return repaired(p, p.able.astype(float), _ROUNDS)


def _summed(p: DualProblem, x: Array) -> Array:
    if p.parent is None:
        return x
    total = x.sum(axis=1)
    lost = (total <= 0) & (p.parent > 0)
    if lost.any():
        x = np.where(lost[:, None], p.able, x)
        total = x.sum(axis=1)
    return x * np.divide(p.parent, total, out=np.zeros_like(total), where=total > 0)[:, None]
