r"""Bounds from constraints: what each unit of each level can hold.

With structures :math:`n_{ug}` (housing units for :math:`g = 0`, facilities of type :math:`g`
otherwise), households can be empty and each facility holds somebody:

.. math:: l_{u0} = 0, \quad l_{ug} = n_{ug}\ (g \ge 1), \qquad h_{ug} = 99{,}999\, n_{ug},

These are the Bureau's bounds, added up from the lowest level to every other. Known totals are added
up from their own level to those above. Below that level they are unknown.

*Reach.* Can a histogram with group sums :math:`y` be shared out among descendants :math:`d` with
known totals :math:`t_d`? That is a transport problem with bounds on its arcs; by max-flow min-cut
it is feasible if and only if for every subset :math:`T` of groups

.. math:: \sum_{g \in T} y_g \le f(T) = \sum_d \min\Bigl(\sum_{g \in T} h_{dg},\; t_d - \sum_{g \notin T} l_{dg}\Bigr).

Estimating the levels above inside these bounds makes every later problem feasible, by construction.

*Joint totals.* Let the total be known for the units of a part :math:`s` together. Each member
:math:`d \in s` passes on what it takes to one node of demand :math:`t_s`. Then

.. math:: f(T) = \sum_s \min\Bigl(\sum_{d \in s} \sum_{g \in T} h_{dg},\;
          t_s - \sum_{d \in s} \sum_{g \notin T} l_{dg}\Bigr).

*Proof.* Subtract what the lower bounds force. Take a cut with the groups :math:`T` on the source's
side. A part's demand node can be on that side, too; then the cut has the demand left,
:math:`t_s - \sum_{d \in s} \sum_g l_{dg}`. If it is not, each member costs the lesser of its arcs
from :math:`T`, :math:`\sum_{g \in T} (h_{dg} - l_{dg})`, and its arc to the demand node. That arc
has no limit, so the member costs its arcs from :math:`T`. The cheaper of the two for each part,
with :math:`\sum_{d \in s} \sum_{g \in T} l_{dg}` put back, is :math:`f(T)`. By max-flow min-cut all
of :math:`y` flows if and only if no :math:`\sum_{g \in T} y_g` exceeds it. So a part counts as one
unit whose bounds are the sums of its members' (:meth:`das.model.constraint.LevelBounds.by_part`).
A unit alone in its part counts as itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from das.model.constraint import (
    MOST_GROUPS,
    NO_LIMIT,
    Ints,
    JointTotals,
    Keep,
    LevelBounds,
    Limits,
    add_up,
    pieces,
)
from das.model.schema import Schema
from das.model.spine import Spine

#: No unit holds more persons than this for each structure (the Bureau's bound).
MOST_IN_A_STRUCTURE = 99_999


def lowest(
    schema: Schema,
    structures: Ints | None,
    *,
    housing_units: bool = True,
    group_quarters: bool = True,
) -> tuple[Ints, Ints] | None:
    """Lower and upper bounds of the dwelling groups of the lowest units, from their structures.

    ``structures`` has shape (units, dwelling levels). ``None`` where nothing bounds the groups: no
    dwelling attribute, no structures, or both constraints switched off."""
    if schema.dwelling is None or structures is None or not (housing_units or group_quarters):
        return None
    lower, upper = np.zeros_like(structures), np.full_like(structures, NO_LIMIT)
    if group_quarters:
        lower[:, 1:], upper[:, 1:] = structures[:, 1:], structures[:, 1:] * MOST_IN_A_STRUCTURE
    if housing_units:
        upper[:, 0] = structures[:, 0] * MOST_IN_A_STRUCTURE
    return lower, upper


def bounds(
    schema: Schema,
    spine: Spine,
    limits: Limits | None,
    total: Ints | JointTotals | None,
    total_level: str | None,
) -> dict[str, LevelBounds]:
    """Bounds of every level from those of the lowest (see :func:`lowest`; ``None``: no bound) and
    the known totals of ``total_level``, ``(units,)``, or of siblings of that level together."""
    group, groups = groups_of(schema)
    if limits is None:
        limits = unlimited(spine.units(spine.levels[-1]), groups)
    known, joint = _totals_up(spine, total, total_level)
    out: dict[str, LevelBounds] = {}
    reach: Ints | None = None
    for depth in range(len(spine) - 1, -1, -1):
        level = spine.levels[depth]
        here = known.get(level)
        keep = reach is not None and here is not None and not _implied(reach, limits, here)
        own = joint if level == total_level else None
        out[level] = LevelBounds(group, limits, here, schema.possible, reach if keep else None, own)
        if depth:
            n, parent = len(spine.codes[depth - 1]), spine.parent[depth]
            if level == total_level:
                one = out[level].by_part()
                reach = _reach_up(
                    one.limits, one.total, joint.homes(parent) if joint else parent, n
                )
            elif reach is not None:
                reach = add_up(reach.__getitem__, reach.shape[1], parent, n)
            limits = limits.add_up(parent, n)
    return {level: out[level] for level in spine.levels}


def groups_of(schema: Schema) -> tuple[NDArray[np.intp], int]:
    """The dwelling group of each cell, ``(cells,)``, and how many there are."""
    if schema.dwelling is None:
        return np.zeros(schema.cells, dtype=np.intp), 1
    return schema.level_of(schema.dwelling), len(schema.attribute(schema.dwelling).levels)


def unlimited(units: int, groups: int) -> Limits:
    """Limits that are none."""
    free = np.zeros((1, groups), dtype=np.int64)
    return Limits(free, free + NO_LIMIT, np.zeros(units, dtype=np.int32))


def _totals_up(
    spine: Spine, total: Ints | JointTotals | None, level: str | None
) -> tuple[Mapping[str, Ints], JointTotals | None]:
    """The totals of each unit, at the levels where they are known; and those of several units, if
    there are any."""
    if total is None or level is None:
        return {}, None
    joint = total if isinstance(total, JointTotals) else None
    if isinstance(total, JointTotals):
        if len(total.total) == len(total.part):  # every unit alone in its part
            joint = None
        total = total.total if joint else total.total[total.part]
    known = {} if joint else {level: total}
    for depth in range(spine.index(level), 0, -1):
        parent = spine.parent[depth]
        home = joint.homes(parent) if joint and spine.levels[depth] == level else parent
        total = add_up(total[:, None].__getitem__, 1, home, len(spine.codes[depth - 1]))[:, 0]
        known[spine.levels[depth - 1]] = total
    return known, joint


def _subsets(values: Ints) -> Ints:
    """Sums over every subset of the columns: ``(units, groups) -> (units, 2^groups)``."""
    member = (np.arange(1 << values.shape[1])[:, None] >> np.arange(values.shape[1])) & 1
    return values @ member.T


def _reach(limits: Limits, total: Ints, keep: Keep) -> Ints:
    """f(T) of some units, ``(units, 2^groups)``; ``total`` is known of each. Sums over subsets are
    of each distinct row."""
    used, row = np.unique(limits.row[keep], return_inverse=True)
    lower, upper = limits.lower[used], limits.upper[used]
    elsewhere = lower.sum(axis=1, keepdims=True) - _subsets(lower)
    return np.minimum(_subsets(upper)[row], total[keep, None] - elsewhere[row])


def _reach_up(limits: Limits, total: Ints | None, home: Ints, homes: int) -> Ints | None:
    """The sums of f(T). ``None`` for more groups than subsets can be listed for: the levels above
    are then kept shareable by their rounding alone."""
    if total is None or limits.groups > MOST_GROUPS:
        return None
    return add_up(lambda keep: _reach(limits, total, keep), 1 << limits.groups, home, homes)


def _implied(reach: Ints, limits: Limits, total: Ints) -> bool:
    """True if the units' own bounds and totals already say as much."""
    return all((_reach(limits, total, here) <= reach[here]).all() for here in pieces(*reach.shape))
