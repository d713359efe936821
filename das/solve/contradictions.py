"""Bounds that contradict the parent, the support or each other, named before anything is solved."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from das.errors import InfeasibleError
from das.solve.partitions import Parts

Array = NDArray[np.float64]
_WHERE = "children_qp"


def refuse_contradictions(
    parent: Array | None,
    rows: Any,
    lower: Array,
    upper: Array,
    support: NDArray[np.bool_] | None,
    parts: Parts,
) -> None:
    """Raise :class:`InfeasibleError`, naming child and group, part or cell, where one bound, one
    cell, one group or one part's total alone rules out every answer. ``rows`` ``(groups, cells)``,
    dense or sparse, of 0 and 1; ``lower``, ``upper`` ``(children, groups)``.

    Constraints that contradict each other only together are left to the certificate."""
    _refuse(lower > upper + 1e-9, lower, "the lower bound is", upper, "the upper bound is")
    if parent is not None:
        _refuse_parent(parent, rows, lower, upper, support)
    if not rows.shape[0] and not len(parts):
        return
    most = _most(parent, rows, support, len(lower))
    short = lower > most + 1e-6 * (1 + np.abs(most))
    _refuse(short, lower, "it needs", most, "the cells that the child may use hold at most")
    _refuse(upper < -1e-9, np.zeros_like(upper), "it needs", upper, "the upper bound is")
    if len(parts):
        _refuse_parts(parent, rows, lower, np.minimum(upper, most), support, parts)


def _refuse(bad: NDArray[np.bool_], wanted: Array, what: str, limit: Array, why: str) -> None:
    if bad.any():
        c, g = np.argwhere(bad)[0]
        message = f"child {c}, group {g}: {what} {wanted[c, g]:.6g}, but {why} {limit[c, g]:.6g}"
        raise InfeasibleError(message, where=_WHERE)


def _most(
    parent: Array | None, rows: Any, support: NDArray[np.bool_] | None, children: int
) -> Array:
    """The most that each child can hold of each group: what the parent has in the cells of its
    support."""
    if support is None:
        held = np.full(rows.shape[0], np.inf) if parent is None else rows @ parent
        return np.broadcast_to(held, (children, rows.shape[0]))
    if parent is None:
        return np.where(support @ rows.T > 0, np.inf, 0.0)
    return np.asarray((support * parent) @ rows.T)


def _refuse_parts(
    parent: Array | None,
    rows: Any,
    lower: Array,
    upper: Array,
    support: NDArray[np.bool_] | None,
    parts: Parts,
) -> None:
    """A part's total against the bounds of its children, and the totals against the parent."""
    apart = bool((rows.sum(axis=0) <= 1).all())  # no cell in two groups: their bounds add up
    over = (lambda b: b.sum(axis=1)) if apart else (lambda b: b.max(axis=1, initial=0.0))
    least = parts.sums(over(np.maximum(lower, 0.0)))
    one = np.ones((1, rows.shape[1]))
    high = _most(parent, one, support, len(lower))[
        :, 0
    ]  # what its cells hold, or the bounds of all cells
    if apart and (rows.sum(axis=0) == 1).all():
        high = np.minimum(high, upper.sum(axis=1))
    full = rows.sum(axis=1) == rows.shape[1]
    high = np.minimum(high, upper[:, full].min(axis=1, initial=np.inf))
    most = parts.sums(high)
    slack = 1e-6 * (1 + np.abs(parts.total))
    if (bad := (least > parts.total + slack) | (most < parts.total - slack)).any():
        s = int(np.flatnonzero(bad)[0])
        raise InfeasibleError(
            f"part {s}: its total is {parts.total[s]:.6g}, its children together may hold"
            f" {least[s]:.6g} to {most[s]:.6g}",
            where=_WHERE,
        )
    if parent is None:
        return
    held = float(parent.sum())
    known = float(parts.total.sum())
    loose = 1e-6 * (1 + float(parent.sum()))
    if known > held + loose or (parts.bound.all() and known < held - loose):
        raise InfeasibleError(
            f"the totals of the parts sum to {known:.6g}, the parent holds {held:.6g}", where=_WHERE
        )


def _refuse_parent(
    parent: Array, rows: Any, lower: Array, upper: Array, support: NDArray[np.bool_] | None
) -> None:
    if (parent < 0).any():
        _refuse_cell(parent < 0, "is negative")
    if support is not None and (lost := (parent > 0) & ~support.any(axis=0)).any():
        _refuse_cell(lost, "is positive, but no child may hold it")
    if not rows.shape[0]:
        return
    held = rows @ parent
    slack = 1e-6 * (1 + np.abs(held))
    least, most = lower.sum(axis=0), upper.sum(axis=0)
    bad = (least > held + slack) | (most < held - slack)
    if bad.any():
        g = int(np.flatnonzero(bad)[0])
        raise InfeasibleError(
            f"group {g}: the parent holds {held[g]:.6g}, the children together may hold"
            f" {least[g]:.6g} to {most[g]:.6g}",
            where=_WHERE,
        )


def _refuse_cell(bad: NDArray[np.bool_], why: str) -> NoReturn:
    raise InfeasibleError(f"cell {int(np.flatnonzero(bad)[0])} of the parent {why}", where=_WHERE)
