"""The iteration of :mod:`das.solve.children`: alternating directions with copies, many problems at
once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from das.solve.certificate import balance, quotient, relative_gap
from das.solve.dual_problem import FEASIBLE
from das.solve.layout import Array, Mask, Segments
from das.solve.problem import CheckedQP, ProblemBatch

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
        one moved.
        """
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
    they are.
    """

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
    # --------------------------------------------------------------------------

    def _ended(self, ready: Mask, tol: float | None, k: int, ends: dict[int, ProblemEnd]) -> Mask:
        """End the problems that are ``ready`` and have a good certificate, or all that are ready;
        their answers go to ``ends``.
        """
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
        exactly.
        """
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
        of a part's total.
        """
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
