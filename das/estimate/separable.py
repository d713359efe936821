"""Passes whose variables are each measured by themselves: every group that a pass splits is a small
problem of its own (:mod:`das.solve.transport`).

The last pass of persons is one. It knows how many persons of a class each child has, and how many
of each single year of age the parent has. A child has few of its parent's classes, so only the pairs
of a child and a variable that can be positive enter: at blocks 7 % of all. The groups of all
families of a task are solved together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.model.solution import Solution, Status
from das.solve.transport import Transports, transported

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: The most variables of a group: the multipliers of each are one system of equations.
WIDEST = 32


@dataclass(frozen=True, eq=False)
class SeparableFamily(Frozen):
    """Children with the sums ``known`` ``(children, groups)``, and the ``group`` of each variable.
    ``parent`` ``(variables,)`` has its counts, ``weight`` ``(children,)`` that of each child's
    measurements, and ``rhs`` ``(children, variables)`` weight times measurement."""

    known: Ints
    group: Ints
    parent: Ints
    weight: Floats
    rhs: Floats

    @staticmethod
    def if_separable(
        known: Ints,
        group: Ints,
        parent: Ints | None,
        index: Sequence[Ints],
        weight: Floats,
        rhs: Floats,
    ) -> SeparableFamily | None:
        """The family, if each variable has an answer of its own to each query, each child a weight,
        and no group too many variables."""
        if parent is None or not len(group) or any(len(i) != i.max() + 1 for i in index):
            return None
        total = weight.sum(axis=0)
        if not (total > 0).all() or np.bincount(group).max() > WIDEST:
            return None
        return SeparableFamily(known, group, parent, total, rhs)

    def problems(self) -> Mapping[int, _Problems]:
        """Its groups, by their number of variables."""
        order = np.argsort(self.group, kind="stable")
        size = np.bincount(self.group, minlength=self.known.shape[1])
        starts = np.cumsum(size) - size
        out = {}
        for m in np.unique(size[size > 0]).tolist():
            groups = np.flatnonzero(size == m)
            variable = order[starts[groups][:, None] + np.arange(m)]
            block, child = np.nonzero(self.known[:, groups].T > 0)
            at = child[:, None], variable[block]
            problem = Transports(
                self.rhs[at] / self.weight[child][:, None],
                self.weight[child],
                self.known[child, groups[block]].astype(float),
                np.searchsorted(block, np.arange(len(groups))).astype(np.int64),
                self.parent[variable].astype(float),
            )
            out[m] = _Problems(problem, at)
        return out

    def solution(self, x: Floats, gap: float) -> Solution:
        """With the gap relative to what :mod:`das.solve.dual` takes: the value of x, or how far
        it is from the measurements, if that is less."""
        able = self.known[:, self.group] > 0
        weight = self.weight[:, None]
        value = abs(float((0.5 * weight * x * x - self.rhs * x)[able].sum()))
        off = float((0.5 * weight * (x - self.rhs / weight) ** 2)[able].sum())
        residual = float(np.abs(x.sum(axis=0) - self.parent).max())
        relative = gap / max(1.0, min(value, off))
        return Solution(x, Status.OPTIMAL, relative, residual, 0, 0.0)


@dataclass(frozen=True, eq=False)
class _Problems(Frozen):
    """Groups of one number of variables, and where their rows are in the family."""

    problem: Transports
    at: tuple[Ints, Ints]


def solutions(families: Mapping[int, SeparableFamily], tolerance: float) -> Mapping[int, Solution]:
    """The solution of each family, by its number; of those left out another method is needed."""
    by_size = defaultdict[int, list[tuple[int, _Problems]]](list)
    for number, family in families.items():
        for m, problems in family.problems().items():
            by_size[m].append((number, problems))
    x = {n: np.zeros(f.rhs.shape) for n, f in families.items()}
    gap, failed = dict.fromkeys(families, 0.0), set[int]()
    for members in by_size.values():
        found, gaps, solved = transported(joined([p.problem for _, p in members]))
        row = block = 0
        for number, p in members:
            rows, blocks = len(p.problem.target), len(p.problem.totals)
            x[number][p.at] = found[row : row + rows]
            gap[number] += float(gaps[block : block + blocks].sum())
            if not solved[block : block + blocks].all():
                failed.add(number)
            row, block = row + rows, block + blocks
    out = {n: f.solution(x[n], gap[n]) for n, f in families.items() if n not in failed}
    return {n: s for n, s in out.items() if s.gap <= tolerance}


def joined(parts: Sequence[Transports]) -> Transports:
    """All blocks of the parts, in their order."""
    first = np.cumsum([0, *(len(p.target) for p in parts[:-1])])
    return Transports(
        np.concatenate([p.target for p in parts]),
        np.concatenate([p.weight for p in parts]),
        np.concatenate([p.sums for p in parts]),
        np.concatenate([p.starts + at for p, at in zip(parts, first, strict=True)]),
        np.concatenate([p.totals for p in parts]),
    )
