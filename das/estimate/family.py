"""The least-squares problem of one family: some siblings, given their parent's published counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.model.constraint import Bounds
from das.model.query import Query
from das.model.solution import Certificate
from das.solve import FEASIBLE, Partitions, children_qp

Array = NDArray[np.float64]
Rows = NDArray[Any]

#: Noise of less variance is no noise: an integer answer is then right but once in a hundred. Weighing it
#: more would change nothing but the conditioning (at rho = 1000 variances of 1e-21 occur).
LEAST_VARIANCE = 0.01
#: Of more cells the normal matrix is not formed: it would be more than thirty megabytes, several times over.
MANY = 2048
#: Of more atoms than this, those that nothing in a pass tells apart are held to even shares, with a weight of
#: ``_EVEN`` times that of the pass's weakest query.
FEW = 256
_EVEN = 1e-3


@dataclass(frozen=True)
class Method:
    """How to estimate a level: its queries in passes, and the tolerance that carries answers over."""

    passes: tuple[tuple[str, ...], ...]
    tolerance: float = 0.1
    accuracy: float = 1e-6


@dataclass(frozen=True)
class NoisyAnswers:
    """Noisy answers of one query for a few units: values ``(units, answers)``, variance ``(units,)``."""

    query: Query
    values: NDArray[np.int64]
    variance: Array

    def rows(self, a: int, b: int) -> NoisyAnswers:
        return NoisyAnswers(self.query, self.values[a:b], self.variance[a:b])

    def some(self, keep: NDArray[np.bool_]) -> NoisyAnswers:
        return NoisyAnswers(self.query, self.values[keep], self.variance[keep])


@dataclass
class Family:
    """One parent's problem. ``parent`` is ``None`` at the root."""

    cell: NDArray[np.int64]
    parent: NDArray[np.int64] | None
    bounds: Bounds
    measured: Mapping[str, NoisyAnswers]
    certificate: Certificate = field(default_factory=Certificate)

    def solve(self, method: Method) -> tuple[Array, Certificate]:
        x = np.zeros((len(self.bounds.lower), len(self.cell)))
        if not len(self.cell):
            return x, self.certificate
        able = self._able()
        if not able.any():  # the root of nobody
            return x, self.certificate
        if self.parent is not None and able.sum() == 1:
            x[able] = self.parent
            return x, self.certificate
        inner = self._restricted(able, self.bounds.some(able))
        x[able] = inner._passes(method)
        return x, inner.certificate

    def _restricted(self, able: NDArray[np.bool_], bounds: Bounds) -> Family:
        """The same problem for some of the children."""
        return Family(self.cell, self.parent, bounds, {q: a.some(able) for q, a in self.measured.items()})

    def _able(self) -> NDArray[np.bool_]:
        """Children that may hold somebody of the parent's."""
        able: NDArray[np.bool_] = np.any(self.bounds.upper[:, np.unique(self.bounds.group[self.cell])] > 0, axis=1)
        if self.bounds.joint is not None:
            able &= self.bounds.joint.total[self.bounds.joint.part] > 0
        return able if self.bounds.total is None else able & (self.bounds.total > 0)

    def _passes(self, method: Method) -> Array:
        carried: list[tuple[Query, Array]] = []
        for names in method.passes:
            answers = [self.measured[n] for n in names]
            last = names is method.passes[-1]
            if not last and self.bounds.total is not None and names == ("total",):
                continue  # known exactly: nothing to estimate
            x = self._solve(answers, carried, method)
            carried += [(a.query, sum_to(x, a.query.index[self.cell], a.query.answers)) for a in answers]
        return x

    # --- one pass ------------------------------------------------------------------------------------------

    def _solve(self, answers: Sequence[NoisyAnswers], carried: list[tuple[Query, Array]], method: Method) -> Array:
        """One pass: over the cells or, where its queries, the earlier ones and the dwelling groups do not tell all cells
        apart, over those that they do (*atoms*). An atom's count is then shared out as the parent's is, at the root
        evenly, which changes none of its answers."""
        atom, first = self._atoms([a.query for a in answers] + [q for q, _ in carried])
        one_cell = self.cell[first]
        group = self.bounds.group[one_cell]
        parent = None if self.parent is None else np.bincount(atom, weights=self.parent)
        rows, lower, upper = self._group_rows(group)
        for query, target in carried:
            at, position = np.unique(query.index[one_cell], return_inverse=True)
            rows.append(position[None, :] == np.arange(len(at))[:, None])
            lower.append(target[:, at] - method.tolerance)
            upper.append(target[:, at] + method.tolerance)
        index = [a.query.index[one_cell] for a in answers]
        y = self._qp(answers, index, parent, group, rows, lower, upper, method)
        if len(first) == len(self.cell):
            return y[:, atom]
        share = np.ones(len(self.cell)) if self.parent is None else self.parent
        return y[:, atom] * (share / np.bincount(atom, weights=share)[atom])

    def _atoms(self, queries: Sequence[Query]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The atom of each cell, and the first cell of each atom; in the order of the cells where all are apart."""
        key = self.bounds.group[self.cell].astype(np.int64)
        for q in queries:
            key = np.unique(key * q.answers + q.index[self.cell], return_inverse=True)[1]
        _, first, atom = np.unique(key, return_index=True, return_inverse=True)
        if len(first) == len(self.cell):
            first = atom = np.arange(len(self.cell))
        return atom, first

    def _group_rows(self, group: NDArray[np.intp]) -> tuple[list[Rows], list[Rows], list[Rows]]:
        """Rows, lower and upper bounds that can bind, over variables with the dwelling groups ``group``. Without
        the reach of subsets and joint totals, which :meth:`_least_squares` sees to."""
        rows: list[Rows] = []
        lower: list[Rows] = []
        upper: list[Rows] = []
        present = np.unique(group)
        held = None
        if self.parent is not None:
            held = np.bincount(self.bounds.group[self.cell], weights=self.parent, minlength=self.bounds.groups)
        for g in present:
            low, high = self.bounds.lower[:, g], self.bounds.upper[:, g]
            binding = np.zeros(0, bool) if held is None else (high > 0) & (high < held[g])
            if (low > 0).any() or held is None or binding.any():
                rows.append((group == g)[None, :])
                lower.append(low[:, None])
                upper.append(high[:, None])
        if self.bounds.total is not None:
            rows.append(np.ones((1, len(group))))
            lower.append(self.bounds.total[:, None])
            upper.append(self.bounds.total[:, None])
        return rows, lower, upper

    def _qp(
        self,
        answers: Sequence[NoisyAnswers],
        index: Sequence[NDArray[np.intp]],
        parent: NDArray[Any] | None,
        group: NDArray[np.intp],
        rows: list[Rows],
        lower: list[Rows],
        upper: list[Rows],
        method: Method,
    ) -> Array:
        measured: list[tuple[NDArray[np.intp], NDArray[Any], Array]] = [
            (i, a.values, a.variance) for i, a in zip(index, answers, strict=True)
        ]
        if len(group) > FEW and not any(len(np.unique(i)) == len(group) for i in index):
            measured.append(self._even(measured, parent))
        gram, rhs = normal_equations(measured)
        return self._least_squares(gram, rhs, parent, group, rows, lower, upper, method)

    def _even(
        self, measured: Sequence[tuple[NDArray[np.intp], NDArray[Any], Array]], parent: NDArray[Any] | None
    ) -> tuple[NDArray[np.intp], NDArray[Any], Array]:
        """What many atoms that nothing measures are taken for, with next to no weight: an even share. It makes one
        answer of the many that the measurements leave open, and moves these by a thousandth of a few persons."""
        variance = np.max([np.where(np.isfinite(v), v, 0.0) for _, _, v in measured], axis=0)
        units, atoms = len(variance), len(measured[0][0])
        if parent is None:
            share = np.mean([v.sum(axis=1) for _, v, _ in measured], axis=0)[:, None] / atoms
            even = np.broadcast_to(np.maximum(share, 0.0), (units, atoms))
        else:
            even = np.broadcast_to(parent / units, (units, atoms)).astype(float)
        return np.arange(atoms), even, variance / _EVEN

    def _least_squares(
        self,
        gram: Array | Partitions,
        rhs: Array,
        parent: NDArray[Any] | None,
        group: NDArray[np.intp],
        rows: list[Rows],
        lower: list[Rows],
        upper: list[Rows],
        method: Method,
    ) -> Array:
        """The solution over variables with the dwelling groups ``group``, within reach.

        There may be hundreds of subsets, of which hardly any binds: rows are added for those alone that the solution
        without them exceeds. The last solution is optimal without the rows left out and meets them, hence optimal.
        """
        support = self.bounds.upper[:, group] > 0
        joint = self.bounds.joint
        exceeded = np.zeros(0, dtype=np.intp)
        while True:
            at, low, high = self._with_reach(exceeded, group, rows, lower, upper)
            solution = children_qp(
                gram,
                rhs,
                None if parent is None else parent.astype(float),
                groups=np.concatenate(at).astype(float) if at else None,
                lower=np.concatenate(low, axis=1).astype(float) if at else None,
                upper=np.concatenate(high, axis=1).astype(float) if at else None,
                support=None if support.all() else support,
                parts=None if joint is None else joint.part,
                totals=None if joint is None else joint.total,
                tol=method.accuracy,
            )
            more = self._exceeded(solution.x.astype(float), group, exceeded)
            if not len(more):
                self.certificate = self.certificate.add(solution)
                return solution.x.astype(float)
            exceeded = np.concatenate([exceeded, more])

    def _with_reach(
        self, subset: NDArray[np.intp], group: NDArray[np.intp], rows: list[Rows], lower: list[Rows], upper: list[Rows]
    ) -> tuple[list[Rows], list[Rows], list[Rows]]:
        """Rows and bounds with those of some subsets of the dwelling groups besides."""
        if not len(subset) or self.bounds.reach is None:
            return rows, lower, upper
        free = np.full((len(self.bounds.lower), len(subset)), -np.inf)
        member = (subset[:, None] >> group[None, :]) & 1
        return [*rows, member], [*lower, free], [*upper, self.bounds.reach[:, subset]]

    def _exceeded(self, x: Array, group: NDArray[np.intp], known: NDArray[np.intp]) -> NDArray[np.intp]:
        """The subsets, but those ``known``, that some child's ``x`` exceeds most, and by more than the solver may."""
        if self.bounds.reach is None:
            return np.zeros(0, dtype=np.intp)
        over = self.bounds.excess(sum_to(x, group, self.bounds.groups))
        over[:, known] = -np.inf
        return np.unique(over.argmax(axis=1)[over.max(axis=1) > FEASIBLE])


def normal_equations(
    measured: Sequence[tuple[NDArray[np.intp], NDArray[Any], Array]],
) -> tuple[Array | Partitions, Array]:
    r"""``G_c = sum_q Q'Q / Var_qc`` and ``b_c = sum_q Q'm_qc / Var_qc`` on some cells.

    Each query is ``(index, values, variance)``: the answer of each cell ``(m,)``, values ``(units, answers)``,
    variance ``(units,)`` (infinite: not measured). ``G`` is ``(m, m)`` if all units share their variances,
    else ``(units, m, m)``; :math:`(Q'Q)_{kl} = 1` exactly where k and l have the same answer. Of many cells it is
    the sum of partitions and no matrix.
    """
    units, cells = len(measured[0][1]), len(measured[0][0])
    shared = all((v == v[0]).all() for _, _, v in measured)
    weights = [1.0 / np.maximum(v, LEAST_VARIANCE) for _, _, v in measured]
    rhs = np.zeros((units, cells))
    for (index, values, _), weight in zip(measured, weights, strict=True):
        rhs += weight[:, None] * values[:, index]
    if shared and cells > MANY:
        partitions = Partitions.of([i for i, _, _ in measured], [float(w[0]) for w in weights], cells)
        if partitions is not None:
            return partitions, rhs
    gram = np.zeros((cells, cells) if shared else (units, cells, cells))
    for (index, _, _), weight in zip(measured, weights, strict=True):
        same = index[:, None] == index[None, :]
        gram += weight[0] * same if shared else weight[:, None, None] * same
    return gram, rhs


def sum_to(x: Array, index: NDArray[np.intp], answers: int) -> Array:
    out = np.zeros((answers, len(x)))
    np.add.at(out, index, x.T)
    return out.T
