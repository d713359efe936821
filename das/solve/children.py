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
:math:`\nu` is found from the sum of all children's.) Cost: one factorization of ``cells^3 / 3`` and
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
from dataclasses import dataclass, field, replace
from itertools import groupby
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.model.solution import Solution, Status
from das.solve.certificate import balance, quotient, relative_gap
from das.solve.dual_problem import FEASIBLE
from das.solve.layout import Array, Mask, Segments
from das.solve.network import Flow, Ints
from das.solve.partitions import Kinds, LayeredGram, Partitions
from das.solve.problem import CheckedQP, ChildrenQP, ProblemBatch, sort

# The iteration: alternating directions with copies, many problems at once.

_RELAX = 1.6  # over-relaxation
_AGREE = (
    1e-3  # largest disagreement of the copies at which the certificate is looked at, in persons
)
_SMALL = 1e-5  # and above which a weight is raised
_CHECK = 10  # iterations between looks at the residuals
_FIRST = 2.5  # the first rho, in curvatures of one cell
_BALANCE = 5.0  # a weight moves when its residuals differ by more than this,
_ADAPT, _GROW = (
    30,
    0.2,
)  # least iterations between changes, and their growth, so that weights settle
_WIDEST = 1e8  # weights stay within this factor of the typical curvature
_SCALINGS = 8  # rounds that move an answer into its bounds;
_LEAST = 1e-3  # the smallest factor of a round.
_LEAVE = 0.75  # Finished problems leave a batch when at most this share of it goes on.


@dataclass(eq=False)
class Copy:
    """A copy of x, or of its sums, that keeps the bounds; ``dual`` is its multiplier over its
    ``weight``, rho, one of each problem."""

    lines: Segments
    value: Array
    dual: Array
    weight: Array
    off: Array = field(
        init=False
    )  #: of each problem, the largest disagreement with the original, in persons
    ratio: Array = field(init=False)  #: of the disagreement to the change of the copy

    def __post_init__(self) -> None:
        self.each = self.weight[self.lines.problem_of]

    def pull(self) -> Array:
        out = self.value - self.dual
        out *= self.each
        return out

    @property
    def multiplier(self) -> Array:
        return -self.each * self.dual

    def relaxed(self, original: Array) -> Array:
        out = original - self.value
        out *= _RELAX
        out += self.value
        out += self.dual
        return out

    def follow(self, relaxed: Array, value: Array) -> None:
        relaxed -= value
        self.value, self.dual = value, relaxed

    def reweigh(self, typical: Array) -> Mask:
        """Move the weights to where the residuals call them, up only if persons are off. True where
        one moved."""
        balanced = (self.ratio >= 1 / _BALANCE) & (self.ratio <= _BALANCE)
        moved = ~balanced & ~((self.ratio > 1) & (self.off <= _SMALL))
        moved &= (
            np.bincount(self.lines.problem, minlength=len(moved)) > 0
        )  # where there is something to weigh
        if moved.any():
            new = self.weight * np.sqrt(np.clip(self.ratio, 1e-3, 1e3))
            new = np.where(moved, np.clip(new, typical / _WIDEST, typical * _WIDEST), self.weight)
            self.dual = self.dual * (self.weight / new)[self.lines.problem_of]
            self.weight, self.each = new, new[self.lines.problem_of]
        return moved

    def some(self, lines: Segments, keep: Mask) -> Copy:
        here = keep[self.lines.problem_of]
        copy = Copy(lines, self.value[here], self.dual[here], self.weight[keep])
        copy.off, copy.ratio = self.off[keep], self.ratio[keep]
        return copy


@dataclass(frozen=True, eq=False)
class ProblemEnd:
    """The answer to a problem: its blocks, their kinds, and its accuracy after ``iterations``."""

    blocks: list[tuple[int, Array]]
    gap: float
    residual: float
    iterations: int

    def x_of(self, p: CheckedQP) -> Array:
        x = np.empty(p.rhs.shape)
        for kind, block in self.blocks:
            x[p.kinds[kind]] = block.reshape(p.cells, -1).T
        return x


class Iteration:
    """The state of all problems of a batch. ``number`` tells which of those that it began with
    they are."""

    def __init__(self, batch: ProblemBatch) -> None:
        self.batch, self.number = batch, np.arange(batch.layout.problems)
        x = batch.inverse(batch.rhs)
        if batch.coupled:
            x = batch.meet(x, batch.shares(batch.inverse) if batch.null is None else None)
        x = self._allowed(x)
        sums = self._clipped(batch.rows(x))
        weight = _FIRST * batch.typical
        self.z = Copy(batch.layout.entries, x, np.zeros_like(x), weight)
        self.v = Copy(batch.layout.sums, sums, np.zeros_like(sums), weight)
        self.a = batch.factored(weight, weight)
        self.shares = batch.shares(self.a)

    def run(self, tol: float, limit: int) -> list[ProblemEnd]:
        ends: dict[int, ProblemEnd] = {}
        going = np.ones(len(self.number), dtype=bool)
        due = _ADAPT
        for k in range(1, limit + 1):
            look = k % _CHECK == 0
            self._advance(look)
            if not look:
                continue
            ready = going & (self.z.off <= _AGREE) & (self.v.off <= _AGREE)
            if ready.any():
                going &= ~self._ended(ready, tol, k, ends)
                if not going.any():
                    break
                if going[self.z.lines.problem_of].mean() <= _LEAVE:
                    self._keep(going)
                    going = going[going]
            if k >= due:
                due = k + max(_ADAPT, int(_GROW * k))
                self._reweigh()
        if going.any():
            self._ended(going, None, limit, ends)
        return [ends[i] for i in range(len(ends))]

    def _allowed(self, x: Array) -> Array:
        x = np.maximum(x, 0.0)
        if self.batch.support is not None:
            x *= self.batch.support
        return x

    def _clipped(self, sums: Array) -> Array:
        out = np.maximum(sums, self.batch.lower)
        np.minimum(out, self.batch.upper, out=out)
        if self.batch.joint is not None:
            at, parts = self.batch.joint
            out[at] = parts.projected(sums[at])
        return out

    def _advance(self, look: bool) -> None:
        """One iteration; on a ``look``, the residuals besides."""
        s, z, v = self.batch, self.z, self.v
        r = z.pull()
        r += s.rhs
        if len(v.value):
            r += s.back(v.pull())
        x = self.a(r)
        if s.coupled:
            x = s.meet(x, self.shares)
        old_z, old_v = z.value, v.value
        z.follow(relaxed := z.relaxed(x), self._allowed(relaxed))
        if len(v.value):
            sums = s.rows(x)
            v.follow(relaxed := v.relaxed(sums), self._clipped(relaxed))
        if look:
            apart = x - z.value
            z.off, z.ratio = (
                z.lines.largest(np.abs(apart)),
                balance(s, apart, z.each * (z.value - old_z)),
            )
            apart = sums - v.value if len(v.value) else v.value
            change = v.weight * v.lines.norm(v.value - old_v)
            v.off = v.lines.largest(np.abs(apart))
            v.ratio = quotient(s.typical * v.lines.norm(apart), change)

    def _reweigh(self) -> None:
        s = self.batch
        moved = self.z.reweigh(s.typical) | self.v.reweigh(s.typical)
        if moved.any():
            self.a = s.factored(self.z.weight, self.v.weight, self.a, moved)
            self.shares = s.shares(self.a, self.shares, moved)

    # --- answers and certificates

    def _ended(self, ready: Mask, tol: float | None, k: int, ends: dict[int, ProblemEnd]) -> Mask:
        """End the problems that are ``ready`` and have a good certificate, or all that are ready;
        their answers go to ``ends``."""
        x = self._repaired()
        gap, residual = self._certificate(x)
        near = ready & (residual > FEASIBLE) & (tol is None or gap <= tol)
        if near.any() and len(self.v.value):
            scaled = self._scaled(x)
            gaps, residuals = self._certificate(scaled)
            better = near & (residuals < residual)
            x = np.where(better[self.z.lines.problem_of], scaled, x)
            gap, residual = np.where(better, gaps, gap), np.where(better, residuals, residual)
        done = ready if tol is None else ready & (gap <= tol) & (residual <= FEASIBLE)
        layout = self.batch.layout
        first = layout.entries.start[np.cumsum(layout.cells) - layout.cells]
        for i in np.flatnonzero(done).tolist():
            ends[int(self.number[i])] = ProblemEnd([], float(gap[i]), float(residual[i]), k)
        for b in np.flatnonzero(done[layout.problem]).tolist():
            size = int(layout.cells[b] * layout.children[b])
            end = ends[int(self.number[layout.problem[b]])]
            end.blocks.append((int(layout.kind[b]), x[first[b] : first[b] + size]))
        return done

    def _keep(self, going: Mask) -> None:
        self.a = self.batch.kept(self.a, going)
        self.shares = None if self.shares is None else self.batch.kept(self.shares, going)
        self.batch, self.number = self.batch.some(going), self.number[going]
        self.z = self.z.some(self.batch.layout.entries, going)
        self.v = self.v.some(self.batch.layout.sums, going)

    def _repaired(self) -> Array:
        """The non-negative copies, each cell scaled so that its children sum to the parent
        exactly."""
        return self._summed(self.z.value)

    def _scaled(self, x: Array) -> Array:
        """Moved into the bounds of the sums by iterative scaling, and back to the parent. Where a
        parent has thousands of children, each cell is a thousandth of a person off, and each sum of
        hundreds of cells some tenths: a step for the scaling, as it adds no more than the copies
        disagree, and a thousand iterations for these."""
        s = self.batch
        overlap = np.maximum(s.back(s.size), 1.0)  # the rows that each variable is in
        for _ in range(_SCALINGS):
            sums = s.rows(x)
            factor = np.divide(self._clipped(sums), sums, out=np.ones_like(sums), where=sums > 0)
            x = self._summed(
                x * np.exp(s.back(s.size * np.log(np.maximum(factor, _LEAST))) / overlap)
            )
        return x

    def _summed(self, z: Array) -> Array:
        s = self.batch
        if not s.coupled:
            return z.copy()
        total = s.over_children(z)
        x = z * s.to_children(np.divide(s.parent, total, out=np.zeros_like(total), where=total > 0))
        if (lost := (total <= 0) & (s.parent > 0)).any():
            able = np.ones_like(z) if s.support is None else s.support
            share = np.divide(s.parent, s.over_children(able), out=np.zeros_like(total), where=lost)
            x = np.where(s.to_children(lost), able * s.to_children(share), x)
        return np.asarray(x)

    def _certificate(self, x: Array) -> tuple[Array, Array]:
        """The relative gap of each problem at ``x``, and its largest violation of a group bound or
        of a part's total."""
        s = self.batch
        sums = s.rows(x)
        above, below = sums - s.lower, s.upper - sums
        off = s.layout.sums.largest(np.maximum(-np.minimum(above, below), 0.0) * s.size)
        mu = self.v.multiplier
        if (
            s.joint is not None
        ):  # an equality for each part: one multiplier, of either sign, shared by its children
            at, parts = s.joint
            short = parts.sums(sums[at]) - parts.total
            off = np.maximum(off, np.abs(short).max() * s.size[at[0]])
            above[at], below[at] = parts.spread(short, np.inf), parts.spread(-short, np.inf)
            mu[at] = parts.spread(parts.sums(mu[at]), 0.0)
        return relative_gap(s, x, (above, below), (self.z.multiplier, mu)), off


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
            would."""
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
    other, up to a size."""
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
