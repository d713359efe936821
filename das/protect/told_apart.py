"""A schema no finer than its tables: levels of an attribute that no line tells apart are one.

An attack on tables of 23 age groups is about 23 age groups. In the cells of a finer schema nothing
would ever be certain, for want of a table that says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from das.model.attribute import Attribute
from das.model.grouping import Grouping
from das.model.schema import Schema
from das.protect.table_set import TableSet
from das.tables import Table


def told_apart(tables: TableSet) -> tuple[TableSet, NDArray[np.int64]]:
    """The same tables over the coarser schema, and its cell of each cell of the schema now. The
    new schema has no structural zeros: a cell is possible where one of its cells was."""
    schema, every = tables.schema, [t for each in tables.tables.values() for t in each]
    groups, attributes = [], []
    for axis, attribute in enumerate(schema.attributes):
        index = np.array([t.query.groupings[axis].index for t in every])
        _, first, group = np.unique(index, axis=1, return_index=True, return_inverse=True)
        order = np.argsort(first)
        groups.append(np.argsort(order)[group.ravel()])
        attributes.append(_joined(attribute, groups[-1]))
    coarse = Schema(schema.name, tuple(attributes))
    levels = np.unravel_index(np.arange(schema.cells), schema.shape)
    cell = np.ravel_multi_index(
        tuple(g[x] for g, x in zip(groups, levels, strict=True)), coarse.shape
    )
    first_of = [np.unique(g, return_index=True)[1] for g in groups]
    made: Mapping[str, tuple[Table, ...]] = {
        level: tuple(_on(t, first_of) for t in each) for level, each in tables.tables.items()
    }
    return TableSet(tables.name, coarse, made), cell.astype(np.int64)


def _joined(attribute: Attribute, group: NDArray[np.int64]) -> Attribute:
    levels, labels = [], []
    for g in range(int(group.max()) + 1):
        (inside,) = np.nonzero(group == g)
        a, b = int(inside[0]), int(inside[-1])
        one = a == b
        levels.append(
            attribute.levels[a] if one else f"{attribute.levels[a]}..{attribute.levels[b]}"
        )
        labels.append(
            attribute.labels[a] if one else f"{attribute.labels[a]} .. {attribute.labels[b]}"
        )
    return replace(attribute, levels=tuple(levels), labels=tuple(labels))


def _on(table: Table, first: list[NDArray[np.intp]]) -> Table:
    """The table over the coarser schema: each group has the place of its first level."""
    made = tuple(
        _cut(grouping, at) for grouping, at in zip(table.query.groupings, first, strict=True)
    )
    return replace(table, query=replace(table.query, groupings=made))


def _cut(grouping: Grouping, at: NDArray[np.intp]) -> Grouping:
    return replace(grouping, index=tuple(np.asarray(grouping.index)[at].tolist()))
