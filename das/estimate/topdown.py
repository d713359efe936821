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

import numpy as np
from numpy.typing import NDArray

from das.estimate.family import Family, Method, NoisyAnswers
from das.model.constraint import Bounds
from das.model.estimate import Estimate
from das.model.histogram import Histogram
from das.model.measurement import Measurement, MeasurementSource
from das.model.schema import Schema


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
        family = Family(row.cell, row.count, bounds.rows(a, b), {q: m.rows(a, b) for q, m in measured.items()})
        out.append(Estimate(int(starts[i]), row.cell, row.count, *family.solve(method)))
    return out


def estimate_root(source: MeasurementSource, level: str, schema: Schema, method: Method, bounds: Bounds) -> Estimate:
    """The root: one unit, no parent, every cell that can be positive."""
    measured = _read(source, level, schema, method, 0, 1)
    cell = np.flatnonzero(bounds.possible & (bounds.upper[0, bounds.group] > 0))
    family = Family(cell, None, bounds, measured)
    return Estimate(0, cell, None, *family.solve(method))


def _read(
    source: MeasurementSource, level: str, schema: Schema, method: Method, start: int, stop: int
) -> dict[str, NoisyAnswers]:
    out = {}
    for name in dict.fromkeys(q for p in method.passes for q in p):
        m: Measurement = source.read(level, name, start, stop)
        out[name] = NoisyAnswers(schema.query(name), m.values, m.variance)
    return out
