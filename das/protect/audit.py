r"""The audit: what the published lines of a unit say together about each line.

Every line i that is not exact has a least and a largest :math:`Q_i x` over all :math:`x \ge 0` with
:math:`l \le Q x \le u`. Two linear programs find them; :mod:`das.protect.unit_lines` makes these
small. The ends are rounded inwards, since counts are integers; over integer x the range can be
narrower still. A hidden line with one value in its range is disclosed.

Each unit is audited by itself. The tables of the units above are more equations about several of
them, which this audit does not use.

Source: M. Fischetti, J. J. Salazar, Models and algorithms for optimizing cell suppression in
tabular data with linear constraints, JASA 95 (2000)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from das.errors import InfeasibleError, SolverError
from das.model.frozen import Frozen
from das.protect.published import UNBOUNDED, LevelLines
from das.protect.table_set import LineMatrix
from das.protect.unit_lines import DistinctLines

#: Cells of the programs that are solved together.
_TOGETHER = 4000
#: How far the value of a linear program may be from an integer that it means.
_NEAR = 1e-6


@dataclass(frozen=True, eq=False)
class AuditRanges(Frozen):
    """The range of each line, ``(units, lines)``: what follows from all lines of its unit."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]

    @property
    def width(self) -> NDArray[np.int64]:
        return self.upper - self.lower


def audit(lines: LevelLines, of: LineMatrix) -> AuditRanges:
    """The range of every line of every unit. Raises :class:`InfeasibleError` for a unit whose
    lines no records have, such as one with rounded sums that contradict each other."""
    lower, upper = lines.lower.copy(), lines.upper.copy()
    for u in np.flatnonzero((lines.lower < lines.upper).any(axis=1)):
        unit = DistinctLines.of(of.matrix, lines.lower[u], lines.upper[u], UNBOUNDED)
        low, high = ranges(unit, np.flatnonzero(~unit.exact))
        here = unit.row >= 0
        lower[u, here], upper[u, here] = low[unit.row[here]], high[unit.row[here]]
        upper[u, ~here] = 0
    return AuditRanges(lower, upper)


def ranges(
    unit: DistinctLines, asked: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The range of each row of a unit, ``(rows,)``: the bounds it has, narrowed for those asked
    for. A row has no largest value if and only if one of its cells is in no row with an upper
    bound."""
    least = unit.lower.astype(np.int64)
    most = np.where(np.isinf(unit.upper), UNBOUNDED, unit.upper).astype(np.int64)
    free = ~unit.rows[np.isfinite(unit.upper)].any(axis=0)
    bounded = asked[~unit.rows[asked][:, free].any(axis=1)]
    least[asked] = np.ceil(_ends(unit, unit.rows[asked]) - _NEAR)
    most[bounded] = np.floor(_NEAR - _ends(unit, -unit.rows[bounded]))
    most[np.setdiff1d(asked, bounded)] = UNBOUNDED
    return least, most


def _ends(unit: DistinctLines, objectives: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least value of each objective, ``(objectives, cells)``, over the histograms x >= 0 that
    have the lines of the unit. Programs of some thousand cells together are one program, whose
    parts do not touch: that spares the cost of a call for each."""
    known = (unit.lower > 0) | np.isfinite(unit.upper)
    rows, cells = sparse.csr_array(unit.rows[known]), unit.rows.shape[1]
    out, step = [np.zeros(0)], max(1, _TOGETHER // max(cells, 1))
    for start in range(0, len(objectives), step):
        part = objectives[start : start + step]
        every = sparse.kron(sparse.identity(len(part)), rows, format="csr")
        low, high = (np.tile(x, len(part)) for x in (unit.lower[known], unit.upper[known]))
        found = milp(
            part.ravel(), constraints=LinearConstraint(every, low, high), bounds=Bounds(0, np.inf)
        )
        if found.status == 2:
            raise InfeasibleError("no records have the published lines of a unit", where="audit")
        if found.x is None:
            raise SolverError(f"a linear program ended with: {found.message}", where="audit")
        out.append((part * found.x.reshape(part.shape)).sum(axis=1))
    return np.concatenate(out)
