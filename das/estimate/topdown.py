r"""Top-down estimation: the production passes of 2020.

From the root down, the children of each parent are estimated together by weighted least squares under
the constraints, given the parent's published integers :math:`p`. A level's queries come in passes. Pass
:math:`i` solves

.. math:: \min_{x \ge 0} \sum_{q \in \text{pass } i} \sum_c \frac{1}{\mathrm{Var}_{qc}} \|Q_q x_c - m_{qc}\|^2

subject to :math:`\sum_c x_c = p`, the bounds of each child, and for each query of an earlier pass
:math:`|Q x_c - \hat m_{qc}| \le \tau`, with :math:`\hat m` that pass's answer. The Bureau finds the
smallest feasible :math:`\tau` by a linear program and adds 0.1. Here no program is needed: the earlier
pass's own solution meets all constraints with :math:`\tau = 0`, so :math:`\tau = 0.1`.

Cells where the parent has nobody are left out; a child that may hold nobody, too; an only child is its
parent. A pass whose queries only distinguish dwelling groups (the pass of totals) is solved on the
groups: given group sums :math:`y_{cg}`, :math:`x_{ck} = y_{cg}\,p_k / p_g` is feasible with equal answers.

Source: the 2020 redistricting production code and its certificates; Abowd et al. 2022, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.model.constraint import Bounds
from das.model.estimate import Estimate
from das.model.histogram import Histogram
from das.model.measurement import Measurement, MeasurementSource
from das.model.query import Query
from das.model.schema import Schema
from das.model.solution import Certificate
from das.solve import children_qp

Array = NDArray[np.float64]
Rows = NDArray[Any]

#: Noise of less variance is no noise: an integer answer is then right but once in a hundred. Weighing it
#: more would change nothing but the conditioning (at rho = 1000 variances of 1e-21 occur).
LEAST_VARIANCE = 0.01


@dataclass(frozen=True)
class Method:
    """How to estimate a level: its queries in passes, and the tolerance that carries answers over."""

    passes: tuple[tuple[str, ...], ...]
    tolerance: float = 0.1
    accuracy: float = 1e-6


def estimate_children(
    source: MeasurementSource,
    level: str,
    schema: Schema,
    method: Method,
    parents: Histogram,
    starts: NDArray[np.int64],
    bounds: Bounds,
) -> list[Estimate]:
    """The families of a batch: parent ``i`` of ``parents`` has the children ``starts[i]:starts[i+1]`` of ``level``.

    ``bounds`` covers exactly those children, ``starts[0]:starts[-1]``.
    """
    measured = _read(source, level, schema, method, int(starts[0]), int(starts[-1]))
    out = []
    for i in range(parents.units):
        a, b = int(starts[i] - starts[0]), int(starts[i + 1] - starts[0])
        row = parents.rows(i, i + 1)
        family = _Family(row.cell, row.count, bounds.rows(a, b), {q: m.rows(a, b) for q, m in measured.items()})
        out.append(Estimate(int(starts[i]), row.cell, row.count, *family.solve(method)))
    return out


def estimate_root(source: MeasurementSource, level: str, schema: Schema, method: Method, bounds: Bounds) -> Estimate:
    """The root: one unit, no parent, every cell that can be positive."""
    measured = _read(source, level, schema, method, 0, 1)
    cell = np.flatnonzero(bounds.possible & (bounds.upper[0, bounds.group] > 0))
    family = _Family(cell, None, bounds, measured)
    return Estimate(0, cell, None, *family.solve(method))


@dataclass(frozen=True)
class _Answers:
    """Noisy answers of one query for a few units: values ``(units, answers)``, variance ``(units,)``."""

    query: Query
    values: NDArray[np.int64]
    variance: Array

    def rows(self, a: int, b: int) -> _Answers:
        return _Answers(self.query, self.values[a:b], self.variance[a:b])

    def some(self, keep: NDArray[np.bool_]) -> _Answers:
        return _Answers(self.query, self.values[keep], self.variance[keep])


def _read(
    source: MeasurementSource, level: str, schema: Schema, method: Method, start: int, stop: int
) -> dict[str, _Answers]:
    out = {}
    for name in dict.fromkeys(q for p in method.passes for q in p):
        m: Measurement = source.read(level, name, start, stop)
        out[name] = _Answers(schema.query(name), m.values, m.variance)
    return out


@dataclass
class _Family:
    """One parent's problem. ``parent`` is ``None`` at the root."""

    cell: NDArray[np.int64]
    parent: NDArray[np.int64] | None
    bounds: Bounds
    measured: Mapping[str, _Answers]
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
        bounds = Bounds(
            self.bounds.group,
            self.bounds.lower[able],
            self.bounds.upper[able],
            None if self.bounds.total is None else self.bounds.total[able],
            self.bounds.possible,
            None if self.bounds.reach is None else self.bounds.reach[able],
        )
        inner = self._restricted(able, bounds)
        x[able] = inner._passes(method)
        return x, inner.certificate

    def _restricted(self, able: NDArray[np.bool_], bounds: Bounds) -> _Family:
        """The same problem for some of the children."""
        return _Family(self.cell, self.parent, bounds, {q: a.some(able) for q, a in self.measured.items()})

    def _able(self) -> NDArray[np.bool_]:
        """Children that may hold somebody of the parent's."""
        able: NDArray[np.bool_] = np.any(self.bounds.upper[:, np.unique(self.bounds.group[self.cell])] > 0, axis=1)
        return able if self.bounds.total is None else able & (self.bounds.total > 0)

    def _passes(self, method: Method) -> Array:
        carried: list[tuple[Query, Array]] = []
        for names in method.passes:
            answers = [self.measured[n] for n in names]
            last = names is method.passes[-1]
            if not last and self.bounds.total is not None and names == ("total",):
                continue  # known exactly: nothing to estimate
            if not last and self.parent is not None and all(self._coarse(a.query) for a in answers):
                x = self._spread(self._solve_groups(answers, carried, method))
            else:
                x = self._solve_cells(answers, carried, method)
            carried += [(a.query, _sum_to(x, a.query.index[self.cell], a.query.answers)) for a in answers]
        return x

    def _coarse(self, query: Query) -> bool:
        """True if the query tells no more than the dwelling group."""
        group = self.bounds.group[self.cell]
        pairs = np.unique(group * query.answers + query.index[self.cell])
        return len(pairs) == len(np.unique(group))

    # --- one pass ------------------------------------------------------------------------------------------

    def _solve_cells(self, answers: Sequence[_Answers], carried: list[tuple[Query, Array]], method: Method) -> Array:
        group = self.bounds.group[self.cell]
        index = [a.query.index[self.cell] for a in answers]
        rows, lower, upper = self._group_rows(group)
        for query, target in carried:
            at, position = np.unique(query.index[self.cell], return_inverse=True)
            rows.append(position[None, :] == np.arange(len(at))[:, None])
            lower.append(target[:, at] - method.tolerance)
            upper.append(target[:, at] + method.tolerance)
        return self._qp(answers, index, self.parent, self.bounds.upper[:, group] > 0, rows, lower, upper, method)

    def _solve_groups(self, answers: Sequence[_Answers], carried: list[tuple[Query, Array]], method: Method) -> Array:
        """The same on dwelling groups: one variable for each group that the parent has."""
        assert self.parent is not None
        present, position = np.unique(self.bounds.group[self.cell], return_inverse=True)
        one_cell = np.array([self.cell[position == g][0] for g in range(len(present))])
        index = [a.query.index[one_cell] for a in answers]
        parent = np.bincount(position, weights=self.parent, minlength=len(present))
        rows, lower, upper = self._group_rows(present)
        for query, target in carried:
            at, where = np.unique(query.index[one_cell], return_inverse=True)
            rows.append(where[None, :] == np.arange(len(at))[:, None])
            lower.append(target[:, at] - method.tolerance)
            upper.append(target[:, at] + method.tolerance)
        return self._qp(answers, index, parent, self.bounds.upper[:, present] > 0, rows, lower, upper, method)

    def _group_rows(self, group: NDArray[np.intp]) -> tuple[list[Rows], list[Rows], list[Rows]]:
        """Rows, lower and upper bounds that can bind, over variables with the dwelling groups ``group``."""
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
        if self.bounds.reach is not None:
            subset = np.arange(1, self.bounds.reach.shape[1] - 1)
            rows.append((subset[:, None] >> group[None, :]) & 1)
            lower.append(np.full((len(self.bounds.lower), len(subset)), -np.inf))
            upper.append(self.bounds.reach[:, subset])
        return rows, lower, upper

    def _qp(
        self,
        answers: Sequence[_Answers],
        index: Sequence[NDArray[np.intp]],
        parent: NDArray[np.generic] | None,
        support: NDArray[np.bool_],
        rows: list[Rows],
        lower: list[Rows],
        upper: list[Rows],
        method: Method,
    ) -> Array:
        gram, rhs = normal_equations([(i, a.values, a.variance) for i, a in zip(index, answers, strict=True)])
        return self._least_squares(gram, rhs, parent, support, rows, lower, upper, method)

    def _least_squares(
        self,
        gram: Array,
        rhs: Array,
        parent: NDArray[Any] | None,
        support: NDArray[np.bool_],
        rows: list[Rows],
        lower: list[Rows],
        upper: list[Rows],
        method: Method,
    ) -> Array:
        solution = children_qp(
            gram,
            rhs,
            None if parent is None else parent.astype(float),
            groups=np.concatenate(rows).astype(float) if rows else None,
            lower=np.concatenate(lower, axis=1).astype(float) if rows else None,
            upper=np.concatenate(upper, axis=1).astype(float) if rows else None,
            support=None if support.all() else support,
            tol=method.accuracy,
        )
        self.certificate = self.certificate.add(solution)
        return solution.x.astype(float)

    def _spread(self, y: Array) -> Array:
        """Group sums to cells, in the proportions of the parent."""
        assert self.parent is not None
        _, position = np.unique(self.bounds.group[self.cell], return_inverse=True)
        share = self.parent / np.bincount(position, weights=self.parent)[position]
        return y[:, position] * share


def normal_equations(
    measured: Sequence[tuple[NDArray[np.intp], NDArray[np.int64], Array]],
) -> tuple[Array, Array]:
    r"""``G_c = sum_q Q'Q / Var_qc`` and ``b_c = sum_q Q'm_qc / Var_qc`` on some cells.

    Each query is ``(index, values, variance)``: the answer of each cell ``(m,)``, values ``(units, answers)``,
    variance ``(units,)`` (infinite: not measured). ``G`` is ``(m, m)`` if all units share their variances,
    else ``(units, m, m)``; :math:`(Q'Q)_{kl} = 1` exactly where k and l have the same answer.
    """
    units, cells = len(measured[0][1]), len(measured[0][0])
    shared = all((v == v[0]).all() for _, _, v in measured)
    gram = np.zeros((cells, cells) if shared else (units, cells, cells))
    rhs = np.zeros((units, cells))
    for index, values, variance in measured:
        weight = 1.0 / np.maximum(variance, LEAST_VARIANCE)
        same = index[:, None] == index[None, :]
        gram += weight[0] * same if shared else weight[:, None, None] * same
        rhs += weight[:, None] * values[:, index]
    return gram, rhs


def _sum_to(x: Array, index: NDArray[np.intp], answers: int) -> Array:
    out = np.zeros((answers, len(x)))
    np.add.at(out, index, x.T)
    return out.T
