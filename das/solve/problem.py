"""One problem of least squares over the children of a parent, as it is given and as it is
solved."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from das.solve.contradictions import refuse_contradictions
from das.solve.layout import Arrangement, BlockDiagonal, Index, Mask, added
from das.solve.partitions import Kinds, LayeredGram, Partitions, PartitionsCurvature, Parts

# The matrices of one problem's children, factored once.

Array = NDArray[np.float64]

_SMALL_CURVATURE = 64  #: cells of matrices that are inverted by a stack at once
_SINGULAR = 1e-11  # eigenvalues below this part of the largest count as zero


def inverse(matrices: Array, factors: Array | None = None) -> Array:
    """The inverses of positive definite matrices, ``(matrices, n, n)``; large ones by their
    Cholesky ``factors``."""
    if matrices.shape[1] <= _SMALL_CURVATURE:
        return np.asarray(np.linalg.inv(matrices), dtype=np.float64)
    return np.stack(
        [_inverse(m, None if factors is None else factors[i]) for i, m in enumerate(matrices)]
    )


def _inverse(matrix: Array, factor: Array | None) -> Array:
    if factor is None:
        try:
            factor = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        except np.linalg.LinAlgError:  # rounding, of one that is all but singular
            return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    from scipy.linalg.lapack import dpotri  # slow to load

    half = dpotri(factor, lower=True)[0]
    return np.where(np.tri(len(half), dtype=bool), half, half.T)


class Curvature:
    """One matrix G of each kind of children, ``(kinds, cells, cells)``, and its inverse; where some
    G is singular, their pseudo-inverses and the projections on what they do not see, ``null``.
    ``typical`` is the geometric mean of the (positive) eigenvalues; ``diagonal`` ``(kinds,
    cells)``."""

    def __init__(self, given: Array | Kinds, children: int) -> None:
        if isinstance(given, Kinds):
            self.gram, self.kind = np.asarray(given.matrices, dtype=float), given.kind
        elif given.ndim == 2:
            self.gram, self.kind = given[None], np.zeros(children, dtype=np.intp)
        else:
            self.gram, self.kind = given, np.arange(children)
        if not np.isfinite(self.gram).all():
            raise ValueError("gram and rhs must be finite")
        self.diagonal = np.diagonal(self.gram, axis1=1, axis2=2)
        self.null: Array | None = None
        if (factors := self._factors()) is not None:
            self.inverse = inverse(self.gram, factors)
            pivots = np.diagonal(factors, axis1=1, axis2=2)
            self.typical = float(np.exp(2 * np.log(pivots).mean())) if pivots.size else 1.0
            return
        value, vector = np.linalg.eigh(self.gram)
        keep = value > _SINGULAR * np.maximum(value[:, -1:], 1e-300)
        self.typical = float(np.exp(np.log(value[keep]).mean())) if keep.any() else 1.0
        scaled = vector * np.where(keep, 1 / np.where(keep, value, 1.0), 0.0)[:, None, :]
        self.inverse = scaled @ np.swapaxes(vector, 1, 2)
        rest = np.where(keep[:, None, :], 0.0, vector)
        self.null = rest @ np.swapaxes(rest, 1, 2)

    def _factors(self) -> Array | None:
        """The Cholesky factors, ``None`` where some G is singular to working precision."""
        try:
            factors = np.linalg.cholesky(self.gram)
        except np.linalg.LinAlgError:
            return None
        pivots = np.diagonal(factors, axis1=1, axis2=2)
        definite = (
            pivots.min(axis=1, initial=np.inf) > 1e-5 * pivots.max(axis=1, initial=0.0)
        ).all()
        return factors if definite else None

    def variances(self, rows: Array) -> Array:
        """The diagonal of B G^-1 B', with the mean inverse where children differ: ``(rows,)``."""
        inverse = self.inverse[0] if len(self.inverse) == 1 else self.inverse.mean(axis=0)
        return np.asarray(np.sum(rows @ inverse * rows, axis=1))


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
        InfeasibleError: see :mod:`das.solve.contradictions`."""

    def __init__(self, p: ChildrenQP) -> None:
        self.rhs = np.asarray(p.rhs, dtype=float)
        self.children, self.cells = self.rhs.shape
        if not np.isfinite(self.rhs).all():
            raise ValueError("gram and rhs must be finite")
        self.curvature = _curvature(p.gram, self.children)
        self.parent = None if p.parent is None else np.asarray(p.parent, dtype=float)
        self.support = p.support
        self.parts = Parts.checked(p.parts, p.totals, self.children)
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


# Problems that are solved together: their numbers in flat vectors, their matrices in stacks.

#: A linear map of flat vectors.
FlatMap = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class ProblemBatch:
    """Problems of one sort. All have a parent or none has (``coupled``); each has one matrix or not
    (``shared``); all are definite (``null`` is ``None``) or none is.

    ``rhs``, ``support`` (1 or 0; ``None`` where all are 1) and ``diagonal`` of the variables;
    ``lower``, ``upper`` and ``size`` of the rows' sums; ``parent`` of each problem's cells;
    ``typical`` of the problems. ``joint`` has the places of the sums of children of known joint
    totals, and those."""

    layout: Arrangement
    coupled: bool
    shared: bool
    rhs: Array
    support: Array | None
    diagonal: Array
    lower: Array
    upper: Array
    size: Array
    parent: Array
    typical: Array
    gram: FlatMap
    inverse: FlatMap
    null: FlatMap | None
    rows: FlatMap
    back: FlatMap
    joint: tuple[Index, Parts] | None

    @staticmethod
    def from_problems(problems: Sequence[CheckedQP]) -> ProblemBatch:
        """Of problems of one :func:`sort`."""
        first = problems[0]
        kinds = [p.kinds for p in problems]
        found = sorted(
            (p.cells, len(p.size), len(k), i, j)
            for i, p in enumerate(problems)
            for j, k in enumerate(kinds[i])
        )
        cells, rows, children, problem, kind = np.array(found, dtype=np.intp).T
        layout = Arrangement(cells, rows, children, problem, kind, len(problems))
        places = [(problems[i], kinds[i][j], j) for *_, i, j in found]

        def flat(values: Callable[[CheckedQP], Any]) -> Array:
            return np.concatenate([values(p)[k].T.ravel() for p, k, _ in places])

        some = any(p.support is not None for p in problems)
        gram, inverse, null, rows, back = _maps(layout, places)
        return ProblemBatch(
            layout=layout,
            coupled=first.parent is not None,
            shared=len(first.kinds) == 1,
            rhs=flat(lambda p: p.rhs),
            support=flat(_support) if some else None,
            diagonal=np.concatenate([np.repeat(_diagonal(p, j), len(k)) for p, k, j in places]),
            lower=flat(lambda p: p.lower),
            upper=flat(lambda p: p.upper),
            size=np.concatenate([np.repeat(p.size, len(k)) for p, k, _ in places]),
            parent=np.concatenate(
                [np.zeros(p.cells) if p.parent is None else p.parent for p in problems]
            ),
            typical=np.array([p.curvature.typical for p in problems]),
            gram=gram,
            inverse=inverse,
            null=null,
            rows=rows,
            back=back,
            joint=_joint(layout, first),
        )

    def some(self, keep: Mask) -> ProblemBatch:
        """Those of the problems that are kept, of more than one."""
        variables, sums = (
            keep[lines.problem_of] for lines in (self.layout.entries, self.layout.sums)
        )
        return replace(
            self,
            layout=self.layout.some(keep),
            rhs=self.rhs[variables],
            support=None if self.support is None else self.support[variables],
            diagonal=self.diagonal[variables],
            lower=self.lower[sums],
            upper=self.upper[sums],
            size=self.size[sums],
            parent=self.parent[keep[self.layout.problem_of_cell]],
            typical=self.typical[keep],
            gram=self.kept(self.gram, keep),
            inverse=self.kept(self.inverse, keep),
            null=None if self.null is None else self.kept(self.null, keep),
            rows=self.kept(self.rows, keep),
            back=self.kept(self.back, keep),
        )

    def kept(self, matrices: FlatMap, keep: Mask) -> FlatMap:
        """Of one matrix for each block, those of the problems that are kept."""
        assert isinstance(matrices, BlockDiagonal)
        return matrices.some([keep[self.layout.problem[a:b]] for a, b in self.layout.runs])

    # --- across the children of each problem

    def over_children(self, x: Array) -> Array:
        """The sum of each cell of each problem, in the order of ``parent``."""
        sums = self.layout.entries.sums(x)
        return sums if self.shared else added(self.layout.cell_of, sums, len(self.parent))

    def to_children(self, cells: NDArray[Any]) -> NDArray[Any]:
        """What is said of a problem's cell, for each of its children."""
        return cells[self.layout.cell_of_variable]

    def meet(self, x: Array, shares: FlatMap | None) -> Array:
        """``x`` changed to sum to the parent: what is missing is shared out evenly, or by
        ``shares``, in place."""
        rest = self.parent - self.over_children(x)
        if shares is None:
            x += self.to_children(rest / self.layout.children_of_cell)
        else:
            x += shares(rest[self.layout.cell_of])[self.layout.entries.line]
        return x

    # --- matrices

    def factored(
        self, diagonal: Array, weight: Array, old: FlatMap | None = None, moved: Mask | None = None
    ) -> FlatMap:
        """A = (G + ``diagonal`` I + ``weight`` B'B)^-1; only of the problems that ``moved``, if
        there are ``old`` ones."""
        if isinstance(self.gram, _OfPartitions):
            of = self.gram
            return _Solve(
                of.matrix.plus(float(diagonal[0]), of.rows, float(weight[0])), of.children
            )
        assert isinstance(self.gram, BlockDiagonal)
        assert isinstance(self.rows, BlockDiagonal)
        stacks: list[Array] = []
        for r, (a, b) in enumerate(self.layout.runs):
            here = self.layout.problem[a:b]
            some = np.ones(b - a, dtype=bool) if moved is None else moved[here]
            if not some.any():
                continue
            g, rows, these = self.gram.stacks[r][some], self.rows.stacks[r][some], here[some]
            g = g + weight[these, None, None] * (rows.swapaxes(1, 2) @ rows)
            g += diagonal[these, None, None] * np.eye(g.shape[1])
            new = inverse(g)
            if isinstance(old, BlockDiagonal):
                old.stacks[r][some] = new
            stacks.append(new)
        return old if isinstance(old, BlockDiagonal) else BlockDiagonal(stacks, self.gram.width)

    def shares(
        self, matrix: FlatMap, old: FlatMap | None = None, moved: Mask | None = None
    ) -> FlatMap | None:
        """Of children of several kinds, what each takes of a rest at the least cost: A_c (sum
        A_c)^-1. ``None``: all the same."""
        if self.shared or not self.coupled:
            return None
        assert isinstance(matrix, BlockDiagonal)
        out = (
            old
            if isinstance(old, BlockDiagonal)
            else BlockDiagonal([np.empty_like(m) for m in matrix.stacks], [1] * len(matrix.stacks))
        )
        for i, places in enumerate(self.layout.places):
            if moved is None or moved[i]:
                whole = inverse(
                    np.sum([matrix.width[r] * matrix.stacks[r][k] for r, k in places], axis=0)[None]
                )[0]
                for r, k in places:
                    out.stacks[r][k] = matrix.stacks[r][k] @ whole
        return out


Question = TypeVar("Question")
Reply = TypeVar("Reply")
Conclusion = TypeVar("Conclusion")


def answered(
    asking: Mapping[int, Generator[Question, Reply, Conclusion]],
    answers: Callable[[list[Question]], list[Reply]],
) -> dict[int, Conclusion]:
    """What comes of each that asks: the first problems of all are answered together, then their
    second ones, and so on."""
    out: dict[int, Conclusion] = {}
    due: dict[int, Reply | None] = dict.fromkeys(asking)
    while due:
        asked: dict[int, Question] = {}
        for i, answer in due.items():
            try:
                asked[i] = next(asking[i]) if answer is None else asking[i].send(answer)
            except StopIteration as end:
                out[i] = end.value
        due = dict(zip(asked, answers(list(asked.values())), strict=True))
    return out


def sort(p: CheckedQP) -> tuple[bool, bool, bool]:
    """Problems that agree in this can be in one batch."""
    return p.parent is not None, len(p.kinds) == 1, p.curvature.null is None


@dataclass(frozen=True, eq=False)
class _OfPartitions:
    """G of :class:`Partitions`, on the flat vector of one problem."""

    matrix: Partitions
    rows: Any
    children: int

    def __call__(self, x: Array) -> Array:
        return self.matrix.times(x.reshape(-1, self.children).T).T.ravel()


@dataclass(frozen=True, eq=False)
class _Solve:
    """And its inverse."""

    matrix: Partitions
    children: int

    def __call__(self, x: Array) -> Array:
        return self.matrix.solve(x.reshape(-1, self.children).T).T.ravel()


@dataclass(frozen=True, eq=False)
class _Sparse:
    """Sparse rows, on the flat vector of one problem."""

    rows: Any
    children: int

    def __call__(self, x: Array) -> Array:
        return np.asarray(self.rows @ x.reshape(-1, self.children)).ravel()


def _maps(
    layout: Arrangement, places: Sequence[tuple[CheckedQP, Index, int]]
) -> tuple[FlatMap, FlatMap, FlatMap | None, FlatMap, FlatMap]:
    """G, its inverse, what it does not see; B and B'."""
    p = places[0][0]
    if isinstance(p.curvature, PartitionsCurvature):
        g, c = p.curvature.gram, p.children
        return (
            _OfPartitions(g, p.rows, c),
            _Solve(g, c),
            None,
            _Sparse(p.rows.tocsr(), c),
            _Sparse(p.rows.T.tocsr(), c),
        )
    width = [int(layout.children[a]) for a, _ in layout.runs]

    def stacked(matrix: Callable[[CheckedQP, int], Array]) -> BlockDiagonal:
        each = [[matrix(p, j) for p, _, j in places[a:b]] for a, b in layout.runs]
        return BlockDiagonal([m[0][None] if len(m) == 1 else np.stack(m) for m in each], width)

    def attribute(name: str) -> BlockDiagonal:
        return stacked(lambda p, j: getattr(p.curvature, name)[j])

    rows = stacked(lambda p, _: p.rows)
    return (
        attribute("gram"),
        attribute("inverse"),
        None if p.curvature.null is None else attribute("null"),
        rows,
        rows.transposed,
    )


def _support(p: CheckedQP) -> Array:
    return np.ones(p.rhs.shape) if p.support is None else p.support.astype(float)


def _diagonal(p: CheckedQP, kind: int) -> Array:
    return (
        p.curvature.diagonal
        if isinstance(p.curvature, PartitionsCurvature)
        else p.curvature.diagonal[kind]
    )


def _joint(layout: Arrangement, p: CheckedQP) -> tuple[Index, Parts] | None:
    """Of a problem by itself."""
    if not len(p.parts):
        return None
    last = np.cumsum(layout.rows) - 1
    at = np.concatenate(
        [layout.sums.start[i] + np.arange(layout.children[k]) for k, i in enumerate(last)]
    )
    order = np.concatenate([p.kinds[j] for j in layout.kind])
    return at, Parts(p.parts.part[order], p.parts.total / p.size[-1])
