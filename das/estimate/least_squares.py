"""The least-squares problem of one family: some siblings, given their parent's published counts."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.estimate.family import Family, NoisyAnswers
from das.model.post_processing import MANY
from das.model.query import Query
from das.model.solution import Certificate, Solution
from das.solve import FEASIBLE, ChildrenQP, Kinds, Partitions, grouped

Array = NDArray[np.float64]
#: Of some queries, answers that a later pass holds on to, ``(children, answers)``: NaN where a
#: child does not.
Targets = Sequence[tuple[Query, Array]]
#: One query on the variables at hand: the answer of each, ``(m,)``; values ``(children, answers)``;
#: variance ``(children,)``.
Indexed = tuple[NDArray[np.intp], NDArray[Any], Array]

#: What is asked of the solver, one problem after the other, each answered by its solution; and the
#: counts in the end.
Asking = Generator[ChildrenQP, Solution, Array]

#: Noise of less variance is no noise: an integer answer is then right but once in a hundred.
#: Weighing it more would change nothing but the conditioning (at rho = 1000 variances of 1e-21
#: occur).
LEAST_VARIANCE = 0.01
#: Beyond so many entries (kinds of units x cells^2) units that were measured differently are all
#: weighed as the one that was measured least is, query by query: what that decides is how the
#: parent's difference from their sum is shared out.
_LARGE = 1 << 25
#: Of more atoms than this, those that nothing in a pass tells apart are held to even shares, with a
#: weight of ``_EVEN`` times that of the pass's weakest query.
FEW = 256
_EVEN = 1e-3


@dataclass
class Rows:
    """Sums of variables and their bounds: arrays of ``(rows, m)``, and twice of ``(children,
    rows)``, to be joined."""

    sums: list[NDArray[Any]] = field(default_factory=list)
    lower: list[NDArray[Any]] = field(default_factory=list)
    upper: list[NDArray[Any]] = field(default_factory=list)

    def add(self, sums: NDArray[Any], lower: NDArray[Any], upper: NDArray[Any]) -> None:
        self.sums.append(sums)
        self.lower.append(lower)
        self.upper.append(upper)


@dataclass
class LeastSquares:
    """The problem of one family, solved in passes that each hold on to the answers of the ones
    before, within ``tolerance``. ``certificate`` grows with each solve. ``equations`` are the normal
    matrix and the right-hand side of the last pass, where it was over all cells.

    Nothing is solved here: what is to be is asked for, so that many families can be solved together
    (:mod:`das.estimate.batch`)."""

    family: Family
    tolerance: float = 0.1
    certificate: Certificate = field(default_factory=Certificate)
    equations: tuple[Array | Partitions | Kinds, Array] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.cell, self.parent, self.bounds = (
            self.family.cell,
            self.family.parent,
            self.family.bounds,
        )

    def passes(self, passes: Sequence[Sequence[str]]) -> Asking:
        """The counts after the last of the passes. Each pass names its queries."""
        carried: list[tuple[Query, Array]] = []
        for names in passes:
            answers = [self.family.answers(n) for n in names]
            last = names is passes[-1]
            if not last and self.bounds.total is not None and tuple(names) == ("total",):
                continue  # known exactly: nothing to estimate
            x = yield from self.one_pass(answers, carried)
            if last:
                return x
            carried += [
                (a.query, grouped(x, a.query.index[self.cell], a.query.answers)) for a in answers
            ]
        raise ValueError("there is no pass")

    def one_pass(self, answers: Sequence[NoisyAnswers], carried: Targets) -> Asking:
        """One pass over the cells. Its queries, the earlier ones and the dwelling groups may not
        separate all cells. Then the pass is over the sets of cells that they separate (*atoms*). An
        atom's count is shared among its cells as the parent's is; at the root, evenly. This changes
        none of the answers."""
        atom, first = self._atoms([a.query for a in answers] + [q for q, _ in carried])
        one_cell = self.cell[first]
        group = self.bounds.group[one_cell]
        parent = None if self.parent is None else np.bincount(atom, weights=self.parent)
        measured: list[Indexed] = [(a.query.index[one_cell], a.values, a.variance) for a in answers]
        if len(group) > FEW and not any(len(np.unique(i)) == len(group) for i, _, _ in measured):
            measured.append(self._even(measured, parent))
        equations = normal_equations(measured)
        self.equations = equations if len(first) == len(self.cell) else None
        y = yield from self.solve(*equations, parent, group, self.rows(one_cell, carried))
        if len(first) == len(self.cell):
            return y[:, atom]
        share = np.ones(len(self.cell)) if self.parent is None else self.parent
        return y[:, atom] * (share / np.bincount(atom, weights=share)[atom])

    def _atoms(self, queries: Sequence[Query]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The atom of each cell, and the first cell of each atom; in the order of the cells where
        all are apart."""
        if any(q.answers == len(q.index) for q in queries):
            return np.arange(len(self.cell)), np.arange(len(self.cell))
        key = self.bounds.group[self.cell].astype(np.int64)
        for q in queries:
            key = np.unique(key * q.answers + q.index[self.cell], return_inverse=True)[1]
        _, first, atom = np.unique(key, return_index=True, return_inverse=True)
        if len(first) == len(self.cell):
            first = atom = np.arange(len(self.cell))
        return atom, first

    def rows(self, cell: NDArray[np.int64], carried: Targets) -> Rows:
        """What can bind of the bounds, and the answers to keep, over variables that stand for the
        cells ``cell``. Without the reach of subsets and joint totals, which :meth:`solve` sees
        to."""
        rows, group = Rows(), self.bounds.group[cell]
        held = None
        if self.parent is not None:
            held = np.bincount(
                self.bounds.group[self.cell], weights=self.parent, minlength=self.bounds.groups
            )
        for g in np.unique(group):
            low, high = self.bounds.lower[:, g], self.bounds.upper[:, g]
            binding = np.zeros(0, bool) if held is None else (high > 0) & (high < held[g])
            if (low > 0).any() or held is None or binding.any():
                rows.add((group == g)[None, :], low[:, None], high[:, None])
        if self.bounds.total is not None:
            total = self.bounds.total[:, None]
            rows.add(np.ones((1, len(group))), total, total)
        for query, target in carried:
            at, position = np.unique(query.index[cell], return_inverse=True)
            kept, free = target[:, at], np.isnan(target[:, at])
            rows.add(
                position[None, :] == np.arange(len(at))[:, None],
                np.where(free, -np.inf, kept - self.tolerance),
                np.where(free, np.inf, kept + self.tolerance),
            )
        return rows

    @staticmethod
    def _even(measured: Sequence[Indexed], parent: NDArray[Any] | None) -> Indexed:
        """What many atoms that nothing measures are taken for, with next to no weight: an even
        share. It makes one answer of the many that the measurements leave open, and moves these by
        a thousandth of a few persons."""
        variance = np.max([np.where(np.isfinite(v), v, 0.0) for _, _, v in measured], axis=0)
        units, atoms = len(variance), len(measured[0][0])
        if parent is None:
            share = np.mean([v.sum(axis=1) for _, v, _ in measured], axis=0)[:, None] / atoms
            even = np.broadcast_to(np.maximum(share, 0.0), (units, atoms))
        else:
            even = np.broadcast_to(parent / units, (units, atoms)).astype(float)
        return np.arange(atoms), even, variance / _EVEN

    def solve(
        self,
        gram: Array | Partitions | Kinds,
        rhs: Array,
        parent: NDArray[Any] | None,
        group: NDArray[np.intp],
        rows: Rows,
    ) -> Asking:
        """The solution over variables with the dwelling groups ``group``, within reach.

        There can be hundreds of subsets, and hardly any binds. So rows are added only for subsets
        that the solution without them exceeds. The last solution is optimal without the rows left
        out, and meets them; hence it is optimal."""
        support = self.bounds.upper[:, group] > 0
        joint = self.bounds.joint
        exceeded = np.zeros(0, dtype=np.intp)
        while True:
            every = self._with_reach(exceeded, group, rows)
            some = bool(every.sums)
            solution = yield ChildrenQP(
                gram,
                rhs,
                None if parent is None else parent.astype(float),
                groups=np.concatenate(every.sums).astype(float) if some else None,
                lower=np.concatenate(every.lower, axis=1).astype(float) if some else None,
                upper=np.concatenate(every.upper, axis=1).astype(float) if some else None,
                support=None if support.all() else support,
                parts=None if joint is None else joint.part,
                totals=None if joint is None else joint.total,
            )
            more = self._exceeded(solution.x.astype(float), group, exceeded)
            if not len(more):
                self.certificate = self.certificate.add(solution)
                return solution.x.astype(float)
            exceeded = np.concatenate([exceeded, more])

    def _with_reach(self, subset: NDArray[np.intp], group: NDArray[np.intp], rows: Rows) -> Rows:
        """Rows and bounds with those of some subsets of the dwelling groups besides."""
        if not len(subset) or self.bounds.reach is None:
            return rows
        free = np.full((len(self.bounds.lower), len(subset)), -np.inf)
        member = (subset[:, None] >> group[None, :]) & 1
        return Rows(
            [*rows.sums, member], [*rows.lower, free], [*rows.upper, self.bounds.reach[:, subset]]
        )

    def _exceeded(
        self, x: Array, group: NDArray[np.intp], known: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """The subsets, but those ``known``, that some child's ``x`` exceeds most, and by more than
        the solver may."""
        if self.bounds.reach is None:
            return np.zeros(0, dtype=np.intp)
        over = self.bounds.excess(grouped(x, group, self.bounds.groups))
        over[:, known] = -np.inf
        return np.unique(over.argmax(axis=1)[over.max(axis=1) > FEASIBLE])


def normal_equations(measured: Sequence[Indexed]) -> tuple[Array | Partitions | Kinds, Array]:
    r"""``G_c = sum_q Q'Q / Var_qc`` and ``b_c = sum_q Q'm_qc / Var_qc`` on some cells.

    A variance is infinite where a unit was not measured. ``G`` is ``(m, m)`` if all units share
    their variances, ``(units, m, m)`` if none do, else of as many kinds as there are;
    :math:`(Q'Q)_{kl} = 1` exactly where k and l have the same answer. Of many cells, and units
    alike, it is the sum of partitions and no matrix."""
    units, cells = len(measured[0][1]), len(measured[0][0])
    weights = np.array([1.0 / np.maximum(v, LEAST_VARIANCE) for _, _, v in measured])
    kinds, kind = _kinds(weights)
    least = weights.min(axis=1, keepdims=True)
    if kinds.shape[1] * cells**2 > _LARGE and least.any():
        weights = np.broadcast_to(least, weights.shape)
        kinds, kind = _kinds(weights)
    rhs = np.zeros((units, cells))
    for (index, values, _), weight in zip(measured, weights, strict=True):
        rhs += weight[:, None] * values[:, index]
    if kinds.shape[1] == units > 1:
        kinds = weights
    if kinds.shape[1] == 1 and cells > MANY:
        partitions = Partitions.from_indices(
            [i for i, _, _ in measured], kinds[:, 0].tolist(), cells
        )
        if partitions is not None:
            return partitions, rhs
    gram = np.zeros((kinds.shape[1], cells, cells))
    for (index, _, _), weight in zip(measured, kinds, strict=True):
        gram += weight[:, None, None] * (index[:, None] == index[None, :])
    if len(gram) == 1:
        return gram[0], rhs
    return Kinds(gram, kind) if len(gram) < units else gram, rhs


def _kinds(weights: Array) -> tuple[Array, NDArray[np.intp]]:
    """The distinct columns of ``weights`` ``(queries, units)``, and which of them each unit has."""
    if (weights == weights[:, :1]).all():
        return weights[:, :1], np.zeros(weights.shape[1], dtype=np.intp)
    kinds, kind = np.unique(weights, axis=1, return_inverse=True)
    return kinds, kind.ravel()
