"""Whole numbers for all groups of a tree (:mod:`das.detailed.integers`), from the top down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from das.detailed import integers
from das.detailed.forest import Forest, Outline
from das.detailed.joint import Belief
from das.detailed.layers import coarser

Ints = NDArray[np.int64]


@dataclass(eq=False)
class Wholes:
    """For each layer, the ``totals`` ``(regions, columns)``. By layer, region and column, the cells
    of the node's ``tables``.
    """

    totals: list[Ints] = field(default_factory=list)
    tables: dict[tuple[int, int, int], Ints] = field(default_factory=dict)


def wholes(forest: Forest, top: Wholes | None = None) -> Wholes:
    """The whole numbers of a forest. ``top`` has those of the roots, from the tree above."""
    out = Wholes()
    first = (
        np.maximum(np.rint(np.nan_to_num(forest.final[0].value)), 0).astype(np.int64)
        if top is None
        else top.totals[0]
    )
    out.totals.append(_summed(forest, 0, first.copy()))
    for at, parent in enumerate(forest.parents):
        values, totals = (
            np.nan_to_num(forest.final[at + 1].value),
            np.zeros(forest.final[at + 1].value.shape, dtype=np.int64),
        )
        for row in range(len(forest.layers[at])):
            here = slice(*np.searchsorted(parent, [row, row + 1]))
            totals[here] = integers.nearest(values[here], out.totals[at][row])
        out.totals.append(_summed(forest, at + 1, totals))
    if top is not None:
        out.tables |= top.tables
    special = [{(r, c): s for r, c, s in forest.joints(at)} for at in range(len(forest.layers))]
    for at, layer in enumerate(forest.layers):
        if at:
            _families(forest, at - 1, out, special[at])
        if not isinstance(layer, Outline):
            for row, c in np.argwhere(layer.node_size > 0).tolist():
                if (at, row, c) not in out.tables:
                    cells = _cells(forest, at, row, c, special[at])[:, None]
                    out.tables[at, row, c] = integers.nearest(
                        cells, out.totals[at][row, c : c + 1]
                    )[:, 0]
    return out


def _families(
    forest: Forest, at: int, out: Wholes, special: Mapping[tuple[int, int], Belief]
) -> None:
    """The cells of children in families that add up in cells."""
    parents, children = forest.layers[at], forest.layers[at + 1]
    for row, c in np.argwhere(forest.family[at] > 0).tolist():
        size = int(forest.family[at][row, c])
        members = range(*np.searchsorted(forest.parents[at], [row, row + 1]))
        own = [_cells(forest, at + 1, m, c, special) for m in members]
        to = [coarser(children.table, int(children.node_size[m, c]), size) for m in members]
        cells = (
            coarser(parents.table, int(parents.node_size[row, c]), size) @ out.tables[at, row, c]
        )
        rounded = integers.families(
            np.stack([a @ x for a, x in zip(to, own, strict=True)]),
            out.totals[at + 1][members.start : members.stop, c],
            np.rint(cells).astype(np.int64),
        )
        for m, x, a, coarse in zip(members, own, to, rounded, strict=True):
            out.tables[at + 1, m, c] = integers.refined(x, np.argmax(a, axis=0), coarse)


def _cells(
    forest: Forest, at: int, row: int, c: int, special: Mapping[tuple[int, int], Belief]
) -> NDArray[np.float64]:
    if (row, c) in special:
        return special[row, c].mean
    own = forest.layers[at].state(row, c).mean
    return np.asarray(own + (forest.final[at].value[row, c] - own.sum()) / len(own))


def _summed(forest: Forest, at: int, totals: Ints) -> Ints:
    """Regional groups that are sums, as sums."""
    measured = forest.layers[at].measured
    for whole, parts in forest.sums:
        if measured[[whole, *parts]].all():
            totals[:, whole] = totals[:, list(parts)].sum(axis=1)
    return totals
