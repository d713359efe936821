r"""Least squares over the children of one parent.

.. math::
   \min_{x} \sum_{c=1}^{C} \tfrac12 x_c' G_c x_c - b_c' x_c
   \quad\text{subject to}\quad \sum_c x_c = p,\quad x \ge 0,\quad l_c \le B x_c \le u_c,\quad
   \sum_{c \in s} 1'x_c = T_s .

*Method.* Alternating directions (Boyd et al. 2011; the splitting of OSQP, Stellato et al. 2020)
with copies :math:`z = x` and :math:`v = Bx`. All children share :math:`G` and :math:`B`, so the
step in
:math:`x` is one matrix product with :math:`A = (G + \rho(I + B'B))^{-1}`; the coupling
:math:`\sum_c x_c = p` shifts every child by the same vector, because with one :math:`A`

.. math:: x_c = A r_c + A\nu,\quad \sum_c x_c = p \;\Rightarrow\; A\nu = \tfrac1C\bigl(p - \sum_c A r_c\bigr),

which needs no further solve. (Of several kinds of children each has an A of its own, and
:math:`\nu` is found from the sum of all children's.) Cost: one factorisation of ``cells^3 / 3`` and
``2 C cells^2`` for each iteration; where G is a sum of partitions (:mod:`das.solve.partitions`),
with the number of their answers for that of the cells. Each copy has its own :math:`\rho`, which
follows the ratio of its residuals. Where totals of several children together are known (the parts
:math:`s`), one more row of :math:`B` holds :math:`1'x_c`; its copy is projected by shifting all
children of a part by :math:`(T_s - \sum_{c \in s} 1'x_c)/|s|`, so its multiplier is constant on a
part.

*Many problems* are solved together, each with its own weights and certificate, until its own end
(:mod:`das.solve.problem`): an iteration of a small problem takes a microsecond, to tell numpy
of it sixty. No answer depends on the batch, to the last bit (:mod:`das.solve.layout`).

*Start.* The minimum without bounds, clipped at 0. From an even split of the parent instead, the
multipliers must first be built up, :math:`\rho` times a violation at a time: fifty times the
iterations for a state's counties.

*Certificate.* See :mod:`das.solve.certificate`. The iteration ends when the gap of the repaired
point is within the tolerance and the copies agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.model.solution import Solution, Status
from das.solve.alternating import Iteration
from das.solve.dual_problem import FEASIBLE
from das.solve.layout import Array
from das.solve.network import Flow, Ints
from das.solve.partitions import Kinds, LayeredGram, Partitions
from das.solve.problem import CheckedQP, ChildrenQP, ProblemBatch, sort

_TOGETHER = 1 << 14  # variables of one batch: their vectors stay in the cache
_DENSE = (
    1 << 22
)  # numbers of dense matrices of a family (32 MiB), up to which there are two methods
_STALLED = 2_000  # and steps of conjugate gradients after which the other one takes over


def children_qp(
    gram: Array | Partitions | Kinds | LayeredGram,
    rhs: Array,
    parent: Array | None,
    *,
    groups: NDArray[np.generic] | None = None,
    lower: Array | None = None,
    upper: Array | None = None,
    support: NDArray[np.bool_] | None = None,
    parts: NDArray[np.intp] | None = None,
    totals: NDArray[Any] | None = None,
    tol: float = 1e-6,
    max_iterations: int = 20_000,
) -> Solution:
    """Solve the problem of the module.

    ``gram`` is ``(cells, cells)``, shared, or ``(children, cells, cells)``, or shared
    :class:`Partitions`, or :class:`LayeredGram` (solved by
    :mod:`das.solve.dual`; iterations are steps of conjugate gradients), or :class:`Kinds` of
    children; ``rhs`` ``(children, cells)``; ``parent`` ``(cells,)``, or ``None`` for no coupling.
    ``groups`` is a partition of the cells (``(cells,)`` of group numbers) or, for rows that
    overlap, a 0/1 matrix ``(groups, cells)``; ``lower`` and ``upper`` bound their sums,
    ``(children, groups)``. Where ``support`` ``(children, cells)`` is False, x is 0. ``parts``
    ``(children,)`` numbers the part of each child (-1: none), and ``totals`` ``(parts,)`` is what
    each part holds.

    ``x`` sums to ``parent`` and is >= 0 to rounding error; ``residual`` is its largest violation of
    a group bound or a part's total. Raises :class:`das.errors.InfeasibleError` where bounds
    contradict the parent, the support or each other one by one; where they do only together, the
    status is ``INACCURATE`` and the residual large."""
    problem = ChildrenQP(gram, rhs, parent, groups, lower, upper, support, parts, totals)
    return children_qps([problem], tol=tol, max_iterations=max_iterations)[0]


def children_qps(
    problems: Sequence[ChildrenQP], *, tol: float = 1e-6, max_iterations: int = 20_000
) -> list[Solution]:
    """The solution of each problem, the same to the last bit as :func:`children_qp` of it alone;
    ``seconds`` are its share of those of the problems that it was solved with.

    Raises:
        InfeasibleError: the first of the problems that contradicts itself, as :func:`children_qp`
            would.
    """
    began = perf_counter()
    large = [i for i, p in enumerate(problems) if isinstance(p.gram, LayeredGram)]
    prepared = {
        i: CheckedQP(p) for i, p in enumerate(problems) if not isinstance(p.gram, LayeredGram)
    }
    spent = (perf_counter() - began) / max(1, len(prepared))
    out = {i: _of_layers(problems[i], tol, max_iterations) for i in large}
    for number in _problem_batches(prepared):
        began = perf_counter()
        some = [prepared[i] for i in number]
        found = Iteration(ProblemBatch.from_problems(some)).run(tol, max_iterations)
        seconds = spent + (perf_counter() - began) / len(number)
        for i, p, end in zip(number, some, found, strict=True):
            # The reported status rests on the certificate alone, not on the iteration's own
            # stopping rule.
            status = (
                Status.OPTIMAL if end.gap <= tol and end.residual <= FEASIBLE else Status.INACCURATE
            )
            out[i] = Solution(end.x_of(p), status, end.gap, end.residual, end.iterations, seconds)
    return [out[i] for i in range(len(problems))]


def _of_layers(problem: ChildrenQP, tol: float, max_iterations: int) -> Solution:
    """By multipliers; where their steps stall, as they can between bounds that leave hardly any
    room, and dense matrices are small, by alternating directions."""
    from das.solve.dual import solved  # few need it

    assert isinstance(problem.gram, LayeredGram)
    children, cells = np.shape(problem.rhs)
    if children * cells * cells > _DENSE:
        return solved(problem, tol, max_iterations)
    found = solved(problem, tol, min(max_iterations, _STALLED))
    if found.status is Status.OPTIMAL:
        return found
    dense = replace(problem, gram=problem.gram.dense())
    other = children_qps([dense], tol=tol, max_iterations=max_iterations)[0]
    steps, seconds = found.iterations + other.iterations, found.seconds + other.seconds
    return replace(other, iterations=steps, seconds=seconds)


def _problem_batches(problems: Mapping[int, CheckedQP]) -> Iterator[list[int]]:
    """Which problems are solved together: those of one sort, with similar shapes next to each
    other, up to a size.
    """
    alone = [i for i, p in problems.items() if p.alone]
    yield from ([i] for i in alone)
    keys = {
        i: (*sort(p), p.cells, len(p.size), p.children) for i, p in problems.items() if not p.alone
    }
    for _, like in groupby(sorted(keys, key=lambda i: (keys[i], i)), key=lambda i: keys[i][:3]):
        batch, size = list[int](), 0
        for i in like:
            more = problems[i].rhs.size
            if batch and size + more > _TOGETHER:
                yield batch
                batch, size = [], 0
            batch.append(i)
            size += more
        yield batch


# Which persons must change their group so that a parent can be shared out: the smallest number.
#
# A parent holds :math:`y_g` persons of group g. Descendants d take at least :math:`l_{dg}` and at
# most :math:`h_{dg}` of each, and :math:`t_d` of all, exactly. Let :math:`m_{gk}` be the persons who
# change from group g to k. We want the least :math:`\sum_{g \ne k} m_{gk}` such that the groups
# :math:`y'_k = \sum_g m_{gk}` can be shared out. It is a minimum-cost flow: from g to k (cost 1 where
# they differ), from k to d within the bounds, and from d to a sink that takes :math:`t_d`. The flow
# is integral, since its capacities are. The cost is half of the least :math:`\sum_g |y'_g - y_g|`,
# because each person who moves leaves one group and enters another.


def least_moves(held: Ints, lower: Ints, upper: Ints, total: Ints) -> Ints | None:
    """Persons who change from group to group, ``(groups, groups)`` with a diagonal of zeros.

    ``held`` ``(groups,)``; ``lower``, ``upper`` ``(descendants, groups)``; ``total``
    ``(descendants,)``. All zero if and only if ``held`` can be shared out as it is; ``None`` where
    no change of groups lets it: the totals have another sum, or a descendant's bounds leave no way
    to its total."""
    n, groups = lower.shape
    if held.sum() != total.sum() or (lower > np.minimum(upper, total[:, None])).any():
        return None
    flow = Flow()
    g, k = np.divmod(np.arange(groups * groups), groups)
    flow.add(g, groups + k, held[g], g != k)
    d, k = np.divmod(np.arange(n * groups), groups)
    high = np.minimum(upper, total[:, None])
    flow.bounded(groups + k, 2 * groups + d, lower.ravel(), high.ravel())
    first, sink = 2 * groups, 2 * groups + n
    flow.some(first + np.arange(n), np.full(n, sink), total, np.zeros(n))
    flows = flow.solve(np.concatenate([held, np.zeros(groups + n, dtype=np.int64)]), sink)
    if flows is None:
        return None
    moves = flows[: groups * groups].reshape(groups, groups)
    return moves - np.diag(np.diag(moves))
