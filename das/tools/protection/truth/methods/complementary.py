r"""Complementary suppression: which lines must be hidden so that the small ones stay hidden.

The rows of a unit (:mod:`das.tools.protection.truth.methods.unit_lines`) have counts t. The *primary* ones are hidden, and
more of the least total cost. What is shown must leave each primary row i a range :math:`[l_i, u_i]`
(over :math:`x \ge 0`, :mod:`das.tools.protection.truth.methods.complementary`) with

.. math:: t_i - l_i \ge s, \quad u_i - t_i \ge s, \quad u_i - l_i \ge w,

``side`` s and ``width`` w. A row that is 0 is always shown. The cost of a row is its count, times
the number of its lines.

The cheapest rows are found by :mod:`das.tools.protection.truth.methods.complementary`, for small tables. Here, for blocks by
the thousand, :func:`enough` collects *witnesses*: histograms with all shown rows, that have primary
rows elsewhere than they are.

1. A linear program moves as many primary rows as it can at once, up or down, with the present
   hidden rows. It is repeated with those that have not moved far enough, until none moves more.
2. For a row that is still missing, the cheapest change of the shown rows moves it: :math:`\min
   \sum_{c\ \text{shown}} w_c |Q_c x - t_c|` with :math:`x \ge 0` and :math:`Q_i x` where it must be.
   The rows that change are hidden. Every range is then wide enough, by construction.
3. Rows that are not needed are shown again, the most costly first, if witnesses without them can
   be found.

Source: L. H. Cox, Network models for complementary cell suppression, JASA 90 (1995), for two-way
tables; M. Fischetti, J. J. Salazar, JASA 95 (2000), for any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from das.errors import InfeasibleError, InputError, SolverError
from das.model.frozen import Frozen
from das.model.spine import Spine
from das.tools.protection.published import UNBOUNDED, LevelLines, LineMatrix, TableSet

# The lines of one unit without what repeats: the linear programs of an audit are about these.
#
# A line that is known to be 0 makes each of its cells 0. Cells that the same lines count are added
# up to one. Lines with the same cells are one row. What remains is small: a block of 50 persons has
# some 30 cells and 100 rows of the 9,576 and 773 that its tables have.


@dataclass(frozen=True, eq=False)
class DistinctLines(Frozen):
    """``rows``: which cells each row counts, ``(rows, cells)``, 0 or 1; ``row``: the row of each
    line, ``(lines,)``, -1 for a line that is 0; ``lower`` and ``upper``: what is known of each
    row, ``(rows,)``, floats, the latter infinite where nothing is known."""

    rows: NDArray[np.float64]
    row: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @staticmethod
    def from_bounds(
        matrix: sparse.csr_array, lower: NDArray[np.int64], upper: NDArray[np.int64], unbounded: int
    ) -> DistinctLines:
        """From the bounds of a unit's lines, ``(lines,)``; ``unbounded`` is the upper bound of a
        line that is unknown. Raises :class:`InputError` where the lines of one row
        contradict each other."""
        zero = upper == 0
        dead = np.asarray(matrix[zero].sum(axis=0)).ravel() > 0
        kept = np.flatnonzero(~dead)
        part = matrix[:, kept]
        alive = np.flatnonzero(np.diff(part.indptr) > 0)
        dense = part[alive].toarray().astype(np.float64)
        if dense.size:
            dense = np.unique(dense, axis=1)
            dense = dense[:, dense.any(axis=0)]
        rows, at = np.unique(dense, axis=0, return_inverse=True)
        row = np.full(len(lower), -1)
        row[alive] = at.ravel()
        low, high = np.zeros(len(rows)), np.full(len(rows), np.inf)
        np.maximum.at(low, row[alive], lower[alive])
        np.minimum.at(high, row[alive], np.where(upper < unbounded, upper, np.inf)[alive])
        if (low > high).any() or (lower[row < 0] > 0).any():
            raise InputError("lines of the same cells contradict each other", where="unit's lines")
        return DistinctLines(rows, row, low, high)

    @property
    def exact(self) -> NDArray[np.bool_]:
        """The rows that are known, ``(rows,)``."""
        return self.lower == self.upper


# Differencing: a line that is hidden in one place alone is the difference of the others.
#
# Let two levels have tables, and let a line be among those of both. A *family* is a unit of the level
# above with its parts below: the line of the unit is the sum of the lines of its parts. If it is
# hidden in one member of a family alone, the others give it away. So somebody else of the family
# must be hidden, too: the member with the smallest count that is not 0.
#
# This is one equation at a time. Several together, and equations with the other lines of the places,
# can still narrow a range.

#: By level, whether each line is hidden, or its count, ``(units, lines)``.
Hidden = Mapping[str, NDArray[np.bool_]]
LineCounts = Mapping[str, NDArray[np.int64]]


def partners(hidden: Hidden, counts: LineCounts, spine: Spine, tables: TableSet) -> Hidden:
    """The lines to hide besides, by level, such that no line is hidden alone in its family."""
    out = {level: np.zeros_like(h) for level, h in hidden.items()}
    for above, here, up, down in _shared(spine, tables):
        parent = spine.up(here, above)
        for mine, theirs in zip(up, down, strict=True):
            members = np.concatenate([np.arange(spine.units(above)), parent])
            secret = np.concatenate([hidden[above][:, mine], hidden[here][:, theirs]])
            count = np.concatenate([counts[above][:, mine], counts[here][:, theirs]])
            alone = np.bincount(members, secret, minlength=spine.units(above)) == 1
            free = np.flatnonzero(alone[members] & ~secret & (count > 0))
            order = free[np.lexsort((-free, count[free], members[free]))]
            first = order[np.diff(members[order], prepend=-1) != 0]
            units = spine.units(above)
            out[above][first[first < units], mine] = True
            out[here][first[first >= units] - units, theirs] = True
    return out


def _shared(
    spine: Spine, tables: TableSet
) -> Iterator[tuple[str, str, NDArray[np.int64], NDArray[np.int64]]]:
    """Two levels next to each other among those with tables, and the numbers at each of the lines
    that both have."""
    levels = [level for level in spine.levels if level in tables.tables]
    for above, here in pairwise(levels):
        known = {cells: i for i, cells in enumerate(_cells(tables.lines(above)))}
        lines = [(known[c], j) for j, c in enumerate(_cells(tables.lines(here))) if c in known]
        up, down = np.array(lines, dtype=np.int64).reshape(-1, 2).T
        yield above, here, up, down


def _cells(lines: LineMatrix) -> list[bytes]:
    """The cells of each line."""
    m = lines.matrix.sorted_indices()
    return [m.indices[a:b].tobytes() for a, b in zip(m.indptr, m.indptr[1:], strict=False)]


# Witnesses that a hidden row can have another count: histograms with all that is shown.

#: How far a row may be from its count without a change.
_NOTHING = 1e-6


@dataclass(frozen=True, eq=False)
class Witnesses(Frozen):
    """``value``: the rows of each witness, ``(witnesses, rows)``; ``count``: the true ones."""

    value: NDArray[np.float64]
    count: NDArray[np.float64]

    @staticmethod
    def from_truth(unit: DistinctLines) -> Witnesses:
        """The truth alone."""
        return Witnesses(unit.lower[None], unit.lower)

    @property
    def differs(self) -> NDArray[np.bool_]:
        """Whether each row is elsewhere than its count, ``(witnesses, rows)``."""
        return abs(self.value - self.count) > _NOTHING

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the largest value of each row."""
        return self.value.min(axis=0) - _NOTHING, self.value.max(axis=0) + _NOTHING

    def joined(self, more: Witnesses) -> Witnesses:
        return Witnesses(np.concatenate([self.value, more.value]), self.count)

    def without(self, row: int) -> Witnesses:
        """Those that have this row at its count."""
        return Witnesses(self.value[~self.differs[:, row]], self.count)

    def moved(
        self,
        unit: DistinctLines,
        hidden: NDArray[np.bool_],
        sign: int,
        rows: NDArray[np.int64],
        by: NDArray[np.float64],
    ) -> Witnesses:
        """One more, in which these rows together move as far as they can, each as far as ``by`` at
        most: up (``sign`` 1) or down (-1)."""
        cells, n = unit.rows.shape[1], len(rows)
        shown = unit.rows[~hidden]
        fixed = sparse.hstack(
            [sparse.csr_array(shown), sparse.csr_array((len(shown), n))], format="csr"
        )
        ahead = sparse.hstack(
            [sparse.csr_array(sign * unit.rows[rows]), -sparse.identity(n)], format="csr"
        )
        limits = [LinearConstraint(ahead, sign * self.count[rows], np.inf)]
        if len(shown):
            limits.append(LinearConstraint(fixed, self.count[~hidden], self.count[~hidden]))
        most = np.concatenate([np.full(cells, np.inf), by])
        objective = np.concatenate([np.zeros(cells), -1 / by])
        return Witnesses(_solved(objective, limits, most, unit), self.count)


def changed(
    unit: DistinctLines,
    hidden: NDArray[np.bool_],
    sign: int,
    row: int,
    by: float,
    cost: NDArray[np.float64],
) -> Witnesses:
    """The histogram in which a row moves so far at the least cost of changes in the shown rows."""
    shown = np.flatnonzero(~hidden)
    n, one = len(shown), sparse.identity(len(shown), format="csr")
    balance = sparse.hstack([sparse.csr_array(unit.rows[shown]), -one, one], format="csr")
    move = np.concatenate([sign * unit.rows[row], np.zeros(2 * n)])[None]
    limits = [LinearConstraint(move, sign * unit.lower[row] + by, np.inf)]
    if n:
        limits.append(LinearConstraint(balance, unit.lower[shown], unit.lower[shown]))
    objective = np.concatenate([np.zeros(unit.rows.shape[1]), cost[shown], cost[shown]])
    return Witnesses(_solved(objective, limits, np.inf, unit), unit.lower)


def _solved(
    objective: NDArray[np.float64],
    limits: list[LinearConstraint],
    most: NDArray[np.float64] | float,
    unit: DistinctLines,
) -> NDArray[np.float64]:
    """The rows of the best histogram, ``(1, rows)``."""
    found = milp(objective, constraints=limits, bounds=Bounds(0, most))
    if found.x is None:
        raise SolverError(f"a linear program ended with: {found.message}", where="suppression")
    out: NDArray[np.float64] = (unit.rows @ found.x[: unit.rows.shape[1]])[None]
    return out


# The audit: what the published lines of a unit say together about each line.
#
# Every line i that is not exact has a least and a largest :math:`Q_i x` over all :math:`x \ge 0` with
# :math:`l \le Q x \le u`. Two linear programs find them; :mod:`das.tools.protection.truth.methods.unit_lines` makes these
# small. The ends are rounded inwards, since counts are integers; over integer x the range can be
# narrower still. A hidden line with one value in its range is disclosed.
#
# Each unit is audited by itself. The tables of the units above are more equations about several of
# them, which this audit does not use.
#
# Source: M. Fischetti, J. J. Salazar, Models and algorithms for optimizing cell suppression in
# tabular data with linear constraints, JASA 95 (2000).

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


def audit(lines: LevelLines, line_matrix: LineMatrix) -> AuditRanges:
    """The range of every line of every unit. Raises :class:`InfeasibleError` for a unit whose
    lines no records have, such as one with rounded sums that contradict each other."""
    lower, upper = lines.lower.copy(), lines.upper.copy()
    for u in np.flatnonzero((lines.lower < lines.upper).any(axis=1)):
        unit = DistinctLines.from_bounds(
            line_matrix.matrix, lines.lower[u], lines.upper[u], UNBOUNDED
        )
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


@dataclass(frozen=True)
class Protection:
    """How far a primary row must be able to lie on each ``side`` of its count, and how ``width``
    its range must be. A side ends at 0."""

    side: int = 1
    width: int = 3

    def short(
        self, count: NDArray[Any], low: NDArray[Any], high: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """Whether each range is too short."""
        above, below = self.missing(count, low, high)
        out: NDArray[np.bool_] = above | below
        return out

    def missing(
        self, count: NDArray[Any], low: NDArray[Any], high: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """Whether each range must go farther, above and below, ``(2, ranges)``."""
        narrow = high - low < self.width
        below = count - low < np.minimum(self.side, count)
        return np.stack([(high - count < self.side) | (narrow & ~below), below])

    def targets(self, count: NDArray[Any]) -> NDArray[np.float64]:
        """How far from its count each must be able to lie, above and below, ``(2, ranges)``: this
        is enough for the width, too."""
        below = np.minimum(self.side, count)
        return np.stack([np.maximum(self.side, self.width - below), below]).astype(np.float64)


def enough(
    unit: DistinctLines,
    primary: NDArray[np.int64],
    cost: NDArray[np.float64],
    wanted: Protection,
    forced: NDArray[np.int64] | None = None,
) -> NDArray[np.bool_]:
    """Rows to hide, ``(rows,)``, that are enough, and not always the cheapest. ``forced``: rows
    that are hidden in any case."""
    kept = primary if forced is None else np.union1d(primary, forced)
    hidden = np.zeros(len(cost), dtype=bool)
    hidden[kept] = True
    found = _collected(Witnesses.from_truth(unit), unit, hidden, primary, wanted)
    targets = wanted.targets(unit.lower)
    while (left := _left(found, unit, primary, wanted)).size:
        side, i = left[:, 0].tolist()
        moved = changed(unit, hidden, 1 - 2 * side, i, targets[side, i], cost)
        hidden |= moved.differs[0]
        found = _collected(found.joined(moved), unit, hidden, primary, wanted)
    return _shown_again(found, unit, hidden, primary, cost, wanted, kept)


def _left(
    witnesses: Witnesses, unit: DistinctLines, primary: NDArray[np.int64], wanted: Protection
) -> NDArray[np.int64]:
    """The sides (0 above, 1 below) and rows that no witness shows yet, ``(2, missing)``."""
    low, high = witnesses.ends
    missing = wanted.missing(unit.lower, low, high)[:, primary]
    side, at = np.nonzero(missing)
    return np.stack([side, primary[at]])


def _collected(
    witnesses: Witnesses,
    unit: DistinctLines,
    hidden: NDArray[np.bool_],
    primary: NDArray[np.int64],
    wanted: Protection,
) -> Witnesses:
    """More witnesses, until a program for all rows that are missing moves none far enough."""
    targets = wanted.targets(unit.lower)
    targets[1] = np.minimum(unit.lower, wanted.width - wanted.side)  # as far as is of use
    for side, sign in ((0, 1), (1, -1)):
        while True:
            left = _left(witnesses, unit, primary, wanted)
            rows = left[1][left[0] == side]
            if not len(rows):
                break
            more = witnesses.joined(witnesses.moved(unit, hidden, sign, rows, targets[side, rows]))
            if _left(more, unit, primary, wanted).shape == left.shape:
                break
            witnesses = more
    return witnesses


def _shown_again(
    witnesses: Witnesses,
    unit: DistinctLines,
    hidden: NDArray[np.bool_],
    primary: NDArray[np.int64],
    cost: NDArray[np.float64],
    wanted: Protection,
    kept: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """The hidden rows without those that are not needed."""
    others = np.setdiff1d(np.flatnonzero(hidden), kept)
    for c in others[np.argsort(-cost[others], kind="stable")]:
        fewer = hidden.copy()
        fewer[c] = False
        without = _collected(witnesses.without(int(c)), unit, fewer, primary, wanted)
        if not _left(without, unit, primary, wanted).size:
            hidden, witnesses = fewer, without
    return hidden


# The cheapest complementary suppression of a small table, by cuts.
#
# A master program chooses the hidden rows z, of the least cost. Where a range of a primary row is too
# short (:mod:`das.tools.protection.truth.methods.complementary`), the multipliers of its linear program name the shown rows
# that make it so. As long as all of these are shown, it stays too short: :math:`\sum z_c \ge 1` over
# them is a cut. The master is solved again until no range is too short. Each round adds cuts that the
# present choice breaks, and there are finitely many choices, so it ends, with the optimum.
#
# Source: M. Fischetti, J. J. Salazar, Models and algorithms for optimizing cell suppression in
# tabular data with linear constraints, JASA 95 (2000). Their cuts have coefficients from the
# multipliers; these are of covering type.

#: What counts as a multiplier, or as too short.
_NO_ROWS = 1e-7


def cheapest(
    unit: DistinctLines,
    primary: NDArray[np.int64],
    cost: NDArray[np.float64],
    wanted: Protection,
    forced: NDArray[np.int64] | None = None,
) -> NDArray[np.bool_]:
    """The rows to hide, ``(rows,)``, of the least cost. ``forced``: rows that are hidden in any
    case."""
    cuts: list[NDArray[np.float64]] = []
    lowest = np.zeros(len(cost))
    lowest[primary if forced is None else np.union1d(primary, forced)] = 1.0
    while True:
        cover = [LinearConstraint(np.array(cuts), 1.0, np.inf)] if cuts else []
        found = milp(cost, constraints=cover, bounds=Bounds(lowest, 1.0), integrality=1)
        if found.x is None:
            raise SolverError(
                f"the master program ended with: {found.message}", where="suppression"
            )
        hidden = found.x > 0.5
        new = [cut for i in primary for cut in _cuts(unit, hidden, int(i), wanted)]
        if not new:
            return hidden
        cuts += new


def _cuts(
    unit: DistinctLines, hidden: NDArray[np.bool_], i: int, wanted: Protection
) -> Iterator[NDArray[np.float64]]:
    """Sets of rows, one of each to be hidden: what makes a range of row i too short."""
    count = unit.lower[i]
    low, below = _reach(unit, hidden, unit.rows[i])
    high, above = _reach(unit, hidden, -unit.rows[i])
    high = -high
    if count - low < min(wanted.side, count) - _NO_ROWS:
        yield below
    if high - count < wanted.side - _NO_ROWS:
        yield above
    if high - low < wanted.width - _NO_ROWS:
        yield np.maximum(below, above)


def _reach(
    unit: DistinctLines, hidden: NDArray[np.bool_], objective: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """The least value of an objective where the other rows are shown, and those of them, 1 or 0,
    that make it so."""
    shown = np.flatnonzero(~hidden)
    found = linprog(objective, A_eq=unit.rows[shown], b_eq=unit.lower[shown], method="highs")
    binding = np.zeros(len(hidden))
    if found.status == 3:
        return -np.inf, binding
    if found.status != 0:
        raise SolverError(f"a linear program ended with: {found.message}", where="suppression")
    binding[shown[abs(found.eqlin.marginals) > _NO_ROWS]] = 1.0
    return float(found.fun), binding
