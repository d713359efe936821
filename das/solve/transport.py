r"""Many small transportation problems with separable squares, all at once.

Each block has m columns with totals p, and rows with sums s and one weight w each. It asks for

.. math:: \min_{x \ge 0} \sum_r \tfrac12 w_r \|x_r - y_r\|^2
          \quad\text{with}\quad \sum_k x_{rk} = s_r, \quad \sum_r x_{rk} = p_k .

With multipliers :math:`\mu` of the columns alone, every row is by itself: the point of its simplex
that is closest to :math:`z_r = y_r + \mu/w_r`, which sorting finds (Held, Wolfe and Crowder 1974).
So the dual has m unknowns a block, however many rows there are:

.. math:: D(\mu) = \mu'p + \sum_r \min_{x_r}\bigl(\tfrac12 w_r \|x_r - y_r\|^2 - \mu'x_r\bigr), \qquad
          \nabla D = p - \sum_r x_r .

It is concave and piecewise quadratic. With the k positive places A of a row, its second derivatives
are minus :math:`\sum_r \tfrac1{w_r}(\mathrm{diag}(1_A) - 1_A 1_A'/k)`. Newton's method with these
and a line search ends after a few steps, exactly except for rounding. Where rows have one positive
place each, D has no curvature, so some is added: more after a step that came out short, less after
a full one. Adding a constant to :math:`\mu` changes nothing; that direction is left out.

*Certificate.* The rows hold exactly. So the value of x is above the dual's by
:math:`-\mu'(p - \sum_r x_r)` alone. Where steps do not end, the block says so and is solved
elsewhere.

All blocks of one m are computed together. No sum goes across blocks, and blocks of different m are
computed apart, so no answer depends on the others, to the last bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Newton steps, and halvings of one, at most.
_STEPS, _HALVINGS = 200, 30
#: What is left of a column's total, relative to the largest one.
_EXACT = 1e-11
#: The part of the promised gain that a step must bring.
_GAIN = 1e-4
#: What is added to the curvature, relative to that of one variable: at first, at least and at most;
#: and the length of a step from which on it is less.
_FIRST, _LEAST, _MOST, _GOOD = 1e-3, 1e-12, 1e3, 0.5


@dataclass(frozen=True, eq=False)
class Transports:
    """Blocks of the same number of columns. ``target`` ``(rows, m)``, ``weight`` and ``sums``
    ``(rows,)``: the rows of all blocks, those of block b from ``starts[b]`` on, at least one each;
    ``totals`` ``(blocks, m)``."""

    target: Array
    weight: Array
    sums: Array
    starts: Ints
    totals: Array

    @property
    def block(self) -> Ints:
        """The block of each row, ``(rows,)``."""
        ends = np.append(self.starts[1:], len(self.target))
        return np.repeat(np.arange(len(self.starts)), ends - self.starts)

    def part(self, blocks: NDArray[np.bool_]) -> Transports:
        """Some of the blocks."""
        rows = blocks[self.block]
        size = np.diff(np.append(self.starts, len(self.target)))[blocks]
        starts = np.concatenate([[0], np.cumsum(size)[:-1]]).astype(np.int64)
        return Transports(
            self.target[rows], self.weight[rows], self.sums[rows], starts, self.totals[blocks]
        )

    def over_rows(self, values: Array) -> Array:
        """Sums over the rows of each block, ``(rows, ...) -> (blocks, ...)``."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))

    def rows_at(self, mu: Array) -> Array:
        """The best x of each row at these multipliers, ``(rows, m)``."""
        z = self.target + mu[self.block] / self.weight[:, None]
        down = -np.sort(-z, axis=1)
        places = np.arange(1, z.shape[1] + 1)
        level = (np.cumsum(down, axis=1) - self.sums[:, None]) / places
        last = np.maximum((down > level).sum(axis=1), 1) - 1
        return np.maximum(z - np.take_along_axis(level, last[:, None], axis=1), 0.0)

    def dual(self, mu: Array, x: Array) -> Array:
        """D of each block, with the ``x`` that belongs to ``mu``."""
        each = 0.5 * self.weight[:, None] * (x - self.target) ** 2 - mu[self.block] * x
        return np.asarray((mu * self.totals).sum(axis=1) + self.over_rows(each.sum(axis=1)))

    def curvature(self, x: Array, added: Array) -> Array:
        """Minus the second derivatives, ``(blocks, m, m)``, with what is ``added`` ``(blocks,)``
        relative to one variable's."""
        on = (x > 0).astype(float)
        many = np.maximum(on.sum(axis=1), 1)[:, None, None]
        rows = on[:, :, None] * np.eye(x.shape[1]) - on[:, :, None] * on[:, None, :] / many
        h = self.over_rows(rows / self.weight[:, None, None])
        one = np.maximum.reduceat(1 / self.weight, self.starts)[:, None, None]
        m = x.shape[1]
        return np.asarray(h + one * (np.ones((m, m)) + added[:, None, None] * np.eye(m)))


def transported(transports: Transports) -> tuple[Array, Array, NDArray[np.bool_]]:
    """The solution ``(rows, m)``; of each block the gap of its value, and whether it was solved."""
    mu, x = np.zeros_like(transports.totals), np.empty_like(transports.target)
    gap, solved = np.zeros(len(transports.totals)), np.zeros(len(transports.totals), dtype=bool)
    left = np.ones(len(transports.totals), dtype=bool)
    added = np.full(len(transports.totals), _FIRST)
    for _ in range(_STEPS):
        some = transports.part(left)
        here = some.rows_at(mu[left])
        missing = some.totals - some.over_rows(here)
        x[left[transports.block]] = here
        gap[left] = np.abs((mu[left] * missing).sum(axis=1))
        done = np.abs(missing).max(axis=1) <= _EXACT * (1 + some.totals.max(axis=1))
        solved[left] = done
        if done.all():
            return x, gap, solved
        left[left] = ~done
        rest = some.part(~done)
        mu[left], added[left] = _stepped(
            rest, mu[left], here[~done[some.block]], missing[~done], added[left]
        )
    return x, gap, solved


def _stepped(
    transports: Transports, mu: Array, x: Array, missing: Array, added: Array
) -> tuple[Array, Array]:
    """The multipliers after a step, as far as it brings what its slope promises; and what is added
    to the curvature next."""
    step = np.linalg.solve(transports.curvature(x, added), missing[:, :, None])[:, :, 0]
    slope, before = (step * missing).sum(axis=1), transports.dual(mu, x)
    length, open_ = np.ones(len(mu)), np.ones(len(mu), dtype=bool)
    for _ in range(_HALVINGS):
        there = mu + length[:, None] * step
        now = transports.dual(there, transports.rows_at(there))
        noise = 1e-13 * (1 + np.abs(before))
        open_ = now < before + _GAIN * length * slope - noise
        if not open_.any():
            break
        length = np.where(open_, length / 2, length)
    length = np.where(open_, 0.0, length)  # no length helped: as it was
    more = np.where(length >= _GOOD, 0.1, np.where(length > 0.1, 1.0, 10.0))
    return mu + length[:, None] * step, np.clip(added * more, _LEAST, _MOST)
