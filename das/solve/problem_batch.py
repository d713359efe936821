"""Problems that are solved together: their numbers in flat vectors, their matrices in stacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.solve.curvature import inverse
from das.solve.layout import Arrangement, Array, BlockDiagonal, Index, Mask, added
from das.solve.partitions import Partitions, PartitionsCurvature
from das.solve.parts import Parts
from das.solve.problem import CheckedQP

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
    def of(problems: Sequence[CheckedQP]) -> ProblemBatch:
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

        def flat(of: Callable[[CheckedQP], Any]) -> Array:
            return np.concatenate([of(p)[k].T.ravel() for p, k, _ in places])

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
    # ----------------------------------------------------------------

    def over_children(self, x: Array) -> Array:
        """The sum of each cell of each problem, in the order of ``parent``."""
        sums = self.layout.entries.sums(x)
        return sums if self.shared else added(self.layout.cell_of, sums, len(self.parent))

    def to_children(self, cells: NDArray[Any]) -> NDArray[Any]:
        """What is said of a problem's cell, for each of its children."""
        return cells[self.layout.cell_of_variable]

    def meet(self, x: Array, shares: FlatMap | None) -> Array:
        """``x`` changed to sum to the parent: what is missing is shared out evenly, or by
        ``shares``, in place.
        """
        rest = self.parent - self.over_children(x)
        if shares is None:
            x += self.to_children(rest / self.layout.children_of_cell)
        else:
            x += shares(rest[self.layout.cell_of])[self.layout.entries.of]
        return x

    # --- matrices
    # ---------------------------------------------------------------------------------------------

    def factored(
        self, diagonal: Array, weight: Array, old: FlatMap | None = None, moved: Mask | None = None
    ) -> FlatMap:
        """A = (G + ``diagonal`` I + ``weight`` B'B)^-1; only of the problems that ``moved``, if
        there are ``old`` ones.
        """
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
        A_c)^-1. ``None``: all the same.
        """
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

    def stacked(of: Callable[[CheckedQP, int], Array]) -> BlockDiagonal:
        each = [[of(p, j) for p, _, j in places[a:b]] for a, b in layout.runs]
        return BlockDiagonal([m[0][None] if len(m) == 1 else np.stack(m) for m in each], width)

    def of(name: str) -> BlockDiagonal:
        return stacked(lambda p, j: getattr(p.curvature, name)[j])

    rows = stacked(lambda p, _: p.rows)
    return (
        of("gram"),
        of("inverse"),
        None if p.curvature.null is None else of("null"),
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
