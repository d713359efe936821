r"""The failsafe: what happens where a parent's problem has no solution.

The children of a parent must hold its counts p, and the facilities and known totals below a child
bound it. If no histograms of the children (and of all descendants with known totals) satisfy both,
then p gives way. It is replaced by the nearest :math:`p'`, in :math:`\sum_k |p'_k - p_k|`, that has
the same sum and makes the problem feasible.

* Only sums over the dwelling groups matter: within a group any counts can be shared out, cell by
  cell. So the least change is the least number of persons who change their group, a flow
  (:mod:`das.solve.children`).
* The persons who change are taken from the group's cells in proportion. They keep their other
  attributes where the new group has such a cell. From a structural zero they go to the cell that
  differs in fewest attributes.
* The same persons change in every ancestor. So each parent is again the sum of its children. Known
  totals stay, since nobody is added or lost. Once all parents of the level are repaired, an
  ancestor is a sum of histograms that can be shared out. So it can be shared out, too.

It is a last resort. A parent that was rounded together with its descendants
(:mod:`das.rounding.controlled`) can always be shared out. A unit without known totals below holds what
its children hold, group by group, within the sums of their bounds. The certificates count the
persons that the failsafe moves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from das.errors import InfeasibleError
from das.model.constraint import MOST_GROUPS, Bounds
from das.model.histogram import Histogram
from das.model.level_bounds import LevelBounds
from das.model.schema import Schema
from das.model.solution import Certificate
from das.model.spine import Spine
from das.rounding.controlled import below
from das.solve import least_moves

Ints = NDArray[np.int64]


def repair(
    schema: Schema,
    spine: Spine,
    bounds: Mapping[str, LevelBounds],
    published: Mapping[str, Histogram],
    level: str,
) -> tuple[dict[str, Histogram], Certificate]:
    """``published`` (the levels from the root to ``level``) with the least changes that let every
    unit of ``level`` be shared out among its descendants; and how many units and persons that took.

    Raises :class:`InfeasibleError` where no change of groups is enough: known totals that are not
    met."""
    out, changes = dict(published), []
    for unit in _suspects(published[level], bounds[level]):
        found = below(spine, bounds, level, unit, unit + 1)
        if found is None:
            continue
        row, low = published[level].rows(unit, unit + 1), found[1]
        assert low.total is not None
        moves = least_moves(_held(row, low)[0], low.lower, low.upper, low.total)
        if moves is None:
            raise InfeasibleError(
                "its persons cannot be shared out among the units below with known totals, whatever"
                " their dwellings",
                where=f"{level} {spine.code(level, unit)}",
                remedy="compare the known totals of the levels with each other",
            )
        if moves.any():
            changes.append((unit, *_changed(row, moves, schema, low)))
    if not changes:
        return out, Certificate()
    home = np.concatenate([np.full(len(cell), unit) for unit, cell, _ in changes])
    cell, count = (np.concatenate([c[i] for c in changes]) for i in (1, 2))
    for above in spine.levels[: spine.index(level) + 1]:
        h = published[above]
        at = spine.up(level, above)[home]
        out[above] = Histogram.of(
            h.units, h.cells, *map(np.concatenate, ((h.unit, at), (h.cell, cell), (h.count, count)))
        )
    return out, Certificate(repaired=len(changes), moved=int(count[count > 0].sum()))


def _held(h: Histogram, bounds: Bounds) -> Ints:
    """Persons in each dwelling group, ``(units, groups)``."""
    out = np.zeros((h.units, bounds.groups), dtype=np.int64)
    np.add.at(out, (h.unit, bounds.group[h.cell]), h.count)
    return out


def _suspects(h: Histogram, bounds: LevelBounds) -> list[int]:
    """Units that may not be shared out. Within their own bounds and the reach of every subset of
    groups they can be (max-flow min-cut), and with all known sums
    (:mod:`das.geography.invariants`); where subsets are not listed, only a flow can tell."""
    if bounds.exact:
        return []
    if bounds.groups > MOST_GROUPS:
        return list(range(h.units))
    own = bounds.dense()
    held = _held(h, own)
    bad = (held < own.lower).any(axis=1) | (held > own.upper).any(axis=1)
    return np.flatnonzero(bad | (own.excess(held) > 0).any(axis=1)).tolist()


def _changed(row: Histogram, moves: Ints, schema: Schema, bounds: Bounds) -> tuple[Ints, Ints]:
    """Cells and by how much their counts change, when ``moves[g, k]`` persons change from group g
    to k.
    """
    cell, count = row.cell, row.count.copy()
    cells, changes = [], []
    for g, k in np.argwhere(moves):
        here = np.flatnonzero(bounds.group[cell] == g)
        taken = _in_proportion(count[here], int(moves[g, k]))
        count[here] -= taken
        cells += [cell[here], _same_elsewhere(schema, bounds, cell[here], int(k))]
        changes += [-taken, taken]
    return np.concatenate(cells), np.concatenate(changes)


def _in_proportion(count: Ints, n: int) -> Ints:
    """n persons of ``count``, by largest remainders."""
    whole, rest = np.divmod(count * n, count.sum())
    whole[np.argsort(-rest, kind="stable")[: n - whole.sum()]] += 1
    return whole


def _same_elsewhere(schema: Schema, bounds: Bounds, cell: Ints, group: int) -> Ints:
    """For each cell the one of a dwelling group with the same other attributes or, where that is
    impossible, with as many as can be."""
    labels = np.stack(np.unravel_index(cell, schema.shape))
    there = np.flatnonzero(bounds.possible & (bounds.group == group))
    same = (np.stack(np.unravel_index(there, schema.shape))[:, None, :] == labels[:, :, None]).sum(
        axis=0
    )
    return there[same.argmax(axis=1)]
